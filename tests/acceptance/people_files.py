"""A memory with files for people, and where those are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import onlooker
from onlooker.policy.settings import DEFAULT
from onlooker.testing import FrozenClock

# Notes come soon, items only when they are asked for, and files are looked at often.
SETTINGS = replace(
    DEFAULT,
    budget=1000,
    observe_at=0.3,
    precompute_at=0.2,
    chunk_tokens=0.1,
    memory_limit=0.7,
    idle_minutes=0,
)
OFTEN = onlooker.Timing(sweep_seconds=0.05)
NOON = datetime(2026, 2, 16, 12, tzinfo=UTC)
SECONDS = 120


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncGenerator[tuple[onlooker.Memory, list[Any]]]:
    given: dict[str, Any] = {
        "settings": SETTINGS,
        "timing": OFTEN,
        "clock": FrozenClock(NOON),
        "notes_folder": folder / "notes",
    }
    heard: list[Any] = []
    memory = onlooker.open_memory(folder / "a.db", **(given | options))
    memory.subscribe(heard.append)
    async with memory:
        yield memory, heard


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not done():  # noqa: ASYNC110  files do not say when they change
            await asyncio.sleep(0.01)


def memory_file(folder: Path) -> Path:
    (found,) = (folder / "notes").glob("*/MEMORY.md")
    return found


def daily_files(folder: Path) -> list[Path]:
    return sorted((folder / "notes").glob("*/daily/*.md"))


def everything_in(folder: Path) -> bytes:
    return b"\n".join(p.read_bytes() for p in sorted((folder / "notes").rglob("*")) if p.is_file())


async def saved(memory: onlooker.Memory, *summaries: str, owner: str = "ana") -> list[onlooker.Item]:
    made = [await memory.items.save(summary, owner=owner) for summary in summaries]
    await memory.files.sync(owner=owner)
    return made


async def prompt_of_a_new_session(memory: onlooker.Memory, key: str = "new", owner: str = "ana") -> str:
    session = memory.session(key, owner=owner)
    await session.record(onlooker.user("Good morning"))
    return (await session.context(system="You are helpful.")).system


async def noted(
    memory: onlooker.Memory, key: str = "telegram:42", owner: str = "ana", **options: Any
) -> None:
    session = memory.session(key, owner=owner, **options)
    for i in range(10):
        await session.record(
            onlooker.user(f"Parcel {i} weighs {i + 100} grams. I am allergic to peanuts and live in Oslo.")
        )
    await session.settle()
