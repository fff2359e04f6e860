"""Where the benchmark of scale keeps its sessions: an SQLite file, or a PostgreSQL server of its own."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from onlooker.ports import Store

# The server of the tests does not wait for its disk; this one does.
SERVER = ("shared_buffers=256MB", "max_wal_size=4GB", "max_connections=120", "log_min_messages=fatal")

# What a host would write without any memory: the text and what it is found by.
_BARE = (
    "CREATE TABLE IF NOT EXISTS bare (sid TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL, "
    "role TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (sid, seq))"
)
_ADD = "INSERT INTO bare (sid, seq, id, role, text) VALUES (?, ?, ?, ?, ?)"

Row = tuple[str, int, str, str, str]
Write = Callable[[Row], Any]


class Place(Protocol):
    """A database that Onlooker uses, and its bare driver beside it."""

    name: str
    url: str
    # How processes that take notes share the work: by leases in the file, or by the server's queue.
    workers: Literal["embedded", "queue"]

    def store(self) -> Store: ...

    def ask(self, question: str) -> int:
        """The one number that a statement returns."""
        ...

    def size(self) -> int:
        """Bytes of everything that is kept, indexes too."""
        ...

    def rest(self) -> None:
        """Have the database do now what it would do in the background later."""
        ...

    def bare(self) -> AbstractContextManager[Write]:
        """A connection that writes a row and commits, one at a time."""
        ...


class SqlitePlace:
    name = "SQLite"
    workers: Literal["embedded", "queue"] = "embedded"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "scale.db"
        self.url = str(self._path)

    def store(self) -> Store:
        from onlooker.stores.sqlite import SqliteStore

        return SqliteStore(self._path)

    def _connect(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self._path, isolation_level=None, timeout=60))

    def ask(self, question: str) -> int:
        with self._connect() as connection:
            return connection.execute(question).fetchone()[0]

    def size(self) -> int:
        self.rest()
        return self._path.stat().st_size

    def rest(self) -> None:
        with self._connect() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def bare(self) -> Generator[Write]:
        path = self._path.with_name("bare.db")
        # Made and closed in one thread, used in another, never in both at once.
        connection = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
        with closing(connection):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(_BARE)
            yield lambda row: connection.execute(_ADD, row)


class PostgresPlace:
    name = "PostgreSQL"
    workers: Literal["embedded", "queue"] = "queue"

    def __init__(self, url: str, schema: str) -> None:
        self._server, self._schema = url, schema
        self.url = f"{url}&schema={schema}"

    def store(self) -> Store:
        from onlooker.stores.postgres import PostgresStore

        return PostgresStore(self.url)

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(self._server, autocommit=True, options=f"-csearch_path={self._schema}")

    def ask(self, question: str) -> int:
        with self._connect() as connection:
            return int(connection.execute(question).fetchone()[0])

    def size(self) -> int:
        return self.ask(
            "SELECT sum(pg_table_size(oid) + pg_indexes_size(oid)) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )

    def rest(self) -> None:
        with self._connect() as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")

    @contextmanager
    def bare(self) -> Generator[Write]:
        add = _ADD.replace("?", "%s").replace("bare", "public.bare")
        with self._connect() as connection:
            connection.execute("SELECT pg_advisory_lock(1)")
            connection.execute(_BARE.replace(" bare ", " public.bare "))
            connection.execute("SELECT pg_advisory_unlock(1)")
            yield lambda row: connection.execute(add, row)


@contextmanager
def sqlite_place(folder: Path) -> Generator[Place]:
    with tempfile.TemporaryDirectory(dir=folder) as own:
        yield SqlitePlace(Path(own))


@contextmanager
def postgres_place(folder: Path) -> Generator[Place]:
    # The server that the tests run on.
    sys.path.append(str(Path(__file__).parents[1]))
    from tests.postgres.server import Server

    with Server(SERVER, under=folder.absolute()) as server:
        yield PostgresPlace(server.url(), "onlooker")


PLACES: dict[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "sqlite": sqlite_place,
    "postgres": postgres_place,
}
