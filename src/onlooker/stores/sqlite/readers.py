"""Reading: each job in one snapshot, in a thread with its own connection, or at once if it is quick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from onlooker.domain.errors import ClosedError, StoreError
from onlooker.stores.sql.database import Job
from onlooker.stores.sqlite.connection import SqliteDatabase, errors, open_connection, store_error
from onlooker.stores.sqlite.key import Key
from onlooker.stores.sqlite.writer import Waiting, deliver

T = TypeVar("T")

THREADS = 4
# The number of jobs known to be quick; the oldest are dropped.
KNOWN = 4096


class Readers:
    """Runs jobs that only read, concurrently with the writer and each other.

    They are queued like the writer's, which takes half the time of an executor of the standard library. That
    is still longer than a quick job takes, since two threads have to wake up. A job that was quick the last
    time therefore runs in the caller's thread; what it reads is in memory then.
    """

    def __init__(self, path: Path, key: Key | None = None) -> None:
        self._path = path
        self._key = key
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._jobs = 0  # waiting or running
        self._quick: dict[Hashable, None] = {}
        self._at_once: SqliteDatabase | None = None  # used by the holder of the lock below
        self._at_once_lock = Lock()
        self._closing = False
        self._lock = Lock()

    async def run(self, job: Job[T]) -> T:
        """The result of the job."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(job, loop.create_future(), loop)
        with self._lock:
            if self._closing:
                raise ClosedError("the store was closed")
            self._jobs += 1
            if len(self._threads) < min(self._jobs, THREADS):
                self._start()
            self._queue.put(waiting)
        return await waiting.future

    async def run_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        """The same for a job that is run often under that name. Its result shows whether it is quick."""
        if name in self._quick:
            found = self._now(job)
            if found is not None:
                self._learn(name, quick=is_quick(found[0]))
                return found[0]
        result = await self.run(job)
        self._learn(name, quick=is_quick(result))
        return result

    def _learn(self, name: Hashable, *, quick: bool) -> None:
        with self._lock:
            self._quick.pop(name, None)
            if quick:
                self._quick[name] = None
                if len(self._quick) > KNOWN:
                    del self._quick[next(iter(self._quick))]

    def _now(self, job: Job[T]) -> tuple[T] | None:
        """The result of the job; None if it would have to wait, or fails: then a thread runs it."""
        if not self._at_once_lock.acquire(blocking=False):
            return None
        try:
            if self._at_once is None:
                return None
            return (self._read(self._at_once, job),)
        except StoreError:
            return None
        finally:
            self._at_once_lock.release()

    def close(self) -> None:
        """Complete the queued jobs, then close the connections. Blocks; call it in a thread."""
        with self._lock:
            self._closing = True
            threads, self._threads = self._threads, []
            for _ in threads:
                self._queue.put(None)
        with self._at_once_lock:
            if self._at_once:
                self._at_once.connection.close()
                self._at_once = None
        for thread in threads:
            thread.join()

    def _start(self) -> None:
        # A daemon, so that a host that does not close the store can exit.
        thread = Thread(target=self._run, name=f"onlooker-reader-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    # -- in a thread

    def _run(self) -> None:
        db: SqliteDatabase | None = None
        while (waiting := self._queue.get()) is not None:
            try:
                db = db or self._connect()
                self._connect_at_once()
                waiting.result = self._read(db, waiting.job)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller, not to this thread
                waiting.error = error
            with self._lock:
                self._jobs -= 1
            deliver([waiting])
            # Otherwise the last result, and its event loop, would live until the next job.
            del waiting
        if db:
            db.connection.close()

    def _connect_at_once(self) -> None:
        """Opened in a thread, since opening an encrypted file takes a while."""
        if self._at_once is not None or self._closing:
            return
        try:
            db = self._connect(patient=False)
        except StoreError:
            return  # perhaps too many files are open; threads read as well
        with self._at_once_lock:
            if self._at_once is None and not self._closing:
                self._at_once = db
                return
        db.connection.close()

    def _connect(self, *, patient: bool = True) -> SqliteDatabase:
        try:
            connection = open_connection(self._path, self._key, read_only=True)
            if not patient:
                connection.execute("PRAGMA busy_timeout = 0")
            return SqliteDatabase(connection)
        except errors() as error:
            raise store_error(error, self._path) from error

    def _read(self, db: SqliteDatabase, job: Job[Any]) -> Any:
        connection = db.connection
        try:
            connection.execute("BEGIN")
            try:
                return job(db)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except errors() as error:
            raise store_error(error, self._path) from error
