"""The SQLite store: one thread writes, a few read, and quick reads run in the caller's thread.

connection.py  which SQLite, opening, migrating, errors, snapshots
backup.py      the file as a whole: copy, restore, erase, inspect
encryption.py  encrypt, decrypt, change the key            key.py         the key of an encrypted file
queries/       statements that only SQLite has             migrations/    the schema
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeVar, cast
from weakref import finalize

from onlooker.domain.errors import ClosedError, SettingsError, StoreError
from onlooker.domain.messages import Message, SessionId, extend_history_hash
from onlooker.domain.notes import AppendResult, Progress
from onlooker.policy.plan import after_append
from onlooker.policy.search import vectors
from onlooker.ports import stop_waiting_at
from onlooker.stores.sql import indexes, sessions
from onlooker.stores.sql.database import LAST_SEQ, Database, Job, instant, message_values, progress_of, sid_of
from onlooker.stores.sql.transactions import Inbox, QueuedWork, Transactions, deliver
from onlooker.stores.sqlite import backup
from onlooker.stores.sqlite.connection import (
    IN_MEMORY,
    OpenFile,
    SqliteDatabase,
    SqliteSnapshot,
    code_of,
    connect,
    errors,
    is_in_memory,
    may_only_be_read,
    new_in_memory,
    open_connection,
    open_for_reading,
    open_for_writing,
    store_error,
)
from onlooker.stores.sqlite.key import Key

log = logging.getLogger("onlooker")

T = TypeVar("T")

_Queued = QueuedWork[Job[Any]]


class SqliteStore(Transactions):
    """`Store` in the file at `path`, which is created if missing, readable by its owner only, and encrypted
    if there is a key. ":memory:" is a new database without a file, which lives as long as this object.

    Any number of stores, in any number of processes, may have the same file open. With `or_read_only`, a file
    that this user may not write is opened too, and whatever writes fails.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, key: Key | None = None, or_read_only: bool = False
    ) -> None:
        super().__init__()
        in_memory = os.fspath(path) == IN_MEMORY
        if in_memory and key is not None:
            raise SettingsError("key", "…", "encrypts a file, and :memory: has none")
        # ReaderThreads connect later, and the host may change its working directory.
        self.path = new_in_memory() if in_memory else Path(path).absolute()
        self._key = key
        self._or_read_only = or_read_only
        self._anchor: sqlite3.Connection | None = None  # keeps a database in memory while the store is closed
        self._lock = Lock()  # held in threads only, while opening and closing
        self._threads: tuple[WriterThread, ReaderThreads] | None = None
        self._commits = 0

    @property
    def commits(self) -> int:
        """The number of committed transactions: under load far below the number of calls."""
        return self._commits + (self._threads[0].commits if self._threads else 0)

    def _open(self) -> None:
        with self._lock:
            if self._threads is None:
                connection = self._connect()
                if is_in_memory(self.path) and self._anchor is None:
                    self._anchor = connect(self.path, None, timeout=0)
                    finalize(self, self._anchor.close)
                self._threads = WriterThread(connection, self.path), ReaderThreads(self.path, self._key)

    def _connect(self) -> sqlite3.Connection:
        try:
            return open_for_writing(self.path, self._key)
        except StoreError:
            if not self._or_read_only or not may_only_be_read(self.path):
                raise
            return open_for_reading(self.path, self._key)

    def _close(self) -> None:
        with self._lock:
            if self._threads is None:
                return
            writer, readers = self._threads
            # The readers first: SQLite removes the log when the last connection, the writer's, is closed.
            readers.close()
            writer.close()
            self._commits += writer.commits
            self._threads = None

    def _opened(self) -> tuple[WriterThread, ReaderThreads]:
        if self._threads is None:
            raise ClosedError(f"the store {self.path} is not open")
        return self._threads

    async def write(self, job: Job[T], *, synced: bool = True) -> T:
        return await self._opened()[0].run(job, synced=synced)

    async def _write_once(self, job: Job[T]) -> T:
        return await self._opened()[0].run(job)

    async def read(self, job: Job[T]) -> T:
        return await self._opened()[1].run(job)

    async def _read_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        return await self._opened()[1].run_again(name, job, is_quick)

    def _snapshot(self) -> SqliteSnapshot:
        self._opened()
        return SqliteSnapshot(self.path, self._key)

    def _likely(self, db: Database, wanted: dict[str, Any]) -> list[int]:
        return likely(cast("SqliteDatabase", db), wanted)

    async def append(
        self,
        session: SessionId,
        messages: Sequence[Message],
        *,
        due_tokens: int,
        now: datetime,
        after: Progress | None = None,
    ) -> AppendResult:
        return await self.write(lambda db: _append(db, session, messages, due_tokens, now, after))

    async def erase(self) -> bool:
        self._opened()
        return await asyncio.to_thread(backup.erase, self.path, self._key)

    async def back_up(self, target: Path) -> None:
        self._opened()
        await asyncio.to_thread(backup.back_up, self.path, target, self._key)


