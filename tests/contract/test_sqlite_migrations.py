"""A file of an earlier version is brought up to date with everything in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onlooker.domain.history_rows import ChangeRow, Scope
from onlooker.domain.messages import SessionId
from onlooker.policy.history import as_of
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
        for number, _, script in migrations()[:2]:
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


def file_of_version_3(path: Path) -> None:
    """A database as it was before the history of notes was kept."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, _, script in migrations()[:3]:
            for statement in split(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(
            "INSERT INTO sessions"
            " (sid, owner, key, last_seq, frontier, watermark, tail_start, wake_at, used_at)"
            " VALUES (?, ?, ?, 8, 6, 6, 7, 1, ?)",
            (sid_of(ANA), ANA.owner, ANA.key, instant(NOW)),
        )
        for seq in range(1, 9):
            connection.execute(
                "INSERT INTO messages (sid, seq, id, role, tokens, at, digest, name, text)"
                " VALUES (?, ?, ?, 'user', 5, ?, x'00', '', ?)",
                (sid_of(ANA), seq, f"m{seq}", NOW.isoformat(), f"text {seq}"),
            )
        for ident, generation, first, last, status, sources in (
            ("o1", 0, 1, 2, "superseded", '["m1", "m2"]'),
            ("o3", 0, 3, 4, "superseded", '["m3", "m4"]'),
            ("o5", 0, 5, 6, "active", '["m5", "m6"]'),
            ("r1", 1, 1, 4, "active", '["o1", "o3"]'),
        ):
            connection.execute(
                "INSERT INTO notes (sid, id, generation, first_seq, last_seq, status, tokens, made_at, model,"
                " degraded, sources, text) VALUES (?, ?, ?, ?, ?, ?, 5, ?, 'm', 0, ?, ?)",
                (
                    sid_of(ANA),
                    ident,
                    generation,
                    first,
                    last,
                    status,
                    NOW.isoformat(),
                    sources,
                    f"on {ident}",
                ),
            )


@pytest.mark.req(38)
async def test_the_notes_of_before_have_a_history_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    file_of_version_3(path)
    store = SqliteStore(path)
    await store.open()
    try:
        rows = [row async for row in store.dump(Scope(session=ANA))]
        changes = [row.change for row in rows if isinstance(row, ChangeRow)]
        assert [c.number for c in changes] == [1, 2, 3, 4, 5]
        assert changes[3].statuses == (("r1", "active"), ("o1", "superseded"), ("o3", "superseded"))
        now, earlier = as_of(rows, 8), as_of(rows, 4)
        assert now is not None
        assert earlier is not None
        assert [n.id for n in now.state.active] == ["r1", "o5"]
        assert {n.id for n in earlier.state.active} <= {"o1", "o3", "r1"}
        await store.edit(ANA, "o5", "by hand", tokens=2, by="ana", now=NOW)
        state = await store.load(ANA)
        assert state is not None
        await store.undo(ANA, "r1", prompt_version=state.progress.prompt_version, now=NOW)
        assert [n.text for n in await store.notes(ANA)] == ["on o1", "on o3", "by hand"]
    finally:
        await store.close()
