"""Search on PostgreSQL finds what SQLite finds, in any script, and goes by indexes however much there is."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg import RawCursor

from onlooker.domain.messages import Message, SessionId
from onlooker.engine.recall import Search
from onlooker.ports import Store
from onlooker.stores.postgres import PostgresStore
from onlooker.stores.postgres.connection import address
from onlooker.stores.postgres.database import PostgresDatabase, migrate, statements
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, later
from tests.postgres.server import Server

pytestmark = pytest.mark.anyio

SAID = (
    "I moved to Oslo last week, and my order is 88-1431",
    "The deploy failed: missing env DATABASE_URL in /srv/app/fly.toml",
    "Straße, naïve café, Übergröße, ŁÓDŹ and İstanbul",
    "我上周搬到了奥斯陆，订单号是 88-1431。数据库迁移失败了",
    "奥运会在北京举行，我们去看了数据中心",
    "先週東京に引っ越しました。データベースの移行に失敗しました",
    "東京都庁の近くのラーメン屋が好きです",
    "지난주에 서울로 이사했어요. 데이터베이스 마이그레이션이 실패했습니다",
    "서울역에서 만나서 데이터를 확인합시다",
    "Мы переехали в Осло; заказ № 88-1431 ещё не пришёл",
    "انتقلت إلى أوسلو الأسبوع الماضي",
    "ฉันย้ายไปออสโลเมื่อสัปดาห์ที่แล้ว",
    "שלום, עברתי לאוסלו",
    "emoji 🦜 and a path C:\\Users\\ana\\notes.txt, v2.3.1, €1,240.50",
    'it\'s quoted "so" -- ; DROP TABLE searchable; % _ \\',
    "a" * 5_000 + " needle",
    " ".join(f"w{n}" for n in range(30_000)) + " haystack",
    "",
)
ASKED = (
    "Oslo",
    "oslo order",
    "DATABASE_URL",
    "/srv/app/fly.toml",
    "fly",
    "88-1431",
    "strasse",
    "Straße",
    "naive cafe",
    "lodz",
    "奥斯陆",
    "奥",
    "数据",
    "数据库迁移",
    "北京",
    "東京",
    "京都",
    "データ",
    "データベースの移行",
    "ラーメン",
    "서울",
    "데이터",
    "데이터베이스 마이그레이션",
    "Осло",
    "пришёл",
    "أوسلو",
    "ออสโล",
    "אוסלו",
    "🦜",
    "notes.txt",
    "v2.3.1",
    "1240.50",
    "quoted drop table",
    "% _ '\"",
    "needle",
    "haystack w29999",
    "w17",
    "the and of",
    "nothing like it",
)


@asynccontextmanager
async def opened(store: Store) -> AsyncGenerator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def said() -> list[Message]:
    return [Message("user", text, id=f"m{n}", at=later(n), tokens=5) for n, text in enumerate(SAID)]


@pytest.mark.req(79)
async def test_both_databases_find_the_same_in_every_script(server: Server, tmp_path: Path) -> None:
    places = SqliteStore(tmp_path / "memory.db"), PostgresStore(server.new_url())
    found: dict[str, list[str]] = {}
    async with opened(places[0]) as sqlite, opened(places[1]) as postgres:
        for store in (sqlite, postgres):
            for session in (ANA, SessionId("ana", "again"), SessionId("ben", "s")):
                await store.append(session, said(), due_tokens=NEVER, now=NOW)
        for asked in ASKED:
            for session in (ANA, None):
                search = Search("ana", session, limit=30)
                one, other = [await search.run(store, asked) for store in (sqlite, postgres)]
                assert one == other, asked
                found[asked] = [hit.id for hit in one]
            between = Search("ana", ANA, after=later(2), before=later(9))
            assert await between.run(sqlite, asked) == await between.run(postgres, asked)
    # They are no two empty hands.
    expected = {
        "奥斯陆": "m3",
        "北京": "m4",
        "東京": "m5",
        "ラーメン": "m6",
        "서울": "m7",
        "Осло": "m9",
        "ออสโล": "m11",
        "lodz": "m2",
        "haystack w29999": "m16",
        "needle": "m15",
    }
    for asked, ident in expected.items():
        assert ident in found[asked], asked
    assert found["nothing like it"] == []


# ------------------------------------------------------------------------------------ indexes

# What goes through everything on purpose: listings of all sessions, copies of the whole, counts for a doctor.
WHOLE = {
    "list_sessions",
    "dump_sessions",
    "dump_items",
    "dump_usage",
    "mark",
    "usage",
    "coverage",
    "overview",
    "spending",
    "newest_message",
}
SAVEPOINTS = {"begin_trial", "undo_trial", "end_trial"}
NEED_A_QUEUE = {"announce_all", "tidy_queue", "tidy_statistics"}
LARGE = (
    "sessions",
    "messages",
    "archive",
    "notes",
    "searchable",
    "items",
    "vector_signs",
    "vectors",
    "changes",
)

SID = "decode(md5((n % 1000)::text), 'hex')"
AT = "'2026-02-16T10:00:00+00:00'"
ROWS = "FROM generate_series(1, 50000) AS n"
# Fifty thousand messages in a thousand sessions, and what belongs to them, as quickly as SQL can.
FILL = (
    "SET statement_timeout = 0",  # however busy the machine is
    "SET session_replication_role = replica",  # without triggers
    "INSERT INTO sessions (sid, owner, key, last_seq, wake_at, used_at, messages)"
    f" SELECT {SID}, 'o' || n % 100, 's' || n, 50, 1, n, 50 FROM generate_series(0, 999) AS n",
    "INSERT INTO messages (sid, seq, id, role, tokens, at, digest, name, text)"
    f" SELECT {SID}, n / 1000 + 1, 'm' || n, 'user', 5, {AT}, '', '', 'text ' || n {ROWS}",
    "INSERT INTO archive (sid, seq, id, reason, role, tokens, at, digest, name, text)"
    " SELECT sid, seq - 50, 'a' || id, 'compacted', role, tokens, at, digest, name, text FROM messages",
    "INSERT INTO notes"
    " (sid, id, generation, first_seq, last_seq, status, tokens, made_at, model, degraded, sources, text)"
    f" SELECT {SID}, 'o' || n, 0, n / 1000 + 1, n / 1000 + 1, 'active', 5, {AT}, '', 0, '[]', 'note' {ROWS}",
    "INSERT INTO searchable (kind, owner, sid, id, at, length, scope, words)"
    f" SELECT 'message', 'o' || n % 100, {SID}, 'm' || n, n, 4, 'by_o' || n % 100 || ' of_s' || n % 1000,"
    f" 'text common w' || n % 5000 {ROWS}",
    "INSERT INTO vector_signs (space, owner, kind, sid, number, at, signs)"
    " SELECT 1, owner, kind, sid, number, at, '\\x00' FROM searchable",
    "INSERT INTO vectors (space, number, vector) SELECT 1, number, '\\x00' FROM searchable",
    "INSERT INTO changes (sid, number, at, last_seq, frontier, watermark, tail_start, statuses)"
    f" SELECT {SID}, n, {AT}, n, n, n, n, '[]' {ROWS}",
    "INSERT INTO items (owner, id, status, ranked_at, type, origin, made_at, sid, session, tags, sources,"
    " replaces, derived_from, summary) SELECT 'o' || n % 100, 'i' || n, 'live', n, 'knowledge', 'user', '',"
    f" {SID}, '', '[]', '[]', '[]', '[]', 'sum' {ROWS}",
    "ANALYZE",
)


@pytest.fixture(scope="module")
def filled(server: Server) -> str:
    url = server.new_url()
    migrate(address(url))
    with address(url).connect() as connection:
        for statement in FILL:
            connection.execute(statement.encode())
    return url


@pytest.mark.long
async def test_every_statement_goes_by_an_index_at_fifty_thousand_rows(filled: str) -> None:
    through = re.compile(rf"Seq Scan on ({'|'.join(LARGE)})\b")
    found: dict[str, str] = {}
    async with opened(PostgresStore(filled)) as store:
        assert isinstance(store, PostgresStore)
        for name in statements().keys() - WHOLE - NEED_A_QUEUE - SAVEPOINTS:
            plan = await store.run(lambda db, name=name: _plan(db, name))
            if match := through.search(plan):
                found[name] = match[0]
    assert found == {}


def _plan(db: PostgresDatabase, name: str) -> str:
    """As the server plans a statement that it was given often, whatever the values."""
    rows = db.connection.execute(b"EXPLAIN (GENERIC_PLAN) " + statements()[name].text).fetchall()
    return "\n".join(row[0] for row in rows)


async def test_words_are_looked_up_in_their_index(filled: str) -> None:
    async with opened(PostgresStore(filled)) as store:
        assert isinstance(store, PostgresStore)

        def look(db: PostgresDatabase) -> tuple[int, str]:
            asked: dict[str, Any] = {"scope": "of_s17", "terms": '["w17"]', "limit": 1000}
            (found,) = json.loads(db.value("holders", **asked))
            statement = statements()["holders"]
            explain = b"EXPLAIN (ANALYZE, TIMING OFF) " + statement.text
            plan = RawCursor(db.connection).execute(explain, [asked[n] for n in statement.names]).fetchall()
            return len(found), "\n".join(row[0] for row in plan)

        count, plan = await store.run(look)
        assert count == 10
        assert "Bitmap Index Scan on searchable_tokens" in plan
        removed = [int(n) for n in re.findall(r"Rows Removed by .*: (\d+)", plan)]
        assert sum(removed) == 0
