"""What a store holds: its sessions, and everything in numbers for `onlooker doctor`. All inside a
transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import SessionSummary
from onlooker.domain.search import IndexCoverage
from onlooker.stores.sql import indexes
from onlooker.stores.sql.database import (
    NO_LIMIT,
    Database,
    from_instant,
    instant,
    limit_of,
    pack,
    sid_of,
    to_progress,
    unpack,
)
from onlooker.stores.sql.sessions import get_value

# ------------------------------------------------------------------------------------ sessions


def sessions(
    db: Database,
    *,
    owner: str | None = None,
    key: str | None = None,
    limit: int | None = None,
    after: tuple[datetime, str] | None = None,
    matching: str = "",
) -> Sequence[SessionSummary]:
    used_at, sid = (NO_LIMIT, b"") if after is None else (instant(after[0]), bytes.fromhex(after[1]))
    where: dict[str, Any] = {
        "used_at": used_at,
        "sid": sid,
        "words": _like(matching),
        "limit": limit_of(limit),
    }
    if owner is None:
        rows = db.run("list_sessions", **where, key=None if key is None else pack(key)).fetchall()
    elif key is None:
        rows = db.run("list_sessions_of_owner", **where, owner=pack(owner)).fetchall()
    else:
        rows = [
            row
            for row in db.run("session", sid=sid_of(SessionId(owner, key))).fetchall()
            if (-row["used_at"], row["sid"]) > (-used_at, sid) and matches(SessionId(owner, key), matching)
        ][:limit]
    return [_summary(db, row) for row in rows]


def matches(session: SessionId, words: str) -> bool:
    """Whether the key or owner of a session contains this text, ignoring the case of A to Z."""
    return any(lowered(words) in lowered(name) for name in (session.key, session.owner))


_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def lowered(text: str) -> str:
    """Lower case for A to Z only, as in both databases, whatever their locale."""
    return text.translate(_LOWER)


def _like(words: str) -> str | None:
    if not words:
        return None
    found = re.sub(r"[!%_]", r"!\g<0>", lowered(pack(words)))
    return f"%{found}%"


def owners(db: Database, *, limit: int) -> Sequence[str]:
    return [unpack(row[0]) for row in db.run("owners", limit=limit_of(limit))]


def _summary(db: Database, row: Any) -> SessionSummary:
    sid = row["sid"]
    notes = {bool(kind): counts for kind, *counts in db.run("note_totals", sid=sid)}
    observations, observation_tokens, degraded = notes.get(False, (0, 0, 0))
    reflections, reflection_tokens, degraded_reflections = notes.get(True, (0, 0, 0))
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
        used_at=from_instant(row["used_at"]),
        degraded=degraded + degraded_reflections,
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


@frozen
class Inspection:
    """What to inspect: sessions at `now`, spending since `since`, the coverage of the indexes with the
    vectors of `embedder`, and some of the store's named values."""

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


@frozen
class Contents:
    """Sessions, spending and indexes of a store."""

    sessions: Overview
    newest_message: datetime | None
    spending: Spending
    coverage: IndexCoverage
    values: Mapping[str, str]
