"""The statements of an append go by index whatever the tables' sizes, and hold nothing while they wait."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

import onlooker
from onlooker.domain.messages import SessionId
from onlooker.stores.postgres import PostgresStore, append
from onlooker.stores.postgres.database import PostgresDatabase, statements
from onlooker.stores.sql.database import sid_of
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, ids, said
from tests.postgres.server import Server

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["lock_sessions", "known_among", "append"])
async def test_a_plan_that_is_made_while_tables_are_small_serves_when_they_are_large(
    server: Server, name: str
) -> None:
    store = PostgresStore(server.new_url())
    await store.open()
    try:
        await store.append(ANA, [said("m1")], due_tokens=NEVER, now=NOW)
        explain = b"EXPLAIN (GENERIC_PLAN) " + statements()[name].text
        rows = await store.run(lambda db: db.connection.execute(explain).fetchall())
    finally:
        await store.close()
    plan = "\n".join(row[0] for row in rows)
    assert "Index" in plan
    for way in ("Seq Scan on sessions", "Seq Scan on messages", "Hash Join", "Merge Join"):
        assert way not in plan


async def test_the_server_knows_that_it_waits_for_us_between_the_two_trips(server: Server) -> None:
    """It ends a transaction whose process was stopped there only if it knows."""
    store = PostgresStore(server.new_url())
    await store.open()
    try:
        await store.append(ANA, [said("m1")], due_tokens=NEVER, now=NOW)

        def read_only(db: PostgresDatabase) -> str:
            db.connection.execute("ROLLBACK")
            rows, known = append._begin(db, [sid_of(ANA)], [(sid_of(ANA), "m1"), (sid_of(ANA), "m2")])  # pyright: ignore[reportPrivateUsage]
            assert set(rows) == {sid_of(ANA)}
            assert known == {sid_of(ANA): {"m1"}}
            with psycopg.connect(server.url()) as other:
                asked = "SELECT state FROM pg_stat_activity WHERE pid = %s"
                found = other.execute(asked, (db.connection.info.backend_pid,)).fetchone()
            assert found is not None
            return found[0]

        assert await store.run(read_only) == "idle in transaction"
        later = SessionId("ana", "another")
        await store.append(later, [said("m1"), said("m1")], due_tokens=NEVER, now=NOW)
        assert ids(await store.messages(later)) == ["m1"]
    finally:
        await store.close()


@pytest.mark.req(43)
async def test_two_programs_that_pass_the_same_history_record_it_once(server: Server) -> None:
    url = server.empty_url()
    async with (
        onlooker.open_memory(url) as one,
        onlooker.open_memory(url) as two,
    ):
        history = list[dict[str, Any]]()
        for n in range(30):
            history.append({"role": "user", "content": f"question {n}"})
            await asyncio.gather(*(m.session("s").prepare(history) for m in (one, two)))
            history.append({"role": "assistant", "content": f"answer {n}"})
        found = [m.text for m in await one.session("s").messages()]
    assert found == [m["content"] for m in history[:-1]]
