"""A server in trouble: an error that says what to do, nothing lost, and the same memory goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest

import onlooker
from onlooker.domain.errors import StoreError
from onlooker.policy.settings import Settings
from onlooker.stores.postgres import PostgresStore, connection
from onlooker.stores.postgres.connection import address
from tests.postgres.server import Server
from tests.postgres.test_store import in_use

pytestmark = [pytest.mark.anyio, pytest.mark.req(42, 43)]

SMALL = Settings(budget=600, idle_minutes=0)
SYSTEM = "You are helpful."


@asynccontextmanager
async def using(url: str) -> AsyncGenerator[onlooker.Session]:
    async with using_store(url) as (session, _):
        yield session


@asynccontextmanager
async def using_store(url: str) -> AsyncGenerator[tuple[onlooker.Session, PostgresStore]]:
    async with onlooker.open_memory(url, settings=SMALL) as memory:
        session = memory.session("s", owner="ana")
        await session.record(onlooker.user("first"))
        assert isinstance(memory.store, PostgresStore)
        yield session, memory.store


async def check(session: onlooker.Session, *texts: str) -> None:
    """What was said is there, once and in order, and the session can be used for everything again."""
    assert [m.text for m in await session.messages(archived=True)] == ["first", *texts]
    await session.record(onlooker.user("and on"))
    context = await session.context(system=SYSTEM)
    assert [m.text for m in context.messages][-1] == "and on"
    assert [hit.text for hit in await session.search("on")] == ["and on"]
    assert await session.settle()


@contextmanager
def another(url: str) -> Generator[psycopg.Connection[Any]]:
    """Someone else on the same schema, whom no limit of ours ends."""
    with address(url).connect() as connection:
        connection.execute("SET idle_in_transaction_session_timeout = 0; SET statement_timeout = 0")
        yield connection


# ------------------------------------------------------------------------------------ too slow


async def test_a_lock_that_is_held_for_too_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.3)
    url = server.new_url()
    async with using(url) as session:
        with another(url) as other:
            other.execute("BEGIN; SELECT sid FROM sessions FOR UPDATE")
            with pytest.raises(StoreError, match="another transaction held a lock for too long; try again"):
                await session.record(onlooker.user("second"))
            # Whoever only reads waits for nobody.
            context = await session.context(system=SYSTEM)
            assert [m.text for m in context.messages] == ["first"]
            other.execute("COMMIT")
        await session.record(onlooker.user("third"))
        await check(session, "third")


async def test_a_session_that_is_held_keeps_no_other_waiting(server: Server) -> None:
    url = server.new_url()
    async with onlooker.open_memory(url, settings=SMALL) as memory:
        held, free = memory.session("held"), memory.session("free")
        await memory.session("free").record(onlooker.user("first"))
        await held.record(onlooker.user("first"))
        with another(url) as other:
            other.execute("BEGIN; SELECT sid FROM sessions WHERE key = 'held' FOR UPDATE")
            second = asyncio.create_task(held.record(onlooker.user("second")))
            await asyncio.gather(*(free.record(onlooker.user(f"{n}")) for n in range(20)))
            third = asyncio.create_task(held.record(onlooker.user("third")))
            await memory.session("new").record(onlooker.user("first"))
            # They did not wait for a session that is not theirs.
            assert not second.done()
            assert not third.done()
            other.execute("COMMIT")
        await asyncio.gather(second, third)
        # What waited is written once and in order, and so is what comes after it.
        await held.record(onlooker.user("fourth"))
        assert [m.text for m in await held.messages()] == ["first", "second", "third", "fourth"]
        assert len(await free.messages()) == 21


async def test_a_statement_that_takes_too_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STATEMENT_SECONDS", 1.0)
    url = server.new_url()
    async with using(url) as session:
        with another(url) as other:
            raising(other, "PERFORM pg_sleep(5);")
            with pytest.raises(StoreError, match="took too long and was cancelled; try again when"):
                await session.record(onlooker.user("second"), onlooker.user("third"))
            context = await session.context(system=SYSTEM)
            assert [m.text for m in context.messages] == ["first"]
            mended(other)
        await check(session)


async def test_a_process_that_stands_still_in_a_transaction_holds_nobody_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "IDLE_SECONDS", 1.0)
    url = server.new_url()
    async with using_store(url) as (session, store):
        with address(url).connect() as stopped:
            stopped.execute("BEGIN; SELECT sid FROM sessions FOR UPDATE")
            await session.record(onlooker.user("second"))
            with pytest.raises(psycopg.Error, match="idle-in-transaction"):
                stopped.execute("COMMIT")
        with pytest.raises(StoreError, match="was idle for too long; try again"):
            await store.run(_still)
        await check(session, "second")


def _still(db: Any) -> None:
    time.sleep(2.5)
    db.connection.execute("SELECT 1")


# ------------------------------------------------------------------------------------ none left


async def test_all_connections_of_the_pool_in_use(server: Server) -> None:
    async with using_store(server.new_url(pool="2", wait="0.3")) as (session, store):
        wanted = r"all 2 connections are in use; .* try again, or allow more with pool=N in the address"
        async with in_use(store, 2):
            with pytest.raises(StoreError, match=wanted):
                await session.record(onlooker.user("second"))
            with pytest.raises(StoreError, match=wanted):
                await session.context(system=SYSTEM)
        await check(session)


async def test_a_server_without_a_connection_left(server: Server) -> None:
    name = "few"
    url = server.new_url(wait="1").replace("postgres@", f"{name}@")
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 20; GRANT CREATE ON DATABASE postgres TO few")
        async with using(url) as session:
            admin.execute("ALTER ROLE few CONNECTION LIMIT 0")
            end_connections(admin, name)
            wanted = r"no connection left; use fewer \(pool=N in the address\), or raise its max_connections"
            with pytest.raises(StoreError, match=wanted):
                await session.record(onlooker.user("second"))
            with pytest.raises(StoreError, match=wanted):
                await PostgresStore(url).open()
            admin.execute("ALTER ROLE few CONNECTION LIMIT -1")
            await check(session)


# ------------------------------------------------------------------------------------ lost


def end_connections(admin: psycopg.Connection[Any], user: str, schema: str = "") -> int:
    """End everyone's connections, whatever they are doing."""
    ended = admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE usename = %s AND pid <> pg_backend_pid() AND application_name LIKE %s",
        (user, f"%{schema}"),
    )
    return len(ended.fetchall())


