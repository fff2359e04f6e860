"""Whatever is done to it, the store on PostgreSQL says and finds the same as the one in memory."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onlooker.domain.errors import StoreError
from onlooker.engine.recall import catch_up
from onlooker.stores.postgres import PostgresStore
from tests.contract.model_store import ModelStore
from tests.contract.test_alike import (
    Script,
    _check,  # pyright: ignore[reportPrivateUsage]
    _everything,  # pyright: ignore[reportPrivateUsage]
    _outcome,  # pyright: ignore[reportPrivateUsage]
)
from tests.contract.test_search_alike import _found  # pyright: ignore[reportPrivateUsage]
from tests.postgres.server import Server
from tests.promises.host import run as run_program
from tests.promises.programs import Program, programs

# A server is further away than a file: fewer examples, each as long.
fewer = settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.req(43)
@fewer
@given(st.integers(0, 2**32))
def test_both_stores_say_the_same_whatever_is_done(server: Server, seed: int) -> None:
    async def run() -> None:
        script = Script(seed)
        memory, postgres = ModelStore(), PostgresStore(server.empty_url())
        await asyncio.gather(memory.open(), postgres.open())
        try:
            for _ in range(25):
                step = await script.next(memory)
                assert await _outcome(step, memory) == await _outcome(step, postgres)
                assert await _everything(memory) == await _everything(postgres)
                await _check(postgres, script)
        finally:
            await postgres.close()

    asyncio.run(run())


@fewer
@given(st.integers(0, 2**32))
def test_both_stores_find_the_same_whatever_is_done(server: Server, seed: int) -> None:
    async def run() -> None:
        script, random = Script(seed), Random(seed)
        memory, postgres = ModelStore(), PostgresStore(server.empty_url())
        await asyncio.gather(memory.open(), postgres.open())
        try:
            for _ in range(20):
                step = await script.next(memory)
                for store in (memory, postgres):
                    with suppress(StoreError, KeyError):  # both refuse the same: above
                        await step(store)
                if random.random() < 0.5:
                    continue
                await catch_up(postgres, "ana")
                for kind in ("message", "note", "retired"):
                    assert await _found(postgres, kind) == await _found(memory, kind)
        finally:
            await postgres.close()

    asyncio.run(run())


@pytest.mark.req(9, 42, 43, 52, 53)
@fewer
@given(programs(most=14))
def test_promises_hold_on_postgres(server: Server, program: Program) -> None:
    url = server.empty_url(pool="4")
    run_program(program, lambda: PostgresStore(url))
