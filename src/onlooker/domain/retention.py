"""How long messages are kept, and what was done about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from onlooker.domain.messages import SessionId


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
class RetainedIn:
    """The same of one session."""

    session: SessionId
    archived: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Retained:
    """How many messages went into the archive, and how many for good; and in which sessions."""

    archived: int = 0
    deleted: int = 0
    sessions: tuple[RetainedIn, ...] = field(default=(), compare=False)

    def __add__(self, other: Retained) -> Retained:
        sessions = (*self.sessions, *other.sessions)
        return Retained(self.archived + other.archived, self.deleted + other.deleted, sessions)

    def of(self, session: SessionId) -> Retained:
        """With the session that it was, where anything went at all."""
        if not (self.archived or self.deleted):
            return self
        return replace(self, sessions=(RetainedIn(session, self.archived, self.deleted),))
