"""A connection as the shared transactions use it: statements in PostgreSQL's syntax, the migrations of the
schema, and snapshots."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import count
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import psycopg
from psycopg import Connection, Cursor, RawCursor, RawServerCursor, errors
from psycopg.abc import Query

from onlooker.domain.messages import SessionId
from onlooker.stores.postgres.connection import Address, lock_number, store_error
from onlooker.stores.sql import database
from onlooker.stores.sql.database import (
    Database,
    Migration,
    failed,
    migrations,
    refuse_newer,
    refuse_older,
    sid_of,
)
from onlooker.stores.sql.transfer import Snapshot

T = TypeVar("T")

PACKAGE = "onlooker.stores.postgres"

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_LIST = re.compile(r"SELECT value FROM json_each\(:(\w+)\)")

# The types of parameters by name; all others are text. PostgreSQL has to know the type of each, and cannot
# always infer it.
_BYTES = ("sid", "digest", "history_hash", "signs", "vector", "low", "high", "made_in")
_INTEGERS = (
    *("last_seq", "frontier", "watermark", "tail_start", "unnoted_tokens", "revision", "prompt_version"),
    *("budget", "due_at", "wake_at", "failures", "ended", "fence", "messages", "message_tokens", "used_at"),
    *("items_chosen", "number", "limit", "now", "until", "far", "since", "before", "after", "up_to"),
    *("first", "last", "seq", "new_seq", "expected_seq", "is_summary", "lowest", "highest"),
    *("generation", "tokens", "degraded", "input_tokens", "output_tokens", "spent_at", "position", "kept"),
    *("taken", "change", "instant", "pinned", "uses", "ranked_at", "length", "reached", "space"),
    *("dimensions", "pid", "concurrency", "running", "done", "failed", "notes_indexed", "retired"),
    *("step", "replies", "held"),
)
_TYPES = {
    **dict.fromkeys(_BYTES, "bytea"),
    **dict.fromkeys(_INTEGERS, "bigint"),
    "cost": "float8",
    "any_time": "boolean",
}
# Lists of numbers; all others are lists of text.
_NUMBERS = ("numbers", "seqs")


class Statement(NamedTuple):
    """A statement with PostgreSQL's placeholders, and the names of its parameters in their order."""

    text: bytes
    names: tuple[str, ...]


def translated(text: str) -> Statement:
    """A statement of the .sql files in PostgreSQL's syntax."""
    numbers: dict[str, int] = {}

    def placeholder(name: str, kind: str) -> str:
        return f"${numbers.setdefault(name, len(numbers) + 1)}::{kind}"

    def elements(match: re.Match[str]) -> str:
        cast = "::bigint" if match[1] in _NUMBERS else ""
        return f"SELECT json_array_elements_text({placeholder(match[1], 'json')}){cast}"

    text = _LIST.sub(elements, text)
    text = _PARAMETER.sub(lambda match: placeholder(match[1], _TYPES.get(match[1], "text")), text)
    return Statement(text.replace("x''", "''::bytea").encode(), tuple(numbers))


@cache
def statements() -> dict[str, Statement]:
    """Every statement by name."""
    return {name: translated(text) for name, text in database.statements(PACKAGE).items()}


