"""Forgetting lasts: whoever is killed at any of its steps, the next opening completes it everywhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

import onlooker
from onlooker import assistant, user
from onlooker.domain.history import ValueRow
from onlooker.testing import FrozenClock
from tests.attacks.forgetting_process import KILLED, SECRET, fill, settings
from tests.postgres.server import Server

pytestmark = pytest.mark.anyio

STEPS = ("the store", "the journal", "the notes", "the bytes")


def files_with(secret: str, folder: Path) -> list[str]:
    """The files that hold it, in any case."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.name for path in found if secret.encode() in path.read_bytes().lower())


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", ["message", "session", "owner"])
async def test_what_a_killed_process_was_forgetting_is_gone_after_the_next_opening(
    what: str, step: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.attacks.forgetting_process", str(tmp_path), what, step]
    assert subprocess.run(command, timeout=240, check=False).returncode == KILLED  # noqa: ASYNC221
    assert files_with(SECRET, tmp_path), "there was nothing to forget"
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(tmp_path)) as memory:
        await memory.files.sync()
        assert not [i for i in await memory.items.list("ana") if SECRET in i.summary.lower()]
        assert not await memory.search(SECRET, owner="ana")
        assert await memory.store.get_value("forgetting") == "[]"
        assert [record.by for record in await memory.storage.forgotten(owner="ana")] == ["Ben"]
    assert files_with(SECRET, tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", ["message", "session", "owner"])
async def test_the_same_on_postgresql(what: str, step: str, tmp_path: Path, server: Server) -> None:
    url = server.new_url()
    command = [sys.executable, "-m", "tests.attacks.forgetting_process", str(tmp_path), what, step, url]
    assert subprocess.run(command, timeout=240, check=False).returncode == KILLED  # noqa: ASYNC221
    assert rows_with(SECRET, url) or step != "the store", "there was nothing to forget"
    async with onlooker.open_memory(url, settings=settings(tmp_path)) as memory:
        await memory.files.sync()
        assert await memory.store.get_value("forgetting") == "[]"
        assert [record.by for record in await memory.storage.forgotten(owner="ana")] == ["Ben"]
    assert rows_with(SECRET, url) == []
    assert files_with(SECRET, tmp_path) == []


def rows_with(secret: str, url: str) -> list[str]:
    """The tables in which a query finds it, in any case, also as bytes."""
    found: list[str] = []
    with psycopg.connect(url.replace("schema=", "options=-csearch_path%3D")) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        for (table,) in tables.fetchall():
            rows = connection.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(table)))
            texts = "\n".join(row[0] for row in rows).lower()
            if secret in texts or secret.encode().hex() in texts:
                found.append(table)
    return found


async def test_a_process_that_does_not_know_the_folders_leaves_them_to_one_that_does(tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(tmp_path)) as memory:
        await fill(memory)
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(None)) as memory:
        done = await memory.session("k", owner="ana").forget("q1")
        assert not done.erased
    assert files_with(SECRET, tmp_path), "nothing was left in the folders"
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(tmp_path)) as memory:
        await memory.files.sync()
    assert files_with(SECRET, tmp_path) == []


async def test_a_deleted_session_leaves_no_words_in_the_search_index(tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(None)) as memory:
        session = await fill(memory)
        assert await memory.search(SECRET, owner="ana")
        assert await session.delete()
    assert files_with(SECRET, tmp_path) == []


async def test_no_file_makes_a_store_forget(tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "agent.db") as memory:
        await memory.session("k", owner="ana").record(onlooker.user("I live in Oslo."))

        async def rows():
            yield ValueRow("forgetting", '[["ana", null, [], "all"]]')

        await memory.store.restore(rows())
    async with onlooker.open_memory(tmp_path / "agent.db") as memory:
        assert len(await memory.session("k", owner="ana").messages()) == 1


# -- Two at once


