"""A schema that a newer version has upgraded: the version before goes on working, older ones refuse."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg
import pytest

import onlooker
from onlooker.domain.errors import StoreError
from onlooker.policy.settings import Settings
from onlooker.ports import Store
from onlooker.stores.postgres import PostgresStore, database
from onlooker.stores.postgres.connection import address
from onlooker.stores.postgres.database import PACKAGE
from onlooker.stores.sql.database import Migration, migration, migrations
from onlooker.testing import StoreContract
from tests.postgres.server import Server
from tests.upgrading import TABLES, breaking_version, failing_version, next_version, use

pytestmark = [pytest.mark.anyio, pytest.mark.req(38)]

SMALL = Settings(budget=400, idle_minutes=0)
STEPS = migrations(PACKAGE)
KNOWN = STEPS[-1].number


def upgrade(url: str, steps: Sequence[Migration]) -> None:
    """What a later version does when it opens the store."""
    database.migrate(address(url), steps)


def version(url: str) -> int:
    with address(url).connect() as connection:
        row = connection.execute("SELECT max(number) FROM migrations").fetchone()
        assert row is not None
        return row[0]


# ------------------------------------------------------------------------------------ one behind


@pytest.mark.smoke
class TestOneVersionBehind(StoreContract):
    """The whole contract of a store, on the schema of the version after this one."""

    erases = False

    @pytest.fixture(autouse=True)
    def upgraded(self, server: Server) -> None:
        self.url = server.new_url(pool="4")
        self.opened: list[PostgresStore] = []

    async def make_store(self) -> Store:
        upgrade(self.url, next_version(STEPS))
        return PostgresStore(self.url)

    async def reopen(self, store: Store) -> Store:
        await store.close()
        again = PostgresStore(self.url)
        await again.open()
        self.opened.append(again)
        return again

    @pytest.fixture(autouse=True)
    async def close_what_was_reopened(self, anyio_backend: str, upgraded: None) -> Any:
        yield
        for store in self.opened:
            await store.close()


async def test_a_program_goes_on_while_and_after_the_schema_is_upgraded(server: Server) -> None:
    url = server.new_url(pool="3")
    async with onlooker.open_memory(url, settings=SMALL) as memory:
        # Often enough for the server to know each statement, and which columns it gives.
        for n in range(3):
            await use(memory, f"before {n}")
        await asyncio.to_thread(upgrade, url, next_version(STEPS))
        await use(memory, "after")
    async with onlooker.open_memory(url, settings=SMALL) as memory:
        await use(memory, "again")
    assert version(url) == KNOWN + 1


# ------------------------------------------------------------------------------------ too far behind


@pytest.mark.parametrize("ahead", ["breaking", "two"])
async def test_a_program_that_is_too_old_says_so_and_changes_nothing(server: Server, ahead: str) -> None:
    url = server.new_url()
    async with onlooker.open_memory(url, settings=SMALL) as memory:
        await use(memory, "before")
    steps = breaking_version(STEPS)
    if ahead == "two":
        steps = next_version(STEPS)
        steps.append(migration(KNOWN + 2, "CREATE TABLE shapes (name TEXT);"))
    upgrade(url, steps)
    with pytest.raises(StoreError, match="upgrade onlooker and start again") as raised:
        await PostgresStore(url).open()
    assert f"to schema version {steps[-1].number}" in str(raised.value)
    assert f"this one knows {KNOWN}" in str(raised.value)
    assert version(url) == steps[-1].number


async def test_a_running_program_that_became_too_old_says_what_to_do(server: Server) -> None:
    url = server.new_url()
    async with onlooker.open_memory(url, settings=SMALL) as memory:
        session = memory.session("s", owner="ana")
        await session.record(onlooker.user("before"))
        await asyncio.to_thread(upgrade, url, breaking_version(STEPS))
        with pytest.raises(StoreError, match="upgrade onlooker and start again"):
            await session.record(onlooker.user("after"))


# ------------------------------------------------------------------------------------ upgrading


async def test_a_migration_that_fails_leaves_the_version_before_intact(server: Server) -> None:
    url = server.new_url()
    async with onlooker.open_memory(url, settings=SMALL) as memory:
        await use(memory, "before")
        with pytest.raises(StoreError, match=f"migration {KNOWN + 1} failed and nothing was changed"):
            await asyncio.to_thread(upgrade, url, failing_version(STEPS))
        await use(memory, "after")
        assert version(url) == KNOWN
        with address(url).connect() as connection:
            columns = connection.execute(
                "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema()"
                " AND column_name = 'colour'"
            )
            assert columns.fetchall() == []
        await asyncio.to_thread(upgrade, url, next_version(STEPS))
        await use(memory, "mended")


async def test_an_upgrade_waits_for_a_long_reader_without_keeping_others_waiting(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.2)
    url = server.new_url()
    async with onlooker.open_memory(url, settings=SMALL) as memory:
        session = memory.session("s", owner="ana")
        await session.record(onlooker.user("first"))
        with address(url).connect() as reader:
            reader.execute("BEGIN; SELECT count(*) FROM messages")
            upgrading = asyncio.create_task(asyncio.to_thread(upgrade, url, next_version(STEPS)))
            began = time.monotonic()
            while time.monotonic() < began + 1:  # several tries of the upgrade
                await session.record(onlooker.user("more"))
            assert not upgrading.done()
            reader.execute("COMMIT")
        await asyncio.wait_for(upgrading, 120)
        await session.record(onlooker.user("last"))
    assert version(url) == KNOWN + 1


def _start(url: str, barrier: Barrier, number: int) -> None:
    async def run() -> None:
        async with onlooker.open_memory(url, settings=SMALL) as memory:
            await use(memory, f"process {number}")

    barrier.wait(120)
    if number % 2:
        upgrade(url, next_version(STEPS))
    asyncio.run(run())


@pytest.mark.req(43)
@pytest.mark.parametrize("fresh", [True, False], ids=["new", "there already"])
async def test_processes_of_both_versions_start_at_once(server: Server, fresh: bool) -> None:
    url = server.new_url(pool="3")
    if not fresh:
        upgrade(url, STEPS)
    context = multiprocessing.get_context("forkserver")
    barrier = context.Barrier(4)
    workers = [context.Process(target=_start, args=(url, barrier, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join, 240)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert version(url) == KNOWN + 1
    async with onlooker.open_memory(url, settings=SMALL) as memory:
        assert len(await memory.sessions()) == 4


async def test_every_table_is_one_that_an_upgrade_is_tried_on(server: Server) -> None:
    url = server.new_url()
    upgrade(url, STEPS)
    with psycopg.connect(server.url()) as connection:
        found = connection.execute(
            "SELECT tablename::text FROM pg_tables WHERE schemaname = %s", (address(url).schema,)
        )
        assert {row[0] for row in found} - {"migrations", "workers"} == set(TABLES)


async def test_a_schema_that_an_administrator_made_is_enough(server: Server) -> None:
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("CREATE ROLE tenant LOGIN; CREATE SCHEMA of_tenant AUTHORIZATION tenant")
    url = server.url().replace("postgres@", "tenant@") + "&schema=of_tenant"
    async with onlooker.open_memory(url) as memory:
        await memory.session("first").record(onlooker.user("Hello"))
        assert len(await memory.sessions()) == 1
