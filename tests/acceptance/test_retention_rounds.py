"""Retention goes on while a memory is open: by the clock, and by one process at a time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.acceptance.test_retention import round_at_opening

import onlooker
from onlooker.domain.events import Pruned
from onlooker.policy.settings import Settings
from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import FrozenClock

pytestmark = [pytest.mark.anyio, pytest.mark.req(41, 99)]

START = datetime(2026, 2, 1, 9, 0, tzinfo=UTC)
HOUR = 3600.0
# Looks at the clock every 0.24 seconds.
SETTINGS = Settings(idle_minutes=0, retention_days=5)
OFTEN = onlooker.Timing(sweep_seconds=0.02)
LOOKS = 0.7  # seconds in which it looks again, and would go round if it should not


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "that took too long"
        await asyncio.sleep(0.01)


async def take_back(memory: onlooker.Memory) -> None:
    """A host goes back to an earlier point, so that messages are kept which nothing leads back to."""
    roles = ("user", "assistant")
    said = [{"role": roles[n % 2], "content": f"The parcel {n * 7919} went to street {n}."} for n in range(8)]
    for history in (said, [*said[:4], {"role": "user", "content": "No, by rail."}]):
        await memory.session("s", owner="ana").prepare(history)


async def rows_in(memory: onlooker.Memory) -> int:
    return len([row async for row in memory.store.dump()])


class Seen:
    """The rounds that a memory went, by the event at the end of each."""

    def __init__(self, memory: onlooker.Memory) -> None:
        self.rows: list[int] = []
        memory.subscribe(self._hear)

    def _hear(self, event: onlooker.Event) -> None:
        if isinstance(event, Pruned):
            self.rows.append(event.rows)

    async def reaches(self, count: int) -> None:
        await until(lambda: len(self.rows) >= count)


async def test_notes_and_messages_that_grow_old_while_a_memory_is_open_go_as_well(tmp_path: Path) -> None:
    clock = FrozenClock(START)
    memory = onlooker.open_memory(tmp_path / "a.db", settings=SETTINGS, timing=OFTEN, clock=clock)
    seen = Seen(memory)
    async with memory:
        await seen.reaches(1)  # at opening
        await take_back(memory)
        before = await rows_in(memory)
        clock.advance(7 * HOUR)
        await seen.reaches(2)  # five days are not over
        assert await rows_in(memory) == before
        clock.advance(5 * 24 * HOUR)
        await seen.reaches(3)
        assert await rows_in(memory) < before
    assert seen.rows[:2] == [0, 0]
    assert seen.rows[2] > 0


async def test_so_do_messages_beyond_their_limit(tmp_path: Path) -> None:
    clock = FrozenClock(START)
    settings = replace(SETTINGS, budget=400, retention_days=0, retention_delete_messages=20)
    memory = onlooker.open_memory(tmp_path / "a.db", settings=settings, timing=OFTEN, clock=clock)
    seen = Seen(memory)
    async with memory:
        await round_at_opening(memory)
        session = memory.session("s", owner="ana")
        for n in range(40):
            await session.record(
                onlooker.user(f"The parcel {n * 7919} went to street {n}, by driver {n * 7}.")
            )
        await session.settle()
        assert len(await session.messages(archived=True)) == 40
        clock.advance(7 * HOUR)
        await seen.reaches(1)
        assert len(await session.messages(archived=True)) == 20


async def test_of_several_processes_one_goes_round_for_all(tmp_path: Path) -> None:
    clock = FrozenClock(START)
    memories = [
        onlooker.open_memory(tmp_path / "a.db", settings=SETTINGS, timing=OFTEN, clock=clock)
        for _ in range(3)
    ]
    seen = [Seen(memory) for memory in memories]

    def rounds() -> int:
        return sum(len(one.rows) for one in seen)

    async with AsyncExitStack() as stack:
        for memory in memories:
            await stack.enter_async_context(memory)
        for number in range(1, 4):
            await until(lambda number=number: rounds() >= number)
            await asyncio.sleep(LOOKS)
            assert rounds() == number
            clock.advance(7 * HOUR)


async def test_others_with_other_limits_go_round_by_themselves(tmp_path: Path) -> None:
    clock = FrozenClock(START)
    keeps_less = replace(SETTINGS, retention_days=1)
    one = onlooker.open_memory(tmp_path / "a.db", settings=SETTINGS, timing=OFTEN, clock=clock)
    other = onlooker.open_memory(tmp_path / "a.db", settings=keeps_less, timing=OFTEN, clock=clock)
    seen = Seen(one), Seen(other)
    async with one, other:
        await asyncio.gather(*(each.reaches(1) for each in seen))
        clock.advance(7 * HOUR)
        await asyncio.gather(*(each.reaches(2) for each in seen))


class Stuck(SqliteStore):
    """A store in which the first round does not come to its end."""

    rounds = 0

    async def prune(self, *, before: datetime, dry_run: bool = False) -> int:
        self.rounds += 1
        if self.rounds == 1:
            await asyncio.sleep(60)
        return await super().prune(before=before, dry_run=dry_run)

    async def close(self) -> None:
        """It is used by the next memory."""


def opened(store: Store, clock: FrozenClock) -> onlooker.Memory:
    return onlooker.open_memory(store, settings=SETTINGS, timing=OFTEN, clock=clock)


async def test_nobody_goes_round_while_another_does_and_one_that_is_stopped_holds_nobody_up() -> None:
    store, clock = Stuck(":memory:"), FrozenClock(START)
    first, second = opened(store, clock), opened(store, clock)
    seen = Seen(second)
    await first.open()
    await until(lambda: store.rounds > 0)
    clock.advance(60)
    async with second:
        await asyncio.sleep(LOOKS)
        assert store.rounds == 1
        await first.close()
        await seen.reaches(1)


async def test_one_that_was_killed_holds_nobody_up_for_long() -> None:
    store, clock = SqliteStore(":memory:"), FrozenClock(START)
    await store.open()
    until = START + timedelta(minutes=10)
    limits = [SETTINGS.retention_days, 0, 0, 0, 0, 0]
    killed = ["another", limits, START.isoformat(), until.isoformat()]
    await store.set_value("retention", json.dumps(killed))
    clock.advance(60)
    memory = opened(store, clock)
    seen = Seen(memory)
    async with memory:
        await asyncio.sleep(LOOKS)
        assert seen.rows == []
        clock.advance(10 * 60)
        await seen.reaches(1)


async def test_a_clock_that_is_set_back_does_not_put_it_off() -> None:
    clock = FrozenClock(START)
    memory = opened(SqliteStore(":memory:"), clock)
    seen = Seen(memory)
    async with memory:
        await seen.reaches(1)
        clock.advance(-300 * 24 * HOUR)
        await asyncio.sleep(LOOKS)
        clock.advance(7 * HOUR)
        await seen.reaches(2)


async def test_a_memory_that_is_open_for_a_moment_lets_go_of_what_is_old(tmp_path: Path) -> None:
    clock = FrozenClock(START)
    path = tmp_path / "a.db"
    async with onlooker.open_memory(path, settings=SETTINGS, timing=OFTEN, clock=clock) as memory:
        await take_back(memory)
        before = await rows_in(memory)
    clock.advance(6 * 24 * HOUR)
    async with onlooker.open_memory(path, settings=SETTINGS, timing=OFTEN, clock=clock):
        pass
    async with onlooker.open_memory(
        path, settings=replace(SETTINGS, retention_days=0), timing=OFTEN, clock=clock
    ) as memory:
        assert await rows_in(memory) < before
