"""What is PostgreSQL's own: appends that go together, servers that fail, addresses, migrations."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg
import pytest

from onlooker.domain.errors import ClosedError, ConflictError, SettingsError, StoreError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Commit, Guard
from onlooker.stores.postgres import PostgresStore
from onlooker.stores.postgres.connection import address
from onlooker.stores.postgres.database import PACKAGE, statements, translated
from onlooker.stores.sql import database
from onlooker.stores.sql.database import migrations
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, ids, later, note, said
from tests.postgres.server import Server

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def record(store: PostgresStore, *idents: str, session: SessionId = ANA) -> list[str]:
    appended = await store.append(session, [said(i) for i in idents], due_tokens=NEVER, now=NOW)
    return ids(appended.messages)


# ------------------------------------------------------------------------------------ appends


async def test_appends_that_wait_go_together_and_each_gets_its_own_answer(server: Server) -> None:
    async with opened(server.new_url()) as store:
        sessions = [SessionId("ana", f"s{n % 20}") for n in range(400)]
        found = await asyncio.gather(
            *(record(store, f"m{n}", "same", session=s) for n, s in enumerate(sessions))
        )
        assert [f[0] for f in found] == [f"m{n}" for n in range(400)]
        assert sum("same" in f for f in found) == 20
        assert store.commits < 100
        for session in set(sessions):
            assert [m.seq for m in await store.messages(session)] == list(range(1, 22))


async def test_one_that_cannot_be_written_takes_no_other_down(server: Server) -> None:
    async with opened(server.new_url()) as store:
        await record(store, "first")
        bad = store.append(ANA, [said("bad", tokens=1 << 70)], due_tokens=NEVER, now=NOW)
        good = [record(store, f"m{n}", session=SessionId("ana", f"s{n}")) for n in range(20)]
        error, *others = await asyncio.gather(bad, *good, return_exceptions=True)
        assert isinstance(error, StoreError)
        assert others == [[f"m{n}"] for n in range(20)]
        assert ids(await store.messages(ANA)) == ["first"]


async def test_a_commit_waits_for_the_disk(server: Server) -> None:
    async with opened(server.new_url()) as store:
        shown = await store.run(lambda db: db.connection.execute("SHOW synchronous_commit").fetchone())
        assert shown == ("on",)


async def test_two_stores_see_each_other_and_double_nothing(server: Server) -> None:
    url = server.new_url()
    async with opened(url) as one, opened(url) as two:
        both = (one, two)
        await asyncio.gather(*(record(s, f"m{n}") for n in range(50) for s in both))
        for store in both:
            found = await store.messages(ANA)
            assert sorted(ids(found)) == sorted(f"m{n}" for n in range(50))
            assert [m.seq for m in found] == list(range(1, 51))
        commits = [
            s.commit(ANA, Commit(Guard(0, 0), add=(note(name, 1, 5),), frontier=5))
            for s, name in zip(both, ("one", "two"), strict=True)
        ]
        results = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(r) for r in results if isinstance(r, Exception)] == [ConflictError]
        assert await one.notes(ANA, statuses=("active",)) == await two.notes(ANA, statuses=("active",))
        assert await one.lease(ANA, holder="one", now=NOW, until=later(1)) is not None
        assert await two.lease(ANA, holder="two", now=NOW, until=later(1)) is None


async def test_sessions_that_are_made_and_deleted_at_once_leave_no_half(server: Server) -> None:
    url = server.new_url()
    async with opened(url) as one, opened(url) as two:
        for n in range(30):
            await asyncio.gather(record(one, f"a{n}"), two.delete_session(ANA), record(two, f"b{n}"))
        await record(one, "last")
        found = await one.messages(ANA)
        assert [m.seq for m in found] == list(range(1, len(found) + 1))
        state = await one.load(ANA)
        assert state is not None
        assert state.progress.last_seq == len(found)


@pytest.mark.req(37)
async def test_the_names_in_a_note_that_is_being_forgotten_are_not_linked(server: Server) -> None:
    url = server.new_url()
    async with opened(url) as store:
        await record(store, "m1", "m2")
        await store.commit(ANA, Commit(Guard(0, 0), add=(note("o1", 1, 2, text="Kjetil sails"),), frontier=2))
        (document,) = await store.unlinked()
        with psycopg.connect(url.replace("schema=", "options=-csearch_path%3D"), autocommit=True) as other:
            other.execute("BEGIN")
            other.execute("SELECT sid FROM sessions FOR UPDATE")
            other.execute("DELETE FROM notes")
            linking = asyncio.create_task(store.link([(document, ["Kjetil"])]))
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            while not linking.done() and other.execute(waits).fetchone() == (0,):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            other.execute("COMMIT")
            assert await linking == 0
            assert other.execute("SELECT count(*) FROM entities").fetchone() == (0,)


# ------------------------------------------------------------------------------------ trouble


@pytest.mark.long
@pytest.mark.req(42)
async def test_no_acknowledged_append_is_lost_when_every_process_of_the_server_is_killed() -> None:
    with Server() as own:
        acknowledged: list[list[str]] = [[] for _ in range(8)]
        async with opened(own.url(schema="onlooker", wait="1")) as store:

            async def write(number: int) -> None:
                session = SessionId("ana", f"s{number}")
                for n in range(100_000):
                    try:
                        acknowledged[number] += await record(store, f"m{n}", session=session)
                    except StoreError:
                        return

            writers = [asyncio.create_task(write(n)) for n in range(8)]
            async with asyncio.timeout(120):
                while sum(map(len, acknowledged)) < 400:  # noqa: ASYNC110 - it is the writers that count
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(own.kill)
            await asyncio.wait_for(asyncio.gather(*writers), 60)
            await asyncio.to_thread(own.start)
            for number, sure in enumerate(acknowledged):
                found = ids(await store.messages(SessionId("ana", f"s{number}")))
                assert found[: len(sure)] == sure
                assert len(found) - len(sure) in (0, 1)  # written, and the answer was lost


async def test_a_server_that_is_away_is_an_error_and_one_that_is_back_is_none() -> None:
    with Server() as own:
        async with opened(own.url(schema="onlooker", wait="0.5")) as store:
            await record(store, "m1")
            # Idle connections die with the server; nobody notices, since it is back before the next call.
            await asyncio.to_thread(own.stop)
            await asyncio.to_thread(own.start)
            assert await record(store, "m2") == ["m2"]
            assert ids(await store.messages(ANA)) == ["m1", "m2"]
            await asyncio.to_thread(own.stop)
            with pytest.raises(StoreError, match=r"does not respond|was lost"):
                await record(store, "m3")
            with pytest.raises(StoreError, match=r"does not respond|was lost"):
                await store.load(ANA)
            await asyncio.to_thread(own.start)
            assert await record(store, "m3") == ["m3"]
            assert ids(await store.messages(ANA)) == ["m1", "m2", "m3"]


@asynccontextmanager
async def in_use(store: PostgresStore, connections: int) -> AsyncGenerator[None]:
    """Use so many of its connections for the length of a block."""
    begun, done = threading.Semaphore(0), threading.Event()

    def hold(_: Any) -> None:
        begun.release()
        done.wait(120)

    held = [asyncio.create_task(store.run(hold)) for _ in range(connections)]
    try:
        for _ in held:
            assert await asyncio.to_thread(begun.acquire, timeout=120)
        yield
    finally:
        done.set()
        await asyncio.gather(*held)


async def test_when_all_connections_are_in_use_it_says_so_and_goes_on_afterwards(server: Server) -> None:
    async with opened(server.new_url(pool="2", wait="0.2")) as store:
        async with in_use(store, 2):
            with pytest.raises(StoreError, match="all 2 connections are in use"):
                await store.load(ANA)
        assert await store.load(ANA) is None


async def test_a_statement_that_takes_too_long_is_given_up(server: Server) -> None:
    async with opened(server.new_url()) as store:

        def slow(db: Any) -> None:
            db.connection.execute("SET LOCAL statement_timeout = '50ms'")
            db.connection.execute("SELECT pg_sleep(5)")

        with pytest.raises(StoreError, match="took too long"):
            await store.run(slow)
        assert await store.load(ANA) is None


async def test_a_store_that_is_not_open_says_so(server: Server) -> None:
    store = PostgresStore(server.new_url())
    with pytest.raises(ClosedError):
        await store.load(ANA)
    await store.open()
    await store.close()
    with pytest.raises(ClosedError):
        await record(store, "m1")


async def test_a_server_that_is_not_there_is_an_error_without_the_password() -> None:
    with pytest.raises(StoreError, match="does not respond; check that it runs") as raised:
        await PostgresStore("postgresql://ana:hunter2@127.0.0.1:1/x").open()
    assert "hunter2" not in str(raised.value)
    assert "ana@127.0.0.1" in str(raised.value)


async def test_a_database_that_is_not_there_is_an_error_that_says_so(server: Server) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        await PostgresStore(server.url().replace("/postgres?", "/nothing?")).open()


async def test_a_backup_is_the_servers_own(server: Server, tmp_path: Any) -> None:
    async with opened(server.new_url()) as store:
        with pytest.raises(StoreError, match="pg_dump"):
            await store.back_up(tmp_path / "copy")


# ------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://u@db.example.com/x", "require"),
        ("postgresql://u@db.example.com,localhost/x", "require"),
        ("postgresql://u@db.example.com/x?sslmode=verify-full", "verify-full"),
        ("postgresql://u@db.example.com/x?sslmode=disable", "disable"),
        ("postgresql://u@localhost/x", None),
        ("postgresql://u@127.0.0.1:5433/x", None),
        ("postgresql:///x?host=/tmp", None),
        ("postgresql:///x?hostaddr=10.0.0.7", "require"),
    ],
)
def test_other_machines_are_reached_by_tls_unless_the_address_says_otherwise(
    url: str, mode: str | None
) -> None:
    assert address(url).conninfo.get("sslmode") == mode


def test_an_address_says_what_libpq_and_what_we_need() -> None:
    found = address("postgresql://u:secret@h/x?schema=mine&pool=3&wait=2.5&application_name=mine")
    assert (found.schema, found.pool, found.wait) == ("mine", 3, 2.5)
    assert found.conninfo["application_name"] == "mine"
    assert "secret" not in found.shown


@pytest.mark.parametrize("query", ["schema=a;b", "schema=A", "pool=1", "pool=x", "wait=-1", "nonsense=1"])
def test_an_address_that_cannot_be_is_refused(query: str) -> None:
    with pytest.raises(SettingsError):
        address(f"postgresql://u@h/x?{query}")


# ------------------------------------------------------------------------------------ the schema


def _open_and_record(url: str, barrier: Barrier, number: int) -> None:
    async def run() -> None:
        barrier.wait(120)
        async with opened(url) as store:
            for n in range(10):
                await record(store, "shared", f"{number}-{n}")

    asyncio.run(run())


@pytest.mark.req(38, 43)
async def test_four_processes_that_open_a_new_schema_at_once(server: Server) -> None:
    url = server.new_url(pool="2")
    context = multiprocessing.get_context("forkserver")
    barrier = context.Barrier(4)
    workers = [context.Process(target=_open_and_record, args=(url, barrier, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join, 240)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    async with opened(url) as store:
        found = await store.messages(ANA)
        assert sorted(ids(found)) == sorted(["shared", *(f"{w}-{n}" for w in range(4) for n in range(10))])
        assert [m.seq for m in found] == list(range(1, 42))


@pytest.mark.parametrize(("works_with", "opens"), [(migrations(PACKAGE)[-1].number, True), (9999, False)])
async def test_a_newer_schema_is_used_only_where_it_says_that_it_can_be(
    server: Server, works_with: int, opens: bool
) -> None:
    url = server.new_url()
    async with opened(url) as store:
        await record(store, "m1")
        await store.run(
            lambda db: db.connection.execute("INSERT INTO migrations VALUES (9999, %s)", (works_with,))
        )
    if opens:
        async with opened(url) as store:
            assert await record(store, "m2") == ["m2"]
    else:
        with pytest.raises(StoreError, match="newer version"):
            await PostgresStore(url).open()


async def test_other_tables_of_the_database_are_left_alone(server: Server) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.messages (mine text)")
        async with opened(server.new_url()) as store:
            await record(store, "m1")
            await store.forget_owner("ana")
        assert connection.execute("SELECT COUNT(*) FROM public.messages").fetchone() == (0,)


def test_every_statement_of_the_shared_transactions_is_there() -> None:
    appending = {"session_for_append", "append_message", "save_appended"}
    only_sqlite = appending | {"signs", "signs_in_session", "tidy_index"}
    of_sqlite = database.statements("onlooker.stores.sqlite").keys()
    assert only_sqlite < of_sqlite
    assert of_sqlite - only_sqlite <= statements().keys()


def test_statements_are_translated_into_the_syntax_of_the_server() -> None:
    text = (
        "SELECT x'' FROM a WHERE sid = :sid AND at::text = :at AND id IN (SELECT value FROM json_each(:ids))"
    )
    assert translated(f"{text} LIMIT :limit OFFSET :limit") == (
        b"SELECT ''::bytea FROM a WHERE sid = $2::bytea AND at::text = $3::text AND id IN ("
        b"SELECT json_array_elements_text($1::json)) LIMIT $4::bigint OFFSET $4::bigint",
        ("ids", "sid", "at", "limit"),
    )


async def test_every_statement_fits_the_schema(server: Server) -> None:
    needs_a_queue = {"announce_all", "tidy_queue", "tidy_statistics"}
    savepoints = {"begin_trial", "undo_trial", "end_trial"}
    async with opened(server.new_url()) as store:
        for name in statements().keys() - needs_a_queue - savepoints:
            explain = b"EXPLAIN (GENERIC_PLAN) " + statements()[name].text
            await store.run(lambda db, explain=explain: db.connection.execute(explain))


async def test_normal_text_can_be_read_where_it_lies(server: Server) -> None:
    async with opened(server.new_url()) as store:
        await store.append(ANA, [said("m1", "Ana moved to Oslo, 東京 later")], due_tokens=NEVER, now=NOW)
        found = await store.run(
            lambda db: db.connection.execute(
                "SELECT id FROM messages WHERE text LIKE '%Oslo%東京%'"
            ).fetchall()
        )
        assert json.dumps(found) == '[["m1"]]'
