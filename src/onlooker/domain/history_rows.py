"""A store as rows that any store can give and take: what exports, journals and moves are made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from onlooker.domain.history import Change, Version
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Extraction, Note, Progress, Usage

# live: in the session; compacted: a summary stands in its place; cleared: a person deleted the notes
# that stood for it; retired: the host took it back.
MessagePlace = Literal["live", "compacted", "cleared", "retired"]


class Position(NamedTuple):
    """How much of a session is known: up to which message, and up to which change of its notes."""

    seq: int = 0
    change: int = 0


BEGINNING = Position()

ALL_HASHES = ("0" * 32, "f" * 32)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session: where it stands, when it was last used, how often its notes changed, what is pinned,
    and which of its owner's items it shows (None: not chosen yet)."""

    progress: Progress
    used_at: datetime
    changes: int = 0
    pins: tuple[str, ...] = ()
    shown_items: tuple[str, ...] | None = None

    @property
    def session(self) -> SessionId:
        return self.progress.session


@dataclass(frozen=True, slots=True)
class MessageRow:
    session: SessionId
    message: Message
    place: MessagePlace = "live"
    summary: bool = False  # compaction put it in


@dataclass(frozen=True, slots=True)
class NoteRow:
    session: SessionId
    note: Note


@dataclass(frozen=True, slots=True)
class ExtractionRow:
    """A value, and its place among those of its note."""

    session: SessionId
    number: int
    extraction: Extraction


@dataclass(frozen=True, slots=True)
class VersionRow:
    session: SessionId
    version: Version


@dataclass(frozen=True, slots=True)
class ChangeRow:
    session: SessionId
    change: Change


@dataclass(frozen=True, slots=True)
class RestartRow:
    """In a journal: what stands before this about the session no longer holds."""

    session: SessionId


@dataclass(frozen=True, slots=True)
class ItemRow:
    item: Item


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What a call cost, and for whom; the session's key is gone where that was deleted."""

    owner: str
    key: str | None
    usage: Usage


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A named value of the store itself."""

    name: str
    value: str


OfSession = SessionRow | MessageRow | NoteRow | ExtractionRow | VersionRow | ChangeRow | RestartRow
OfStore = ItemRow | UsageRow | ValueRow
Row = OfSession | OfStore


def session_of(row: Row) -> SessionId | None:
    """The session that a row is part of; None for what belongs to the store itself."""
    return None if isinstance(row, OfStore) else row.session


RowKind = Literal["session", "message", "note", "extraction", "version", "change", "item", "usage", "value"]


_OF_STORE: frozenset[RowKind] = frozenset({"item", "usage", "value"})


@dataclass(frozen=True, slots=True)
class Scope:
    """What is wanted of a store: all of it, one owner's, or one session; of some kinds only.

    `after` is for one session: only what is new since. `between` leaves out sessions whose hash (`sid`) is
    below the first or above the second, and whatever belongs to no session: a store in pages.
    """

    owner: str | None = None
    session: SessionId | None = None
    kinds: frozenset[RowKind] | None = None
    after: Position = BEGINNING
    between: tuple[str, str] | None = None

    def wants(self, kind: RowKind) -> bool:
        if self.between is not None and kind in _OF_STORE:
            return False
        return self.kinds is None or kind in self.kinds

    @property
    def of_sessions(self) -> bool:
        """Whether anything is wanted that belongs to sessions: else they need not be looked at."""
        return self.kinds is None or not self.kinds <= _OF_STORE

    @property
    def hashes(self) -> tuple[str, str]:
        """The lowest and the highest hash that a session may have."""
        if self.session is not None:
            return self.session.sid, self.session.sid
        return self.between or ALL_HASHES


# Named values that mean the same in another store.
PORTABLE_VALUES = ("calibration",)

EVERYTHING = Scope()
