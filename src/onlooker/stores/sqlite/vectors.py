"""The likely texts of a vector search: with sqlite-vec where it can be loaded, else in Python.

Vectors are in ordinary tables, not in virtual ones of an extension, so that a Python whose SQLite cannot load
extensions opens the same file, deletes from it and searches it.
"""

from __future__ import annotations

import logging
import sqlite3
from functools import cache
from typing import Any

from onlooker.policy.search import vectors as policy
from onlooker.stores.sql import indexes
from onlooker.stores.sqlite.connection import SqliteDatabase, errors

log = logging.getLogger("onlooker")

# Set when sqlite-vec was found but could not be loaded: then no connection can load it.
_unloadable = False


def likely(db: SqliteDatabase, wanted: dict[str, Any]) -> list[int]:
    """A `indexes.Choice`."""
    if has_extension(db.connection):
        return indexes.likely(db, wanted)
    rows = db.run("signs" if wanted["sid"] is None else "signs_in_session", **wanted)
    return policy.likely(wanted["signs"], ((number, blob) for number, blob in rows), wanted["limit"])


def has_extension(connection: sqlite3.Connection) -> bool:
    """Whether the connection has sqlite-vec, which is loaded if possible."""
    path = extension()
    if path is None or _unloadable or not hasattr(connection, "enable_load_extension"):
        return False
    try:
        connection.execute("SELECT vec_version()")
    except errors():
        return _load(connection, path)
    return True


@cache
def extension() -> str | None:
    """The path of sqlite-vec; None if it is not installed."""
    try:
        import sqlite_vec  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return None
    return str(sqlite_vec.loadable_path())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def loads_extensions() -> bool:
    """Whether this Python's SQLite can load extensions. SQLCipher's, for encrypted files, always can."""
    return hasattr(sqlite3.Connection, "enable_load_extension")


def _load(connection: sqlite3.Connection, path: str) -> bool:
    global _unloadable
    try:
        connection.enable_load_extension(True)
        try:
            connection.load_extension(path)
        finally:
            connection.enable_load_extension(False)
    except errors() as error:
        log.warning("sqlite-vec cannot be loaded and is not used: %s", error)
        _unloadable = True
        return False
    return True
