"""Notes beyond the turn: reading them and their sources, pins, extractions, deleting, pruning. All inside a
transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from onlooker.domain.errors import NotFoundError
from onlooker.domain.history import NoteHistory
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import LIVE, Extraction, Note, NoteKind, NoteStatus
from onlooker.stores.sql import sessions
from onlooker.stores.sql.database import (
    FIRST_SEQ,
    NO_LIMIT,
    Database,
    clamp,
    from_instant,
    instant,
    limit_of,
    pack,
    pack_ids,
    sid_of,
    to_extraction,
    to_message,
    to_note,
    to_version,
    unpack,
)


def read(
    db: Database,
    session: SessionId,
    *,
    statuses: Sequence[NoteStatus] = ("active",),
    kind: NoteKind | None = None,
    recent: int | None = None,
    ids: Sequence[str] | None = None,
    after: tuple[int, int, str] | None = None,
    limit: int | None = None,
) -> Sequence[Note]:
    if ids is not None:
        found = (
            n for n in _by_id(db, sid_of(session), ids) if n.status in statuses and kind in (None, n.kind)
        )
        chosen = [n for n in sorted(found, key=position) if after is None or position(n) > after][:limit]
        return chosen if recent is None else chosen[max(0, len(chosen) - recent) :]
    wanted: dict[str, Any] = {**_of_kind(session, kind), "statuses": json.dumps(list(statuses))}
    if after is not None or limit is not None:
        first, generation, ident = after or (FIRST_SEQ - 1, 0, "")
        behind = {"first": clamp(first), "generation": clamp(generation), "id": pack(ident)}
        rows = db.run("notes_after", **wanted, **behind, limit=limit_of(limit)).fetchall()
        return [to_note(row) for row in (rows if recent is None else rows[max(0, len(rows) - recent) :])]
    newest_first = [to_note(row) for row in db.run("notes", **wanted, limit=limit_of(recent))]
    return newest_first[::-1]


def position(note: Note) -> tuple[int, int, str]:
    """The position of a note among others."""
    return note.first, note.generation, note.id


def notes_at(db: Database, session: SessionId, seq: int) -> Sequence[Note]:
    where: dict[str, Any] = {"sid": sid_of(session), "seq": clamp(seq)}
    live = {unpack(row[0]): row[1] for row in db.run("statuses_at", **where) if row[1] in LIVE}
    change = db.value("change_at", **where)
    notes = {n.id: replace(n, status=live[n.id]) for n in _by_id(db, where["sid"], live)}
    # In order: the last text that it had by then.
    for row in db.run("versions_of", sid=where["sid"], ids=pack_ids(live), change=change):
        text = to_version(row)
        if text.note in notes:
            notes[text.note] = replace(notes[text.note], text=text.text, tokens=text.tokens)
    return sorted(notes.values(), key=position)


def note_history(db: Database, session: SessionId, note_id: str) -> NoteHistory | None:
    sid, ident = sid_of(session), pack(note_id)
    found = _by_id(db, sid, [note_id])
    if not found:
        return None
    texts = db.run("versions_of", sid=sid, ids=pack_ids([note_id]), change=NO_LIMIT)
    statuses = [
        (datetime.fromisoformat(at), status) for at, status in db.run("statuses_of", sid=sid, id=ident)
    ]
    return NoteHistory(
        found[0],
        tuple(map(to_version, texts)),
        tuple(s for n, s in enumerate(statuses) if not n or statuses[n - 1][1] != s[1]),
        tuple(unpack(row[0]) for row in db.run("made_from", sid=sid, id=ident)),
    )


def _of_kind(session: SessionId, kind: NoteKind | None) -> dict[str, Any]:
    """Observations are of generation 0, reflections of a higher one."""
    lowest = 1 if kind == "reflection" else 0
    highest = 0 if kind == "observation" else NO_LIMIT
    return {"sid": sid_of(session), "lowest": lowest, "highest": highest}


def delete(db: Database, session: SessionId, kind: NoteKind | None = None) -> int:
    stored = sessions.find(db, session)
    if stored is None:
        return 0
    sid, of_kind = stored.sid, _of_kind(session, kind)
    ranges = [tuple(row) for row in db.run("live_ranges", **of_kind)]
    shown = db.value("count_active", **of_kind)
    deleted = sessions.deleted(n.id for n in read(db, session, statuses=LIVE, kind=kind))
    for first, last in ranges:
        db.run("archive_range", sid=sid, first=first, last=last, reason="cleared")
        for name in ("delete_range", "clear_compacted", "clear_extractions"):
            db.run(name, sid=sid, first=first, last=last)
    db.run("delete_notes", **of_kind)
    progress = stored.progress
    # Cleared messages count as noted. Without buffered notes the watermark is the frontier.
    if not db.value("has_buffered", sid=sid):
        progress = replace(progress, watermark=progress.frontier)
    progress = replace(
        progress,
        prompt_version=progress.prompt_version + bool(shown),
        unnoted_tokens=sessions.unnoted_tokens(db, sid, progress.frontier),
    )
    sessions.save(db, replace(stored, progress=progress))
    drop_loose(db, sid)
    sessions.log(db, sid, progress, from_instant(stored.used_at), deleted)
    return len(ranges)


def drop_loose(db: Database, sid: bytes) -> None:
    """Delete versions, extractions and pins of notes and messages that no longer exist."""
    for name in ("drop_loose_versions", "drop_loose_extractions", "drop_loose_pins"):
        db.run(name, sid=sid)


def pin(db: Database, session: SessionId, target: str, *, on: bool) -> None:
    db.lock_session(session)
    sid, ident = sid_of(session), pack(target)
    if not on and db.run("remove_pin", sid=sid, id=ident).rowcount:
        db.run("bump_prompt_version", sid=sid)
        return
    if not db.value("can_be_pinned", sid=sid, id=ident):
        raise NotFoundError("note or message", target)
    if on and db.run("add_pin", sid=sid, id=ident).rowcount:
        db.run("bump_prompt_version", sid=sid)


def extractions(db: Database, session: SessionId, *, type: str | None = None) -> Sequence[Extraction]:
    rows = db.run("extractions", sid=sid_of(session), type=None if type is None else pack(type))
    return [to_extraction(row, session) for row in rows]


# ------------------------------------------------------------------------------------ sources


def sources(db: Database, session: SessionId, note_id: str) -> Sequence[Message]:
    sid = sid_of(session)
    found = {note.id: note for note in _by_id(db, sid, [note_id])}
    if note_id not in found:
        return []
    layer = list(found.values())
    while layer := _by_id(db, sid, [s for n in layer if n.generation for s in n.sources if s not in found]):
        found |= {note.id: note for note in layer}
    wanted = dict.fromkeys(_messages_of(db, sid, found[note_id], found))  # once each, in order
    by_id: dict[str, Message] = {}
    for row in db.run("messages_by_id", sid=sid, ids=pack_ids(wanted)):
        message = to_message(row)
        by_id.setdefault(message.id, message)
    return [by_id[ident] for ident in wanted if ident in by_id]


def _by_id(db: Database, sid: bytes, ids: Iterable[str]) -> list[Note]:
    return [to_note(row) for row in db.run("notes_by_id", sid=sid, ids=pack_ids(ids))]


def _messages_of(db: Database, sid: bytes, note: Note, notes: dict[str, Note]) -> Iterable[str]:
    """Ids of messages, by way of the notes that it was made from."""
    if note.generation == 0:
        yield from note.sources
    elif all(s in notes for s in note.sources):
        for source in note.sources:
            yield from _messages_of(db, sid, notes[source], notes)
    else:  # the notes in between were deleted, but its range still shows which messages it covers
        for row in db.run("messages_in_range", sid=sid, first=note.first, last=note.last):
            yield unpack(row["id"])


# ------------------------------------------------------------------------------------ pruning


def prune(db: Database, *, before: datetime, dry_run: bool = False) -> int:
    if not dry_run:
        return _prune(db, before)
    db.run("begin_trial")
    try:
        return _prune(db, before)
    finally:
        db.run("undo_trial")
        db.run("end_trial")


def _prune(db: Database, before: datetime) -> int:
    deleted = 0
    for (sid,) in db.run("sessions_with_past").fetchall():
        pruned = db.run("prune_notes", sid=sid, before=instant(before)).rowcount
        pruned += db.run("prune_messages", sid=sid, before=instant(before)).rowcount
        if pruned:
            drop_loose(db, sid)
        deleted += pruned
    return deleted
