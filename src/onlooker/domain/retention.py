"""How long messages are kept, and what was done about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


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
class Retained:
    """How many messages went into the archive, and how many for good."""

    archived: int = 0
    deleted: int = 0

    def __add__(self, other: Retained) -> Retained:
        return Retained(self.archived + other.archived, self.deleted + other.deleted)
