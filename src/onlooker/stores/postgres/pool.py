"""The pool: threads that run transactions, each on its own connection."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from onlooker.domain.errors import ClosedError, StoreError
from onlooker.stores.postgres.connection import Address, configure, store_error
from onlooker.stores.postgres.database import PostgresDatabase
from onlooker.stores.sql.database import Job

T = TypeVar("T")

# How often a transaction that fails because of other locks is tried.
ATTEMPTS = 5

_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = b"BEGIN"
_NO_LIMITS = b"SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"


class ConnectionLost(Exception):
    """The connection was dead before anything was sent."""


class RunAgain(Exception):
    """A transaction has read outdated data and must run again."""


class Pool:
    """Runs jobs in transactions. This uses psycopg's blocking connections in threads: the asynchronous ones
    do not work on every event loop, and a store is not bound to one."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._refused: psycopg.Error | None = None  # why the last attempt to connect failed
        self.pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            connection_class=self._connection_class(),
            kwargs=address.conninfo | {"autocommit": True},
            min_size=1,
            max_size=address.pool,
            timeout=address.wait,
            reconnect_timeout=address.wait,
            configure=lambda connection: configure(connection, address.schema),
            name="onlooker",
            open=True,
        )
        self._threads = ThreadPoolExecutor(address.pool * 2, thread_name_prefix="onlooker-postgres")
        self._closing = False

    async def read(self, job: Job[T]) -> T:
        """Run a transaction that only reads, in one snapshot."""
        return await self.run(lambda: self.attempt(job, writing=False))

    async def write(self, job: Job[T]) -> T:
        """Run a transaction; durable on return. Cancelling the call does not stop it."""
        return await self.run(lambda: self.attempt(job, writing=True))

    async def write_once(self, job: Job[T]) -> T:
        """The same for a job that may take long and cannot be run again."""

        def patient(db: PostgresDatabase) -> T:
            db.connection.execute(_NO_LIMITS)
            return job(db)

        return await self.run(lambda: self.attempt(patient, writing=True, again=False))

    async def run(self, call: Callable[[], T]) -> T:
        """Run something in a thread of the pool."""
        if self._closing:
            raise ClosedError("the store was closed")
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, call)
        except RuntimeError:  # shut down in between
            raise ClosedError("the store was closed") from None
        return await future

    def close(self) -> None:
        """Complete running jobs, then close the connections. Blocks; call it in a thread."""
        self._closing = True
        self._threads.shutdown()
        self.pool.close()

    # -- in a thread

    def attempt(
        self, job: Callable[[PostgresDatabase], T], *, writing: bool, again: bool = True, begins: bool = False
    ) -> T:
        """Run a job; run it again if it fails because of another's locks or a dead connection. A job that
        `begins` and ends its transaction itself saves two round trips."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return self._transaction(job, writing, begins)
            except ConnectionLost as error:
                with suppress(psycopg.Error):
                    self.pool.check()  # after a restart of the server all connections are dead
                if not left:
                    raise self._error(error.__cause__) from error
            except (RunAgain, errors.DeadlockDetected, errors.SerializationFailure) as error:
                if not left or not again:
                    raise self._error(error) from error
                time.sleep(random.uniform(0.005, 0.05))
            except psycopg.Error as error:
                raise self._error(error) from error
        raise AssertionError("the last attempt returns or raises")

    def _connection_class(self) -> type[psycopg.Connection[Any]]:
        """A class of connections that keep the error when connecting fails: the pool connects in its own
        threads."""

        class Reporting(psycopg.Connection[Any]):
            @classmethod
            def connect(cls, *args: Any, **kwargs: Any) -> Any:
                try:
                    made = super().connect(*args, **kwargs)
                except psycopg.Error as error:
                    self._refused = error
                    raise
                self._refused = None
                return made

        return Reporting

    def _error(self, error: BaseException | None) -> StoreError:
        if isinstance(error, PoolTimeout):
            return self._none_free()
        if isinstance(error, psycopg.Error):
            return store_error(error, self.address.shown)
        return StoreError(f"{self.address.shown}: {error}")

    def _none_free(self) -> StoreError:
        if self._refused is not None:
            return store_error(self._refused, self.address.shown)
        used, most = self.pool.get_stats().get("pool_size", 0), self.address.pool
        why = f"all {most} connections are in use" if used >= most else "the server does not respond"
        more = ", or allow more with pool=N in the address" if used >= most else ""
        return StoreError(
            f"{self.address.shown}: {why}; gave up after {self.address.wait:g} s, try again{more}"
        )

    def _transaction(self, job: Callable[[PostgresDatabase], T], writing: bool, begins: bool) -> T:
        try:
            connection = self.pool.getconn()
        except PoolClosed:
            raise ClosedError("the store was closed") from None
        try:
            if not begins:
                with lost_at_once(connection):
                    connection.execute(_WRITE if writing else _READ)
            try:
                result = job(PostgresDatabase(connection, writing=writing))
                if not begins:
                    connection.execute(b"COMMIT")
            except BaseException:
                if not is_broken(connection):
                    connection.rollback()
                raise
            return result
        finally:
            self.pool.putconn(connection)


@contextmanager
def lost_at_once(connection: psycopg.Connection[Any]) -> Generator[None]:
    """Raise `ConnectionLost` for a connection that turns out to be dead here, before anything is written."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if is_broken(connection):
            raise ConnectionLost from error
        raise


def is_broken(connection: psycopg.BaseConnection[Any]) -> bool:
    """Whether the connection to the server is lost."""
    return connection.closed or connection.broken
