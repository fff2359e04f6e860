"""Threads that read: each with a connection of its own, each job in one snapshot."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock, local
from typing import TypeVar

from onlooker.domain.errors import ClosedError
from onlooker.stores.sqlite.driver import errors
from onlooker.stores.sqlite.key import Key
from onlooker.stores.sqlite.opening import connect, store_error
from onlooker.stores.sqlite.writer import Job

T = TypeVar("T")

THREADS = 4


class Readers:
    """Runs jobs that only read, beside the writer and beside each other."""

    def __init__(self, path: Path, key: Key | None = None) -> None:
        self._path = path
        self._key = key
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onlooker-reader")
        self._own = local()
        self._opened: list[sqlite3.Connection] = []
        self._lock = Lock()
        self._closing = False

    async def run(self, job: Job[T]) -> T:
        """What the job returns."""
        if self._closing:
            raise ClosedError("the store was closed")
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, self._read, job)
        except RuntimeError:  # shut down between the question and the call
            raise ClosedError("the store was closed") from None
        return await future

    def close(self) -> None:
        """Finish what was begun, then let go of the connections. Blocks; call it in a thread."""
        self._closing = True
        self._threads.shutdown()
        with self._lock:
            while self._opened:
                self._opened.pop().close()

    def _read(self, job: Job[T]) -> T:
        try:
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                return job(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except errors() as error:
            raise store_error(error, self._path) from error

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = connect(self._path, self._key, read_only=True)
            with self._lock:
                self._opened.append(connection)
        return connection
