"""Messages: reading, compacting, realigning. All inside a transaction."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from onlooker.domain.errors import StoreError
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId, extend_history_hash
from onlooker.domain.notes import Appended, MessageDigest, Note, Progress, Realignment
from onlooker.policy.history import Rollback, roll_back
from onlooker.stores.past import rolled_back
from onlooker.stores.progress import check_realignment, check_revision, made_due
from onlooker.stores.realigning import Known, Placement, Undone, floor_of, place, restored
from onlooker.stores.sqlite import past, sessions
from onlooker.stores.sqlite.rows import (
    FIRST_SEQ,
    LAST_SEQ,
    instant,
    message_row,
    pack,
    sid_of,
    to_message,
    to_note,
    unpack,
    within,
)
from onlooker.stores.sqlite.sessions import NO_LIMIT
from onlooker.stores.sqlite.statements import sql


def digests(db: sqlite3.Connection, session: SessionId, newest: int | None) -> Sequence[MessageDigest]:
    limit = NO_LIMIT if newest is None else max(newest, 0)
    rows = db.execute(sql("digests"), (sid_of(session), limit))
    newest_first = [MessageDigest(seq, unpack(ident), role, digest) for seq, ident, role, digest in rows]
    return newest_first[::-1]


def read(
    db: sqlite3.Connection,
    session: SessionId,
    after: int,
    up_to: int | None,
    limit: int | None,
    archived: bool,
) -> Sequence[Message]:
    sid, most = sid_of(session), NO_LIMIT if limit is None else max(limit, 0)
    # A summary put in before the first message has a seq below 1.
    start = within(after) if after > 0 else FIRST_SEQ
    end = LAST_SEQ if up_to is None else within(up_to)
    if archived:
        rows = part(db, sid, start, end, most, summaries=True)
    else:
        rows = db.execute(sql("messages"), (sid, start, end, most))
    return [to_message(row) for row in rows]


def part(
    db: sqlite3.Connection, sid: bytes, after: int, up_to: int, limit: int, *, summaries: bool
) -> Iterator[tuple[Any, ...]]:
    """The conversation with what was set aside of it, and not taken back."""
    values = (sid, after, up_to, limit, int(summaries))
    rows = merged(db.execute(sql("live_part"), values), db.execute(sql("archived_part"), values))
    return islice(rows, None if limit == NO_LIMIT else limit)


def merged(live: Iterable[tuple[Any, ...]], aside: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows (seq, …, summary, stands) in order: a summary after what it stands for."""
    # Not the cursors themselves: whoever gives up reading would close them after their database.
    return heapq.merge(map(tuple, aside), map(tuple, live), key=lambda row: (row[0], row[8], row[9]))


# ------------------------------------------------------------------------------------ compaction


def compact(
    db: sqlite3.Connection,
    session: SessionId,
    up_to: int,
    summary: Message,
    archive: bool,
    now: datetime,
    revision: int | None,
) -> Progress:
    row = sessions.find_or_create(db, session, now)
    sid, progress, up_to = row.sid, row.progress, within(up_to)
    check_revision(progress, revision)
    last, count, tokens = db.execute(sql("taken_out"), (sid, up_to)).fetchone()
    # The same summary again is a retry: the first one is not an original to keep.
    db.execute(sql("delete_summary"), (sid, pack(summary.id), up_to))
    if db.execute(sql("known_id"), (sid, pack(summary.id))).fetchone():
        raise StoreError(f"the summary's id {summary.id!r} is that of another message; give it its own")
    (unnoted,) = db.execute(sql("any_between"), (sid, progress.frontier, up_to)).fetchone()
    if archive:
        db.execute(sql("forget_older_summaries"), (sid, up_to))
        db.execute(sql("archive_range"), ("compacted", sid, FIRST_SEQ, up_to))
    elif db.execute(sql("unpin_range"), (sid, up_to)).rowcount:
        progress = replace(progress, prompt_version=progress.prompt_version + 1)
    db.execute(sql("delete_range"), (sid, FIRST_SEQ, up_to))
    if last is None:
        first = db.execute(sql("first_live"), (sid,)).fetchone()[0]
        last = progress.last_seq if first is None else first - 1
    placed = replace(summary, seq=last)
    db.execute(sql("add_message"), message_row(sid, placed, placed.digest, summary=True))
    progress = replace(
        progress,
        unnoted_tokens=sessions.unnoted_tokens(db, sid, progress.frontier),
        revision=progress.revision + unnoted,
    )
    saved = replace(row, progress=progress, used_at=instant(now))
    if not archive:
        saved = replace(saved, messages=row.messages - count, message_tokens=row.message_tokens - tokens)
    sessions.save(db, saved)
    return saved.progress


