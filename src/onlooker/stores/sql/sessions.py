"""A session in the database, from its messages to its notes. All inside a transaction.

How its progress changes, and when a change is refused; its row; its messages; its notes and their history;
the lease of a worker, what model calls used, and values of the store itself. Each database appends messages
in its own way; `policy.plan.after_append` gives the progress after it. What happens to a session more rarely
is in the other files.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count, islice
from typing import Any, NamedTuple

from onlooker.domain.errors import ConflictError
from onlooker.domain.frozen import frozen
from onlooker.domain.history import Change
from onlooker.domain.items import Item
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId, extend_history_hash
from onlooker.domain.notes import (
    Commit,
    Guard,
    MessageDigest,
    NoteStatus,
    Progress,
    Realignment,
    State,
    Usage,
    UsageDay,
)
from onlooker.policy.plan import FAR_AHEAD, is_due
from onlooker.stores.sql.database import (
    EPOCH,
    FIRST_SEQ,
    LAST_SEQ,
    NO_LIMIT,
    Database,
    change_values,
    clamp,
    extraction_values,
    from_instant,
    instant,
    limit_of,
    note_values,
    pack,
    progress_values,
    sid_of,
    to_change,
    to_item,
    to_message,
    to_note,
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


def check_realignment(progress: Progress, change: Realignment | Progress) -> None:
    """Refuse a change that was decided on another state of the session, and an append after one."""
    if change.last_seq != progress.last_seq:
        raise ConflictError(f"the last message moved from {change.last_seq} to {progress.last_seq}")
    check_revision(progress, change.revision)


def check_revision(progress: Progress, revision: int | None) -> None:
    """Refuse a decision made before messages were taken back; None skips the check."""
    if revision is not None and revision != progress.revision:
        raise ConflictError(f"the revision moved from {revision} to {progress.revision}")


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
    since then (`used_at`); otherwise nothing would wake it before the next message. If not, nothing is due:
    otherwise every message that arrives while a session is settled would make it due again.
    """
    settled = replace(progress, due_at=due_at, wake_at=wake_at, failures=failures)
    return settled if progress.last_seq <= last_seq else made_due(settled, wake_at, used_at)


# ------------------------------------------------------------------------------------ the row


@frozen
class StoredSession:
    """A session as stored: its progress, and what only the store needs."""

    sid: bytes
    progress: Progress
    fence: int
    messages: int
    message_tokens: int
    used_at: int
    items_chosen: bool  # whether it was decided which items the session shows


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
    counts = row["messages"], row["message_tokens"]
    return StoredSession(sid, progress, row["fence"], *counts, row["used_at"], bool(row["items_chosen"]))


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


# ------------------------------------------------------------------------------------ messages


def digests(db: Database, session: SessionId, *, newest: int | None = None) -> Sequence[MessageDigest]:
    rows = db.run("digests", sid=sid_of(session), limit=limit_of(newest))
    return [_digest(row) for row in rows][::-1]


def retired(db: Database, session: SessionId) -> Sequence[MessageDigest]:
    return [_digest(row) for row in db.run("retired", sid=sid_of(session))]


def _digest(row: Sequence[Any]) -> MessageDigest:
    seq, ident, role, digest = row
    return MessageDigest(seq, unpack(ident), role, digest)


def messages(
    db: Database,
    session: SessionId,
    *,
    after: int = 0,
    up_to: int | None = None,
    limit: int | None = None,
    archived: bool = False,
) -> Sequence[Message]:
    most = limit_of(limit)
    values: dict[str, Any] = {
        "sid": sid_of(session),
        # A summary added before the first message has a seq below 1.
        "after": clamp(after) if after > 0 else FIRST_SEQ,
        "up_to": LAST_SEQ if up_to is None else clamp(up_to),
        "limit": most,
    }
    if archived:
        rows = islice(merged(db.run("live_part", **values), db.run("archived_part", **values)), most)
    else:
        rows = db.run("messages", **values)
    return [to_message(row) for row in rows]


