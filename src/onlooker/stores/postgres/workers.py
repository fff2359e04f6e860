"""Workers on any number of machines, by way of PgQueuer."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import psycopg
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.models import Job

from onlooker.domain.errors import OnlookerError, StoreError
from onlooker.domain.messages import SessionId
from onlooker.ports import Clock
from onlooker.stores.postgres import queueing
from onlooker.stores.postgres.database import Database
from onlooker.stores.postgres.listening import AskAndListen
from onlooker.stores.postgres.opening import lock_number, store_error
from onlooker.stores.postgres.store import PostgresStore
from onlooker.stores.sqlite.rows import instant

log = logging.getLogger("onlooker")

# How often a worker says that it is there, and how long it waits after it lost the server.
SEEN_SECONDS = 5.0
LOST_SECONDS = (0.5, 10.0)
# Sessions that one look at what is due puts into the queue.
MOST_AT_ONCE = 1_000
# Looks at what is due between two tidyings of the queue's log.
TIDY_EVERY = 500


@dataclass(slots=True)
class Work:
    """What this worker is doing and has done."""

    running: int = 0
    done: int = 0
    failed: int = 0


class QueueWorkers:
    """`Workers`: takes jobs from the queue and runs `advance` for their sessions.

    The queue only says which session; what is to be done is decided as everywhere else. It tries nothing
    again: a session that failed has a due time, and comes back with that.
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
        # How long a worker's heart may not have beaten before another does its job.
        self._heartbeat = heartbeat
        self._manager: QueueManager | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    @property
    def here(self) -> bool:
        return True

    @property
    def pending(self) -> int:
        return self.work.running

    async def start(self) -> None:
        """Make the queue ready, and begin.

        Raises:
            StoreError: The server cannot be reached, or the queue cannot be made.
        """
        self._stopping.clear()
        await self._seen()
        address = self._store.address
        try:
            async with queueing.connected(address) as connection:
                await queueing.install(connection, address, lock_number("queue", address.schema))
        except psycopg.Error as error:
            raise store_error(error, address.shown) from error
        await self.tick()
        self._tasks = [
            asyncio.create_task(self._take(), name="onlooker queue"),
            asyncio.create_task(self._sweep(), name="onlooker sweep"),
            asyncio.create_task(self._say_so(), name="onlooker worker"),
        ]

    def wake(self, session: SessionId) -> None:
        """Nothing: the transaction that made it due has put it into the queue."""

    async def tick(self) -> int:
        """Put whatever is due, and nobody works on, into the queue."""
        values = (instant(self._clock.now()), MOST_AT_ONCE)
        return await self._store.run(lambda db: db.named("announce_all", values).rowcount)

    async def flush(self) -> None:
        """Wait until nothing is due that was due when this began, and nothing runs here."""
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
            await self._store.run(lambda db: db.named("worker_gone", (self.id,)))
        return not late

    # -- jobs

    async def _take(self) -> None:
        """Take jobs until stopped; a server that goes away is waited for."""
        shortest, longest = LOST_SECONDS
        pause = shortest
        while not self._stopping.is_set():
            try:
                address = self._store.address
                async with queueing.connected(address) as asking, queueing.connected(address) as listening:
                    pause = shortest
                    await self._run(AskAndListen(asking, listening))
            except Exception as error:  # noqa: BLE001 - a worker that takes no jobs must not look like one
                # A connection lost, tables that are not there (yet), news that no longer comes: PgQueuer has
                # errors of its own for each.
                why = str(error) or type(error).__name__
                log.warning("the queue is out of reach, tried again in %.1f s: %s", pause, why)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause)
                pause = min(pause * 2, longest)

    async def _run(self, driver: AskAndListen) -> None:
        settings = queueing.queue_settings(self._store.address.schema)
        manager = QueueManager(queueing.queries(driver, settings), channel=settings.channel)
        manager.entrypoint(queueing.ENTRYPOINT)(self._do)
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
        session = queueing.session_of(job.payload)
        async with self._slots:
            self.work.running += 1
            try:
                await self._advance(session)
                self.work.done += 1
            except OnlookerError as error:
                # It stays due, and the sweep comes back to it.
                self.work.failed += 1
                log.warning("%s: notes not taken now: %s", session.key, error)
            except Exception:
                self.work.failed += 1
                log.exception("%s: notes not taken: this is a bug in Onlooker", session.key)
            finally:
                self.work.running -= 1

    # -- now and then

    async def _sweep(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(self._sweep_seconds)
            looks += 1
            try:
                await self.tick()
                if looks % TIDY_EVERY == 0:
                    await self._store.run(_tidy)
            except OnlookerError as error:
                log.warning("looking for sessions that are due: %s", error)
            except Exception:
                log.exception("looking for sessions that are due: this is a bug in Onlooker")

    async def _say_so(self) -> None:
        while True:
            await asyncio.sleep(SEEN_SECONDS)
            with suppress(StoreError):  # the sweep says why
                await self._seen()

    async def _seen(self) -> None:
        work = self.work
        row = (self.id, socket.gethostname(), os.getpid(), self._concurrency)
        values = (*row, work.running, work.done, work.failed)
        await self._store.run(lambda db: db.named("worker_seen", values))


def _tidy(db: Database) -> None:
    db.named("tidy_workers")
    db.named("tidy_queue")
    db.named("tidy_statistics")
