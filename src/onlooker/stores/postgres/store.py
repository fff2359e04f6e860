"""The store itself: the transactions of the SQLite store, on a server that many share.

store.py        what is different here: appends, locks, and the files that are the server's own
connections.py  threads, the pool, what is tried again      appending.py   appends that wait go together
database.py     a connection as the transactions know one   statements.py  this store's SQL by the same names
opening.py      addresses, TLS, time limits, errors         migrating.py   the schema, one process at a time
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import psycopg

from onlooker.domain.errors import ClosedError, StoreError
from onlooker.domain.history import Forgetting
from onlooker.domain.history_rows import Row
from onlooker.domain.items import Item, ItemChange
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Appended, Progress
from onlooker.domain.search import Document, Match, VectorQuery
from onlooker.stores.moving import OnConflict
from onlooker.stores.postgres import vectors as of_vectors
from onlooker.stores.postgres.appending import Appender
from onlooker.stores.postgres.connections import Connections
from onlooker.stores.postgres.database import Database, Job
from onlooker.stores.postgres.migrating import migrate
from onlooker.stores.postgres.opening import Address, address, lock_number, store_error
from onlooker.stores.postgres.reading import PostgresReading
from onlooker.stores.sqlite import feeding
from onlooker.stores.sqlite import items as of_items
from onlooker.stores.sqlite import notes as of_notes
from onlooker.stores.sqlite import past as of_past
from onlooker.stores.sqlite import searching as of_search
from onlooker.stores.sqlite import sessions as of_sessions
from onlooker.stores.sqlite.rows import from_instant, instant, sid_of, unpack
from onlooker.stores.sqlite.transactions import Transactions

T = TypeVar("T")

# How long `erase` waits for transactions that can still see what was deleted.
PATIENCE = 10.0
# Sessions that are named whose notes failed.
MOST_FAILING = 20


class PostgresStore(Transactions):
    """`Store` in a PostgreSQL database, in a schema of its own, which is created at need.

    It runs the transactions of the SQLite store: each has its statements twice, once for each database. Any
    number of stores, in any number of processes on any machine, may use the same schema.
    """

    def __init__(self, url: str) -> None:
        self.address: Address = address(url)
        self._lock = Lock()  # held in threads only, while opening and closing
        self._served: tuple[Connections, Appender] | None = None

    @property
    def commits(self) -> int:
        """How many transactions appends took: under load far fewer than there were appends."""
        return self._served[1].batches if self._served else 0

    def _open(self) -> None:
        with self._lock:
            if self._served is None:
                migrate(self.address)
                connections = Connections(self.address)
                self._served = connections, Appender(connections)

    def _close(self) -> None:
        with self._lock:
            if self._served is not None:
                connections, appender = self._served
                appender.close()
                connections.close()
                self._served = None

    def _serving(self) -> tuple[Connections, Appender]:
        if self._served is None:
            raise ClosedError(f"the store {self.address.shown} is not open")
        return self._served

    async def _write(self, job: Job[T]) -> T:
        return await self._serving()[0].write(job)

    async def _read(self, job: Job[T]) -> T:
        return await self._serving()[0].read(job)

    async def _read_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        return await self._read(job)

    async def run(self, job: Callable[[Database], T]) -> T:
        """Run a transaction on this store's own statements."""
        return await self._write(lambda db: job(Database.under(db)))

    async def _write_owned(self, owner: str, job: Job[T]) -> T:
        """Run a job that changes items of an owner, or may; no other does meanwhile."""

        def alone(db: sqlite3.Connection) -> T:
            Database.under(db).named("lock_owner", (lock_number("items", owner),))
            return job(db)

        return await self._write(alone)

    async def _write_in(self, session: SessionId, job: Job[T]) -> T:
        """Run a job that changes a session without reading it first; no other does meanwhile."""

        def alone(db: sqlite3.Connection) -> T:
            Database.under(db).named("lock_session", (sid_of(session),))
            return job(db)

        return await self._write(alone)

    # -- messages

    async def append(
        self, session: SessionId, messages: Sequence[Message], *, due_tokens: int, now: datetime
    ) -> Appended:
        return await self._serving()[1].append(session, messages, due_tokens, now)

    # -- what must be locked first

    async def pin(self, session: SessionId, target: str, *, on: bool) -> None:
        await self._write_in(session, lambda db: of_notes.pin(db, session, target, on))

    async def index(self, session: SessionId, *, limit: int = 500) -> int:
        return await self._write_in(session, lambda db: of_search.index(db, session, limit))

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        def alone(db: sqlite3.Connection) -> int:
            Database.under(db).named("lock_owner", (lock_number("vectors", space),))
            return of_vectors.add(db, space, vectors)

        return await self._write(alone)

    async def near(self, query: VectorQuery) -> Sequence[tuple[Match, float]]:
        return await self._read(lambda db: of_vectors.near(db, query))

    async def delete_session(self, session: SessionId) -> bool:
        def delete(db: sqlite3.Connection) -> bool:
            # One that is not there cannot be held, and may be made while we delete what it does not have.
            there = Database.under(db).named("lock_session", (sid_of(session),)).fetchone()
            return there is not None and of_sessions.delete(db, session)

        return await self._taking_away(self._write_owned(session.owner, delete))

    async def change_items(self, change: ItemChange) -> None:
        await self._write_owned(change.owner, lambda db: of_items.change(db, change))

    async def archive_items(self, owner: str, ids: Sequence[str], *, now: datetime) -> Sequence[Item]:
        return await self._write_owned(owner, lambda db: of_items.archive(db, owner, ids, now))

    async def delete_items(self, owner: str, ids: Sequence[str] | None = None) -> int:
        return await self._write_owned(owner, lambda db: of_items.delete(db, owner, ids))

    async def show_items(
        self, session: SessionId, ids: Sequence[str], *, now: datetime, anew: bool = False
    ) -> None:
        await self._write_owned(session.owner, lambda db: of_sessions.show_items(db, session, ids, now, anew))

    async def forget(self, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
        return await self._taking_away(
            self._write_owned(session.owner, lambda db: of_past.forget(db, session, change, now))
        )

    async def forget_owner(self, owner: str) -> int:
        return await self._taking_away(self._write_owned(owner, lambda db: of_past.forget_owner(db, owner)))

    # -- workers

    async def workforce(self, now: datetime) -> Workforce:
        """Who takes notes, and how far behind they are."""

        def read(db: sqlite3.Connection) -> Workforce:
            own = Database.under(db)
            due, since, failing = own.named("backlog", (instant(now),)).fetchone() or (0, None, 0)
            lag = 0.0 if since is None else (now - from_instant(since)).total_seconds()
            workers = tuple(map(_worker, own.named("workers")))
            failures = tuple(map(_failure, own.named("failing", (MOST_FAILING,))))
            return Workforce(workers, due, lag, failing, failures)

        return await self._read(read)

    # -- files, which are the server's

    async def erase(self) -> bool:
        self._serving()
        return await asyncio.to_thread(self._erase)

    def _erase(self) -> bool:
        """Let the server take deleted rows out of tables and indexes. Its log and its backups are its own."""
        try:
            with closing(self.address.connect()) as connection:
                connection.execute("SET statement_timeout = 0")
                unseen = _wait_for_readers(connection)
                tables = connection.execute(
                    "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables "
                    "WHERE schemaname = current_schema() AND tablename <> 'migrations'"
                ).fetchone()
                connection.execute(f"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) {(tables or [''])[0]}".encode())
                return unseen
        except psycopg.Error as error:
            raise store_error(error, self.address.shown) from error

    async def back_up(self, target: Path) -> None:
        raise StoreError(
            f"{self.address.shown}: a server's database is no file to copy; use pg_dump, "
            "or `onlooker migrate` into a file"
        )

    def _reading(self) -> PostgresReading:
        self._serving()
        return PostgresReading(self.address)

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, renew: bool = False
    ) -> dict[str, int]:
        once = self._serving()[0].write_once
        return await self._taking_away(feeding.restore(once, rows, OnConflict(replace, renew)))


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """A worker as it last spoke of itself."""

    id: str
    host: str
    pid: int
    concurrency: int
    running: int
    done: int
    failed: int
    started_at: datetime
    seen_at: datetime
    unseen_seconds: float  # by the server's clock