async def test_connections_that_are_ended_in_the_middle_of_whatever_they_do(server: Server) -> None:
    url = server.new_url(pool="4", application_name="to be ended")
    sure: list[str] = []
    told: set[str] = set()
    with psycopg.connect(server.url(), autocommit=True) as admin:
        async with using(url) as session:

            async def end_them() -> int:
                ended = 0
                while len(sure) < 120:
                    ended += await asyncio.to_thread(end_connections, admin, "postgres", "to be ended")
                    await asyncio.sleep(0.05)
                return ended

            ending = asyncio.create_task(end_them())
            async with asyncio.timeout(60):
                while len(sure) < 120:
                    message = onlooker.user(f"m{len(sure)}", id=f"m{len(sure)}")
                    try:
                        await session.record(message)
                    except StoreError as error:
                        told.add(str(error))
                        continue
                    sure.append(message.text)
            assert await ending > 5
            assert all("the next call connects again" in text for text in told)
            await check(session, *sure)


async def test_a_connection_that_is_ended_within_a_transaction_leaves_nothing_half_written(
    server: Server,
) -> None:
    url = server.new_url()
    async with using(url) as session:
        with another(url) as other:
            raising(other, "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1);")
            with pytest.raises(StoreError, match="the next call connects again"):
                await session.record(onlooker.user("second"), onlooker.user("third"))
            mended(other)
        await session.record(onlooker.user("second"))
        await check(session, "second")


# ------------------------------------------------------------------------------------ no writes


