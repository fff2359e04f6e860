"""What happens to a memory, as it happens. Subscribe with `memory.subscribe` or `memory.events`.

docs/events.md has them all in a table; a test compares the two.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from onlooker.domain.context import Stats
from onlooker.domain.errors import SpendScope
from onlooker.domain.history import ForgetResult
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Extraction, Note, NoteKind, Usage
from onlooker.domain.search import IndexName

# -- What happens to the files that people read and edit


@dataclass(frozen=True, slots=True)
class Consolidated:
    """A daily file whose notes became items. `archived` is its new path, empty if it was not moved.

    `items` are the new ones, including any that ended at once. `problem` says why the file was skipped.
    """

    owner: str
    day: dt.date
    file: str
    items: tuple[Item, ...] = ()
    archived: str = ""
    problem: str = ""


# -- What happens to a memory

# An event that was not emitted yet.
UNSTAMPED = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class BaseEvent:
    """What every event has: when it happened, filled in as it is emitted, and how long it took."""

    at: datetime = field(default=UNSTAMPED, kw_only=True, compare=False)
    seconds: float = field(default=0.0, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class SessionEvent(BaseEvent):
    """An event of one session."""

    session: SessionId

    @property
    def owner(self) -> str:
        return self.session.owner


# ------------------------------------------------------------------------------------ messages


@dataclass(frozen=True, slots=True)
class Recorded(SessionEvent):
    """Messages were recorded, and are durable."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Realigned(SessionEvent):
    """A host's history went another way: messages after `keep` were taken back."""

    keep: int
    added: int


@dataclass(frozen=True, slots=True)
class Compacted(SessionEvent):
    """Messages up to seq `up_to`, inclusive, made way for a summary."""

    up_to: int


# ------------------------------------------------------------------------------------ notes

StepName = Literal["observe", "activate", "reflect", "rewrite"]


@dataclass(frozen=True, slots=True)
class Planned(SessionEvent):
    """A step is due and begins now; `tokens` is how much it takes in."""

    step: StepName
    tokens: int


@dataclass(frozen=True, slots=True)
class Noted(SessionEvent):
    """An observation was written, or a note rewritten; buffered ones are not shown yet.

    `calls` are the model calls that it took, of which at most the last was accepted; none where the
    built-in model wrote it.
    """

    note: Note
    calls: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True)
class Activated(SessionEvent):
    """Notes written ahead now stand in the prompt, in place of their messages."""

    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Reflected(SessionEvent):
    """Notes were condensed into one."""

    note: Note
    sources: tuple[Note, ...]
    calls: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelReplied(SessionEvent):
    """A model replied, well or not; `usage` says what it cost and what became of the reply."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class ReplyRejected(SessionEvent):
    """A model's reply was not good enough; nothing was consumed."""

    model: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class StepFailed(SessionEvent):
    """A step could not be done now; it is tried again after `retry_in` seconds."""

    what: str
    error: str
    retry_in: float


@dataclass(frozen=True, slots=True)
class SpendLimitReached(SessionEvent):
    """A model was not asked, since this session, its owner or the day has cost what it may."""

    what: SpendScope
    spent: float
    limit: float


@dataclass(frozen=True, slots=True)
class Extracted(SessionEvent):
    """Values of your own types were kept, together with the note they were written with."""

    extractions: tuple[Extraction, ...]


@dataclass(frozen=True, slots=True)
class ExtractionRejected(SessionEvent):
    """A value was not kept, for this reason; its note was judged by itself. No type: all of a reply's."""

    type: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Cleared(SessionEvent):
    """Notes were deleted, of one kind or of both; the messages they stood for are set aside."""

    kind: NoteKind | None
    notes: int


@dataclass(frozen=True, slots=True)
class Pinned(SessionEvent):
    """A note or message was pinned, or let go again."""

    target: str
    on: bool


@dataclass(frozen=True, slots=True)
class Deleted(SessionEvent):
    """The session was deleted with everything in it."""


@dataclass(frozen=True, slots=True)
class Edited(SessionEvent):
    """A person gave a note another text."""

    note: Note
    by: str


@dataclass(frozen=True, slots=True)
class Undone(SessionEvent):
    """A reflection gave way to the notes that it was made from."""

    note: Note


@dataclass(frozen=True, slots=True)
class Forgotten(SessionEvent):
    """Messages were forgotten, with everything derived from them; `done` says how much that was."""

    done: ForgetResult


