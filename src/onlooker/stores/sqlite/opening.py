"""Opening the database file: permissions, settings, migrations; and what SQLite's errors mean."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from onlooker.domain.errors import ConflictError, StoreError
from onlooker.stores.sqlite.rows import instant_of_text
from onlooker.stores.sqlite.statements import migrations, split

BUSY_SECONDS = 10.0
OLDEST_SQLITE = (3, 37, 0)  # STRICT tables

# "OnLk": says whose file this is.
APPLICATION_ID = 0x4F6E4C6B

_ADVICE = {
    sqlite3.SQLITE_BUSY: "the database is locked by another process; try again when that has finished",
    sqlite3.SQLITE_LOCKED: "the database is locked by another process; try again when that has finished",
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_NOTADB: "not a database: choose another path, or move that file away",
    sqlite3.SQLITE_CORRUPT: "the database is damaged; restore it from a backup",
    sqlite3.SQLITE_READONLY: "the database cannot be written; check the permissions of file and folder",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened; check the path and its permissions",
    sqlite3.SQLITE_PERM: "the database cannot be opened; check the path and its permissions",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written; check it and try again",
}


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """The same error in our words, with what to do about it."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    if code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY):
        return ConflictError(f"{path}: another worker was first ({error})")
    code &= 0xFF  # the kind of error; the rest is its variant
    return StoreError(f"{path}: {_ADVICE[code]} ({error})" if code in _ADVICE else f"{path}: {error}")


def create_file(path: Path) -> None:
    """Create the file, readable by its owner alone: it will hold people's conversations."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"{path}: cannot be opened ({reason}); check the path and its permissions"
        ) from error


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are begun and ended by hand."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.create_function("instant", 1, instant_of_text, deterministic=True)
        connection.execute("PRAGMA synchronous = FULL")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Create and migrate at need, and return the writer's connection.

    Raises:
        StoreError: It cannot be opened, or is not ours to open.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"SQLite 3.37 or newer is needed; this Python has {sqlite3.sqlite_version}")
    create_file(path)
    connection = None
    try:
        connection = connect(path)
        _use_wal(connection)
        migrate(connection, path)
    except sqlite3.Error as error:
        if connection:
            connection.close()
        raise store_error(error, path) from error
    except BaseException:
        if connection:
            connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    # Changing the mode needs the file for itself, and SQLite gives up at once, whatever the timeout,
    # where another process is doing the same.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Run the migrations that the file has not seen. Whoever comes second finds them done."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _check_ours(connection, path)
        for number, script in migrations():
            if number > version:
                for statement in split(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_ours(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the file's schema, where it is ours, or empty."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = not connection.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").fetchone()[0]
    if application != APPLICATION_ID and not empty:
        raise StoreError(f"{path}: a database of another application; choose another path")
    if version > migrations()[-1][0]:
        raise StoreError(f"{path}: written by a newer version of onlooker; upgrade to open it")
    if empty:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return version
