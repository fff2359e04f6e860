"""The one thread that writes. All waiting jobs go into one transaction, with one sync to disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from onlooker.domain.errors import ClosedError
from onlooker.stores.sql.database import Job
from onlooker.stores.sqlite.connection import SqliteDatabase, errors, store_error

T = TypeVar("T")

# Pages of the log that are written to the file at once: 64 MB. Writers wait meanwhile. Fewer, larger
# checkpoints cost less in all, since a page that was written often is copied once. SQLite's default of 1,000
# is 300 appends.
CHECKPOINT_PAGES = 16_000


@dataclass(slots=True)
class Waiting:
    """A job, and the future of its caller."""

    job: Job[Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    result: Any = None
    error: Exception | None = None


class Writer:
    """Runs jobs on one connection in its own thread, in the order in which they come."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.commits = 0  # committed transactions: under load far fewer than jobs
        self._connection = connection
        self._db = SqliteDatabase(connection)
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        self._path = path
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._closing = False
        self._lock = Lock()  # for _closing and the queue: nothing is queued after the end mark
        # A daemon, so that a host that does not close the store can exit.
        self._thread = Thread(target=self._run, name="onlooker-writer", daemon=True)
        self._thread.start()

    async def run(self, job: Job[T]) -> T:
        """The result of the job, once it is on disk. Cancelling the call does not stop the job."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(job, loop.create_future(), loop)
        with self._lock:
            if self._closing:
                raise ClosedError("the store was closed")
            self._queue.put(waiting)
        return await waiting.future

    def close(self) -> None:
        """Complete the queued jobs, then close the connection. Blocks; call it in a thread."""
        with self._lock:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        open_ = True
        while open_:
            batch, open_ = self._take()
            if batch:
                self._commit(batch)
                deliver(batch)
            # Otherwise the last results, and their event loops, would live until the next job.
            del batch
        self._connection.close()

    def _take(self) -> tuple[list[Waiting], bool]:
        """All waiting jobs, and whether more can follow."""
        batch: list[Waiting] = []
        waiting = self._queue.get()
        while waiting is not None:
            batch.append(waiting)
            try:
                waiting = self._queue.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _commit(self, batch: Sequence[Waiting]) -> None:
        """Run the jobs in one transaction, or more if SQLite itself rolls one back."""
        while batch:
            batch = self._transaction(batch)

    def _transaction(self, batch: Sequence[Waiting]) -> Sequence[Waiting]:
        """Run jobs in one transaction; return those that were not reached."""
        done: list[Waiting] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for waiting in batch:
                self._attempt(waiting)
                done.append(waiting)
                # A full disk rolls back the whole transaction, not only the statement.
                if not self._connection.in_transaction:
                    _fail(done, waiting.error)
                    return batch[len(done) :]
            self._connection.execute("COMMIT")
            self.commits += 1
        except errors() as error:
            with suppress(*errors()):  # SQLite may have rolled back already
                self._connection.execute("ROLLBACK")
            _fail(batch, store_error(error, self._path))
        return ()

    def _attempt(self, waiting: Waiting) -> None:
        """Run one job in a savepoint, so that an error undoes this job and no other."""
        self._connection.execute("SAVEPOINT job")
        try:
            waiting.result = waiting.job(self._db)
        except Exception as error:  # noqa: BLE001 - it belongs to the caller, not to this thread
            mapped = store_error(error, self._path) if isinstance(error, errors()) else error
            if mapped is not error:
                mapped.__cause__ = error
            waiting.error = mapped
            if not self._connection.in_transaction:
                return
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")


def _fail(batch: Sequence[Waiting], error: Exception | None) -> None:
    for waiting in batch:
        waiting.error = waiting.error or error


def deliver(batch: Sequence[Waiting]) -> None:
    """Deliver the results, with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}
    for waiting in batch:
        by_loop.setdefault(waiting.loop, []).append(waiting)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, group)
        except RuntimeError:
            continue  # the loop was closed: nobody waits any more


def _resolve(group: Sequence[Waiting]) -> None:
    for waiting in group:
        if waiting.future.done():  # cancelled
            continue
        if waiting.error is not None:
            waiting.future.set_exception(waiting.error)
        else:
            waiting.future.set_result(waiting.result)
