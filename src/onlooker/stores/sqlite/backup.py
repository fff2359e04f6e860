"""The database file as a whole: backup while it is in use, restoring a backup, erasing deleted data, and
inspecting it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from onlooker.atomic import NewFile, make_folder
from onlooker.domain.errors import StoreError
from onlooker.domain.frozen import frozen
from onlooker.stores.sql.database import migrations
from onlooker.stores.sql.inspection import Contents, Inspection
from onlooker.stores.sqlite.connection import (
    APPLICATION_ID,
    PACKAGE,
    SqliteDatabase,
    code_of,
    connect,
    errors,
    open_connection,
    store_error,
    version_of,
)
from onlooker.stores.sqlite.key import Key

PAGES = 1000  # at a time, so that a writer does not wait for the whole copy
PATIENCE = 10.0  # seconds that `erase` waits for readers
SIDE_FILES = ("-wal", "-shm", "-journal")


def back_up(path: Path, target: Path, key: Key | None = None) -> None:
    """Copy the database to a new file, in one snapshot, while others read and write it. The copy has the same
    key.

    Raises:
        StoreError: The target exists, or cannot be written.
    """
    _refuse_existing(target)
    with _new_database(target) as new:
        with (
            closing(open_connection(path, key, read_only=True)) as source,
            closing(connect(new.path, key, timeout=0)) as copy,
        ):
            source.backup(copy, pages=PAGES, sleep=0.001)
            # A single file, without a log.
            copy.execute("PRAGMA journal_mode = DELETE")
        check(new.path, key)
        new.publish(replace=False)


def restore_file(source: Path, target: Path, *, replace: bool = False, key: Key | None = None) -> None:
    """Restore the database at `target` from the backup at `source`. Both have the same key, or none.

    Raises:
        StoreError: The source is not a database of Onlooker's or is damaged; the target exists and `replace`
            is false, or it is in use.
    """
    if not source.is_file():
        raise StoreError(f"{source}: no such file")
    check(source, key)
    if target.exists():
        if not replace:
            _refuse_existing(target)
        if source.samefile(target):
            raise StoreError(f"{target}: the backup and the database are the same file")
        refuse_used(target, key)
    with _new_database(target) as new:
        with (
            closing(open_connection(source, key, read_only=True)) as origin,
            closing(connect(new.path, key, timeout=0)) as copy,
        ):
            origin.backup(copy)
            # A backup has no log; a database in use has one.
            copy.execute("PRAGMA journal_mode = WAL")
        for suffix in SIDE_FILES:
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        new.publish()


@contextmanager
def _new_database(target: Path) -> Generator[NewFile]:
    """A file for SQLite to write, to be published at `target`."""
    try:
        make_folder(target.parent)
        with NewFile(target) as new:
            yield new
    except FileExistsError:
        raise _exists(target) from None
    except errors() as error:
        raise store_error(error, target) from error
    except OSError as error:
        raise StoreError(f"{target}: cannot be written ({error.strerror or error})") from error


def remove_if_empty(path: Path, key: Key | None = None) -> None:
    """Remove a database that holds no session and no item, unless it is in use."""
    try:
        with closing(connect(path, key, timeout=0)) as db:
            holds = db.execute("SELECT EXISTS (SELECT 1 FROM sessions) OR EXISTS (SELECT 1 FROM items)")
            if holds.fetchone()[0]:
                return
        refuse_used(path, key)
    except (StoreError, *errors()):
        return
    for name in ("", *SIDE_FILES):
        path.with_name(path.name + name).unlink(missing_ok=True)


def erase(path: Path, key: Key | None = None) -> bool:
    """Remove deleted data from the files; False if others are reading them, in which case the log is emptied
    when they have finished.

    Raises:
        StoreError: It cannot be done now.
    """
    try:
        with closing(open_connection(path, key)) as db:
            db.execute("PRAGMA secure_delete = ON")
            # Otherwise the index keeps the words of deleted rows until its next merge.
            for (name,) in db.execute(_FULL_TEXT).fetchall():
                db.execute(f'INSERT INTO "{name}" ("{name}") VALUES (\'optimize\')')
            db.execute("VACUUM")
            return _empty_log(db)
    except errors() as error:
        raise store_error(error, path) from error


_FULL_TEXT = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%fts5%'"


def _empty_log(db: sqlite3.Connection) -> bool:
    deadline = time.monotonic() + PATIENCE
    db.execute("PRAGMA busy_timeout = 20")
    while True:
        busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)


# ------------------------------------------------------------------------------------ checking


def _refuse_existing(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise _exists(target)


def _exists(target: Path) -> StoreError:
    return StoreError(f"{target}: exists already; choose another name, or move it away")


def check(path: Path, key: Key | None = None) -> None:
    """Refuse a file that is not a database of Onlooker's, or is damaged."""
    try:
        with closing(connect(path, key, timeout=0, read_only=True)) as db:
            application = db.execute("PRAGMA application_id").fetchone()[0]
            if application != APPLICATION_ID:
                raise StoreError(f"{path}: not a database of Onlooker's")
            version_of(db, path)
            found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise StoreError(f"{path}: the database is damaged ({found}); use another backup")
    except errors() as error:
        raise store_error(error, path) from error


def refuse_used(target: Path, key: Key | None = None) -> None:
    """Refuse to replace a database that is open anywhere: its users would keep writing into the old file."""
    try:
        with closing(connect(target, key, timeout=0)) as db:
            # Leaving the WAL mode needs exclusive access.
            mode = db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
    except errors() as error:
        if code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise in_use(target) from error
        if code_of(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return _refuse_traces_of_use(target)
        raise store_error(error, target) from error
    except StoreError:  # it has another key
        return _refuse_traces_of_use(target)
    if mode != "delete":
        raise in_use(target)
    return None


def in_use(path: Path) -> StoreError:
    return StoreError(f"{path}: in use by another process; stop it first")


def _refuse_traces_of_use(target: Path) -> None:
    """A file that cannot be opened is damaged, or has another key and may be in use."""
    shared = target.with_name(target.name + "-shm")
    if shared.exists():
        raise StoreError(
            f"{target}: may be in use; stop the process that has it open, or remove {shared.name}"
        )


# ------------------------------------------------------------------------------------ for `onlooker doctor`

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
    """Open the file and check it. Nothing is changed, and no schema upgraded.

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
