"""A schema at one moment, for whoever only reads it: nothing is created, and nothing upgraded."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import count
from threading import Lock
from typing import Any, cast

import psycopg
from psycopg import Cursor, RawServerCursor
from psycopg.abc import QueryNoTemplate

from onlooker.domain.errors import StoreError
from onlooker.stores.postgres.database import Database, Row, Values, rows
from onlooker.stores.postgres.migrating import version_of
from onlooker.stores.postgres.opening import Address, store_error
from onlooker.stores.postgres.statements import migrations
from onlooker.stores.sqlite.reading import SqliteReading, refuse_older

# How many rows come at a time, of whatever kind: there may be millions.
PORTION = 256


class _InPortions(Database):
    """Holds no more than a portion of what a question finds; others may be asked before all is read."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection, writing=False)
        self._names = count()

    def _run(self, statement: str, values: Values) -> Cursor[Row]:
        # Most questions find little, and a cursor on the server takes three trips to it in place of one.
        asked = statement.removesuffix(";")
        found = super()._run(f"{asked} LIMIT {PORTION}", values)
        if found.rowcount < PORTION:
            return found
        # From its begin: what would order two rows by chance may do so in another way.
        return cast("Cursor[Row]", _Found(self._one_by_one(asked, cast("Sequence[Any]", values))))

    def _one_by_one(self, statement: str, values: Sequence[Any]) -> Iterator[Row]:
        name = f"onlooker_{next(self._names)}"
        with RawServerCursor(self.connection, name, row_factory=rows) as cursor:
            cursor.itersize = PORTION
            yield from cursor.execute(cast("QueryNoTemplate", statement), values)


class _Found:
    """As much of a cursor as is used of one where many rows are found."""

    def __init__(self, found: Iterator[Row]) -> None:
        self._found = found

    def __iter__(self) -> Iterator[Row]:
        return self._found

    def fetchall(self) -> list[Row]:
        return list(self._found)


class PostgresReading(SqliteReading):
    """`Reading` of a schema on a server, by a connection of its own. It is a `SqliteReading` in that it reads
    the same rows by the same names."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._db: sqlite3.Connection | None = None
        self._wanted = False
        self._lock = Lock()

    @property
    def name(self) -> str:
        return self._address.shown

    def _opened(self) -> sqlite3.Connection | None:
        connection = self._address.connect()
        try:
            version = self._said(lambda: version_of(connection, self._address))
            if version:
                refuse_older(self.name, version, migrations()[-1].number)
                self._said(lambda: self._begin_reading(connection))
        except BaseException:
            connection.close()
            raise
        if not version:
            connection.close()
            return None
        return _InPortions(connection).as_sqlite

    def _begin_reading(self, connection: psycopg.Connection[object]) -> None:
        connection.execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
        # All of what a cursor finds is read, and not the first tenth.
        connection.execute("SET cursor_tuple_fraction = 1")
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # The moment is that of the first question.
        connection.execute("SELECT 1")

    def _let_go(self, db: sqlite3.Connection) -> None:
        Database.under(db).connection.close()

    def _errors(self) -> tuple[type[Exception], ...]:
        return (psycopg.Error,)

    def _in_our_words(self, error: Exception) -> StoreError:
        assert isinstance(error, psycopg.Error)
        return store_error(error, self.name)
