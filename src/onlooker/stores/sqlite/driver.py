"""Which SQLite does the work: Python's own, or SQLCipher where there is a key. The only place that chooses.

The two are twins: connections, cursors, rows and errors do the same, and are typed here as Python's own.
The file is never looked into but by way of them: whoever opens and closes a file that SQLite has open in
the same process takes its locks away.
"""

from __future__ import annotations

import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from onlooker.domain.errors import StoreError
from onlooker.stores.sqlite.key import Key

_CIPHER = "sqlcipher3.dbapi2"

IN_MEMORY = ":memory:"

WITHOUT_KEY = (
    "not a database, or an encrypted one: give its key (key=…, --key-file or ONLOOKER_KEY), "
    "or choose another path"
)
WITH_NEEDLESS_KEY = (
    "the file is not encrypted, and a key was given: leave the key out, or run `onlooker encrypt` first"
)
WRONG_KEY = "the key does not open it: give the one it was encrypted with (or it is no database at all)"
NO_CIPHER = 'encryption needs the package sqlcipher3: pip install "onlooker[encrypted]"'


def connect(path: Path, key: Key | None, *, timeout: float, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode.

    Raises:
        StoreError: The key is not the file's, or the file has none.
    """
    way = _Way(path, timeout, read_only)
    return way.connect(sqlite3) if key is None else _unlocked(way, key)


def connect_cipher(path: Path, key: Key | None, *, timeout: float) -> sqlite3.Connection:
    """The same by way of SQLCipher in any case, which knows files of both kinds."""
    way = _Way(path, timeout)
    return way.connect(_cipher()) if key is None else _unlocked(way, key)


def errors() -> tuple[type[sqlite3.Error], ...]:
    """What connections raise; to be asked for when one has raised something."""
    cipher: Any = sys.modules.get(_CIPHER)
    return (sqlite3.Error,) if cipher is None else (sqlite3.Error, cipher.Error)


def code_of(error: Exception) -> int:
    """Which error it is, without its variant."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_twice(error: Exception) -> bool:
    """Whether a key was there already. (SQLCipher's module does not tell the variants apart.)"""
    return code_of(error) == sqlite3.SQLITE_CONSTRAINT and str(error).startswith("UNIQUE ")


def new_in_memory() -> Path:
    """The path of a new database in memory. All connections of this process to it share its content, which
    goes when the last of them is closed."""
    return Path(f"{IN_MEMORY}{uuid4().hex}")


def is_in_memory(path: Path) -> bool:
    return str(path).startswith(IN_MEMORY)


@dataclass(frozen=True, slots=True)
class _Way:
    """How to get at a file."""

    path: Path
    timeout: float
    read_only: bool = False

    def connect(self, module: Any) -> sqlite3.Connection:
        if is_in_memory(self.path):
            name = f"file:/{self.path.name.removeprefix(IN_MEMORY)}?vfs=memdb"
        elif self.read_only:
            name = f"{self.path.absolute().as_uri()}?mode=ro"
        else:
            name = str(self.path)
        connection = module.connect(
            name,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
            uri=name.startswith("file:"),
        )
        connection.row_factory = module.Row
        return connection


def _unlocked(way: _Way, key: Key) -> sqlite3.Connection:
    connection = way.connect(_cipher())
    try:
        # It would write lines to stderr for each page that the key does not open.
        connection.execute("PRAGMA cipher_log_level = NONE")
        _give_key(connection, key)
        # Sorting and VACUUM would put what they work on into files that nobody encrypts.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(_ANYTHING).fetchone()
    except errors() as error:
        connection.close()
        if code_of(error) != sqlite3.SQLITE_NOTADB:
            raise
        raise StoreError(f"{way.path}: {WITH_NEEDLESS_KEY if _is_plain(way) else WRONG_KEY}") from None
    except BaseException:
        connection.close()
        raise
    return connection


_ANYTHING = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)"


def _give_key(connection: sqlite3.Connection, key: Key) -> None:
    # It tells the salt only once it has some key; none is made of this one, since nothing is read with it.
    connection.execute("PRAGMA key = 'salt'")
    salt: str = connection.execute("PRAGMA cipher_salt").fetchone()[0]
    connection.execute(f'PRAGMA key = "{key.words(bytes.fromhex(salt))}"')


def _is_plain(way: _Way) -> bool:
    connection = way.connect(_cipher())
    try:
        connection.execute(_ANYTHING).fetchone()
    except errors():
        return False
    finally:
        connection.close()
    return True


def _cipher() -> Any:
    # Loaded when a key is given: without one it costs nothing, and need not be installed.
    try:
        from sqlcipher3 import dbapi2  # pyright: ignore
    except ImportError as error:
        raise StoreError(NO_CIPHER) from error
    return dbapi2  # pyright: ignore[reportUnknownVariableType]
