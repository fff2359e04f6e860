"""Vectors of indexed texts: adding them and finding the closest. All inside a transaction.

A search compares one bit for each number of a vector first and chooses the likely texts by that; how is up to
the database. Only those are then compared in full.
"""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from onlooker.domain.search import Document, IndexCoverage, Match, VectorQuery
from onlooker.policy.search.vectors import RESCORED, closest, packed, signs, unit, unpacked
from onlooker.stores.sql.database import Database
from onlooker.stores.sql.rows import limit_of, pack, sid_of
from onlooker.stores.sql.search import bounds, check_owner, matches

# ------------------------------------------------------------------------------------ adding


def lacking(db: Database, space: str, limit: int) -> Sequence[Document]:
    row = db.run("space", name=pack(space)).fetchone()
    number, _, reached = row or (0, 0, 0)
    by_kind: dict[Any, list[int]] = defaultdict(list)
    for wanted, kind in db.run("lacking", space=number, reached=reached, limit=limit_of(limit)).fetchall():
        by_kind[kind].append(wanted)
    read = [m for kind, numbers in by_kind.items() for m in matches(db, kind, numbers)]
    return [Document(m.kind, m.session, m.id, m.text) for m in read]


def add(db: Database, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
    if not vectors:
        return 0
    number, reached = _space(db, space, len(vectors[0][1]))
    added = sum(_add(db, number, document, unit(vector)) for document, vector in vectors)
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


def _add(db: Database, space: int, document: Document, vector: array[float]) -> bool:
    where: dict[str, Any] = {"sid": sid_of(document.session), "kind": document.kind}
    row = db.run("searchable", id=pack(document.id), **where).fetchone()
    if row is None or [document.text] != [m.text for m in matches(db, document.kind, [row["number"]])]:
        return False  # deleted, or changed since
    number, owner, at = row
    db.run("add_signs", space=space, owner=owner, number=number, instant=at, signs=signs(vector), **where)
    db.run("add_vector", space=space, number=number, vector=packed(vector))
    return True


# ------------------------------------------------------------------------------------ finding

# Chooses the likely texts, by number, for the parameters of `likely`.
Choice = Callable[[Database, dict[str, Any]], list[int]]


def near(db: Database, query: VectorQuery, choose: Choice) -> Sequence[tuple[Match, float]]:
    check_owner(query.owner, query.session)
    row = db.run("space", name=pack(query.space)).fetchone()
    if row is None or row["dimensions"] != len(query.vector):
        return []
    vector, space = unit(query.vector), row["space"]
    numbers = choose(db, _wanted(query, space, signs(vector)))
    read = db.run("vectors", space=space, numbers=json.dumps(numbers))
    best = closest(vector, ((number, unpacked(blob)) for number, blob in read), query.most)
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
        **bounds(query.after, query.before),
        "signs": asked,
        "limit": max(RESCORED, query.most),
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
