"""A database file, inspected for `onlooker doctor`. Nothing is changed, and no schema upgraded."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from onlooker.domain.errors import StoreError
from onlooker.domain.frozen import frozen
from onlooker.stores.sql.database import migrations
from onlooker.stores.sql.inspection import Contents, Inspection
from onlooker.stores.sqlite.connection import (
    APPLICATION_ID,
    PACKAGE,
    SqliteDatabase,
    connect,
    errors,
    store_error,
    version_of,
)
from onlooker.stores.sqlite.key import Key

LOCK_SECONDS = 5.0


@frozen
class FileReport:
    """The state of a database file. `contents` is None if this program cannot read them."""

    size: int  # bytes
    integrity: str  # "ok", or what is damaged
    is_ours: bool
    version: int
    newest: int  # the newest version that this program knows
    is_too_new: bool
    journal: str
    contents: Contents | None


def inspect_file(path: Path, key: Key | None, inspection: Inspection) -> FileReport:
    """Open the file, and check it.

    Raises:
        StoreError: It cannot be opened or read: it is damaged, not a database, or has another key.
    """
    try:
        with closing(connect(path.resolve(), key, timeout=LOCK_SECONDS, read_only=True)) as connection:
            return _inspect(connection, path, inspection)
    except errors() as error:
        raise store_error(error, path) from error


def _inspect(connection: sqlite3.Connection, path: Path, inspection: Inspection) -> FileReport:
    def pragma(name: str) -> str:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]

    is_ours = int(pragma("application_id")) == APPLICATION_ID
    newest = migrations(PACKAGE)[-1].number
    is_too_new = False
    try:
        version_of(connection, path)
    except StoreError:
        is_too_new = True
    usable = is_ours and not is_too_new
    return FileReport(
        path.stat().st_size,
        pragma("integrity_check(1)"),
        is_ours,
        int(pragma("user_version")),
        newest,
        is_too_new,
        pragma("journal_mode"),
        inspection.contents(SqliteDatabase(connection)) if usable else None,
    )


def has_full_text() -> bool:
    """Whether this SQLite has FTS5."""
    with closing(sqlite3.connect(":memory:")) as connection:
        return any(row[0] == "ENABLE_FTS5" for row in connection.execute("PRAGMA compile_options"))
