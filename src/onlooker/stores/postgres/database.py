"""A connection as the transactions of the SQLite store know one.

Those transactions are written once, in `stores.sqlite`, and run here on this store's own statements: they
name a statement, and get rows that can be read by place and by name.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, cast

from psycopg import BaseConnection, Connection, Cursor, RawCursor
from psycopg.abc import QueryNoTemplate

from onlooker.stores.postgres.statements import sql, twin

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
Values = Sequence[Any] | Mapping[str, Any]


class Row(tuple[Any, ...]):
    """A row: a tuple whose columns have names."""

    columns: ClassVar[dict[str, int]] = {}

    def __getitem__(self, key: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - by name too
        return super().__getitem__(self.columns[key] if isinstance(key, str) else key)


@lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> type[Row]:
    return type("Row", (Row,), {"columns": {name: place for place, name in enumerate(names)}})


def rows(cursor: Any) -> Callable[[Sequence[Any]], Row]:
    """psycopg's row factory."""
    return _row_type(tuple(column.name for column in cursor.description or ()))


class _Numbered(RawCursor[Row]):
    """A cursor that knows what the statement gave the new row."""

    @property
    def lastrowid(self) -> int | None:
        row = self.fetchone()
        return None if row is None else row[0]


class Database:
    """What a transaction works with: `execute` and `executemany`, by the SQLite store's statements or by
    name."""

    def __init__(self, connection: Connection[Any], *, writing: bool) -> None:
        self.connection = connection
        self.writing = writing

    def execute(self, text: str, values: Values = ()) -> Cursor[Row]:
        return self._run(twin(text, writing=self.writing), values)

    def executemany(self, text: str, rows_of_values: Iterable[Values]) -> None:
        many = list(rows_of_values)
        if many:
            statement = twin(text, writing=self.writing)
            self._cursor(many[0]).executemany(cast("QueryNoTemplate", statement), many)

    def named(self, name: str, values: Values = ()) -> Cursor[Row]:
        """Run one of this store's own statements."""
        return self._run(sql(name), values)

    def _run(self, statement: str, values: Values) -> Cursor[Row]:
        return self._cursor(values).execute(cast("QueryNoTemplate", statement), values or None)

    def _cursor(self, values: Values) -> Cursor[Row]:
        # Numbered placeholders are PostgreSQL's own, named ones psycopg's.
        kind: Any = Cursor if isinstance(values, Mapping) else _Numbered
        return kind(self.connection, row_factory=rows)

    @staticmethod
    def under(db: sqlite3.Connection) -> Database:
        """What `as_sqlite` was called on."""
        return cast("Database", db)

    @property
    def as_sqlite(self) -> sqlite3.Connection:
        """Under the type that the shared transactions ask for; they use no more of it than is here."""
        return cast("sqlite3.Connection", self)


def broken(connection: BaseConnection[Any]) -> bool:
    """Whether the server is gone from its other end."""
    return connection.closed or connection.broken
