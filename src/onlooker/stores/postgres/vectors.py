"""Vectors with pgvector, if the database has it: an HNSW index over their signs.

Without it, and for an owner with few texts, the signs of all texts of the owner or session are compared; that
finds every likely one and takes about a microsecond for each. The index finds most of them, in a time that
hardly grows. Either way the likely ones are then compared in full.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors, sql

from onlooker.domain.search import Document
from onlooker.policy.search.vectors import signs, unit
from onlooker.stores.postgres.connection import lock_number
from onlooker.stores.postgres.database import PostgresDatabase
from onlooker.stores.sql import indexes
from onlooker.stores.sql.rows import pack

log = logging.getLogger("onlooker")

# The number of texts from which the index is used. Below, comparing all of them is as fast and finds all.
LARGE = 50_000
# The candidates that a search in the index keeps, and the most that it visits if a filter leaves few.
SEARCHED, VISITED = 1_000, 100_000
# The schema of pgvector. Before 0.8 it cannot continue a search when a filter leaves few results.
_EXTENSION = """
SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'
AND string_to_array(substring(extversion FROM '^\\d+\\.\\d+'), '.')::int[] >= '{0,8}'
"""
_MISSING = """
SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector' AND installed_version IS NULL)
"""


def add(db: PostgresDatabase, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
    """Add vectors. A new space, or one with vectors of another size, gets its index."""
    before = _space(db, space)
    added = indexes.add_vectors(db, space, vectors)
    after = _space(db, space)
    if after is not None and after != before:
        _create_index(db.connection, *after)
    return added


def _space(db: PostgresDatabase, name: str) -> tuple[int, int] | None:
    row = db.run("space", name=pack(name)).fetchone()
    return None if row is None else (row["space"], row["dimensions"])


# ------------------------------------------------------------------------------------ finding


def likely(db: PostgresDatabase, wanted: dict[str, Any]) -> list[int]:
    """A `indexes.Choice`."""
    width = 8 * len(wanted["signs"])
    where = {name: wanted[name] for name in ("owner", "kind", "sid")}
    texts = db.value("search_totals", **where)
    if texts < LARGE or not (schema := _indexed(db, wanted["space"], width)):
        return indexes.likely(db, wanted)
    db.connection.execute(
        f"SET LOCAL hnsw.ef_search = {SEARCHED}; SET LOCAL hnsw.iterative_scan = relaxed_order; "
        f"SET LOCAL hnsw.max_scan_tuples = {VISITED}".encode()
    )
    found = db.connection.execute(_closest(wanted, width, schema), wanted).fetchall()
    return [number for (number,) in found]


def _indexed(db: PostgresDatabase, space: int, width: int) -> str:
    """The schema of pgvector, if the space has its index; else nothing."""
    row = db.connection.execute(
        f"{_EXTENSION} AND EXISTS ("
        "SELECT 1 FROM pg_index WHERE indisvalid AND indexrelid = to_regclass(%s))".encode(),
        (_name(space, width),),
    ).fetchone()
    return "" if row is None else row[0]


def _closest(wanted: dict[str, Any], width: int, schema: str) -> sql.Composed:
    where = "" if wanted["sid"] is None else " AND sid = %(sid)s"
    when = "" if wanted["any_time"] else " AND at >= %(since)s AND at < %(before)s"
    text = (
        "SELECT number FROM vector_signs WHERE space = {space} AND owner = %(owner)s AND kind = %(kind)s"
        f"{where}{when} ORDER BY (bits(signs)::bit({{width}})) OPERATOR({{schema}}.<~>) "
        "bits(%(signs)s)::bit({width}) LIMIT %(limit)s"
    )
    return sql.SQL(text).format(  # pyright: ignore[reportArgumentType] - made of constants above
        space=sql.Literal(wanted["space"]),
        width=sql.SQL(str(width)),  # pyright: ignore[reportArgumentType] - a number
        schema=sql.SQL(schema),  # pyright: ignore[reportArgumentType]
    )


# ------------------------------------------------------------------------------------ the index


def _name(space: int, width: int) -> str:
    return f"vector_signs_near_{space}_{width}"


def _create_index(connection: psycopg.Connection[Any], space: int, dimensions: int) -> None:
    """Create the index of a space while it is nearly empty, if pgvector is installed or can be installed."""
    width = 8 * len(signs(unit([0.0] * dimensions)))
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
        f"CREATE INDEX {_name(space, width)} ON vector_signs "
        f"USING hnsw ((bits(signs)::bit({width})) {schema}.bit_hamming_ops) "
        f"WHERE space = {space}"
    )
    _if_possible(connection, index)


def _extension(connection: psycopg.Connection[Any]) -> str:
    """The schema of pgvector, which is installed if that is allowed."""
    row = connection.execute(_MISSING.encode()).fetchone()
    if row is not None and row[0]:
        _if_possible(connection, "CREATE EXTENSION vector SCHEMA public")
    row = connection.execute(_EXTENSION.encode()).fetchone()
    return "" if row is None else row[0]


def _if_possible(connection: psycopg.Connection[Any], statement: str) -> None:
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except errors.DeadlockDetected:
        raise  # the transaction is run again
    except psycopg.Error as error:  # it works without
        log.info("pgvector is not used: %s", str(error).splitlines()[0])
