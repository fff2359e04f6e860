"""Messages are kept as long as the settings say, and never dropped before a note stands for them."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, call
from tests.postgres.server import Server

import onlooker
from onlooker.domain.history import RetentionResult
from onlooker.policy.settings import Settings
from onlooker.testing import FaultyModel, FrozenClock

pytestmark = [pytest.mark.anyio, pytest.mark.req(41, 99)]

START = datetime(2026, 2, 1, 9, 0, tzinfo=UTC)
SMALL = Settings(budget=400, idle_minutes=0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


async def say(memory: onlooker.Memory, clock: FrozenClock, key: str, count: int, owner: str = "ana") -> None:
    """So many messages, a day apart, with all notes taken that are due."""
    session = memory.session(key, owner=owner)
    await round_at_opening(memory)
    for n in range(count):
        clock.advance(86_400)
        await session.record(onlooker.user(f"{key} {n}: {sentence(n)}"))
    await session.settle()


async def round_at_opening(memory: onlooker.Memory) -> None:
    """Wait for it: on a busy machine it may come after much was said, and take what a test is about."""
    await memory.sessions()
    if not any(getattr(memory.settings, f.name) for f in fields(Settings) if f.name.startswith("retention")):
        return
    deadline = time.monotonic() + 120
    began, until = None, ""
    while began != until:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
        *_, began, until = json.loads(await memory.store.get_value("retention") or "[null, true]")


def size_of(path: Path) -> int:
    return path.stat().st_size


def sentence(n: int) -> str:
    return f"The parcel {n * 7919} for street {n} went to town {n * 31} with driver {n * 17}, not by rail."


async def texts(memory: onlooker.Memory, key: str, *, archived: bool = True, owner: str = "ana") -> list[str]:
    found = await memory.session(key, owner=owner).messages(archived=archived)
    return [m.text.partition(":")[0] for m in found]


async def test_messages_go_from_live_to_archived_to_gone_as_they_age(path: Path) -> None:
    clock = FrozenClock(START)
    settings = replace(SMALL, retention_archive_days=20, retention_delete_days=30)
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        await say(memory, clock, "s", 40)
        before = (await memory.session("s", owner="ana").context()).text()
        would = await memory.retention.apply(dry_run=True)
        assert await memory.retention.apply() == would == RetentionResult(archived=10, deleted=10 - 1)
        assert await texts(memory, "s", archived=False) == [f"s {n}" for n in range(19, 40)]
        assert await texts(memory, "s") == [f"s {n}" for n in range(9, 40)]
        assert (await memory.session("s", owner="ana").context()).text() == before


async def test_nothing_goes_while_no_model_has_noted_it(path: Path) -> None:
    clock = FrozenClock(START)
    settings = replace(SMALL, retention_delete_days=1, retention_delete_messages=1, model_deadline=0.2)
    model = FaultyModel("error", rate=1.0, seed=1)
    async with onlooker.open_memory(path, model=model, settings=settings, clock=clock) as memory:
        session = memory.session("s", owner="ana")
        for n in range(12):
            clock.advance(86_400)
            await session.record(onlooker.user(f"s {n}: {sentence(n)}"))
            await session.context()
        state = await session.history.state()
        assert state is not None
        await memory.retention.apply()
        kept = await texts(memory, "s")
        # What the built-in model noted in the other's place is to be written anew, from the messages.
        assert kept == [f"s {n}" for n in range(12)]


async def test_an_owner_keeps_so_many_and_the_session_used_longest_ago_loses_first(path: Path) -> None:
    clock = FrozenClock(START)
    settings = replace(SMALL, retention_owner_messages=50)
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        await say(memory, clock, "old", 30)
        await say(memory, clock, "new", 30)
        await say(memory, clock, "other", 30, owner="ben")
        assert await memory.retention.apply(dry_run=True) == RetentionResult(deleted=10)
        assert await memory.retention.apply() == RetentionResult(deleted=10)
        assert await texts(memory, "old") == [f"old {n}" for n in range(10, 30)]
        assert len(await texts(memory, "new")) == 30
        assert len(await texts(memory, "other", owner="ben")) == 30
        assert await memory.retention.apply() == RetentionResult()


async def test_limits_of_sessions_are_counted_before_those_of_their_owner(path: Path) -> None:
    clock = FrozenClock(START)
    settings = replace(SMALL, retention_delete_messages=25, retention_owner_messages=50)
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        await say(memory, clock, "old", 25)
        await say(memory, clock, "new", 40)
        assert await memory.retention.prune() == 15
        assert len(await texts(memory, "old")) == 25
        assert await texts(memory, "new") == [f"new {n}" for n in range(15, 40)]


async def test_it_happens_by_itself_while_a_memory_is_open(path: Path) -> None:
    clock = FrozenClock(START)
    async with onlooker.open_memory(path, settings=SMALL, clock=clock) as memory:
        await say(memory, clock, "s", 30)
    settings = replace(SMALL, retention_delete_messages=20)
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        async with asyncio.timeout(120), memory.events(onlooker.events.Pruned) as pruned:
            if len(await texts(memory, "s")) > 20:
                await anext(pruned)
        assert await texts(memory, "s") == [f"s {n}" for n in range(10, 30)]


async def test_a_journal_does_not_keep_what_is_gone(path: Path, tmp_path: Path) -> None:
    clock = FrozenClock(START)
    journal = tmp_path / "journal"
    settings = replace(SMALL, retention_delete_messages=20, journal=str(journal))
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        await say(memory, clock, "s", 30)
        await memory.retention.apply()
    lines = [json.loads(line) for f in journal.rglob("*.jsonl") for line in f.read_text().splitlines()]
    said = [line["text"].partition(":")[0] for line in lines if line["kind"] == "message"]
    assert said == [f"s {n}" for n in range(10, 30)]


async def test_a_host_that_hands_over_its_whole_history_goes_on(path: Path) -> None:
    clock = FrozenClock(START)
    settings = replace(SMALL, retention_delete_messages=6)
    history = [{"role": "user", "content": f"{n}: {sentence(n)}"} for n in range(30)]
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        session = memory.session("s", owner="ana")
        for n in range(1, 30):
            await session.prepare(history[:n])
        await session.settle()
        assert (await memory.retention.apply()).deleted
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        session = memory.session("s", owner="ana")
        kept = len(await session.messages(archived=True))
        await session.prepare(history)
        assert len(await session.messages(archived=True)) == kept + 1


# ------------------------------------------------------------------------------------ on the command line


async def test_prune_says_what_would_go_and_then_lets_it_go(path: Path, tmp_path: Path) -> None:
    clock = FrozenClock(datetime.now(UTC) - timedelta(days=400))
    async with onlooker.open_memory(path, settings=SMALL, clock=clock) as memory:
        await say(memory, clock, "s", 300)
    config = tmp_path / "onlooker.toml"
    config.write_text(
        "[onlooker]\nretention_delete_days = 300\nretention_archive_messages = 150\nretention_days = 1\n"
    )
    options = ("prune", "--db", path, "--config", config)
    would = await asyncio.to_thread(call, *options, "--dry-run", "--json")
    assert would.err == ""
    assert would.json["deleted_messages"] == 100
    assert would.json["archived_messages"] == 50
    size = size_of(path)
    again = await asyncio.to_thread(call, *options, "--vacuum", "--json")
    assert again.json == would.json | {"pruned": True, "freed_bytes": again.json["freed_bytes"]}
    assert size_of(path) == size - again.json["freed_bytes"] < size
    assert (await asyncio.to_thread(call, *options)).err == "Purged 0 rows.\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def write(config: Path, settings: str) -> None:
    config.write_text(f"[onlooker]\n{settings}\n")


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@dataclass(frozen=True)
class Place:
    """A database of one kind or another: how a program and how a person at the command line gets at it."""

    url: str | Path
    key: str | None = None

    def memory(self, clock: FrozenClock | None = None, settings: Settings = SMALL) -> onlooker.Memory:
        return onlooker.open_memory(self.url, key=self.key, settings=settings, clock=clock)

    async def call(self, *arguments: object) -> Done:
        environ = {"ONLOOKER_KEY": self.key} if self.key else {}
        done = await asyncio.to_thread(call, *arguments, "--db", self.url, **environ)
        assert done.code == 0, done.err
        return done

    async def exported(self, file: Path) -> list[Any]:
        """Everything that it holds."""
        await self.call("export", file)
        return lines_of(file)


@pytest.fixture(params=["sqlite", "encrypted", "postgres"])
def place(request: pytest.FixtureRequest, path: Path, server: Server) -> Place:
    if request.param == "postgres":
        return Place(server.new_url())
    return Place(path, "correct horse" if request.param == "encrypted" else None)


_FILES: dict[str | None, bytes] = {}  # that `converse` made, by their key


async def converse(place: Place) -> None:
    """Sessions of two owners over most of a year, with a pin, and messages that a host took back. A file is
    made once and then copied."""
    if not isinstance(place.url, Path):
        await _converse(place)
    elif place.key in _FILES:
        place.url.write_bytes(_FILES[place.key])
    else:
        await _converse(place)
        _FILES[place.key] = place.url.read_bytes()


async def _converse(place: Place) -> None:
    clock = FrozenClock(datetime.now(UTC) - timedelta(days=310))
    async with place.memory(clock) as memory:
        for key, owner, count in (("a", "ana", 60), ("b", "ana", 90), ("c", "ben", 40), ("d", "ben", 5)):
            await say(memory, clock, key, count, owner)
        roles = ("user", "assistant")
        host = [{"role": roles[n % 2], "content": f"e {n}: {sentence(n)}"} for n in range(12)]
        for history in (host, [*host[:6], {"role": "user", "content": "something else"}]):
            await memory.session("e", owner="ben").prepare(history)  # it took six messages back
        clock.advance(3 * 86_400)
        pinned = (await memory.session("a", owner="ana").messages(archived=True))[1]
        await memory.session("a", owner="ana").pin(pinned.id)


def counted(rows: list[Any]) -> Counter[tuple[str, str, str]]:
    """How many messages each session has, live and archived."""
    said = [row for row in rows if row.get("kind") == "message"]
    kept = [row for row in said if row.get("place") != "retired"]
    return Counter((row["owner"], row["session"], row.get("place", "live")) for row in kept)


def past(rows: list[Any]) -> int:
    """How many notes there are, and messages that a host took back."""
    return sum(
        row.get("kind") in ("note", "observation", "reflection") or row.get("place") == "retired"
        for row in rows
    )


LIMITS = (
    "retention_delete_days = 200",
    "retention_archive_days = 100\nretention_delete_days = 250",
    "retention_archive_messages = 30",
    "retention_delete_messages = 25",
    "retention_owner_messages = 70",
    "retention_days = 1",
    "retention_archive_days = 50\nretention_archive_messages = 40\nretention_delete_days = 280\n"
    "retention_delete_messages = 50\nretention_owner_messages = 80\nretention_days = 10",
)


@pytest.mark.parametrize(
    ("place", "limits"),
    [
        *(("sqlite", each) for each in LIMITS),
        *(pytest.param(each, LIMITS[-1], marks=pytest.mark.long) for each in ("encrypted", "postgres")),
    ],
    indirect=["place"],
)
async def test_a_dry_run_lists_exactly_what_the_real_run_does(
    place: Place, tmp_path: Path, limits: str
) -> None:
    await converse(place)
    config = tmp_path / "onlooker.toml"
    write(config, limits)
    before = await place.exported(tmp_path / "before.jsonl")
    would = (await place.call("prune", "--dry-run", "--json", "--config", config)).json
    assert await place.exported(tmp_path / "still.jsonl") == before
    done = (await place.call("prune", "--json", "--config", config)).json
    assert done == would | {"pruned": True}
    after = await place.exported(tmp_path / "after.jsonl")
    assert (would["rows"] > 0) == ("retention_days" in limits)
    assert would["rows"] or would["archived_messages"] or would["deleted_messages"]
    # What it says is what was done, session by session.
    assert past(before) - past(after) == would["rows"]
    was, now = counted(before), counted(after)
    for listed in would["sessions"]:
        session = (listed["owner"], listed["session_key"])
        lost = sum(n for k, n in was.items() if k[:2] == session) - sum(
            n for k, n in now.items() if k[:2] == session
        )
        live = was[*session, "live"] - now[*session, "live"]
        assert lost == listed["deleted_messages"]
        assert listed["archived_messages"] <= live
        for key in [k for k in (*was, *now) if k[:2] == session]:
            was.pop(key, None)
            now.pop(key, None)
    assert was == now
    again = (await place.call("prune", "--json", "--config", config)).json
    assert (again["archived_messages"], again["deleted_messages"], again["sessions"]) == (0, 0, [])


async def test_a_dry_run_shows_a_person_which_sessions_it_is_about(place: Place, tmp_path: Path) -> None:
    await converse(place)
    config = tmp_path / "onlooker.toml"
    write(config, "retention_archive_messages = 50\nretention_delete_messages = 70")
    would = await place.call("prune", "--dry-run", "--config", config)
    rows = [line.split() for line in would.out.splitlines()]
    assert ["a", "ana", "9", "0"] in rows or ["a", "ana", "10", "0"] in rows
    assert ["b", "ana", "20", "20"] in rows
    assert "Would purge 0 rows, delete 20 messages" in would.err


async def test_what_was_pruned_is_found_no_more_and_its_room_is_given_back(
    place: Place, tmp_path: Path
) -> None:
    await converse(place)
    config = tmp_path / "onlooker.toml"
    write(config, "retention_delete_messages = 20")
    async with place.memory() as memory:
        session = memory.session("b", owner="ana")
        # From a call on, notes go by the room that it leaves them, and what that makes due is taken first.
        await session.context()
        await session.settle()
        context = (await session.context()).text()
        assert any(hit.kind == "message" for hit in await memory.search("47514", owner="ana"))
    done = (await place.call("prune", "--vacuum", "--json", "--config", config)).json
    assert done["deleted_messages"] > 100
    assert ("freed_bytes" in done) == isinstance(place.url, Path)
    if isinstance(place.url, Path):
        assert done["freed_bytes"] > 0
    async with place.memory() as memory:
        assert [h for h in await memory.search("47514", owner="ana") if h.kind == "message"] == []
        assert len(await memory.session("d", owner="ben").messages()) == 5
        # Notes stay, and so does the prompt.
        assert (await memory.session("b", owner="ana").context()).text() == context


def test_prune_without_any_limit_says_what_to_set(path: Path) -> None:
    done = call("prune", "--db", path)
    assert done.code == 2
    assert "retention_" in done.err
