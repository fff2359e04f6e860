"""The session's row: its progress, lease, usage; listing and deleting. All inside a transaction.

The first part says how progress changes and when a change is refused; it is plain functions without SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from onlooker.domain.errors import ConflictError
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId, extend_history_hash
from onlooker.domain.notes import Commit, Guard, Progress, Realignment, SessionSummary, Usage
from onlooker.policy.plan import is_due
from onlooker.stores.sql import items
from onlooker.stores.sql.database import Database
from onlooker.stores.sql.rows import (
    NO_LIMIT,
    from_instant,
    instant,
    limit_of,
    pack,
    progress_values,
    sid_of,
    to_progress,
    to_session,
    to_usage,
    unpack,
    usage_values,
)

# ------------------------------------------------------------------------------------ progress


def check_commit(progress: Progress, fence: int, guard: Guard) -> None:
    """Refuse notes that were written for another state of the session."""
    if guard.frontier != progress.frontier:
        raise ConflictError(f"the frontier moved from {guard.frontier} to {progress.frontier}")
    if guard.revision != progress.revision:
        raise ConflictError(f"the revision moved from {guard.revision} to {progress.revision}")
    if guard.fence is not None and guard.fence != fence:
        raise ConflictError(f"the lease moved from fence {guard.fence} to {fence}")


def check_realignment(progress: Progress, change: Realignment) -> None:
    """Refuse a change that was decided on another state of the session."""
    if change.last_seq != progress.last_seq:
        raise ConflictError(f"the last message moved from {change.last_seq} to {progress.last_seq}")
    check_revision(progress, change.revision)


def check_revision(progress: Progress, revision: int | None) -> None:
    """Refuse a decision made before messages were taken back; None skips the check."""
    if revision is not None and revision != progress.revision:
        raise ConflictError(f"the revision moved from {revision} to {progress.revision}")


def committed(progress: Progress, change: Commit) -> Progress:
    """The progress after a commit, except for the un-noted tokens."""
    return replace(
        progress,
        frontier=progress.frontier if change.frontier is None else change.frontier,
        watermark=progress.watermark if change.watermark is None else change.watermark,
        tail_start=progress.tail_start if change.tail_start is None else change.tail_start,
        prompt_version=progress.prompt_version + change.changes_prompt,
    )


def grown(
    progress: Progress, fresh: Sequence[Message], history_hash: bytes, due_tokens: int, now: datetime
) -> Progress:
    """The progress after an append of these messages."""
    p = progress
    last_seq, unnoted = p.last_seq + len(fresh), p.unnoted_tokens + sum(m.tokens for m in fresh)
    due = now if p.due_at is None and is_due(unnoted, due_tokens, p.wake_at) else p.due_at
    # Positional arguments are faster than `replace`, and this runs for every append.
    # fmt: off
    return Progress(
        p.session, last_seq, p.frontier, p.watermark, p.tail_start, unnoted, p.revision, p.prompt_version,
        p.budget, history_hash, due, p.wake_at, p.failures, p.ended,
    )
    # fmt: on


def made_due(progress: Progress, due_tokens: int, now: datetime) -> Progress:
    """Due from now on, if there is enough to note and it was not due before."""
    if progress.due_at is None and is_due(progress.unnoted_tokens, due_tokens, progress.wake_at):
        return replace(progress, due_at=now)
    return progress


def released(
    progress: Progress, used_at: datetime, last_seq: int, due_at: datetime | None, wake_at: int, failures: int
) -> Progress:
    """The progress after a worker that saw the session up to `last_seq` released it.

    An append in the meantime did not know the new `wake_at`. If it reached that, the session has been due
    since then (`used_at`); otherwise nothing would wake it before the next message. If it did not, nothing
    is due: else each message that comes while a session is settled would have it settled again.
    """
    settled = replace(progress, due_at=due_at, wake_at=wake_at, failures=failures)
    return settled if progress.last_seq <= last_seq else made_due(settled, wake_at, used_at)


# ------------------------------------------------------------------------------------ the row


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as stored: its progress, and what only the store needs."""

    sid: bytes
    progress: Progress
    fence: int
    messages: int
    message_tokens: int
    used_at: int


def find(db: Database, session: SessionId) -> StoredSession | None:
    sid = sid_of(session)
    row = db.run("session", sid=sid).fetchone()
    return None if row is None else _stored(sid, row, session)


def find_or_create(db: Database, session: SessionId, now: datetime) -> StoredSession:
    return find(db, session) or create(db, session, now)


def create(db: Database, session: SessionId, now: datetime) -> StoredSession:
    sid = sid_of(session)
    names = {"owner": pack(session.owner), "key": pack(session.key)}
    created = db.run(
        "create_session", sid=sid, wake_at=Progress(session).wake_at, used_at=instant(now), **names
    )
    return _stored(sid, created.fetchone(), session)


