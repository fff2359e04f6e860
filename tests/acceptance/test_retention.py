"""Messages are kept as long as the settings say, and never dropped before a note stands for them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command_line import call

import onlooker
from onlooker.domain.retention import Retained
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
    for n in range(count):
        clock.advance(86_400)
        await session.record(onlooker.user(f"{key} {n}: {sentence(n)}"))
    await session.settle()


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
        would = await memory.retain(dry_run=True)
        assert await memory.retain() == would == Retained(archived=10, deleted=10 - 1)
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
        state = await session.state()
        assert state is not None
        await memory.retain()
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
        assert await memory.retain(dry_run=True) == Retained(deleted=10)
        assert await memory.retain() == Retained(deleted=10)
        assert await texts(memory, "old") == [f"old {n}" for n in range(10, 30)]
        assert len(await texts(memory, "new")) == 30
        assert len(await texts(memory, "other", owner="ben")) == 30
        assert await memory.retain() == Retained()


async def test_limits_of_sessions_are_counted_before_those_of_their_owner(path: Path) -> None:
    clock = FrozenClock(START)
    settings = replace(SMALL, retention_delete_messages=25, retention_owner_messages=50)
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        await say(memory, clock, "old", 25)
        await say(memory, clock, "new", 40)
        assert await memory.prune() == 15
        assert len(await texts(memory, "old")) == 25
        assert await texts(memory, "new") == [f"new {n}" for n in range(15, 40)]


async def test_it_happens_by_itself_while_a_memory_is_open(path: Path) -> None:
    clock = FrozenClock(START)
    async with onlooker.open_memory(path, settings=SMALL, clock=clock) as memory:
        await say(memory, clock, "s", 30)
    settings = replace(SMALL, retention_delete_messages=20)
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        async with asyncio.timeout(20), memory.events(onlooker.events.Pruned) as pruned:
            if len(await texts(memory, "s")) > 20:
                await anext(pruned)
        assert await texts(memory, "s") == [f"s {n}" for n in range(10, 30)]


async def test_a_journal_does_not_keep_what_is_gone(path: Path, tmp_path: Path) -> None:
    clock = FrozenClock(START)
    journal = tmp_path / "journal"
    settings = replace(SMALL, retention_delete_messages=20, journal=str(journal))
    async with onlooker.open_memory(path, settings=settings, clock=clock) as memory:
        await say(memory, clock, "s", 30)
        await memory.retain()
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
        assert (await memory.retain()).deleted
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


def test_prune_without_any_limit_says_what_to_set(path: Path) -> None:
    done = call("prune", "--db", path)
    assert done.code == 2
    assert "retention_" in done.err
