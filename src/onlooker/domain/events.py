"""What happens to a memory, as it happens. Subscribe with `memory.subscribe`."""

from __future__ import annotations

from dataclasses import dataclass

from onlooker.domain.context import Stats
from onlooker.domain.errors import SpendLimitOf
from onlooker.domain.extractions import Extraction
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Note


@dataclass(frozen=True, slots=True)
class Recorded:
    session: SessionId
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Realigned:
    """A host's history went another way: messages after `keep` were taken back."""

    session: SessionId
    keep: int
    added: int


@dataclass(frozen=True, slots=True)
class Noted:
    """An observation was written; buffered ones are not shown yet."""

    session: SessionId
    note: Note


@dataclass(frozen=True, slots=True)
class Activated:
    session: SessionId
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Reflected:
    session: SessionId
    note: Note
    sources: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A model's reply was not good enough; nothing was consumed."""

    session: SessionId
    model: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A step could not be done now; it is tried again after `retry_in` seconds."""

    session: SessionId
    what: str
    error: str
    retry_in: float


@dataclass(frozen=True, slots=True)
class SpendReached:
    """A model was not asked, since this session, its owner or the day has cost what it may."""

    session: SessionId
    what: SpendLimitOf
    spent: float
    limit: float


@dataclass(frozen=True, slots=True)
class Extracted:
    """Values of your own types were kept, together with the note they were written with."""

    session: SessionId
    extractions: tuple[Extraction, ...]


@dataclass(frozen=True, slots=True)
class ExtractionRefused:
    """A value was not kept, for this reason; its note was judged by itself. No type: all of a reply's."""

    session: SessionId
    type: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class ContextBuilt:
    session: SessionId
    stats: Stats


Event = (
    Recorded
    | Realigned
    | Noted
    | Activated
    | Reflected
    | Refused
    | Failed
    | SpendReached
    | Extracted
    | ExtractionRefused
    | ContextBuilt
)