# ------------------------------------------------------------------------------------ realignment


def realign(
    db: sqlite3.Connection, session: SessionId, change: Realignment, due_tokens: int, now: datetime
) -> Appended:
    found = sessions.find(db, session)
    check_realignment(found.progress if found else Progress(session), change)
    row = found or sessions.find_or_create(db, session, now)
    sid = row.sid
    known = [
        Known(seq, unpack(ident), digest, where, bool(summary))
        for seq, ident, digest, where, summary in db.execute(sql("known_messages"), (sid,))
    ]
    notes = _notes_not_retired(db, sid)
    decision = roll_back(notes, change.keep, floor_of(known))
    undone = Undone(decision.frontier, row.progress.frontier)
    placement = place(known, change, undone)
    _apply_placement(db, sid, placement)
    for message in restored(known, change.keep, undone):
        _bring_back(db, sid, message, message.seq)
    _apply_rollback(db, sid, decision)
    progress = _realigned(db, row, placement, decision, notes)
    progress = made_due(progress, due_tokens, now)
    count, tokens = sessions.totals(db, sid)
    saved = replace(row, progress=progress, messages=count, message_tokens=tokens, used_at=instant(now))
    sessions.save(db, saved)
    past.log(db, sid, progress, now, rolled_back(decision), (change.keep, row.progress.last_seq))
    return Appended(progress, _fresh(db, sid, change.last_seq, placement))


def _notes_not_retired(db: sqlite3.Connection, sid: bytes) -> list[Note]:
    values = {
        "sid": sid,
        "statuses": '["buffered", "active", "superseded"]',
        "reflection": None,
        "limit": NO_LIMIT,
    }
    return [to_note(row) for row in db.execute(sql("notes"), values)]


def _apply_placement(db: sqlite3.Connection, sid: bytes, placement: Placement) -> None:
    for message in placement.drop:
        _delete(db, sid, message)
    for message in placement.retire:
        if message.place == "live":
            db.execute(sql("archive_range"), ("retired", sid, message.seq, message.seq))
            db.execute(sql("delete_range"), (sid, message.seq, message.seq))
        else:
            db.execute(sql("retire_archived"), (sid, message.seq, pack(message.id)))
    for message, seq in placement.move:
        if message.place == "live":
            db.execute(sql("move_live"), (seq, sid, message.seq))
        else:
            _bring_back(db, sid, message, seq)
    db.executemany(sql("add_message"), [message_row(sid, m, m.digest) for m in placement.add])


def _delete(db: sqlite3.Connection, sid: bytes, message: Known) -> None:
    if message.place == "live":
        db.execute(sql("delete_range"), (sid, message.seq, message.seq))
    else:
        db.execute(sql("delete_archived"), (sid, message.seq, pack(message.id)))


def _bring_back(db: sqlite3.Connection, sid: bytes, message: Known, seq: int) -> None:
    where = (sid, message.seq, pack(message.id))
    db.execute(sql("bring_back"), (seq, *where))
    db.execute(sql("delete_archived"), where)


def _apply_rollback(db: sqlite3.Connection, sid: bytes, decision: Rollback) -> None:
    db.executemany(sql("set_status"), [("retired", sid, pack(i)) for i in decision.retire])
    db.executemany(sql("set_status"), [("active", sid, pack(i)) for i in decision.revive])


def _realigned(
    db: sqlite3.Connection,
    row: sessions.Row,
    placement: Placement,
    decision: Rollback,
    notes: Sequence[Note],
) -> Progress:
    history_hash = EMPTY_HISTORY_HASH
    for (digest,) in db.execute(sql("history_hash"), (row.sid,)):
        history_hash = extend_history_hash(history_hash, digest)
    shown = {n.id for n in notes if n.status == "active"}
    changed = bool(decision.revive) or not shown.isdisjoint(decision.retire)
    return replace(
        row.progress,
        last_seq=placement.last_seq,
        frontier=decision.frontier,
        watermark=decision.watermark,
        tail_start=min(row.progress.tail_start, decision.watermark + 1),
        unnoted_tokens=sessions.unnoted_tokens(db, row.sid, decision.frontier),
        revision=row.progress.revision + 1,
        prompt_version=row.progress.prompt_version + changed,
        history_hash=history_hash,
    )


def _fresh(db: sqlite3.Connection, sid: bytes, after: int, placement: Placement) -> tuple[Message, ...]:
    """What came as new, as it is recorded, with the host's own form."""
    rows = db.execute(sql("messages"), (sid, after, LAST_SEQ, NO_LIMIT))
    new = (m for m in map(to_message, rows) if m.seq in placement.fresh)
    return tuple(replace(m, original=placement.original(m)) for m in new)
