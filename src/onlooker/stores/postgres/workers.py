"""Background workers on any number of machines, by way of PgQueuer.

PgQueuer's tables are in the same schema. A trigger enqueues a session in the transaction that made it due.
Its key in the queue is the session and the fence of its lease: several triggers become one job, and a job
that is about to finish does not absorb the next one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

import psycopg
from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.models import Job
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel
from pgqueuer.ports.driver import NotifyCallback
from psycopg import AsyncConnection

from onlooker.domain.errors import OnlookerError, StoreError
from onlooker.domain.messages import SessionId
from onlooker.policy.plan import FAR_AHEAD
from onlooker.ports import Clock
from onlooker.stores.postgres.connection import Address, lock_number, settings_of, store_error
from onlooker.stores.postgres.store import PostgresStore
from onlooker.stores.sql.database import Database, instant, unpack

log = logging.getLogger("onlooker")

# Seconds between two reports of a worker, and the shortest and longest wait after the connection was lost.
SEEN_SECONDS = 5.0
LOST_SECONDS = (0.5, 10.0)
# The most sessions that one sweep enqueues.
MAX_AT_ONCE = 1_000
# Sweeps between two clean-ups of the queue's log.
TIDY_EVERY = 500


@dataclass(slots=True)
class Work:
    """The counters of this worker."""

    running: int = 0
    done: int = 0
    failed: int = 0


class QueueWorkers:
    """`Workers`: takes jobs from the queue and runs `advance` for their sessions.

    A job only names the session; what to do is decided as everywhere else. The queue does not retry: a
    session that failed has a due time, and is enqueued again then.
    """

    def __init__(
        self,
        store: PostgresStore,
        clock: Clock,
        advance: Callable[[SessionId], Awaitable[bool]],
        *,
        concurrency: int,
        sweep_seconds: float,
        heartbeat: timedelta,
    ) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.work = Work()
        self._store = store
        self._clock = clock
        self._advance = advance
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._sweep_seconds = sweep_seconds
        # Time without a heartbeat after which another worker takes the job.
        self._heartbeat = heartbeat
        self._manager: QueueManager | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    @property
    def takes_notes(self) -> bool:
        return True

    @property
    def pending(self) -> int:
        return self.work.running

    async def start(self) -> None:
        """Install the queue and start.

        Raises:
            StoreError: The server cannot be reached, or the queue cannot be installed.
        """
        self._stopping.clear()
        await self._report()
        address = self._store.address
        try:
            async with connected(address) as connection:
                await install(connection, address, lock_number("queue", address.schema))
        except psycopg.Error as error:
            raise store_error(error, address.shown) from error
        await self.tick()
        self._tasks = [
            asyncio.create_task(self._take(), name="onlooker queue"),
            asyncio.create_task(self._sweep(), name="onlooker sweep"),
            asyncio.create_task(self._report_often(), name="onlooker worker"),
        ]

    def wake(self, session: SessionId) -> None:
        """Do nothing: the transaction that made the session due has enqueued it."""

    async def tick(self) -> int:
        """Enqueue every due session without a lease."""
        now = self._clock.now()
        times = {"now": instant(now), "far": instant(now + FAR_AHEAD)}
        return await self._store.run(lambda db: db.run("announce_all", **times, limit=MAX_AT_ONCE).rowcount)

    async def flush(self) -> None:
        """Wait until nothing runs here and everything that was due at the start is settled."""
        began = self._clock.now()
        while self.work.running or await self._store.due(began, limit=1):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), 0.05)
                return

    async def stop(self, deadline: float) -> bool:
        self._stopping.set()
        if self._manager:
            self._manager.shutdown.set()
        queue, *others = self._tasks or [None]
        for task in others:
            if task:
                task.cancel()
        late = False
        if queue:
            _, unfinished = await asyncio.wait([queue], timeout=deadline)
            late = bool(unfinished)
            queue.cancel()
        await asyncio.gather(*(t for t in (queue, *others) if t), return_exceptions=True)
        self._tasks = []
        with suppress(StoreError):
            await self._store.run(lambda db: db.run("worker_gone", id=self.id))
        return not late

    # -- jobs

    async def _take(self) -> None:
        """Take jobs until stopped. If the connection is lost, connect again."""
        shortest, longest = LOST_SECONDS
        pause = shortest
        while not self._stopping.is_set():
            try:
                address = self._store.address
                async with connected(address) as statements, connected(address) as listening:
                    pause = shortest
                    await self._run(ListeningDriver(statements, listening))
            except Exception as error:  # noqa: BLE001 - a worker must not stop silently
                # A lost connection, missing tables, a failed listener: PgQueuer has its own error for each.
                why = str(error) or type(error).__name__
                log.warning("the queue cannot be reached, trying again in %.1f s: %s", pause, why)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause)
                pause = min(pause * 2, longest)

    async def _run(self, driver: ListeningDriver) -> None:
        settings = queue_settings(self._store.address.schema)
        manager = QueueManager(queries(driver, settings), channel=settings.channel)
        manager.entrypoint(ENTRYPOINT)(self._do)
        self._manager = manager
        if self._stopping.is_set():
            return
        most = max(self._concurrency, 2)
        await manager.run(
            dequeue_timeout=timedelta(seconds=max(self._sweep_seconds, 1.0)),
            batch_size=most // 2,
            max_concurrent_tasks=most,
            heartbeat_timeout=self._heartbeat,
            shutdown_on_listener_failure=True,
        )

    async def _do(self, job: Job) -> None:
        session = session_of(job.payload)
        async with self._slots:
            self.work.running += 1
            try:
                await self._advance(session)
                self.work.done += 1
            except OnlookerError as error:
                # It stays due, and a later sweep enqueues it again.
                self.work.failed += 1
                log.warning("%s: notes were not taken: %s", session.key, error)
            except Exception:
                self.work.failed += 1
                log.exception("%s: notes were not taken; this is a bug in Onlooker", session.key)
            finally:
                self.work.running -= 1

    # -- periodic work

    async def _sweep(self) -> None:
        sweeps = 0
        while True:
            await asyncio.sleep(self._sweep_seconds)
            sweeps += 1
            try:
                await self.tick()
                if sweeps % TIDY_EVERY == 0:
                    await self._store.run(_tidy)
            except OnlookerError as error:
                log.warning("the sweep for due sessions failed: %s", error)
            except Exception:
                log.exception("the sweep for due sessions failed; this is a bug in Onlooker")

    async def _report_often(self) -> None:
        while True:
            await asyncio.sleep(SEEN_SECONDS)
            with suppress(StoreError):  # the sweep logs it
                await self._report()

    async def _report(self) -> None:
        work = self.work
        values: dict[str, Any] = {
            "id": self.id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "concurrency": self._concurrency,
            "running": work.running,
            "done": work.done,
            "failed": work.failed,
        }
        await self._store.run(lambda db: db.run("worker_seen", **values))


def _tidy(db: Database) -> None:
    for name in ("tidy_workers", "tidy_queue", "tidy_statistics"):
        db.run(name)


# ------------------------------------------------------------------------------------ the queue

ENTRYPOINT = "onlooker"

# How long after the last report of any worker sessions are still announced.
_LOST = "1 day"

_ANNOUNCE = """
CREATE OR REPLACE FUNCTION announce(sid bytea, owner text, key text, fence bigint, due_at bigint)
RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $function$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM workers WHERE seen_at > now() - interval '{lost}') THEN
        RETURN;
    END IF;
    EXECUTE $enqueue$ {enqueue} $enqueue$ USING
        ARRAY[0],
        ARRAY['{entrypoint}'],
        ARRAY[convert_to(json_build_array(owner, key)::text, 'UTF8')],
        ARRAY[LEAST(
            GREATEST(to_timestamp(due_at / 1000000.0) - clock_timestamp(), interval '0'), interval '1 hour'
        )],
        ARRAY[encode(sid, 'hex') || ':' || fence],
        ARRAY[NULL]::jsonb[];
