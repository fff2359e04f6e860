"""Reading: each job in one snapshot, by a thread with a connection of its own, or at once if it is quick."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Hashable
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from onlooker.domain.errors import ClosedError, StoreError
from onlooker.stores.sqlite.driver import errors
from onlooker.stores.sqlite.key import Key
from onlooker.stores.sqlite.opening import connect, store_error
from onlooker.stores.sqlite.writer import Job, Waiting, deliver

T = TypeVar("T")

THREADS = 4
# How many jobs are known to be quick, the last ones.
KNOWN = 4096


class Readers:
    """Runs jobs that only read, beside the writer and beside each other.

    They are handed over as the writer's are, which takes half the time that an executor of the standard
    library needs, and still longer than a quick one takes: two threads have to wake up. So those that were
    quick the last time run where they are asked for, since what they read is in memory then.
    """

    def __init__(self, path: Path, key: Key | None = None) -> None:
        self._path = path
        self._key = key
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._jobs = 0  # waiting or running
        self._quick: dict[Hashable, None] = {}
        self._at_once: sqlite3.Connection | None = None  # of whoever has the lock beside it
        self._at_once_lock = Lock()
        self._closing = False
        self._lock = Lock()

    async def run(self, job: Job[T]) -> T:
        """What the job returns."""
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
        """The same for a job that comes again and again by that name. What it returns shows whether it is
        quick."""
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
        """What the job returns; None where it would have to wait, or fails: that is for a thread to see."""
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
        """Finish what was begun, then let go of the connections. Blocks; call it in a thread."""
        with self._lock:
            self._closing = True
            threads, self._threads = self._threads, []
            for _ in threads:
                self._queue.put(None)
        with self._at_once_lock:
            if self._at_once:
                self._at_once.close()
                self._at_once = None
        for thread in threads:
            thread.join()

    def _start(self) -> None:
        # A daemon: a host that forgets to close must still be able to exit.
        thread = Thread(target=self._run, name=f"onlooker-reader-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    # -- in a thread

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while (waiting := self._queue.get()) is not None:
            try:
                connection = connection or self._connect()
                self._connect_at_once()
                waiting.result = self._read(connection, waiting.job)
            except Exception as error:  # noqa: BLE001 - it belongs to whoever waits, not to this thread
                waiting.error = error
            with self._lock:
                self._jobs -= 1
            deliver([waiting])
            # Else the last result, and the loop it belongs to, would live until the next job.
            del waiting
        if connection:
            connection.close()

    def _connect_at_once(self) -> None:
        """Here, since to open an encrypted file takes a while."""
        if self._at_once is not None or self._closing:
            return
        try:
            connection = self._connect(patient=False)
        except StoreError:
            return  # no more files may be opened, perhaps: threads read as well
        with self._at_once_lock:
            if self._at_once is None and not self._closing:
                self._at_once = connection
                return
        connection.close()

    def _connect(self, *, patient: bool = True) -> sqlite3.Connection:
        try:
            connection = connect(self._path, self._key, read_only=True)
            if not patient:
                connection.execute("PRAGMA busy_timeout = 0")
            return connection
        except errors() as error:
            raise store_error(error, self._path) from error

    def _read(self, connection: sqlite3.Connection, job: Job[Any]) -> Any:
        try:
            connection.execute("BEGIN")
            try:
                return job(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except errors() as error:
            raise store_error(error, self._path) from error
