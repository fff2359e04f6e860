"""The history of a session's notes: one change after another. All inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from onlooker.domain.history import Change
from onlooker.domain.notes import Commit, NoteStatus, Progress
from onlooker.policy.history import Rollback
from onlooker.stores.sql.database import Database
from onlooker.stores.sql.rows import change_values

# Notes that a change affects, with their new status.
Statuses = Iterable[tuple[str, NoteStatus]]


def last_change(db: Database, sid: bytes) -> int:
    return db.value("last_change", sid=sid)


def log(
    db: Database,
    sid: bytes,
    progress: Progress,
    at: datetime,
    statuses: Statuses = (),
    taken: tuple[int, int] | None = None,
) -> Change:
    """Record that the notes changed."""
    change = change_of(progress, last_change(db, sid) + 1, at, statuses, taken)
    db.run("add_change", **change_values(sid, change))
    return change


def change_of(
    progress: Progress,
    number: int,
    at: datetime,
    statuses: Statuses = (),
    taken: tuple[int, int] | None = None,
) -> Change:
    """The change that led to this progress."""
    p = progress
    return Change(number, at, p.last_seq, p.frontier, p.watermark, p.tail_start, tuple(statuses), taken)


def changed_by(change: Commit) -> list[tuple[str, NoteStatus]]:
    """The notes that a commit changes."""
    superseded: NoteStatus = "superseded"
    active: NoteStatus = "active"
    return [
        *((ident, superseded) for ident in change.supersede),
        *((ident, active) for ident in change.activate),
        *((note.id, note.status) for note in change.add),
    ]


def rolled_back(decision: Rollback) -> list[tuple[str, NoteStatus]]:
    """The notes that a realignment changes."""
    retired: NoteStatus = "retired"
    active: NoteStatus = "active"
    return [*((i, retired) for i in decision.retire), *((i, active) for i in decision.revive)]


def deleted(notes: Iterable[str]) -> list[tuple[str, NoteStatus]]:
    """Deleted notes, which are retired in the history."""
    return [(ident, "retired") for ident in notes]


def time_of(change: Commit, fallback: datetime) -> datetime:
    """When a commit happened."""
    return change.at or max((note.made_at for note in change.add), default=fallback)
