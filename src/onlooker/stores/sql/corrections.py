"""Corrections: editing a note, undoing a reflection, forgetting, deleting. All inside a transaction.

What is checked and decided is in functions without SQL, which come before the transactions that use them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from onlooker.domain.errors import ConflictError, NotFoundError
from onlooker.domain.history import Change, Forgetting, Version
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import LIVE, Note, NoteStatus, Progress
from onlooker.stores.sql import items, notes, sessions
from onlooker.stores.sql.database import (
    Database,
    note_values,
    pack,
    pack_ids,
    sid_of,
    to_note,
    to_session,
    version_values,
)
from onlooker.stores.sql.realignment import Known, bring_back, known_messages
from onlooker.stores.sql.sessions import StoredSession

# The model of an edited note.
PERSON = "person"


# ------------------------------------------------------------------------------------ edit


def edited(note: Note | None, ident: str, was: str | None, text: str, tokens: int, by: str) -> Note:
    """The note with its new text.

    Raises:
        NotFoundError: The note does not exist or is not live.
        ConflictError: Its text is not the one that was edited.
    """
    if note is None or note.status not in LIVE:
        raise NotFoundError("live note", ident)
    if was is not None and was != note.text:
        raise ConflictError(f"note {ident!r} has changed; read it again")
    # The built-in model no longer counts as its author, so no model is asked to rewrite it.
    return replace(note, text=text, tokens=tokens, model=f"{PERSON}:{by}" if by else PERSON, degraded=False)


def versions_after(before: Note, after: Note, known: int, change: Change, by: str) -> list[Version]:
    """The versions that an edit adds to the `known` ones: with the first edit also the original text."""
    first = [Version(before.id, 1, 0, before.text, before.tokens, before.model, before.made_at)]
    number = max(known, 1) + 1
    return [
        *(first if not known else ()),
        Version(after.id, number, change.number, after.text, after.tokens, by, change.at),
    ]


def edit(
    db: Database,
    session: SessionId,
    note_id: str,
    text: str,
    *,
    tokens: int,
    by: str,
    now: datetime,
    was: str | None = None,
) -> Note:
    stored = _find(db, session, note_id)
    sid = stored.sid
    before = _note(db, sid, note_id)
    after = edited(before, note_id, was, text, tokens, by)
    assert before is not None
    put_note(db, sid, after)
    # A note that is being written may have been given the old text.
    progress = replace(
        stored.progress,
        revision=stored.progress.revision + 1,
        prompt_version=stored.progress.prompt_version + (after.status == "active"),
    )
    sessions.save(db, replace(stored, progress=progress))
    known = db.value("count_versions", sid=sid, note=pack(note_id))
    change = sessions.log(db, sid, progress, now, [(after.id, after.status)])
    versions = versions_after(before, after, known, change, by)
    db.run_many("add_version", [version_values(sid, v) for v in versions])
    return after


def put_note(db: Database, sid: bytes, note: Note) -> None:
    """Insert or update a note."""
    # Not one statement with ON CONFLICT: in SQLite that would also apply to what the triggers insert.
    values = note_values(sid, note)
    if not db.run("change_note", **values).rowcount:
        db.run("add_note", **values)


def _find(db: Database, session: SessionId, ident: str) -> StoredSession:
    stored = sessions.find(db, session)
    if stored is None:
        raise NotFoundError("note", ident)
    return stored


def _note(db: Database, sid: bytes, ident: str) -> Note | None:
    row = db.run("notes_by_id", sid=sid, ids=pack_ids([ident])).fetchone()
    return None if row is None else to_note(row)


# ------------------------------------------------------------------------------------ undo


def undone(notes: Mapping[str, Note], ident: str) -> list[tuple[str, NoteStatus]]:
    """The new statuses of a reflection and its sources when it is undone.

    Raises:
        NotFoundError: The reflection does not exist or is not active.
        ConflictError: Some of its sources are gone.
    """
    note = notes.get(ident)
    if note is None or not note.generation or note.status != "active":
        raise NotFoundError("active reflection", ident)
    if any(s not in notes or notes[s].status != "superseded" for s in note.sources):
        raise ConflictError(f"{ident!r} cannot be undone: some of the notes it was made from are gone")
    active: NoteStatus = "active"
    return [(ident, "retired"), *((source, active) for source in note.sources)]


def check_prompt_version(progress: Progress, prompt_version: int) -> None:
    """Refuse a decision made on other notes than the current ones."""
    if prompt_version != progress.prompt_version:
        raise ConflictError(
            f"the notes changed (prompt version {prompt_version} became {progress.prompt_version})"
        )


def undo(db: Database, session: SessionId, note_id: str, *, prompt_version: int, now: datetime) -> Progress:
    stored = _find(db, session, note_id)
    sid, p = stored.sid, stored.progress
    check_prompt_version(p, prompt_version)
    found = _note(db, sid, note_id)
    ids = [note_id, *(found.sources if found else ())]
    by_id = {n.id: n for n in map(to_note, db.run("notes_by_id", sid=sid, ids=pack_ids(ids)))}
    statuses = undone(by_id, note_id)
    db.run_many("set_status", [{"sid": sid, "id": pack(note), "status": s} for note, s in statuses])
    db.run("remove_pin", sid=sid, id=pack(note_id))
    progress = replace(p, revision=p.revision + 1, prompt_version=p.prompt_version + 1)
    sessions.save(db, replace(stored, progress=progress))
    sessions.log(db, sid, progress, now, statuses)
    return progress


# ------------------------------------------------------------------------------------ forget


def check_forgetting(progress: Progress, last_change: int, change: Forgetting) -> None:
    """Refuse a decision made on another state of the session."""
    if change.revision != progress.revision or change.change != last_change:
        raise ConflictError("the notes changed; decide again what to forget")


def without_summaries(known: Sequence[Known], change: Forgetting) -> tuple[list[Known], list[Known]]:
    """The summaries of forgotten messages, to delete, and what becomes live instead: the other
    messages that they replaced, and the summary before them."""
    forgotten = set(change.messages)
    archived = [k.seq for k in known if k.id in forgotten and k.status != "live"]
    if forgotten - {k.id for k in known}:  # deleted by a compaction; only the range of its note is known
        archived += [n.first for n in change.rewritten]
    drop = [
        k for k in known if k.summary and (k.id in change.summaries or (archived and k.seq >= min(archived)))
    ]
    if not drop:
        return [], []
    left = [k for k in known if k.summary and k not in drop and k.status in ("live", "compacted")]
    newest = max(left, key=lambda k: (k.seq, k.status == "live"), default=None)
    after = newest.seq if newest else min(k.seq for k in known) - 1
    back = [
        k
        for k in known
        if k.status == "compacted" and k.is_current and k.seq > after and k.id not in forgotten
    ]
    if newest and newest.status == "compacted":
        back.insert(0, newest)
    return drop, back


def forget(db: Database, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
    db.lock_owner(session.owner)
    stored = sessions.find(db, session)
    if stored is None:
        raise ConflictError(f"session {session.key!r} was deleted")
    sid, p = stored.sid, stored.progress
    check_forgetting(p, sessions.last_change(db, sid), change)
    _forget_messages(db, sid, change)
    _forget_notes(db, sid, change)
    count, tokens = sessions.totals(db, sid)
    progress = replace(
        p,
        history_hash=sessions.history_hash(db, sid),
        unnoted_tokens=sessions.unnoted_tokens(db, sid, p.frontier),
        revision=p.revision + 1,
        prompt_version=p.prompt_version + 1,
        due_at=now if change.due and p.due_at is None else p.due_at,
    )
    sessions.save(db, replace(stored, progress=progress, messages=count, message_tokens=tokens))
    sessions.log(db, sid, progress, now, sessions.deleted(change.deleted))
    items.delete(db, session.owner, change.items)
    return progress


def _forget_messages(db: Database, sid: bytes, change: Forgetting) -> None:
    ids = pack_ids(change.messages)
    seqs = [row[0] for row in db.run("seqs_of_messages", sid=sid, ids=ids)]
    drop, back = without_summaries(known_messages(db, sid), change)
    db.run("drop_messages", sid=sid, ids=ids)
    db.run("drop_archived", sid=sid, ids=ids)
    for summary in drop:
        name = "drop_messages" if summary.status == "live" else "drop_archived"
        db.run(name, sid=sid, ids=pack_ids([summary.id]))
    for message in back:
        bring_back(db, sid, message, message.seq)
    db.run("drop_extractions_from", sid=sid, seqs=json.dumps(seqs))


def _forget_notes(db: Database, sid: bytes, change: Forgetting) -> None:
    db.run("drop_notes", sid=sid, ids=pack_ids(change.deleted))
    for note in change.rewritten:
        put_note(db, sid, note)
    db.run("drop_versions", sid=sid, ids=pack_ids(n.id for n in change.rewritten))
    notes.drop_loose(db, sid)


# ------------------------------------------------------------------------------------ delete


def forget_owner(db: Database, owner: str) -> int:
    db.lock_owner(owner)
    found = [to_session(row) for row in db.run("sessions_of_owner", owner=pack(owner), sid=None).fetchall()]
    for session in found:
        delete_session(db, session)
    items.delete(db, owner)
    db.run("detach_usage_of_owner", owner=pack(owner))
    return len(found)


def delete_session(db: Database, session: SessionId) -> bool:
    db.lock_owner(session.owner)
    stored = sessions.find(db, session)
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
