"""A schema at one moment, for whoever only reads it: nothing is created, and nothing upgraded."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from threading import Lock
from typing import Any, cast

import psycopg
from psycopg import Cursor, RawCursor, pq
from psycopg.abc import QueryNoTemplate

from onlooker.domain.errors import StoreError
from onlooker.stores.postgres.database import Database, Row, Values, rows
from onlooker.stores.postgres.migrating import version_of
from onlooker.stores.postgres.opening import Address, store_error
from onlooker.stores.postgres.statements import migrations, sql
from onlooker.stores.sqlite import statements as of_sqlite
from onlooker.stores.sqlite.reading import SqliteReading, refuse_older

# How many rows come at a time; libpq knows how to since version 17.
CHUNK = 256 if pq.version() >= 170_000 else 1


class _Streaming(Database):
    """Gives out the messages of a session as they arrive: there may be millions."""

    def execute(self, text: str, values: Values = ()) -> Cursor[Row]:
        if text != of_sqlite.sql("dump_messages"):
            return super().execute(text, values)
        cursor = RawCursor(self.connection, row_factory=rows)
        # All that is done with it is to go through it.
        statement = cast("QueryNoTemplate", sql("dump_messages"))
        return cast("Cursor[Row]", cursor.stream(statement, cast("Sequence[Any]", values), size=CHUNK))


class PostgresReading(SqliteReading):
    """`Reading` of a schema on a server, by a connection of its own. It is a `SqliteReading` in that it reads
    the same rows by the same names."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._db: sqlite3.Connection | None = None
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
        return _Streaming(connection, writing=False).as_sqlite

    def _begin_reading(self, connection: psycopg.Connection[object]) -> None:
        connection.execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # The moment is that of the first question.
        connection.execute("SELECT 1")

    def _let_go(self, db: sqlite3.Connection) -> None:
        with self._lock:
            Database.under(db).connection.close()

    def _errors(self) -> tuple[type[Exception], ...]:
        return (psycopg.Error,)

    def _in_our_words(self, error: Exception) -> StoreError:
        assert isinstance(error, psycopg.Error)
        return store_error(error, self.name)
