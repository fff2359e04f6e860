"""Where messages lie in the file: each session in a part of its own, those of an earlier version too."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_files import opened, record

from onlooker.domain.errors import StoreError
from onlooker.domain.history_rows import MessageRow, Position, Scope
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId, extend_history_hash
from onlooker.domain.search import Query
from onlooker.stores.sqlite.opening import APPLICATION_ID
from onlooker.stores.sqlite.rows import FIRST_SEQ, LAST_SEQ, instant_of_text, message_row, sid_of
from onlooker.stores.sqlite.statements import migrations, split, statements
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, said

pytestmark = [pytest.mark.anyio, pytest.mark.req(38)]

SESSIONS = [SessionId("ana", f"s{n}") for n in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def file_of_version_8(path: Path) -> None:
    """A database whose messages lie by their session's hash: sessions of three, with one set aside before."""
    with closing(sqlite3.connect(path)) as db, db:
        db.create_function("instant", 1, instant_of_text, deterministic=True)
        for number, _, script in migrations()[:8]:
            for statement in split(script):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for session in SESSIONS:
            sid, history_hash = sid_of(session), EMPTY_HISTORY_HASH
            for seq in (1, 2, 3, 4):
                message = old(session, seq)
                history_hash = extend_history_hash(history_hash, message.digest)
                row, table = message_row(sid, message, message.digest), "messages"
                if seq == 1:
                    row, table = (*row, "compacted"), "archive"
                columns = "sid, seq, id, role, tokens, at, digest, summary, name, extra, text"
                columns += ", reason" * (seq == 1)
                db.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", row)
            db.execute(
                "INSERT INTO sessions"
                " (sid, owner, key, last_seq, unnoted_tokens, history_hash, messages, wake_at, used_at)"
                " VALUES (?, ?, ?, 4, 40, ?, 4, 99, 5)",
                (sid, session.owner, session.key, history_hash),
            )


def old(session: SessionId, seq: int) -> Message:
    return said(f"m{seq}", f"{session.key} parcel {seq}", seq=seq)


async def test_messages_of_the_version_before_are_where_they_were(path: Path) -> None:
    file_of_version_8(path)
    async with opened(path) as store:
        for session in SESSIONS:
            assert list(await store.messages(session)) == [old(session, seq) for seq in (2, 3, 4)]
            assert list(await store.messages(session, archived=True)) == [
                old(session, seq) for seq in (1, 2, 3, 4)
            ]
            assert [d.seq for d in await store.digests(session)] == [1, 2, 3, 4]
            state = await store.load(session)
            assert state
            assert [m.seq for m in state.messages] == [2, 3, 4]
            assert state.progress.unnoted_tokens == 40


async def test_a_session_of_the_version_before_goes_on(path: Path) -> None:
    file_of_version_8(path)
    session = SESSIONS[2]
    async with opened(path) as store:
        again = [old(session, 1), old(session, 4), said("m5", "s2 parcel 5")]
        done = await store.append(session, again, due_tokens=NEVER, now=NOW)
        assert [m.id for m in done.messages] == ["m5"]
        history_hash = EMPTY_HISTORY_HASH
        for digest in await store.digests(session):
            history_hash = extend_history_hash(history_hash, digest.digest)
        assert (done.progress.last_seq, done.progress.history_hash) == (5, history_hash)
        await store.index(session)
        found = await store.search(Query("ana", "message", {"parcel": 1.0}, session))
        assert {m.id for m in found.matches} == {"m1", "m2", "m3", "m4", "m5"}
        assert await store.delete_session(session)
        assert not (await store.search(Query("ana", "message", {"parcel": 1.0}))).matches
        assert [len(await store.messages(s)) for s in SESSIONS] == [3, 3, 0, 3, 3]


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
    with closing(sqlite3.connect(path)) as db:
        db.create_function("instant", 1, instant_of_text, deterministic=True)
        for name, statement in statements().items():
            if not re.search(r"\bmessages\b", statement) or "vec_" in statement:
                continue
            most = max((int(n) for n in re.findall(r"\?(\d+)", statement)), default=statement.count("?"))
            values = dict.fromkeys(re.findall(r":(\w+)", statement)) or [None] * most
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
            assert not [step for step in plan if re.fullmatch(r"SCAN messages.*", step)], name


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
    with closing(sqlite3.connect(path)) as db:
        statement = statements()[name]
        values = [None] * max(int(n) for n in re.findall(r"\?(\d+)", statement))
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    # But for those of one number: a message that was set aside, and its summary.
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan
