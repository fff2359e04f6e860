"""What Onlooker needs from outside: a store, a model that writes notes, a clock.

Every store method is one transaction. It raises `StoreError` when the storage cannot do it, with
nothing half written, and `ConflictError` where a guard no longer holds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from onlooker.domain.extractions import Extraction, Schema
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
    NoteFormat,
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


class Clock(Protocol):
    """The time, so that tests can hold it still."""

    def now(self) -> datetime:
        """An aware datetime."""
        ...


# ------------------------------------------------------------------------------------ models


@dataclass(frozen=True, slots=True)
class ObserveRequest:
    """Write an observation of `messages`.

    `notes` are the live notes so far, oldest first: context, not to be repeated. A language model is
    shown the newest of them, within a bounded share.
    `target_tokens` is about how long the note should be. `instruction` is the user's own words on what to
    note; a model that understands none ignores it. `schemas` are types whose values are to be filled in
    from the same messages, in one block of JSON after the note. `correction` says what was wrong with
    the previous reply to this same request.
    """

    session: SessionId
    messages: tuple[Message, ...]
    notes: tuple[Note, ...]
    target_tokens: int
    format: NoteFormat = "lines"
    instruction: str = ""
    correction: str = ""
    schemas: tuple[Schema, ...] = ()


@dataclass(frozen=True, slots=True)
class ReflectRequest:
    """Condense `notes`, oldest first, into one reflection of the given generation."""

    session: SessionId
    notes: tuple[Note, ...]
    generation: int
    target_tokens: int
    format: NoteFormat = "lines"
    instruction: str = ""
    correction: str = ""


@dataclass(frozen=True, slots=True)
class ItemsRequest(ReflectRequest):
    """Say what other conversations of the same owner should know of a session that has ended.

    `notes` are its notes since it ended before, `messages` what was said after them, `known` summaries of
    items that the owner has. A model that knows nothing of items may take it for a reflection: its answer
    is then no answer, and the built-in choice stands in.
    """

    messages: tuple[Message, ...] = ()
    known: tuple[str, ...] = ()


Request = ObserveRequest | ReflectRequest


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered. `finish` is "length" when the answer was cut off.

    `model` says who wrote it where the model that was asked chose among others. `cost` is what the call
    cost in dollars, None where no price is known.
    """

    text: str
    finish: Literal["stop", "length", "refused", "other"] = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""
    cost: float | None = None


class Model(Protocol):
    """Whatever writes notes: the built-in extractive model, a language model, a script in a test."""

    @property
    def name(self) -> str:
        """As it stands beside each note it wrote, such as "anthropic:claude-haiku-4-5"."""
        ...

    @property
    def window(self) -> int:
        """How many tokens of messages or notes one request may hold."""
        ...

    async def write(self, request: Request) -> Reply:
        """Answer the request.

        Raises:
            ModelError: It did not answer, for whatever reason.
        """
        ...


class Embedder(Protocol):
    """Whatever makes vectors of texts, so that what means the same lies close together."""

    @property
    def name(self) -> str:
        """As it stands beside each vector, such as "openai:text-embedding-3-small". Vectors of two names are
        never compared: whatever changes them belongs into it."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; 0 while that is not known."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in order. None of the texts is empty.

        Raises:
            ModelError: There are none now, for whatever reason.
        """
        ...


# ------------------------------------------------------------------------------------ stores


