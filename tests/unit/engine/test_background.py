"""Sessions that are due: each by one task at a time, several at once, none dropped."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import pytest

from onlooker.domain.errors import StoreError
from onlooker.domain.messages import Message, SessionId
from onlooker.engine.background import Job, JobLoop, NoteTasks
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import FrozenClock

pytestmark = pytest.mark.anyio

ONE, OTHER = SessionId("default", "one"), SessionId("default", "other")


@dataclass
class Work:
    """What the buffer runs: counts who is in it, and can be held up or made to fail."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    calls: Counter[SessionId] = field(default_factory=Counter[SessionId])
    inside: Counter[SessionId] = field(default_factory=Counter[SessionId])
    most_inside: int = 0
    finished: int = 0

    async def advance(self, session: SessionId) -> bool:
        self.calls[session] += 1
        self.inside[session] += 1
        assert self.inside[session] == 1, "two tasks in one session"
        self.most_inside = max(self.most_inside, self.inside.total())
        try:
            await self.gate.wait()
            if self.error:
                raise self.error
            self.finished += 1
        finally:
            self.inside[session] -= 1
        return True


def buffer(work: Work, store: SqliteStore | None = None, *, concurrency: int = 4) -> NoteTasks:
    return NoteTasks(store or SqliteStore(":memory:"), FrozenClock(), work.advance, concurrency=concurrency)


