"""Processes that only record, and workers elsewhere that take the notes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import onlooker
from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import SessionId
from onlooker.policy.settings import Settings
from onlooker.stores.postgres import PostgresStore
from onlooker.stores.postgres.store import Workforce
from onlooker.testing import FaultyModel, ScriptedModel
from tests.acceptance.command_line import call
from tests.postgres.server import Server
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

SMALL = Settings(budget=1_000)
TIMING = onlooker.Timing(sweep_seconds=60.0, stop_deadline=120.0)


@contextmanager
def worker_process(url: str, *options: str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "onlooker", "worker", "--db", url, *options]
    env = {k: v for k, v in os.environ.items() if not k.startswith("ONLOOKER")}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=120)


async def say(memory: onlooker.Memory, key: str, first: int, last: int) -> None:
    session = memory.session(key)
    for n in range(first, last + 1):
        text = f"On day {n} the order {n}-1431 went to the warehouse in Oslo, and Ana signed for it herself."
        await session.record(onlooker.user(text))


async def until(condition: Any, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "that took too long"
        await asyncio.sleep(0.05)


async def nothing_due(memory: onlooker.Memory) -> bool:
    return not await memory.store.due(memory_now(), limit=1)


def memory_now() -> datetime:
    return datetime.now(UTC)


async def workforce(memory: onlooker.Memory) -> Workforce:
    assert isinstance(memory.store, PostgresStore)
    return await memory.store.workforce(memory_now())


def _worker(name: str, **counts: int) -> dict[str, Any]:
    """A worker as it reports itself."""
    zero = dict.fromkeys(("running", "done", "failed"), 0)
    return {"id": name, "host": "h", "pid": 1, "concurrency": 1, **zero, **counts}


async def jobs(store: PostgresStore) -> list[tuple[str, str]]:
    def read(db: Any) -> list[tuple[str, str]]:
        return db.connection.execute("SELECT status::text, dedupe_key FROM pgqueuer ORDER BY id").fetchall()

    return await store.run(read)


# ------------------------------------------------------------------------------------ recording only


async def test_a_process_that_only_records_takes_no_notes_by_itself(server: Server) -> None:
    model = ScriptedModel()
    async with onlooker.open_memory(
        server.new_url(), model=model, settings=SMALL, timing=TIMING, workers="external"
    ) as memory:
        await say(memory, "a", 1, 60)
        context = await memory.session("a").context(budget=1_000)
        assert context.stats.total <= 1_000
        await asyncio.sleep(0.3)
        assert model.requests == []
        assert [s.key for s in await memory.store.due(memory_now())] == ["a"]
        # What a host asks for on purpose is done here.
        assert await memory.background.tick() == 1
        await memory.background.flush()
        assert model.requests


async def test_a_queue_needs_postgresql() -> None:
    with pytest.raises(SettingsError, match="PostgreSQL"):
        onlooker.open_memory(":memory:", workers="queue")


# ------------------------------------------------------------------------------------ the queue


@pytest.mark.req(28, 30)
async def test_notes_of_a_process_that_only_records_are_taken_by_a_worker(server: Server) -> None:
    url = server.new_url()
    model = ScriptedModel()
    async with (
        onlooker.open_memory(url, model=model, settings=SMALL, timing=TIMING, workers="queue"),
        onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="external") as web,
    ):
        await asyncio.gather(*(say(web, f"s{n}", 1, 40) for n in range(5)))
        await until(lambda: nothing_due(web))
        for n in range(5):
            assert await web.session(f"s{n}").notes()
        # The sweep is a minute away: it was the announcement that woke the worker.
        force = await workforce(web)
        assert (len(force.workers), force.backlog, force.failing) == (1, 0, 0)
    assert model.requests


async def test_a_session_is_announced_once_by_the_transaction_that_made_it_due(server: Server) -> None:
    url = server.new_url()
    async with onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="queue"):
        pass  # the queue is there now, and nobody takes from it
    async with onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="external") as web:
        assert isinstance(web.store, PostgresStore)
        await say(web, "a", 1, 40)
        assert await jobs(web.store) == []  # nobody was seen who would take it
        await web.store.run(lambda db: db.run("worker_seen", **_worker("w")))
        await say(web, "b", 1, 40)
        session = SessionId("default", "b")
        assert await jobs(web.store) == [("queued", f"{session.sid}:0")]
        # Whoever has the lease sees what comes meanwhile, and announces it with the next fence.
        now = memory_now()
        fence = await web.store.lease(session, holder="w", now=now, until=now)
        assert fence == 1
        await say(web, "b", 41, 50)
        assert len(await jobs(web.store)) == 1
        await web.store.release(session, fence=fence, last_seq=40, due_at=now, wake_at=1, failures=1)
        assert [key for _, key in await jobs(web.store)] == [f"{session.sid}:0", f"{session.sid}:1"]
        # One that is settled is not announced.
        fence = await web.store.lease(session, holder="w", now=now, until=now)
        assert fence == 2
        await web.store.release(session, fence=fence, last_seq=50, due_at=None, wake_at=1 << 40, failures=0)
        assert len(await jobs(web.store)) == 2


async def test_a_queue_that_is_broken_does_not_keep_anyone_from_recording(server: Server) -> None:
    url = server.new_url()
    async with onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="queue"):
        pass
    async with onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="external") as web:
        assert isinstance(web.store, PostgresStore)
        await web.store.run(lambda db: db.run("worker_seen", **_worker("w")))
        await web.store.run(lambda db: db.connection.execute("DROP TABLE pgqueuer CASCADE"))
        await say(web, "a", 1, 40)
        assert [s.key for s in await web.store.due(memory_now())] == ["a"]


async def test_what_was_due_before_there_was_a_worker_is_found(server: Server) -> None:
    url = server.new_url()
    async with onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="external") as web:
        await say(web, "a", 1, 40)
        async with onlooker.open_memory(
            url, model=ScriptedModel(), settings=SMALL, timing=TIMING, workers="queue"
        ):
            await until(lambda: nothing_due(web))
        assert await web.session("a").notes()


async def test_a_session_whose_announcement_was_lost_is_found_by_the_sweep(server: Server) -> None:
    url = server.new_url()
    timing = replace(TIMING, sweep_seconds=0.3)
    async with (
        onlooker.open_memory(url, model=ScriptedModel(), settings=SMALL, timing=timing, workers="queue"),
        onlooker.open_memory(url, settings=SMALL, timing=timing, workers="external") as web,
    ):
        assert isinstance(web.store, PostgresStore)
        await web.store.run(
            lambda db: db.connection.execute("ALTER TABLE sessions DISABLE TRIGGER sessions_due")
        )
        await say(web, "a", 1, 40)
        await until(lambda: nothing_due(web))
        assert await web.session("a").notes()


async def test_a_model_that_fails_is_asked_again_when_the_session_is_due_and_not_by_the_queue(
    server: Server,
) -> None:
    url = server.new_url()
    model = FaultyModel("error", rate=1.0, seed=1)
    timing = replace(TIMING, retry_seconds=1.0)
    async with (
        onlooker.open_memory(url, model=model, settings=SMALL, timing=timing, workers="queue"),
        onlooker.open_memory(url, settings=SMALL, timing=timing, workers="external") as web,
    ):
        await say(web, "a", 1, 20)

        async def failed_twice() -> bool:
            found = await web.store.sessions()
            return bool(found) and found[0].progress.failures >= 2

        await until(failed_twice)
        assert (await workforce(web)).failing == 1


async def test_a_worker_outlives_a_restart_of_the_server() -> None:
    with Server() as own:
        url = own.url(schema="onlooker", wait="1")
        model = ScriptedModel()
        timing = replace(TIMING, sweep_seconds=1.0)
        async with (
            onlooker.open_memory(url, model=model, settings=SMALL, timing=timing, workers="queue"),
            onlooker.open_memory(url, settings=SMALL, timing=timing, workers="external") as web,
        ):
            await asyncio.to_thread(own.stop)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(own.start)
            await say(web, "a", 1, 40)
            await until(lambda: nothing_due(web))
            assert await web.session("a").notes()


# ------------------------------------------------------------------------------------ processes


@pytest.mark.long
@pytest.mark.req(30, 97)
async def test_two_worker_processes_of_which_one_is_killed(server: Server) -> None:
    url, shared = server.new_url(), ("--lease", "4")
    with (
        worker_process(url, "--concurrency", "2", *shared) as one,
        worker_process(url, *shared) as two,
    ):
        async with onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="external") as web:

            async def both_there() -> bool:
                return len((await workforce(web)).workers) == 2

            await until(both_there)
            await asyncio.gather(*(say(web, f"s{n}", 1, 40) for n in range(6)))
            one.kill()
            await asyncio.gather(*(say(web, f"s{n}", 41, 80) for n in range(6)))
            await until(lambda: nothing_due(web), 60)
            for n in range(6):
                said = [m.seq for m in await web.session(f"s{n}").messages(archived=True)]
                assert said == list(range(1, 81))
            shown = await asyncio.to_thread(_status, url)
            assert shown["backlog"] == 0
            assert {w["concurrency"] for w in shown["workers"]} == {2, 4}
            two.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(two.wait, 30) == 0
            left = await asyncio.to_thread(_status, url)
            assert [w["pid"] for w in left["workers"]] == [one.pid]  # it could not say goodbye


def _status(url: str) -> dict[str, Any]:
    return call("status", "--workers", "--json", "--db", url).json


async def test_the_command_line_reads_a_server(server: Server) -> None:
    url = server.new_url()
    async with onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="external") as web:
        await say(web, "a", 1, 3)

    sessions = (await asyncio.to_thread(call, "sessions", "--json", "--db", url)).json
    assert [(s["session_key"], s["messages"]) for s in sessions] == [("a", 3)]
    told = await asyncio.to_thread(_told, url)
    assert told == "No session is due.\n\nNo workers: start one with `onlooker worker`.\n"


async def test_status_tells_of_workers_what_waits_for_them_and_what_failed(server: Server) -> None:
    url = server.new_url()
    timing = replace(TIMING, retry_seconds=600.0, retry_limit_seconds=600.0)
    model = FaultyModel("error", rate=1.0, seed=1)
    async with onlooker.open_memory(url, settings=SMALL, timing=timing, workers="external") as web:
        async with onlooker.open_memory(url, model=model, settings=SMALL, timing=timing, workers="queue"):
            await say(web, "broken", 1, 20)

            async def failed() -> bool:
                return bool((await workforce(web)).failing)

            await until(failed)
            there = await asyncio.to_thread(_status, url)
        await say(web, "waiting", 1, 20)
        assert isinstance(web.store, PostgresStore)
        # One that was killed an hour ago, and could not say so.
        await web.store.run(
            lambda db: db.run(
                "worker_seen", **_worker("h-1-abc", concurrency=4, running=2, done=1234, failed=1)
            )
        )
        await web.store.run(
            lambda db: db.connection.execute("UPDATE workers SET seen_at = now() - interval '1 hour'")
        )
        shown = await asyncio.to_thread(_status, url)
        told = await asyncio.to_thread(_told, url)
    (one,) = there["workers"]
    assert (one["state"], one["concurrency"], one["running"]) == ("active", 4, 0)
    assert (shown["backlog"], shown["failing"], shown["lag_seconds"] < 60) == (1, 1, True)
    (failure,) = shown["failing_sessions"]
    assert (failure["session_key"], failure["owner"], failure["failures"]) == ("broken", "default", 1)
    assert 200 < failure["next_try_seconds"] <= 600
    assert [(w["state"], w["done"]) for w in shown["workers"]] == [("lost", 1234)]
    assert "1 session is due, the oldest for " in told
    assert "1 failed the last time." in told
    assert [line.split()[:4] for line in told.splitlines() if line.startswith(("broken", "h-1"))] == [
        ["broken", "default", "1", "in"],
        ["h-1-abc", "lost", "2", "of"],
    ]
    assert "60 min ago" in told
    assert "All of them are lost" in told


def _told(url: str) -> str:
    return call("status", "--workers", "--db", url).out


async def test_status_tells_of_a_file_what_waits(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.db")
    async with onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="external") as web:
        await say(web, "a", 1, 20)
    shown = await asyncio.to_thread(_status, url)
    assert (shown["backlog"], shown["failing"], shown["workers"]) == (1, 0, None)
    told = await asyncio.to_thread(_told, url)
    assert "1 session is due" in told
    assert "does not list" in told


async def test_the_inspector_lists_the_workers(server: Server) -> None:
    url = server.new_url()
    async with serving(
        onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="external")
    ) as client:

        async def shown() -> str:
            return (await client.get("/inspect/health")).text

        assert "start one with <code>onlooker worker</code>" in await shown()
        async with onlooker.open_memory(url, settings=SMALL, timing=TIMING, workers="queue"):

            async def is_active() -> bool:
                return ">active<" in await shown()

            await until(is_active)
            page = await shown()
        assert "0 of " in page
        assert "start one with" not in page
