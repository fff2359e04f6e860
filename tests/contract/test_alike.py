"""Whatever is done to them, both stores say the same, and no message is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.contract.model_store import ModelStore

from onlooker.domain.errors import StoreError
from onlooker.domain.history import RetentionLimits
from onlooker.domain.messages import EMPTY_HISTORY_HASH, GENERATED_ID_PREFIX, Message, extend_history_hash
from onlooker.domain.notes import Commit, Extraction, Guard, Note, NoteStatus, Progress, Realignment, State
from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import ANA, later, note, said

EVERY: tuple[NoteStatus, ...] = ("active", "buffered", "superseded", "retired")

Step = Callable[[Store], Awaitable[object]]


class Script:
    """Random steps that a host, a worker or a person could take, given where the session stands."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.count = 0
        self.minute = 0
        self.cleared = False
        self.deleted = False  # whether originals were deleted: the chain then covers more than is left

    async def next(self, store: Store) -> Step:
        state = await store.load(ANA)
        self.minute += 1
        if state is None:
            return await self.append(store, State(Progress(ANA)))
        choices = (
            [self.append] * 3
            + [self.observe] * 3
            + [self.reflect, self.activate, self.compact, self.clear, self.pin]
        )
        choices += [self.realign] * 3 + [self.lease, self.prune, self.retain]
        return await self.random.choice(choices)(store, state)

    @property
    def now(self) -> datetime:
        return later(self.minute)

    def message(self) -> Message:
        self.count += 1
        known = self.random.random() < 0.3
        number = self.random.randint(1, self.count) if known else self.count
        prefix = GENERATED_ID_PREFIX if self.random.random() < 0.5 else "h"
        text = self.random.choice(["yes", f"text {number}", f"strange {number} \0\ud800"])
        return said(f"{prefix}{number}", text, at=self.now, tokens=number % 7)

    async def append(self, store: Store, state: State) -> Step:
        messages = [self.message() for _ in range(self.random.randint(0, 4))]
        due, now = self.random.randint(5, 60), self.now
        # Now and then with a guard, which may be out of date.
        stale = self.random.random() < 0.3
        guard = replace(state.progress, last_seq=state.progress.last_seq + stale)
        after = guard if self.random.random() < 0.4 else None
        return lambda s: s.append(ANA, messages, due_tokens=due, now=now, after=after)

    async def observe(self, store: Store, state: State) -> Step:
        chunk = state.unnoted[: self.random.randint(1, 4)]
        if not chunk:
            return lambda s: s.notes(ANA)
        self.count += 1
        status: NoteStatus = "buffered" if state.buffered or self.random.random() < 0.4 else "active"
        sources = [m.id for m in chunk]
        first, last = chunk[0].seq, chunk[-1].seq
        made = note(f"o{self.count}", first, last, status=status, sources=sources, made_at=self.now)
        marks: dict[str, Any] = {"watermark": last, "tail_start": last + 1} if status == "active" else {}
        found = [Extraction("Order", "{}", made.id, ANA, (first,), self.now, self.now)] * self.random.randint(
            0, 2
        )
        change = Commit(self.guard(state), add=(made,), frontier=last, extractions=tuple(found), **marks)
        return lambda s: s.commit(ANA, change)

    def guard(self, state: State) -> Guard:
        stale = self.random.random() < 0.1
        return Guard(state.progress.frontier + stale, state.progress.revision)

    async def activate(self, store: Store, state: State) -> Step:
        first = state.buffered[:1]
        mark = first[0].last if first else None
        change = Commit(self.guard(state), activate=tuple(n.id for n in first), watermark=mark)
        return lambda s: s.commit(ANA, change)

    async def reflect(self, store: Store, state: State) -> Step:
        chosen = state.active[: self.random.randint(2, 3)]
        if len(chosen) < 2:
            return lambda s: s.digests(ANA, newest=2)
        self.count += 1
        made = Note(
            id=f"r{self.count}",
            generation=1 + max(n.generation for n in chosen),
            first=chosen[0].first,
            last=max(n.last for n in chosen),
            text="in short",
            tokens=4,
            made_at=self.now,
            sources=tuple(n.id for n in chosen),
        )
        change = Commit(self.guard(state), add=(made,), supersede=made.sources)
        return lambda s: s.commit(ANA, change)

    async def compact(self, store: Store, state: State) -> Step:
        up_to = self.random.randint(-1, state.progress.watermark + 1)
        archive, now = self.random.random() < 0.8, self.now
        self.deleted |= not archive
        self.count += 1
        summary = said(f"s{self.count}", "so far", role="system", tokens=2)
        return lambda s: s.compact(ANA, up_to=up_to, summary=summary, archive=archive, now=now)

    async def clear(self, store: Store, state: State) -> Step:
        self.cleared = True
        kind: Any = self.random.choice([None, "observation", "reflection"])
        return lambda s: s.delete_notes(ANA, kind)

    async def pin(self, store: Store, state: State) -> Step:
        target = self.random.choice([*(d.id for d in await store.digests(ANA)), "nobody"])
        on = self.random.random() < 0.7
        return lambda s: s.pin(ANA, target, on=on)

    async def realign(self, store: Store, state: State) -> Step:
        recorded = await store.digests(ANA)
        cut = self.random.randint(0, len(recorded))
        keep = recorded[cut - 1].seq if cut else 0
        follow: list[int | Message] = [d.seq for d in recorded[cut:] if self.random.random() < 0.5]
        for _ in range(self.random.randint(0, 3)):
            follow.insert(self.random.randint(0, len(follow)), self.message())
        change = Realignment(keep, tuple(follow), state.progress.last_seq, state.progress.revision)
        due, now = self.random.randint(5, 60), self.now
        return lambda s: s.realign(ANA, change, due_tokens=due, now=now)

    async def lease(self, store: Store, state: State) -> Step:
        last_seq, wake, now = state.progress.last_seq - 1, self.random.randint(5, 60), self.now
        holder = self.random.choice("ab")

        async def work(s: Store) -> object:
            fence = await s.lease(ANA, holder=holder, now=now, until=later(self.minute + 2))
            if fence is not None and holder == "a":
                await s.release(ANA, fence=fence, last_seq=last_seq, due_at=None, wake_at=wake, failures=0)
            return fence

        return work

    async def prune(self, store: Store, state: State) -> Step:
        before = later(self.minute - self.random.randint(0, 20))
        return lambda s: s.prune(before=before)

    async def retain(self, store: Store, state: State) -> Step:
        beyond = self.random.choice([None, 0, 3, 10])
        limits = RetentionLimits(
            archive_beyond=self.random.choice([None, 2, 5]),
            delete_before=self.random.choice([None, later(self.minute - self.random.randint(0, 20))]),
            delete_beyond=beyond,
        )
        self.deleted |= limits.delete_before is not None or beyond is not None
        return lambda s: s.retain(ANA, limits)


