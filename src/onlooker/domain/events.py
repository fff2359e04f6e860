"""The events that a memory emits. Subscribe with `memory.subscribe` or `memory.events`.

docs/events.md lists them in a table; a test compares the two.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import field
from datetime import UTC, datetime
from typing import Literal

from onlooker.domain.context import Stats
from onlooker.domain.errors import SpendScope
from onlooker.domain.frozen import frozen
from onlooker.domain.history import ForgetResult
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Extraction, Note, NoteKind, Usage
from onlooker.domain.search import IndexName

# The time of an event that was not emitted yet.
UNSTAMPED = datetime.min.replace(tzinfo=UTC)


@frozen
class BaseEvent:
    """The fields of every event: when it happened, set when it is emitted, and how long it took."""

    at: datetime = field(default=UNSTAMPED, kw_only=True, compare=False)
    seconds: float = field(default=0.0, kw_only=True, compare=False)


@frozen
class SessionEvent(BaseEvent):
    """An event of one session."""

    session: SessionId

    @property
    def owner(self) -> str:
        return self.session.owner


# -- Messages


@frozen
class Recorded(SessionEvent):
    """Messages were recorded durably."""

    messages: tuple[Message, ...]


@frozen
class Realigned(SessionEvent):
    """The host's history diverged: messages after `keep` were taken back, and `added` ones recorded."""

    keep: int
    added: int


@frozen
class Compacted(SessionEvent):
    """Messages up to and including seq `up_to` were replaced by a summary."""

    up_to: int


# -- Notes

StepName = Literal["observe", "activate", "reflect", "rewrite"]


@frozen
class Planned(SessionEvent):
    """A step is due and starts now; `tokens` is the size of its input."""

    step: StepName
    tokens: int


@frozen
class Noted(SessionEvent):
    """An observation was written, or a note rewritten. A buffered note is not shown yet.

    `calls` are the model calls that it took; only the last can have been accepted. Empty if the built-in
    model wrote the note.
    """

    note: Note
    calls: tuple[Usage, ...] = ()


@frozen
class Activated(SessionEvent):
    """Buffered notes are now shown in the prompt in place of their messages."""

    notes: tuple[Note, ...]


@frozen
class Reflected(SessionEvent):
    """Notes were condensed into one."""

    note: Note
    sources: tuple[Note, ...]
    calls: tuple[Usage, ...] = ()


@frozen
class ModelReplied(SessionEvent):
    """A model replied; `usage` has the cost of the call and whether the reply was accepted."""

    usage: Usage


@frozen
class ReplyRejected(SessionEvent):
    """A model's reply cannot become a note. No message was consumed."""

    model: str
    reason: str
    detail: str


@frozen
class StepFailed(SessionEvent):
    """A step failed; it is tried again after `retry_in` seconds."""

    step: str
    error: str
    retry_in: float


@frozen
class SpendLimitReached(SessionEvent):
    """A model was not called, because the spend limit of the session, owner or day is reached."""

    scope: SpendScope
    spent: float
    limit: float


@frozen
class Extracted(SessionEvent):
    """Values of your own types were stored together with a note."""

    extractions: tuple[Extraction, ...]


@frozen
class ExtractionRejected(SessionEvent):
    """A value was not stored; its note was judged separately. An empty `type` means all values of a reply."""

    type: str
    reason: str
    detail: str


# -- Corrections and forgetting


@frozen
class Cleared(SessionEvent):
    """Notes of one kind or of both were deleted, and the messages they covered set aside."""

    kind: NoteKind | None
    notes: int


@frozen
class Pinned(SessionEvent):
    """A note or message was pinned, or unpinned."""

    target: str
    on: bool


@frozen
class Deleted(SessionEvent):
    """The session and everything in it was deleted."""


@frozen
class Edited(SessionEvent):
    """A person changed a note's text."""

    note: Note
    by: str


