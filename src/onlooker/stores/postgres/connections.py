"""Threads that run transactions, each on a connection of the pool."""

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
from onlooker.stores.postgres.database import Database, Job, broken
from onlooker.stores.postgres.opening import Address, configure, store_error

T = TypeVar("T")

# How often a transaction is run again that lost to another's locks.
ATTEMPTS = 5

_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = b"BEGIN"
_NO_LIMITS = b"SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"


class Lost(Exception):
    """The connection turned out to be dead before anything was asked of it."""


class Again(Exception):
    """What a transaction read is no longer so; it must be run again."""


class Connections:
    """Runs jobs in transactions. psycopg's blocking side is used, in threads: its other side does not work
    on every event loop, and a store belongs to none."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._refused: psycopg.Error | None = None  # why the last connection could not be made
        self.pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            connection_class=self._telling(),
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
        """What the job returns; all of it of one moment."""
        return await self.run(lambda: self.transaction(job, writing=False))

    async def write(self, job: Job[T]) -> T:
        """What the job returns, once it is durable. A cancelled wait does not stop the job."""
        return await self.run(lambda: self.transaction(job, writing=True))

    async def write_once(self, job: Job[T]) -> T:
        """The same for a job that takes its time, and cannot be run a second time."""

        def patient(db: Database) -> T:
            db.connection.execute(_NO_LIMITS)
            return job(db.as_sqlite)

        return await self.run(lambda: self.attempt(patient, writing=True, again=False))

    async def run(self, call: Callable[[], T]) -> T:
        """Run something in a thread of ours."""
        if self._closing:
            raise ClosedError("the store was closed")
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, call)
        except RuntimeError:  # shut down between the question and the call
            raise ClosedError("the store was closed") from None
        return await future

    def close(self) -> None:
        """Finish what was begun, then let go of the connections. Blocks; call it in a thread."""
        self._closing = True
        self._threads.shutdown()
        self.pool.close()

    # -- in a thread

    def transaction(self, job: Job[T], *, writing: bool) -> T:
        """Run a job on the SQLite store's terms."""
        return self.attempt(lambda db: job(db.as_sqlite), writing=writing)

    def attempt(
        self, job: Callable[[Database], T], *, writing: bool, again: bool = True, begins: bool = False
    ) -> T:
        """Run a job, again where it lost to another's locks or found a connection that had died. One that
        `begins` and ends its transaction by itself saves two trips to the server."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return self._transaction(job, writing, begins)
            except Lost as error:
                with suppress(psycopg.Error):
                    self.pool.check()  # all that were open before a restart of the server are dead
                if not left:
                    raise self._error(error.__cause__) from error
            except (Again, errors.DeadlockDetected, errors.SerializationFailure) as error:
                if not left or not again:
                    raise self._error(error) from error
                time.sleep(random.uniform(0.005, 0.05))
            except psycopg.Error as error:
                raise self._error(error) from error
        raise AssertionError("the last attempt returns or raises")

    def _telling(self) -> type[psycopg.Connection[Any]]:
        """Connections that leave word why they could not be made: the pool makes them where nobody hears."""

        class Telling(psycopg.Connection[Any]):
            @classmethod
            def connect(cls, *args: Any, **kwargs: Any) -> Any:
                try:
                    made = super().connect(*args, **kwargs)
                except psycopg.Error as error:
                    self._refused = error
                    raise
                self._refused = None
                return made

        return Telling

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
        why = f"all {most} connections are in use" if used >= most else "the server does not answer"
        more = ", or allow more with pool=N in the address" if used >= most else ""
        return StoreError(
            f"{self.address.shown}: {why}; gave up after {self.address.wait:g} s, try again{more}"
        )

    def _transaction(self, job: Callable[[Database], T], writing: bool, begins: bool) -> T:
        try:
            connection = self.pool.getconn()
        except PoolClosed:
            raise ClosedError("the store was closed") from None
        try:
            if not begins:
                with lost_at_once(connection):
                    connection.execute(_WRITE if writing else _READ)
            try:
                result = job(Database(connection, writing=writing))
                if not begins:
                    connection.execute(b"COMMIT")
            except BaseException:
                if not broken(connection):
                    connection.rollback()
                raise
            return result
        finally:
            self.pool.putconn(connection)


@contextmanager
def lost_at_once(connection: psycopg.Connection[Any]) -> Generator[None]:
    """Tell a connection that dies in here, before anything is written, from one that dies later."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if broken(connection):
            raise Lost from error
        raise
