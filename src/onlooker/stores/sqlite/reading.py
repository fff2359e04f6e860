"""A database at one moment, for whoever only reads it: no file is created, and no schema upgraded."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import TypeVar

from onlooker.domain.errors import ClosedError, StoreError
from onlooker.domain.history_rows import EVERYTHING, Row, Scope
from onlooker.stores.sqlite import driver, moving
from onlooker.stores.sqlite.feeding import in_batches
from onlooker.stores.sqlite.key import Key
from onlooker.stores.sqlite.opening import APPLICATION_ID, BUSY_SECONDS, store_error, version_of
from onlooker.stores.sqlite.statements import migrations, sql

T = TypeVar("T")


class SqliteReading:
    """`Reading` of the file at `path`, encrypted where there is a key."""

    def __init__(self, path: Path, key: Key | None = None) -> None:
        self._path = path
        self._key = key
        self._db: sqlite3.Connection | None = None
        self._wanted = False  # between `open` and `close`
        # A reader that was given up may still be reading, or opening, in its thread.
        self._lock = Lock()

    @property
    def name(self) -> str:
        return str(self._path)

    async def open(self) -> bool:
        self._wanted = True
        return await asyncio.to_thread(self._open)

    async def close(self) -> None:
        self._wanted = False
        await asyncio.to_thread(self._close)

    def _open(self) -> bool:
        db = self._opened()
        with self._lock:
            # Whoever asked may have given up meanwhile, and then what was opened is nobody's.
            if db is not None and not self._wanted:
                self._let_go(db)
            elif db is not None:
                self._db = db
        return db is not None

    def _close(self) -> None:
        with self._lock:
            db, self._db = self._db, None
            if db is not None:
                self._let_go(db)

    async def mark(self) -> tuple[int, ...]:
        db = self._reading()
        return await asyncio.to_thread(self._said, lambda: tuple(db.execute(sql("mark")).fetchone()))

    async def rows(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        try:
            async for row in in_batches(self._one_by_one(moving.dump(self._reading(), scope))):
                yield row
        except self._errors() as error:
            raise self._in_our_words(error) from error

    def _reading(self) -> sqlite3.Connection:
        if self._db is None:
            raise ClosedError(f"{self.name} is not open")
        return self._db

    def _one_by_one(self, rows: Iterator[Row]) -> Iterator[Row]:
        while True:
            with self._lock:
                row = next(rows, None) if self._db is not None else None
            if row is None:
                return
            yield row

    def _said(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except self._errors() as error:
            raise self._in_our_words(error) from error

    # -- what another database does otherwise

    def _let_go(self, db: sqlite3.Connection) -> None:
        db.close()

    def _opened(self) -> sqlite3.Connection | None:
        """A connection that sees this moment and no later one; None where nothing is stored yet."""
        in_memory = driver.is_in_memory(self._path)
        if not in_memory and (not self._path.is_file() or not self._path.stat().st_size):
            return None
        # Not even the log may be written back to the file, as the last one to close it does.
        db = self._said(lambda: driver.connect(self._path, self._key, timeout=BUSY_SECONDS, read_only=True))
        if in_memory:
            db = self._said(lambda: _copied(db))
        try:
            there = self._said(lambda: self._begin(db))
        except BaseException:
            db.close()
            raise
        if not there:
            db.close()
            return None
        return db

    def _begin(self, db: sqlite3.Connection) -> bool:
        db.execute("BEGIN")
        if not db.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").fetchone()[0]:
            return False
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreError(f"{self.name}: a database of another application; choose another path")
        refuse_older(self.name, version_of(db, self._path), migrations()[-1].number)
        return True

    def _errors(self) -> tuple[type[Exception], ...]:
        return driver.errors()

    def _in_our_words(self, error: Exception) -> StoreError:
        assert isinstance(error, driver.errors())
        return store_error(error, self._path)


def _copied(db: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of a database in memory: that has no log, so that a long read would stop its writer."""
    with closing(db):
        copy = driver.connect(driver.new_in_memory(), None, timeout=0)
        db.backup(copy)
    return copy


def refuse_older(where: str, version: int, known: int) -> None:
    """See that a database is as this version writes one: what is only read is not upgraded."""
    if version < known:
        raise StoreError(
            f"{where}: of an earlier version of onlooker (schema {version}, and this one reads {known}), and "
            "reading it must not change it: open it once with this version (`onlooker sessions --db …` "
            "upgrades it), or do so with a copy"
        )
