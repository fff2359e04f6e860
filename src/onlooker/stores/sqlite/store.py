"""The store itself: which work goes to the writer, and which to the readers.

store.py       the surface: one method, one transaction
writer.py      one thread, group commit          readers.py   threads that read snapshots
messages.py  notes.py  extractions.py  sessions.py    what happens inside a transaction
rows.py        rows to nouns and back            queries/, migrations/   the SQL
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TypeVar

from onlooker.domain.errors import ClosedError, SettingsError
from onlooker.domain.extractions import Extraction
from onlooker.domain.graph import EDGE_KINDS, Edge, EdgeKind, Node
from onlooker.domain.history import Forgetting
from onlooker.domain.history_rows import EVERYTHING, Row, Scope
from onlooker.domain.indexing import Coverage, Document, Near
from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import (
    Appended,
    Commit,
    Digest,
    Note,
    NoteKind,
    NoteStatus,
    Progress,
    Realignment,
    SessionSummary,
    State,
    Usage,
)
from onlooker.domain.retention import Retained, Retention
from onlooker.domain.search import Found, Match, Query
from onlooker.stores.moving import Way
from onlooker.stores.sqlite import appending, copying, feeding
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
from onlooker.stores.sqlite.key import Key
from onlooker.stores.sqlite.opening import open_for_writing
from onlooker.stores.sqlite.readers import Readers
from onlooker.stores.sqlite.reading import SqliteReading
from onlooker.stores.sqlite.writer import Job, Writer

T = TypeVar("T")


# What an event loop may well read itself: it takes a millisecond.
SHORT = 200


def _is_short(state: State | None) -> bool:
    return state is None or len(state.messages) + len(state.notes) <= SHORT


class SqliteStore:
    """`Store` in the file at `path`, which is created at need, for its owner's eyes alone; encrypted where
    there is a key.

    Any number of stores, in any number of processes, may have the same file open.
    """

    def __init__(self, path: str | os.PathLike[str], *, key: Key | None = None) -> None:
        if os.fspath(path) == ":memory:":
            raise SettingsError("path", ":memory:", "must be a file; MemoryStore keeps sessions in memory")
        self.path = Path(path)
        self._key = key
        self._lock = Lock()  # held in threads only, while opening and closing
        self._work: tuple[Writer, Readers] | None = None
        self._commits = 0

    @property
    def commits(self) -> int:
        """How many transactions were committed: under load far fewer than there were calls."""
        return self._commits + (self._work[0].commits if self._work else 0)

    async def open(self) -> None:
        await asyncio.to_thread(self._open)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _open(self) -> None:
        with self._lock:
            if self._work is None:
                connection = open_for_writing(self.path, self._key)
                self._work = Writer(connection, self.path), Readers(self.path, self._key)

    def _close(self) -> None:
        with self._lock:
            if self._work is None:
                return
            writer, readers = self._work
            # The readers go first: SQLite tidies the log away when the last connection, the
            # writer's, is closed.
            readers.close()
            writer.close()
            self._commits += writer.commits
            self._work = None

    async def _write(self, job: Job[T]) -> T:
        return await self._opened()[0].run(job)

    async def _read(self, job: Job[T]) -> T:
        return await self._opened()[1].run(job)

    async def _read_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        return await self._opened()[1].run_again(name, job, is_quick)

    def _opened(self) -> tuple[Writer, Readers]:
        if self._work is None:
            raise ClosedError(f"the store {self.path} is not open")
        return self._work

    # -- messages

    async def append(
        self, session: SessionId, messages: Sequence[Message], *, due_tokens: int, now: datetime
    ) -> Appended:
        return await self._write(lambda db: appending.append(db, session, messages, due_tokens, now))

    async def realign(
        self, session: SessionId, change: Realignment, *, due_tokens: int, now: datetime
    ) -> Appended:
        return await self._write(lambda db: of_messages.realign(db, session, change, due_tokens, now))

    async def digests(self, session: SessionId, *, newest: int | None = None) -> Sequence[Digest]:
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
        branch: int | None = None,
    ) -> Progress:
        return await self._write(
            lambda db: of_messages.compact(db, session, up_to, summary, archive, now, branch)
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
        return await self._write(lambda db: of_sessions.delete(db, session))

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

    async def undo(self, session: SessionId, note_id: str, *, epoch: int, now: datetime) -> Progress:
        return await self._write(lambda db: of_past.undo(db, session, note_id, epoch, now))

    async def forget(self, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
        return await self._write(lambda db: of_past.forget(db, session, change, now))

    async def forget_owner(self, owner: str) -> int:
        return await self._write(lambda db: of_past.forget_owner(db, owner))

    async def erase(self) -> bool:
        self._opened()
        return await asyncio.to_thread(copying.erase, self.path, self._key)

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

    def _reading(self) -> SqliteReading:
        self._opened()
        return SqliteReading(self.path, self._key)

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, renew: bool = False
    ) -> dict[str, int]:
        return await feeding.restore(self._write, rows, Way(replace, renew))

    async def back_up(self, target: Path) -> None:
        self._opened()
        await asyncio.to_thread(copying.back_up, self.path, target, self._key)

    # -- search

    async def search(self, query: Query) -> Found:
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

    async def near(self, query: Near) -> Sequence[tuple[Match, float]]:
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

    async def coverage(self, space: str) -> Coverage:
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
        return await self._write(lambda db: of_notes.prune(db, before))

    async def retain(self, session: SessionId, limits: Retention, *, dry_run: bool = False) -> Retained:
        run = self._read if dry_run else self._write
        return await run(lambda db: of_retaining.retain(db, session, limits, dry_run))

    async def get_value(self, name: str) -> str | None:
        return await self._read(lambda db: of_sessions.get_value(db, name))

    async def set_value(self, name: str, value: str) -> None:
        await self._write(lambda db: of_sessions.set_value(db, name, value))
