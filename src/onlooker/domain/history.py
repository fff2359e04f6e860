"""The history of a session's memory, forgetting, retention, and the rows of a store that exports, journals
and migrations consist of."""

from __future__ import annotations

from dataclasses import field, replace
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from onlooker.domain.frozen import frozen
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Extraction, Note, NoteStatus, Progress, Usage


@frozen
class Change:
    """One entry of a session's history: its progress after its notes changed.

    `statuses` are the new statuses of the notes that changed. `taken` is set where the host took messages
    back: those after the first seq, up to and including the second.
    """

    number: int  # counts from 1 within the session
    at: datetime
    last_seq: int  # the newest message at that time
    frontier: int
    watermark: int
    tail_start: int
    statuses: tuple[tuple[str, NoteStatus], ...] = ()
    taken: tuple[int, int] | None = None
    # The size of the session then, so that its messages need not be counted again.
    messages: int = 0  # of the conversation as it was then
    tokens: int = 0  # and their tokens
    replies: int = 0  # the number of the assistant's messages, including those taken back since
    held: int = 0  # the tokens of the active notes
    said_at: datetime | None = None  # when the newest message was said


@frozen
class Version:
    """One text of an edited note, past or present. A note that was never edited has no versions."""

    note: str
    number: int  # 1 is the original text
    change: int  # the number of the change that made it; 0 for the original
    text: str
    tokens: int
    by: str  # the model that wrote it, or the person
    at: datetime


@frozen
class Forgetting:
    """Messages to forget, with everything derived from them.

    `deleted` are notes made from these messages alone. `rewritten` are notes that also cover other
    messages, each with its new text. `change` and `revision` are the guard: the number of the session's
    last change, and its revision, as they were read.
    """

    messages: tuple[str, ...]
    deleted: tuple[str, ...]
    rewritten: tuple[Note, ...]
    change: int
    revision: int
    due: bool = False  # whether a model should rewrite the rewritten notes later
    items: tuple[str, ...] = ()  # the owner's items that come from these messages
    # Summaries made by compaction that mention what is forgotten, besides those that replaced it.
    summaries: tuple[str, ...] = ()


@frozen
class ForgetResult:
    """The counts of what was forgotten, or would be in a dry run.

    `erased` is false if bytes are left in files: because other connections still read the data, until they
    finish; because the store has a journal or notes in folders that this process does not know, until a
    process that does opens it; or because it is PostgreSQL, until `VACUUM FULL`.
    """

    messages: int = 0
    deleted_notes: int = 0
    rewritten_notes: int = 0
    items: int = 0
    sessions: int = 0
    erased: bool = True


@frozen
class ForgetRecord:
    """Who forgot what kind of thing, and when. Names are hashes (`SessionId.sid`), and the content is not
    kept."""

    at: datetime
    by: str
    what: Literal["messages", "session", "owner", "items"]
    count: int  # how many messages or items were named
    owner: str
    session: str  # empty for an owner, and for items


@frozen
class NoteHistory:
    """A note's past: its texts, oldest first, its status over time, and the notes made from it."""

    note: Note
    versions: tuple[Version, ...]
    statuses: tuple[tuple[datetime, NoteStatus], ...]
    made_into: tuple[str, ...]


# -- Retention: how long messages are kept


@frozen
class RetentionLimits:
    """Limits on a session's noted messages: by time (`_before`), or by number, newest first (`_beyond`).

    Messages beyond an archive limit leave the live session but can still be found and recalled. Messages
    beyond a delete limit are deleted, from the archive too. None means no limit.
    """

    archive_before: datetime | None = None
    archive_beyond: int | None = None
    delete_before: datetime | None = None
    delete_beyond: int | None = None

    @property
    def any(self) -> bool:
        """Whether any limit is set."""
        return self != RetentionLimits()


@frozen
class SessionRetention:
    """The counts of one session."""

    session: SessionId
    archived: int = 0
    deleted: int = 0


@frozen
class RetentionResult:
    """How many messages were archived and deleted, in total and by session."""

    archived: int = 0
    deleted: int = 0
    sessions: tuple[SessionRetention, ...] = field(default=(), compare=False)

    def __add__(self, other: RetentionResult) -> RetentionResult:
        sessions = (*self.sessions, *other.sessions)
        return RetentionResult(self.archived + other.archived, self.deleted + other.deleted, sessions)

    def of(self, session: SessionId) -> RetentionResult:
        """Return these counts attributed to one session, if they are not zero."""
        if not (self.archived or self.deleted):
            return self
        return replace(self, sessions=(SessionRetention(session, self.archived, self.deleted),))


# ------------------------------------------------------------------------------------ rows

# live: in the session; compacted: replaced by a summary; cleared: a person deleted the notes
# that covered it; retired: the host took it back.
MessagePlace = Literal["live", "compacted", "cleared", "retired"]


class Position(NamedTuple):
    """How much of a session is known: up to which message, and up to which change of its notes."""

    seq: int = 0
    change: int = 0


BEGINNING = Position()

ALL_HASHES = ("0" * 32, "f" * 32)


@frozen
class SessionRow:
    """A session: its progress, when it was last used, how often its notes changed, what is pinned,
    and which of its owner's items it shows (None: not chosen yet)."""

    progress: Progress
    used_at: datetime
    changes: int = 0
    pins: tuple[str, ...] = ()
    shown_items: tuple[str, ...] | None = None

    @property
    def session(self) -> SessionId:
        return self.progress.session


@frozen
class MessageRow:
    """A message, and its place in the session or the archive."""

    session: SessionId
    message: Message
    place: MessagePlace = "live"
    summary: bool = False  # compaction put it in


@frozen
class NoteRow:
    """A note of a session."""

    session: SessionId
    note: Note


@frozen
class ExtractionRow:
    """A value, and its place among those of its note."""

    session: SessionId
    number: int
    extraction: Extraction


@frozen
class VersionRow:
    """An earlier text of a note."""

    session: SessionId
    version: Version


@frozen
class ChangeRow:
    """A change of a session's notes."""

    session: SessionId
    change: Change


@frozen
class RestartRow:
    """In a journal: earlier lines about the session are no longer valid."""

    session: SessionId


@frozen
class ItemRow:
    """An item of an owner."""

    item: Item


@frozen
class UsageRow:
    """What a call cost, and for whom; without a session key if the session was deleted."""

    owner: str
    key: str | None
    usage: Usage


@frozen
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


# By the `kind` that a line of an export has.
ROW_TYPES: dict[str, type[Row]] = {row.__name__.removesuffix("Row").lower(): row for row in get_args(Row)}
_KINDS = {row: kind for kind, row in ROW_TYPES.items()}


def kind_of(row: Row) -> str:
    return _KINDS[type(row)]


RowKind = Literal["session", "message", "note", "extraction", "version", "change", "item", "usage", "value"]


_OF_STORE: frozenset[RowKind] = frozenset({"item", "usage", "value"})


@frozen
class Scope:
    """A part of a store: all of it, one owner, or one session; all kinds of rows, or some.

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
        """Whether it includes anything that belongs to sessions."""
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
