"""`onlooker worker` stops: at once where it does nothing, in good order where it is at a note."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import onlooker
from onlooker.policy.settings import Settings
from onlooker.ports import Request
from onlooker.testing import ScriptedModel
from onlooker.testing.provider import Answer, LocalProvider
from tests.postgres.server import Server

pytestmark = pytest.mark.anyio

SMALL = Settings(budget=1_000)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> str:
    return str(tmp_path / "memory.db") if request.param == "sqlite" else server.new_url()


@contextmanager
def working(url: str, folder: Path, *options: str) -> Generator[subprocess.Popen[str]]:
    """A worker that is ready."""
    config = folder / "onlooker.toml"
    config.write_text("[onlooker]\nbudget = 1000\n")
    command = [sys.executable, "-m", "onlooker", "worker", "--db", url, "--config", str(config), *options]
    env = {k: v for k, v in os.environ.items() if not k.startswith("ONLOOKER")} | {
        "OPENAI_API_KEY": "sk-test"
    }
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stderr is not None
        assert "taking notes" in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.communicate(timeout=120)


@contextmanager
def busy(url: str, folder: Path, provider: LocalProvider, *options: str) -> Generator[subprocess.Popen[str]]:
    """A worker that waits for its model."""
    asyncio.run(_record(url))
    model = f"openai:gpt-5-mini@{provider.url}/v1"
    with working(url, folder, "--model", model, *options) as process:
        deadline = time.monotonic() + 120
        while not provider.received:
            assert time.monotonic() < deadline, "the model was not asked"
            time.sleep(0.01)
        yield process


async def _record(url: str) -> None:
    async with onlooker.open_memory(url, settings=SMALL, workers="external") as web:
        for n in range(20):
            text = f"On day {n} the order {n}-1431 went to the warehouse in Oslo, and Ana signed for it."
            await web.session("a").record(onlooker.user(text))


async def _left(url: str) -> tuple[int, bool, bool]:
    """How many notes there are, whether the session is due, and whether nobody holds it."""
    async with onlooker.open_memory(url, settings=SMALL, workers="external") as web:
        session, now = web.session("a"), datetime.now(UTC)
        due = bool(await web.store.due(now))
        free = await web.store.lease(session.id, holder="x", now=now, until=now + timedelta(seconds=1))
        return len(await session.notes(statuses=("active", "buffered"))), due, free is not None


# Longer than any test waits for it.
FOR_EVER = "600"


def stop(process: subprocess.Popen[str]) -> float:
    """Tell it to stop, and return how long that takes."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    return time.monotonic() - began


def test_a_worker_that_does_nothing_stops_at_once(url: str, tmp_path: Path) -> None:
    with working(url, tmp_path, "--create", "--deadline", FOR_EVER) as process:
        stop(process)
        assert process.returncode == 0


def test_a_worker_that_is_told_to_stop_completes_the_note_it_is_at(url: str, tmp_path: Path) -> None:
    with (
        LocalProvider(lambda _: Answer(seconds=0.3)) as provider,
        busy(url, tmp_path, provider, "--deadline", FOR_EVER) as process,
    ):
        stop(process)
        assert process.returncode == 0
    notes, due, free = asyncio.run(_left(url))
    assert notes
    assert (due, free) == (False, True)


@pytest.mark.long
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_worker_does_not_wait_for_longer_than_its_deadline(url: str, tmp_path: Path) -> None:
    with (
        LocalProvider(lambda _: Answer(fault="hang")) as provider,
        busy(url, tmp_path, provider, "--deadline", "1") as process,
    ):
        assert stop(process) > 0.9
        assert process.returncode == 0
    # Nobody has to wait until the lease has run out.
    assert asyncio.run(_left(url)) == (0, True, True)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_worker_that_is_told_twice_stops_at_once(url: str, tmp_path: Path) -> None:
    with (
        LocalProvider(lambda _: Answer(fault="hang")) as provider,
        busy(url, tmp_path, provider, "--deadline", FOR_EVER) as process,
    ):
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert "1 running" in process.stderr.readline()
        stop(process)
        assert process.returncode == 1
        told = process.stderr.read()
        assert "stays due" in told
        assert "Traceback" not in told
    assert asyncio.run(_left(url)) == (0, True, True)


async def test_a_session_is_free_at_once_whenever_its_worker_is_cancelled(url: str) -> None:
    """Above all while it is being taken: the store may give it out after nobody waits for it any more."""

    async def hang(_request: Request) -> None:
        await asyncio.sleep(60)

    await _record(url)
    chance = random.Random(7)
    async with onlooker.open_memory(
        url, model=ScriptedModel(hang), settings=SMALL, workers="external"
    ) as web:
        session = web.session("a")
        for _ in range(60):
            work = asyncio.create_task(session.settle())
            await asyncio.sleep(chance.uniform(0, 0.008))
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await asyncio.sleep(0.005)  # for a store that is about to give it out
            now = datetime.now(UTC)
            assert await web.store.lease(session.id, holder="x", now=now, until=now) is not None
