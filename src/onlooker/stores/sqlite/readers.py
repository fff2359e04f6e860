"""Threads that read: each with a connection of its own, each job in one snapshot."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from onlooker.domain.errors import ClosedError
from onlooker.stores.sqlite.driver import errors
from onlooker.stores.sqlite.key import Key
from onlooker.stores.sqlite.opening import connect, store_error
from onlooker.stores.sqlite.writer import Job, Waiting, deliver

T = TypeVar("T")

THREADS = 4


class Readers:
    """Runs jobs that only read, beside the writer and beside each other.

    They are handed over as the writer's are, which takes half the time that an executor of the standard
    library needs: a context waits for it.
    """

    def __init__(self, path: Path, key: Key | None = None) -> None:
        self._path = path
        self._key = key
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._jobs = 0  # waiting or running
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

    def close(self) -> None:
        """Finish what was begun, then let go of the connections. Blocks; call it in a thread."""
        with self._lock:
            self._closing = True
            threads, self._threads = self._threads, []
            for _ in threads:
                self._queue.put(None)
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

    def _connect(self) -> sqlite3.Connection:
        try:
            return connect(self._path, self._key, read_only=True)
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
