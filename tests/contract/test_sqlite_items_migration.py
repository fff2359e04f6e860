"""A file from before there were items is opened with everything in it, and nothing old is ended anew."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onlooker.domain.messages import Message, SessionId
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.opening import APPLICATION_ID
from onlooker.stores.sqlite.rows import message_row, sid_of
from onlooker.stores.sqlite.statements import migrations, split

pytestmark = pytest.mark.anyio

ANA = SessionId("ana", "telegram:42")
NOW = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)
VERSION = 3


def file_of_version_3(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, _, script in migrations():
            if number <= VERSION:
                for statement in split(script):
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(
            "INSERT INTO sessions (sid, owner, key, last_seq, wake_at, used_at) VALUES (?, ?, ?, 1, 1, 1)",
            (sid_of(ANA), ANA.owner, ANA.key),
        )
        said = Message("user", "I live in Oslo", id="m1", at=NOW, seq=1, tokens=5)
        connection.execute(
            "INSERT INTO messages (sid, seq, id, role, tokens, at, digest, summary, name, extra, text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            message_row(sid_of(ANA), said, said.digest),
        )


@pytest.mark.req(38)
async def test_an_old_session_counts_as_ended_until_something_is_said_in_it(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    file_of_version_3(path)
    store = SqliteStore(path)
    await store.open()
    try:
        state = await store.load(ANA)
        assert state is not None
        assert [m.text for m in state.messages] == ["I live in Oslo"]
        assert (state.progress.ended, state.items) == (1, None)
        assert list(await store.idle(NOW)) == []
        assert list(await store.items("ana")) == []
        new = Message("user", "Hello again", id="m2", at=NOW, tokens=5)
        await store.append(ANA, [new], due_tokens=1 << 40, now=NOW)
        assert list(await store.idle(NOW)) == [ANA]
    finally:
        await store.close()
