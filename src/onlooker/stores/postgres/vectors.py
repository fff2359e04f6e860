"""Vectors with pgvector, where the database has it: an HNSW index over their signs.

Without it, and for whoever has few enough texts, all signs of an owner or a session are compared, as in the
other stores; that finds every likely one, and takes about a microsecond for each. The index finds most
of them, in a time that hardly grows. Either way the likely ones are then compared in full.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors, sql

from onlooker.domain.search import Document, Match, VectorQuery
from onlooker.policy.search.vectors import RESCORED, signs, unit
from onlooker.stores.postgres.database import Database
from onlooker.stores.postgres.opening import lock_number
from onlooker.stores.sqlite import vectors as of_sqlite
from onlooker.stores.sqlite.rows import instant, pack, sid_of

log = logging.getLogger("onlooker")

# From so many texts of an owner on the index is asked; below, comparing them all is as quick, and finds all.
LARGE = 50_000
# How many nodes of the graph a search keeps in sight, and visits at most where a filter leaves few.
SEARCHED, VISITED = 1_000, 100_000
# The schema that pgvector is in. Before 0.8 it could not search on where a filter leaves few, and before 0.7
# not index signs.
_THERE = """
SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'
AND string_to_array(substring(extversion FROM '^\\d+\\.\\d+'), '.')::int[] >= '{0,8}'
"""
_MISSING = """
SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector' AND installed_version IS NULL)
"""


def add(db: sqlite3.Connection, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
    """As in the SQLite store; a space that is new, or has vectors of another size, gets its index."""
    before = _space(db, space)
    added = of_sqlite.add(db, space, vectors)
    after = _space(db, space)
    if after is not None and after != before:
        _index(Database.under(db).connection, *after)
    return added


def near(db: sqlite3.Connection, query: VectorQuery) -> Sequence[tuple[Match, float]]:
    return of_sqlite.near(db, query, choose=_likely)


def _space(db: sqlite3.Connection, name: str) -> tuple[int, int] | None:
    row = Database.under(db).named("space", (pack(name),)).fetchone()
    return None if row is None else (row["space"], row["dimensions"])


# ------------------------------------------------------------------------------------ finding


def _likely(db: sqlite3.Connection, query: VectorQuery, space: int, asked: bytes) -> list[int]:
    own = Database.under(db)
    if _texts(own, query) < LARGE or not (schema := _indexed(own, space, len(query.vector))):
        return of_sqlite.likely_of(db, query, space, asked)
    own.connection.execute(
        f"SET LOCAL hnsw.ef_search = {SEARCHED}; SET LOCAL hnsw.iterative_scan = relaxed_order; "
        f"SET LOCAL hnsw.max_scan_tuples = {VISITED}".encode()
    )
    found = own.connection.execute(_closest(query, space, schema), _values(query, asked)).fetchall()
    return [number for (number,) in found]


def _texts(db: Database, query: VectorQuery) -> int:
    sid = query.session and sid_of(query.session)
    row = db.named("search_totals", (pack(query.owner), query.kind, sid)).fetchone()
    return 0 if row is None else row[0]


def _indexed(db: Database, space: int, dimensions: int) -> str:
    """The schema that pgvector is in, where the space has its index; else nothing."""
    row = db.connection.execute(
        f"{_THERE} AND EXISTS ("
        "SELECT 1 FROM pg_index WHERE indisvalid AND indexrelid = to_regclass(%s))".encode(),
        (_name(space, dimensions),),
    ).fetchone()
    return "" if row is None else row[0]


def _closest(query: VectorQuery, space: int, schema: str) -> sql.Composed:
    width = sql.SQL(str(_bits(len(query.vector))))  # pyright: ignore[reportArgumentType] - a number of ours
    where = "" if query.session is None else " AND sid = %(sid)s"
    when = "" if query.after is None and query.before is None else " AND at >= %(after)s AND at < %(before)s"
    text = (
        "SELECT number FROM vector_signs WHERE space = {space} AND owner = %(owner)s AND kind = %(kind)s"
        f"{where}{when} ORDER BY (bits(signs)::bit({{width}})) OPERATOR({{schema}}.<~>) "
        "bits(%(signs)s)::bit({width}) LIMIT %(most)s"
    )
    return sql.SQL(text).format(  # pyright: ignore[reportArgumentType] - put together of constants above
        space=sql.Literal(space),
        width=width,
        schema=sql.SQL(schema),  # pyright: ignore[reportArgumentType]
    )


def _values(query: VectorQuery, asked: bytes) -> dict[str, Any]:
    return {
        "owner": pack(query.owner),
        "kind": query.kind,
        "sid": query.session and sid_of(query.session),
        "after": -(1 << 62) if query.after is None else instant(query.after),
        "before": (1 << 62) if query.before is None else instant(query.before),
        "signs": asked,
        "most": max(RESCORED, query.most),
    }


# ------------------------------------------------------------------------------------ the index


def _bits(dimensions: int) -> int:
    return 8 * len(signs(unit([0.0] * dimensions)))


def _name(space: int, dimensions: int) -> str:
    return f"vector_signs_near_{space}_{_bits(dimensions)}"


def _index(connection: psycopg.Connection[Any], space: int, dimensions: int) -> None:
    """Give the space its index while it is as good as empty, where pgvector is there or may be put there."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("pgvector", ""),))
    if not (schema := _extension(connection)):
        return
    stale = "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
    for (name,) in connection.execute(
        (stale + "WHERE indrelid = 'vector_signs'::regclass AND relname LIKE %s").encode(),
        (f"vector\\_signs\\_near\\_{space}\\_%",),
    ).fetchall():
        connection.execute(f"DROP INDEX {name}".encode())
    index = (
        f"CREATE INDEX {_name(space, dimensions)} ON vector_signs "
        f"USING hnsw ((bits(signs)::bit({_bits(dimensions)})) {schema}.bit_hamming_ops) "
        f"WHERE space = {space}"
    )
    _if_possible(connection, index)


def _extension(connection: psycopg.Connection[Any]) -> str:
    """The schema that pgvector is in; put into the database where that is allowed."""
    row = connection.execute(_MISSING.encode()).fetchone()
    if row is not None and row[0]:
        _if_possible(connection, "CREATE EXTENSION vector SCHEMA public")
    row = connection.execute(_THERE.encode()).fetchone()
    return "" if row is None else row[0]


def _if_possible(connection: psycopg.Connection[Any], statement: str) -> None:
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except errors.DeadlockDetected:
        raise  # all of it is tried again
    except psycopg.Error as error:  # then it goes without
        log.info("pgvector is not used: %s", str(error).splitlines()[0])