def _append(
    db: Database,
    session: SessionId,
    messages: Sequence[Message],
    due_tokens: int,
    now: datetime,
    after: Progress | None,
) -> AppendResult:
    """Append messages. This runs most often, so it writes only what an append changes."""
    sid = sid_of(session)
    row = db.run("session_for_append", sid=sid).fetchone()
    if after is not None:
        sessions.check_realignment(progress_of(session, row[1:]) if row else Progress(session), after)
    if row is None:
        sessions.create(db, session, now)
        row = db.run("session_for_append", sid=sid).fetchone()
    base, *marks = row
    before = progress_of(session, marks)
    seq, history_hash = before.last_seq, before.history_hash
    if seq + len(messages) > LAST_SEQ:
        raise StoreError(f"session {session.key!r} is full with {seq:,} messages; start another")
    fresh: list[Message] = []
    for message in messages:
        placed = message.with_seq(seq + 1)
        digest = placed.digest
        if db.run("append_message", base=base, **message_values(sid, placed, digest)).rowcount:
            seq, history_hash = seq + 1, extend_history_hash(history_hash, digest)
            fresh.append(placed)
    progress = after_append(before, fresh, history_hash, due_tokens, now)
    db.run(
        "save_appended",
        base=base,
        last_seq=seq,
        unnoted_tokens=progress.unnoted_tokens,
        history_hash=history_hash,
        due_at=None if progress.due_at is None else instant(progress.due_at),
        messages=len(fresh),
        message_tokens=progress.unnoted_tokens - before.unnoted_tokens,
        used_at=instant(now),
    )
    return AppendResult(progress, tuple(fresh))


# ------------------------------------------------------------------------------------ writing

# Pages of the log that are written to the file at once: 64 MB. Writers wait meanwhile. Fewer, larger
# checkpoints cost less in all, since a page that was written often is copied once. SQLite's default of 1,000
# is 300 appends.
CHECKPOINT_PAGES = 16_000
# How long a write waits for another program's lock, and how long one attempt at it lasts: in between, calls
# that have waited long enough are answered.
WRITE_SECONDS = 10.0
ATTEMPT_SECONDS = 0.1


