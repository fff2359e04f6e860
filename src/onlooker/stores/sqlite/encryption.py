"""Encrypting an existing database, decrypting it, and changing its key.

All three write a new file next to the old one, compare the two row by row, and then replace the old one.
If that is interrupted at any time, there is still a complete database at the path.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from stat import S_IMODE

from onlooker.atomic import NewFile
from onlooker.domain.errors import StoreError
from onlooker.stores.sqlite.backup import check, in_use, refuse_used
from onlooker.stores.sqlite.connection import (
    code_of,
    connect,
    connect_cipher,
    errors,
    store_error,
)
from onlooker.stores.sqlite.key import SALT, Key

CHUNK = 1 << 20


def encrypt(path: Path, key: Key) -> None:
    """Encrypt a database that nobody has open. The plain data is overwritten.

    Raises:
        StoreError: It is not a plain database of Onlooker's, is in use, or there is no space for a second
        one.
    """
    if path.is_file() and _opens(path, key):
        raise StoreError(f"{path}: is already encrypted with this key")
    _rewrite(path, None, key)


def decrypt(path: Path, key: Key) -> None:
    """Decrypt a database that nobody has open.

    Raises:
        StoreError: The key does not open it, it is in use, or there is no space for a second one.
    """
    _rewrite(path, key, None)


def rekey(path: Path, key: Key, new: Key) -> None:
    """Encrypt a database with another key. Nobody may have it open.

    Raises:
        StoreError: The key does not open it, it is in use, or there is no space for a second one.
    """
    _rewrite(path, key, new)


def _opens(path: Path, key: Key) -> bool:
    try:
        connect(path, key, timeout=0, read_only=True).close()
    except (StoreError, *errors()):
        return False
    return True


def _rewrite(path: Path, before: Key | None, after: Key | None) -> None:
    if not path.is_file():
        raise StoreError(f"{path}: no such file")
    path = path.resolve()  # a symbolic link stays one
    if path.stat().st_nlink > 1:
        raise StoreError(f"{path}: the file has hard links, which would keep the old content")
    try:
        check(path, before)
        # Locks of Python's own SQLite do not stop SQLCipher in the same process, so each takes its own.
        with _log_wiped(path):
            refuse_used(path, before)
        with _held(path, before) as db, NewFile(path) as new:
            _export(db, new.path, after)
            _compare(db, new.path, after)
            _replace(path, new)
    except errors() as error:
        if code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise in_use(path) from error
        raise store_error(error, path) from error
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextmanager
def _held(path: Path, key: Key | None) -> Generator[sqlite3.Connection]:
    """The database, locked exclusively until the end: a process that waits for it then finds it replaced."""
    with closing(connect_cipher(path, key, timeout=0)) as db:
        db.text_factory = bytes
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("COMMIT")
        if db.execute("PRAGMA journal_mode").fetchone()[0] != b"delete":
            raise in_use(path)
        yield db


def _export(db: sqlite3.Connection, part: Path, key: Key | None) -> None:
    words = "" if key is None else key.words(os.urandom(SALT))
    db.execute("ATTACH DATABASE ? AS copy KEY ?", (str(part), words))
    db.execute("SELECT sqlcipher_export('copy')").fetchall()
    for name in ("application_id", "user_version"):
        value = db.execute(f"PRAGMA main.{name}").fetchone()[0]
        db.execute(f"PRAGMA copy.{name} = {value}")
    db.execute("DETACH DATABASE copy")


# ------------------------------------------------------------------------------------ comparing


def _compare(db: sqlite3.Connection, part: Path, key: Key | None) -> None:
    """Check that the copy has the same content when it is opened with the key."""
    check(part, key)
    with closing(connect_cipher(part, key, timeout=0)) as copy:
        copy.text_factory = bytes
        if key is not None and copy.execute("PRAGMA cipher_integrity_check").fetchall():
            raise StoreError(f"{part}: was not written correctly; check the disk and try again")
        if _contents(db) != _contents(copy):
            raise StoreError(f"{part}: differs from the database; nothing was changed")
        copy.execute("PRAGMA journal_mode = WAL")  # like every database of Onlooker's


_SCHEMA = "SELECT type, name, tbl_name, sql, rootpage > 0 FROM main.sqlite_schema ORDER BY type, name"


def _contents(db: sqlite3.Connection) -> bytes:
    """A hash of the schema and of every row."""
    hashed = blake2b()
    schema = [tuple(row) for row in db.execute(_SCHEMA)]
    hashed.update(repr(schema).encode())
    tables: list[str] = [name.decode() for kind, name, _, _, own in schema if kind == b"table" and own]
    for table in tables:
        hashed.update(table.encode())
        for row in db.execute(f'SELECT * FROM main."{table}"'):
            hashed.update(repr(tuple(row)).encode())
    return hashed.digest()


# ------------------------------------------------------------------------------------ replacing


def _replace(path: Path, new: NewFile) -> None:
    """Replace the old file by the new one and overwrite the old one's bytes. A process that waited for the
    old file then finds it unusable, instead of writing into a file without a name."""
    status = path.stat()
    with path.open("r+b") as old:
        new.publish(mode=S_IMODE(status.st_mode))
        _wipe(old.fileno(), status.st_size)


@contextmanager
def _log_wiped(path: Path) -> Generator[None]:
    """Overwrite an existing write-ahead log once it was checkpointed and removed."""
    try:
        log = os.open(path.with_name(path.name + "-wal"), os.O_RDWR)
    except FileNotFoundError:
        yield
        return
    try:
        yield
        if os.fstat(log).st_nlink == 0:
            _wipe(log, os.fstat(log).st_size)
    finally:
        os.close(log)


def _wipe(file: int, size: int) -> None:
    os.lseek(file, 0, os.SEEK_SET)
    for start in range(0, size, CHUNK):
        os.write(file, bytes(min(CHUNK, size - start)))
    os.fsync(file)
