"""The PostgreSQL store: the shared transactions on a server that many processes use.

connection.py  addresses, TLS, timeouts, errors           pool.py       threads, connections, retries
database.py    statements in PostgreSQL's syntax           append.py     waiting appends in one transaction
schema.py      creating and migrating the schema           snapshot.py   the schema as it is at one moment
workers.py     background workers by way of PgQueuer       vectors.py    with pgvector or without
queries/       statements that only PostgreSQL has         migrations/   the schema
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

import psycopg

from onlooker.domain.errors import ClosedError, StoreError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import AppendResult, Progress
from onlooker.domain.search import Document
from onlooker.stores.postgres import vectors as of_vectors
from onlooker.stores.postgres.append import Appender
from onlooker.stores.postgres.connection import Address, address, lock_number, store_error
from onlooker.stores.postgres.database import PostgresDatabase
from onlooker.stores.postgres.pool import Pool
from onlooker.stores.postgres.schema import migrate
from onlooker.stores.postgres.snapshot import PostgresSnapshot
from onlooker.stores.sql.database import Database, Job
from onlooker.stores.sql.rows import from_instant, instant, to_session
from onlooker.stores.sql.transactions import Transactions

T = TypeVar("T")

# Seconds that `erase` waits for transactions that can still see deleted rows.
PATIENCE = 10.0
# Failing sessions that are listed by name.
MAX_FAILING = 20


class PostgresStore(Transactions):
    """`Store` in a PostgreSQL database, in its own schema, which is created if missing.

    Any number of stores, in any number of processes on any machine, may use the same schema.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self.address: Address = address(url)
        self._lock = Lock()  # held in threads only, while opening and closing
        self._threads: tuple[Pool, Appender] | None = None

    @property
    def commits(self) -> int:
        """The number of transactions for appends: under load far below the number of appends."""
        return self._threads[1].batches if self._threads else 0

    def _open(self) -> None:
        with self._lock:
            if self._threads is None:
                migrate(self.address)
                pool = Pool(self.address)
                self._threads = pool, Appender(pool)

    def _close(self) -> None:
        with self._lock:
            if self._threads is not None:
                pool, appender = self._threads
                appender.close()
                pool.close()
                self._threads = None

    def _opened(self) -> tuple[Pool, Appender]:
        if self._threads is None:
            raise ClosedError(f"the store {self.address.shown} is not open")
        return self._threads

    async def write(self, job: Job[T]) -> T:
        return await self._opened()[0].write(job)

    async def _write_once(self, job: Job[T]) -> T:
        return await self._opened()[0].write_once(job)

    async def read(self, job: Job[T]) -> T:
        return await self._opened()[0].read(job)

    async def _read_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        return await self.read(job)

    async def run(self, job: Callable[[PostgresDatabase], T]) -> T:
        """Run a transaction of the caller."""
        return await self.write(lambda db: job(cast("PostgresDatabase", db)))

    def _snapshot(self) -> PostgresSnapshot:
        self._opened()
        return PostgresSnapshot(self.address)

    async def append(
        self,
        session: SessionId,
        messages: Sequence[Message],
        *,
        due_tokens: int,
        now: datetime,
        after: Progress | None = None,
    ) -> AppendResult:
        return await self._opened()[1].append(session, messages, due_tokens, now, after)

    # -- vectors

    def _likely(self, db: Database, wanted: dict[str, Any]) -> list[int]:
        return of_vectors.likely(cast("PostgresDatabase", db), wanted)

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        def add(db: Database) -> int:
            db.run("lock", number=lock_number("vectors", space))
            return of_vectors.add(cast("PostgresDatabase", db), space, vectors)

        return await self.write(add)

    # -- workers

    async def workforce(self, now: datetime) -> Workforce:
        """The workers, and how far behind they are."""

        def read(db: Database) -> Workforce:
            due, since, failing = db.run("backlog", now=instant(now)).fetchone()
            lag = 0.0 if since is None else (now - from_instant(since)).total_seconds()
            workers = tuple(map(_worker, db.run("workers")))
            failures = tuple(map(_failure, db.run("failing", limit=MAX_FAILING)))
            return Workforce(workers, due, lag, failing, failures)

        return await self.read(read)

    # -- the server's files

    async def erase(self) -> bool:
        self._opened()
        return await asyncio.to_thread(self._erase)

    def _erase(self) -> bool:
        """Vacuum deleted rows from tables and indexes: no query finds them, and their room is used again.

        Their bytes stay in the files until it is, or until a `VACUUM FULL`, which locks everyone out and is
        for an operator to run, so this always returns False. The server's log and backups are its
        own.
        """
        try:
            with closing(self.address.connect()) as connection:
                connection.execute("SET statement_timeout = 0")
                _wait_for_readers(connection)
                tables = connection.execute(
                    "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables "
                    "WHERE schemaname = current_schema() AND tablename <> 'migrations'"
                ).fetchone()
                connection.execute(f"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) {(tables or [''])[0]}".encode())
                return False
        except psycopg.Error as error:
            raise store_error(error, self.address.shown) from error

    async def back_up(self, target: Path) -> None:
        raise StoreError(
            f"{self.address.shown}: a database on a server is not a file; use pg_dump, or "
            "`onlooker migrate` into a file"
        )


# A worker that was not seen for this long is lost.
UNSEEN_SECONDS = 30.0


@frozen
class WorkerStatus:
    """A worker as it last reported itself."""

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

    @property
    def state(self) -> str:
        """Whether it was seen lately: "active" or "lost"."""
        return "lost" if self.unseen_seconds > UNSEEN_SECONDS else "active"


@frozen
class Workforce:
    """The workers, the number of due sessions, the seconds that the oldest has waited, and the number of
    sessions whose last attempt failed; and the worst of these, each with its failures and the time of its
    next attempt."""

    workers: tuple[WorkerStatus, ...]
    backlog: int
    lag: float
    failing: int
    failures: tuple[tuple[SessionId, int, datetime], ...] = ()


def _worker(row: Sequence[Any]) -> WorkerStatus:
    name, host, pid, concurrency, running, done, failed, started_at, seen_at, unseen = row
    times = datetime.fromtimestamp(started_at, UTC), datetime.fromtimestamp(seen_at, UTC)
    return WorkerStatus(name, host, pid, concurrency, running, done, failed, *times, unseen)


def _failure(row: Any) -> tuple[SessionId, int, datetime]:
    return to_session(row), row["failures"], from_instant(row["due_at"])


def _wait_for_readers(connection: psycopg.Connection[Any]) -> bool:
    """Wait until no transaction can see what was deleted before now; False if one takes too long."""
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
