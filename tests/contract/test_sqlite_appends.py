"""What an append costs the file: how many pages it writes, and whether sessions are still found by index."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlite_files import opened, record

from onlooker.domain.messages import SessionId
from onlooker.stores.sqlite.opening import APPLICATION_ID
from onlooker.stores.sqlite.rows import instant_of_text
from onlooker.stores.sqlite.statements import migrations, split, statements
from onlooker.testing.store_contract.case import NEVER, NOW, said

pytestmark = pytest.mark.anyio

PAGE = 4096 + 24  # with its header in the log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


async def test_an_append_writes_few_pages_however_many_sessions_there_are(path: Path) -> None:
    sessions = [SessionId("ana", f"s{n}") for n in range(600)]
    async with opened(path) as store:
        for n in range(12):
            await asyncio.gather(*(record(store, said(f"m{n}"), session=session) for session in sessions))
    log = path.with_name(f"{path.name}-wal")
    async with opened(path) as store:
        for place, session in enumerate(sessions[::12]):
            now = NOW + timedelta(milliseconds=place)
            await store.append(session, [said("next")], due_tokens=NEVER, now=now)
        pages = log.stat().st_size / PAGE / 50
    # The message, its id, the session, and the first page; now and then one is full.
    assert pages < 4.5


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("idle", "sessions_open"),
        ("unindexed", "sessions_unindexed"),
        ("unindexed_anywhere", "sessions_unindexed"),
        ("list_sessions_of_owner", "sessions_used"),
    ],
)
async def test_sessions_are_found_by_index(path: Path, name: str, index: str) -> None:
    async with opened(path):
        pass
    with closing(sqlite3.connect(path)) as db:
        statement = statements()[name]
        named = dict.fromkeys(re.findall(r":(\w+)", statement))
        values = named or [None] * len(set(re.findall(r"\?\d?", statement)))
        plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values))
    assert f"USING INDEX {index}" in plan or f"USING COVERING INDEX {index}" in plan


async def test_sessions_that_were_there_before_are_found_as_well(path: Path) -> None:
    """A file of the version before, with a session that is open and one that has ended."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.create_function("instant", 1, instant_of_text, deterministic=True)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for step in migrations()[:7]:
            for statement in split(step.script):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {step.number}")
        for key, ended, used_at in (("open", 0, 9_000_000), ("over", 2, 5_000_000)):
            sid = bytes.fromhex(SessionId("ana", key).sid)
            db.execute(
                "INSERT INTO sessions (sid, owner, key, last_seq, ended_seq, indexed, notes_indexed, used_at,"
                " wake_at) VALUES (?, 'ana', ?, 2, ?, ?, 1, ?, 99)",
                (sid, key, ended, ended, used_at),
            )
    async with opened(path) as store:
        assert await store.idle(NOW) == [SessionId("ana", "open")]
        assert await store.behind() == [SessionId("ana", "open")]
        assert [s.progress.session.key for s in await store.sessions(owner="ana", limit=1)] == ["open"]
