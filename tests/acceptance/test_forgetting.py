"""After forgetting, nothing of it is left: in no table, index, journal, export, context, nor in the bytes."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onlooker
from onlooker.domain.history import MessageRow
from onlooker.domain.items import Item, ItemChange
from onlooker.errors import SettingsError
from onlooker.ports import ObserveRequest, Reply, Request, Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import FrozenClock, ScriptedModel
from onlooker.testing.models import good_note
from onlooker.types import ForgetResult

pytestmark = pytest.mark.anyio

SMALL = onlooker.Settings(
    budget=2_000, observe_at=0.25, keep_recent=0.08, chunk_tokens=0.13, memory_limit=0.70, reflect_at=0.40
)
SYLLABLES = ("ka", "lo", "mi", "ru", "te", "so", "vi", "ne", "dar", "pel", "qua", "zim")


def word(random: Random) -> str:
    """A word that nobody says by chance."""
    return "".join(random.choice(SYLLABLES) for _ in range(5))


def said(n: int, secret: str) -> str:
    return (
        f"On the day number {n} the courier {secret.capitalize()} brought parcel {secret}_{n}77 to the "
        f"harbour office, and the keeper of {secret} asked for {n * 13 + 5} euros before the gate was "
        "closed again."
    )


async def everything_in(store: Store) -> str:
    return "\n".join([repr(row) async for row in store.dump()])


def in_tables(path: Path) -> str:
    """Every column of every row of every table, those of the index too."""
    found: list[str] = []
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = bytes
        tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for row in db.execute(f'SELECT * FROM "{table.decode()}"'):
                found += [c.decode("utf-8", "replace") if isinstance(c, bytes) else str(c) for c in row]
    return "\n".join(found)


def in_files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def assert_gone(folder: Path, secrets: Sequence[str]) -> None:
    path = folder / "agent.db"
    tables = in_tables(path).lower() if path.exists() else ""
    for secret in secrets:
        assert secret not in tables
        for name, data in in_files(folder).items():
            assert secret.encode() not in data.lower(), f"{secret} is still in {name}"


class Life:
    """A session that lives a while, with what agents, hosts and people do."""

    def __init__(self, seed: int, memory: onlooker.Memory, clock: FrozenClock) -> None:
        self.random = Random(seed)
        self.memory = memory
        self.clock = clock
        self.session = memory.session("harbour", owner="ana")
        self.secrets: dict[str, str] = {}  # by message id

    async def live(self, messages: int) -> None:
        for n in range(messages):
            secret = word(self.random)
            ident = f"m{n}"
            self.secrets[ident] = secret
            make = onlooker.user if n % 2 else onlooker.assistant
            await self.session.record(make(said(n, secret), id=ident))
            self.clock.advance(60)
            await self.session.settle()
            if self.random.random() < 0.12:
                await self.something()

    async def something(self) -> None:
        session, random = self.session, self.random
        notes = await session.notes()
        match random.choice(["pin", "edit", "compact", "take back", "search", "items", "context", "undo"]):
            case "pin":
                await session.pin(random.choice(await session.messages()).id)
            case "edit" if notes:
                note = random.choice(notes)
                await session.history.edit(note.id, f"{note.text}\nchecked", by="ana")
            case "compact":
                state = await session.history.state()
                assert state is not None
                if state.progress.watermark > 1:
                    await session.history.compact(state.progress.watermark - 1, notes[0].text)
            case "take back":
                await self.take_back()
            case "search":
                await self.memory.search(random.choice([*self.secrets.values()]), owner="ana")
            case "items":
                await session.end()
            case "undo":
                with suppress(KeyError, onlooker.OnlookerError):
                    await session.history.undo()
            case _:
                await session.context(system="You are helpful.")

    async def take_back(self) -> None:
        """The host goes on from an earlier message."""
        standing = [m for m in await self.session.messages(archived=True) if m.id in self.secrets]
        if len(standing) < 4:
            return
        kept = standing[: -self.random.randint(1, 2)]
        history = [{"role": m.role, "content": m.text, "id": m.id} for m in kept]
        secret = word(self.random)
        ident = f"again{len(self.secrets)}"
        self.secrets[ident] = secret
        history.append({"role": "user", "content": said(len(self.secrets), secret), "id": ident})
        await self.session.prepare(history)

    async def forget(self) -> list[str]:
        """Forget a few messages, or what a note stands for; the words that must be gone."""
        notes = await self.session.notes()
        if notes and self.random.random() < 0.3:
            note = self.random.choice(notes)
            messages = await self.session.recall(note.id)
            await self.session.forget(note.id)
            ids = [m.id for m in messages]
        else:
            rows = [row async for row in self.memory.store.dump()]
            recorded = {row.message.id for row in rows if isinstance(row, MessageRow)}
            there = sorted(recorded & self.secrets.keys())
            ids = self.random.sample(there, min(len(there), self.random.randint(1, 3)))
            await self.session.forget(*ids)
        return [self.secrets.pop(ident) for ident in ids if ident in self.secrets]


async def check_forgetting(seed: int, folder: Path, *, scripted: bool, in_memory: bool) -> None:
    clock = FrozenClock()
    journal = folder / "journal"
    chosen = replace(SMALL, journal=str(journal))
    model = ScriptedModel() if scripted else None
    url: Path | Store = SqliteStore(":memory:") if in_memory else folder / "agent.db"
    async with onlooker.open_memory(url, settings=chosen, model=model, clock=clock) as memory:
        life = Life(seed, memory, clock)
        gone: list[str] = []
        await life.live(36)
        await asyncio.sleep(0.01)  # time for the journal
        for _ in range(2):
            gone = await life.forget()
            stays = await everything_in(memory.store)
            assert not [s for s in gone if s in stays.lower()]
            context = await life.session.context(system="You are helpful.")
            assert not [s for s in gone if s in context.text().lower()]
            for secret in gone:
                assert not await memory.search(secret, owner="ana")
            await life.session.settle()
            assert_gone(folder, gone)
            # What was not forgotten is still covered: every message is raw or stands under a note.
            await assert_covered(memory, life.session)
        await memory.storage.export(folder / "export.jsonl")
        assert_gone(folder, gone)
        kept = (folder / "export.jsonl").read_text().lower()
        assert sum(secret in kept for secret in life.secrets.values()) >= len(life.secrets) - 2
    assert_gone(folder, gone)


async def assert_covered(memory: onlooker.Memory, session: onlooker.Session) -> None:
    state = await session.history.state()
    assert state is not None
    live = {m.id for m in await session.messages()}
    covered = {m.id for note in state.notes for m in await session.recall(note.id)}
    for digest in await memory.store.digests(session.id):
        raw = digest.seq > state.progress.frontier and digest.id in live
        assert raw or digest.id in covered, f"{digest.id} is neither raw nor noted"


@pytest.mark.parametrize(
    "in_memory", [False, pytest.param(True, marks=pytest.mark.long)], ids=["sqlite", "memory"]
)
@pytest.mark.parametrize("scripted", [False, True], ids=["built-in", "model"])
@settings(max_examples=settings().max_examples // 5)
@given(seed=st.integers(0, 2**32))
def test_nothing_of_what_is_forgotten_is_left_anywhere(seed: int, scripted: bool, in_memory: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check_forgetting(seed, Path(folder), scripted=scripted, in_memory=in_memory))


# ------------------------------------------------------------------------------------ one by one


async def filled(
    memory: onlooker.Memory, clock: FrozenClock, *, key: str = "harbour", owner: str = "ana"
) -> None:
    session = memory.session(key, owner=owner)
    for n in range(30):
        text = said(n, f"{owner}word{n}x")
        await session.record(onlooker.user(text, id=f"m{n}"))
        clock.advance(60)
        await session.settle()


async def test_notes_that_mixed_it_with_others_are_written_again_by_the_model(tmp_path: Path) -> None:
    clock, model = FrozenClock(), ScriptedModel()
    async with onlooker.open_memory(tmp_path / "a.db", settings=SMALL, model=model, clock=clock) as memory:
        await filled(memory, clock)
        session = memory.session("harbour", owner="ana")
        before = {n.id: n for n in await session.notes()}
        touched = [n for n in before.values() if "m0" in [m.id for m in await session.recall(n.id)]]
        done = await session.forget("m0")
        assert (done.messages, done.deleted_notes, done.erased) == (1, 0, True)
        assert done.rewritten_notes >= 1
        now = {n.id: n for n in await session.notes()}
        assert [now[n.id].degraded for n in touched] == [True]
        calls = model.calls
        assert "anaword0x" not in (await session.context()).text()
        await session.settle()
        assert model.calls > calls
        assert not any(n.degraded for n in await session.notes())
        asked = model.requests[-1]
        assert isinstance(asked, ObserveRequest) or asked.generation
        assert "anaword0x" not in repr(asked)


async def test_a_value_that_a_later_note_was_told_by_earlier_notes_goes_too(tmp_path: Path) -> None:
    # An identifier: a number that its own messages do not have would cost the note.
    def gossip(request: Request) -> Reply | None:
        if isinstance(request, ObserveRequest) and any("red_heron_plan" in n.text for n in request.notes):
            return Reply(good_note(request) + "\n[10:00] NOTE the draft red_heron_plan is still open.")
        return None

    clock = FrozenClock()
    model = ScriptedModel(gossip)
    url = tmp_path / "a.db"
    async with onlooker.open_memory(url, settings=SMALL, model=model, clock=clock) as memory:
        session = memory.session("harbour", owner="ana")
        for n in range(20):
            text = said(n, f"word{n}x") + (" The draft is red_heron_plan." if n == 0 else "")
            await session.record(onlooker.user(text, id=f"m{n}"))
            clock.advance(60)
            await session.settle()
        statuses = ("active", "buffered", "superseded")
        found = [n for n in await session.notes(statuses=statuses) if "red_heron_plan" in n.text]
        assert [n for n in found if not n.generation and "m0" not in n.sources]
        await session.forget("m0")
        assert "red_heron_plan" not in await everything_in(memory.store)


async def test_what_is_not_there_cannot_be_forgotten() -> None:
    async with onlooker.open_memory(":memory:", settings=SMALL, clock=FrozenClock()) as memory:
        session = memory.session("harbour")
        with pytest.raises(KeyError):
            await session.forget("m1")
        await session.record(onlooker.user("hello", id="m1"))
        for targets in (("nobody",), ("m1", "nobody")):
            with pytest.raises(KeyError, match="nobody"):
                await session.forget(*targets)
        with pytest.raises(SettingsError):
            await session.forget()
        assert len(await session.messages()) == 1


async def test_a_dry_run_counts_and_changes_nothing() -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(":memory:", settings=SMALL, clock=clock) as memory:
        await filled(memory, clock)
        session = memory.session("harbour", owner="ana")
        before = await everything_in(memory.store)
        would = await session.forget("m0", "m1", dry_run=True)
        assert await everything_in(memory.store) == before
        assert await session.forget("m0", "m1") == would
        assert would.messages == 2


async def test_items_that_come_from_it_go_and_the_others_stay(tmp_path: Path) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(tmp_path / "a.db", settings=SMALL, clock=clock) as memory:
        session = memory.session("harbour", owner="ana")
        await session.record(onlooker.user("My sister Berit lives in Tromsøvik.", id="m1"))
        await session.record(onlooker.user("I like rye bread.", id="m2"))

        def item(ident: str, summary: str, **more: object) -> Item:
            return Item("ana", ident, "profile", summary, clock.now(), session="harbour", **more)  # pyright: ignore[reportArgumentType]

        items = (
            item("i1", "Berit, Ana's sister, lives in Tromsøvik", sources=("m1",)),
            item("i2", "Ana likes rye bread", sources=("m2",)),
            item("i3", "sister Berit lives in Tromsøvik"),  # an agent saved it, without saying from where
            item("i4", "family up north", derived_from=("i1",)),
        )
        await memory.store.change_items(ItemChange("ana", clock.now(), add=items))
        done = await session.forget("m1")
        assert done.items == 3
        assert [i.id for i in await memory.items.list("ana")] == ["i2"]
        assert "Tromsøvik" not in await everything_in(memory.store)
        assert_gone(tmp_path, ["tromsøvik"])


@pytest.mark.req(37)
async def test_a_session_or_an_owner_is_forgotten_with_everything_and_others_keep_theirs(
    tmp_path: Path,
) -> None:
    clock = FrozenClock()
    chosen = replace(SMALL, journal=str(tmp_path / "journal"))
    async with onlooker.open_memory(tmp_path / "agent.db", settings=chosen, clock=clock) as memory:
        for owner, key in (("ana", "harbour"), ("ana", "warehouse9"), ("ben", "harbour")):
            await filled(memory, clock, key=key, owner=owner)
            await memory.session(key, owner=owner).end()
        await asyncio.sleep(0.05)
        done = await memory.forget(owner="ana", session="warehouse9")
        assert (done.sessions, done.messages, done.erased) == (1, 30, True)
        assert await memory.session("harbour", owner="ana").notes()
        assert_gone(tmp_path, ["warehouse9"])
        done = await memory.forget(owner="ana")
        assert (done.sessions, done.messages) == (1, 30)
        assert_gone(tmp_path, ["anaword"])
        assert not [p for p in (tmp_path / "journal").iterdir() if b'"ana"' in p.read_bytes()]
        assert len(await memory.session("harbour", owner="ben").messages()) == 30
        assert "benword3x" in in_tables(tmp_path / "agent.db")
        assert await memory.forget(owner="ana") == ForgetResult()


async def test_bytes_wait_for_whoever_still_reads_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onlooker.stores.sqlite import backup

    monkeypatch.setattr(backup, "PATIENCE", 0.05)
    path = tmp_path / "agent.db"
    async with onlooker.open_memory(path, settings=SMALL, clock=FrozenClock()) as memory:
        session = memory.session("harbour", owner="ana")
        await session.record(onlooker.user("the word is quamirute", id="m1"), onlooker.user("hello", id="m2"))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM messages").fetchall()
            assert not (await session.forget("m1")).erased
        assert await memory.store.erase()
        assert_gone(tmp_path, ["quamirute"])
