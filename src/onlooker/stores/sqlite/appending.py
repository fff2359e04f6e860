"""Appending messages: what runs most often. Inside a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from onlooker.domain.errors import StoreError
from onlooker.domain.messages import Message, SessionId, extend_history_hash
from onlooker.domain.notes import Appended
from onlooker.stores.progress import grown
from onlooker.stores.sqlite import sessions
from onlooker.stores.sqlite.rows import LAST_SEQ, instant, message_row, progress_of, sid_of
from onlooker.stores.sqlite.statements import sql


def append(
    db: sqlite3.Connection, session: SessionId, messages: Sequence[Message], due_tokens: int, now: datetime
) -> Appended:
    sid = sid_of(session)
    row = db.execute(sql("standing"), (sid,)).fetchone()
    if row is None:
        sessions.create(db, session, now)
        row = db.execute(sql("standing"), (sid,)).fetchone()
    base, *marks = row
    progress = progress_of(session, marks)
    seq, history_hash = progress.last_seq, progress.history_hash
    if seq + len(messages) > LAST_SEQ:
        raise StoreError(f"session {session.key!r} has {seq:,} messages and no room for more; begin another")
    fresh: list[Message] = []
    for message in messages:
        placed = message.with_seq(seq + 1)
        digest = placed.digest
        if db.execute(sql("append_message"), (base, *message_row(sid, placed, digest))).rowcount:
            seq, history_hash = seq + 1, extend_history_hash(history_hash, digest)
            fresh.append(placed)
    progress = grown(progress, fresh, history_hash, due_tokens, now)
    tokens = progress.unnoted_tokens - marks[4]
    due_at = None if progress.due_at is None else instant(progress.due_at)
    # Not the whole row: only what an append changes.
    saved = (seq, progress.unnoted_tokens, history_hash, due_at, len(fresh), tokens, instant(now), base)
    db.execute(sql("save_appended"), saved)
    return Appended(progress, tuple(fresh))
