"""Vectors of what can be found: taking them in, and finding the closest. All inside a transaction.

Ordinary tables and no virtual ones of an extension: a Python whose SQLite loads no extensions opens the same
file, deletes from it and searches it. Where sqlite-vec can be loaded it does the counting.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import SessionId
from onlooker.domain.search import Document, IndexCoverage, Match, VectorQuery
from onlooker.policy.search.vectors import RESCORED, closest, likely, packed, signs, unit, unpacked
from onlooker.stores.sqlite.driver import errors
from onlooker.stores.sqlite.rows import instant, pack, sid_of, to_session
from onlooker.stores.sqlite.searching import matches
from onlooker.stores.sqlite.statements import sql

log = logging.getLogger("onlooker")

# ------------------------------------------------------------------------------------ taking in


def unindexed(db: sqlite3.Connection, limit: int) -> Sequence[SessionId]:
    return [to_session(row) for row in db.execute(sql("unindexed_anywhere"), (max(limit, 0),))]


def lacking(db: sqlite3.Connection, space: str, limit: int) -> Sequence[Document]:
    row = db.execute(sql("space"), (pack(space),)).fetchone()
    number, _, reached = row or (0, 0, 0)
    found = db.execute(sql("lacking"), (number, reached, max(limit, 0))).fetchall()
    by_kind: dict[Any, list[int]] = defaultdict(list)
    for wanted, kind in found:
        by_kind[kind].append(wanted)
    read = [m for kind, numbers in by_kind.items() for m in matches(db, kind, numbers)]
    return [Document(m.kind, m.session, m.id, m.text) for m in read]


def add(db: sqlite3.Connection, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
    if not vectors:
        return 0
    number, reached = _space(db, space, len(vectors[0][1]))
    added = sum(_add(db, number, document, unit(vector)) for document, vector in vectors)
    first = db.execute(sql("lacking"), (number, reached, 1)).fetchone()
    reached = first[0] - 1 if first else db.execute(sql("last_number")).fetchone()[0]
    db.execute(sql("set_reached"), (number, reached))
    return added


def _space(db: sqlite3.Connection, name: str, dimensions: int) -> tuple[int, int]:
    """The space by number, and how far it reaches; emptied where its vectors have another size by now."""
    row = db.execute(sql("space"), (pack(name),)).fetchone()
    if row is None:
        number = db.execute(sql("add_space"), (pack(name), dimensions)).lastrowid
        return number or 0, 0
    number, known, reached = row
    if known == dimensions:
        return number, reached
    for table in ("vector_signs", "vectors"):
        db.execute(f"DELETE FROM {table} WHERE space = ?", (number,))
    db.execute(sql("empty_space"), (number, dimensions))
    return number, 0


def _add(db: sqlite3.Connection, space: int, document: Document, vector: array[float]) -> bool:
    sid = sid_of(document.session)
    row = db.execute(sql("searchable_text"), (sid, document.kind, pack(document.id))).fetchone()
    if row is None or [document.text] != [m.text for m in matches(db, document.kind, [row["number"]])]:
        return False  # gone, or another text by now
    number, owner, at = row
    db.execute(sql("add_signs"), (space, owner, document.kind, sid, number, at, signs(vector)))
    db.execute(sql("add_vector"), (space, number, packed(vector)))
    return True


# ------------------------------------------------------------------------------------ finding

# What chooses the likely ones, by number, of a query, a space and the query's signs.
Choice = Callable[[sqlite3.Connection, VectorQuery, int, bytes], list[int]]


def near(
    db: sqlite3.Connection, query: VectorQuery, choose: Choice | None = None
) -> Sequence[tuple[Match, float]]:
    if query.session is not None and query.session.owner != query.owner:
        raise SettingsError("session", query.session, f"must be one of the owner {query.owner!r}")
    row = db.execute(sql("space"), (pack(query.space),)).fetchone()
    if row is None or row["dimensions"] != len(query.vector):
        return []
    vector = unit(query.vector)
    numbers = (choose or likely_of)(db, query, row["space"], signs(vector))
    read = db.execute(sql("vectors"), (row["space"], json.dumps(numbers)))
    best = closest(vector, ((number, unpacked(blob)) for number, blob in read), query.most)
    return _matches(db, query, best)


def _matches(
    db: sqlite3.Connection, query: VectorQuery, best: Sequence[tuple[int, float]]
) -> list[tuple[Match, float]]:
    # One at a time, so that one which is gone takes no other's place.
    found = [(list(matches(db, query.kind, [number])), cosine) for number, cosine in best]
    return [(match[0], cosine) for match, cosine in found if match]


def likely_of(db: sqlite3.Connection, query: VectorQuery, space: int, asked: bytes) -> list[int]:
    """By number, those that are worth comparing in full."""
    most = max(RESCORED, query.most)
    values: dict[str, Any] = {
        "space": space,
        "owner": pack(query.owner),
        "kind": query.kind,
        "sid": query.session and sid_of(query.session),
        "any_time": query.after is None and query.before is None,
        "after": -(1 << 62) if query.after is None else instant(query.after),
        "before": (1 << 62) if query.before is None else instant(query.before),
        "signs": asked,
        "most": most,
    }
    where = "_in_session" if query.session else ""
    if has_extension(db):
        return [number for (number,) in db.execute(sql(f"likely{where}"), values)]
    rows = db.execute(sql(f"signs{where}"), values)
    return likely(asked, ((number, blob) for number, blob in rows), most)


def coverage(db: sqlite3.Connection, space: str) -> IndexCoverage:
    row = db.execute(sql("space"), (pack(space),)).fetchone()
    texts, vectors, notes, unlinked = db.execute(sql("coverage"), (row["space"] if row else 0,)).fetchone()
    return IndexCoverage(texts, vectors, notes, notes - unlinked)


# ------------------------------------------------------------------------------------ sqlite-vec

# Set where it was found and could not be loaded: then no connection can.
_unloadable = False


def has_extension(db: sqlite3.Connection) -> bool:
    """Whether this connection has sqlite-vec, which is loaded where that is possible."""
    path = extension()
    if path is None or _unloadable or not hasattr(db, "enable_load_extension"):
        return False
    try:
        db.execute("SELECT vec_version()")
    except errors():
        return _load(db, path)
    return True


@cache
def extension() -> str | None:
    """Where sqlite-vec is; None where it is not installed, or this Python's SQLite loads no extensions."""
    if not loads_extensions():
        return None
    try:
        import sqlite_vec  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return None
    return str(sqlite_vec.loadable_path())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def loads_extensions() -> bool:
    """Whether this Python was built so that its SQLite can load extensions."""
    return hasattr(sqlite3.Connection, "enable_load_extension")


def _load(db: sqlite3.Connection, path: str) -> bool:
    global _unloadable
    try:
        db.enable_load_extension(True)
        try:
            db.load_extension(path)
        finally:
            db.enable_load_extension(False)
    except errors() as error:
        log.warning("sqlite-vec cannot be loaded, and is not used: %s", error)
        _unloadable = True
        return False
    return True
