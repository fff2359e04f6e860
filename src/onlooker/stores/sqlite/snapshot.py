"""A read-only snapshot of a database file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar, cast

from onlooker.stores.sql.database import Database
from onlooker.stores.sql.transfer import Snapshot
from onlooker.stores.sqlite.connection import (
    BUSY_SECONDS,
    SqliteDatabase,
    check_current,
    connect,
    errors,
    is_in_memory,
    new_in_memory,
    store_error,
)
from onlooker.stores.sqlite.key import Key

T = TypeVar("T")


class SqliteSnapshot(Snapshot):
    """`Reading` of the file at `path`, encrypted if there is a key."""

    def __init__(self, path: Path, key: Key | None = None) -> None:
        super().__init__()
        self._path = path
        self._key = key

    @property
    def name(self) -> str:
        return str(self._path)

    def _connect(self) -> Database | None:
        in_memory = is_in_memory(self._path)
        if not in_memory and (not self._path.is_file() or not self._path.stat().st_size):
            return None
        # Read-only: the last connection to close would otherwise write the log back to the file.
        connection = self._translated(
            lambda: connect(self._path, self._key, timeout=BUSY_SECONDS, read_only=True)
        )
        if in_memory:
            connection = self._translated(lambda: _copied(connection))
        try:
            exists = self._translated(lambda: self._begin(connection))
        except BaseException:
            connection.close()
            raise
        if not exists:
            connection.close()
            return None
        return SqliteDatabase(connection)

    def _begin(self, connection: sqlite3.Connection) -> bool:
        connection.execute("BEGIN")
        if not connection.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").fetchone()[0]:
            return False
        check_current(connection, self._path)
        return True

    def _disconnect(self, db: Database) -> None:
        cast("SqliteDatabase", db).connection.close()

    def _translated(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except errors() as error:
            raise store_error(error, self._path) from error


def _copied(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of a database in memory: it has no log, so a long read would block its writer."""
    with closing(connection):
        copy = connect(new_in_memory(), None, timeout=0)
        connection.backup(copy)
    return copy
