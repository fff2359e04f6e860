"""What a session's memory was before: changes to its notes, earlier texts of a note, and forgetting."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note, NoteStatus


@dataclass(frozen=True, slots=True)
class Change:
    """Where a session stood after its notes changed: one line of its history.

    `statuses` are those of the notes that it changed. A host that took messages back is `taken`: those
    after the first number, up to the second, are no longer part of the conversation.
    """

    number: int  # 1, 2, 3, … within the session
    at: datetime
    last_seq: int  # the newest message then
    frontier: int
    watermark: int
    tail_start: int
    statuses: tuple[tuple[str, NoteStatus], ...] = ()
    taken: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """A text that a note has, or had before it was edited. A note never edited has no versions kept."""

    note: str
    number: int  # 1 is the text that it was written with
    change: int  # the number of the change that brought it; 0 for the first
    text: str
    tokens: int
    by: str  # the model that wrote it, or the person
    at: datetime


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What goes when messages are forgotten, decided on what was read.

    `rewritten` are notes that mixed the messages with others, with a text that was made without them;
    `deleted` are those that nothing else is left for. `change` is the number of the session's last
    change and `revision` its revision when that was decided: the guard.
    """

    messages: tuple[str, ...]
    deleted: tuple[str, ...]
    rewritten: tuple[Note, ...]
    change: int
    revision: int
    due: bool = False  # whether a model should write the rewritten ones again
    items: tuple[str, ...] = ()  # the owner's items that come from what is forgotten
    # Summaries that compaction put in and that tell of it, besides those that stand for it.
    summaries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """What forgetting did, or would do: how many messages, notes and items go, and how many notes are
    rewritten without them. `erased` is false where the bytes go from the files only when others have
    finished reading them."""

    messages: int = 0
    deleted_notes: int = 0
    rewritten_notes: int = 0
    items: int = 0
    sessions: int = 0
    erased: bool = True


@dataclass(frozen=True, slots=True)
class NoteHistory:
    """What became of a note: its texts, oldest first; its status over time; and the notes made from it."""

    note: Note
    versions: tuple[Version, ...]
    statuses: tuple[tuple[datetime, NoteStatus], ...]
    made_into: tuple[str, ...]


# -- How long messages are kept, and what was done about it


@dataclass(frozen=True, slots=True)
class Retention:
    """What a session need not keep: noted messages said before a time, or older than its newest so many.

    They go into the archive, where they are out of the live session but can be recalled and found; or they
    are deleted for good, from the archive too. None is no limit.
    """

    archive_before: datetime | None = None
    archive_beyond: int | None = None
    delete_before: datetime | None = None
    delete_beyond: int | None = None

    @property
    def limits(self) -> bool:
        """Whether there is any limit."""
        return self != Retention()


@dataclass(frozen=True, slots=True)
class SessionRetention:
    """The same of one session."""

    session: SessionId
    archived: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """How many messages went into the archive, and how many for good; and in which sessions."""

    archived: int = 0
    deleted: int = 0
    sessions: tuple[SessionRetention, ...] = field(default=(), compare=False)

    def __add__(self, other: RetentionResult) -> RetentionResult:
        sessions = (*self.sessions, *other.sessions)
        return RetentionResult(self.archived + other.archived, self.deleted + other.deleted, sessions)

    def of(self, session: SessionId) -> RetentionResult:
        """With the session that it was, where anything went at all."""
        if not (self.archived or self.deleted):
            return self
        return replace(self, sessions=(SessionRetention(session, self.archived, self.deleted),))
