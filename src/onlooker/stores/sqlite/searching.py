"""The full-text index: taking texts in, and finding them. All inside a transaction."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import HitKind, Match, Query, SearchResult
from onlooker.policy.search.rank import MOST_HOLDERS, shortlist, text_of, words_of
from onlooker.stores.sqlite import messages
from onlooker.stores.sqlite.rows import (
    LAST_SEQ,
    instant,
    instant_of_text,
    pack,
    sid_of,
    to_message,
    to_session,
    unpack,
    within,
)
from onlooker.stores.sqlite.statements import sql

# Instants that stand for no bound at all.
EARLIEST, LATEST = -(2**63), 2**63 - 1

# ------------------------------------------------------------------------------------ taking in


def unindexed(
    db: sqlite3.Connection, owner: str, session: SessionId | None, limit: int
) -> Sequence[SessionId]:
    values = (pack(owner), session and sid_of(session), max(limit, 0))
    return [to_session(row) for row in db.execute(sql("unindexed"), values)]


def index(db: sqlite3.Connection, session: SessionId, limit: int) -> int:
    sid = sid_of(session)
    row = db.execute(sql("indexed"), (sid,)).fetchone()
    if row is None:
        return 0
    done, notes_done, last_seq = row
    read = list(messages.part(db, sid, done, LAST_SEQ, limit, summaries=False))
    for message in map(to_message, read):
        add(db, session, "message", message.id, text_of(message), message.at and instant(message.at))
    notes = [] if notes_done else db.execute(sql("notes_to_index"), (sid,)).fetchall()
    for ident, made_at, text in notes:
        add(db, session, "note", unpack(ident), unpack(text), instant_of_text(made_at))
    if read or notes or not notes_done or done < last_seq:
        reached = read[-1][0] if len(read) >= limit else last_seq
        db.execute(sql("set_indexed"), (reached, 1, sid))
    return len(read) + len(notes)


def add(
    db: sqlite3.Connection, session: SessionId, kind: HitKind, ident: str, text: str, at: int | None
) -> None:
    """Let a text be found, in place of what was found under its id before."""
    sid, words = sid_of(session), words_of(text)
    db.execute(sql("remove_searchable"), (sid, kind, pack(ident)))
    scope = f"{_scope(kind, session.owner, None)} {_scope(kind, session.owner, session)}"
    length = words.count(" ") + 1 if words else 0
    values = (kind, pack(session.owner), sid, pack(ident), at, length, scope, words)
    db.execute(sql("add_searchable"), values)


def _scope(kind: HitKind, owner: str, session: SessionId | None) -> str:
    """A token that every text of an owner, or of a session, has."""
    if session is not None:
        return f"{kind}_of_{session.sid}"
    digest = hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{kind}_by_{digest}"


# ------------------------------------------------------------------------------------ finding


def search(db: sqlite3.Connection, query: Query) -> SearchResult:
    if query.session is not None and query.session.owner != query.owner:
        raise SettingsError("session", query.session, f"must be one of the owner {query.owner!r}")
    sid = query.session and sid_of(query.session)
    docs, length = db.execute(sql("search_totals"), (pack(query.owner), query.kind, sid)).fetchone()
    holders = {term: _holders(db, query, term) for term in query.terms}
    if query.terms:
        numbers = shortlist(holders, query.terms, int(docs), query.most)
    else:
        values = (pack(query.owner), query.kind, sid, *_times(query), query.most)
        numbers = [number for (number,) in db.execute(sql("said_then"), values)]
    counts = {term: len(numbers) for term, numbers in holders.items()}
    return SearchResult(int(docs), int(length), counts, tuple(matches(db, query.kind, numbers)))


def _holders(db: sqlite3.Connection, query: Query, term: str) -> list[int]:
    scope = _scope(query.kind, query.owner, query.session)
    match = f'scope : "{scope}" AND words : "{term}"'
    if query.after is None and query.before is None:
        rows = db.execute(sql("holders"), (match, MOST_HOLDERS))
    else:
        rows = db.execute(sql("holders_then"), (match, MOST_HOLDERS, *_times(query)))
    return [number for (number,) in rows]


def _times(query: Query) -> tuple[int, int]:
    after = EARLIEST if query.after is None else instant(query.after)
    return after, LATEST if query.before is None else instant(query.before)


def matches(db: sqlite3.Connection, kind: HitKind, numbers: Sequence[int]) -> Iterable[Match]:
    """The texts, in the order of their numbers here."""
    rows = db.execute(
        sql("matched_messages" if kind == "message" else "matched_notes"), (json.dumps(numbers),)
    )
    found = {row["number"]: row for row in rows.fetchall()}
    make = _message_match if kind == "message" else _note_match
    return (make(found[number]) for number in numbers if number in found)


def _message_match(row: sqlite3.Row) -> Match:
    message = to_message(tuple(row)[4:])
    session = to_session(row)
    return Match(
        "message", session, message.id, message.seq, message.at, message.name, text_of(message), row["words"]
    )


def _note_match(row: sqlite3.Row) -> Match:
    ident, first, made_at, text = tuple(row)[4:]
    at = datetime.fromisoformat(made_at)
    return Match("note", to_session(row), unpack(ident), first, at, "", unpack(text), row["words"])


def around(db: sqlite3.Connection, session: SessionId, seqs: Sequence[int], reach: int) -> list[Message]:
    values: tuple[Any, ...] = (sid_of(session), json.dumps([within(s) for s in seqs]), within(max(reach, 0)))
    return [to_message(row) for row in db.execute(sql("around"), values)]
