"""The store, which holds sessions.

Every method is one transaction. It raises `StoreError` when the storage fails, with nothing half written, and
`ConflictError` when a guard no longer holds.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import Protocol

from onlooker.domain.history import (
    EVERYTHING,
    Change,
    Forgetting,
    NoteHistory,
    RetentionLimits,
    RetentionResult,
    Row,
    Scope,
)
from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import (
    AppendResult,
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
    UsageDay,
)
from onlooker.domain.search import (
    EDGE_KINDS,
    Document,
    Edge,
    EdgeKind,
    IndexCoverage,
    Match,
    MessageRef,
    Node,
    Pick,
    Query,
    SearchResult,
    VectorQuery,
)

# When writes of the current task stop waiting for a lock, by the monotonic clock. A list, so that it can be
# emptied for tasks that were started meanwhile.
_STOP_WAITING: ContextVar[list[float] | None] = ContextVar("onlooker_stop_waiting", default=None)


@contextmanager
def waiting_for_locks(seconds: float) -> Generator[None]:
    """Limit the time that writes inside wait for another program's lock; then they raise `StoreError`."""
    limit = [time.monotonic() + seconds]
    token = _STOP_WAITING.set(limit)
    try:
        yield
    finally:
        limit.clear()
        _STOP_WAITING.reset(token)


def stop_waiting_at(seconds: float) -> float:
    """When a write that starts now stops waiting for a lock, in a store that waits for `seconds` itself."""
    return min((time.monotonic() + seconds, *(_STOP_WAITING.get() or ())))


