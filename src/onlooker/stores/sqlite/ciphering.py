"""Encrypting a database that is there, decrypting it, and giving it another key.

All three write a new file beside the old one, compare the two row by row, and then put the new one in the
place of the old: whenever that is interrupted, one whole database is there under the name.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_IMODE

from onlooker.domain.errors import StoreError
from onlooker.stores.sqlite import driver
from onlooker.stores.sqlite.copying import check, in_use, refuse_used
from onlooker.stores.sqlite.key import SALT, Key
from onlooker.stores.sqlite.opening import create_file, store_error

CHUNK = 1 << 20


def encrypt(path: Path, key: Key) -> None:
    """Encrypt a database; nobody may have it open. What was there in plain is overwritten.

    Raises:
        StoreError: It is no plain database of ours, or in use, or there is no room for a second one.
    """
    if path.is_file() and _opens(path, key):
        raise StoreError(f"{path}: is encrypted already, with this key")
    _rewrite(path, None, key)


def decrypt(path: Path, key: Key) -> None:
    """Make it a plain database again; nobody may have it open.

    Raises:
        StoreError: The key does not open it, it is in use, or there is no room for a second one.
    """
    _rewrite(path, key, None)


def rekey(path: Path, key: Key, new: Key) -> None:
    """Encrypt it with another key; nobody may have it open.

    Raises:
        StoreError: The key does not open it, it is in use, or there is no room for a second one.
    """
    _rewrite(path, key, new)


def _opens(path: Path, key: Key) -> bool:
    try:
        driver.connect(path, key, timeout=0, read_only=True).close()
    except (StoreError, *driver.errors()):
        return False
    return True


def _rewrite(path: Path, before: Key | None, after: Key | None) -> None:
    if not path.is_file():
        raise StoreError(f"{path}: no such file")
    path = path.resolve()  # a link stays one
    if path.stat().st_nlink > 1:
        raise StoreError(f"{path}: the file has other names (hard links), which would stay as they are")
    part = path.with_name(path.name + ".part")
    try:
        check(path, before)
        # Locks of Python's own SQLite do not hold off SQLCipher in the same process: each asks for itself.
        with _log_wiped(path):
            refuse_used(path, before)
        with _held(path, before) as db, _removed_at_last(part):
            _export(db, part, after)
            _compare(db, part, after)
            _take_the_place(part, path)
    except driver.errors() as error:
        if driver.code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise in_use(path) from error
        raise store_error(error, path) from error
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextmanager
def _held(path: Path, key: Key | None) -> Generator[sqlite3.Connection]:
    """The database, kept from everyone else until the end: whoever waits for it then finds it gone."""
    with closing(driver.connect_cipher(path, key, timeout=0)) as db:
        db.text_factory = bytes
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("COMMIT")
        if db.execute("PRAGMA journal_mode").fetchone()[0] != b"delete":
            raise in_use(path)
        yield db


@contextmanager
def _removed_at_last(part: Path) -> Generator[None]:
    part.unlink(missing_ok=True)  # of an earlier attempt that was cut off
    create_file(part)
    try:
        yield
    finally:
        with suppress(OSError):
            part.unlink()


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
    """See that the copy says the same, as whoever opens it with the key will read it."""
    check(part, key)
    with closing(driver.connect_cipher(part, key, timeout=0)) as copy:
        copy.text_factory = bytes
        if key is not None and copy.execute("PRAGMA cipher_integrity_check").fetchall():
            raise StoreError(f"{part}: was not written as it should be; check the disk, and try again")
        if _contents(db) != _contents(copy):
            raise StoreError(f"{part}: does not say the same; nothing was changed")
        copy.execute("PRAGMA journal_mode = WAL")  # as any database of ours


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


def _take_the_place(part: Path, path: Path) -> None:
    """Put the new file in the place of the old, whose bytes are then overwritten: also so that whoever
    waited for it does not go on writing into a file without a name."""
    status = path.stat()
    os.chmod(part, S_IMODE(status.st_mode))
    with path.open("r+b") as old:
        with part.open("rb") as new:
            os.fsync(new.fileno())
        os.replace(part, path)
        _sync_folder(path.parent)
        _wipe(old.fileno(), status.st_size)


@contextmanager
def _log_wiped(path: Path) -> Generator[None]:
    """Overwrite the write-ahead log that is there, once it was taken into the file and removed."""
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


def _sync_folder(folder: Path) -> None:
    if os.name != "nt":  # where a folder cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