@frozen
class Undone(SessionEvent):
    """A reflection was replaced by the notes it was made from."""

    note: Note


@frozen
class Forgotten(SessionEvent):
    """Messages were forgotten, with everything derived from them."""

    done: ForgetResult


@frozen
class OwnerForgotten(BaseEvent):
    """Everything of an owner was forgotten."""

    owner: str
    done: ForgetResult


@frozen
class Pruned(BaseEvent):
    """Old rows were purged, over all sessions."""

    rows: int


# -- Items


@frozen
class ItemsMade(BaseEvent):
    """Items were saved for the owner's other sessions, or ended; `session` is the key of the session they
    come from, empty if a person saved them. `ended` are the ids of items that are no longer so."""

    owner: str
    items: tuple[Item, ...]
    session: str = ""
    ended: tuple[str, ...] = ()


@frozen
class ItemsForgotten(BaseEvent):
    """An item was archived, together with the items derived from it."""

    owner: str
    items: tuple[Item, ...]


@frozen
class ItemPinned(BaseEvent):
    """An item was pinned, or unpinned."""

    owner: str
    item: str
    on: bool


# -- Indexing


@frozen
class IndexDropped(SessionEvent):
    """The queue of an index is full, so the message or note `target` was not queued. The sweep indexes it
    later; `dropped` is the number of texts dropped so far."""

    index: IndexName
    target: str
    dropped: int


@frozen
class IndexFailed(BaseEvent):
    """Texts could not be indexed; the sweep tries again after `retry_in` seconds."""

    index: IndexName
    texts: int
    error: str
    retry_in: float


# -- Files: journals, and the Markdown files that people read and edit


@frozen
class JournalFailed(BaseEvent):
    """A journal could not be written; nothing is lost, and it is tried again."""

    file: str
    error: str
    retry_in: float


@frozen
class FileEdited(BaseEvent):
    """A person's changes to MEMORY.md were applied. Lines in `too_long` stay in the file."""

    owner: str
    file: str
    added: int
    changed: int
    deleted: int
    too_long: tuple[str, ...] = ()


@frozen
class FileBackedUp(BaseEvent):
    """A file had unexpected content and was copied before it was overwritten."""

    owner: str
    file: str
    copy: str
    reason: str


@frozen
class FileFailed(BaseEvent):
    """An owner's files could not be written; nothing is lost, and it is tried again."""

    owner: str
    file: str
    error: str
    retry_in: float


@frozen
class Consolidated:
    """The result of consolidating one daily file.

    `items` are the new items, ended ones included. `archived` is the file's new path, empty if it was not
    moved. `problem` says why the file was not consolidated.
    """

    owner: str
    day: dt.date
    file: str
    items: tuple[Item, ...] = ()
    archived: str = ""
    problem: str = ""


@frozen
class FileConsolidated(BaseEvent):
    """The notes of a day became items, and their file was archived."""

    owner: str
    done: Consolidated


# -- Contexts and search


@frozen
class ContextBuilt(SessionEvent):
    """A context was built; `stats` has its tokens by section and layer, and what did not fit."""

    stats: Stats


@frozen
class Searched(BaseEvent):
    """An owner's sessions were searched, or only the one with the key `session`."""

    owner: str
    query: str
    hits: int
    session: str = ""


@frozen
class Waited(SessionEvent):
    """A context waited for notes that were far behind (`block_after`)."""

    caught_up: bool


@frozen
class LayerLeftOut(SessionEvent):
    """A knowledge layer is missing from a context, because it failed or took too long."""

    layer: str
    reason: Literal["failed", "late"]
    detail: str


@frozen
class LayerCut(SessionEvent):
    """A knowledge layer was cut to its share: `tokens` were kept, `left_out` were cut."""

    layer: str
    tokens: int
    left_out: int


@frozen
class Calibrated(BaseEvent):
    """The correction factor of token counts changed, after usage reported by providers."""

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
