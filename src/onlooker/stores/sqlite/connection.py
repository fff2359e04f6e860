"""Connections: which SQLite is used, how a file is opened, migrated and read as it is at one moment, and what
errors mean.

Python's own SQLite is used for plain files and SQLCipher for files with a key. The two modules are twins:
connections, cursors, rows and errors behave alike and are typed here as Python's own. A file is only ever
opened by them: opening and closing a file that SQLite has open in the same process would release its locks.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar, cast

from onlooker.domain.errors import ConflictError, StoreError
from onlooker.stores.sql.database import (
    OUTGROWN,
    Database,
    Migration,
    failed,
    instant_of_text,
    migrations,
    refuse_newer,
    refuse_older,
    statements,
)
from onlooker.stores.sql.transfer import Snapshot
from onlooker.stores.sqlite.key import Key

T = TypeVar("T")

PACKAGE = "onlooker.stores.sqlite"

# How long opening a file waits for another program's lock; and a read, which has to wait only while another
# program recovers the file after a crash.
BUSY_SECONDS = 10.0
READ_SECONDS = 1.0
OLDEST_SQLITE = (3, 37, 0)  # STRICT tables

# "OnLk": marks a database file as Onlooker's.
APPLICATION_ID = 0x4F6E4C6B

IN_MEMORY = ":memory:"

_CIPHER = "sqlcipher3.dbapi2"


class SqliteDatabase(Database):
    """Runs statements on a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._statements = statements(PACKAGE)

    def run(self, name: str, /, **values: Any) -> sqlite3.Cursor:
        return self.connection.execute(self._statements[name], values)

    def run_many(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        self.connection.executemany(self._statements[name], rows)

    def tidy_index(self) -> None:
        self.run("tidy_index")


# ------------------------------------------------------------------------------------ errors

_WITHOUT_KEY = (
    "not a database, or an encrypted one: give its key (key=…, --key-file or ONLOOKER_KEY), "
    "or choose another path"
)
_NEEDLESS_KEY = (
    "the file is not encrypted, but a key was given: omit the key, or run `onlooker encrypt` first"
)
_WRONG_KEY = "the key does not open it: give the one that it was encrypted with (or it is not a database)"
_NO_CIPHER = 'encryption needs the package sqlcipher3: pip install "onlooker[encrypted]"'

_ADVICE = {
    sqlite3.SQLITE_BUSY: "the database is locked by another process; try again when it has finished",
    sqlite3.SQLITE_LOCKED: "the database is locked by another process; try again when it has finished",
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_NOTADB: _WITHOUT_KEY,
    sqlite3.SQLITE_CORRUPT: "the database is damaged; restore it from a backup",
    sqlite3.SQLITE_READONLY: "the database cannot be written; check the permissions of file and folder",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened; check the path and its permissions",
    sqlite3.SQLITE_PERM: "the database cannot be opened; check the path and its permissions",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written; check it and try again",
}
_UNKNOWN = re.compile("no such (column|table)|has no column named")


def errors() -> tuple[type[sqlite3.Error], ...]:
    """The errors that connections raise. Call this when one was raised: SQLCipher may not be loaded
    before."""
    cipher: Any = sys.modules.get(_CIPHER)
    return (sqlite3.Error,) if cipher is None else (sqlite3.Error, cipher.Error)


def code_of(error: Exception) -> int:
    """The primary result code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """The error as a `StoreError`, with advice."""
    code = code_of(error)
    # SQLCipher's module does not report extended result codes.
    if code == sqlite3.SQLITE_CONSTRAINT and str(error).startswith("UNIQUE "):
        return ConflictError(f"{path}: another worker was first ({error})")
    if code == sqlite3.SQLITE_ERROR and _UNKNOWN.search(str(error)):
        return StoreError(f"{path}: {OUTGROWN} ({error})")
    return StoreError(f"{path}: {_ADVICE[code]} ({error})" if code in _ADVICE else f"{path}: {error}")


# ------------------------------------------------------------------------------------ connecting


def new_in_memory() -> Path:
    """The path of a new database in memory. All connections of this process to it share its content, which is
    discarded when the last one is closed."""
    return Path(f"{IN_MEMORY}{token_hex(16)}")


def is_in_memory(path: Path) -> bool:
    return str(path).startswith(IN_MEMORY)


def connect(path: Path, key: Key | None, *, timeout: float, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode, without any settings.

    Raises:
        StoreError: The key is not the file's, or the file is not encrypted.
    """
    if key is None:
        return _connect(sqlite3, path, timeout, read_only)
    return _unlocked(path, key, timeout, read_only)


def connect_cipher(path: Path, key: Key | None, *, timeout: float) -> sqlite3.Connection:
    """The same with SQLCipher in any case, which opens both kinds of files."""
    if key is None:
        return _connect(_cipher(), path, timeout, False)
    return _unlocked(path, key, timeout, False)


def _connect(module: Any, path: Path, timeout: float, read_only: bool) -> sqlite3.Connection:
    if is_in_memory(path):
        name = f"file:/{path.name.removeprefix(IN_MEMORY)}?vfs=memdb"
    else:
        # Only `create_file` creates a file: a deleted one must not be replaced by an empty one.
        name = f"{path.absolute().as_uri()}?{_reading(path) if read_only else 'mode=rw'}"
    connection = module.connect(
        name, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
    )
    connection.row_factory = module.Row
    return connection


def _reading(path: Path) -> str:
    # A reader needs a log beside the file. Where it cannot make one and there is none, nobody else has the
    # file open, and it can be read as it is.
    alone = not path.with_name(f"{path.name}-wal").exists() and not _may_write(path.parent)
    return "mode=ro&immutable=1" if alone else "mode=ro"


_ANYTHING = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)"


