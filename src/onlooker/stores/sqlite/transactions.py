"""Every method of a `Store` that is one transaction, whichever database runs it.

messages.py, notes.py, sessions.py, … say what happens inside, in statements that each database has by the
same name.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from datetime import datetime
from typing import TypeVar

from onlooker.domain.history import Forgetting, Retention, RetentionResult
from onlooker.domain.history_rows import EVERYTHING, Row, Scope
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
from onlooker.stores.sqlite import extractions as of_extractions
from onlooker.stores.sqlite import graph as of_graph
from onlooker.stores.sqlite import items as of_items
from onlooker.stores.sqlite import messages as of_messages
from onlooker.stores.sqlite import notes as of_notes
from onlooker.stores.sqlite import past as of_past
from onlooker.stores.sqlite import retaining as of_retaining
from onlooker.stores.sqlite import searching as of_search
from onlooker.stores.sqlite import sessions as of_sessions
from onlooker.stores.sqlite import vectors as of_vectors
from onlooker.stores.sqlite.reading import SqliteReading
from onlooker.stores.sqlite.rows import forget_kept
from onlooker.stores.sqlite.writer import Job

T = TypeVar("T")

# What an event loop may well read itself, since it takes a millisecond: so many rows, and characters in them.
SHORT = 200
SHORT_TEXT = 50_000


def _is_short(state: State | None) -> bool:
    if state is None:
        return True
    said = (*state.messages, *state.pinned, *state.notes)
    short = len(said) + len(state.items or ()) <= SHORT
    return short and sum(len(s.text) for s in said) <= SHORT_TEXT


class Transactions(ABC):
    """What a store does in one transaction each, for stores that say how one is run."""

    async def open(self) -> None:
        await asyncio.to_thread(self._open)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    @abstractmethod
    def _open(self) -> None:
        """In a thread; nothing where it is open already."""

    @abstractmethod
    def _close(self) -> None:
        """In a thread; nothing where it is closed already."""

    @abstractmethod
    async def _write(self, job: Job[T]) -> T:
        """What the job returns, once it is durable."""

    @abstractmethod
    async def _read(self, job: Job[T]) -> T:
        """What the job returns, all of it of one moment."""

    @abstractmethod
    async def _read_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        """The same for one that comes again and again by that name, and may be quick."""

    @abstractmethod
    def _reading(self) -> SqliteReading:
        """The database by a connection of its own, as it is at one moment."""

    async def _taking_away(self, done: Awaitable[T]) -> T:
        """What it returns; and nothing is kept any longer that was read before."""
        try:
            return await done
        finally:
            forget_kept()

    # -- messages

    async def realign(
        self, session: SessionId, change: Realignment, *, due_tokens: int, now: datetime
    ) -> Appended:
        return await self._write(lambda db: of_messages.realign(db, session, change, due_tokens, now))

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
        return await self._taking_away(
            self._write(lambda db: of_messages.compact(db, session, up_to, summary, archive, now, revision))
        )

    # -- notes

    async def load(self, session: SessionId) -> State | None:
        return await self._read_again(session, lambda db: of_notes.load(db, session), _is_short)

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
        return await self._read(lambda db: of_extractions.read(db, session, type))

    async def delete_session(self, session: SessionId) -> bool:
        return await self._taking_away(self._write(lambda db: of_sessions.delete(db, session)))

    async def pin(self, session: SessionId, target: str, *, on: bool) -> None:
        await self._write(lambda db: of_notes.pin(db, session, target, on))

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
        await self._write(lambda db: of_items.change(db, change))

    async def archive_items(self, owner: str, ids: Sequence[str], *, now: datetime) -> Sequence[Item]:
        return await self._write(lambda db: of_items.archive(db, owner, ids, now))

    async def delete_items(self, owner: str, ids: Sequence[str] | None = None) -> int:
        return await self._write(lambda db: of_items.delete(db, owner, ids))

    async def pin_item(self, owner: str, item: str, *, on: bool) -> None:
        await self._write(lambda db: of_items.pin(db, owner, item, on))

    async def show_items(
        self, session: SessionId, ids: Sequence[str], *, now: datetime, anew: bool = False
    ) -> None:
        await self._write(lambda db: of_sessions.show_items(db, session, ids, now, anew))

    async def idle(self, before: datetime, *, limit: int = 100) -> Sequence[SessionId]:
        return await self._read(lambda db: of_items.idle(db, before, limit))

    # -- a person's hand

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
        return await self._write(lambda db: of_past.edit(db, session, note_id, text, tokens, by, now, was))

    async def undo(self, session: SessionId, note_id: str, *, prompt_version: int, now: datetime) -> Progress:
        return await self._write(lambda db: of_past.undo(db, session, note_id, prompt_version, now))

    async def forget(self, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
        return await self._taking_away(self._write(lambda db: of_past.forget(db, session, change, now)))

    async def forget_owner(self, owner: str) -> int:
        return await self._taking_away(self._write(lambda db: of_past.forget_owner(db, owner)))

    # -- moving

    async def dump(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        # By a connection of its own: whoever reads the rows may take all day, or give up at any moment.
        reading = self._reading()
        try:
            if await reading.open():
                async for row in reading.rows(scope):
                    yield row
        finally:
            await reading.close()

    # -- search

    async def search(self, query: Query) -> SearchResult:
        return await self._read(lambda db: of_search.search(db, query))

    async def around(self, session: SessionId, seqs: Sequence[int], reach: int) -> Sequence[Message]:
        return await self._read(lambda db: of_search.around(db, session, seqs, reach))

    async def unindexed(
        self, owner: str, *, session: SessionId | None = None, limit: int = 100
    ) -> Sequence[SessionId]:
        return await self._read(lambda db: of_search.unindexed(db, owner, session, limit))

    async def index(self, session: SessionId, *, limit: int = 500) -> int:
        return await self._write(lambda db: of_search.index(db, session, limit))

    # -- vectors and the graph

    async def behind(self, *, limit: int = 100) -> Sequence[SessionId]:
        return await self._read(lambda db: of_vectors.unindexed(db, limit))

    async def lacking(self, space: str, *, limit: int = 100) -> Sequence[Document]:
        return await self._read(lambda db: of_vectors.lacking(db, space, limit))

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        return await self._write(lambda db: of_vectors.add(db, space, vectors))

    async def near(self, query: VectorQuery) -> Sequence[tuple[Match, float]]:
        return await self._read(lambda db: of_vectors.near(db, query))

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

    # -- work

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
            return await self._write(lambda db: of_past.tried(db, lambda db: of_notes.prune(db, before)))
        return await self._taking_away(self._write(lambda db: of_notes.prune(db, before)))

    async def retain(
        self, session: SessionId, limits: Retention, *, dry_run: bool = False
    ) -> RetentionResult:
        if dry_run:
            return await self._read(lambda db: of_retaining.retain(db, session, limits, dry_run))
        return await self._taking_away(
            self._write(lambda db: of_retaining.retain(db, session, limits, dry_run))
        )

    async def get_value(self, name: str) -> str | None:
        return await self._read(lambda db: of_sessions.get_value(db, name))

    async def set_value(self, name: str, value: str) -> None:
        await self._write(lambda db: of_sessions.set_value(db, name, value))
