"""An SQLite store for the length of a block, and how its statements run."""

from __future__ import annotations

import operator
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from onlooker.domain.messages import Message, SessionId
from onlooker.stores.sql.database import instant_of_text, statements
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.connection import PACKAGE
from onlooker.testing.store_contract.case import ANA, NEVER, NOW


@asynccontextmanager
async def opened(path: Path | str | SqliteStore) -> AsyncGenerator[SqliteStore]:
    store = path if isinstance(path, SqliteStore) else SqliteStore(path)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def record(store: SqliteStore, *messages: Message, session: SessionId = ANA) -> None:
    await store.append(session, messages, due_tokens=NEVER, now=NOW)


def explained(path: Path, name: str, how: str = "EXPLAIN QUERY PLAN") -> list[str]:
    """The steps that SQLite takes for a statement of the store."""
    statement = statements(PACKAGE)[name]
    values = dict.fromkeys(re.findall(r":(\w+)", statement))
    with closing(sqlite3.connect(path)) as db:
        db.create_function("instant", 1, instant_of_text, deterministic=True)
        # Of sqlite-vec, which may not be installed.
        db.create_function("vec_bit", 1, bytes)
        db.create_function("vec_distance_hamming", 2, operator.eq)
        return [row[3] for row in db.execute(f"{how} {statement}", values)]