EXCEPTION WHEN OTHERS THEN
    -- An append must not fail because of the queue: the sweep finds what is due.
    RAISE WARNING 'session not announced to workers: %', SQLERRM;
END $function$;

CREATE OR REPLACE FUNCTION announce_due() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $function$
BEGIN
    -- The state at the end of the transaction: one that was due only in the middle of it is not announced.
    PERFORM announce(s.sid, s.owner, s.key, s.fence, s.due_at) FROM sessions AS s
    WHERE s.sid = NEW.sid AND s.due_at IS NOT NULL AND s.lease_holder IS NULL;
    RETURN NULL;
END $function$;
"""

# The holder of a session's lease sees what is appended meanwhile. It is announced when the lease is released.
_TRIGGER = """
CREATE CONSTRAINT TRIGGER sessions_due AFTER UPDATE OF due_at, lease_holder ON sessions
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.due_at IS NOT NULL AND NEW.lease_holder IS NULL
    AND (OLD.due_at IS DISTINCT FROM NEW.due_at OR OLD.lease_holder IS NOT NULL))
EXECUTE FUNCTION announce_due()
"""


def queue_settings(schema: str) -> DBSettings:
    """All of PgQueuer's names: it would take missing ones from the environment."""
    return DBSettings(
        prefix="",
        db_schema=schema,
        channel=Channel(f"onlooker_{schema}"),
        function="fn_pgqueuer_changed",
        statistics_table="pgqueuer_statistics",
        queue_status_type="pgqueuer_status",
        queue_table="pgqueuer",
        queue_table_log="pgqueuer_log",
        trigger="tg_pgqueuer_changed",
        schedules_table="pgqueuer_schedules",
        durability=Durability.durable,
    )


