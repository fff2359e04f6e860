"""The graph of notes: mentions are stored, all other edges are read from the notes. All inside a
transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from onlooker.domain.messages import SessionId
from onlooker.domain.search import Document, Edge, EdgeKind, Match, Node, note_node
from onlooker.policy.search.graph import Stub, folded, structure
from onlooker.policy.search.rank import words_of
from onlooker.stores.sql.database import Database
from onlooker.stores.sql.rows import limit_of, pack, sid_of, to_session, unpack, unpack_ids
from onlooker.stores.sql.search import check_owner

# ------------------------------------------------------------------------------------ adding


def unlinked(db: Database, limit: int) -> Sequence[Document]:
    rows = db.run("unlinked", limit=limit_of(limit))
    return [Document("note", to_session(row), unpack(row["id"]), unpack(row["text"])) for row in rows]


def link(db: Database, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
    return sum(_link(db, document, names) for document, names in found)


def _link(db: Database, document: Document, names: Sequence[str]) -> bool:
    note: dict[str, Any] = {"sid": sid_of(document.session), "id": pack(document.id)}
    row = db.run("note_text", **note).fetchone()
    if row is None or unpack(row[0]) != document.text:
        return False  # deleted, or changed since
    db.run("delete_mentions", **note)
    for position, name in enumerate(names):
        entity = {"owner": pack(document.session.owner), "folded": pack(folded(name))}
        db.run("add_entity", name=pack(name), **entity)
        db.run("add_mention", position=position, **note, **entity)
    db.run("set_linked", **note)
    return True


# ------------------------------------------------------------------------------------ reading


def edges(
    db: Database,
    owner: str,
    of: Sequence[Node],
    session: SessionId | None,
    kinds: Sequence[EdgeKind],
    limit: int,
) -> list[Edge]:
    check_owner(owner, session)
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


def _structure(db: Database, owner: str, of: Sequence[Node], session: SessionId | None) -> Iterator[Edge]:
    if of:
        sessions: Iterable[SessionId] = dict.fromkeys(
            n.session for n in of if n.session and n.session.owner == owner and session in (None, n.session)
        )
    else:
        rows = db.run("graph_sessions", owner=pack(owner), sid=session and sid_of(session))
        sessions = [to_session(row) for row in rows.fetchall()]
    for each in sessions:
        rows = db.run("note_stubs", sid=sid_of(each)).fetchall()
        yield from structure(each, [_stub(row) for row in rows])


def _stub(row: Any) -> Stub:
    ident, generation, first, sources = row
    return Stub(unpack(ident), generation, first, unpack_ids(sources))


def _mentions(
    db: Database, owner: str, of: Sequence[Node], session: SessionId | None, limit: int
) -> Iterator[Edge]:
    sid, packed = session and sid_of(session), pack(owner)
    if not of:
        yield from map(_mention, db.run("mentions", owner=packed, sid=sid, limit=limit_of(limit)))
    for node in of:
        if node.kind == "note" and node.session and session in (None, node.session):
            rows = db.run("mentions_of_note", owner=packed, sid=sid_of(node.session), id=pack(node.name))
            yield from map(_mention, rows)
        elif node.kind == "entity":
            where: dict[str, Any] = {"owner": packed, "folded": pack(folded(node.name)), "sid": sid}
            yield from map(_mention, db.run("mentions_of_entity", **where, limit=limit_of(limit)))


def _mention(row: Any) -> Edge:
    node = note_node(to_session(row), unpack(row["note"]))
    return Edge("mentions", node, Node("entity", unpack(row["name"])))


def noted(db: Database, wanted: Sequence[tuple[SessionId, str]]) -> list[Match]:
    found: list[Match] = []
    for session, note in wanted:
        rows = db.run("active_note", sid=sid_of(session), id=pack(note))
        for ident, first, made_at, packed in rows:
            text, at = unpack(packed), datetime.fromisoformat(made_at)
            found.append(Match("note", session, unpack(ident), first, at, "", text, words_of(text)))
    return found
