"""Messages that have outlived a session's limits: archived, or deleted. All inside a transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import datetime

from onlooker.domain.history import Retention, RetentionResult
from onlooker.domain.messages import SessionId
from onlooker.stores.retaining import Kept, Outlived, outlived
from onlooker.stores.sqlite import sessions
from onlooker.stores.sqlite.rows import pack, to_note, unpack
from onlooker.stores.sqlite.statements import sql


def retain(db: sqlite3.Connection, session: SessionId, limits: Retention, dry_run: bool) -> RetentionResult:
    row = sessions.find(db, session)
    if row is None:
        return RetentionResult()
    decided = _decided(db, row, limits)
    if not dry_run and decided.counts != RetentionResult():
        _apply(db, row.sid, decided)
        count, tokens = sessions.totals(db, row.sid)
        sessions.save(db, replace(row, messages=count, message_tokens=tokens))
    return decided.counts


def _decided(db: sqlite3.Connection, row: sessions.Row, limits: Retention) -> Outlived:
    kept = [
        Kept(seq, unpack(ident), datetime.fromisoformat(at) if at else None, bool(live))
        for seq, ident, at, live in db.execute(sql("kept_messages"), (row.sid,))
    ]
    pins = {unpack(r[0]) for r in db.execute(sql("pins"), (row.sid,))}
    notes = map(to_note, db.execute(sql("live_notes"), (row.sid,)))
    return outlived(kept, limits, row.progress, pins=pins, notes=notes)


def _apply(db: sqlite3.Connection, sid: bytes, decided: Outlived) -> None:
    for message in decided.archive:
        db.execute(sql("archive_range"), ("compacted", sid, message.seq, message.seq))
        db.execute(sql("delete_range"), (sid, message.seq, message.seq))
    for message in decided.delete:
        if message.live:
            db.execute(sql("delete_range"), (sid, message.seq, message.seq))
        else:
            db.execute(sql("delete_archived"), (sid, message.seq, pack(message.id)))
