"""The methods of a `Store`, one transaction each, for every database.

What happens inside is in messages.py, notes.py, sessions.py, …; how a transaction is run, and everything
about files and servers, in the package of the database.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from onlooker.domain.history import EVERYTHING, Forgetting, Retention, RetentionResult, Row, Scope
from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import (
    Appended,
    Commit,
    Extraction,
    MessageDigest,
    Note,
    NoteKind,
    NoteStatus,
    Progress,
    Realignment,
    SessionSummary,
    State,
    Usage,
)
from onlooker.domain.search import (
    EDGE_KINDS,
    Document,
    Edge,
    EdgeKind,
    IndexCoverage,
    Match,
    Node,
    Query,
    SearchResult,
    VectorQuery,
)
from onlooker.stores.sql import corrections as of_corrections
from onlooker.stores.sql import graph as of_graph
from onlooker.stores.sql import items as of_items
from onlooker.stores.sql import messages as of_messages
from onlooker.stores.sql import notes as of_notes
from onlooker.stores.sql import realignment as of_realignment
from onlooker.stores.sql import search as of_search
from onlooker.stores.sql import sessions as of_sessions
from onlooker.stores.sql import transfer
from onlooker.stores.sql import vectors as of_vectors
from onlooker.stores.sql.database import Database, Job
from onlooker.stores.sql.rows import clear_cache
from onlooker.stores.sql.transfer import OnConflict, Snapshot

T = TypeVar("T")

# The largest state that an event loop reads itself, which takes about a millisecond: rows, and characters in
# them.
QUICK_ROWS = 200
QUICK_TEXT = 50_000


def _is_quick(state: State | None) -> bool:
    if state is None:
        return True
    texts = (*state.messages, *state.pinned, *state.notes)
    few = len(texts) + len(state.items or ()) <= QUICK_ROWS
    return few and sum(len(t.text) for t in texts) <= QUICK_TEXT


class Transactions(ABC):
    """A `Store` without `append`, `erase` and `back_up`, which each database has of its own."""

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
    async def _write(self, job: Job[T], *, session: SessionId | None = None, owner: str | None = None) -> T:
        """Run a transaction and return its result once it is durable.

        `session` and `owner` name what the job changes without reading it first: the session, or items of the
        owner. A database with several writers at a time has to lock it.
        """

    @abstractmethod
    async def _write_once(self, job: Job[T]) -> T:
        """Run a transaction that may take long and cannot be run again."""

    @abstractmethod
    async def _read(self, job: Job[T]) -> T:
        """Run a transaction that only reads, in one snapshot."""

    @abstractmethod
    async def _read_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        """The same for a job that is run often under that name, and may be quick."""

    @abstractmethod
    def _snapshot(self) -> Snapshot:
        """A snapshot on a connection of its own."""

    @abstractmethod
    def _likely(self, db: Database, wanted: dict[str, Any]) -> list[int]:
        """The texts whose vectors are worth comparing in full; see `vectors.Choice`."""

    async def _deleting(self, done: Awaitable[T]) -> T:
        """Clear the cache after a transaction that deletes messages."""
        try:
            return await done
        finally:
            clear_cache()

    # -- messages

    async def realign(
        self, session: SessionId, change: Realignment, *, due_tokens: int, now: datetime
    ) -> Appended:
        return await self._write(lambda db: of_realignment.realign(db, session, change, due_tokens, now))

    async def digests(self, session: SessionId, *, newest: int | None = None) -> Sequence[MessageDigest]:
        return await self._read(lambda db: of_messages.digests(db, session, newest))

    async def messages(
        self,
        session: SessionId,
        *,
        after: int = 0,
        up_to: int | None = None,
        limit: int | None = None,
        archived: bool = False,
    ) -> Sequence[Message]:
        return await self._read(lambda db: of_messages.read(db, session, after, up_to, limit, archived))

    async def sources(self, session: SessionId, note_id: str) -> Sequence[Message]:
        return await self._read(lambda db: of_notes.sources(db, session, note_id))

    async def compact(
        self,
        session: SessionId,
        *,
        up_to: int,
        summary: Message,
        archive: bool,
        now: datetime,
        revision: int | None = None,
    ) -> Progress:
        return await self._deleting(
            self._write(lambda db: of_messages.compact(db, session, up_to, summary, archive, now, revision))
        )

    # -- notes

    async def load(self, session: SessionId) -> State | None:
        return await self._read_again(session, lambda db: of_notes.load(db, session), _is_quick)

    async def commit(self, session: SessionId, change: Commit) -> Progress:
        return await self._write(lambda db: of_notes.commit(db, session, change))

    async def notes(
        self,
        session: SessionId,
        *,
        statuses: Sequence[NoteStatus] = ("active",),
        kind: NoteKind | None = None,
        recent: int | None = None,
    ) -> Sequence[Note]:
        return await self._read(lambda db: of_notes.read(db, session, statuses, kind, recent))

    async def delete_notes(self, session: SessionId, kind: NoteKind | None = None) -> int:
        return await self._write(lambda db: of_notes.delete(db, session, kind))

    async def extractions(self, session: SessionId, *, type: str | None = None) -> Sequence[Extraction]:
        return await self._read(lambda db: of_notes.extractions(db, session, type))

    async def delete_session(self, session: SessionId) -> bool:
        return await self._deleting(
            self._write(lambda db: of_sessions.delete(db, session), owner=session.owner)
        )

    async def pin(self, session: SessionId, target: str, *, on: bool) -> None:
        await self._write(lambda db: of_notes.pin(db, session, target, on), session=session)

    async def set_budget(self, session: SessionId, budget: int) -> None:
        await self._write(lambda db: of_sessions.set_budget(db, session, budget))

    # -- items

    async def items(
        self,
        owner: str,
        *,
        statuses: Sequence[ItemStatus] = ("live",),
        ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Sequence[Item]:
        return await self._read(lambda db: of_items.read(db, owner, statuses, ids, limit))

    async def change_items(self, change: ItemChange) -> None:
        await self._write(lambda db: of_items.change(db, change), owner=change.owner)

    async def archive_items(self, owner: str, ids: Sequence[str], *, now: datetime) -> Sequence[Item]:
        return await self._write(lambda db: of_items.archive(db, owner, ids, now), owner=owner)

    async def delete_items(self, owner: str, ids: Sequence[str] | None = None) -> int:
        return await self._write(lambda db: of_items.delete(db, owner, ids), owner=owner)

    async def pin_item(self, owner: str, item: str, *, on: bool) -> None:
        await self._write(lambda db: of_items.pin(db, owner, item, on))

    async def show_items(
        self, session: SessionId, ids: Sequence[str], *, now: datetime, anew: bool = False
    ) -> None:
        await self._write(lambda db: of_sessions.show_items(db, session, ids, now, anew), owner=session.owner)

    async def idle(self, before: datetime, *, limit: int = 100) -> Sequence[SessionId]:
        return await self._read(lambda db: of_sessions.idle(db, before, limit))

    # -- corrections

    async def edit(
        self,
        session: SessionId,
        note_id: str,
        text: str,
        *,
        tokens: int,
        by: str,
        now: datetime,
        was: str | None = None,
    ) -> Note:
        return await self._write(
            lambda db: of_corrections.edit(db, session, note_id, text, tokens, by, now, was)
        )

    async def undo(self, session: SessionId, note_id: str, *, prompt_version: int, now: datetime) -> Progress:
        return await self._write(lambda db: of_corrections.undo(db, session, note_id, prompt_version, now))

    async def forget(self, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
        return await self._deleting(
            self._write(lambda db: of_corrections.forget(db, session, change, now), owner=session.owner)
        )

    async def forget_owner(self, owner: str) -> int:
        return await self._deleting(
            self._write(lambda db: of_corrections.forget_owner(db, owner), owner=owner)
        )

    # -- transfer

    async def dump(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        # On a connection of its own: the caller may take as long as it likes, or give up at any time.
        snapshot = self._snapshot()
        try:
            if await snapshot.open():
                async for row in snapshot.rows(scope):
                    yield row
        finally:
            await snapshot.close()

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, renew: bool = False
    ) -> dict[str, int]:
        restored = transfer.restore(self._write_once, rows, OnConflict(replace, renew))
        return await self._deleting(restored)

    # -- search

    async def search(self, query: Query) -> SearchResult:
        return await self._read(lambda db: of_search.search(db, query))

    async def around(self, session: SessionId, seqs: Sequence[int], reach: int) -> Sequence[Message]:
        return await self._read(lambda db: of_messages.around(db, session, seqs, reach))

    async def unindexed(
        self, owner: str, *, session: SessionId | None = None, limit: int = 100
    ) -> Sequence[SessionId]:
        return await self._read(lambda db: of_search.unindexed(db, owner, session, limit))

    async def index(self, session: SessionId, *, limit: int = 500) -> int:
        return await self._write(lambda db: of_search.index(db, session, limit), session=session)

    # -- vectors and the graph

    async def behind(self, *, limit: int = 100) -> Sequence[SessionId]:
        return await self._read(lambda db: of_search.unindexed_anywhere(db, limit))

    async def lacking(self, space: str, *, limit: int = 100) -> Sequence[Document]:
        return await self._read(lambda db: of_vectors.lacking(db, space, limit))

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        return await self._write(lambda db: of_vectors.add(db, space, vectors))

    async def near(self, query: VectorQuery) -> Sequence[tuple[Match, float]]:
        return await self._read(lambda db: of_vectors.near(db, query, self._likely))

    async def unlinked(self, *, limit: int = 100) -> Sequence[Document]:
        return await self._read(lambda db: of_graph.unlinked(db, limit))

    async def link(self, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
        return await self._write(lambda db: of_graph.link(db, found))

    async def edges(
        self,
        owner: str,
        *,
        of: Sequence[Node] = (),
        session: SessionId | None = None,
        kinds: Sequence[EdgeKind] = EDGE_KINDS,
        limit: int = 10_000,
    ) -> Sequence[Edge]:
        return await self._read(lambda db: of_graph.edges(db, owner, of, session, kinds, limit))

    async def noted(self, wanted: Sequence[tuple[SessionId, str]]) -> Sequence[Match]:
        return await self._read(lambda db: of_graph.noted(db, wanted))

    async def coverage(self, space: str) -> IndexCoverage:
        return await self._read(lambda db: of_vectors.coverage(db, space))

    # -- leases and usage

    async def lease(self, session: SessionId, *, holder: str, now: datetime, until: datetime) -> int | None:
        return await self._write(lambda db: of_sessions.lease(db, session, holder, now, until))

    async def release(
        self,
        session: SessionId,
        *,
        fence: int,
        last_seq: int,
        due_at: datetime | None,
        wake_at: int,
        failures: int,
    ) -> None:
        await self._write(
            lambda db: of_sessions.release(db, session, fence, last_seq, due_at, wake_at, failures)
        )

    async def due(self, now: datetime, *, limit: int = 1000) -> Sequence[SessionId]:
        return await self._read(lambda db: of_sessions.due(db, now, limit))

    async def record_usage(self, session: SessionId, usage: Usage) -> None:
        await self._write(lambda db: of_sessions.record_usage(db, session, usage))

    async def usage(self, session: SessionId | None = None) -> Sequence[Usage]:
        return await self._read(lambda db: of_sessions.usage(db, session))

    async def spent(
        self, *, session: SessionId | None = None, owner: str | None = None, since: datetime | None = None
    ) -> float:
        return await self._read(lambda db: of_sessions.spent(db, session, owner, since))

    # -- the whole store

    async def sessions(
        self, *, owner: str | None = None, key: str | None = None, limit: int | None = None
    ) -> Sequence[SessionSummary]:
        return await self._read(lambda db: of_sessions.listing(db, owner, key, limit))

    async def prune(self, *, before: datetime, dry_run: bool = False) -> int:
        if dry_run:
            return await self._write(lambda db: of_notes.tried(db, lambda db: of_notes.prune(db, before)))
        return await self._deleting(self._write(lambda db: of_notes.prune(db, before)))

    async def retain(
        self, session: SessionId, limits: Retention, *, dry_run: bool = False
    ) -> RetentionResult:
        if dry_run:
            return await self._read(lambda db: of_messages.retain(db, session, limits, dry_run))
        return await self._deleting(self._write(lambda db: of_messages.retain(db, session, limits, dry_run)))

    async def get_value(self, name: str) -> str | None:
        return await self._read(lambda db: of_sessions.get_value(db, name))

    async def set_value(self, name: str, value: str) -> None:
        await self._write(lambda db: of_sessions.set_value(db, name, value))