@dataclass(frozen=True, slots=True)
class Workforce:
    """Workers, sessions that are due, for how many seconds the longest is, and how many failed last time;
    and of those the worst, with how often each failed and when it is tried again."""

    workers: tuple[WorkerSeen, ...]
    backlog: int
    lag: float
    failing: int
    failures: tuple[tuple[SessionId, int, datetime], ...] = ()


def _worker(row: Sequence[Any]) -> WorkerSeen:
    name, host, pid, concurrency, running, done, failed, started_at, seen_at, unseen = row
    times = datetime.fromtimestamp(started_at, UTC), datetime.fromtimestamp(seen_at, UTC)
    return WorkerSeen(name, host, pid, concurrency, running, done, failed, *times, unseen)


def _failure(row: Sequence[Any]) -> tuple[SessionId, int, datetime]:
    owner, key, failures, due_at = row
    return SessionId(unpack(owner), unpack(key)), failures, from_instant(due_at)


def _wait_for_readers(connection: psycopg.Connection[Any]) -> bool:
    """Wait until no transaction can see what was deleted before now; False where one went on for too long."""
    row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    assert row is not None
    deadline = time.monotonic() + PATIENCE
    while True:
        seeing = connection.execute(
            "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL "
            "AND backend_xmin::text::bigint <= %s %% 4294967296)",
            (row[0],),
        ).fetchone()
        if seeing is None or not seeing[0]:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
