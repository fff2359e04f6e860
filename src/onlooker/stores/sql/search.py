"""The full-text index: adding texts and finding them. All inside a transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import SessionId
from onlooker.domain.search import HitKind, Match, Query, SearchResult
from onlooker.policy.search.rank import MOST_HOLDERS, shortlist, text_of, words_of
from onlooker.stores.sql import messages
from onlooker.stores.sql.database import Database
from onlooker.stores.sql.rows import (
    LAST_SEQ,
    instant,
    instant_of_text,
    limit_of,
    pack,
    sid_of,
    to_message,
    to_session,
    unpack,
)

# Times that stand for no bound.
EARLIEST, LATEST = -(2**62), 2**62


def check_owner(owner: str, session: SessionId | None) -> None:
    """Refuse a session of another owner."""
    if session is not None and session.owner != owner:
        raise SettingsError("session", session, f"must belong to the owner {owner!r}")


def bounds(after: datetime | None, before: datetime | None) -> dict[str, int]:
    """The parameters `since` and `before`."""
    return {
        "since": EARLIEST if after is None else instant(after),
        "before": LATEST if before is None else instant(before),
    }


# ------------------------------------------------------------------------------------ adding


def unindexed(db: Database, owner: str, session: SessionId | None, limit: int) -> Sequence[SessionId]:
    rows = db.run("unindexed", owner=pack(owner), sid=session and sid_of(session), limit=limit_of(limit))
    return [to_session(row) for row in rows]


def unindexed_anywhere(db: Database, limit: int) -> Sequence[SessionId]:
    return [to_session(row) for row in db.run("unindexed_anywhere", limit=limit_of(limit))]


def index(db: Database, session: SessionId, limit: int) -> int:
    sid = sid_of(session)
    row = db.run("indexed", sid=sid).fetchone()
    if row is None:
        return 0
    done, notes_done, last_seq = row
    read = list(messages.part(db, sid, done, LAST_SEQ, limit, summaries=False))
    for message in map(to_message, read):
        _add(db, session, "message", message.id, text_of(message), message.at and instant(message.at))
    notes = [] if notes_done else db.run("notes_to_index", sid=sid).fetchall()
    for ident, made_at, text in notes:
        _add(db, session, "note", unpack(ident), unpack(text), instant_of_text(made_at))
    if read or notes or not notes_done or done < last_seq:
        reached = read[-1][0] if len(read) >= limit else last_seq
        db.run("set_indexed", sid=sid, seq=reached)
    return len(read) + len(notes)


def _add(db: Database, session: SessionId, kind: HitKind, ident: str, text: str, at: int | None) -> None:
    """Index a text, replacing an earlier text of the same id."""
    sid, words = sid_of(session), words_of(text)
    where: dict[str, Any] = {"sid": sid, "kind": kind, "id": pack(ident)}
    db.run("remove_searchable", **where)
    db.run(
        "add_searchable",
        owner=pack(session.owner),
        instant=at,
        length=words.count(" ") + 1 if words else 0,
        scope=f"{_scope(kind, session.owner, None)} {_scope(kind, session.owner, session)}",
        words=words,
        **where,
    )


def _scope(kind: HitKind, owner: str, session: SessionId | None) -> str:
    """A token that every text of an owner, or of a session, has."""
    if session is not None:
        return f"{kind}_of_{session.sid}"
    digest = hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{kind}_by_{digest}"


# ------------------------------------------------------------------------------------ finding


def search(db: Database, query: Query) -> SearchResult:
    check_owner(query.owner, query.session)
    where: dict[str, Any] = {"owner": pack(query.owner), "kind": query.kind}
    where["sid"] = query.session and sid_of(query.session)
    docs, length = db.run("search_totals", **where).fetchone()
    holders = {term: _holders(db, query, term) for term in query.terms}
    if query.terms:
        numbers = shortlist(holders, query.terms, docs, query.most)
    else:
        rows = db.run("said_between", **where, **bounds(query.after, query.before), limit=query.most)
        numbers = [number for (number,) in rows]
    counts = {term: len(found) for term, found in holders.items()}
    return SearchResult(docs, length, counts, tuple(matches(db, query.kind, numbers)))


def _holders(db: Database, query: Query, term: str) -> list[int]:
    scope = _scope(query.kind, query.owner, query.session)
    match = f'scope : "{scope}" AND words : "{term}"'
    if query.after is None and query.before is None:
        rows = db.run("holders", match=match, limit=MOST_HOLDERS)
    else:
        times = bounds(query.after, query.before)
        rows = db.run("holders_between", match=match, limit=MOST_HOLDERS, **times)
    return [number for (number,) in rows]


def matches(db: Database, kind: HitKind, numbers: Sequence[int]) -> Iterable[Match]:
    """The texts with these numbers, in this order."""
    name = "matched_messages" if kind == "message" else "matched_notes"
    found = {row["number"]: row for row in db.run(name, numbers=json.dumps(numbers)).fetchall()}
    make = _message_match if kind == "message" else _note_match
    return (make(found[number]) for number in numbers if number in found)


def _message_match(row: Any) -> Match:
    m = to_message(tuple(row)[4:])
    return Match("message", to_session(row), m.id, m.seq, m.at, m.name, text_of(m), row["words"])


def _note_match(row: Any) -> Match:
    ident, first, made_at, text = tuple(row)[4:]
    at = datetime.fromisoformat(made_at)
    return Match("note", to_session(row), unpack(ident), first, at, "", unpack(text), row["words"])
