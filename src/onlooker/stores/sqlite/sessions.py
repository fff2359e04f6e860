"""The session's row: reading, saving, leasing, listing, deleting. All inside a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Progress, SessionSummary, Usage
from onlooker.stores.progress import released
from onlooker.stores.sqlite import items
from onlooker.stores.sqlite.rows import (
    from_instant,
    instant,
    pack,
    sid_of,
    to_progress,
    to_session,
    to_usage,
    unpack,
    usage_row,
)
from onlooker.stores.sqlite.statements import sql

NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class Row:
    """A session as stored: what everyone sees, and what only the store needs."""

    sid: bytes
    progress: Progress
    fence: int
    messages: int
    message_tokens: int
    used_at: int


def find(db: sqlite3.Connection, session: SessionId) -> Row | None:
    sid = sid_of(session)
    row = db.execute(sql("session"), (sid,)).fetchone()
    return None if row is None else _to_row(sid, row, session)


def find_or_create(db: sqlite3.Connection, session: SessionId, now: datetime) -> Row:
    return find(db, session) or create(db, session, now)


def create(db: sqlite3.Connection, session: SessionId, now: datetime) -> Row:
    sid = sid_of(session)
    values = (sid, pack(session.owner), pack(session.key), Progress(session).wake_at, instant(now))
    return _to_row(sid, db.execute(sql("create_session"), values).fetchone(), session)


def _to_row(sid: bytes, row: sqlite3.Row, session: SessionId) -> Row:
    progress = to_progress(row, session)
    return Row(sid, progress, row["fence"], row["messages"], row["message_tokens"], row["used_at"])


def save(db: sqlite3.Connection, row: Row) -> None:
    """Write back everything but budget and lease."""
    p = row.progress
    values: dict[str, Any] = {
        "sid": row.sid,
        "last_seq": p.last_seq,
        "frontier": p.frontier,
        "watermark": p.watermark,
        "tail_start": p.tail_start,
        "unnoted_tokens": p.unnoted_tokens,
        "revision": p.revision,
        "prompt_version": p.prompt_version,
        "history_hash": p.history_hash,
        "due_at": None if p.due_at is None else instant(p.due_at),
        "wake_at": p.wake_at,
        "failures": p.failures,
        "messages": row.messages,
        "message_tokens": row.message_tokens,
        "used_at": row.used_at,
    }
    db.execute(sql("save_session"), values)


def unnoted_tokens(db: sqlite3.Connection, sid: bytes, frontier: int) -> int:
    return db.execute(sql("unnoted_tokens"), (sid, frontier)).fetchone()[0]


def totals(db: sqlite3.Connection, sid: bytes) -> tuple[int, int]:
    """Messages and tokens of the conversation as it stands."""
    count, tokens = db.execute(sql("totals"), (sid,)).fetchone()
    return count, tokens


def delete(db: sqlite3.Connection, session: SessionId) -> bool:
    row = find(db, session)
    sid = sid_of(session)
    if row is not None:
        db.execute(sql("raise_beginnings"), (sid,))
    db.execute(sql("detach_usage"), (sid,))
    items.delete_of_session(db, sid)
    delete_rows(db, sid)
    return row is not None


def delete_rows(db: sqlite3.Connection, sid: bytes) -> None:
    """What a session alone is made of."""
    db.execute(sql("delete_messages"), (sid,))
    # The session last: its messages are found by way of it.
    for table in ("archive", "notes", "extractions", "changes", "versions", "pins", "sessions"):
        db.execute(f"DELETE FROM {table} WHERE sid = ?", (sid,))


def show_items(
    db: sqlite3.Connection, session: SessionId, ids: Sequence[str], now: datetime, anew: bool
) -> None:
    find_or_create(db, session, now)
    items.show(db, session, ids, anew)


def set_budget(db: sqlite3.Connection, session: SessionId, budget: int) -> None:
    db.execute(sql("set_budget"), (budget, sid_of(session)))


# ------------------------------------------------------------------------------------ work


def lease(
    db: sqlite3.Connection, session: SessionId, holder: str, now: datetime, until: datetime
) -> int | None:
    values = {
        "sid": sid_of(session),
        "holder": pack(holder),
        "now": instant(now),
        "until": instant(until),
    }
    row = db.execute(sql("lease"), values).fetchone()
    return None if row is None else row[0]


def release(
    db: sqlite3.Connection,
    session: SessionId,
    fence: int,
    last_seq: int,
    due_at: datetime | None,
    wake_at: int,
    failures: int,
) -> None:
    row = find(db, session)
    if row is None or not db.execute(sql("release"), (row.sid, fence)).rowcount:
        return
    used_at = from_instant(row.used_at)
    save(db, replace(row, progress=released(row.progress, used_at, last_seq, due_at, wake_at, failures)))


def due(db: sqlite3.Connection, now: datetime, limit: int) -> Sequence[SessionId]:
    return [to_session(row) for row in db.execute(sql("due"), (instant(now), max(limit, 0)))]


def record_usage(db: sqlite3.Connection, session: SessionId, usage: Usage) -> None:
    db.execute(sql("record_usage"), usage_row(session, usage))


def usage(db: sqlite3.Connection, session: SessionId | None) -> Sequence[Usage]:
    return [to_usage(row) for row in db.execute(sql("usage"), (session and sid_of(session),))]


def spent(
    db: sqlite3.Connection, session: SessionId | None, owner: str | None, since: datetime | None
) -> float:
    start = -NO_LIMIT if since is None else instant(since)
    if session is not None:
        row = db.execute(sql("spent_by_session"), (sid_of(session), start))
    elif owner is not None:
        row = db.execute(sql("spent_by_owner"), (pack(owner), start))
    else:
        row = db.execute(sql("spent"), (start,))
    return row.fetchone()[0]


# ------------------------------------------------------------------------------------ the store


def listing(
    db: sqlite3.Connection, owner: str | None, key: str | None, limit: int | None
) -> Sequence[SessionSummary]:
    values: dict[str, Any] = {
        "key": None if key is None else pack(key),
        "limit": NO_LIMIT if limit is None else max(limit, 0),
    }
    if owner is None:
        rows = db.execute(sql("list_sessions"), values)
    else:
        rows = db.execute(sql("list_sessions_of_owner"), values | {"owner": pack(owner)})
    return [_summary(db, row) for row in rows.fetchall()]


def _summary(db: sqlite3.Connection, row: sqlite3.Row) -> SessionSummary:
    sid = row["sid"]
    notes = {bool(kind): (count, tokens) for kind, count, tokens in db.execute(sql("note_totals"), (sid,))}
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


def _time(db: sqlite3.Connection, name: str, sid: bytes) -> datetime | None:
    row = db.execute(sql(name), (sid,)).fetchone()
    return datetime.fromisoformat(row[0]) if row and row[0] else None


def get_value(db: sqlite3.Connection, name: str) -> str | None:
    row = db.execute(sql("get_value"), (pack(name),)).fetchone()
    return None if row is None else unpack(row[0])


def set_value(db: sqlite3.Connection, name: str, value: str) -> None:
    db.execute(sql("set_value"), (pack(name), pack(value)))
