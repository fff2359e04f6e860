"""The graph of notes: what they mention is kept here, their other edges are read off the notes themselves.
All inside a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import SessionId
from onlooker.domain.search import Document, Edge, EdgeKind, Match, Node, note_node
from onlooker.policy.search.graph import Stub, folded, structure
from onlooker.policy.search.rank import words_of
from onlooker.stores.sqlite.rows import pack, sid_of, to_session, unpack
from onlooker.stores.sqlite.statements import sql

# ------------------------------------------------------------------------------------ taking in


def unlinked(db: sqlite3.Connection, limit: int) -> Sequence[Document]:
    rows = db.execute(sql("unlinked"), (max(limit, 0),))
    return [Document("note", to_session(row), unpack(row["id"]), unpack(row["text"])) for row in rows]


def link(db: sqlite3.Connection, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
    return sum(_link(db, document, names) for document, names in found)


def _link(db: sqlite3.Connection, document: Document, names: Sequence[str]) -> bool:
    sid, ident, owner = sid_of(document.session), pack(document.id), pack(document.session.owner)
    row = db.execute(sql("note_text"), (sid, ident)).fetchone()
    if row is None or unpack(row[0]) != document.text:
        return False  # gone, or another text by now
    db.execute(sql("forget_mentions"), (sid, ident))
    for place, name in enumerate(names):
        db.execute(sql("add_entity"), (owner, pack(folded(name)), pack(name)))
        db.execute(sql("add_mention"), (sid, ident, owner, pack(folded(name)), place))
    db.execute(sql("linked"), (sid, ident))
    return True


# ------------------------------------------------------------------------------------ reading


def edges(
    db: sqlite3.Connection,
    owner: str,
    of: Sequence[Node],
    session: SessionId | None,
    kinds: Sequence[EdgeKind],
    limit: int,
) -> list[Edge]:
    if session is not None and session.owner != owner:
        raise SettingsError("session", session, f"must be one of the owner {owner!r}")
    found: dict[Edge, None] = {}
    if set(kinds) - {"mentions"}:
        wanted = frozenset(of)
        for edge in _structure(db, owner, of, session):
            if edge.kind in kinds and (not of or edge.source in wanted or edge.target in wanted):
                found[edge] = None
                if len(found) >= limit:
                    break
    if "mentions" in kinds:
        found |= dict.fromkeys(_mentions(db, owner, of, session, limit))
    return list(found)[: max(limit, 0)]


def _structure(
    db: sqlite3.Connection, owner: str, of: Sequence[Node], session: SessionId | None
) -> Iterator[Edge]:
    if of:
        sessions: Iterable[SessionId] = dict.fromkeys(
            n.session for n in of if n.session and n.session.owner == owner and session in (None, n.session)
        )
    else:
        rows = db.execute(sql("graph_sessions"), (pack(owner), session and sid_of(session)))
        sessions = [to_session(row) for row in rows.fetchall()]
    for each in sessions:
        rows = db.execute(sql("note_stubs"), (sid_of(each),)).fetchall()
        yield from structure(each, [_stub(row) for row in rows])


def _stub(row: sqlite3.Row) -> Stub:
    ident, generation, first, sources = row
    return Stub(unpack(ident), generation, first, tuple(map(unpack, json.loads(sources))))


def _mentions(
    db: sqlite3.Connection, owner: str, of: Sequence[Node], session: SessionId | None, limit: int
) -> Iterator[Edge]:
    sid, packed = session and sid_of(session), pack(owner)
    if not of:
        yield from map(_mention, db.execute(sql("mentions"), (packed, sid, limit)))
    for node in of:
        if node.kind == "note" and node.session and session in (None, node.session):
            values = (packed, sid_of(node.session), pack(node.name))
            yield from map(_mention, db.execute(sql("mentions_of_note"), values))
        elif node.kind == "entity":
            values = (packed, sid, pack(folded(node.name)), limit)
            yield from map(_mention, db.execute(sql("mentions_of_entity"), values))


def _mention(row: sqlite3.Row) -> Edge:
    node = note_node(to_session(row), unpack(row["note"]))
    return Edge("mentions", node, Node("entity", unpack(row["name"])))


def noted(db: sqlite3.Connection, wanted: Sequence[tuple[SessionId, str]]) -> list[Match]:
    found: list[Match] = []
    for session, note in wanted:
        for ident, first, made_at, text in db.execute(sql("noted"), (sid_of(session), pack(note))):
            said = unpack(text)
            at = datetime.fromisoformat(made_at)
            found.append(Match("note", session, unpack(ident), first, at, "", said, words_of(said)))
    return found
