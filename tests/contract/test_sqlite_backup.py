"""The database file as a whole: copied while it is in use, put back, wiped."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from tests.contract.sqlite_files import opened, record

from onlooker.domain.errors import ClosedError, StoreError
from onlooker.domain.history import Forgetting
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.backup import restore_file
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, ids, said, talk

pytestmark = pytest.mark.anyio


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def bytes_in(folder: Path) -> bytes:
    return b"".join(p.read_bytes() for p in folder.iterdir())


async def test_a_backup_is_the_store_of_one_moment_while_others_write(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await record(store, *talk(1, 200))
        stop = asyncio.Event()

        async def write() -> int:
            n = 0
            while not stop.is_set():
                n += 1
                await store.append(ANA, [said(f"x{n}"), said(f"y{n}")], due_tokens=NEVER, now=NOW)
            return n

        writing = asyncio.create_task(write())
        for copy in ("one.db", "two.db"):
            await store.back_up(tmp_path / copy)
        stop.set()
        assert await writing
    assert stat.S_IMODE(os.stat(tmp_path / "one.db").st_mode) == 0o600
    assert names(tmp_path) == ["a.db", "one.db", "two.db"]
    for copy in ("one.db", "two.db"):
        async with opened(tmp_path / copy) as found:
            messages = ids(await found.messages(ANA))
            assert messages[:200] == [f"m{n}" for n in range(1, 201)]
            assert len(messages) % 2 == 0  # no half of what came together


async def test_a_backup_is_put_back_where_nothing_stands_or_what_stands_may_go(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    async with opened(path) as store:
        await record(store, *talk(1, 3))
        await store.back_up(copy)
        await record(store, *talk(4, 5))
    restore_file(copy, tmp_path / "new.db")
    with pytest.raises(StoreError, match="exists already"):
        restore_file(copy, path)
    restore_file(copy, path, replace=True)
    for file in (path, tmp_path / "new.db"):
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        async with opened(file) as store:
            assert ids(await store.messages(ANA)) == ["m1", "m2", "m3"]
            await record(store, *talk(6, 6))


async def test_a_database_that_someone_has_open_is_not_replaced(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    async with opened(path) as store:
        await record(store, *talk(1, 3))
        await store.back_up(copy)
        with pytest.raises(StoreError, match="in use"):
            restore_file(copy, path, replace=True)
        await record(store, *talk(4, 4))
        assert len(await store.messages(ANA)) == 4


async def test_what_is_no_backup_is_refused_and_the_database_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as store:
        await record(store, *talk(1, 300))
        await store.back_up(tmp_path / "good.db")
    text, other, damaged, future = (tmp_path / n for n in ("text", "other.db", "damaged.db", "future.db"))
    text.write_text("no database at all " * 100)
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE t (x)")
    data = bytearray((tmp_path / "good.db").read_bytes())
    data[4096 * 3 : 4096 * 9] = b"\x5a" * (4096 * 6)
    damaged.write_bytes(data)
    future.write_bytes((tmp_path / "good.db").read_bytes())
    with closing(sqlite3.connect(future)) as db, db:
        db.execute("PRAGMA user_version = 999")
    for bad, says in (
        (text, "not a database"),
        (other, "not a database of Onlooker's"),
        (damaged, "damaged"),
        (future, "newer version"),
        (tmp_path / "nowhere.db", "no such file"),
        (path, "same file"),
    ):
        with pytest.raises(StoreError, match=says):
            restore_file(bad, path, replace=True)
    async with opened(path) as store:
        assert len(await store.messages(ANA)) == 300


async def test_a_target_that_cannot_be_is_said_clearly(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await record(store, *talk(1, 3))
        with pytest.raises(StoreError, match="exists already"):
            await store.back_up(tmp_path / "a.db")
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match="cannot be written"):
            await store.back_up(tmp_path / "file" / "copy.db")
    with pytest.raises(ClosedError):
        await store.back_up(tmp_path / "late.db")


async def test_a_database_in_memory_can_be_backed_up_to_a_file(tmp_path: Path) -> None:
    async with opened(":memory:") as store:
        await record(store, *talk(1, 3))
        await store.back_up(tmp_path / "memory.db")
    async with opened(tmp_path / "memory.db") as copy:
        assert len(await copy.messages(ANA)) == 3


async def test_erasing_takes_out_what_was_deleted_before_without_being_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as store:
        await record(store, *(said(f"m{n}", f"the secret number {n} is quamirute-{n}") for n in range(300)))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("DELETE FROM messages WHERE seq > 3")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"quamirute-200" in path.read_bytes()
    store = SqliteStore(path)
    await store.open()
    try:
        state = await store.load(ANA)
        assert state is not None
        await store.forget(ANA, Forgetting(("m1",), (), (), 0, state.progress.revision), now=NOW)
        assert await store.erase()
        found = bytes_in(tmp_path)
        assert b"quamirute-200" not in found
        assert b"quamirute-1" not in found
        assert b"quamirute-2" in found
    finally:
        await store.close()
