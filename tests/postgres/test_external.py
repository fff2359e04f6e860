"""A process that only records does nothing else; workers do all that would be done in its background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import onlooker
from onlooker.engine import indexing
from onlooker.policy.settings import Settings
from onlooker.testing import ScriptedModel, WordEmbedder
from onlooker.wiring import WorkerMode
from tests.postgres.server import Server

pytestmark = pytest.mark.anyio

# All that goes on in the background, and soon.
BUSY = Settings(
    budget=1_000,
    idle_minutes=0.02,
    retention_days=1,
    retention_delete_messages=30,
)
SOON = onlooker.Timing(sweep_seconds=0.05, index_seconds=0.05)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> tuple[str, WorkerMode]:
    """An address, and who the workers are there."""
    if request.param == "sqlite":
        return str(tmp_path / "memory.db"), "embedded"
    return server.new_url(), "queue"


def keeping_files(folder: Path) -> Settings:
    return replace(BUSY, journal=str(folder / "journal"), notes_folder=str(folder / "people"))


async def talk(memory: onlooker.Memory) -> onlooker.Session:
    session = memory.session("telegram:42", owner="ana")
    await session.record(
        onlooker.user("My name is Ana Berg and I live in Oslo. I always want short answers.")
    )
    for n in range(40):
        await session.record(onlooker.user(f"Order {n}-1431 went to the warehouse in Bergen on day {n}."))
    return session


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + 120
    while not await condition():
        assert time.monotonic() < deadline, "that took too long"
        await asyncio.sleep(0.05)


async def test_a_process_that_only_records_has_nothing_in_its_background(
    place: tuple[str, WorkerMode], tmp_path: Path
) -> None:
    model, embedder = ScriptedModel(), WordEmbedder()
    before = asyncio.all_tasks()
    async with onlooker.open_memory(
        place[0],
        model=model,
        embedder=embedder,
        settings=keeping_files(tmp_path),
        timing=SOON,
        workers="external",
    ) as memory:
        assert asyncio.all_tasks() == before
        session = await talk(memory)
        await session.context(system="You are helpful.")
        assert asyncio.all_tasks() == before
        await asyncio.sleep(0.5)
        assert asyncio.all_tasks() == before
        found = await memory.store.coverage(embedder.name)
        assert (found.vectors, found.linked) == (0, 0)
        assert len(await session.messages(archived=True)) == 41  # retention would keep 30
        assert await memory.items.list("ana") == []
    assert model.requests == []
    assert embedder.received == []
    assert not (tmp_path / "journal").exists()


@pytest.mark.req(28, 30)
async def test_workers_do_all_that_would_be_done_in_the_background(
    place: tuple[str, WorkerMode], tmp_path: Path
) -> None:
    url, staff = place
    settings = keeping_files(tmp_path)
    embedder = WordEmbedder()
    async with (
        onlooker.open_memory(url, settings=settings, timing=SOON, workers="external") as web,
        onlooker.open_memory(url, embedder=embedder, settings=settings, timing=SOON, workers=staff),
    ):
        session = await talk(web)

        async def noted_and_indexed() -> bool:
            found = await web.store.coverage(embedder.name)
            return (
                bool(await session.notes()) and found.texts == found.vectors and found.notes == found.linked
            )

        async def ended() -> bool:
            return any("Oslo" in item.summary for item in await web.items.list("ana"))

        async def kept_in_files() -> bool:
            journal = "".join(p.read_text() for p in (tmp_path / "journal").rglob("*") if p.is_file())
            people = "".join(p.read_text() for p in (tmp_path / "people").rglob("*.md"))
            return "Order 39-1431" in journal and "Oslo" in people

        await until(noted_and_indexed)
        await until(ended)
        await until(kept_in_files)
    # Retention begins when a worker does, and from then on every few hours.
    async with (
        onlooker.open_memory(url, settings=settings, timing=SOON, workers="external") as web,
        onlooker.open_memory(url, settings=settings, timing=SOON, workers=staff),
    ):
        session = web.session("telegram:42", owner="ana")

        async def pruned() -> bool:
            return len(await session.messages(archived=True)) == 30

        await until(pruned)


async def test_the_journal_of_a_worker_has_what_others_recorded_and_nobody_noted(
    place: tuple[str, WorkerMode], tmp_path: Path
) -> None:
    url, staff = place
    settings = replace(BUSY, journal=str(tmp_path / "journal"), budget=100_000)
    async with (
        onlooker.open_memory(url, settings=settings, timing=SOON, workers=staff),
        onlooker.open_memory(url, settings=settings, timing=SOON, workers="external") as web,
    ):
        await asyncio.sleep(0.2)
        await talk(web)

        async def written() -> bool:
            files = [p for p in (tmp_path / "journal").rglob("*") if p.is_file()]
            return "Order 39-1431" in "".join(p.read_text() for p in files)

        await until(written)


async def test_several_workers_do_not_pay_for_the_same_vectors(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BATCH", 5)
    url, settings = server.new_url(), replace(BUSY, budget=100_000, retention_delete_messages=0)
    one, two = SlowEmbedder(), SlowEmbedder()
    async with onlooker.open_memory(url, settings=settings, timing=SOON, workers="external") as web:
        for key in "abc":
            texts = [f"Order {key}-{n} went to the warehouse in Bergen." for n in range(100)]
            await web.session(key).record(*map(onlooker.user, texts))

        async def indexed() -> bool:
            return (await web.store.coverage(one.name)).vectors == 300

        async with (
            onlooker.open_memory(url, embedder=one, settings=settings, timing=SOON, workers="queue"),
            onlooker.open_memory(url, embedder=two, settings=settings, timing=SOON, workers="queue"),
        ):
            await until(indexed)
    paid = [text for embedder in (one, two) for batch in embedder.received for text in batch]
    assert len(paid) <= 300 + 4 * indexing.BATCH


class SlowEmbedder(WordEmbedder):
    """As slow as a provider: two workers would be at the same texts."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        await asyncio.sleep(0.02)
        return await super().embed(texts)