class NamedRow(tuple[Any, ...]):
    """A row: a tuple whose columns can be read by name."""

    columns: ClassVar[dict[str, int]] = {}

    def __getitem__(self, key: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - by name too
        return super().__getitem__(self.columns[key] if isinstance(key, str) else key)


@lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> type[NamedRow]:
    return type("NamedRow", (NamedRow,), {"columns": {name: index for index, name in enumerate(names)}})


def named_rows(cursor: Any) -> Callable[[Sequence[Any]], NamedRow]:
    """psycopg's row factory."""
    return _row_type(tuple(column.name for column in cursor.description or ()))


class PostgresDatabase(Database):
    """Runs statements on a connection."""

    def __init__(self, connection: Connection[Any], *, writing: bool) -> None:
        self.connection = connection
        self._writing = writing
        self._statements = statements()

    def run(self, name: str, /, **values: Any) -> Cursor[NamedRow]:
        # SQLite has one writer at a time. Here transactions that change the same session wait for each other.
        if self._writing and name == "session":
            name = "lock_session"
        statement = self._statements[name]
        return self._execute(statement.text, [values[n] for n in statement.names])

    def run_many(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        statement = self._statements[name]
        many = [[row[n] for n in statement.names] for row in rows]
        if many:
            self._cursor().executemany(statement.text, many)

    def lock_session(self, session: SessionId) -> None:
        self.run("lock_session", sid=sid_of(session))

    def lock_owner(self, owner: str) -> None:
        self.run("lock", number=lock_number("items", owner))

    def _execute(self, text: bytes, values: Sequence[Any]) -> Cursor[NamedRow]:
        return self._cursor().execute(text, values or None)

    def _cursor(self) -> Cursor[NamedRow]:
        return RawCursor(self.connection, row_factory=named_rows)


# ------------------------------------------------------------------------------------ the schema

# Any number of processes may start at once, while others of the previous version keep working.

# Seconds to wait while another process migrates a large table or uses one that has to change.
PATIENCE = 600.0
# Seconds that a change of a table waits for transactions that use it. Later ones queue behind it meanwhile.
LOCK_SECONDS = 2.0

_PASSING = (errors.LockNotAvailable, errors.DeadlockDetected)
# Errors that the migration itself cannot cause.
_OF_THE_SERVER = (psycopg.OperationalError, psycopg.InterfaceError, errors.InsufficientPrivilege)


def migrate(address: Address, steps: Sequence[Migration] | None = None) -> None:
    """Run the migrations that have not run yet, all or none. A second process finds them done.

    Raises:
        StoreError: The server cannot be reached, the schema is too new for this version, or a migration
            failed.
    """
    steps = migrations(PACKAGE) if steps is None else steps
    deadline = time.monotonic() + PATIENCE
    with address.connect() as connection:
        try:
            while version_of(connection, address, steps) < steps[-1].number:
                try:
                    _migrate(connection, address, steps)
                except _PASSING:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(random.uniform(0.2, 1.0))  # let those that queued behind it go first
        except psycopg.Error as error:
            raise store_error(error, address.shown) from error


def _migrate(connection: psycopg.Connection[Any], address: Address, steps: Sequence[Migration]) -> None:
    with connection.transaction():
        _set(connection, "statement_timeout", 0)
        _set(connection, "lock_timeout", PATIENCE)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("schema", address.schema),))
        _set(connection, "lock_timeout", LOCK_SECONDS)
        _create_schema(connection, address)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migrations (number bigint PRIMARY KEY, works_with bigint NOT NULL)"
        )
        version = version_of(connection, address, steps)
        for step in steps:
            if step.number > version:
                _run(connection, address, step)


def _create_schema(connection: psycopg.Connection[Any], address: Address) -> None:
    # Not IF NOT EXISTS: that needs the right to create schemas even if an administrator has created this one.
    there = connection.execute("SELECT to_regnamespace(%s)", (address.schema,)).fetchone()
    if there is None or there[0] is None:
        connection.execute(f"CREATE SCHEMA {address.schema}".encode())


def _set(connection: psycopg.Connection[Any], name: str, seconds: float) -> None:
    connection.execute(f"SET LOCAL {name} = '{int(seconds * 1000)}ms'".encode())


def _run(connection: psycopg.Connection[Any], address: Address, step: Migration) -> None:
    try:
        connection.execute(cast("Query", step.script))
    except (*_PASSING, *_OF_THE_SERVER):
        raise
    except psycopg.Error as error:
        raise failed(address.shown, step, error) from error
    connection.execute(
        "INSERT INTO migrations (number, works_with) VALUES (%s, %s)", (step.number, step.works_with)
    )


def version_of(
    connection: psycopg.Connection[Any], address: Address, steps: Sequence[Migration] | None = None
) -> int:
    """The number of the last migration that has run; 0 if none has.

    Raises:
        StoreError: The schema is too new for this version.
    """
    table = f"{address.schema}.migrations"
    there = connection.execute("SELECT to_regclass(%s)", (table,)).fetchone()
    if there is None or there[0] is None:
        return 0
    ran = connection.execute("SELECT number, works_with FROM migrations").fetchall()
    refuse_newer(address.shown, ran, (steps or migrations(PACKAGE))[-1].number)
    return max((number for number, _ in ran), default=0)


# ------------------------------------------------------------------------------------ a snapshot

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