def queries(driver: PsycopgDriver, settings: DBSettings) -> Queries:
    """PgQueuer's queries with these names."""
    found = Queries(driver)
    found.qbe = QueryBuilderEnvironment(settings)
    found.qbq = QueryQueueBuilder(settings)
    found.qbs = QuerySchedulerBuilder(settings)
    return found


@asynccontextmanager
async def connected(address: Address) -> AsyncGenerator[AsyncConnection[Any]]:
    """A connection for the queue only."""
    connection = await AsyncConnection.connect(**address.conninfo, autocommit=True)
    try:
        await connection.execute(settings_of(address.schema))
        yield connection
    finally:
        await connection.close()


async def install(connection: AsyncConnection[Any], address: Address, lock: int) -> None:
    """Install or upgrade the queue. Any number of workers may start at once."""
    settings = queue_settings(address.schema)
    queue = queries(PsycopgDriver(connection), settings)
    await connection.execute("SELECT pg_advisory_lock(%s)", (lock,))
    try:
        if await queue.schema_is_installed():
            await queue.upgrade()
        else:
            await queue.install(create_schema=False)
        enqueue = QueryQueueBuilder(settings).build_enqueue_query("skip")
        script = _ANNOUNCE.format(lost=_LOST, enqueue=enqueue, entrypoint=ENTRYPOINT)
        await connection.execute(script.encode())
        found = await connection.execute(
            "SELECT 1 FROM pg_trigger WHERE tgname = 'sessions_due' AND tgrelid = 'sessions'::regclass"
        )
        if await found.fetchone() is None:
            await connection.execute(_TRIGGER.encode())
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", (lock,))


def session_of(payload: bytes | None) -> SessionId:
    """The session that a job names."""
    owner, key = json.loads(payload or b"")
    return SessionId(unpack(owner), unpack(key))


class ListeningDriver(PsycopgDriver):
    """PgQueuer's driver for psycopg, with a second connection to listen on.

    psycopg blocks a connection while it listens. On a single connection every statement would wait until a
    second without notifications is over: jobs would start and end late, and stopping would take seconds.
    """

    def __init__(self, statements: AsyncConnection[Any], listening: AsyncConnection[Any]) -> None:
        super().__init__(statements)
        self._listener = PsycopgDriver(listening)
        self._is_listening = asyncio.Event()

    async def notify(self, channel: str, payload: str) -> None:
        # PgQueuer first notifies itself, to check that it is listening. On the other connection that may
        # overtake the request to listen, and would be lost.
        await self._is_listening.wait()
        await super().notify(channel, payload)

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        await self._listener.add_listener(channel, callback)
        self._is_listening.set()

    async def remove_listener(self, channel: str, callback: NotifyCallback) -> None:
        await self._listener.remove_listener(channel, callback)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._listener.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        listening = tuple(self._listener.tm.tasks)
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        await self._listener.__aexit__(*error)
        await super().__aexit__(*error)
