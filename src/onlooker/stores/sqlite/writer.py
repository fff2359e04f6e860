"""The one thread that writes. Whatever is waiting goes into one transaction, and one sync to disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from onlooker.domain.errors import ClosedError
from onlooker.stores.sqlite.driver import errors
from onlooker.stores.sqlite.opening import store_error

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

# How many pages of the log go into the file at once: 64 MB. Writers wait meanwhile, for less in all the more
# often a page was written before it goes. SQLite's own 1,000 are written within 300 appends.
CHECKPOINT_PAGES = 16_000


@dataclass(slots=True)
class Waiting:
    """A job and whoever waits for it."""

    job: Job[Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    result: Any = None
    error: Exception | None = None


class Writer:
    """Runs jobs on one connection in a thread of its own, in the order of their coming."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.commits = 0  # transactions committed: under load far fewer than jobs
        self._connection = connection
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        self._path = path
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._closing = False
        self._lock = Lock()  # between "is it closing?" and the queue: nothing comes after the end mark
        # A daemon: a host that forgets to close must still be able to exit.
        self._thread = Thread(target=self._run, name="onlooker-writer", daemon=True)
        self._thread.start()

    async def run(self, job: Job[T]) -> T:
        """What the job returns, once it is on disk. A cancelled wait does not stop the job."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(job, loop.create_future(), loop)
        with self._lock:
            if self._closing:
                raise ClosedError("the store was closed")
            self._queue.put(waiting)
        return await waiting.future

    def close(self) -> None:
        """Finish what was begun, then let go of the connection. Blocks; call it in a thread."""
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
            # Else the last results, and the loops they belong to, would live until the next job.
            del batch
        self._connection.close()

    def _take(self) -> tuple[list[Waiting], bool]:
        """Everything that waits, and whether there will be more."""
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
        """Run the jobs in as few transactions as it takes: one, unless SQLite itself gives up."""
        while batch:
            batch = self._transaction(batch)

    def _transaction(self, batch: Sequence[Waiting]) -> Sequence[Waiting]:
        """Run jobs in one transaction; return those that it did not come to."""
        done: list[Waiting] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for waiting in batch:
                self._attempt(waiting)
                done.append(waiting)
                # A full disk undoes the whole transaction, not only the statement that met it.
                if not self._connection.in_transaction:
                    _fail(done, waiting.error)
                    return batch[len(done) :]
            self._connection.execute("COMMIT")
            self.commits += 1
        except errors() as error:
            with suppress(*errors()):  # SQLite may have rolled back by itself
                self._connection.execute("ROLLBACK")
            _fail(batch, store_error(error, self._path))
        return ()

    def _attempt(self, waiting: Waiting) -> None:
        """Run one job so that, if it raises, it undoes itself and no other."""
        self._connection.execute("SAVEPOINT job")
        try:
            waiting.result = waiting.job(self._connection)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits, not to this thread
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
    """Hand the results over, with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}
    for waiting in batch:
        by_loop.setdefault(waiting.loop, []).append(waiting)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, group)
        except RuntimeError:
            continue  # that loop was closed: nobody waits any more


def _resolve(group: Sequence[Waiting]) -> None:
    for waiting in group:
        if waiting.future.done():  # cancelled meanwhile
            continue
        if waiting.error is not None:
            waiting.future.set_exception(waiting.error)
        else:
            waiting.future.set_result(waiting.result)