class WriterThread:
    """Runs jobs on one connection in its own thread, in the order in which they come."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.commits = 0  # committed transactions: under load far fewer than jobs
        self._synced = True
        self._connection = connection
        self._db = SqliteDatabase(connection)
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        if not is_in_memory(path):  # there the only other locks are our own readers'
            connection.execute(f"PRAGMA busy_timeout = {ATTEMPT_SECONDS * 1000:.0f}")
        self._path = path
        self._file = OpenFile(path)
        self._inbox: Inbox[Job[Any]] = Inbox()
        # A daemon, so that a host that does not close the store can exit.
        self._thread = Thread(target=self._run, name="onlooker-writer", daemon=True)
        self._thread.start()

    async def run(self, job: Job[T], *, synced: bool = True) -> T:
        """The result of the job, once it is on disk; unless `synced`, once other connections see it."""
        return await self._inbox.do(job, stop_waiting_at(WRITE_SECONDS), synced=synced)

    def close(self) -> None:
        """Complete the queued jobs, then close the connection. Blocks; call it in a thread."""
        self._inbox.close()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._take(wait=True):
            while batch:
                done, batch = self._transaction(batch)
                deliver(done)
                # Otherwise the last results, and their event loops, would live until the next job.
                del done
        self._connection.close()

    def _take(self, *, wait: bool) -> list[_Queued]:
        """All waiting jobs; after waiting for one, none means that the store is closed."""
        batch: list[_Queued] = []
        while (queued := self._inbox.get(wait=wait and not batch)) is not None:
            batch.append(queued)
        return batch

    def _transaction(self, batch: list[_Queued]) -> tuple[list[_Queued], list[_Queued]]:
        """Run jobs in one transaction. Returns those that are done or failed, and those that were not reached
        because SQLite itself rolled back."""
        done: list[_Queued] = []
        try:
            self._file.check()
            batch = self._begin(batch)
            for queued in batch:
                self._attempt(queued, alone=len(batch) == 1)
                done.append(queued)
                # A full disk rolls back the whole transaction, not only the statement.
                if not self._connection.in_transaction:
                    _fail(done, queued.error)
                    return done, batch[len(done) :]
            if batch:
                self._connection.execute("COMMIT")
                self.commits += 1
        except errors() as error:
            with suppress(*errors()):  # SQLite may have rolled back already
                self._connection.execute("ROLLBACK")
            _fail(batch, store_error(error, self._path))
        except StoreError as error:
            _fail(batch, error)
        return batch, []

    def _begin(self, batch: list[_Queued]) -> list[_Queued]:
        """Begin a transaction once no other program writes. Returns its jobs: with those that came meanwhile,
        and without those that have waited long enough, which fail with nothing written."""
        while batch:
            try:
                self._sync(any(queued.synced for queued in batch))
                self._connection.execute("BEGIN IMMEDIATE")
                break
            except errors() as error:
                if code_of(error) != sqlite3.SQLITE_BUSY:
                    raise
                batch = [*batch, *self._take(wait=False)]
                now = time.monotonic()
                late = [queued for queued in batch if queued.give_up_at <= now]
                _fail(late, store_error(error, self._path))
                deliver(late)
                batch = [queued for queued in batch if queued.give_up_at > now]
        return batch

    def _sync(self, synced: bool) -> None:
        """Have the next transaction wait for the disk, or leave that to the next one that does."""
        if synced != self._synced:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self._synced = synced

    def _attempt(self, queued: _Queued, *, alone: bool) -> None:
        """Run one job, in a savepoint if there are others, so that an error undoes this job and no other."""
        if not alone:
            self._connection.execute("SAVEPOINT job")
        try:
            queued.result = queued.work(self._db)
        except Exception as error:  # noqa: BLE001 - it belongs to the caller, not to this thread
            mapped = store_error(error, self._path) if isinstance(error, errors()) else error
            if mapped is not error:
                mapped.__cause__ = error
            queued.error = mapped
            if not self._connection.in_transaction:
                return
            self._connection.execute("ROLLBACK" if alone else "ROLLBACK TO job")
        if not alone:
            self._connection.execute("RELEASE job")


def _fail(batch: Sequence[_Queued], error: Exception | None) -> None:
    for queued in batch:
        queued.error = queued.error or error


# ------------------------------------------------------------------------------------ reading

THREADS = 4
# The number of jobs known to be quick; the oldest are dropped.
KNOWN = 4096


class ReaderThreads:
    """Runs jobs that only read, concurrently with the writer and each other.

    They are queued like the writer's, which takes half the time of an executor of the standard library. That
    is still longer than a quick job takes, since two threads have to wake up. A job that was quick the last
    time therefore runs in the caller's thread; what it reads is in memory then.
    """

    def __init__(self, path: Path, key: Key | None = None) -> None:
        self._path = path
        self._file = OpenFile(path)
        self._key = key
        self._inbox: Inbox[Job[Any]] = Inbox(self._one_more)
        self._threads: list[Thread] = []
        self._jobs = 0  # waiting or running
        self._quick: dict[Hashable, None] = {}
        self._at_once: SqliteDatabase | None = None  # used by the holder of the lock below
        self._at_once_lock = Lock()
        self._closing = False
        self._lock = Lock()

    async def run(self, job: Job[T]) -> T:
        """The result of the job."""
        return await self._inbox.do(job)

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
        self._inbox.close()
        self._closing = True
        with self._at_once_lock:
            if self._at_once:
                self._at_once.connection.close()
                self._at_once = None
        for thread in self._threads:
            thread.join()

    def _one_more(self) -> None:
        """Start another thread if the existing ones are busy."""
        with self._lock:
            self._jobs += 1
            busy = len(self._threads) < min(self._jobs, THREADS)
        if busy:
            # A daemon, so that a host that does not close the store can exit.
            thread = Thread(target=self._run, name=f"onlooker-reader-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    # -- in a thread

    def _run(self) -> None:
        db: SqliteDatabase | None = None
        while (queued := self._inbox.get()) is not None:
            try:
                db = db or self._connect_or_none()
                self._connect_at_once()
                queued.result = self._read(db, queued.work) if db else self._read_at_once(queued.work)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller, not to this thread
                queued.error = error
            with self._lock:
                self._jobs -= 1
            deliver([queued])
            # Otherwise the last result, and its event loop, would live until the next job.
            del queued
        if db:
            db.connection.close()

    def _connect_or_none(self) -> SqliteDatabase | None:
        """A connection; None if it cannot be opened but another thread reads: too many files are open, or
        this one is gone."""
        try:
            self._file.check()
            return self._connect()
        except StoreError:
            if self._at_once is None:
                raise
            return None

    def _read_at_once(self, job: Job[T]) -> T:
        with self._at_once_lock:
            if self._at_once is None:
                raise ClosedError(f"the store {self._path} was closed")
            return self._read(self._at_once, job)

    def _connect_at_once(self) -> None:
        """Connect in a thread, because opening an encrypted file takes a while."""
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


# ------------------------------------------------------------------------------------ vectors

# Vectors are in ordinary tables, not in virtual ones of an extension, so that a Python whose SQLite cannot
# load extensions opens the same file, deletes from it and searches it.

# Set when sqlite-vec was found but could not be loaded: then no connection can load it.
_unloadable = False


def likely(db: SqliteDatabase, wanted: dict[str, Any]) -> list[int]:
    """A `indexes.Choice`: by sqlite-vec where it can be loaded, else in Python."""
    if has_vector_extension(db.connection):
        return indexes.likely(db, wanted)
    rows = db.run("signs" if wanted["sid"] is None else "signs_in_session", **wanted)
    return vectors.likely(wanted["signs"], ((number, blob) for number, blob in rows), wanted["limit"])


def has_vector_extension(connection: sqlite3.Connection) -> bool:
    """Whether the connection has sqlite-vec, which is loaded if possible."""
    path = vector_extension()
    if path is None or _unloadable or not hasattr(connection, "enable_load_extension"):
        return False
    try:
        connection.execute("SELECT vec_version()")
    except errors():
        return _load(connection, path)
    return True


@cache
def vector_extension() -> str | None:
    """The path of sqlite-vec; None if it is not installed."""
    try:
        import sqlite_vec  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return None
    return str(sqlite_vec.loadable_path())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def loads_extensions() -> bool:
    """Whether this Python's SQLite can load extensions. SQLCipher's, for encrypted files, always can."""
    return hasattr(sqlite3.Connection, "enable_load_extension")


def _load(connection: sqlite3.Connection, path: str) -> bool:
    global _unloadable
    try:
        connection.enable_load_extension(True)
        try:
            connection.load_extension(path)
        finally:
            connection.enable_load_extension(False)
    except errors() as error:
        log.warning("sqlite-vec cannot be loaded and is not used: %s", error)
        _unloadable = True
        return False
    return True
