"""A file of an earlier version is brought up to date with everything in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onlooker.domain.messages import SessionId
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.opening import APPLICATION_ID
from onlooker.stores.sqlite.rows import instant, sid_of
from onlooker.stores.sqlite.statements import migrations, split

pytestmark = pytest.mark.anyio

ANA = SessionId("ana", "telegram:42")
GONE = SessionId("ana", "deleted long ago")
NOW = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)


def file_of_version_2(path: Path) -> None:
    """A database as it was before usage said whose it is."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, script in migrations()[:2]:
            for statement in split(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(
            "INSERT INTO sessions (sid, owner, key, wake_at, used_at) VALUES (?, ?, ?, 1, 1)",
            (sid_of(ANA), ANA.owner, ANA.key),
        )
        for session in (ANA, GONE):
            connection.execute(
                "INSERT INTO usage (sid, model, purpose, input_tokens, output_tokens, verdict, at, spent_at,"
                " cost) VALUES (?, 'm:x', 'observe', 10, 5, 'accepted', ?, ?, 0.25)",
                (sid_of(session), NOW.isoformat(), instant(NOW)),
            )


@pytest.mark.req(38)
async def test_what_was_spent_before_counts_for_its_owner_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    file_of_version_2(path)
    store = SqliteStore(path)
    await store.open()
    try:
        assert await store.spent(owner="ana") == 0.25  # whose the other was, nobody knows any more
        assert await store.spent(session=ANA) == 0.25
        assert await store.spent(since=NOW) == 0.5
        assert list(await store.extractions(ANA)) == []
    finally:
        await store.close()
