"""A worker hears of work on a connection of its own, and finds its way back where it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from pgqueuer.core.qm import QueueManager

import onlooker
from onlooker.policy.settings import Settings
from onlooker.stores.postgres.connection import address
from onlooker.stores.postgres.workers import ListeningDriver, connected
from onlooker.testing import ScriptedModel
from tests.postgres.server import Server

pytestmark = pytest.mark.anyio

SMALL = Settings(budget=1_000)
TIMING = onlooker.Timing(sweep_seconds=1.0, stop_deadline=120.0)

# The process that listens, as the server knows it.
_LISTENERS = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%%onlooker_' || %s || '%%'"


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + 120
    while not await condition():
        assert time.monotonic() < deadline, "that took too long"
        await asyncio.sleep(0.05)


async def test_what_a_worker_tells_itself_is_not_sent_before_it_listens(server: Server) -> None:
    where = address(server.new_url())
    heard: list[object] = []
    async with (
        connected(where) as asking,
        connected(where) as listening,
        ListeningDriver(asking, listening) as driver,
    ):
        word = asyncio.create_task(driver.notify("news", "hello"))
        await asyncio.sleep(0.2)
        await driver.add_listener("news", heard.append)
        await word

        async def came() -> bool:
            return heard == ["hello"]

        await until(came)


@pytest.mark.req(43, 97)
async def test_a_worker_that_no_longer_hears_anything_listens_anew(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = QueueManager._run_periodic_health_check  # pyright: ignore[reportPrivateUsage]

    async def look_often(manager: QueueManager) -> None:  # every ten seconds is too seldom for a test
        await look(manager, timedelta(seconds=0.5))

    monkeypatch.setattr(QueueManager, "_run_periodic_health_check", look_often)
    url = server.new_url()

    def listeners() -> list[int]:
        with psycopg.connect(server.url(), autocommit=True) as other:
            return [row[0] for row in other.execute(_LISTENERS, (address(url).schema,))]

    async with (
        onlooker.open_memory(url, model=ScriptedModel(), settings=SMALL, timing=TIMING, workers="queue"),
        onlooker.open_memory(
            url, settings=SMALL, timing=replace(TIMING, sweep_seconds=60), workers="external"
        ) as web,
    ):

        async def listens() -> bool:
            return bool(await asyncio.to_thread(listeners))

        await until(listens)
        (deaf,) = listeners()
        with psycopg.connect(server.url(), autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (deaf,))

        async def listens_anew() -> bool:
            return bool(set(await asyncio.to_thread(listeners)) - {deaf})

        await until(listens_anew)
        session = web.session("a")
        for n in range(40):
            await session.record(
                onlooker.user(f"On day {n} the order {n}-1431 went to the warehouse in Oslo.")
            )

        async def nothing_due() -> bool:
            return not await web.store.due(datetime.now(UTC), limit=1)

        await until(nothing_due)
        assert await session.notes()
