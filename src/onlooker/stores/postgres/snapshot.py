"""A read-only snapshot of a schema on a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar, cast

import psycopg
from psycopg import Cursor, RawServerCursor

from onlooker.stores.postgres.connection import Address, store_error
from onlooker.stores.postgres.database import PACKAGE, NamedRow, PostgresDatabase, named_rows
from onlooker.stores.postgres.schema import version_of
from onlooker.stores.sql.database import Database, migrations, refuse_older
from onlooker.stores.sql.transfer import Snapshot

T = TypeVar("T")

# Rows that are fetched at a time: there may be millions.
PORTION = 256


class _InPortions(PostgresDatabase):
    """Holds only a portion of each result. Several results can be read alternately."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection, writing=False)
        self._names = count()

    def _execute(self, text: bytes, values: Sequence[Any]) -> Cursor[NamedRow]:
        # Most results are small, and a cursor on the server takes three round trips instead of one.
        found = super()._execute(text + b" LIMIT %d" % PORTION, values)
        if found.rowcount < PORTION:
            return found
        # From the start: the order of equal rows may differ between the two.
        return cast("Cursor[NamedRow]", _Rows(self._one_by_one(text, values)))

    def _one_by_one(self, text: bytes, values: Sequence[Any]) -> Iterator[NamedRow]:
        name = f"onlooker_{next(self._names)}"
        with RawServerCursor(self.connection, name, row_factory=named_rows) as cursor:
            cursor.itersize = PORTION
            yield from cursor.execute(text, values)


class _Rows:
    """The part of a cursor that is used for large results."""

    def __init__(self, rows: Iterator[NamedRow]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[NamedRow]:
        return self._rows

    def fetchall(self) -> list[NamedRow]:
        return list(self._rows)


class PostgresSnapshot(Snapshot):
    """`Reading` of a schema on a server."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    @property
    def name(self) -> str:
        return self._address.shown

    def _connect(self) -> Database | None:
        connection = self._address.connect()
        try:
            version = self._translated(lambda: version_of(connection, self._address))
            if version:
                refuse_older(self.name, version, migrations(PACKAGE)[-1].number)
                self._translated(lambda: _begin(connection))
        except BaseException:
            connection.close()
            raise
        if not version:
            connection.close()
            return None
        return _InPortions(connection)

    def _disconnect(self, db: Database) -> None:
        cast("PostgresDatabase", db).connection.close()

    def _translated(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except psycopg.Error as error:
            raise store_error(error, self.name) from error


def _begin(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
    # Everything that a cursor finds is read, not only the first tenth.
    connection.execute("SET cursor_tuple_fraction = 1")
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    # The snapshot is taken by the first statement.
    connection.execute("SELECT 1")
