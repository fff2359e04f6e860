"""The methods of a `Store` for every database, one transaction each, and how a transaction runs.

A method is made of a function that does the work with a `Database`. Those are in sessions.py, notes.py,
items.py, …; what they promise, in `ports.Store`. Everything about files and servers is in the package of the
database.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import wraps
from queue import Empty, SimpleQueue
from threading import Lock
from types import CoroutineType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

from onlooker.domain.errors import ClosedError
from onlooker.domain.history import EVERYTHING, Row, Scope
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import State
from onlooker.domain.search import Match, VectorQuery
from onlooker.stores.sql import corrections, indexes, inspection, realignment, retention, transfer
from onlooker.stores.sql import items as of_items
from onlooker.stores.sql import notes as of_notes
from onlooker.stores.sql import sessions as of_sessions
from onlooker.stores.sql.database import Database, Job
from onlooker.stores.sql.transfer import OnConflict, Snapshot

P = ParamSpec("P")
T = TypeVar("T")

Method = Callable[Concatenate["Transactions", P], "CoroutineType[Any, Any, T]"]


def reads(work: Callable[Concatenate[Database, P], T]) -> Method[P, T]:
    """A method that only reads, in one snapshot."""

    @wraps(work)
    async def method(store: Transactions, *args: P.args, **options: P.kwargs) -> T:
        return await store.read(lambda db: work(db, *args, **options))

    return method


def writes(work: Callable[Concatenate[Database, P], T]) -> Method[P, T]:
    """A method that returns its result once it is durable."""

    @wraps(work)
    async def method(store: Transactions, *args: P.args, **options: P.kwargs) -> T:
        return await store.write(lambda db: work(db, *args, **options))

    return method


def repeatable(work: Callable[Concatenate[Database, P], T]) -> Method[P, T]:
    """A method whose change may be lost if the machine loses power: it is then made again, or was soon over.

    The next one that is durable makes it durable, too.
    """

    @wraps(work)
    async def method(store: Transactions, *args: P.args, **options: P.kwargs) -> T:
        return await store.write(lambda db: work(db, *args, **options), synced=False)

    return method


def deletes(work: Callable[Concatenate[Database, P], T]) -> Method[P, T]:
    """The same for one that deletes messages or notes, which must not stay in the cache."""

    @wraps(work)
    async def method(store: Transactions, *args: P.args, **options: P.kwargs) -> T:
        try:
            return await store.write(lambda db: work(db, *args, **options))
        finally:
            Transactions.clear_cache()

    return method


# How many sessions are cached as they were last loaded, and how large one of them, and all, may be. From one
# turn to the next a message or two are added, and loading the others again would take longer than the turn.
MAX_LOADED = 50
MAX_LOADED_SIZE, MAX_LOADED_SIZES = 2_000_000, 14_000_000


class Transactions(ABC):
    """A `Store` without `append`, `erase` and `back_up`, which each database implements."""

    # By store and session, for all stores: one store may have cached what another one deletes.
    _loaded: ClassVar[OrderedDict[tuple[object, SessionId], of_sessions.Loaded]] = OrderedDict()

    @staticmethod
    def clear_cache() -> None:
        """Clear cached messages and notes: some of them were deleted."""
        Transactions._loaded = OrderedDict()

    def __init__(self) -> None:
        self._name = object()  # stands for the store in the cache, without keeping it alive

    # -- messages

    realign = writes(realignment.realign)
    digests = reads(of_sessions.digests)
    retired = reads(of_sessions.retired)
    messages = reads(of_sessions.messages)
    around = reads(of_sessions.around)
    sources = reads(of_notes.sources)
    compact = deletes(retention.compact)
    retain = deletes(retention.retain)

    # -- notes

    async def load(
        self, session: SessionId, *, newest: int | None = None, oldest: int | None = None
    ) -> State | None:
        # If something is deleted meanwhile, there is another cache afterwards.
        cache, key = Transactions._loaded, (self._name, session)
        loaded = None
        if (known := cache.get(key)) is not None:
            loaded = await self._read_again(
                ("grown", session), lambda db: of_sessions.load_grown(db, session, known), lambda _: True
            )
        if loaded is None:
            loaded = await self._read_again(
                session, lambda db: of_sessions.load(db, session, newest=newest, oldest=oldest), _is_quick
            )
        if loaded is None:
            return None
        most = newest if oldest is None else oldest
        is_whole = most is None or len(loaded.state.messages) < most
        if is_whole and loaded.size <= MAX_LOADED_SIZE:
            cache[key] = loaded
            cache.move_to_end(key)
            while len(cache) > MAX_LOADED or sum([c.size for c in cache.values()]) > MAX_LOADED_SIZES:
                cache.popitem(last=False)
        return loaded.state.part(newest=newest, oldest=oldest)

    commit = writes(of_sessions.commit)
    notes = reads(of_notes.read)
    notes_at = reads(of_notes.notes_at)
    note_history = reads(of_notes.note_history)
    changes = reads(of_sessions.changes)
    delete_notes = deletes(of_notes.delete)
    extractions = reads(of_notes.extractions)
    pin = writes(of_notes.pin)
    set_budget = writes(of_sessions.set_budget)
    prune = deletes(of_notes.prune)

    # -- items

    items = reads(of_items.read)
    change_items = writes(of_items.change)
    archive_items = writes(of_items.archive)
    delete_items = writes(of_items.delete)
    pin_item = writes(of_items.pin)
    show_items = writes(of_items.show)

    # -- corrections

    edit = writes(corrections.edit)
    undo = writes(corrections.undo)
    forget = deletes(corrections.forget)
    forget_owner = deletes(corrections.forget_owner)
    delete_session = deletes(corrections.delete_session)

    # -- search

    search = reads(indexes.search)
    search_around = reads(indexes.search_around)
    unindexed_anywhere = reads(indexes.unindexed_anywhere)
    index = repeatable(indexes.index)
    without_vectors = reads(indexes.without_vectors)
    add_vectors = writes(indexes.add_vectors)
    coverage = reads(indexes.coverage)
    unlinked = reads(indexes.unlinked)
    link = repeatable(indexes.link)
    edges = reads(indexes.edges)
    notes_by_id = reads(indexes.notes_by_id)

    async def unindexed(
        self, owner: str, *, session: SessionId | None = None, limit: int = 100
    ) -> Sequence[SessionId]:
        # Every turn asks, and there is hardly ever anything to do.
        return await self._read_again(
            ("unindexed", owner, session),
            lambda db: indexes.unindexed(db, owner, session=session, limit=limit),
            lambda found: len(found) <= QUICK_UNINDEXED,
        )

    async def nearest(self, query: VectorQuery) -> Sequence[tuple[Match, float]]:
        return await self.read(lambda db: indexes.nearest(db, query, self._likely))

    # -- background work

    lease = repeatable(of_sessions.lease)
    release = repeatable(of_sessions.release)
    due = reads(of_sessions.due)
    idle = reads(of_sessions.idle)
    open_sessions = reads(of_sessions.open_sessions)
    record_usage = writes(of_sessions.record_usage)
    usage = reads(of_sessions.usage)
    usage_by_day = reads(of_sessions.usage_by_day)
    spent = reads(of_sessions.spent)

    # -- the whole store

    sessions = reads(inspection.sessions)
    owners = reads(inspection.owners)
    get_value = reads(of_sessions.get_value)
    set_value = writes(of_sessions.set_value)
    swap_value = writes(of_sessions.swap_value)

    async def dump(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        # On a separate connection: the caller may take any time, or give up at any time.
        snapshot = self._snapshot()
        try:
            if await snapshot.open():
                async for row in snapshot.rows(scope):
                    yield row
        finally:
            await snapshot.close()

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, update: bool = False
    ) -> dict[str, int]:
        try:
            return await transfer.restore(self._write_once, rows, OnConflict(replace, update))
        finally:
            Transactions.clear_cache()

    # -- how each database runs them

    async def open(self) -> None:
        await asyncio.to_thread(self._open)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    @abstractmethod
    def _open(self) -> None:
        """Open the store. Runs in a thread; does nothing if it is open already."""

    @abstractmethod
    def _close(self) -> None:
        """Close the store. Runs in a thread; does nothing if it is closed already."""

    @abstractmethod
    async def write(self, job: Job[T], *, synced: bool = True) -> T:
        """Run a transaction and return its result once it is durable.

        Unless `synced`, a store may return it once it is committed.
        """

    @abstractmethod
    async def _write_once(self, job: Job[T]) -> T:
        """Run a transaction that may take long and cannot be run again."""

    @abstractmethod
    async def read(self, job: Job[T]) -> T:
        """Run a transaction that only reads, in one snapshot."""

    @abstractmethod
    async def _read_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        """The same for a job that is run often under that name, and may be quick."""

    @abstractmethod
    def _snapshot(self) -> Snapshot:
        """A snapshot on a separate connection."""

    @abstractmethod
    def _likely(self, db: Database, wanted: dict[str, Any]) -> list[int]:
        """The texts whose vectors are worth comparing in full; see `indexes.Choice`."""


# The largest state that an event loop reads itself, which takes about two milliseconds: rows, and characters
# in them. At a budget of 16,000 tokens, short messages fill two thirds of it.
QUICK_ROWS = 600
QUICK_TEXT = 100_000
# The same for sessions that are not indexed yet.
QUICK_UNINDEXED = 20


def _is_quick(loaded: of_sessions.Loaded | None) -> bool:
    if loaded is None:
        return True
    return loaded.rows <= QUICK_ROWS and loaded.characters <= QUICK_TEXT


# ------------------------------------------------------------------------------------ to a thread and back

W = TypeVar("W")


@dataclass(slots=True)
class QueuedWork(Generic[W]):
    """Work for a thread, and the future of its caller."""

    work: W
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    give_up_at: float  # by the monotonic clock, if it has to wait for a lock
    synced: bool = True  # whether its caller waits until it is on disk
    result: Any = None
    error: Exception | None = None


class Inbox(Generic[W]):
    """Work on its way from event loops to threads, in order."""

    def __init__(self, added: Callable[[], None] | None = None) -> None:
        """`added` is called before work is queued."""
        self._added = added
        self._closed = False
        self._lock = Lock()  # nothing is queued after the end
        self._queue: SimpleQueue[QueuedWork[W] | None] = SimpleQueue()  # None is the end

    async def do(self, work: W, give_up_at: float = math.inf, *, synced: bool = True) -> Any:
        """Do the work and return its result. Cancelling the call does not stop it."""
        loop = asyncio.get_running_loop()
        queued = QueuedWork(work, loop.create_future(), loop, give_up_at, synced)
        self.put(queued)
        return await queued.future

    def put(self, queued: QueuedWork[W]) -> None:
        with self._lock:
            if self._closed:
                raise ClosedError("the store was closed")
            if self._added:
                self._added()
            self._queue.put(queued)

    def get(self, *, wait: bool = True) -> QueuedWork[W] | None:
        """The next work; None if there is none, which after waiting means that the inbox was closed."""
        try:
            queued = self._queue.get(wait)
        except Empty:
            return None
        if queued is None:
            self._queue.put(None)  # the end stays, for other threads and the next call
        return queued

    def close(self) -> None:
        """Refuse more work. Threads complete what is queued."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)


def deliver(done: Sequence[QueuedWork[Any]]) -> None:
    """Give the callers their results, with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[QueuedWork[Any]]] = {}
    for queued in done:
        by_loop.setdefault(queued.loop, []).append(queued)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, group)
        except RuntimeError:
            continue  # the loop was closed: nobody is waiting


def _resolve(group: Sequence[QueuedWork[Any]]) -> None:
    for queued in group:
        if queued.future.done():  # cancelled
            continue
        if queued.error is not None:
            queued.future.set_exception(queued.error)
        else:
            queued.future.set_result(queued.result)
