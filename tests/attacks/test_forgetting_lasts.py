"""Forgetting lasts: whoever is killed at any of its steps, the next opening completes it everywhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

import onlooker
from onlooker import assistant, blocking, user
from onlooker.domain.errors import NotFoundError
from onlooker.domain.history import ValueRow
from onlooker.engine import forgetting
from onlooker.testing import FrozenClock
from tests.acceptance.command_line import call
from tests.attacks.forgetting_process import KILLED, SECRET, fill, settings
from tests.postgres.server import Server
from tests.server.serving import PUBLIC, app_of, serving

pytestmark = pytest.mark.anyio

STEPS = ("the store", "the journal", "the notes", "the bytes")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "agent.db")
    server: Server = request.getfixturevalue("server")
    return server.new_url()


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
        # Nothing brings it back: no second forgetting, no consolidation, no journal.
        with pytest.raises(NotFoundError):
            await memory.session("k", owner="ana").forget("q1")
        await memory.files.consolidate(owner="ana", older_than=timedelta(days=-1))
        assert not [i for i in await memory.items.list("ana") if SECRET in i.summary.lower()]
    async with onlooker.open_memory(":memory:") as rebuilt:
        await rebuilt.storage.import_journal(tmp_path / "journal", owner="ana")
        said = await rebuilt.session("k", owner="ana").messages(archived=True)
        assert not [m for m in said if SECRET in m.text.lower()]
        assert not [i for i in await rebuilt.items.list("ana") if SECRET in i.summary.lower()]
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
        with pytest.raises(NotFoundError):
            await memory.session("k", owner="ana").forget("q1")
        await memory.files.consolidate(owner="ana", older_than=timedelta(days=-1))
        await memory.storage.import_journal(tmp_path / "journal", owner="ana", replace=True)
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


@pytest.mark.long
async def test_two_processes_that_forget_at_once_forget_everything(tmp_path: Path, database: str) -> None:
    keys = [f"s{n}" for n in range(12)]
    async with onlooker.open_memory(database, settings=settings(tmp_path)) as memory:
        for key in keys:
            await memory.session(key, owner="ana").record(user(f"I live in Quokkaville, house {key}."))
    command = [sys.executable, "-m", "tests.attacks.forgetting_process", str(tmp_path), "each", database]
    both = [subprocess.Popen([*command, *some]) for some in (keys[::2], keys[1::2])]  # noqa: ASYNC220
    for process in both:
        assert await asyncio.to_thread(process.wait, 240) == 0
    async with onlooker.open_memory(database, settings=settings(tmp_path)) as memory:
        assert not await memory.sessions()
        assert await memory.store.get_value("forgetting") == "[]"
        done = await memory.storage.forgotten()
        assert len(done) == len(keys)
        assert {record.by for record in done} == {"s0", "s1"}
    assert files_with(SECRET, tmp_path) == []
    if database.startswith("postgresql"):
        assert rows_with(SECRET, database) == []


@pytest.mark.long
async def test_two_processes_that_forget_one_session_at_once_forget_it(tmp_path: Path, database: str) -> None:
    """Of the same session: each message once, whoever is first."""
    async with onlooker.open_memory(database, settings=settings(tmp_path)) as memory:
        session = await fill(memory)
        ids = [message.id for message in await session.messages(archived=True)]
    command = [sys.executable, "-m", "tests.attacks.forgetting_process", str(tmp_path), "messages", database]
    both = [subprocess.Popen([*command, name, *ids]) for name in "ab"]  # noqa: ASYNC220
    for process in both:
        assert await asyncio.to_thread(process.wait, 240) == 0
    async with onlooker.open_memory(database, settings=settings(tmp_path)) as memory:
        session = memory.session("k", owner="ana")
        assert not await session.messages(archived=True)
        assert not [note.text for note in await session.notes() if SECRET in note.text.lower()]
        assert not await memory.search(SECRET, owner="ana")
        assert await memory.store.get_value("forgetting") == "[]"
        assert {record.by for record in await memory.storage.forgotten()} <= {"a", "b"}
    assert files_with(SECRET, tmp_path) == []


async def test_intentions_of_two_processes_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """A process that is killed leaves its intention, whatever another one does meanwhile."""
    from onlooker.engine.forgetting import Intention, intentions, kept_until_done

    async with (
        onlooker.open_memory(tmp_path / "agent.db") as memory,
        onlooker.open_memory(tmp_path / "agent.db") as other,
    ):
        now = datetime(2026, 2, 16, tzinfo=UTC)

        async def begin(store: onlooker.ports.Store, key: str) -> None:
            async with kept_until_done(store, Intention("ana", key), now, leaves_files=False):
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


async def test_no_record_is_dropped_however_many_there_are(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "PAGE", 3)
    async with onlooker.open_memory(database) as memory:
        session = memory.session("k", owner="ana")
        for n in range(10):
            await session.record(user(f"I saw {n} birds.", id=f"q{n}"))
            await session.forget(f"q{n}", by=f"{n}")
            if n == 5:  # killed when a page was turned: it is there, and the newest are still full
                before = await memory.store.get_value("forgotten")
                item = await memory.items.save("Ana swims in the lake every morning", owner="ana")
                await memory.items.forget(item.id, owner="ana")
                after = await memory.store.get_value("forgotten")
                assert before
                assert after
                assert await memory.store.swap_value("forgotten", before, expected=after)
        assert [r.by for r in await memory.storage.forgotten(owner="ana")] == [f"{n}" for n in range(10)]


async def test_the_record_says_who_forgot_what_and_when_and_nothing_of_the_content(database: str) -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    async with onlooker.open_memory(database, clock=clock) as memory:
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
    listed = await asyncio.to_thread(call, "forgotten", "--owner", "ana", "--db", database, "--json")
    assert [(r["by"], r["what"], r["count"]) for r in listed.json] == [
        (r.by, r.what, r.count) for r in records
    ]
    shown = await asyncio.to_thread(call, "forgotten", "--db", database)
    assert "support: Eva" in shown.out
    assert "1 messages" in shown.out


def test_the_command_line_says_who_forgot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "eva")
    db = tmp_path / "agent.db"
    with blocking.open_memory(db) as memory:
        session = memory.session("k", owner="ana")
        session.record(user("I live in Quokkaville.", id="q1"), user("I moved.", id="q2"))
        item = memory.items.save("Ana lives in Quokkaville by the sea", owner="ana")
    for arguments in (
        ("forget", "q1", "--by", "Ana\x1b[31m\nroot", "--yes"),
        ("items", "forget", item.id, "--owner", "ana"),
        ("clear", "--messages", "--yes"),
    ):
        assert call(*arguments, "--db", db).code == 0, arguments
    with blocking.open_memory(db) as memory:
        assert [(r.by, r.what) for r in memory.storage.forgotten(owner="ana")] == [
            ("Ana[31m root", "messages"),
            ("eva", "items"),
            ("eva", "session"),
        ]


async def test_the_server_says_which_token_forgot() -> None:
    async with serving(config=PUBLIC) as client:
        make = app_of(client).state.tokens.make
        (ana, token), (ben, _) = await make("ana"), await make("ben")
        hers, his = {"authorization": f"Bearer {ana}"}, {"authorization": f"Bearer {ben}"}
        said = {"role": "user", "content": "I live in Quokkaville.", "id": "q1"}
        await client.post("/v1/sessions/k/messages", json=said, headers=hers)
        await client.post(
            "/v1/sessions/k/forget?by=Eva%20(token%20x)", json={"targets": ["q1"]}, headers=hers
        )
        await client.delete("/v1/sessions/k", headers=hers)
        found = (await client.get("/v1/forgotten", headers=hers)).json()["forgotten"]
        assert [(r["by"], r["what"]) for r in found] == [
            (f"Eva (token x) (token {token.id})", "messages"),
            (f"(token {token.id})", "session"),
        ]
        assert (await client.get("/v1/forgotten", headers=his)).json() == {"forgotten": []}
        assert (await client.get("/v1/forgotten?owner=ana", headers=his)).status_code == 404


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