async def beats(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not true():  # noqa: ASYNC110  nobody tells of it
            await asyncio.sleep(0.01)


@pytest.mark.req(28)
async def test_waking_returns_before_any_work_is_done() -> None:
    work = Work()
    found = buffer(work)
    found.wake(ONE)
    assert not work.calls
    assert found.pending == 1
    work.gate.set()
    await found.flush()
    assert (work.calls[ONE], found.pending) == (1, 0)


async def test_waking_again_and_again_is_waking_once_more() -> None:
    work = Work()
    found = buffer(work)
    found.wake(ONE)
    await beats()
    for _ in range(100):
        found.wake(ONE)
    assert found.pending == 1
    work.gate.set()
    await found.flush()
    assert work.calls[ONE] == 2  # what was said meanwhile is looked at, once
    assert found.pending == 0


async def test_waking_what_has_not_begun_needs_no_second_look() -> None:
    work = Work()
    found = buffer(work, concurrency=1)
    found.wake(OTHER)
    await beats()
    for _ in range(10):
        found.wake(ONE)
    work.gate.set()
    await found.flush()
    assert work.calls == {ONE: 1, OTHER: 1}


@pytest.mark.req(43)
async def test_sessions_run_side_by_side_up_to_a_bound_and_none_is_dropped() -> None:
    work = Work()
    found = buffer(work, concurrency=3)
    sessions = [SessionId("default", str(i)) for i in range(20)]
    for session in sessions:
        found.wake(session)
    await beats()
    assert work.most_inside == 3
    assert found.pending == 20
    work.gate.set()
    await found.flush()
    assert work.calls == Counter(sessions)
    assert work.most_inside == 3


@pytest.mark.req(30)
async def test_stopping_takes_nothing_new_and_lets_work_complete() -> None:
    work = Work()
    found = buffer(work, await due_store())
    await found.start()
    found.wake(ONE)
    await beats()
    found.wake(ONE)
    stopping = asyncio.create_task(found.stop(5))
    await beats()
    found.wake(OTHER)
    work.gate.set()
    assert await stopping
    assert (work.calls[ONE], work.calls[OTHER], work.finished) == (1, 0, 1)


@pytest.mark.req(30)
async def test_work_that_does_not_end_is_cut_off_at_the_deadline() -> None:
    work = Work()
    found = buffer(work)
    found.wake(ONE)
    await beats()
    assert not await found.stop(0.01)
    assert work.inside.total() == 0
    assert found.pending == 0


async def test_stopping_with_nothing_to_do_is_at_once() -> None:
    found = buffer(Work(), await due_store())
    await found.start()
    assert await found.stop(0)
    assert await found.stop(0)


@pytest.mark.req(9)
@pytest.mark.parametrize("error", [StoreError("disk full"), ValueError("a bug")])
async def test_a_failure_is_logged_and_ends_nothing_else(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(error=error)
    work.gate.set()
    found = buffer(work)
    with caplog.at_level(logging.WARNING, "onlooker"):
        found.wake(ONE)
        await found.flush()
    assert "one" in caplog.text
    assert str(error) in caplog.text
    work.error = None
    found.wake(ONE)
    await found.flush()
    assert work.finished == 1


# ------------------------------------------------------------------------------------ what the store says


async def due_store(*sessions: SessionId) -> SqliteStore:
    store = SqliteStore(":memory:")
    await store.open()
    now = FrozenClock().now()
    for session in sessions:
        said = Message("user", "hello", f"id-{session.key}", now, tokens=100)
        await store.append(session, [said], due_tokens=50, now=now)
    return store


@pytest.mark.req(33, 42)
async def test_starting_picks_up_what_an_earlier_process_left_due() -> None:
    work = Work()
    work.gate.set()
    found = buffer(work, await due_store(ONE, OTHER))
    await found.start()
    await found.flush()
    assert work.calls == {ONE: 1, OTHER: 1}
    await found.stop(1)


@pytest.mark.req(33)
async def test_a_tick_says_how_many_are_due() -> None:
    work = Work()
    found = buffer(work, await due_store(ONE))
    assert await found.tick() == 1
    assert await buffer(Work(), await due_store()).tick() == 0
    work.gate.set()
    await found.flush()


async def test_what_is_due_is_looked_for_now_and_then() -> None:
    work = Work()
    work.gate.set()
    found = buffer(work, await due_store(ONE))
    loop = JobLoop([Job("notes", found.tick, 0.01)])
    loop.start()
    await until(lambda: work.calls[ONE] >= 3)
    await loop.stop()
    await found.stop(1)
    await beats()
    calls = work.calls[ONE]
    await asyncio.sleep(0.05)
    assert work.calls[ONE] == calls


async def test_a_last_run_is_given_time_where_others_used_it_up() -> None:
    written: list[str] = []

    async def write() -> None:
        await beats(50)  # more than stopping it at once would leave
        written.append("file")

    loop = JobLoop([Job("files", beats, 60, finish=write)])
    loop.start()
    await loop.stop()
    await loop.finish(0.0)
    assert written == ["file"]


async def test_a_store_that_cannot_be_read_now_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(SqliteStore):
        asked = 0

        async def due(self, *args: object, **options: object) -> list[SessionId]:
            self.asked += 1
            if 1 < self.asked < 4:
                raise StoreError("locked")
            return []

    store = Failing(":memory:")
    loop = JobLoop([Job("notes", buffer(Work(), store).tick, 0.01)])
    loop.start()
    await until(lambda: store.asked >= 5)
    await loop.stop()
    assert "locked" in caplog.text


async def test_a_sweep_that_fails_in_an_unexpected_way_is_not_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(SqliteStore):
        async def due(self, now: datetime, *, limit: int = 1_000) -> list[SessionId]:
            looks.append(now)
            if len(looks) == 2:
                raise RuntimeError("no such thing")
            return []

    looks: list[datetime] = []
    loop = JobLoop([Job("notes", buffer(Work(), Broken(":memory:")).tick, 0.01)])
    loop.start()
    await until(lambda: len(looks) > 3)
    await loop.stop()
    assert "this is a bug in Onlooker" in caplog.text


# ------------------------------------------------------------------------------------ jobs


async def test_a_job_that_takes_long_holds_up_no_other_and_runs_once_at_a_time() -> None:
    gate, inside, others = asyncio.Event(), [0], [0]

    async def long() -> None:
        inside[0] += 1
        try:
            await gate.wait()
        finally:
            inside[0] -= 1

    async def short() -> None:
        others[0] += 1

    loop = JobLoop([Job("long", long, 0.001), Job("short", short, 0.001)])
    loop.start()
    await until(lambda: others[0] > 5)
    assert inside == [1]
    gate.set()
    await loop.stop()
    assert inside == [0]


async def test_stopping_waits_a_moment_for_a_first_run_that_must_be() -> None:
    done: list[str] = []

    async def job() -> None:
        await asyncio.sleep(0.05)
        done.append("job")

    loop = JobLoop([Job("must", job, 60, at_least_once=True)])
    loop.start()
    await loop.stop()
    assert done == ["job"]
    loop.start()
    await until(lambda: len(done) == 2)
    await loop.stop()


async def test_a_job_that_is_woken_runs_at_once() -> None:
    runs = [0]

    async def job() -> None:
        runs[0] += 1

    found = Job("woken", job, 60)
    loop = JobLoop([found])
    loop.start()
    await until(lambda: runs == [1])
    found.woken.set()
    await until(lambda: runs == [2])
    await loop.stop()


async def test_a_job_with_a_last_run_goes_on_until_everything_else_has_stopped() -> None:
    done: list[str] = []

    async def job() -> None:
        done.append("run")

    async def finish() -> None:
        done.append("finish")

    found = Job("files", job, 60, finish=finish)
    loop = JobLoop([found, Job("other", job, 60)])
    loop.start()
    await until(lambda: done == ["run", "run"])
    await loop.stop()
    found.woken.set()
    await until(lambda: done == ["run", "run", "run"])
    await loop.finish(1)
    assert done == ["run", "run", "run", "finish"]
    loop.start()
    await until(lambda: len(done) == 6)
    await loop.stop()
    await loop.finish(1)
    assert done[6:] == ["finish"]


async def test_a_last_run_that_takes_too_long_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    async def job() -> None:
        pass

    async def finish() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("finish")

    loop = JobLoop([Job("files", job, 60, finish=finish)])
    loop.start()
    await beats()
    await loop.finish(0.02)
    assert ended == ["finish"]
    assert "files: not finished in time" in caplog.text