def _unlocked(path: Path, key: Key, timeout: float, read_only: bool) -> sqlite3.Connection:
    connection = _connect(_cipher(), path, timeout, read_only)
    try:
        # Otherwise it writes a line to stderr for each page that the key does not open.
        connection.execute("PRAGMA cipher_log_level = NONE")
        _give_key(connection, key)
        # Otherwise sorting and VACUUM write plain data into temporary files.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(_ANYTHING).fetchone()
    except errors() as error:
        connection.close()
        if code_of(error) != sqlite3.SQLITE_NOTADB:
            raise
        why = _NEEDLESS_KEY if _is_plain(path, timeout, read_only) else _WRONG_KEY
        raise StoreError(f"{path}: {why}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _give_key(connection: sqlite3.Connection, key: Key) -> None:
    # It reports the salt only once it has some key. Nothing is read with this one.
    connection.execute("PRAGMA key = 'salt'")
    salt: str = connection.execute("PRAGMA cipher_salt").fetchone()[0]
    connection.execute(f'PRAGMA key = "{key.words(bytes.fromhex(salt))}"')


def _is_plain(path: Path, timeout: float, read_only: bool) -> bool:
    connection = _connect(_cipher(), path, timeout, read_only)
    try:
        connection.execute(_ANYTHING).fetchone()
    except errors():
        return False
    finally:
        connection.close()
    return True


def _cipher() -> Any:
    # Imported when a key is given: without one it costs nothing and need not be installed.
    try:
        from sqlcipher3 import dbapi2  # pyright: ignore
    except ImportError as error:
        raise StoreError(_NO_CIPHER) from error
    return dbapi2  # pyright: ignore[reportUnknownVariableType]


# ------------------------------------------------------------------------------------ opening


def create_file(path: Path) -> None:
    """Create the file, readable by its owner only: it will contain people's conversations."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only if it does not exist: opening and closing a file that SQLite has open in this process would
        # release its locks.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        if path.is_dir():
            raise StoreError(f"{path}: is a folder; name a database file in it") from error
        if not _may_write(path):
            raise _unopenable(path, "Permission denied") from error
    except OSError as error:
        raise _unopenable(path, error.strerror or str(error)) from error


def _may_write(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids)


class OpenFile:
    """The file that a connection has open, by its identity: the path may lead elsewhere by now."""

    def __init__(self, path: Path) -> None:
        # The working directory may change.
        self._path = None if is_in_memory(path) else path.absolute()
        self._identity = self._found()

    def check(self) -> None:
        """Check that the file is still there. SQLite would continue to write into a deleted file.

        Raises:
            StoreError: The path no longer leads to the open file.
        """
        if self._found() != self._identity:
            raise StoreError(
                f"{self._path}: the file was deleted or replaced while it was open, and nothing more is "
                "written to it; put it back, or close this memory and open it again"
            )

    def _found(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _unopenable(path: Path, reason: str) -> StoreError:
    return StoreError(f"{path}: cannot be opened ({reason}); check the path and its permissions")


def open_connection(path: Path, key: Key | None = None, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection with the store's settings, in autocommit mode: transactions are explicit."""
    connection = connect(path, key, timeout=BUSY_SECONDS, read_only=read_only and may_only_be_read(path))
    try:
        connection.create_function("instant", 1, instant_of_text, deterministic=True)
        connection.execute("PRAGMA synchronous = FULL")
        # Deleted data is overwritten.
        connection.execute("PRAGMA secure_delete = ON")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
            # In memory, readers wait for our own writer.
            if not is_in_memory(path):
                connection.execute(f"PRAGMA busy_timeout = {READ_SECONDS * 1000:.0f}")
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_writing(path: Path, key: Key | None = None) -> sqlite3.Connection:
    """Create and migrate the database as needed, and return a connection for the writer.

    Raises:
        StoreError: It cannot be opened, or is not a database of Onlooker's.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"SQLite 3.37 or newer is needed; this Python has {sqlite3.sqlite_version}")
    if not is_in_memory(path):
        create_file(path)
    empty = path.is_file() and not path.stat().st_size
    try:
        return _open_migrated(path, key)
    except StoreError:
        if key is None or not empty:
            raise
    # Another process created the file at the same time, and its salt counts.
    return _open_migrated(path, key)


def open_for_reading(path: Path, key: Key | None = None) -> sqlite3.Connection:
    """A connection to a database that may only be read: whatever writes with it fails.

    Raises:
        StoreError: It cannot be opened, is not a database of Onlooker's, or its schema is older than ours.
    """
    try:
        connection = open_connection(path, key, read_only=True)
        try:
            check_current(connection, path)
        except BaseException:
            connection.close()
            raise
    except errors() as error:
        raise store_error(error, path) from error
    return connection


def may_only_be_read(path: Path) -> bool:
    """Whether there is a file, and this user may not write it or not write into its folder."""
    return path.is_file() and not (_may_write(path) and _may_write(path.parent))


def _open_migrated(path: Path, key: Key | None) -> sqlite3.Connection:
    connection = None
    try:
        connection = open_connection(path, key)
        _use_wal(connection)
        migrate(connection, path)
    except errors() as error:
        if connection:
            connection.close()
        raise store_error(error, path) from error
    except BaseException:
        if connection:
            connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    # Changing the mode needs exclusive access. SQLite gives up at once, whatever the timeout, if another
    # process is changing it as well.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except errors() as error:
            busy = code_of(error) == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


# ------------------------------------------------------------------------------------ migrating

# The migrations that have run, and the lowest version that a program must know since.
_RAN = (
    "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, works_with INTEGER NOT NULL) STRICT"
)


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration] | None = None) -> None:
    """Run the migrations that have not run yet, all or none. A second process finds them done.

    Raises:
        StoreError: The file is not Onlooker's, is too new for this version, or a migration failed.
    """
    steps = migrations(PACKAGE) if steps is None else steps
    if version_of(connection, path, steps[-1].number) == steps[-1].number and _is_ours(connection):
        return  # another program's lock need not be waited for
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
    except errors() as error:
        if code_of(error) in _ADVICE:
            raise
        raise failed(path, step, error) from error
    connection.execute(
        "INSERT OR REPLACE INTO migrations (number, works_with) VALUES (?, ?)", (step.number, step.works_with)
    )
    connection.execute(f"PRAGMA user_version = {step.number}")


def split(script: str) -> list[str]:
    """The statements of a script. (`executescript` would commit the transaction.)"""
    found: list[str] = []
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            found.append(text.strip())
            text = ""
    return found


def version_of(connection: sqlite3.Connection, path: Path, known: int | None = None) -> int:
    """The version of the file's schema.

    Raises:
        StoreError: It is too new for this version.
    """
    known = migrations(PACKAGE)[-1].number if known is None else known
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > known:
        refuse_newer(path, _ran(connection, version), known)
    return version


def _ran(connection: sqlite3.Connection, version: int) -> list[tuple[int, int]]:
    table = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'migrations')"
    if not connection.execute(table).fetchone()[0]:
        return [(version, version)]
    ran = [(n, w) for n, w in connection.execute("SELECT number, works_with FROM migrations")]
    # A migration without an entry worked with no earlier version.
    return ran if version in dict(ran) else [*ran, (version, version)]


def check_current(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a database that is only read is Onlooker's, with the current schema.

    Raises:
        StoreError: It is not.
    """
    if not _is_ours(connection):
        raise _of_another_application(path)
    refuse_older(str(path), version_of(connection, path), migrations(PACKAGE)[-1].number)


def _of_another_application(path: Path) -> StoreError:
    return StoreError(f"{path}: a database of another application; choose another path")


def _is_ours(connection: sqlite3.Connection) -> bool:
    return connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID


def _check_ours(connection: sqlite3.Connection, path: Path, known: int) -> int:
    """The version of the file's schema, if the file is Onlooker's or empty."""
    empty = not connection.execute(_ANYTHING).fetchone()[0]
    if not empty and not _is_ours(connection):
        raise _of_another_application(path)
    if empty:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return version_of(connection, path, known)


# ------------------------------------------------------------------------------------ a snapshot


class SqliteSnapshot(Snapshot):
    """`Reading` of the file at `path`, encrypted if there is a key."""

    def __init__(self, path: Path, key: Key | None = None) -> None:
        super().__init__()
        self._path = path
        self._key = key

    @property
    def name(self) -> str:
        return str(self._path)

    def _connect(self) -> Database | None:
        in_memory = is_in_memory(self._path)
        if not in_memory and (not self._path.is_file() or not self._path.stat().st_size):
            return None
        # Read-only: the last connection to close would otherwise write the log back to the file.
        connection = self._translated(
            lambda: connect(self._path, self._key, timeout=BUSY_SECONDS, read_only=True)
        )
        if in_memory:
            connection = self._translated(lambda: _copied(connection))
        try:
            exists = self._translated(lambda: self._begin(connection))
        except BaseException:
            connection.close()
            raise
        if not exists:
            connection.close()
            return None
        return SqliteDatabase(connection)

    def _begin(self, connection: sqlite3.Connection) -> bool:
        connection.execute("BEGIN")
        if not connection.execute("SELECT EXISTS (SELECT 1 FROM sqlite_schema)").fetchone()[0]:
            return False
        check_current(connection, self._path)
        return True

    def _disconnect(self, db: Database) -> None:
        cast("SqliteDatabase", db).connection.close()

    def _translated(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except errors() as error:
            raise store_error(error, self._path) from error


def _copied(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of a database in memory: it has no log, so a long read would block its writer."""
    with closing(connection):
        copy = connect(new_in_memory(), None, timeout=0)
        connection.backup(copy)
    return copy
