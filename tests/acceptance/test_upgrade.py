"""A file that a newer version has upgraded: the version before goes on working, older ones refuse."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from command_line import call
from tests.upgrading import TABLES, breaking_version, failing_version, next_version, use

import onlooker
from onlooker.domain.errors import StoreError
from onlooker.policy.settings import Settings
from onlooker.ports import Store
from onlooker.stores.postgres import database as of_postgres
from onlooker.stores.sql.database import Migration, migration, migrations, only_adds, statements
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.connection import PACKAGE, create_file, migrate, open_connection
from onlooker.testing import StoreContract

pytestmark = [pytest.mark.anyio, pytest.mark.req(38)]

SMALL = Settings(budget=400, idle_minutes=0)
STEPS = migrations(PACKAGE)
KNOWN = STEPS[-1].number


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def upgrade(path: Path, steps: Sequence[Migration]) -> None:
    """What a later version does when it opens the file."""
    create_file(path)
    with closing(open_connection(path)) as connection:
        migrate(connection, path, steps)


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def content(path: Path) -> bytes:
    return path.read_bytes()


# ------------------------------------------------------------------------------------ one behind


@pytest.mark.smoke
class TestOneVersionBehind(StoreContract):
    """The whole contract of a store, on the schema of the version after this one."""

    @pytest.fixture(autouse=True)
    def upgraded(self, tmp_path: Path) -> None:
        self.path = tmp_path / "memory.db"
        self.opened: list[SqliteStore] = []

    async def make_store(self) -> Store:
        upgrade(self.path, next_version(STEPS))
        return SqliteStore(self.path)

    async def reopen(self, store: Store) -> Store:
        await store.close()
        again = SqliteStore(self.path)
        await again.open()
        self.opened.append(again)
        return again

    @pytest.fixture(autouse=True)
    async def close_what_was_reopened(self, anyio_backend: str, upgraded: None) -> Any:
        yield
        for store in self.opened:
            await store.close()


async def test_a_program_goes_on_while_and_after_the_file_is_upgraded(path: Path) -> None:
    async with onlooker.open_memory(path, settings=SMALL) as memory:
        await use(memory, "before")
        await asyncio.to_thread(upgrade, path, next_version(STEPS))
        await use(memory, "after")
    async with onlooker.open_memory(path, settings=SMALL) as memory:
        await use(memory, "again")
    assert version(path) == KNOWN + 1
    doctor = await asyncio.to_thread(call, "doctor", "--db", path)
    assert (doctor.code, f"version {KNOWN + 1}" in doctor.out, "can use it" in doctor.out) == (
        0,
        True,
        True,
    )


async def test_a_file_one_version_ahead_is_backed_up_and_put_back(path: Path, tmp_path: Path) -> None:
    async with onlooker.open_memory(path, settings=SMALL) as memory:
        await use(memory, "before")
    upgrade(path, next_version(STEPS))
    for command in (
        ("backup", tmp_path / "copy.db"),
        ("restore", tmp_path / "copy.db", "--replace", "--yes"),
    ):
        done = await asyncio.to_thread(call, *command, "--db", path)
        assert done.code == 0, done.err
    assert version(path) == KNOWN + 1


# ------------------------------------------------------------------------------------ too far behind


@pytest.mark.parametrize("ahead", ["breaking", "two"])
async def test_a_program_that_is_too_old_says_so_and_changes_nothing(path: Path, ahead: str) -> None:
    async with onlooker.open_memory(path, settings=SMALL) as memory:
        await use(memory, "before")
    steps = breaking_version(STEPS)
    if ahead == "two":
        steps = next_version(STEPS)
        steps.append(migration(KNOWN + 2, "CREATE TABLE shapes (name TEXT);"))
    upgrade(path, steps)
    before = content(path)
    with pytest.raises(StoreError, match="upgrade onlooker and start again") as raised:
        await SqliteStore(path).open()
    assert f"to schema version {steps[-1].number}" in str(raised.value)
    assert f"this one knows {KNOWN}" in str(raised.value)
    assert content(path) == before
    done = await asyncio.to_thread(call, "sessions", "--db", path)
    assert (done.code, "upgrade onlooker and start again" in done.err) == (1, True)


async def test_a_running_program_that_became_too_old_says_what_to_do(path: Path) -> None:
    async with onlooker.open_memory(path, settings=SMALL) as memory:
        session = memory.session("s", owner="ana")
        await session.record(onlooker.user("before"))
        await asyncio.to_thread(upgrade, path, breaking_version(STEPS))
        with pytest.raises(StoreError, match="upgrade onlooker and start again"):
            await session.record(onlooker.user("after"))


# ------------------------------------------------------------------------------------ upgrading


async def test_a_migration_that_fails_leaves_the_version_before_intact(path: Path) -> None:
    async with onlooker.open_memory(path, settings=SMALL) as memory:
        await use(memory, "before")
        with pytest.raises(StoreError, match=f"migration {KNOWN + 1} failed and nothing was changed"):
            await asyncio.to_thread(upgrade, path, failing_version(STEPS))
        await use(memory, "after")
    assert version(path) == KNOWN
    with closing(sqlite3.connect(path)) as db:
        for table in TABLES:
            assert "colour" not in [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    upgrade(path, next_version(STEPS))
    async with onlooker.open_memory(path, settings=SMALL) as memory:
        await use(memory, "mended")


def _start(path: Path, barrier: Barrier, number: int) -> None:
    async def run() -> None:
        async with onlooker.open_memory(path, settings=SMALL) as memory:
            await use(memory, f"process {number}")

    barrier.wait(120)
    if number % 2:
        upgrade(path, next_version(STEPS))
    asyncio.run(run())


@pytest.mark.req(43)
async def test_processes_of_both_versions_start_at_once(path: Path) -> None:
    async with onlooker.open_memory(path, settings=SMALL) as memory:
        await use(memory, "before")
    context = multiprocessing.get_context("forkserver")
    barrier = context.Barrier(4)
    workers = [context.Process(target=_start, args=(path, barrier, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join, 240)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert version(path) == KNOWN + 1
    async with onlooker.open_memory(path, settings=SMALL) as memory:
        assert len(await memory.sessions()) == 5


# ------------------------------------------------------------------------------------ what migrations say


@pytest.mark.parametrize(
    ("script", "works_with"),
    [
        ("CREATE TABLE a (b TEXT);", 6),
        ("-- Why.\nALTER TABLE a ADD COLUMN b TEXT;\nCREATE INDEX c ON a (b);", 6),
        ("ALTER TABLE a ADD COLUMN b TEXT NOT NULL DEFAULT '';", 7),
        ("CREATE UNIQUE INDEX c ON a (b);", 7),
        ("DROP TABLE a;", 7),
        ("CREATE TABLE a (b TEXT); UPDATE c SET d = 1;", 7),
        ("-- works with: 6\nDROP TABLE a;", 6),
        ("-- works with: 7\nCREATE TABLE a (b TEXT);", 7),
    ],
)
def test_what_only_adds_works_with_the_version_before(script: str, works_with: int) -> None:
    assert migration(7, script) == (7, works_with, script)


def test_every_migration_says_what_it_works_with() -> None:
    """Of whatever does not only add; that of the first version is nobody's business."""
    for steps in (STEPS, migrations(of_postgres.PACKAGE)):
        assert [s.number for s in steps] == list(range(1, len(steps) + 1))
        for step in steps[1:]:
            assert only_adds(step.script) or "-- works with: " in step.script, step.number
            assert step.works_with <= step.number


@pytest.mark.parametrize("package", [PACKAGE, of_postgres.PACKAGE])
def test_no_statement_depends_on_which_columns_there_are(package: str) -> None:
    for name, text in statements(package).items():
        words = " ".join(text.split()).lower()
        for wrong in ("select *", ".*", "returning *", ", * "):
            assert wrong not in words, name
        assert " values (" not in words or ") values (" in words, name