def merged(live: Iterable[Sequence[Any]], archived: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Rows (seq, …, summary, status) in order: a summary after the messages that it replaces."""
    # Tuples, not the cursors' own rows: a reader that gives up would close those after their database.
    return heapq.merge(map(tuple, archived), map(tuple, live), key=lambda row: (row[0], row[8], row[9]))


def around(
    db: Database, session: SessionId, seqs: Sequence[int], reach: int, *, retired: bool = False
) -> Sequence[Message]:
    spans = json.dumps(_spans(map(clamp, seqs), max(reach, 0)))
    found = db.value("around", sid=sid_of(session), spans=spans, retired=int(retired))
    return list(map(to_message, json.loads(found)))


def _spans(seqs: Iterable[int], reach: int) -> list[list[int]]:
    """Ranges (first, last) of the seqs within `reach` of these, merged where they overlap."""
    spans: list[list[int]] = []
    for seq in sorted(seqs):
        first, last = clamp(seq - reach), clamp(seq + reach)
        if spans and first <= spans[-1][1] + 1:
            spans[-1][1] = last
        else:
            spans.append([first, last])
    return spans


# ------------------------------------------------------------------------------------ notes


class Loaded(NamedTuple):
    """A state, and how many characters its texts have."""

    state: State
    characters: int

    @property
    def rows(self) -> int:
        state = self.state
        return len(state.messages) + len(state.pinned) + len(state.notes) + len(state.items or ())

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return self.characters + ROW_BYTES * self.rows


# Bytes that a message or a note takes besides its text.
ROW_BYTES = 300


def load(
    db: Database, session: SessionId, *, newest: int | None = None, oldest: int | None = None
) -> Loaded | None:
    """Load the session; with `newest` or `oldest`, perhaps only that many of its messages."""
    stored = find(db, session)
    if stored is None:
        return None
    rows, missing = _tail(db, stored, _start(stored.progress) - 1, newest, oldest)
    return _loaded(db, stored, tuple(map(to_message, rows)), missing)


def _start(progress: Progress) -> int:
    """The first message that a prompt may show raw."""
    start = min(progress.tail_start, progress.watermark + 1)
    # A summary added before the first message has a seq below 1.
    return start if start > 1 else FIRST_SEQ + 1


def _loaded(db: Database, stored: StoredSession, tail: tuple[Message, ...], missing: int = 0) -> Loaded:
    """The state with these messages."""
    sid, start = stored.sid, _start(stored.progress)
    notes = tuple(map(to_note, db.run("live_notes", sid=sid)))
    pins = frozenset(unpack(row[0]) for row in db.run("pins", sid=sid))
    pinned = tuple(map(to_message, db.run("pinned_messages", sid=sid, before=start) if pins else ()))
    texts = [text.text for text in (*notes, *tail, *pinned)]
    state = State(stored.progress, notes, tail, pins, pinned, shown_items(db, stored), missing)
    return Loaded(state, sum(map(len, texts)))


def _after(db: Database, sid: bytes, seq: int) -> tuple[Message, ...]:
    return tuple(map(to_message, db.run("messages", sid=sid, after=seq, up_to=LAST_SEQ, limit=NO_LIMIT)))


# After more than this, a session may have become so long that only a part of it is wanted.
MAX_GROWN = 200


def load_grown(db: Database, session: SessionId, known: Loaded) -> Loaded | None:
    """Load a session of which this is known, with what was appended and noted since; None if it changed
    otherwise, or is gone."""
    stored = find(db, session)
    if stored is None:
        return None
    before, progress = known.state, stored.progress
    reached, history = before.progress.last_seq, before.progress.history_hash
    start = _start(progress)
    if progress.revision != before.progress.revision or start < _start(before.progress):
        return None
    if progress.last_seq > reached + MAX_GROWN:
        return None
    new = _after(db, stored.sid, reached) if progress.last_seq > reached else ()
    for message in new:
        history = extend_history_hash(history, message.digest)
    if history != progress.history_hash:
        return None
    if _shown(progress) != _shown(before.progress):
        # Other processes may have compacted messages as well.
        tail = tuple([m for m in before.messages if m.seq >= start])
        new = tuple([m for m in new if m.seq >= start])
        live = json.loads(db.value("live_ids", sid=stored.sid, after=start - 1, up_to=reached))
        return _loaded(db, stored, (*tail, *new)) if live == [pack(m.id) for m in tail] else None
    state = State(
        progress, before.notes, (*before.messages, *new), before.pins, before.pinned, shown_items(db, stored)
    )
    return Loaded(state, known.characters + sum([len(m.text) for m in new]))


def _shown(progress: Progress) -> tuple[int, ...]:
    """Values that change if notes or pins change, or which messages are shown raw."""
    p = progress
    return p.prompt_version, p.frontier, p.watermark, p.tail_start


def _tail(
    db: Database, stored: StoredSession, after: int, newest: int | None, oldest: int | None
) -> tuple[Sequence[Sequence[Any]], int]:
    """The messages after a seq, or those at one end of them, and how many of the others no active note
    covers."""
    where: dict[str, Any] = {"sid": stored.sid, "after": after, "up_to": LAST_SEQ}
    if newest is None:
        rows = db.run("messages", **where, limit=limit_of(oldest)).fetchall()
        if oldest is None or len(rows) < oldest:
            return rows, 0
        after, before = (rows[-1][0] if rows else after), LAST_SEQ + 1
    else:
        rows = db.run("newest_messages", **where, limit=limit_of(newest)).fetchall()[::-1]
        if len(rows) < newest:
            return rows, 0
        before = rows[0][0] if rows else LAST_SEQ + 1
    after = max(after, stored.progress.watermark)
    return rows, db.value("count_messages", sid=stored.sid, after=after, up_to=before - 1)


def commit(db: Database, session: SessionId, change: Commit) -> Progress:
    if change.items is not None:
        db.lock_owner(session.owner)  # before the session, as everywhere
    stored = find(db, session)
    if stored is None:
        raise ConflictError(f"session {session.key!r} was deleted")
    sid = stored.sid
    check_commit(stored.progress, stored.fence, change.guard)
    for ident in change.activate:
        _change_status(db, sid, ident, "buffered", "active")
    # Before the added notes: one may start where a superseded one did.
    for ident in change.supersede:
        _change_status(db, sid, ident, "active", "superseded")
    db.run_many("add_note", [note_values(sid, n) for n in change.add])
    db.run_many("add_extraction", [extraction_values(sid, n, e) for n, e in zip(count(), change.extractions)])
    if change.items is not None:
        show_items(db, stored, [item.id for item in change.items])
    progress = stored.progress.after(change)
    unnoted = unnoted_tokens(db, sid, progress.frontier)
    saved = replace(stored, progress=replace(progress, unnoted_tokens=unnoted))
    save(db, saved)
    at = time_of(change, from_instant(stored.used_at))
    log(db, sid, saved.progress, at, changed_by(change))
    return saved.progress


def _change_status(db: Database, sid: bytes, ident: str, old: NoteStatus, new: NoteStatus) -> None:
    if not db.run("change_status", sid=sid, id=pack(ident), expected=old, status=new).rowcount:
        raise ConflictError(f"note {ident!r} is no longer {old}")


def shown_items(db: Database, stored: StoredSession) -> tuple[Item, ...] | None:
    """The items that the session shows; None if they were not chosen yet."""
    if not stored.items_chosen:
        return None
    return tuple(to_item(row) for row in db.run("shown_items", sid=stored.sid))


def show_items(db: Database, stored: StoredSession, ids: Iterable[str]) -> None:
    """Show these items of the owner, in order, in place of those before. Archived ones are skipped."""
    db.run("hide_items_of_session", sid=stored.sid)
    where: dict[str, Any] = {"sid": stored.sid, "owner": pack(stored.progress.session.owner)}
    chosen = enumerate(dict.fromkeys(ids))
    db.run_many("show_item", [where | {"position": n, "id": pack(ident)} for n, ident in chosen])
    db.run("set_items_chosen", sid=stored.sid)


# ------------------------------------------------------------------------------------ history of the notes

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
    """Record that the notes changed. The session is already in its new state."""
    change = change_of(progress, sizes(db, sid), at, statuses, taken)
    db.run("add_change", **change_values(sid, change))
    return change


class Sizes(NamedTuple):
    """The number of the next change, and how large the session is."""

    number: int
    messages: int
    tokens: int
    replies: int
    held: int
    said_at: datetime | None


def sizes(db: Database, sid: bytes) -> Sizes:
    number, messages, tokens, replies, held = db.run("sizes", sid=sid).fetchone()
    said = db.run("last_at", sid=sid).fetchone()
    said_at = datetime.fromisoformat(said[0]) if said and said[0] else None
    return Sizes(number + 1, messages, tokens, replies, held, said_at)


def change_of(
    progress: Progress,
    sizes: Sizes,
    at: datetime,
    statuses: Statuses = (),
    taken: tuple[int, int] | None = None,
) -> Change:
    """The change that led to this progress."""
    p, s = progress, sizes
    return Change(
        s.number,
        at,
        p.last_seq,
        p.frontier,
        p.watermark,
        p.tail_start,
        tuple(statuses),
        taken,
        s.messages,
        s.tokens,
        s.replies,
        s.held,
        s.said_at,
    )


def changes(db: Database, session: SessionId, *, most: int) -> Sequence[Change]:
    stored = find(db, session)
    if stored is None:
        return []
    now = sizes(db, stored.sid)
    step = step_of(now.number - 1, most)
    found = [to_change(row) for row in db.run("some_changes", sid=stored.sid, step=step)]
    return [*found, change_of(stored.progress, now, from_instant(stored.used_at))]


def step_of(count: int, most: int) -> int:
    """The n with which reading every n-th of `count` changes, in pairs, gives about `most`."""
    return 1 if count <= most else max(2, -(-2 * count // max(1, most)))


def changed_by(change: Commit) -> list[tuple[str, NoteStatus]]:
    """The notes that a commit changes."""
    superseded: NoteStatus = "superseded"
    active: NoteStatus = "active"
    return [
        *((ident, superseded) for ident in change.supersede),
        *((ident, active) for ident in change.activate if ident not in change.supersede),
        *((note.id, note.status) for note in change.add),
    ]


def deleted(notes: Iterable[str]) -> list[tuple[str, NoteStatus]]:
    """Deleted notes, which are retired in the history."""
    return [(ident, "retired") for ident in notes]


def time_of(change: Commit, fallback: datetime) -> datetime:
    """When a commit happened."""
    return change.at or max((note.made_at for note in change.add), default=fallback)


# ------------------------------------------------------------------------------------ leases


def lease(db: Database, session: SessionId, *, holder: str, now: datetime, until: datetime) -> int | None:
    times = {"now": instant(now), "until": instant(until), "far": instant(now + FAR_AHEAD)}
    row = db.run("lease", sid=sid_of(session), holder=pack(holder), **times).fetchone()
    return None if row is None else row[0]


def release(
    db: Database,
    session: SessionId,
    *,
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


def due(db: Database, now: datetime, *, limit: int = 1000) -> Sequence[SessionId]:
    return [
        to_session(row)
        for row in db.run("due", now=instant(now), far=instant(now + FAR_AHEAD), limit=limit_of(limit))
    ]


def idle(db: Database, before: datetime, *, limit: int = 100) -> Sequence[SessionId]:
    return [to_session(row) for row in db.run("idle", before=instant(before), limit=limit_of(limit))]


def open_sessions(db: Database, owner: str, since: datetime, *, limit: int = 100) -> Sequence[SessionId]:
    rows = db.run("open_sessions", owner=pack(owner), since=instant(since), limit=limit_of(limit))
    return [to_session(row) for row in rows]


# ------------------------------------------------------------------------------------ usage


def record_usage(db: Database, session: SessionId, usage: Usage) -> None:
    db.run("record_usage", **usage_values(sid_of(session), session.owner, usage))


def usage(db: Database, session: SessionId | None = None) -> Sequence[Usage]:
    return [to_usage(row) for row in db.run("usage", sid=session and sid_of(session))]


def usage_by_day(
    db: Database,
    *,
    session: SessionId | None = None,
    owner: str | None = None,
    since: datetime | None = None,
) -> Sequence[UsageDay]:
    start = -NO_LIMIT if since is None else instant(since)
    if session is not None:
        rows = db.run("usage_by_day_of_session", sid=sid_of(session), since=start)
    elif owner is not None:
        rows = db.run("usage_by_day_of_owner", owner=pack(owner), since=start)
    else:
        rows = db.run("usage_by_day", since=start)
    return [
        UsageDay((EPOCH + timedelta(days=day)).date(), unpack(model), *rest) for day, model, *rest in rows
    ]


def spent(
    db: Database,
    *,
    session: SessionId | None = None,
    owner: str | None = None,
    since: datetime | None = None,
) -> float:
    start = -NO_LIMIT if since is None else instant(since)
    if session is not None:
        return db.value("spent_by_session", sid=sid_of(session), since=start)
    if owner is not None:
        return db.value("spent_by_owner", owner=pack(owner), since=start)
    return db.value("spent", since=start)


# ------------------------------------------------------------------------------------ values of the store


def get_value(db: Database, name: str) -> str | None:
    row = db.run("get_value", name=pack(name)).fetchone()
    return None if row is None else unpack(row[0])


def set_value(db: Database, name: str, value: str) -> None:
    db.run("set_value", name=pack(name), value=pack(value))


def swap_value(db: Database, name: str, value: str, *, expected: str | None) -> bool:
    if expected is None:
        return bool(db.run("add_value", name=pack(name), value=pack(value)).rowcount)
    found = db.run("replace_value", name=pack(name), value=pack(value), expected=pack(expected))
    return bool(found.rowcount)
