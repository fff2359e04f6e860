"""The PostgreSQL store: the shared transactions on a server that many processes use.

connection.py  addresses, TLS, timeouts, errors           pool.py       threads, connections, retries
database.py    statements, migrations, snapshots           append.py     waiting appends in one transaction
workers.py     background workers by way of PgQueuer
queries/       statements that only PostgreSQL has         migrations/   the schema
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

import psycopg
from psycopg import errors, sql

from onlooker.domain.errors import ClosedError, StoreError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import AppendResult, Progress
from onlooker.domain.search import Document
from onlooker.policy.search.vectors import signs, unit
from onlooker.stores.postgres.append import Appender
from onlooker.stores.postgres.connection import Address, address, lock_number, store_error
from onlooker.stores.postgres.database import PACKAGE, PostgresDatabase, PostgresSnapshot, migrate, version_of
from onlooker.stores.postgres.pool import Pool
from onlooker.stores.sql import indexes
from onlooker.stores.sql.database import Database, Job, from_instant, instant, migrations, pack, to_session
from onlooker.stores.sql.inspection import Contents, Inspection
from onlooker.stores.sql.transactions import Transactions

log = logging.getLogger("onlooker")

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

    async def write(self, job: Job[T], *, synced: bool = True) -> T:
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
        return likely(cast("PostgresDatabase", db), wanted)

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        def add(db: Database) -> int:
            db.run("lock", number=lock_number("vectors", space))
            return add_vectors(cast("PostgresDatabase", db), space, vectors)

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


# ------------------------------------------------------------------------------------ for `onlooker doctor`


@frozen
class ServerReport:
    """The state of a server and our schema on it. `contents` is None if this program cannot read them."""

    name: str  # the address, without secrets
    server_version: tuple[int, int]
    tls: bool
    schema: str
    version: int  # 0: there is no schema yet
    newest: int  # the newest version that this program knows
    problem: str  # why the schema cannot be used, if it is too new
    workers: int
    contents: Contents | None


def inspect_server(url: str, inspection: Inspection) -> ServerReport:
    """Connect to the server and check it. Nothing is changed, and no schema upgraded.

    Raises:
        StoreError: The server cannot be reached, or refuses.
        SettingsError: The address is wrong.
    """
    where = address(url)
    with closing(where.connect()) as connection:
        try:
            version, problem = _version(connection, where)
            newest = migrations(PACKAGE)[-1].number
            usable = not problem and version >= newest
            db = PostgresDatabase(connection, writing=False)
            return ServerReport(
                where.shown,
                divmod(connection.info.server_version, 10_000),
                connection.pgconn.ssl_in_use,
                where.schema,
                version,
                newest,
                problem,
                len(db.run("workers").fetchall()) if usable else 0,
                inspection.contents(db) if usable else None,
            )
        except psycopg.Error as error:
            raise store_error(error, where.shown) from error


def _version(connection: psycopg.Connection[Any], where: Any) -> tuple[int, str]:
    try:
        return version_of(connection, where), ""
    except StoreError as error:
        return 0, str(error)


# ------------------------------------------------------------------------------------ vectors

# With pgvector, if the database has it: an HNSW index over their signs. Without it, and for an owner with few
# texts, the signs of all texts of the owner or session are compared; that finds every likely one and takes
# about a microsecond for each. The index finds most of them, in a time that hardly grows. Either way the
# likely ones are then compared in full.

# The number of texts from which the index is used. Below, comparing all of them is as fast and finds all.
LARGE = 50_000
# The candidates that a search in the index keeps, and the most that it visits if a filter leaves few.
SEARCHED, VISITED = 1_000, 100_000
# The schema of pgvector. Before 0.8 it cannot continue a search when a filter leaves few results.
_EXTENSION = """
SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'
AND string_to_array(substring(extversion FROM '^\\d+\\.\\d+'), '.')::int[] >= '{0,8}'
"""
_MISSING = """
SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector' AND installed_version IS NULL)
"""


def add_vectors(db: PostgresDatabase, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
    """Add vectors. A new space, or one with vectors of another size, gets its index."""
    before = _space(db, space)
    added = indexes.add_vectors(db, space, vectors)
    after = _space(db, space)
    if after is not None and after != before:
        _create_index(db.connection, *after)
    return added


def _space(db: PostgresDatabase, name: str) -> tuple[int, int] | None:
    row = db.run("space", name=pack(name)).fetchone()
    return None if row is None else (row["space"], row["dimensions"])


def likely(db: PostgresDatabase, wanted: dict[str, Any]) -> list[int]:
    """A `indexes.Choice`."""
    width = 8 * len(wanted["signs"])
    where = {name: wanted[name] for name in ("owner", "kind", "sid")}
    texts = db.value("search_totals", **where)
    if texts < LARGE or not (schema := _indexed(db, wanted["space"], width)):
        return indexes.likely(db, wanted)
    db.connection.execute(
        f"SET LOCAL hnsw.ef_search = {SEARCHED}; SET LOCAL hnsw.iterative_scan = relaxed_order; "
        f"SET LOCAL hnsw.max_scan_tuples = {VISITED}".encode()
    )
    found = db.connection.execute(_closest(wanted, width, schema), wanted).fetchall()
    return [number for (number,) in found]


def _indexed(db: PostgresDatabase, space: int, width: int) -> str:
    """The schema of pgvector, if the space has its index; else nothing."""
    row = db.connection.execute(
        f"{_EXTENSION} AND EXISTS ("
        "SELECT 1 FROM pg_index WHERE indisvalid AND indexrelid = to_regclass(%s))".encode(),
        (_name(space, width),),
    ).fetchone()
    return "" if row is None else row[0]


def _closest(wanted: dict[str, Any], width: int, schema: str) -> sql.Composed:
    where = "" if wanted["sid"] is None else " AND sid = %(sid)s"
    when = "" if wanted["any_time"] else " AND at >= %(since)s AND at < %(before)s"
    text = (
        "SELECT number FROM vector_signs WHERE space = {space} AND owner = %(owner)s AND kind = %(kind)s"
        f"{where}{when} ORDER BY (bits(signs)::bit({{width}})) OPERATOR({{schema}}.<~>) "
        "bits(%(signs)s)::bit({width}) LIMIT %(limit)s"
    )
    return sql.SQL(text).format(  # pyright: ignore[reportArgumentType] - made of constants above
        space=sql.Literal(wanted["space"]),
        width=sql.SQL(str(width)),  # pyright: ignore[reportArgumentType] - a number
        schema=sql.SQL(schema),  # pyright: ignore[reportArgumentType]
    )


def _name(space: int, width: int) -> str:
    return f"vector_signs_near_{space}_{width}"


def _create_index(connection: psycopg.Connection[Any], space: int, dimensions: int) -> None:
    """Create the index of a space while it is nearly empty, if pgvector is installed or can be installed."""
    width = 8 * len(signs(unit([0.0] * dimensions)))
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("pgvector", ""),))
    if not (schema := _extension(connection)):
        return
    stale = "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
    for (name,) in connection.execute(
        (stale + "WHERE indrelid = 'vector_signs'::regclass AND relname LIKE %s").encode(),
        (f"vector\\_signs\\_near\\_{space}\\_%",),
    ).fetchall():
        connection.execute(f"DROP INDEX {name}".encode())
    index = (
        f"CREATE INDEX {_name(space, width)} ON vector_signs "
        f"USING hnsw ((bits(signs)::bit({width})) {schema}.bit_hamming_ops) "
        f"WHERE space = {space}"
    )
    _if_possible(connection, index)


def _extension(connection: psycopg.Connection[Any]) -> str:
    """The schema of pgvector, which is installed if that is allowed."""
    row = connection.execute(_MISSING.encode()).fetchone()
    if row is not None and row[0]:
        _if_possible(connection, "CREATE EXTENSION vector SCHEMA public")
    row = connection.execute(_EXTENSION.encode()).fetchone()
    return "" if row is None else row[0]


def _if_possible(connection: psycopg.Connection[Any], statement: str) -> None:
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except errors.DeadlockDetected:
        raise  # the transaction is run again
    except psycopg.Error as error:  # it works without
        log.info("pgvector is not used: %s", str(error).splitlines()[0])