async def _outcome(step: Step, store: Store) -> object:
    try:
        done = await step(store)
    except (StoreError, KeyError) as error:
        return type(error)
    return list(done) if isinstance(done, (list, tuple)) else done  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


async def _everything(store: Store) -> dict[str, object]:
    notes = await store.notes(ANA, statuses=EVERY)
    return {
        "state": await store.load(ANA),
        "messages": list(await store.messages(ANA)),
        "with the archive": [_plain(m) for m in await store.messages(ANA, archived=True)],
        "digests": list(await store.digests(ANA)),
        "retired": list(await store.retired(ANA)),
        "notes": list(notes),
        "extractions": list(await store.extractions(ANA)),
        "sources": {n.id: list(await store.sources(ANA, n.id)) for n in notes},
        "sessions": list(await store.sessions()),
        "due": list(await store.due(later(9999))),
        "as rows": [row async for row in store.dump()],
    }


def _plain(message: Message) -> tuple[int, str]:
    return message.seq, message.id


async def _check(store: Store, script: Script) -> None:
    state = await store.load(ANA)
    if state is None:
        return  # the first append was refused
    digests = await store.digests(ANA)
    assert len({d.id for d in digests}) == len(digests)
    assert [d.seq for d in digests] == sorted({d.seq for d in digests})
    live = await store.messages(ANA)
    assert state.progress.unnoted_tokens == sum(m.tokens for m in live if m.seq > state.progress.frontier)
    assert state.progress.watermark <= state.progress.frontier <= state.progress.last_seq
    for digest in digests:
        covering = [n for n in state.notes if n.first <= digest.seq <= n.last]
        assert len(covering) <= 1
        raw = digest.seq > state.progress.frontier and digest.id in {m.id for m in live}
        summed_up = any(m.id.startswith("s") and m.seq >= digest.seq for m in live)
        assert covering or raw or summed_up or script.cleared
    if not script.deleted:
        history_hash = EMPTY_HISTORY_HASH
        for digest in digests:
            history_hash = extend_history_hash(history_hash, digest.digest)
        assert history_hash == state.progress.history_hash
        for live_note in state.notes:
            found = [m.seq for m in await store.sources(ANA, live_note.id)]
            assert found == sorted(found)
            assert all(live_note.first <= seq <= live_note.last for seq in found)


@pytest.mark.req(43)
@example(255_456)  # a pinned message is deleted; under its id one was taken back before
@given(st.integers(0, 2**32))
def test_both_stores_say_the_same_whatever_is_done(seed: int) -> None:
    async def run(folder: Path) -> None:
        script = Script(seed)
        memory, sqlite = ModelStore(), SqliteStore(folder / "memory.db")
        await asyncio.gather(memory.open(), sqlite.open())
        try:
            for _ in range(25):
                step = await script.next(memory)
                assert await _outcome(step, memory) == await _outcome(step, sqlite)
                assert await _everything(memory) == await _everything(sqlite)
                await _check(sqlite, script)
        finally:
            await sqlite.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
