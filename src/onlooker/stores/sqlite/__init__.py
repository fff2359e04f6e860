"""Sessions in an SQLite file: durable, shared by any number of processes on one machine."""

from onlooker.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
