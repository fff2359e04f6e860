"""Which messages of a session have outlived its limits, decided once for every store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from onlooker.domain.history import Retention, RetentionResult
from onlooker.domain.notes import LIVE, Note, Progress


@dataclass(frozen=True, slots=True)
class Kept:
    """A message of the conversation as it stands, without its text."""

    seq: int
    id: str
    at: datetime | None
    live: bool


@dataclass(frozen=True, slots=True)
class Outlived:
    """What goes into the archive, and what goes for good."""

    archive: tuple[Kept, ...]
    delete: tuple[Kept, ...]

    @property
    def counts(self) -> RetentionResult:
        return RetentionResult(len(self.archive), len(self.delete))


def outlived(
    messages: Sequence[Kept],
    limits: Retention,
    progress: Progress,
    *,
    pins: Collection[str],
    notes: Iterable[Note],
) -> Outlived:
    """Choose among the conversation, in order.

    Nothing goes that an active note does not stand for, or that stands raw in the prompt besides; nor what is
    pinned; nor what a note that is still to be written anew was made from.
    """
    last = min(progress.watermark, progress.tail_start - 1)
    unfinished = [n for n in notes if n.degraded and n.status in LIVE]

    def may_go(message: Kept) -> bool:
        if message.seq > last or message.id in pins:
            return False
        return not any(n.first <= message.seq <= n.last for n in unfinished)

    archive: list[Kept] = []
    delete: list[Kept] = []
    for place, message in enumerate(messages):
        newer = len(messages) - place - 1
        if not may_go(message):
            continue
        if _past(message, newer, limits.delete_before, limits.delete_beyond):
            delete.append(message)
        elif message.live and _past(message, newer, limits.archive_before, limits.archive_beyond):
            archive.append(message)
    return Outlived(tuple(archive), tuple(delete))


def _past(message: Kept, newer: int, before: datetime | None, beyond: int | None) -> bool:
    """Whether it was said before then, or as many came after it as are to be kept."""
    if before is not None and message.at is not None and message.at < before:
        return True
    return beyond is not None and newer >= beyond
