"""Several processes on one file: nothing lost, nothing doubled."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from sqlite_files import opened, record

import onlooker
from onlooker.domain.errors import ConflictError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Commit, Guard, Note
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import ANA, NOW, ids, later, note, said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.mark.anyio
async def test_two_stores_on_one_file_see_each_other_and_double_nothing(path: Path) -> None:
    async with opened(path) as one, opened(path) as two:
        both = (one, two)
        await asyncio.gather(*(record(s, said(f"m{n}")) for n in range(50) for s in both))
        for store in both:
            found = await store.messages(ANA)
            assert sorted(ids(found)) == sorted(f"m{n}" for n in range(50))
            assert [m.seq for m in found] == list(range(1, 51))
        made = [note("one", 1, 5), note("two", 1, 5)]
        commits = [_commit(s, n) for s, n in zip(both, made, strict=True)]
        results = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(r) for r in results if isinstance(r, Exception)] == [ConflictError]
        assert len(await one.notes(ANA)) == 1
        assert await one.notes(ANA) == await two.notes(ANA)
        assert await one.lease(ANA, holder="one", now=NOW, until=later(1)) is not None
        assert await two.lease(ANA, holder="two", now=NOW, until=later(1)) is None


async def _commit(store: SqliteStore, made: Note) -> None:
    await store.commit(ANA, Commit(Guard(0, 0), add=(made,), frontier=made.last))


def _open_and_record(path: Path, barrier: Barrier, number: int) -> None:
    async def run() -> None:
        barrier.wait(120)
        async with opened(path) as store:
            for n in range(10):
                await record(store, said("shared"), said(f"{number}-{n}"))

    asyncio.run(run())


@pytest.mark.req(38, 43)
def test_four_processes_that_open_a_new_file_at_once(path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    barrier = context.Barrier(4)
    workers = [context.Process(target=_open_and_record, args=(path, barrier, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(240)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]

    async def check() -> None:
        async with opened(path) as store:
            found = await store.messages(ANA)
            assert sorted(ids(found)) == sorted(
                ["shared", *(f"{w}-{n}" for w in range(4) for n in range(10))]
            )
            assert [m.seq for m in found] == list(range(1, 42))

    asyncio.run(check())


def _prepare_all(path: Path, barrier: Barrier, rounds: int) -> None:
    async def run() -> None:
        async with onlooker.open_memory(path) as memory:
            session, history = memory.session("s"), list[dict[str, Any]]()
            for n in range(rounds):
                history += [
                    {"role": "user", "content": f"question {n}"},
                    {"role": "assistant", "content": f"answer {n}"},
                ]
                barrier.wait(120)
                await session.prepare([*history, {"role": "user", "content": f"question {n + 1}"}])

    asyncio.run(run())


@pytest.mark.req(43)
def test_two_processes_that_pass_the_same_history_record_it_once(path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    barrier = context.Barrier(2)
    workers = [context.Process(target=_prepare_all, args=(path, barrier, 60)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(240)
    assert [worker.exitcode for worker in workers] == [0, 0]

    async def check() -> None:
        async with opened(path) as store:
            found = [m.text for m in await store.messages(SessionId("default", "s"))]
            said = [text for n in range(60) for text in (f"question {n}", f"answer {n}")]
            assert found == [*said, "question 60"]

    asyncio.run(check())


def _record_until_killed(path: Path, acknowledged: Path) -> None:
    async def run() -> None:
        async with opened(path) as store:
            with acknowledged.open("a", buffering=1) as log:
                for n in range(100_000):
                    await record(store, said(f"m{n}"), said(f"n{n}"))
                    log.write(f"m{n} n{n}\n")

    asyncio.run(run())


@pytest.mark.req(42)
def test_what_was_acknowledged_survives_kill_9(path: Path, tmp_path: Path) -> None:
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    context = multiprocessing.get_context("forkserver")
    worker = context.Process(target=_record_until_killed, args=(path, acknowledged))
    worker.start()
    while acknowledged.stat().st_size < 400 and worker.is_alive():
        worker.join(0.01)
    assert worker.pid is not None
    os.kill(worker.pid, 9)
    worker.join(120)

    async def check() -> None:
        async with opened(path) as store:
            found = ids(await store.messages(ANA))
            sure = acknowledged.read_text().split()
            assert found[: len(sure)] == sure
            assert len(found) % 2 == 0
            assert len(found) == len(set(found))

    asyncio.run(check())


_LEAVE_WAL = (
    "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=0)\n"
    "try: print(db.execute('PRAGMA journal_mode = DELETE').fetchone()[0])\n"
    "except sqlite3.OperationalError as error: print(error)"
)


@pytest.mark.req(43)
def test_a_second_store_in_a_process_does_not_take_the_locks_of_the_first(path: Path) -> None:
    async def run() -> list[str]:
        async with opened(path) as store, opened(path):
            await record(store, said("m1"))
            command = [sys.executable, "-c", _LEAVE_WAL, path]
            told = await asyncio.to_thread(subprocess.check_output, command, text=True)
            assert told.strip() == "database is locked"
            await record(store, said("m2"))
            return ids(await store.messages(ANA))

    assert asyncio.run(run()) == ["m1", "m2"]
