"""The whole store, or a part of it, as rows: reading them out and taking them in."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from onlooker.domain.history_rows import (
    PORTABLE_VALUES,
    ChangeRow,
    ExtractionRow,
    ItemRow,
    MessageRow,
    NoteRow,
    RestartRow,
    Row,
    Scope,
    SessionRow,
    UsageRow,
    ValueRow,
    VersionRow,
)
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Extraction, Progress, Usage
from onlooker.stores.moving import OnConflict, already_there, incomplete
from onlooker.stores.sqlite import messages, sessions
from onlooker.stores.sqlite.items import item_row, to_item
from onlooker.stores.sqlite.past import change_row, put_note, to_change, to_version, version_row
from onlooker.stores.sqlite.rows import (
    EPOCH,
    FIRST_SEQ,
    from_instant,
    instant,
    message_row,
    pack,
    sid_of,
    to_message,
    to_note,
    to_progress,
    to_session,
    unpack,
    usage_row,
    within,
)
from onlooker.stores.sqlite.statements import sql

# ------------------------------------------------------------------------------------ out


def dump(db: sqlite3.Connection, scope: Scope) -> Iterator[Row]:
    """Sessions by their hash, each with what belongs to it; then what belongs to the store."""
    sid = sid_of(scope.session) if scope.session else None
    owner = None if scope.owner is None else pack(scope.owner)
    # By hash and not by name, so that every store gives them in the same order.
    low, high = map(bytes.fromhex, scope.hashes)
    if scope.of_sessions:
        for row in db.execute(sql("dump_sessions"), (low, high, owner)).fetchall():
            yield from _session(db, row, scope)
    if scope.wants("item"):
        for row in db.execute(sql("dump_items"), (sid, owner)):
            yield ItemRow(to_item(row))
    if scope.wants("usage"):
        yield from map(_usage, db.execute(sql("dump_usage"), (sid, owner)))
    if scope.wants("value") and sid is None and owner is None:
        for name in PORTABLE_VALUES:
            if (value := sessions.get_value(db, name)) is not None:
                yield ValueRow(name, value)


def _session(db: sqlite3.Connection, row: sqlite3.Row, scope: Scope) -> Iterator[Row]:
    session, sid, change = to_session(row), row["sid"], scope.after.change
    if scope.wants("session"):
        pins = sorted(unpack(r[0]) for r in db.execute(sql("dump_pins"), (sid,)))
        used_at, shown = from_instant(row["used_at"]), _shown(db, row, scope)
        yield SessionRow(to_progress(row, session), used_at, row["changes"], tuple(pins), shown)
    if scope.wants("message"):
        values = (sid, within(scope.after.seq) or FIRST_SEQ)
        live, aside = db.execute(sql("dump_live"), values), db.execute(sql("dump_archived"), values)
        for found in messages.merged(live, aside):
            yield MessageRow(session, to_message(found), found[9], bool(found[8]))
    if scope.wants("note"):
        for found in db.execute(sql("dump_notes"), (sid, change)):
            yield NoteRow(session, to_note(found))
    if scope.wants("extraction"):
        for found in db.execute(sql("dump_extractions"), (sid, change)):
            yield _extraction(found, session)
    if scope.wants("version"):
        for found in db.execute(sql("dump_versions"), (sid, change)):
            yield VersionRow(session, to_version(tuple(found)))
    if scope.wants("change"):
        for found in db.execute(sql("dump_changes"), (sid, change)):
            yield ChangeRow(session, to_change(tuple(found)))


def _shown(db: sqlite3.Connection, row: sqlite3.Row, scope: Scope) -> tuple[str, ...] | None:
    if not row["items_chosen"]:
        return None
    # Of other sessions' items only where those come along.
    own = row["sid"] if scope.session else None
    return tuple(unpack(r[0]) for r in db.execute(sql("dump_shown"), (row["sid"], own)))


def _extraction(row: sqlite3.Row, session: SessionId) -> ExtractionRow:
    number, kind, value, note, seqs, said_at, made_at = row
    times = datetime.fromisoformat(said_at), datetime.fromisoformat(made_at)
    where = unpack(note), session, tuple(json.loads(seqs))
    return ExtractionRow(session, number, Extraction(unpack(kind), unpack(value), *where, *times))


def _usage(row: sqlite3.Row) -> UsageRow:
    owner, key, model, purpose, read, written, verdict, at, cost = row
    when = datetime.fromisoformat(at)
    usage = Usage(unpack(model), purpose, read, written, unpack(verdict), when, cost)
    return UsageRow(unpack(owner), None if key is None else unpack(key), usage)


# ------------------------------------------------------------------------------------ in


def restore(
    db: sqlite3.Connection, session: SessionId | None, batches: Iterable[list[Row]], way: OnConflict
) -> None:
    """Take in the rows of one session, or those of the store itself."""
    if session is not None:
        _make_way(db, session, way)
    whole = False  # whether the session's own row came
    for batch in batches:
        for is_message, rows in groupby(batch, lambda row: isinstance(row, MessageRow)):
            if is_message:
                _put_messages(db, [row for row in rows if isinstance(row, MessageRow)])
                continue
            for row in rows:
                _put(db, row, way.replace)
                whole = isinstance(row, SessionRow) or (whole and not isinstance(row, RestartRow))
    if session is not None:
        _complete(db, session, whole)


def show(db: sqlite3.Connection, shown: Mapping[SessionId, Sequence[str]]) -> None:
    """Say which items sessions show that came in the place of others: once all are in, since each that makes
    way takes the items along that were made in it, wherever they are shown."""
    for session, ids in shown.items():
        if sessions.find(db, session) is not None:
            _show(db, session, ids)


def _make_way(db: sqlite3.Connection, session: SessionId, way: OnConflict) -> None:
    if sessions.find(db, session) is None:
        return
    sid = sid_of(session)
    if way.replace:
        # What it cost comes with the rows.
        db.execute(sql("drop_usage"), (sid,))
        sessions.delete(db, session)
    elif way.renew:
        db.execute(sql("raise_beginnings"), (sid,))
        _void(db, sid)
    else:
        raise already_there(session)


def _complete(db: sqlite3.Connection, session: SessionId, whole: bool) -> None:
    if not whole:
        raise incomplete(session)
    sid = sid_of(session)
    db.execute(sql("save_totals"), (*sessions.totals(db, sid), sid))


def _put(db: sqlite3.Connection, row: Row, replace: bool) -> None:
    match row:
        case SessionRow():
            _put_session(db, row)
            _show(db, row.session, () if replace else row.shown_items or ())
        case MessageRow():
            _put_messages(db, [row])
        case NoteRow(session, note):
            put_note(db, sid_of(session), note)
        case ExtractionRow(session, number, extraction):
            db.execute(sql("put_extraction"), _extraction_row(sid_of(session), number, extraction))
        case VersionRow(session, version):
            db.execute(sql("add_version"), version_row(sid_of(session), version))
        case ChangeRow(session, change):
            db.execute(sql("add_change"), change_row(sid_of(session), change))
        case RestartRow(session):
            _void(db, sid_of(session))
        case ItemRow(item):
            db.execute(sql("put_item"), item_row(item.owner, item))
        case UsageRow():
            _put_usage(db, row)
        case ValueRow(name, value):
            sessions.set_value(db, name, value)


def _put_messages(db: sqlite3.Connection, rows: Sequence[MessageRow]) -> None:
    """Many at once: on a server each statement of its own would be a trip of its own."""
    # Their place is their session's, whose row may come after them.
    sessions.find_or_create(db, rows[0].session, EPOCH)
    live: list[tuple[Any, ...]] = []
    aside: list[tuple[Any, ...]] = []
    for row in rows:
        values = message_row(sid_of(row.session), row.message, row.message.digest, summary=row.summary)
        if row.place == "live":
            live.append(values)
        else:
            aside.append((*values, row.place))
    db.executemany(sql("put_message"), live)
    db.executemany(sql("put_archived"), aside)


def _void(db: sqlite3.Connection, sid: bytes) -> None:
    """Take out what came in of a session so far."""
    sessions.delete_rows(db, sid)
    db.execute(sql("hide_items_of_session"), (sid,))


def _put_session(db: sqlite3.Connection, row: SessionRow) -> None:
    p = row.progress
    sid = sid_of(p.session)
    values: dict[str, Any] = {
        "sid": sid,
        "owner": pack(p.session.owner),
        "key": pack(p.session.key),
        "due_at": None if p.due_at is None else instant(p.due_at),
        "used_at": instant(row.used_at),
        "items_chosen": int(row.shown_items is not None),
    }
    for name in _MARKS:
        values[name] = getattr(p, name)
    db.execute(sql("put_session"), values)
    db.execute("DELETE FROM pins WHERE sid = ?", (sid,))
    db.executemany(sql("add_pin"), [(sid, pack(target)) for target in row.pins])


def _show(db: sqlite3.Connection, session: SessionId, ids: Sequence[str]) -> None:
    sid, owner = sid_of(session), pack(session.owner)
    db.execute(sql("hide_items_of_session"), (sid,))
    db.executemany(sql("put_shown"), [(sid, place, owner, pack(item)) for place, item in enumerate(ids)])


_MARKS = tuple(name for name in Progress.__dataclass_fields__ if name not in ("session", "due_at"))


def _extraction_row(sid: bytes, number: int, e: Extraction) -> tuple[Any, ...]:
    times = e.said_at.isoformat(), e.made_at.isoformat()
    return (sid, pack(e.note), number, pack(e.type), json.dumps(e.seqs), *times, pack(e.text))


def _put_usage(db: sqlite3.Connection, row: UsageRow) -> None:
    values = usage_row(SessionId(row.owner, row.key or ""), row.usage)
    db.execute(sql("put_usage"), values if row.key is not None else (b"", *values[1:]))
