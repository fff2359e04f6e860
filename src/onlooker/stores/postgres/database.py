"""A connection as the shared transactions use it, and the translation of their statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple

from psycopg import Connection, Cursor, RawCursor

from onlooker.domain.messages import SessionId
from onlooker.stores.postgres.connection import lock_number
from onlooker.stores.sql import database
from onlooker.stores.sql.database import Database
from onlooker.stores.sql.rows import sid_of

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
