"""What only a file on disk can promise: durability, many processes, group commit, clear errors."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import stat
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import TypeVar, cast

import pytest
from sqlite_files import explained, opened, record

from onlooker.domain.errors import ClosedError, ConflictError, NotFoundError, SettingsError, StoreError
from onlooker.domain.history import MessageRow, SessionRow
from onlooker.domain.notes import Commit, Guard
from onlooker.stores.sql.database import Database, statements
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.connection import PACKAGE, SqliteDatabase, connect
from onlooker.stores.sqlite.key import Key
from onlooker.testing.store_contract.case import ANA, BEN, ids, note, said, talk

pytestmark = pytest.mark.anyio

T = TypeVar("T")


async def on_writer(store: SqliteStore, job: Callable[[sqlite3.Connection], T]) -> T:
    """Run something of the test's own among the store's jobs."""

    def run(db: Database) -> T:
        return job(cast("SqliteDatabase", db).connection)

    return await store.write(run)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


# ------------------------------------------------------------------------------------ the file


async def test_the_file_and_its_logs_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "memory.db"
    async with opened(path) as store:
        await record(store, said("m1"))
        files = list(path.parent.iterdir())
        assert len(files) >= 2
        assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}
    assert list(path.parent.iterdir()) == [path]


async def test_an_existing_file_keeps_its_permissions(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT))
    os.chmod(path, 0o640)
    async with opened(path) as store:
        await record(store, said("m1"))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640


async def test_a_commit_waits_for_the_disk(path: Path) -> None:
    async with opened(path) as store:
        synced = await on_writer(store, lambda db: db.execute("PRAGMA synchronous").fetchone()[0])
        mode = await on_writer(store, lambda db: db.execute("PRAGMA journal_mode").fetchone()[0])
    assert (synced, mode) == (2, "wal")


async def test_only_what_can_be_made_again_leaves_waiting_for_the_disk_to_the_next_commit(path: Path) -> None:
    def synced(db: Database) -> int:
        return cast("SqliteDatabase", db).connection.execute("PRAGMA synchronous").fetchone()[0]

    async with opened(path) as store:
        alone = await store.write(synced, synced=False)
        after = await store.write(synced)
        waiting = [store.write(synced, synced=n % 2 == 0) for n in range(20)]
        together = await asyncio.gather(*waiting)
    assert (alone, after) == (1, 2)
    assert together[::2] == [2] * 10


async def test_an_index_that_grows_message_by_message_stays_in_few_parts(path: Path) -> None:
    def parts(db: sqlite3.Connection) -> int:
        return db.execute("SELECT COUNT(DISTINCT segid) FROM search_idx").fetchone()[0]

    most = 0
    async with opened(path) as store:
        for n in range(60):
            await record(store, said(f"m{n}"))
            await store.index(ANA)
            most = max(most, await on_writer(store, parts))
    assert most <= 10  # 15 without joining them


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text("Dear diary, this is not a database.\n" * 100)
    with pytest.raises(StoreError, match="not a database"):
        asyncio.run(SqliteStore(path).open())
    assert path.read_text().startswith("Dear diary")


async def test_a_database_of_another_application_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE messages (mine TEXT)")
    with pytest.raises(StoreError, match="another application"):
        await SqliteStore(path).open()
    with closing(sqlite3.connect(path)) as other:
        assert [r[0] for r in other.execute("SELECT name FROM sqlite_schema")] == ["messages"]


async def test_a_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    async with opened(path):
        pass
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 9999")
    with pytest.raises(StoreError, match="newer version"):
        await SqliteStore(path).open()


async def test_a_path_that_cannot_be_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="check the path"):
        await SqliteStore(tmp_path / "file" / "memory.db").open()
    with pytest.raises(StoreError, match="is a folder; name a database file in it"):
        await SqliteStore(tmp_path).open()


def test_a_database_in_memory_has_no_key() -> None:
    with pytest.raises(SettingsError, match="encrypts a file"):
        SqliteStore(":memory:", key=Key("secret"))


async def test_each_database_in_memory_is_its_own_and_lives_as_long_as_its_store() -> None:
    async with opened(":memory:") as store, opened(":memory:") as other:
        await record(store, said("m1"))
        assert await other.load(ANA) is None
    async with opened(store) as again:
        assert [m.id for m in await again.messages(ANA)] == ["m1"]
    anchor = weakref.ref(again)
    name = store.path
    del store, again, other
    # The thread that closed it may not have let go of it yet.
    async with asyncio.timeout(30):
        while anchor() is not None:
            gc.collect()
            await asyncio.sleep(0.01)
    with closing(connect(name, None, timeout=0)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0


async def test_a_database_in_memory_is_written_while_it_is_read() -> None:
    async with opened(":memory:") as store:
        await record(store, *talk(1, 50))
        rows = store.dump()
        first = await anext(rows)
        await record(store, said("later"))
        rest = [row async for row in rows]
    assert isinstance(first, SessionRow)
    assert "later" not in [row.message.id for row in rest if isinstance(row, MessageRow)]


async def test_a_store_that_was_never_opened_says_so(path: Path) -> None:
    with pytest.raises(ClosedError):
        await SqliteStore(path).load(ANA)


async def test_normal_text_can_be_searched_where_it_lies(path: Path) -> None:
    async with opened(path) as store:
        await record(store, said("m1", "Ana moved to Oslo, 東京 later"))
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT id FROM messages WHERE text LIKE '%oslo%東京%'").fetchall()
    assert found == [("m1",)]


async def test_every_statement_fits_the_schema(path: Path) -> None:
    async with opened(path):
        pass
    for name in statements(PACKAGE):
        try:
            explained(path, name, "EXPLAIN")
        except sqlite3.Error as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("name", ["session", "messages", "live_notes", "known_id", "unnoted_tokens", "due"])
async def test_what_runs_each_turn_scans_no_table(path: Path, name: str) -> None:
    async with opened(path):
        pass
    plan = explained(path, name)
    assert plan
    tables = ("sessions", "messages", "archive", "notes")
    assert not [step for step in plan if step in {f"SCAN {table}" for table in tables}]


# ------------------------------------------------------------------------------------ group commit


async def test_what_waits_together_is_committed_together(path: Path) -> None:
    async with opened(path) as store:
        await record(store, said("first"))
        before = store.commits
        await asyncio.gather(*(record(store, said(f"m{n}")) for n in range(200)))
        assert store.commits - before <= 50
        assert len(await store.messages(ANA)) == 201


async def test_a_thousand_messages_in_one_call_are_one_transaction(path: Path) -> None:
    async with opened(path) as store:
        before = store.commits
        await record(store, *talk(1, 1000))
        assert store.commits == before + 1


@pytest.mark.req(43)
async def test_a_job_that_fails_leaves_the_others_of_its_group(path: Path) -> None:
    async with opened(path) as store:
        await record(store, said("m1"))
        stale = Commit(Guard(7, 7), add=(note("n1", 1, 1),))
        jobs = [
            *(record(store, said(f"a{n}")) for n in range(20)),
            store.commit(ANA, stale),
            store.pin(ANA, "nobody", on=True),
            *(record(store, said(f"b{n}"), session=BEN) for n in range(20)),
        ]
        results = await asyncio.gather(*jobs, return_exceptions=True)
        assert [type(r) for r in results if isinstance(r, Exception)] == [ConflictError, NotFoundError]
        assert len(await store.messages(ANA)) == 21
        assert len(await store.messages(BEN)) == 20
        assert await store.notes(ANA) == []


async def test_a_job_that_fails_half_way_is_undone_alone(path: Path) -> None:
    def half(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO store_values VALUES ('half', 'written')")
        db.execute("INSERT INTO store_values VALUES ('half', 'again')")

    async with opened(path) as store:
        results = await asyncio.gather(
            store.set_value("before", "1"),
            on_writer(store, half),
            store.set_value("after", "1"),
            return_exceptions=True,
        )
        assert isinstance(results[1], ConflictError)
        assert await store.get_value("half") is None
        assert (await store.get_value("before"), await store.get_value("after")) == ("1", "1")


async def test_where_sqlite_gives_up_the_whole_group_nothing_of_it_is_said_to_be_done(path: Path) -> None:
    begun, go_on = Event(), Event()

    def hold(db: sqlite3.Connection) -> None:
        begun.set()
        go_on.wait(120)

    def give_up(db: sqlite3.Connection) -> None:
        db.execute("ROLLBACK")  # as SQLite does by itself when the disk fails
        raise sqlite3.OperationalError("disk I/O error")

    async with opened(path) as store:
        held = asyncio.create_task(on_writer(store, hold))
        await asyncio.to_thread(begun.wait, 120)
        jobs = (store.set_value("before", "1"), on_writer(store, give_up), store.set_value("after", "1"))
        group = asyncio.gather(*jobs, return_exceptions=True)
        await asyncio.sleep(0)
        go_on.set()
        await held
        before, gave_up, after = await group
        assert (type(before), type(gave_up), after) == (StoreError, StoreError, None)
        assert (await store.get_value("before"), await store.get_value("after")) == (None, "1")


async def test_a_cancelled_wait_harms_nobody(path: Path) -> None:
    async with opened(path) as store:
        tasks = [asyncio.create_task(record(store, said(f"m{n}"))) for n in range(40)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert {f"m{n}" for n in range(1, 40, 2)} <= set(ids(await store.messages(ANA)))


def test_a_loop_that_closes_while_it_waits_harms_no_other(path: Path) -> None:
    store = SqliteStore(path)

    async def leave() -> None:
        await store.open()
        asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)  # type: ignore[union-attr]
        await asyncio.gather(*(record(store, said(f"m{n}")) for n in range(20)))

    async def come_back() -> None:
        await record(store, said("back"))
        assert "back" in ids(await store.messages(ANA))
        await store.close()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(leave())
    asyncio.run(come_back())


def test_a_store_can_be_used_from_a_new_loop_after_closing(path: Path) -> None:
    store = SqliteStore(path)

    async def once(ident: str) -> list[str]:
        async with opened(path):
            await store.open()
            await record(store, said(ident))
            found = ids(await store.messages(ANA))
            await store.close()
            return found

    assert asyncio.run(once("m1")) == ["m1"]
    assert asyncio.run(once("m2")) == ["m1", "m2"]


async def test_closing_finishes_what_was_begun(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    tasks = [asyncio.create_task(record(store, said(f"m{n}"))) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*tasks)
    async with opened(path) as again:
        assert len(await again.messages(ANA)) == 50


# ------------------------------------------------------------------------------------ trouble


async def test_a_database_that_another_process_holds_is_an_error_that_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onlooker.stores.sqlite.connection.BUSY_SECONDS", 0.1)
    monkeypatch.setattr("onlooker.stores.sqlite.store.WRITE_SECONDS", 0.1)
    async with opened(path) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked by another process"):
                await record(store, said("m1"))
            assert await store.load(ANA) is None
            other.execute("COMMIT")
        await record(store, said("m1"))
        assert ids(await store.messages(ANA)) == ["m1"]


async def test_a_full_disk_is_an_error_and_nothing_is_half_written(path: Path) -> None:
    async with opened(path) as store:
        await record(store, said("m1"))
        size = await on_writer(store, lambda db: db.execute("PRAGMA page_count").fetchone()[0])
        await on_writer(store, lambda db: db.execute(f"PRAGMA max_page_count = {size + 2}"))
        big = [said(f"b{n}", "x" * 5000) for n in range(20)]
        with pytest.raises(StoreError, match="disk is full"):
            await record(store, *big)
        assert ids(await store.messages(ANA)) == ["m1"]
        await on_writer(store, lambda db: db.execute("PRAGMA max_page_count = 100000"))
        await record(store, *big)
        assert len(await store.messages(ANA)) == 21
