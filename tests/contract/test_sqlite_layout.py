"""Where messages lie in an SQLite file, and what an append writes: each session has places of its own."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlite_files import explained, opened, record

from onlooker.domain.errors import StoreError
from onlooker.domain.history import MessageRow, Position, Scope
from onlooker.domain.messages import SessionId
from onlooker.stores.sql.database import FIRST_SEQ, LAST_SEQ, statements
from onlooker.stores.sqlite.connection import PACKAGE
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, said

pytestmark = [pytest.mark.anyio, pytest.mark.req(38)]

SESSIONS = [SessionId("ana", f"s{n}") for n in range(5)]
PAGE = 4096 + 24  # with its header in the log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


async def test_no_bound_reaches_into_the_next_session(path: Path) -> None:
    async with opened(path) as store:
        for session in SESSIONS:
            await record(
                store, *(said(f"m{n}", f"{session.key} said {n}") for n in (1, 2, 3)), session=session
            )
        far = 2**60
        assert [m.seq for m in await store.messages(SESSIONS[1], after=-far, up_to=far)] == [1, 2, 3]
        assert [m.text for m in await store.messages(SESSIONS[1], up_to=1)] == ["s1 said 1"]
        assert list(await store.messages(SESSIONS[1], after=far)) == []
        summary = said("summary", "what was said")
        await store.compact(SESSIONS[1], up_to=far, summary=summary, archive=False, now=NOW)
        assert [len(await store.messages(s)) for s in SESSIONS] == [3, 1, 3, 3, 3]
        assert await store.delete_session(SESSIONS[3])
        assert [len(await store.messages(s)) for s in SESSIONS] == [3, 1, 3, 0, 3]


@pytest.mark.parametrize("seq", [FIRST_SEQ - 1, LAST_SEQ + 1])
async def test_a_number_that_no_session_has_room_for_is_refused(path: Path, seq: int) -> None:
    async with opened(path) as store:
        await record(store, said("m1"))
    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute(
            "INSERT INTO messages (place, slot, seq, id, role, tokens, digest, name, text)"
            " SELECT place - seq + ?1, slot, ?1, 'far', role, tokens, digest, name, text FROM messages",
            (seq,),
        )


async def test_a_session_without_room_for_more_says_so_and_keeps_what_it_has(path: Path) -> None:
    async with opened(path) as store:
        await record(store, said("m1"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET last_seq = ?", (LAST_SEQ,))
    async with opened(path) as store:
        with pytest.raises(StoreError):
            await record(store, said("one too many"))
        assert [m.id for m in await store.messages(ANA)] == ["m1"]


async def test_no_statement_reads_messages_of_all_sessions(path: Path) -> None:
    async with opened(path):
        pass
    for name, statement in statements(PACKAGE).items():
        # The doctor looks at all of them once.
        if re.search(r"\bmessages\b", statement) and name != "newest_message":
            scans = [step for step in explained(path, name) if re.fullmatch(r"SCAN messages.*", step)]
            assert not scans, name


async def test_no_position_of_a_file_reaches_into_another_session(path: Path) -> None:
    """What an import brings may say anything."""
    async with opened(path) as store:
        for session in SESSIONS:
            await record(store, said("m1", session.key), said("m2", session.key), session=session)
        far = Scope(session=SESSIONS[1], after=Position(seq=-(2**40)))
        told = [row async for row in store.dump(far) if isinstance(row, MessageRow)]
        assert {row.message.text for row in told} == {"s1"}
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET frontier = ?", (-(2**40),))
    async with opened(path) as store:
        summary = said("summary", "what was said")
        progress = await store.compact(SESSIONS[1], up_to=-(2**40), summary=summary, archive=True, now=NOW)
        assert progress.unnoted_tokens < 40


@pytest.mark.parametrize("name", ["messages", "live_part", "archived_part", "dump_live", "dump_archived"])
async def test_a_conversation_is_read_without_being_sorted(path: Path, name: str) -> None:
    """Sorting would put its texts into a file for a while, and take longer the longer it is."""
    async with opened(path):
        pass
    plan = explained(path, name)
    # But for those of one number: a message that was set aside, and its summary.
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan


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
    plan = " ".join(explained(path, name))
    assert f"USING INDEX {index}" in plan or f"USING COVERING INDEX {index}" in plan
