"""Leases: who has a session, for how long, and how it is let go of."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime, timedelta

import pytest

import onlooker
from onlooker.domain.errors import StoreError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Commit, Progress
from onlooker.engine.background import Leases
from onlooker.policy.settings import Settings
from onlooker.ports import Request
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

ONE = SessionId("default", "one")


class Flaky(SqliteStore):
    """A store that is away while `away` is set."""

    away = False
    asked = 0

    async def lease(self, session: SessionId, *, holder: str, now: datetime, until: datetime) -> int | None:
        self.asked += 1
        if self.away:
            raise StoreError("away")
        return await super().lease(session, holder=holder, now=now, until=until)


class Slow(SqliteStore):
    """A store that has done what it was asked to for a while before it says so; on request, not at all."""

    seconds = 0.02
    mute = False

    async def lease(self, session: SessionId, *, holder: str, now: datetime, until: datetime) -> int | None:
        fence = await super().lease(session, holder=holder, now=now, until=until)
        if holder != "asking":
            await asyncio.sleep(60 if self.mute else self.seconds)
        return fence


async def due(store: SqliteStore, clock: FrozenClock) -> None:
    await store.open()
    await store.append(ONE, [onlooker.user("Hello", id="m1")], due_tokens=0, now=clock.now())


async def is_free(store: SqliteStore, clock: FrozenClock) -> bool:
    now = clock.now()
    return await store.lease(ONE, holder="asking", now=now, until=now) is not None


async def test_work_that_is_cancelled_gives_the_session_back_and_leaves_it_due() -> None:
    store, clock = SqliteStore(":memory:"), FrozenClock()
    await due(store, clock)
    leases, begun = Leases(store, clock, 30.0), asyncio.Event()

    async def work() -> None:
        async with leases.held(ONE):
            begun.set()
            await asyncio.sleep(600)

    task = asyncio.create_task(work())
    await begun.wait()
    assert not await is_free(store, clock)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await is_free(store, clock)
    assert await store.due(clock.now()) == [ONE]


async def cancelled(work: Coroutine[None, None, None], after: float) -> None:
    task = asyncio.create_task(work)
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_session_that_was_being_taken_is_given_back_where_that_is_cancelled() -> None:
    store, clock = Slow(":memory:"), FrozenClock()
    await due(store, clock)

    async def work() -> None:
        async with Leases(store, clock, 30.0).held(ONE):
            pytest.fail("it was cancelled before that")

    await cancelled(work(), after=0.01)
    assert await is_free(store, clock)
    assert await store.due(clock.now()) == [ONE]


async def test_a_lease_that_was_being_extended_is_given_back_where_that_is_cancelled() -> None:
    store, clock = Slow(":memory:"), FrozenClock()
    await due(store, clock)
    leases = Leases(store, clock, 30.0)

    async def work() -> None:
        async with leases.held(ONE) as lease:
            assert lease is not None
            clock.advance(31)
            # Another was there meanwhile and is done, so that it is ours under a new fence.
            assert await is_free(store, clock)
            clock.advance(1)
            await leases.extend(lease)

    await cancelled(work(), after=0.03)
    assert await is_free(store, clock)


async def test_a_store_that_does_not_answer_does_not_hold_up_a_worker_that_is_cancelled() -> None:
    store, clock = Slow(":memory:"), FrozenClock()
    await due(store, clock)
    store.mute = True

    async def work() -> None:
        async with Leases(store, clock, 30.0).held(ONE):
            pytest.fail("nobody said that it is ours")

    async with asyncio.timeout(120):
        await cancelled(work(), after=0.01)


async def test_a_lease_that_ran_out_is_ours_still_where_nobody_was_there() -> None:
    store, clock = SqliteStore(":memory:"), FrozenClock()
    await due(store, clock)
    leases = Leases(store, clock, 30.0)
    async with leases.held(ONE) as lease:
        assert lease is not None
        clock.advance(31)
        assert await leases.still_held(lease)
        assert lease.until == clock.now() + timedelta(seconds=30)


async def test_one_who_finds_that_another_was_there_and_is_done_holds_nothing_up() -> None:
    store, clock = SqliteStore(":memory:"), FrozenClock()
    await due(store, clock)
    sleeper, other = Leases(store, clock, 30.0), Leases(store, clock, 30.0)
    async with sleeper.held(ONE) as old:
        assert old is not None
        clock.advance(31)
        async with other.held(ONE) as new:
            assert new is not None
            assert not await sleeper.extend(old)  # the other is at it
            await other.give_back(new)
        assert not await sleeper.extend(old)
        assert not await sleeper.still_held(old)
        assert await is_free(store, clock)


async def test_a_store_that_is_away_for_a_moment_does_not_end_the_beating() -> None:
    store, clock = Flaky(":memory:"), FrozenClock()
    await due(store, clock)
    async with Leases(store, clock, 0.03).held(ONE) as lease:
        assert lease is not None
        store.away = True
        await asyncio.sleep(0.05)
        store.away, before = False, store.asked
        clock.advance(0.02)
        async with asyncio.timeout(120):
            while lease.until != clock.now() + timedelta(seconds=0.03):  # noqa: ASYNC110  a beat has no event
                await asyncio.sleep(0.01)
        assert store.asked > before


async def test_a_beat_on_its_way_does_not_take_back_what_was_given_back() -> None:
    store, clock = SqliteStore(":memory:"), FrozenClock()
    await due(store, clock)
    leases = Leases(store, clock, 30.0)
    async with leases.held(ONE) as lease:
        assert lease is not None
        await asyncio.gather(leases.give_back(lease), leases.extend(lease))
        assert not await leases.extend(lease)
    assert await is_free(store, clock)


async def test_a_worker_that_lost_its_session_while_it_stood_still_pays_for_no_further_call() -> None:
    store, clock = SqliteStore(":memory:"), FrozenClock()
    settings = Settings(budget=400)
    texts = [f"On day {n} order {n}-1431 went to Oslo, and Ana signed for it herself." for n in range(60)]

    async def stand_still(_request: Request) -> None:
        """The process is stopped in the middle of the call, and another worker takes the session."""
        now = clock.advance(31)
        await store.lease(
            memory.session("one").id, holder="other", now=now, until=now + timedelta(seconds=60)
        )

    model = ScriptedModel(stand_still)
    memory = onlooker.open_memory(store, model=model, settings=settings, clock=clock, workers="external")
    async with memory:
        await memory.session("one").record(*map(onlooker.user, texts))
        assert not await memory.session("one").settle()
        assert model.calls == 1
        assert not await memory.session("one").notes(statuses=("active", "buffered"))


async def test_a_worker_whose_session_was_taken_between_two_notes_pays_for_no_further_call() -> None:
    clock = FrozenClock()

    class Contested(SqliteStore):
        """Another worker takes the session as soon as a note is committed."""

        async def commit(self, session: SessionId, change: Commit) -> Progress:
            progress = await super().commit(session, change)
            now = clock.advance(31)
            await self.lease(session, holder="other", now=now, until=now + timedelta(seconds=60))
            return progress

    model, texts = ScriptedModel(), [f"On day {n} order {n}-1431 went to Oslo by ferry." for n in range(60)]
    memory = onlooker.open_memory(
        Contested(":memory:"), model=model, budget=400, clock=clock, workers="external"
    )
    async with memory:
        await memory.session("one").record(*map(onlooker.user, texts))
        assert not await memory.session("one").settle()
        assert model.calls == 1
        assert len(await memory.session("one").notes(statuses=("active", "buffered"))) == 1
