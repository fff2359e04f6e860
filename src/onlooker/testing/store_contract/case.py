"""The start of every part of the contract: an open store, times, and short conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onlooker.domain.messages import Message, Role, SessionId
from onlooker.domain.notes import Commit, Guard, Note, NoteStatus, Progress, Realignment, State
from onlooker.ports import Store

NOW = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)
NEVER = 1 << 40  # as due_tokens: no session gets that long
ANA = SessionId("ana", "telegram:42")
BEN = SessionId("ben", "telegram:42")


def later(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def said(ident: str, text: str = "", *, role: Role = "user", tokens: int = 10, **more: Any) -> Message:
    """A message as the engine passes it. Its text is its id unless another is given."""
    more.setdefault("at", NOW)
    return Message(role, text or ident, id=ident, tokens=tokens, **more)


def talk(first: int, last: int) -> list[Message]:
    """Messages m<first> to m<last>, a minute apart."""
    return [said(f"m{n}", at=later(n)) for n in range(first, last + 1)]


def note(
    ident: str,
    first: int,
    last: int,
    *,
    status: NoteStatus = "active",
    sources: Sequence[str] = (),
    **more: Any,
) -> Note:
    """A note on m<first> to m<last>, or on the notes that `sources` names."""
    ids = tuple(sources) or tuple(f"m{n}" for n in range(first, last + 1))
    values: dict[str, Any] = {"generation": 0, "text": f"about {ident}", "tokens": 5, "made_at": NOW} | more
    return Note(id=ident, first=first, last=last, sources=ids, status=status, **values)


def ids(things: Iterable[Any]) -> list[str]:
    return [thing.id for thing in things]


def seqs(messages: Iterable[Any]) -> list[int]:
    return [message.seq for message in messages]


class StoreCase:
    """A store to test."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def make_store(self) -> Store:
        """A new, empty store, not yet open."""
        raise AssertionError("override make_store")

    async def reopen(self, store: Store) -> Store:
        """The same store as another process, or this one after a restart, would open it."""
        await store.close()
        await store.open()
        return store

    @pytest.fixture
    async def store(self, anyio_backend: str) -> AsyncIterator[Store]:
        store = await self.make_store()
        await store.open()
        yield store
        await store.close()

    # -- steps that many tests take

    async def record(
        self, store: Store, *messages: Message, session: SessionId = ANA, due_tokens: int = NEVER
    ) -> Progress:
        return (await store.append(session, messages, due_tokens=due_tokens, now=NOW)).progress

    async def state(self, store: Store, session: SessionId = ANA) -> State:
        state = await store.load(session)
        assert state is not None
        return state

    async def commit(self, store: Store, *notes: Note, session: SessionId = ANA, **more: Any) -> Progress:
        """Add notes, with the guard as it should be and the marks after the last of them."""
        progress = (await self.state(store, session)).progress
        change: dict[str, Any] = {"guard": Guard(progress.frontier, progress.revision), "add": notes}
        if notes and all(n.generation == 0 for n in notes):
            change["frontier"] = notes[-1].last
            active = [n.last for n in notes if n.status == "active"]
            change |= {"watermark": active[-1], "tail_start": active[-1] + 1} if active else {}
        return await store.commit(session, Commit(**(change | more)))

    async def realign(
        self, store: Store, keep: int, *follow: int | Message, due_tokens: int = NEVER
    ) -> Progress:
        progress = (await self.state(store)).progress
        change = Realignment(keep, follow, progress.last_seq, progress.revision)
        return (await store.realign(ANA, change, due_tokens=due_tokens, now=NOW)).progress

    async def compact(
        self, store: Store, up_to: int, ident: str = "sum", *, archive: bool = True, tokens: int = 3
    ) -> Progress:
        summary = said(ident, f"summary {ident}", role="system", tokens=tokens)
        return await store.compact(ANA, up_to=up_to, summary=summary, archive=archive, now=NOW)

    async def live(self, store: Store) -> list[str]:
        return ids(await store.messages(ANA))

    async def conversation(self, store: Store) -> list[str]:
        return ids(await store.digests(ANA))