async def test_two_processes_that_forget_at_once_forget_everything(tmp_path: Path) -> None:
    keys = [f"s{n}" for n in range(12)]
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(tmp_path)) as memory:
        for key in keys:
            await memory.session(key, owner="ana").record(user(f"I live in Quokkaville, house {key}."))
    command = [sys.executable, "-m", "tests.attacks.forgetting_process", str(tmp_path), "each"]
    both = [subprocess.Popen([*command, *some]) for some in (keys[::2], keys[1::2])]  # noqa: ASYNC220
    for process in both:
        assert await asyncio.to_thread(process.wait, 240) == 0
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(tmp_path)) as memory:
        assert not await memory.sessions()
        assert await memory.store.get_value("forgetting") == "[]"
        done = await memory.storage.forgotten()
        assert len(done) == len(keys)
        assert {record.by for record in done} == {"s0", "s1"}
    assert files_with(SECRET, tmp_path) == []


async def test_intentions_of_two_processes_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """A process that is killed leaves its intention, whatever another one does meanwhile."""
    from onlooker.engine.forgetting import Intention, carrying_out, intentions

    async with (
        onlooker.open_memory(tmp_path / "agent.db") as memory,
        onlooker.open_memory(tmp_path / "agent.db") as other,
    ):
        now = datetime(2026, 2, 16, tzinfo=UTC)

        async def begin(store: onlooker.ports.Store, key: str) -> None:
            async with carrying_out(store, Intention("ana", key), now, leaves_files=False):
                await asyncio.sleep(0.05)
                if int(key) % 2:
                    raise RuntimeError("killed")

        stores = (memory.store, other.store)
        tasks = [begin(stores[n % 2], str(n)) for n in range(20)]
        for done in await asyncio.gather(*tasks, return_exceptions=True):
            assert done is None or isinstance(done, RuntimeError)
        left = {each.session for each in await intentions(memory.store)}
        assert left == {str(n) for n in range(20) if n % 2}
        await memory.store.set_value("forgetting", "[]")


# -- Who, what and when


async def test_the_record_says_who_forgot_what_and_when_and_nothing_of_the_content(tmp_path: Path) -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    async with onlooker.open_memory(tmp_path / "agent.db", clock=clock) as memory:
        session = memory.session("telegram:42", owner="ana")
        await session.record(user("I live in Quokkaville.", id="q1"), user("I moved.", id="q2"))
        item = await memory.items.save("Ana lives in Quokkaville by the sea", owner="ana")
        await memory.session("k", owner="ben").record(user("Hello."))
        await session.forget("q1", by="support: Eva")
        clock.advance(60)
        await memory.items.forget(item.id, owner="ana", by="Ana")
        await session.delete(by="Ana")
        await memory.forget(owner="ana", by="Ana")
        await memory.forget(owner="ben")
        records = await memory.storage.forgotten(owner="ana")
        everybody = await memory.storage.forgotten()
        kept = await memory.store.get_value("forgotten")
    assert [(r.by, r.what, r.count) for r in records] == [
        ("support: Eva", "messages", 1),
        ("Ana", "items", 1),
        ("Ana", "session", 1),
        ("Ana", "owner", 1),
    ]
    assert [r.at.minute for r in records] == [0, 1, 1, 1]
    assert len(everybody) == 5
    assert kept
    for word in ("Quokkaville", "telegram:42", "q1", "ben"):
        assert word not in kept


# -- What was said in other words


async def test_what_an_agent_saved_of_a_message_is_forgotten_with_it(tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "agent.db") as memory:
        session = memory.session("k", owner="ana")
        await session.record(user("I like tea.", id="t1"), assistant("Fine."))
        call = session.tools().call
        assert "Saved" in await call("memory_save", {"summary": "The user drinks tea rather than coffee"})
        await session.record(user("I was diagnosed with asthma in 2019.", id="q1"))
        paraphrase = "Has had trouble with breathing for years"
        assert "Saved" in await call("memory_save", {"summary": paraphrase})
        done = await session.forget("q1")
        facts = [item.summary for item in await memory.items.list("ana")]
    assert done.items == 1
    assert facts == ["The user drinks tea rather than coffee"]