class Store(Protocol):
    """Where sessions live. `onlooker.testing.StoreContract` is this protocol as tests."""

    async def open(self) -> None:
        """Make it ready: create or migrate what it needs. Opening twice is harmless."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of files and connections. Closing twice is harmless."""
        ...

    # -- messages

    async def append(
        self, session: SessionId, messages: Sequence[Message], *, due_tokens: int, now: datetime
    ) -> Appended:
        """Record messages at the end of the session, creating it at need; durable on return.

        Messages come with id, at and tokens filled in, and get their seq here: 1, 2, 3, … never
        used again. One whose id the session knows already (live, archived or retired) is passed
        over, also within the call. The chain is extended, and `unnoted_tokens` grows. Where
        `unnoted_tokens` then reaches `due_tokens` or the session's own `wake_at`, and the session
        is not due already, `due_at` becomes `now`.
        """
        ...

    async def realign(
        self, session: SessionId, change: Realignment, *, due_tokens: int, now: datetime
    ) -> Appended:
        """Make the session the conversation that the host now has; see `Realignment`.

        Retired messages go to the archive and leave the chain. Those named in `follow` keep id, text
        and time and get new seqs after `last_seq`, in order with the new ones; one that was cleared
        comes back raw. A new message that equals a retired one in content (and in id, where its own was
        not given by us) revives it instead; the same id with another text is an edit. Notes are rolled
        back to `keep` as `policy.rollback.roll_back` decides, with the last cleared message as the
        floor. Messages that compaction set aside and that no live note covers any more (after the new
        frontier, up to `keep`) come back from the archive, except those that a summary which still
        stands (up to `keep`) stands for. Summaries after `keep` are deleted, and so are those whose
        notes were rolled back, where the originals are kept. `tail_start` is then at most the new
        watermark + 1. `branch` grows; so does `epoch` where an active note was retired or revived.

        Raises:
            ConflictError: `last_seq` or `branch` moved since it was read.
        """
        ...

    async def digests(self, session: SessionId, *, newest: int | None = None) -> Sequence[Digest]:
        """Every message of the conversation as it stands, oldest first: live ones and ones that
        compaction or `clear` set aside, without the summaries that compaction put in. `newest`
        gives only that many, the last ones."""
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
        """Live messages by seq, `after` exclusive and `up_to` inclusive; with `archived`, those set
        aside by compaction or `clear` as well (retired ones never)."""
        ...

    async def sources(self, session: SessionId, note_id: str) -> Sequence[Message]:
        """The messages that a note stands for, in order, through any number of generations,
        archived and retired ones included."""
        ...

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
        """Take every live message up to seq `up_to`, inclusive, out of the session and put the
        summary before the rest, in one transaction. With `archive` the originals are kept, else
        deleted. With nothing to take out the summary is still put in.

        The summary gets the seq of the last message taken out, or one below the first live one. It
        counts as un-noted where that is after the frontier; `branch` then grows, since a note in the
        making may stand for what was taken out.

        Raises:
            ConflictError: `branch` was given, and the session's is another: what was noted is not.
        """
        ...

    # -- notes

    async def load(self, session: SessionId) -> State | None:
        """Everything a plan or a context is made from; None when there is no such session."""
        ...

    async def commit(self, session: SessionId, change: Commit) -> Progress:
        """Apply one change to the notes, and keep what was extracted with them.

        The session's `unnoted_tokens` is what lies after the new frontier; `epoch` grows where the
        change shows in the prompt. The guard's fence, where given, must be the session's current.

        Raises:
            ConflictError: Frontier, branch or fence moved, or a note named in `activate` is no
                longer buffered, or one in `supersede` no longer active.
        """
        ...

    async def notes(
        self,
        session: SessionId,
        *,
        statuses: Sequence[NoteStatus] = ("active",),
        kind: NoteKind | None = None,
        recent: int | None = None,
    ) -> Sequence[Note]:
        """Notes oldest first (by first message, then generation); `recent` gives the newest n,
        oldest first."""
        ...

    async def delete_notes(self, session: SessionId, kind: NoteKind | None = None) -> int:
        """Delete the session's notes of one kind, or all, with every superseded one of that kind;
        return how many live ones there were. The messages that those stood for are set aside in
        the archive, and what was extracted from them goes. Harmless where there are none; no other
        session is touched."""
        ...

    async def extractions(self, session: SessionId, *, type: str | None = None) -> Sequence[Extraction]:
        """What was filled in along with notes, but for notes that are retired or gone; oldest first (by
        the note's first message, then as they were given)."""
        ...

    async def delete_session(self, session: SessionId) -> bool:
        """Delete the session with everything in it, and the items that were made in it; False when there
        was none. What its calls cost stays counted for its owner and the day, without saying for which
        session."""
        ...

    async def pin(self, session: SessionId, target: str, *, on: bool) -> None:
        """Pin or unpin a note or message by id; `epoch` grows where that changed anything.

        Raises:
            KeyError: The session has no live note, nor a message, with that id.
        """
        ...

    async def set_budget(self, session: SessionId, budget: int) -> None:
        """Remember the budget that the host asks for, for the planner."""
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
        """Items of the owner, pinned ones first, then the ones used (or made) last; `ids` names them."""
        ...

    async def change_items(self, change: ItemChange) -> None:
        """Apply one change to an owner's items; see `ItemChange`.

        An item that ends gets its time and what took its place. A use counts one up and sets the time. With
        a mark, the session has ended: its `ended` moves. Ended items stay where sessions show them.

        Raises:
            ConflictError: An item to end is no longer live, one to add is there already, or the session's
                mark is no longer the expected one.
        """
        ...

    async def archive_items(self, owner: str, ids: Sequence[str], *, now: datetime) -> Sequence[Item]:
        """Put items out of sight, whatever their status: no prompt shows them any more, and the `epoch` of
        sessions that did grows. Returns those that were not archived before."""
        ...

    async def delete_items(self, owner: str, ids: Sequence[str] | None = None) -> int:
        """Delete items for good, or all of the owner's; no prompt shows them any more. Items that name one
        as replaced, derived from or superseding lose that name. Returns how many there were."""
        ...

    async def pin_item(self, owner: str, item: str, *, on: bool) -> None:
        """Pin or unpin a live item. What sessions show stays as it is.

        Raises:
            KeyError: The owner has no live item with that id.
        """
        ...

    async def show_items(
        self, session: SessionId, ids: Sequence[str], *, now: datetime, anew: bool = False
    ) -> None:
        """Keep which items of its owner the session shows, in order, creating the session at need. What was
        chosen before stays, unless `anew`; `epoch` grows where the prompt changes. Items that are archived
        or not there are passed over."""
        ...

    async def idle(self, before: datetime, *, limit: int = 100) -> Sequence[SessionId]:
        """Sessions that were last used up to then and have messages after their `ended`, oldest first."""
        ...

    # -- search

    async def search(self, query: Query) -> Found:
        """The texts that are worth reading for a query: the conversation as it stands (`message`), without
        the summaries that compaction put in, or active notes (`note`). Only what is indexed is found.

        They are chosen by `policy.searching.ranking.shortlist`, and so the same in every store.
        """
        ...

    async def around(self, session: SessionId, seqs: Sequence[int], reach: int) -> Sequence[Message]:
        """The messages of the conversation at these seqs and up to `reach` from one, in order, each once;
        summaries that compaction put in are left out."""
        ...

    async def unindexed(
        self, owner: str, *, session: SessionId | None = None, limit: int = 100
    ) -> Sequence[SessionId]:
        """Sessions of the owner, or the one, that hold something which `search` cannot find yet."""
        ...

    async def index(self, session: SessionId, *, limit: int = 500) -> int:
        """Let `search` find what it cannot find yet, the oldest first; how many texts those were. As many
        as `limit`: there may be more. What is deleted or taken back leaves the index by itself."""
        ...

    # -- vectors and the graph

    async def behind(self, *, limit: int = 100) -> Sequence[SessionId]:
        """Sessions of any owner that hold something which `search` cannot find yet: no vector is looked for
        where nothing is found."""
        ...

    async def lacking(self, space: str, *, limit: int = 100) -> Sequence[Document]:
        """Texts that `search` finds, of any owner, and that have no vector of this embedder."""
        ...

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        """Keep the vectors of texts that still say the same; how many those were. A vector leaves with its
        text. Where vectors of the embedder have another size by now, all of before are dropped."""
        ...

    async def near(self, query: Near) -> Sequence[tuple[Match, float]]:
        """The texts whose vectors are closest, best first, each with the cosine, which is above 0.

        They are chosen by `policy.searching.vectors`, and so the same in every store.
        """
        ...

    async def unlinked(self, *, limit: int = 100) -> Sequence[Document]:
        """Notes, of any owner and status, whose mentions are not known yet."""
        ...

    async def link(self, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
        """Keep what notes mention, of those that still say the same; how many those were. Mentions leave
        with their note, and an entity with the last note that mentions it."""
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
        """Edges between an owner's notes, active and superseded, and their sessions and entities; those of
        one session, or those that begin or end at one of the nodes, where such are named. Spelling and case
        of an entity do not matter."""
        ...

    async def noted(self, wanted: Sequence[tuple[SessionId, str]]) -> Sequence[Match]:
        """Active notes by their ids, in that order, as what was found."""
        ...

    async def coverage(self, space: str) -> Coverage:
        """How much is indexed, of all owners."""
        ...

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
        """Give a live note another text, and keep the one before as a version. Notes in the making are
        void: `branch` grows.

        Raises:
            KeyError: The session has no live note with that id.
            ConflictError: `was` is given, and the note's text is another by now.
        """
        ...

    async def undo(self, session: SessionId, note_id: str, *, epoch: int, now: datetime) -> Progress:
        """Retire an active reflection; the notes that it was made from are active again.

        Raises:
            KeyError: The session has no active reflection with that id.
            ConflictError: `epoch` moved since it was read, or notes that it was made from are gone.
        """
        ...

    async def forget(self, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
        """Delete messages, wherever they are kept, with every version, extraction, pin, summary and index
        entry that comes from them, and put notes that were made without them in the place of those that
        mixed them with others. What a dropped summary stood for comes back from the archive.

        Raises:
            ConflictError: Notes changed since that was decided.
        """
        ...

    async def forget_owner(self, owner: str) -> int:
        """Delete every session and item of an owner; how many sessions there were. What calls cost stays
        counted for the day, without saying for whom."""
        ...

    async def erase(self) -> bool:
        """Make sure that nothing deleted can be read from the store's files any more; False where that
        waits for others who read them now."""
        ...

    # -- moving

    def dump(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        """What the store holds, as rows, all of one moment and in an order that every store keeps: each
        session with what belongs to it, then items, what calls cost, and values of the store."""
        ...

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, renew: bool = False
    ) -> dict[str, int]:
        """Take rows in, those of one session after the other and each session in one transaction; how
        many of each kind. A row that says the same thing as one before counts instead of it.

        A session that is there makes way with the items that were made in it and what it cost (`replace`),
        or without them (`renew`).

        Raises:
            ConflictError: A session is there already, and was not to make way.
            StoreError: The rows of a session do not say where it stands.
        """
        ...

    async def back_up(self, target: Path) -> None:
        """Copy the store to a new file while it is in use.

        Raises:
            StoreError: It is no file, or the target exists or cannot be written.
        """
        ...

    # -- work

    async def lease(self, session: SessionId, *, holder: str, now: datetime, until: datetime) -> int | None:
        """Take the session for one worker, or extend what it holds; None while another has it.

        Returns the fencing token: the same when extended, a higher one each time it changes hands.
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
        """Give the session back and say when it is due next. Nothing happens where the fence is no
        longer current. `due_at=None` (settled) keeps a due time that an append after `last_seq`
        has set meanwhile, and makes the session due where such an append reached `wake_at`."""
        ...

    async def due(self, now: datetime, *, limit: int = 1000) -> Sequence[SessionId]:
        """Sessions whose due time has come, longest due first."""
        ...

    async def record_usage(self, session: SessionId, usage: Usage) -> None:
        """Keep what a model call cost."""
        ...

    async def usage(self, session: SessionId | None = None) -> Sequence[Usage]:
        """What model calls cost, oldest first; of all sessions, deleted ones too, where none is named."""
        ...

    async def spent(
        self, *, session: SessionId | None = None, owner: str | None = None, since: datetime | None = None
    ) -> float:
        """What recorded calls cost together, in dollars: of one session, of all sessions of an owner, or
        of all (deleted ones included in the latter two); from `since` on. Calls without a known cost
        count as nothing."""
        ...

    # -- the whole store

    async def sessions(
        self, *, owner: str | None = None, key: str | None = None, limit: int | None = None
    ) -> Sequence[SessionSummary]:
        """Sessions, most recently used first."""
        ...

    async def prune(self, *, before: datetime, dry_run: bool = False) -> int:
        """Delete superseded and retired notes made before then, and retired messages said before
        then; return how many rows went, or would go. Live notes and everything they lead back to stay."""
        ...

    async def retain(self, session: SessionId, limits: Retention, *, dry_run: bool = False) -> Retained:
        """Put messages that have outlived the limits into the archive, and delete others for good, with their
        index entries; how many, or how many it would be.

        Notes stay, and so does whatever `stores.retaining.outlived` spares: above all what no active note
        stands for. What is archived is as compaction with `archive` leaves it, without a summary.
        """
        ...

    async def get_value(self, name: str) -> str | None:
        """A named value of the store itself (calibration, schema facts)."""
        ...

    async def set_value(self, name: str, value: str) -> None:
        """Set it."""
        ...


# ------------------------------------------------------------------------------------ reading


class Reading(Protocol):
    """A store as it is at one moment, for whoever only reads: nothing of it is created or upgraded."""

    @property
    def name(self) -> str:
        """Where it is, without secrets."""
        ...

    async def open(self) -> bool:
        """Take hold of this moment; False where nothing is stored there yet.

        Raises:
            StoreError: It cannot be read, or not by this version.
        """
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...

    async def mark(self) -> tuple[int, ...]:
        """How many sessions there are, and other numbers, which are others when sessions were used."""
        ...

    def rows(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        """As `Store.dump`."""
        ...


# ------------------------------------------------------------------------------------ workers


class Workers(Protocol):
    """Who takes the notes of sessions that are due: tasks of this process, or others elsewhere.

    What is due is in the store. Whoever is told of a session loads it, decides and commits; that it is told
    twice, late or in vain does no harm.
    """

    @property
    def here(self) -> bool:
        """Whether this process is one that works in the background. One that is not takes no notes by itself,
        indexes nothing, ends no sessions, keeps no files: others do all of that."""
        ...

    @property
    def pending(self) -> int:
        """Sessions that this process was told of and has not settled."""
        ...

    async def start(self) -> None:
        """Begin: what was due before, and what comes."""
        ...

    def wake(self, session: SessionId) -> None:
        """Say that the session may have something due. Returns at once, and raises nothing."""
        ...

    async def tick(self) -> int:
        """Take up every session that the store says is due; how many those were."""
        ...

    async def flush(self) -> None:
        """Wait until everything taken up so far is settled or has been put off."""
        ...

    async def stop(self, deadline: float) -> bool:
        """Take nothing new, and let work in progress complete; False where the deadline cut it off."""
        ...
