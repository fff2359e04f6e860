"""A session's history, and what a person's hand does to its notes. All inside a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from onlooker.domain.errors import ConflictError
from onlooker.domain.history import Change, Forgetting, Version
from onlooker.domain.messages import EMPTY_HISTORY_HASH, SessionId, extend_history_hash
from onlooker.domain.notes import Note, NoteStatus, Progress
from onlooker.stores.past import (
    change_of,
    check_forgetting,
    check_prompt_version,
    edited,
    gone,
    undone,
    versions_after,
    without_summaries,
)
from onlooker.stores.realigning import Known
from onlooker.stores.sqlite import items, sessions
from onlooker.stores.sqlite.rows import ids_json, note_row, pack, to_note, unpack
from onlooker.stores.sqlite.statements import sql

# ------------------------------------------------------------------------------------ history


def last_change(db: sqlite3.Connection, sid: bytes) -> int:
    return db.execute(sql("last_change"), (sid,)).fetchone()[0]


def log(
    db: sqlite3.Connection,
    sid: bytes,
    progress: Progress,
    at: datetime,
    statuses: Iterable[tuple[str, NoteStatus]] = (),
    taken: tuple[int, int] | None = None,
) -> Change:
    """Write down that the notes changed."""
    change = change_of(progress, last_change(db, sid) + 1, at, statuses, taken)
    db.execute(sql("add_change"), change_row(sid, change))
    return change


def change_row(sid: bytes, change: Change) -> tuple[Any, ...]:
    """The parameters of `add_change`."""
    kept, taken = change.taken or (None, None)
    statuses = json.dumps([[pack(note), status] for note, status in change.statuses], ensure_ascii=False)
    marks = (change.last_seq, change.frontier, change.watermark, change.tail_start)
    return (sid, change.number, change.at.isoformat(), *marks, kept, taken, statuses)


def to_change(row: tuple[Any, ...]) -> Change:
    """From (number, at, …, statuses)."""
    number, at, last_seq, frontier, watermark, tail_start, kept, taken, statuses = row
    return Change(
        number,
        datetime.fromisoformat(at),
        last_seq,
        frontier,
        watermark,
        tail_start,
        tuple((unpack(note), status) for note, status in json.loads(statuses)),
        None if kept is None else (kept, taken),
    )


def version_row(sid: bytes, version: Version) -> tuple[Any, ...]:
    """The parameters of `add_version`."""
    v = version
    written = (v.tokens, pack(v.by), v.at.isoformat(), pack(v.text))
    return (sid, pack(v.note), v.number, v.change, *written)


def to_version(row: tuple[Any, ...]) -> Version:
    """From (note, number, change, …, text)."""
    note, number, change, tokens, author, at, text = row
    when = datetime.fromisoformat(at)
    return Version(unpack(note), number, change, unpack(text), tokens, unpack(author), when)


# ------------------------------------------------------------------------------------ a person's hand


def _note(db: sqlite3.Connection, sid: bytes, ident: str) -> Note | None:
    row = db.execute(sql("notes_by_id"), (sid, ids_json([ident]))).fetchone()
    return None if row is None else to_note(row)


def put_note(db: sqlite3.Connection, sid: bytes, note: Note) -> None:
    """A note as it now is, whether it was there before or not."""
    # Not as one statement with ON CONFLICT, which would count for what triggers insert as well.
    row = note_row(sid, note)
    if not db.execute(sql("change_note"), row).rowcount:
        db.execute(sql("add_note"), row)


def _found(db: sqlite3.Connection, session: SessionId, ident: str) -> sessions.Row:
    row = sessions.find(db, session)
    if row is None:
        raise KeyError(ident)
    return row


def edit(
    db: sqlite3.Connection,
    session: SessionId,
    ident: str,
    text: str,
    tokens: int,
    by: str,
    now: datetime,
    was: str | None,
) -> Note:
    row = _found(db, session, ident)
    before = _note(db, row.sid, ident)
    after = edited(before, ident, was, text, tokens, by)
    assert before is not None
    put_note(db, row.sid, after)
    # A note in the making may have been told the old text.
    progress = replace(
        row.progress,
        revision=row.progress.revision + 1,
        prompt_version=row.progress.prompt_version + (after.status == "active"),
    )
    sessions.save(db, replace(row, progress=progress))
    known = db.execute(sql("count_versions"), (row.sid, pack(ident))).fetchone()[0]
    change = log(db, row.sid, progress, now, [(after.id, after.status)])
    versions = versions_after(before, after, known, change, by)
    db.executemany(sql("add_version"), [version_row(row.sid, v) for v in versions])
    return after


def undo(
    db: sqlite3.Connection, session: SessionId, ident: str, prompt_version: int, now: datetime
) -> Progress:
    row = _found(db, session, ident)
    check_prompt_version(row.progress, prompt_version)
    found = _note(db, row.sid, ident)
    ids = [ident, *(found.sources if found else ())]
    notes = {n.id: n for n in map(to_note, db.execute(sql("notes_by_id"), (row.sid, ids_json(ids))))}
    statuses = undone(notes, ident)
    db.executemany(sql("set_status"), [(status, row.sid, pack(note)) for note, status in statuses])
    db.execute(sql("remove_pin"), (row.sid, pack(ident)))
    p = row.progress
    progress = replace(p, revision=p.revision + 1, prompt_version=p.prompt_version + 1)
    sessions.save(db, replace(row, progress=progress))
    log(db, row.sid, progress, now, statuses)
    return progress


def forget(db: sqlite3.Connection, session: SessionId, change: Forgetting, now: datetime) -> Progress:
    row = sessions.find(db, session)
    if row is None:
        raise ConflictError(f"session {session.key!r} was deleted")
    sid = row.sid
    check_forgetting(row.progress, last_change(db, sid), change)
    _forget_messages(db, sid, change)
    _forget_notes(db, sid, change)
    count, tokens = sessions.totals(db, sid)
    p = row.progress
    progress = replace(
        p,
        history_hash=_history_hash(db, sid),
        unnoted_tokens=sessions.unnoted_tokens(db, sid, p.frontier),
        revision=p.revision + 1,
        prompt_version=p.prompt_version + 1,
        due_at=now if change.due and p.due_at is None else p.due_at,
    )
    sessions.save(db, replace(row, progress=progress, messages=count, message_tokens=tokens))
    log(db, sid, progress, now, gone(change.deleted))
    items.delete(db, session.owner, change.items)
    return progress


def _forget_messages(db: sqlite3.Connection, sid: bytes, change: Forgetting) -> None:
    ids = ids_json(change.messages)
    seqs = [r[0] for r in db.execute(sql("seqs_of_messages"), (sid, ids))]
    known = [
        Known(seq, unpack(ident), digest, where, bool(summary))
        for seq, ident, digest, where, summary in db.execute(sql("known_messages"), (sid,))
    ]
    drop, back = without_summaries(known, change)
    db.execute(sql("drop_messages"), (sid, ids))
    db.execute(sql("drop_archived"), (sid, ids))
    for summary in drop:
        name = "drop_messages" if summary.place == "live" else "drop_archived"
        db.execute(sql(name), (sid, ids_json([summary.id])))
    for message in back:
        where = (sid, message.seq, pack(message.id))
        db.execute(sql("bring_back"), (message.seq, *where))
        db.execute(sql("delete_archived"), where)
    db.execute(sql("drop_extractions_of"), (sid, json.dumps(seqs)))


def _forget_notes(db: sqlite3.Connection, sid: bytes, change: Forgetting) -> None:
    db.execute(sql("drop_notes"), (sid, ids_json(change.deleted)))
    for note in change.rewritten:
        put_note(db, sid, note)
    db.execute(sql("drop_versions"), (sid, ids_json(n.id for n in change.rewritten)))
    for name in ("drop_loose_versions", "drop_loose_extractions", "drop_loose_pins"):
        db.execute(sql(name), (sid,))


def _history_hash(db: sqlite3.Connection, sid: bytes) -> bytes:
    history_hash = EMPTY_HISTORY_HASH
    for (digest,) in db.execute(sql("history_hash"), (sid,)):
        history_hash = extend_history_hash(history_hash, digest)
    return history_hash


def tried(db: sqlite3.Connection, job: Callable[[sqlite3.Connection], int]) -> int:
    """What the job would return, with everything as it was."""
    db.execute("SAVEPOINT trial")
    try:
        return job(db)
    finally:
        db.execute("ROLLBACK TO trial")
        db.execute("RELEASE trial")


def forget_owner(db: sqlite3.Connection, owner: str) -> int:
    """Everything of an owner; how many sessions there were."""
    found = sessions.listing(db, owner, None, None)
    for summary in found:
        sessions.delete(db, summary.progress.session)
    items.delete(db, owner, None)
    db.execute(sql("forget_owner_usage"), (pack(owner),))
    return len(found)
