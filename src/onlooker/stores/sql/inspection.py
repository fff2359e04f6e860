"""What a store holds: its sessions, and everything in numbers for `onlooker doctor`. All inside a
transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from onlooker.domain.notes import SessionSummary
from onlooker.domain.search import IndexCoverage
from onlooker.stores.sql import indexes
from onlooker.stores.sql.database import Database
from onlooker.stores.sql.rows import from_instant, instant, limit_of, pack, to_progress
from onlooker.stores.sql.sessions import get_value

# ------------------------------------------------------------------------------------ sessions


def sessions(
    db: Database, *, owner: str | None = None, key: str | None = None, limit: int | None = None
) -> Sequence[SessionSummary]:
    packed, most = None if key is None else pack(key), limit_of(limit)
    if owner is None:
        rows = db.run("list_sessions", key=packed, limit=most)
    else:
        rows = db.run("list_sessions_of_owner", owner=pack(owner), key=packed, limit=most)
    return [_summary(db, row) for row in rows.fetchall()]


def _summary(db: Database, row: Any) -> SessionSummary:
    sid = row["sid"]
    notes = {bool(kind): (count, tokens) for kind, count, tokens in db.run("note_totals", sid=sid)}
    observations, observation_tokens = notes.get(False, (0, 0))
    reflections, reflection_tokens = notes.get(True, (0, 0))
    return SessionSummary(
        progress=to_progress(row),
        messages=row["messages"],
        message_tokens=row["message_tokens"],
        observations=observations,
        observation_tokens=observation_tokens,
        reflections=reflections,
        reflection_tokens=reflection_tokens,
        started_at=_time(db, "started_at", sid),
        last_at=_time(db, "last_at", sid),
    )


def _time(db: Database, name: str, sid: bytes) -> datetime | None:
    row = db.run(name, sid=sid).fetchone()
    return datetime.fromisoformat(row[0]) if row and row[0] else None


# ------------------------------------------------------------------------------------ in numbers


class Overview(NamedTuple):
    """The sessions of a store in numbers."""

    sessions: int
    due: int
    due_since: datetime | None  # the earliest due time that has come
    failing: int
    leased: int


class Spending(NamedTuple):
    """What model calls cost in dollars, and how many have no known cost."""

    since: float
    most_by_owner: float
    most_in_session: float
    unknown: int


def overview(db: Database, now: datetime) -> Overview:
    count, due, since, failing, leased = db.run("overview", now=instant(now)).fetchone()
    return Overview(count, due, None if since is None else from_instant(since), failing, leased)


def spending(db: Database, since: datetime) -> Spending:
    return Spending(*db.run("spending", since=instant(since)).fetchone())


def newest_message(db: Database) -> datetime | None:
    at = db.value("newest_message")
    return None if at is None else datetime.fromisoformat(at)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What to look for: how sessions stand `now`, what was spent since `since`, how far the indexes are with
    the vectors of `embedder`, and some of the store's named values."""

    now: datetime
    since: datetime
    embedder: str = ""
    values: Sequence[str] = ()

    def contents(self, db: Database) -> Contents:
        found = ((name, get_value(db, name)) for name in self.values)
        return Contents(
            overview(db, self.now),
            newest_message(db),
            spending(db, self.since),
            indexes.coverage(db, self.embedder),
            {name: value for name, value in found if value is not None},
        )


@dataclass(frozen=True, slots=True)
class Contents:
    """Sessions, spending and indexes of a store."""

    sessions: Overview
    newest_message: datetime | None
    spending: Spending
    coverage: IndexCoverage
    values: Mapping[str, str]