def _stored(sid: bytes, row: Any, session: SessionId) -> StoredSession:
    progress = to_progress(row, session)
    return StoredSession(sid, progress, row["fence"], row["messages"], row["message_tokens"], row["used_at"])


def save(db: Database, stored: StoredSession) -> None:
    """Write everything except budget and lease."""
    db.run(
        "save_session",
        sid=stored.sid,
        messages=stored.messages,
        message_tokens=stored.message_tokens,
        used_at=stored.used_at,
        **progress_values(stored.progress),
    )


def unnoted_tokens(db: Database, sid: bytes, frontier: int) -> int:
    return db.value("unnoted_tokens", sid=sid, frontier=frontier)


def totals(db: Database, sid: bytes) -> tuple[int, int]:
    """The number of messages and tokens of the current conversation."""
    count, tokens = db.run("totals", sid=sid).fetchone()
    return count, tokens


def history_hash(db: Database, sid: bytes) -> bytes:
    """The history hash of the current conversation, computed from its messages."""
    computed = EMPTY_HISTORY_HASH
    for (digest,) in db.run("conversation_digests", sid=sid):
        computed = extend_history_hash(computed, digest)
    return computed


def set_budget(db: Database, session: SessionId, budget: int) -> None:
    db.run("set_budget", sid=sid_of(session), budget=budget)


def delete(db: Database, session: SessionId) -> bool:
    stored = find(db, session)
    sid = sid_of(session)
    db.run("detach_usage", sid=sid)
    items.delete_of_session(db, sid)
    if stored is None:
        return False
    raise_beginnings(db, stored)
    delete_rows(db, sid)
    return True


def raise_beginnings(db: Database, stored: StoredSession) -> None:
    """Let new sessions start above the revision and fence of one that is about to be deleted."""
    db.run("raise_beginnings", number=max(stored.progress.revision, stored.fence) + 1)


# The session comes last: SQLite finds its messages by its row.
_OWN_ROWS = (
    "delete_messages_of",
    "delete_archive_of",
    "delete_notes_of",
    "delete_extractions_of",
    "delete_changes_of",
    "delete_versions_of",
    "delete_pins_of",
    "delete_session",
)


def delete_rows(db: Database, sid: bytes) -> None:
    """Delete the session's own rows; items and usage are not among them."""
    for name in _OWN_ROWS:
        db.run(name, sid=sid)


def show_items(db: Database, session: SessionId, ids: Sequence[str], now: datetime, anew: bool) -> None:
    find_or_create(db, session, now)
    items.show(db, session, ids, anew)


# ------------------------------------------------------------------------------------ leases


def lease(db: Database, session: SessionId, holder: str, now: datetime, until: datetime) -> int | None:
    times = {"now": instant(now), "until": instant(until)}
    row = db.run("lease", sid=sid_of(session), holder=pack(holder), **times).fetchone()
    return None if row is None else row[0]


def release(
    db: Database,
    session: SessionId,
    fence: int,
    last_seq: int,
    due_at: datetime | None,
    wake_at: int,
    failures: int,
) -> None:
    stored = find(db, session)
    if stored is None or not db.run("release", sid=stored.sid, fence=fence).rowcount:
        return
    used_at = from_instant(stored.used_at)
    progress = released(stored.progress, used_at, last_seq, due_at, wake_at, failures)
    save(db, replace(stored, progress=progress))


def due(db: Database, now: datetime, limit: int) -> Sequence[SessionId]:
    return [to_session(row) for row in db.run("due", now=instant(now), limit=limit_of(limit))]


def idle(db: Database, before: datetime, limit: int) -> Sequence[SessionId]:
    return [to_session(row) for row in db.run("idle", before=instant(before), limit=limit_of(limit))]


# ------------------------------------------------------------------------------------ usage


def record_usage(db: Database, session: SessionId, usage: Usage) -> None:
    db.run("record_usage", **usage_values(sid_of(session), session.owner, usage))


def usage(db: Database, session: SessionId | None) -> Sequence[Usage]:
    return [to_usage(row) for row in db.run("usage", sid=session and sid_of(session))]


def spent(db: Database, session: SessionId | None, owner: str | None, since: datetime | None) -> float:
    start = -NO_LIMIT if since is None else instant(since)
    if session is not None:
        return db.value("spent_by_session", sid=sid_of(session), since=start)
    if owner is not None:
        return db.value("spent_by_owner", owner=pack(owner), since=start)
    return db.value("spent", since=start)


# ------------------------------------------------------------------------------------ the store


def listing(db: Database, owner: str | None, key: str | None, limit: int | None) -> Sequence[SessionSummary]:
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


def get_value(db: Database, name: str) -> str | None:
    row = db.run("get_value", name=pack(name)).fetchone()
    return None if row is None else unpack(row[0])


def set_value(db: Database, name: str, value: str) -> None:
    db.run("set_value", name=pack(name), value=pack(value))
