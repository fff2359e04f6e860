"""`kill -9` at any moment: nothing acknowledged is lost, nothing doubled, and the session goes on."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from tests.acceptance.crash_writer import SETTINGS, text_of
from tests.acceptance.crashing import (
    EVERY,
    Calls,
    Forker,
    forking,
    going_on,
    left_open,
    lines_of,
    reading,
    settle,
    size_of_log,
    wait_for_call,
)
from tests.promises.checks import check_context, check_conversation, check_coverage

import onlooker

pytestmark = [pytest.mark.long, pytest.mark.alone]

# A hundred kills, and three hundred where there is time (`make chaos`).
FILES = 30 if "ONLOOKER_CHAOS_SECONDS" in os.environ else 10
LIVES = 10  # of processes, one after the other, on each file
# The clock of each life is so far ahead of the one before that its lease has run out.
LIFE_SECONDS = 2.0


@pytest.fixture(scope="module")
def forker() -> Generator[Forker]:
    with forking() as forker:
        yield forker


async def _check_recorded(session: onlooker.Session, calls: Calls) -> int:
    """Nothing acknowledged is lost, nothing is doubled, half written or out of order."""
    recorded = len(await session.messages(archived=True))
    expected = calls.expected(recorded)
    await check_conversation(session, [text_of(i) for i in expected])
    await check_coverage(session)
    return recorded


def _leased(path: Path) -> bool:
    """Whether a dead process still holds the session."""
    with closing(sqlite3.connect(path)) as db:
        return bool(db.execute("SELECT count(lease_holder) FROM sessions").fetchone()[0])


# ------------------------------------------------------------------------------------ talking


@pytest.mark.req(9, 42, 43)
def test_kills_by_the_hundred_lose_nothing(forker: Forker, tmp_path: Path) -> None:
    chance = random.Random(20260216)
    unheard, in_call, noted = 0, 0, 0
    for file in range(FILES):
        path = tmp_path / f"{file}.db"
        for life in range(LIVES):
            before = size_of_log(path)
            _live(forker, path, life, chance)
            unheard += left_open(path, before, "try", "ok")
            in_call += left_open(path, before, "call", "noted")
            asyncio.run(_check_after_kill(path))
        noted += asyncio.run(_goes_on_and_settles(path))
    print(f"{unheard} kills during record, {in_call} while a note was written; {noted} notes")
    # Else it killed nothing that matters.
    assert unheard > FILES // 3, f"only {unheard} kills during record"
    assert in_call > FILES, f"only {in_call} kills while a note was written"
    assert noted > 5 * FILES, f"only {noted} notes"


def _live(
    forker: Forker, path: Path, life: int, chance: random.Random, longest: float = 0.060, size: int = 0
) -> None:
    """One process goes on where the last one was killed, and is killed in its turn."""
    calls = Calls.of(path)
    pid = forker.start(
        "talk",
        path,
        ahead=life * LIFE_SECONDS,
        again=calls.unheard,
        first=calls.next_number,
        seed=chance.random(),
        size=size,
    )
    time.sleep(chance.uniform(0.001, longest))
    forker.kill(pid)


async def _check_after_kill(path: Path) -> int:
    """Returns how many messages there are."""
    async with reading(path) as session:
        return await _check_recorded(session, Calls.of(path))


async def _goes_on_and_settles(path: Path) -> int:
    """Returns how many notes there are."""
    async with going_on(path, ahead=LIVES * LIFE_SECONDS) as session:
        before = [m.text for m in await session.messages()]
        await session.record(onlooker.user(text_of("last"), id="last"))
        assert await session.settle()
        await check_conversation(session, [*before, text_of("last")])
        await check_coverage(session)
        context = await session.context(system="You are helpful.")
        state = await session.history.state()
        assert state
        assert state.progress.due_at is None
        check_context(context, state, await session.messages(archived=True), SETTINGS)
        return len(await session.notes(statuses=EVERY))


# ------------------------------------------------------------------------------------ large calls


@pytest.mark.req(42)
def test_a_thousand_messages_are_recorded_whole_or_not_at_all(forker: Forker, tmp_path: Path) -> None:
    chance = random.Random(7)
    cut_off = 0
    for file in range(5):
        path = tmp_path / f"{file}.db"
        for life in range(5):
            before = size_of_log(path)
            _live(forker, path, life, chance, longest=0.120, size=1000)
            cut_off += left_open(path, before, "try", "ok")
            recorded = asyncio.run(_check_after_kill(path))
            assert recorded % 1000 == 0
    assert cut_off > 2, f"only {cut_off} kills in the middle of a call"


# ------------------------------------------------------------------------------------ opening


@pytest.mark.req(38)
def test_a_file_whose_making_was_cut_off_opens(forker: Forker, tmp_path: Path) -> None:
    chance = random.Random(11)
    unfinished = 0
    for number in range(60):
        path = tmp_path / f"{number}.db"
        pid = forker.start("begin", path)
        time.sleep(chance.uniform(0, 0.015))
        forker.kill(pid)
        unfinished += not lines_of(path, "ok")
        asyncio.run(_check_beginning(path))
    assert unfinished > 5, f"only {unfinished} kills before the first message"


async def _check_beginning(path: Path) -> None:
    async with going_on(path) as session:
        found = [m.id for m in await session.messages()]
        assert found == ["m1"] or (found == [] and not lines_of(path, "ok"))
        await session.record(onlooker.user(text_of("m1"), id="m1"), onlooker.user(text_of("m2"), id="m2"))
        assert [m.id for m in await session.messages()] == ["m1", "m2"]


# ------------------------------------------------------------------------------------ leases


@pytest.mark.req(43)
def test_a_killed_process_holds_its_session_no_longer_than_the_lease(forker: Forker, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    pid = forker.start("hold", path)
    wait_for_call(path)
    forker.kill(pid)
    assert _leased(path)

    async def take_over() -> None:
        async with going_on(path) as session:
            assert not await session.settle(), "the lease did not hold"
            await settle(session)  # nobody extends the lease
            await check_coverage(session)
            assert await session.notes()

    asyncio.run(take_over())