class Store(Protocol):
    """Holds sessions. `onlooker.testing.StoreContract` tests an implementation of this protocol."""

    async def open(self) -> None:
        """Create or migrate the storage as needed. Opening twice is harmless."""
        ...

    async def close(self) -> None:
        """Complete pending work, then close files and connections. Closing twice is harmless."""
        ...

    # -- messages

    async def append(
        self,
        session: SessionId,
        messages: Sequence[Message],
        *,
        due_tokens: int,
        now: datetime,
        after: Progress | None = None,
    ) -> AppendResult:
        """Add messages to the end of the session, creating the session if needed; durable on return.

        Messages come with id, at and tokens set. Each gets the next seq: 1, 2, 3, …, and no seq is used
        twice. A message whose id the session already has (live, archived or retired) is skipped, also within
        the call. The history hash is extended and `unnoted_tokens` grows. If `unnoted_tokens` then reaches
        `due_tokens` or the session's own `wake_at`, and the session is not due yet, `due_at` becomes `now`.

        Raises:
            ConflictError: `last_seq` or `revision` is no longer as in `after`, if that is given. Nothing of
                this call is recorded then.
        """
        ...

    async def realign(
        self, session: SessionId, change: Realignment, *, due_tokens: int, now: datetime
    ) -> AppendResult:
        """Change the session to the conversation that the host now has; see `Realignment`.

        Retired messages move to the archive and leave the history hash. Messages named in `follow` keep id,
        text and time and get new seqs after `last_seq`, in order with the new ones; a cleared one becomes
        live again. A new message with the same content as a retired one (and the same id, unless Onlooker
        assigned its id) revives that message; the same id with another text is an edit. Notes are rolled back
        to `keep` as `policy.history.roll_back` decides, with the last cleared message as the lower bound. If
        messages are revived, retired notes of them return as `policy.history.returning` decides, without
        those that something was extracted with; the session is then due. Compacted messages that no live note
        covers any more (after the new frontier, up to `keep`) return from the archive, unless a remaining
        summary (up to `keep`) replaces them. Summaries after `keep` are deleted, and so are those whose notes
        were rolled back, if the originals are kept. `tail_start` is then at most the new watermark + 1.
        `revision` grows; `prompt_version` grows if an active note was retired or revived.

        Raises:
            ConflictError: `last_seq` or `revision` changed since they were read.
        """
        ...

    async def digests(self, session: SessionId, *, newest: int | None = None) -> Sequence[MessageDigest]:
        """Every message of the current conversation, oldest first: live, compacted and cleared ones, without
        summaries. `newest` limits the result to the last n."""
        ...

    async def retired(self, session: SessionId) -> Sequence[MessageDigest]:
        """Every message that the host took back, oldest first. The same id may be among them several times,
        and in the conversation as well."""
        ...

    async def messages(
        self,
        session: SessionId,
        *,
        after: int = 0,
        up_to: int | None = None,
        limit: int | None = None,
        archived: bool = False,
    ) -> Sequence[Message]:
        """Live messages by seq, `after` exclusive and `up_to` inclusive. `archived` includes compacted and
        cleared messages, never retired ones."""
        ...

    async def sources(self, session: SessionId, note_id: str) -> Sequence[Message]:
        """The messages that a note covers, in order, through any number of generations, archived and retired
        ones included."""
        ...

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
        """Replace every live message up to seq `up_to`, inclusive, by the summary. The originals are
        archived, or deleted if `archive` is false. The summary is added even if there is nothing to replace.

        The summary gets the seq of the last message that it replaces, or one below the first live message. If
        that is after the frontier, the summary counts as un-noted and `revision` grows, because a note that
        is being written may cover the replaced messages.

        Raises:
            ConflictError: `revision` was given and is no longer the session's.
        """
        ...

    # -- notes

    async def load(
        self, session: SessionId, *, newest: int | None = None, oldest: int | None = None
    ) -> State | None:
        """Everything that a plan or a context is made from; None if the session does not exist.

        With `newest` or `oldest`, at most that many messages from the end or the beginning.
        """
        ...

    async def commit(self, session: SessionId, change: Commit) -> Progress:
        """Apply one change to the notes and store its extractions.

        `unnoted_tokens` becomes what is after the new frontier; `prompt_version` grows if the change is
        visible in the prompt. The guard's fence, if given, must be the session's current one. `items`, if
        given, are shown from now on, as with `show_items`.

        Raises:
            ConflictError: Frontier, revision or fence changed, or a note named in `activate` is no longer
                buffered, or one in `supersede` is no longer active.
        """
        ...

    async def notes(
        self,
        session: SessionId,
        *,
        statuses: Sequence[NoteStatus] = ("active",),
        kind: NoteKind | None = None,
        recent: int | None = None,
        ids: Sequence[str] | None = None,
        after: tuple[int, int, str] | None = None,
        limit: int | None = None,
    ) -> Sequence[Note]:
        """Notes oldest first (by first message, then generation, then id). `recent` limits the result to the
        newest n, `ids` to those. `limit` gives the oldest n; `after` those after the note with that first
        message, generation and id, which need not exist."""
        ...

    async def notes_at(self, session: SessionId, seq: int) -> Sequence[Note]:
        """The notes that were live when that message was the newest, with the texts and statuses that they
        had, in the order of `notes`. Notes that were deleted since are not included."""
        ...

    async def note_history(self, session: SessionId, note_id: str) -> NoteHistory | None:
        """A note's past; None if there is no such note. `versions` is empty if it was never edited."""
        ...

    async def changes(self, session: SessionId, *, most: int) -> Sequence[Change]:
        """The changes of the session's notes, oldest first, and last the present state, numbered as the next
        change and without statuses; empty if there is no session.

        If there are more than `most` changes, every n-th of them is returned, each with the one before it.
        """
        ...

    async def delete_notes(self, session: SessionId, kind: NoteKind | None = None) -> int:
        """Delete the session's notes of one kind, or all, superseded ones included; return the number of live
        ones. The messages that those covered are archived as cleared, and their extractions are deleted."""
        ...

    async def extractions(self, session: SessionId, *, type: str | None = None) -> Sequence[Extraction]:
        """Extractions, except those of retired or deleted notes, oldest first (by the note's first message,
        then in the order given)."""
        ...

    async def pin(self, session: SessionId, target: str, *, on: bool) -> None:
        """Pin or unpin a note or message by id; `prompt_version` grows if that changed anything.

        Raises:
            NotFoundError: The session has no live note and no message with that id.
        """
        ...

    async def set_budget(self, session: SessionId, budget: int) -> None:
        """Store the budget that the host asks for, for the planner."""
        ...

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
        """Change the text of a live note and keep the previous text as a version. `revision` grows, so that
        notes being written at the moment are discarded.

        Raises:
            NotFoundError: The session has no live note with that id.
            ConflictError: `was` is given and is no longer the note's text.
        """
        ...

    async def undo(self, session: SessionId, note_id: str, *, prompt_version: int, now: datetime) -> Progress:
        """Retire an active reflection and activate the notes that it was made from.

        Raises:
            NotFoundError: The session has no active reflection with that id.
            ConflictError: `prompt_version` changed since it was read, or some of the source notes are gone.
        """
        ...

    async def forget(self, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
        """Delete messages from the session and its archive, with every version, extraction, pin, summary and
        index entry derived from them, and replace notes that also covered other messages by the rewritten
        ones. Messages that a deleted summary replaced return from the archive.

        Raises:
            ConflictError: The notes changed since the decision.
        """
        ...

    async def forget_owner(self, owner: str) -> int:
        """Delete every session and item of an owner; return the number of sessions. Usage still counts
        towards the day's total, without the owner's name."""
        ...

    async def erase(self) -> bool:
        """Make deleted data unrecoverable from the store's files; False if that has to wait for current
        readers, or is up to the operator of the server."""
        ...

    # -- items

    async def items(
        self,
        owner: str,
        *,
        statuses: Sequence[ItemStatus] = ("live",),
        ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Sequence[Item]:
        """Items of the owner: pinned ones first, then most recently used (or made) first. `ids` selects by
        id."""
        ...

    async def change_items(self, change: ItemChange) -> None:
        """Apply one change to an owner's items; see `ItemChange`.

        An item that ends gets its end time and its successor. A use increments the count and sets the time.
        With a mark, the session has ended and its `ended` moves. Sessions continue to show ended items.

        Raises:
            ConflictError: An item to end is no longer live, an item to add exists already, or the session's
                mark is not the expected one.
        """
        ...

    async def archive_items(self, owner: str, ids: Sequence[str], *, now: datetime) -> Sequence[Item]:
        """Archive items, whatever their status, and remove them from every prompt; `prompt_version` grows in
        sessions that showed one. Returns the items that were not archived before."""
        ...

    async def delete_items(self, owner: str, ids: Sequence[str] | None = None) -> int:
        """Delete items, or all of the owner's, and remove them from every prompt and from the links of other
        items. Returns the number of deleted items."""
        ...

    async def pin_item(self, owner: str, item: str, *, on: bool) -> None:
        """Pin or unpin a live item. What sessions show does not change.

        Raises:
            NotFoundError: The owner has no live item with that id.
        """
        ...

    async def show_items(
        self, session: SessionId, ids: Sequence[str], *, now: datetime, replacing: bool = False
    ) -> None:
        """Set which of its owner's items the session shows, in order, creating the session if needed. An
        earlier choice stays unless `replacing`; `prompt_version` grows if the prompt changes. Archived and
        missing items are skipped."""
        ...

    async def idle(self, before: datetime, *, limit: int = 100) -> Sequence[SessionId]:
        """Sessions last used at or before then that have messages after their `ended`, oldest first."""
        ...

    async def open_sessions(self, owner: str, since: datetime, *, limit: int = 100) -> Sequence[SessionId]:
        """Sessions of the owner last used at or after then that have messages after their `ended`, newest
        first."""
        ...

    # -- search

    async def search(self, query: Query) -> SearchResult:
        """Candidates for a full-text query: messages of the current conversation, without summaries, or
        active notes. Only indexed texts are found.

        `policy.search.rank.shortlist` chooses them, so every store returns the same ones.
        """
        ...

    async def around(
        self, session: SessionId, seqs: Sequence[int], reach: int, *, retired: bool = False
    ) -> Sequence[Message]:
        """The messages at these seqs and up to `reach` away from one, in order, each once, without
        summaries. `retired` includes messages that the host took back."""
        ...

    async def search_around(
        self, queries: Sequence[Query], pick: Pick, reach: int
    ) -> Mapping[MessageRef, Message]:
        """Search messages, and read those that `pick` picks from the results and those around them, all in
        one transaction: a turn waits once. `pick` may run in another thread; its matches may have no text and
        no time."""
        ...

    async def unindexed(
        self, owner: str, *, session: SessionId | None = None, limit: int = 100
    ) -> Sequence[SessionId]:
        """Sessions of the owner, or the one session, with texts that are not in the full-text index yet."""
        ...

    async def index(self, session: SessionId, *, limit: int = 500) -> int:
        """Add texts to the full-text index, oldest first; return how many. If that is `limit`, there may be
        more. Deleted and retired texts leave the index automatically."""
        ...

    async def unindexed_anywhere(self, *, limit: int = 100) -> Sequence[SessionId]:
        """Sessions of any owner with texts that are not in the full-text index yet."""
        ...

    async def without_vectors(self, space: str, *, limit: int = 100) -> Sequence[Document]:
        """Indexed texts, of any owner, without a vector of this embedder."""
        ...

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        """Store the vectors of texts that have not changed; return how many. A vector is deleted with its
        text. If the embedder's vectors have another size than before, all earlier ones are deleted."""
        ...

    async def nearest(self, query: VectorQuery) -> Sequence[tuple[Match, float]]:
        """The texts whose vectors are closest, best first, each with its cosine, which is above 0.

        `policy.search.vectors` chooses them, so every store returns the same ones.
        """
        ...

    async def coverage(self, space: str) -> IndexCoverage:
        """How much is indexed, for all owners."""
        ...

    # -- graph

    async def unlinked(self, *, limit: int = 100) -> Sequence[Document]:
        """Notes, of any owner and status, whose mentions are not stored yet."""
        ...

    async def link(self, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
        """Store what notes mention, for notes whose text has not changed; return how many. Mentions are
        deleted with their note, and an entity with its last mention."""
        ...

    async def edges(
        self,
        owner: str,
        *,
        of: Sequence[Node] = (),
        session: SessionId | None = None,
        kinds: Sequence[EdgeKind] = EDGE_KINDS,
        limit: int = 10_000,
    ) -> Sequence[Edge]:
        """Edges between an owner's active and superseded notes, their sessions and entities. `of` selects
        edges that start or end at one of the nodes; each entity among them has an equal part of the
        limit. Entities are compared without regard to case and spelling."""
        ...

    async def notes_by_id(self, wanted: Sequence[tuple[SessionId, str]]) -> Sequence[Match]:
        """Active notes by id, in that order, as search matches."""
        ...

    # -- background work

    async def lease(self, session: SessionId, *, holder: str, now: datetime, until: datetime) -> int | None:
        """Lease the session to one worker, or extend its lease; None while another worker holds it.

        Returns the fencing token: unchanged when extended, higher each time the holder changes.
        """
        ...

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
        """Release the lease and set when the session is due next. Does nothing if the fence is not current.
        With `due_at=None` (settled) it is due only if an append after `last_seq` reached `wake_at`."""
        ...

    async def due(self, now: datetime, *, limit: int = 1000) -> Sequence[SessionId]:
        """Sessions whose due time has come, longest due first."""
        ...

    async def record_usage(self, session: SessionId, usage: Usage) -> None:
        """Store what a model call used and cost."""
        ...

    async def usage(self, session: SessionId | None = None) -> Sequence[Usage]:
        """Recorded model calls, oldest first; without a session those of all sessions, deleted ones
        included."""
        ...

    async def usage_by_day(
        self, *, session: SessionId | None = None, owner: str | None = None, since: datetime | None = None
    ) -> Sequence[UsageDay]:
        """Recorded calls in numbers, newest day first: of one session, of an owner, or of all (the last two
        include deleted sessions), from `since` on."""
        ...

    async def spent(
        self, *, session: SessionId | None = None, owner: str | None = None, since: datetime | None = None
    ) -> float:
        """The cost of recorded calls in dollars: of one session, of an owner, or of all (the last two include
        deleted sessions), from `since` on. Calls of unknown cost count as 0."""
        ...

    # -- the whole store

    async def sessions(
        self,
        *,
        owner: str | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: tuple[datetime, str] | None = None,
        matching: str = "",
    ) -> Sequence[SessionSummary]:
        """Sessions, most recently used first; if used at the same time, by sid. `after` gives those after the
        session with that `used_at` and sid, `matching` those with this text in their key or owner, ignoring
        the case of A to Z."""
        ...

    async def owners(self, *, limit: int) -> Sequence[str]:
        """The owners of sessions in alphabetical order, at most `limit`."""
        ...

    async def delete_session(self, session: SessionId) -> bool:
        """Delete the session with everything in it, and the items that were made in it; False if it did not
        exist. Its usage still counts for the owner and the day, without the session's name."""
        ...

    async def prune(self, *, before: datetime, dry_run: bool = False) -> int:
        """Delete superseded and retired notes made before then, and retired messages said before then; return
        the number of rows. Live notes and everything they were made from stay."""
        ...

    async def retain(
        self, session: SessionId, limits: RetentionLimits, *, dry_run: bool = False
    ) -> RetentionResult:
        """Archive or delete messages beyond the limits, with their index entries; return the counts.

        Notes stay. So do messages that no active note covers, and whatever else `plan_retention` spares.
        Archived messages are stored as `compact` with `archive` stores them, without a summary.
        """
        ...

    def dump(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        """The store's content as rows, in one snapshot and in the same order in every store: each session
        with its rows, then items, usage, and values of the store."""
        ...

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, update: bool = False
    ) -> dict[str, int]:
        """Insert rows, grouped by session, each session in one transaction; return the count of each kind. A
        later row for the same thing replaces an earlier one.

        An existing session is deleted first: with its items and usage (`replace`), or without (`update`).

        Raises:
            ConflictError: A session exists already, and neither option is given.
            StoreError: The rows of a session do not include the session itself.
        """
        ...

    async def back_up(self, target: Path) -> None:
        """Copy the store to a new file while it is in use.

        Raises:
            StoreError: The store is not a file, or the target exists or cannot be written.
        """
        ...

    async def get_value(self, name: str) -> str | None:
        """A named value of the store itself, such as the calibration."""
        ...

    async def set_value(self, name: str, value: str) -> None:
        """Set a named value."""
        ...

    async def swap_value(self, name: str, value: str, *, expected: str | None) -> bool:
        """Set a named value if it still is `expected` (None: if there is none); False if it is not."""
        ...


class Reading(Protocol):
    """A read-only snapshot of a store. It creates nothing and upgrades nothing."""

    @property
    def name(self) -> str:
        """The store's location, without secrets."""
        ...

    async def open(self) -> bool:
        """Take the snapshot; False if nothing is stored there yet.

        Raises:
            StoreError: The store cannot be read, or not by this version.
        """
        ...

    async def close(self) -> None:
        """Release the snapshot."""
        ...

    async def mark(self) -> tuple[int, ...]:
        """The number of sessions, and other numbers that change when sessions are used."""
        ...

    def rows(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        """As `Store.dump`."""
        ...
