"""The indexes over messages and notes: full text, vectors, and the graph of notes. All inside a transaction.

A background task of the engine fills them; deleted and changed texts leave them by triggers.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import (
    EDGE_KINDS,
    Document,
    Edge,
    EdgeKind,
    IndexCoverage,
    Match,
    MessageRef,
    Node,
    Pick,
    Query,
    SearchResult,
    TextKind,
    VectorQuery,
    note_node,
)
from onlooker.policy.search.graph import Stub, folded, structure
from onlooker.policy.search.rank import most_holders, shortlist
from onlooker.policy.search.vectors import RESCORED, closest, packed, signs, unit, unpacked
from onlooker.policy.search.words import text_of, tokens, words_of
from onlooker.stores.sql.database import (
    Database,
    instant,
    instant_of_text,
    limit_of,
    pack,
    sid_of,
    to_message,
    to_session,
    unpack,
    unpack_ids,
)
from onlooker.stores.sql.sessions import around

# Times that mean no bound.
EARLIEST, LATEST = -(2**62), 2**62


def check_owner(owner: str, session: SessionId | None) -> None:
    """Refuse a session of another owner."""
    if session is not None and session.owner != owner:
        raise SettingsError("session", session, f"must belong to the owner {owner!r}")


def time_range(after: datetime | None, before: datetime | None) -> dict[str, int]:
    """The parameters `since` and `before`."""
    return {
        "since": EARLIEST if after is None else instant(after),
        "before": LATEST if before is None else instant(before),
    }


# ------------------------------------------------------------------------------------ full text: adding


def unindexed(
    db: Database, owner: str, *, session: SessionId | None = None, limit: int = 100
) -> Sequence[SessionId]:
    rows = db.run("unindexed", owner=pack(owner), sid=session and sid_of(session), limit=limit_of(limit))
    return [to_session(row) for row in rows]


def unindexed_anywhere(db: Database, *, limit: int = 100) -> Sequence[SessionId]:
    return [to_session(row) for row in db.run("unindexed_anywhere", limit=limit_of(limit))]


def index(db: Database, session: SessionId, *, limit: int = 500) -> int:
    db.lock_session(session)
    sid = sid_of(session)
    row = db.run("indexed", sid=sid).fetchone()
    if row is None:
        return 0
    done, notes_done, last_seq = row
    # After a note its session has no new messages, only the note.
    asked: dict[str, Any] = {"sid": sid, "after": done, "limit": limit_of(limit)}
    read: list[Sequence[Any]] = json.loads(db.value("texts_to_index", **asked)) if done < last_seq else []
    said = list(map(_searchable, read))
    _add_texts(db, session, "message", said)
    notes = [] if notes_done else db.run("notes_to_index", sid=sid).fetchall()
    noted = [(unpack(ident), unpack(text), instant_of_text(made_at)) for ident, made_at, text in notes]
    _add_texts(db, session, "note", noted)
    retired = [] if notes_done else db.run("retired_to_index", sid=sid, limit=limit_of(limit)).fetchall()
    gone = [(str(m.seq), text_of(m), m.at and instant(m.at)) for m in map(to_message, retired)]
    _add_texts(db, session, "retired", gone)
    if read or notes or not notes_done or done < last_seq:
        reached = read[-1][0] if len(read) >= limit else last_seq
        db.run("set_indexed", sid=sid, seq=reached, notes_indexed=int(len(retired) < limit))
        db.tidy_index()
    return len(read) + len(notes) + len(retired)


def _searchable(row: Sequence[Any]) -> tuple[str, str, int | None]:
    """The id, text and time of a message. Most have no calls: then the row has them directly."""
    _, ident, _, _, at, _, extra, text, *_ = row
    searchable = unpack(text) if extra is None else text_of(to_message(row))
    return unpack(ident), searchable, instant_of_text(at)


def _add_texts(
    db: Database, session: SessionId, kind: TextKind, texts: Sequence[tuple[str, str, int | None]]
) -> None:
    """Index texts, given by id and with their times, in place of earlier ones of the same ids."""
    if not texts:
        return
    # One statement for all: after each one a thread may have to wait for the interpreter, and other writers
    # wait meanwhile.
    rows: list[tuple[str, int | None, int, str]] = []
    for ident, text, at in texts:
        words = " ".join(tokens(text))  # not `words_of`, which caches: a text is indexed once
        rows.append((pack(ident), at, words.count(" ") + 1 if words else 0, words))
    own: dict[str, Any] = {"sid": sid_of(session), "kind": kind}
    db.run("remove_searchable", **own, ids=json.dumps([row[0] for row in rows], ensure_ascii=False))
    db.run(
        "add_searchable",
        **own,
        owner=pack(session.owner),
        scope=f"{_scope(kind, session.owner, None)} {_scope(kind, session.owner, session)}",
        texts=json.dumps(rows, ensure_ascii=False),
    )


def _scope(kind: TextKind, owner: str, session: SessionId | None) -> str:
    """A token that every text of an owner, or of a session, has."""
    if session is not None:
        return f"{kind}_of_{session.sid}"
    digest = hashlib.blake2b(owner.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{kind}_by_{digest}"


# ------------------------------------------------------------------------------------ full text: finding


def search(db: Database, query: Query) -> SearchResult:
    return _search(db, query, matches)


# Reads the texts with these numbers.
Reading = Callable[[Database, TextKind, Sequence[int]], Iterable[Match]]


def _search(db: Database, query: Query, read: Reading) -> SearchResult:
    check_owner(query.owner, query.session)
    where: dict[str, Any] = {"owner": pack(query.owner), "kind": query.kind}
    where["sid"] = query.session and sid_of(query.session)
    docs, length = db.run("search_totals", **where).fetchone()
    # Most messages have no rare term, and reading a few texts of each term shows that.
    most = most_holders(docs, query.rare, query.max_holders) if query.rare else 0
    holders = _holders(db, query, where, query.terms, min(most + 1, query.max_holders)) if most else {}
    if query.rare and not any(0 < len(found) <= most for found in holders.values()):
        return SearchResult(docs, length, {}, ())
    common = [term for term in query.terms if term not in holders or len(holders[term]) > most]
    holders |= _holders(db, query, where, common, query.max_holders)
    if query.terms:
        numbers = shortlist(holders, query.terms, docs, query.limit)
    else:
        rows = db.run("said_between", **where, **time_range(query.after, query.before), limit=query.limit)
        numbers = [number for (number,) in rows]
    counts = {term: _count(found, docs, query.max_holders) for term, found in holders.items()}
    return SearchResult(docs, length, counts, tuple(read(db, query.kind, numbers)))


def search_around(
    db: Database, queries: Sequence[Query], pick: Pick, reach: int
) -> Mapping[MessageRef, Message]:
    seqs: dict[SessionId, list[int]] = defaultdict(list)
    for session, seq in pick([_search(db, query, _ranked) for query in queries]):
        seqs[session].append(seq)
    return {(session, m.seq): m for session, near in seqs.items() for m in around(db, session, near, reach)}


def _holders(
    db: Database, query: Query, where: Mapping[str, Any], terms: Iterable[str], limit: int
) -> dict[str, list[int]]:
    """The newest texts that hold each term, newest first."""
    asked: dict[str, Any] = {"scope": _scope(query.kind, query.owner, query.session), "limit": limit}
    asked["terms"] = json.dumps(wanted := list(terms))
    if not wanted:
        return {}
    if query.after is None and query.before is None:
        found = db.value("holders", **asked, **where)
    else:
        found = db.value("holders_between", **asked, **time_range(query.after, query.before))
    return {term: numbers[:limit] for term, numbers in zip(wanted, json.loads(found), strict=True)}


def _count(found: Sequence[int], docs: int, limit: int) -> int:
    """How many texts hold a term; if not all were read, estimated from how close the newest ones are."""
    if len(found) < limit:
        return len(found)
    return max(len(found), min(docs, docs * len(found) // (found[0] - found[-1] + 1)))


def matches(db: Database, kind: TextKind, numbers: Sequence[int]) -> Iterable[Match]:
    """The texts with these numbers, in this order."""
    asked = json.dumps(numbers)
    if kind == "message":
        rows = json.loads(db.value("matched_messages", numbers=asked))
    else:
        rows = db.run("matched_notes" if kind == "note" else "matched_retired", numbers=asked).fetchall()
    found = {row[0]: tuple(row) for row in rows}
    there = (found[number] for number in numbers if number in found)
    return map(_note_match, there) if kind == "note" else (_message_match(row, kind) for row in there)


def _ranked(db: Database, kind: TextKind, numbers: Sequence[int]) -> Iterable[Match]:
    """The messages with these numbers, in this order, without their texts: most are only ranked."""
    if kind != "message":
        return matches(db, kind, numbers)
    found = {row[0]: row for row in json.loads(db.value("ranked_messages", numbers=json.dumps(numbers)))}
    return (_ranked_match(found[number]) for number in numbers if number in found)


def _ranked_match(row: Sequence[Any]) -> Match:
    _, owner, key, words, seq, ident, name = row
    session = SessionId(unpack(owner), unpack(key))
    return Match("message", session, unpack(ident), seq, None, unpack(name), "", words)


def _message_match(row: Sequence[Any], kind: TextKind) -> Match:
    _, owner, key, words = row[:4]
    m = to_message(row[4:])
    session = SessionId(unpack(owner), unpack(key))
    return Match(kind, session, m.id, m.seq, m.at, m.name, text_of(m), words)


def _note_match(row: Sequence[Any]) -> Match:
    _, owner, key, words, ident, first, made_at, text = row
    at = datetime.fromisoformat(made_at)
    session = SessionId(unpack(owner), unpack(key))
    return Match("note", session, unpack(ident), first, at, "", unpack(text), words)


# ------------------------------------------------------------------------------------ vectors

# A search compares one bit for each number of a vector first and chooses the likely texts by that; how is up
# to the database. Only those are then compared in full.


def without_vectors(db: Database, space: str, *, limit: int = 100) -> Sequence[Document]:
    row = db.run("space", name=pack(space)).fetchone()
    number, _, reached = row or (0, 0, 0)
    by_kind: dict[Any, list[int]] = defaultdict(list)
    for wanted, kind in db.run("lacking", space=number, reached=reached, limit=limit_of(limit)).fetchall():
        by_kind[kind].append(wanted)
    read = [m for kind, numbers in by_kind.items() for m in matches(db, kind, numbers)]
    return [Document(m.kind, m.session, m.indexed_as, m.text) for m in read]


def add_vectors(db: Database, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
    if not vectors:
        return 0
    number, reached = _space(db, space, len(vectors[0][1]))
    added = sum(_add_vector(db, number, document, unit(vector)) for document, vector in vectors)
    first = db.run("lacking", space=number, reached=reached, limit=1).fetchone()
    reached = first[0] - 1 if first else db.value("last_number")
    db.run("set_reached", space=number, reached=reached)
    return added


def _space(db: Database, name: str, dimensions: int) -> tuple[int, int]:
    """The number of the space and how far it reaches. It is emptied if its vectors had another size."""
    row = db.run("space", name=pack(name)).fetchone()
    if row is None:
        return db.value("add_space", name=pack(name), dimensions=dimensions), 0
    number, known, reached = row
    if known == dimensions:
        return number, reached
    db.run("delete_signs", space=number)
    db.run("delete_vectors", space=number)
    db.run("empty_space", space=number, dimensions=dimensions)
    return number, 0


def _add_vector(db: Database, space: int, document: Document, vector: array[float]) -> bool:
    where: dict[str, Any] = {"sid": sid_of(document.session), "kind": document.kind}
    row = db.run("searchable", id=pack(document.id), **where).fetchone()
    if row is None or [document.text] != [m.text for m in matches(db, document.kind, [row["number"]])]:
        return False  # deleted, or changed since
    number, owner, at = row
    db.run("add_signs", space=space, owner=owner, number=number, instant=at, signs=signs(vector), **where)
    db.run("add_vector", space=space, number=number, vector=packed(vector))
    return True


# Chooses the likely texts, by number, for the parameters of `likely`.
Choice = Callable[[Database, dict[str, Any]], list[int]]


def nearest(db: Database, query: VectorQuery, choose: Choice) -> Sequence[tuple[Match, float]]:
    check_owner(query.owner, query.session)
    row = db.run("space", name=pack(query.space)).fetchone()
    if row is None or row["dimensions"] != len(query.vector):
        return []
    vector, space = unit(query.vector), row["space"]
    numbers = choose(db, _wanted(query, space, signs(vector)))
    read = db.run("vectors", space=space, numbers=json.dumps(numbers))
    best = closest(vector, ((number, unpacked(blob)) for number, blob in read), query.limit)
    # One at a time, so that a text deleted since does not shift the others.
    found = [(list(matches(db, query.kind, [number])), cosine) for number, cosine in best]
    return [(match[0], cosine) for match, cosine in found if match]


def _wanted(query: VectorQuery, space: int, asked: bytes) -> dict[str, Any]:
    return {
        "space": space,
        "owner": pack(query.owner),
        "kind": query.kind,
        "sid": query.session and sid_of(query.session),
        "any_time": query.after is None and query.before is None,
        **time_range(query.after, query.before),
        "signs": asked,
        "limit": max(RESCORED, query.limit),
    }


def likely(db: Database, wanted: dict[str, Any]) -> list[int]:
    """The choice by a database that counts differing bits itself, over all texts of the owner or session."""
    rows = db.run("likely" if wanted["sid"] is None else "likely_in_session", **wanted)
    return [number for (number,) in rows]


def coverage(db: Database, space: str) -> IndexCoverage:
    row = db.run("space", name=pack(space)).fetchone()
    counted = db.run("coverage", space=row["space"] if row else 0).fetchone()
    texts, vectors, notes, unlinked = counted
    return IndexCoverage(texts, vectors, notes, notes - unlinked)


# ------------------------------------------------------------------------------------ the graph of notes

# Mentions are stored; all other edges are read from the notes.


def unlinked(db: Database, *, limit: int = 100) -> Sequence[Document]:
    rows = db.run("unlinked", limit=limit_of(limit))
    return [Document("note", to_session(row), unpack(row["id"]), unpack(row["text"])) for row in rows]


def link(db: Database, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
    for session in sorted({document.session for document, _ in found}, key=sid_of):
        db.lock_session(session)  # else a note that is being forgotten would leave its names here
    return sum(_link(db, document, names) for document, names in found)


def _link(db: Database, document: Document, names: Sequence[str]) -> bool:
    note: dict[str, Any] = {"sid": sid_of(document.session), "id": pack(document.id)}
    row = db.run("note_text", **note).fetchone()
    if row is None or unpack(row[0]) != document.text:
        return False  # deleted, or changed since
    db.run("delete_mentions", **note)
    owner = pack(document.session.owner)
    entities = [{"owner": owner, "folded": pack(folded(name)), "name": pack(name)} for name in names]
    db.run_many("add_entity", entities)
    mentions = [
        {"owner": owner, "folded": entity["folded"], "position": position, **note}
        for position, entity in enumerate(entities)
    ]
    db.run_many("add_mention", mentions)
    db.run("set_linked", **note)
    return True


def edges(
    db: Database,
    owner: str,
    *,
    of: Sequence[Node] = (),
    session: SessionId | None = None,
    kinds: Sequence[EdgeKind] = EDGE_KINDS,
    limit: int = 10_000,
) -> Sequence[Edge]:
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
        wanted: Iterable[SessionId] = dict.fromkeys(
            n.session for n in of if n.session and n.session.owner == owner and session in (None, n.session)
        )
    else:
        rows = db.run("sessions_of_owner", owner=pack(owner), sid=session and sid_of(session))
        wanted = [to_session(row) for row in rows.fetchall()]
    for each in wanted:
        rows = db.run("note_stubs", sid=sid_of(each)).fetchall()
        yield from structure(each, [_stub(row) for row in rows])


def _stub(row: Any) -> Stub:
    ident, generation, first, sources = row
    # The sources of an observation are messages, which are not part of the graph.
    return Stub(unpack(ident), generation, first, unpack_ids(sources) if generation else ())


def _mentions(
    db: Database, owner: str, of: Sequence[Node], session: SessionId | None, limit: int
) -> Iterator[Edge]:
    sid, name = session and sid_of(session), pack(owner)
    if not of:
        yield from map(_mention, db.run("mentions", owner=name, sid=sid, limit=limit_of(limit)))
    # A name that is mentioned everywhere must not crowd out the others.
    each = limit_of(-(-limit // max(1, len(of))))
    for node in of:
        if node.kind == "note" and node.session and session in (None, node.session):
            rows = db.run("mentions_of_note", owner=name, sid=sid_of(node.session), id=pack(node.name))
            yield from map(_mention, rows)
        elif node.kind == "entity":
            where: dict[str, Any] = {"owner": name, "folded": pack(folded(node.name)), "sid": sid}
            yield from map(_mention, db.run("mentions_of_entity", **where, limit=each))


def _mention(row: Any) -> Edge:
    node = note_node(to_session(row), unpack(row["note"]))
    return Edge("mentions", node, Node("entity", unpack(row["name"])))


def notes_by_id(db: Database, wanted: Sequence[tuple[SessionId, str]]) -> Sequence[Match]:
    found: list[Match] = []
    for session, note in wanted:
        rows = db.run("active_note", sid=sid_of(session), id=pack(note))
        for ident, first, made_at, stored in rows:
            text, at = unpack(stored), datetime.fromisoformat(made_at)
            found.append(Match("note", session, unpack(ident), first, at, "", text, words_of(text)))
    return found
