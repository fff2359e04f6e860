"""Opening the database file: permissions, settings, migrations; and what SQLite's errors mean."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from onlooker.domain.errors import ConflictError, StoreError
from onlooker.stores.migrating import OUTGROWN, Migration, refuse_newer, unfinished
from onlooker.stores.sqlite import driver
from onlooker.stores.sqlite.key import Key
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
    sqlite3.SQLITE_NOTADB: driver.WITHOUT_KEY,
    sqlite3.SQLITE_CORRUPT: "the database is damaged; restore it from a backup",
    sqlite3.SQLITE_READONLY: "the database cannot be written; check the permissions of file and folder",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened; check the path and its permissions",
    sqlite3.SQLITE_PERM: "the database cannot be opened; check the path and its permissions",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written; check it and try again",
}
_UNKNOWN = re.compile("no such (column|table)|has no column named")


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """The same error in our words, with what to do about it."""
    if driver.is_twice(error):
        return ConflictError(f"{path}: another worker was first ({error})")
    code = driver.code_of(error)
    if code == sqlite3.SQLITE_ERROR and _UNKNOWN.search(str(error)):
        return StoreError(f"{path}: {OUTGROWN} ({error})")
    return StoreError(f"{path}: {_ADVICE[code]} ({error})" if code in _ADVICE else f"{path}: {error}")


def create_file(path: Path) -> None:
    """Create the file, readable by its owner alone: it will hold people's conversations."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only a file that is not there yet: to open and close one that SQLite has open in this process
        # would take its locks away.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        effective = os.access in os.supports_effective_ids
        if not os.access(path, os.R_OK | os.W_OK, effective_ids=effective):
            raise _unopenable(path, "Permission denied") from error
    except OSError as error:
        raise _unopenable(path, error.strerror or str(error)) from error


def _unopenable(path: Path, reason: str) -> StoreError:
    return StoreError(f"{path}: cannot be opened ({reason}); check the path and its permissions")


def connect(path: Path, key: Key | None = None, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are begun and ended by hand."""
    connection = driver.connect(path, key, timeout=BUSY_SECONDS)
    try:
        connection.create_function("instant", 1, instant_of_text, deterministic=True)
        connection.execute("PRAGMA synchronous = FULL")
        # What is deleted is overwritten: it may have been deleted to be forgotten.
        connection.execute("PRAGMA secure_delete = ON")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_writing(path: Path, key: Key | None = None) -> sqlite3.Connection:
    """Create and migrate at need, and return the writer's connection.

    Raises:
        StoreError: It cannot be opened, or is not ours to open.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"SQLite 3.37 or newer is needed; this Python has {sqlite3.sqlite_version}")
    if not driver.is_in_memory(path):
        create_file(path)
    empty = path.is_file() and not path.stat().st_size
    try:
        return _opened(path, key)
    except StoreError:
        if key is None or not empty:
            raise
    # Another process began the file at the same moment, and its salt is the one that counts.
    return _opened(path, key)


def _opened(path: Path, key: Key | None) -> sqlite3.Connection:
    connection = None
    try:
        connection = connect(path, key)
        _use_wal(connection)
        migrate(connection, path)
    except driver.errors() as error:
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
        except driver.errors() as error:
            busy = driver.code_of(error) == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


# Which migrations have run, and the lowest version that a program must know since.
_RAN = (
    "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, works_with INTEGER NOT NULL) STRICT"
)


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration] | None = None) -> None:
    """Run the migrations that the file has not seen, all or none. Whoever comes second finds them done.

    Raises:
        StoreError: The file is not ours, is too new for this version, or a migration failed.
    """
    steps = migrations() if steps is None else steps
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _check_ours(connection, path, steps[-1].number)
        connection.execute(_RAN)
        for step in steps:
            if step.number > version:
                _run(connection, path, step)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _run(connection: sqlite3.Connection, path: Path, step: Migration) -> None:
    try:
        for statement in split(step.script):
            connection.execute(statement)
    except driver.errors() as error:
        if driver.code_of(error) in _ADVICE:
            raise
        raise unfinished(path, step, error) from error
    connection.execute(
        "INSERT OR REPLACE INTO migrations (number, works_with) VALUES (?, ?)", (step.number, step.works_with)
    )
    connection.execute(f"PRAGMA user_version = {step.number}")


def version_of(connection: sqlite3.Connection, path: Path, known: int | None = None) -> int:
    """The version of the file's schema.

    Raises:
        StoreError: It is too new for this version.
    """
    known = migrations()[-1].number if known is None else known
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > known:
        refuse_newer(path, _ran(connection, version), known)
    return version


def _ran(connection: sqlite3.Connection, version: int) -> list[tuple[int, int]]:
    kept = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'migrations')"
    if not connection.execute(kept).fetchone()[0]:
        return [(version, version)]
    ran = [(n, w) for n, w in connection.execute("SELECT number, works_with FROM migrations")]
    # One that did not say so worked with nothing before itself.
    return ran if version in dict(ran) else [*ran, (version, version)]


def _check_ours(connection: sqlite3.Connection, path: Path, known: int) -> int:
    """The version of the file's schema, where it is ours, or empty."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    empty = not connection.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").fetchone()[0]
    if application != APPLICATION_ID and not empty:
        raise StoreError(f"{path}: a database of another application; choose another path")
    if empty:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return version_of(connection, path, known)