def raising(other: psycopg.Connection[Any], body: str) -> None:
    """Have the server do something when a message is to be written."""
    other.execute(
        f"CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$;"
        "CREATE TRIGGER trouble BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION trouble()".encode()
    )


def mended(other: psycopg.Connection[Any]) -> None:
    other.execute("DROP FUNCTION trouble() CASCADE")


async def test_a_full_disk(server: Server) -> None:
    url = server.new_url()
    async with using(url) as session:
        with another(url) as other:
            # As the server says it: a disk to fill is not to be had everywhere.
            raising(other, "RAISE EXCEPTION 'could not extend file: No space left' USING ERRCODE = '53100';")
            with pytest.raises(StoreError, match="the server's disk is full; free some space and try again"):
                await session.record(onlooker.user("second"))
            context = await session.context(system=SYSTEM)
            assert [m.text for m in context.messages] == ["first"]
            mended(other)
        await check(session)


async def reloaded(own: Server, admin: psycopg.Connection[Any], *, read_only: str) -> None:
    """Have the server read its settings again. It tells its processes before it starts another one."""
    admin.execute("SELECT pg_reload_conf()")
    async with asyncio.timeout(120):
        while True:
            with psycopg.connect(own.url(), autocommit=True) as another_one:
                if another_one.execute("SHOW default_transaction_read_only").fetchone() == (read_only,):
                    return
            await asyncio.sleep(0.02)


async def test_a_server_that_takes_no_writes_for_a_while() -> None:
    with Server() as own, psycopg.connect(own.url(), autocommit=True) as admin:
        async with using(own.url(schema="onlooker")) as session:
            admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            await reloaded(own, admin, read_only="on")
            with pytest.raises(StoreError, match=r"is read-only: .*target_session_attrs=read-write"):
                await session.record(onlooker.user("second"))
            context = await session.context(system=SYSTEM)
            assert [m.text for m in context.messages] == ["first"]
            admin.execute("SET default_transaction_read_only = off")
            admin.execute("ALTER SYSTEM RESET default_transaction_read_only")
            await reloaded(own, admin, read_only="off")
            await check(session)


async def test_a_standby_serves_contexts_and_takes_writes_once_it_is_the_primary() -> None:
    with Server() as own:
        async with using(own.url(schema="onlooker")) as session:
            await session.record(onlooker.user("second"))
        with own.standby() as standby:
            async with onlooker.open_memory(standby.url(schema="onlooker"), settings=SMALL) as memory:
                session = memory.session("s", owner="ana")
                context = await session.context(system=SYSTEM)
                assert [m.text for m in context.messages] == ["first", "second"]
                with pytest.raises(StoreError, match="if it is a standby, connect to the primary"):
                    await session.record(onlooker.user("third"))
                with psycopg.connect(standby.url(), autocommit=True) as admin:
                    admin.execute("SELECT pg_promote()")
                await check(session, "second")


async def test_a_new_schema_on_a_standby_is_an_error_that_says_so() -> None:
    wanted = pytest.raises(StoreError, match="if it is a standby, connect to the primary")
    with Server() as own, own.standby() as standby, wanted:
        await PostgresStore(standby.url(schema="new")).open()


# ------------------------------------------------------------------------------------ a turn


async def test_a_restart_in_the_middle_of_a_conversation_is_not_noticed_by_its_turns() -> None:
    """Notes are taken meanwhile; what fails there never reaches whoever talks."""
    with Server() as own:
        async with onlooker.open_memory(own.url(schema="onlooker", wait="5"), settings=SMALL) as memory:
            session = memory.session("s", owner="ana")
            said: list[str] = []
            for n in range(60):
                text = f"parcel {n * 7919} goes to street {n}, house {n % 9}"
                await session.record(onlooker.user(text))
                said.append(text)
                assert (await session.context(system=SYSTEM)).stats.total <= SMALL.budget
                if n % 20 == 10:
                    await asyncio.to_thread(own.stop)
                    await asyncio.to_thread(own.start)
            await session.settle()
            assert [m.text for m in await session.messages(archived=True)] == said
            assert await session.notes()