@dataclass(frozen=True, slots=True)
class OwnerForgotten(BaseEvent):
    """Everything of an owner was forgotten."""

    owner: str
    done: ForgetResult


@dataclass(frozen=True, slots=True)
class JournalFailed(BaseEvent):
    """A journal file could not be written. Nothing is lost, and it is retried."""

    file: str
    error: str
    retry_in: float


@dataclass(frozen=True, slots=True)
class Pruned(BaseEvent):
    """Retention purged rows, over all sessions."""

    rows: int


# ------------------------------------------------------------------------------------ items


@dataclass(frozen=True, slots=True)
class ItemsMade(BaseEvent):
    """Facts were kept for other sessions of the owner; `session` is the key of the one they come from,
    empty where a person saved them."""

    owner: str
    items: tuple[Item, ...]
    session: str = ""


@dataclass(frozen=True, slots=True)
class ItemsForgotten(BaseEvent):
    """Items were archived: one that was named, and what went with it."""

    owner: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class ItemPinned(BaseEvent):
    """An item was pinned, or unpinned."""

    owner: str
    item: str
    on: bool


# ------------------------------------------------------------------------------------ indexing


@dataclass(frozen=True, slots=True)
class IndexDropped(SessionEvent):
    """A text was not queued for an index, since too many wait already: the message or note `target`. The
    sweep finds it; `dropped` is how many there were so far."""

    index: IndexName
    target: str
    dropped: int


@dataclass(frozen=True, slots=True)
class IndexFailed(BaseEvent):
    """So many texts could not be indexed now; the sweep tries them again after so many seconds."""

    index: IndexName
    texts: int
    error: str
    retry_in: float


# ------------------------------------------------------------------------------------ files


@dataclass(frozen=True, slots=True)
class FileEdited(BaseEvent):
    """A person's edits of MEMORY.md were taken in. Lines in `too_long` are not, and stay in the file."""

    owner: str
    file: str
    added: int
    changed: int
    deleted: int
    too_long: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileBackedUp(BaseEvent):
    """A file looked damaged, and was copied before it was written again."""

    owner: str
    file: str
    copy: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileFailed(BaseEvent):
    """An owner's files could not be written. Nothing is lost, and it is retried."""

    owner: str
    file: str
    error: str
    retry_in: float


@dataclass(frozen=True, slots=True)
class FileConsolidated(BaseEvent):
    """The notes of a day became items, and their file was archived."""

    owner: str
    done: Consolidated


# ------------------------------------------------------------------------------------ contexts


@dataclass(frozen=True, slots=True)
class ContextBuilt(SessionEvent):
    """A context was handed out; `stats` has its tokens by section and layer, and what did not fit."""

    stats: Stats


@dataclass(frozen=True, slots=True)
class Searched(BaseEvent):
    """Somebody looked for something in an owner's sessions, or in the one with the key `session`."""

    owner: str
    query: str
    hits: int
    session: str = ""


@dataclass(frozen=True, slots=True)
class Waited(SessionEvent):
    """A context waited for notes that were far behind (`block_after`), in vain or not."""

    caught_up: bool


@dataclass(frozen=True, slots=True)
class LayerLeftOut(SessionEvent):
    """A knowledge layer gave nothing for this context, since it failed or took too long."""

    layer: str
    reason: Literal["failed", "late"]
    detail: str


@dataclass(frozen=True, slots=True)
class LayerCut(SessionEvent):
    """A knowledge layer gave more than its share; so many of its tokens stayed, and so many went."""

    layer: str
    tokens: int
    left_out: int


@dataclass(frozen=True, slots=True)
class Calibrated(BaseEvent):
    """Counts are corrected by another factor, learned from what providers reported."""

    ratio: float


Event = (
    Recorded
    | Realigned
    | Compacted
    | Planned
    | Noted
    | Activated
    | Reflected
    | ModelReplied
    | ReplyRejected
    | StepFailed
    | SpendLimitReached
    | Extracted
    | ExtractionRejected
    | Cleared
    | Pinned
    | Deleted
    | Edited
    | Undone
    | Forgotten
    | OwnerForgotten
    | JournalFailed
    | Pruned
    | ItemsMade
    | ItemsForgotten
    | ItemPinned
    | IndexDropped
    | IndexFailed
    | FileEdited
    | FileBackedUp
    | FileFailed
    | FileConsolidated
    | ContextBuilt
    | Searched
    | Waited
    | LayerLeftOut
    | LayerCut
    | Calibrated
)
