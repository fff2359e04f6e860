"""Notes: loading, committing, deleting, leading back, pruning. All inside a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from onlooker.domain.errors import ConflictError
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import LIVE, Commit, Note, NoteKind, NoteStatus, Progress, State
from onlooker.stores.past import changed_by, time_of
from onlooker.stores.past import gone as gone_notes
from onlooker.stores.progress import check_commit, committed
from onlooker.stores.sqlite import extractions, items, past, sessions
from onlooker.stores.sqlite.rows import (
    FIRST_SEQ,
    LAST_SEQ,
    from_instant,
    ids_json,
    instant,
    note_row,
    pack,
    sid_of,
    to_message,
    to_note,
    to_tail,
    unpack,
)
from onlooker.stores.sqlite.sessions import NO_LIMIT
from onlooker.stores.sqlite.statements import sql


def load(db: sqlite3.Connection, session: SessionId) -> State | None:
    row = sessions.find(db, session)
    if row is None:
        return None
    start = min(row.progress.tail_start, row.progress.watermark + 1)
    # A summary put in before the first message has a seq below 1.
    start = start if start > 1 else FIRST_SEQ + 1
    notes = db.execute(sql("live_notes"), (row.sid,))
    messages = db.execute(sql("messages"), (row.sid, start - 1, LAST_SEQ, NO_LIMIT))
    pins = frozenset(unpack(r[0]) for r in db.execute(sql("pins"), (row.sid,)))
    pinned = db.execute(sql("pinned_messages"), (row.sid, start)) if pins else ()
    return State(
        progress=row.progress,
        notes=tuple(map(to_note, notes)),
        messages=to_tail(messages),
        pins=pins,
        pinned=to_tail(pinned),
        items=items.shown(db, row.sid),
    )


def commit(db: sqlite3.Connection, session: SessionId, change: Commit) -> Progress:
    row = sessions.find(db, session)
    if row is None:
        raise ConflictError(f"session {session.key!r} was deleted")
    check_commit(row.progress, row.fence, change.guard)
    # Superseding comes first: the note that is added may start where the old one did.
    for ident in change.supersede:
        _change_status(db, row.sid, ident, "active", "superseded")
    for ident in change.activate:
        _change_status(db, row.sid, ident, "buffered", "active")
    db.executemany(sql("add_note"), [note_row(row.sid, n) for n in change.add])
    extractions.add(db, row.sid, change.extractions)
    progress = committed(row.progress, change)
    unnoted = sessions.unnoted_tokens(db, row.sid, progress.frontier)
    saved = replace(row, progress=replace(progress, unnoted_tokens=unnoted))
    sessions.save(db, saved)
    at = time_of(change, from_instant(row.used_at))
    past.log(db, row.sid, saved.progress, at, changed_by(change))
    return saved.progress


def _change_status(db: sqlite3.Connection, sid: bytes, ident: str, old: NoteStatus, new: NoteStatus) -> None:
    if not db.execute(sql("change_status"), (new, sid, pack(ident), old)).rowcount:
        raise ConflictError(f"note {ident!r} is no longer {old}")


def read(
    db: sqlite3.Connection,
    session: SessionId,
    statuses: Sequence[NoteStatus],
    kind: NoteKind | None,
    recent: int | None,
) -> Sequence[Note]:
    values = _of_kind(session, kind) | {
        "statuses": json.dumps(list(statuses)),
        "limit": NO_LIMIT if recent is None else max(recent, 0),
    }
    newest_first = [to_note(row) for row in db.execute(sql("notes"), values)]
    return newest_first[::-1]


def _of_kind(session: SessionId, kind: NoteKind | None) -> dict[str, Any]:
    return {"sid": sid_of(session), "reflection": None if kind is None else int(kind == "reflection")}


def delete(db: sqlite3.Connection, session: SessionId, kind: NoteKind | None) -> int:
    row = sessions.find(db, session)
    if row is None:
        return 0
    values = _of_kind(session, kind)
    ranges = [tuple(r) for r in db.execute(sql("live_range"), values)]
    shown: int = db.execute(sql("count_active"), values).fetchone()[0]
    gone = gone_notes(n.id for n in read(db, session, LIVE, kind, None))
    for first, last in ranges:
        db.execute(sql("archive_range"), ("cleared", row.sid, first, last))
        db.execute(sql("delete_range"), (row.sid, first, last))
        db.execute(sql("clear_compacted"), (row.sid, first, last))
        db.execute(sql("clear_extractions"), (row.sid, first, last))
    db.execute(sql("delete_notes"), values)
    db.execute(sql("drop_loose_extractions"), (row.sid,))
    db.execute(sql("drop_loose_pins"), (row.sid,))
    progress = row.progress
    # What is cleared counts as noted. With no note buffered, nothing stands between the two marks.
    if not db.execute(sql("has_buffered"), (row.sid,)).fetchone()[0]:
        progress = replace(progress, watermark=progress.frontier)
    progress = replace(
        progress,
        prompt_version=progress.prompt_version + bool(shown),
        unnoted_tokens=sessions.unnoted_tokens(db, row.sid, progress.frontier),
    )
    sessions.save(db, replace(row, progress=progress))
    db.execute(sql("drop_loose_versions"), (row.sid,))
    past.log(db, row.sid, progress, from_instant(row.used_at), gone)
    return len(ranges)


def pin(db: sqlite3.Connection, session: SessionId, target: str, on: bool) -> None:
    where = (sid_of(session), pack(target))
    if not on and db.execute(sql("remove_pin"), where).rowcount:
        db.execute(sql("grow_epoch"), where[:1])
        return
    if not db.execute(sql("can_be_pinned"), where).fetchone()[0]:
        raise KeyError(target)
    if on and db.execute(sql("add_pin"), where).rowcount:
        db.execute(sql("grow_epoch"), where[:1])


# ------------------------------------------------------------------------------------ provenance


def sources(db: sqlite3.Connection, session: SessionId, note_id: str) -> Sequence[Message]:
    sid = sid_of(session)
    found = {note.id: note for note in _by_id(db, sid, [note_id])}
    if note_id not in found:
        return []
    layer = list(found.values())
    while layer := _by_id(db, sid, [s for n in layer if n.generation for s in n.sources if s not in found]):
        found |= {note.id: note for note in layer}
    wanted = dict.fromkeys(_messages_of(db, sid, found[note_id], found))  # once each, in order
    by_id: dict[str, Message] = {}
    for row in db.execute(sql("messages_by_id"), (sid, ids_json(wanted))):
        message = to_message(row)
        by_id.setdefault(message.id, message)
    return [by_id[ident] for ident in wanted if ident in by_id]


def _by_id(db: sqlite3.Connection, sid: bytes, ids: Iterable[str]) -> list[Note]:
    return [to_note(row) for row in db.execute(sql("notes_by_id"), (sid, ids_json(ids)))]


def _messages_of(db: sqlite3.Connection, sid: bytes, note: Note, notes: dict[str, Note]) -> Iterable[str]:
    """Ids of messages, by way of the notes that it was made from."""
    if note.generation == 0:
        yield from note.sources
    elif all(s in notes for s in note.sources):
        for source in note.sources:
            yield from _messages_of(db, sid, notes[source], notes)
    else:  # a person deleted the notes in between: its range still says what it stands for
        for row in db.execute(sql("messages_in_range"), (sid, note.first, note.last)):
            yield unpack(row["id"])


def prune(db: sqlite3.Connection, before: datetime) -> int:
    gone = 0
    for (sid,) in db.execute(sql("sessions_with_past")).fetchall():
        notes = db.execute(sql("prune_notes"), (sid, instant(before))).rowcount
        messages = db.execute(sql("prune_messages"), (sid, instant(before))).rowcount
        if notes or messages:
            db.execute(sql("drop_loose_pins"), (sid,))
            db.execute(sql("drop_loose_extractions"), (sid,))
            db.execute(sql("drop_loose_versions"), (sid,))
        gone += notes + messages
    return gone
