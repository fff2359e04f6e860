"""Opening an SQLite store for the length of a block, and recording into it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from onlooker.domain.messages import Message, SessionId
from onlooker.stores.sqlite import SqliteStore
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
