"""A process that forgets: one that is killed at one of its steps, or one of two that forget at once."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import onlooker
from onlooker import assistant, user
from onlooker.domain.errors import NotFoundError

SECRET = "quokkaville"
KILLED = 9
FILLING = (
    "We talked about the garden fence at length, its boards, its posts, and the paint that peels off.",
    "Then about the train timetable between the two towns, which changes in spring and again in autumn.",
    "After that we compared three kinds of bread flour, which mill grinds which, and how dough has to rest.",
)


def settings(folder: Path | None) -> onlooker.Settings:
    small = replace(
        onlooker.preset("default"),
        budget=2_000,
        observe_at=120,
        keep_recent=0,
        precompute_at=120,
        chunk_tokens=100,
    )
    if folder is None:
        return small
    return replace(small, notes_folder=str(folder / "notes"), journal=str(folder / "journal"))


async def fill(memory: onlooker.Memory) -> onlooker.Session:
    session = memory.session("k", owner="ana")
    await session.record(user("I live in Quokkaville, in the old mill.", id="q1"), assistant("Noted."))
    for number, text in enumerate(FILLING * 2):
        await session.record(user(f"{number}: {text}"), assistant("I see."))
    await session.settle()
    await session.end()
    if memory.settings.notes_folder:
        await memory.files.sync()
    return session


async def main(folder: Path, what: str, step: str, url: str = "") -> None:
    memory = onlooker.open_memory(url or folder / "agent.db", settings=settings(folder))
    await memory.open()
    session = await fill(memory)

    async def die(*_: object, **__: object) -> None:
        os._exit(KILLED)

    runtime: Any = memory._runtime  # pyright: ignore[reportPrivateUsage]
    owner, name = {
        "the store": (
            runtime.store,
            {"message": "forget", "owner": "forget_owner"}.get(what, "delete_session"),
        ),
        "the journal": (runtime.journal, "remove_forgotten"),
        "the notes": (runtime.files, "remove_forgotten"),
        "the bytes": (runtime.store, "erase"),
    }[step]
    setattr(owner, name, die)
    if what == "message":
        await session.forget("q1", by="Ben")
    elif what == "owner":
        await memory.forget(owner="ana", by="Ben")
    else:
        await session.delete(by="Ben")


def _meet(folder: Path, name: str) -> None:
    (folder / f"ready-{name}").touch()
    while len(list(folder.glob("ready-*"))) < 2:
        time.sleep(0.01)


async def forget_each(folder: Path, database: str, keys: list[str]) -> None:
    """Forget these sessions, one after the other, as soon as the other process is there too."""
    async with onlooker.open_memory(database, settings=settings(folder)) as memory:
        await asyncio.to_thread(_meet, folder, keys[0])
        for key in keys:
            await memory.forget(owner="ana", session=key, by=keys[0])


async def forget_messages(folder: Path, database: str, name: str, ids: list[str]) -> None:
    """Forget these messages, each unless the other process was faster."""
    async with onlooker.open_memory(database, settings=settings(folder)) as memory:
        session = memory.session("k", owner="ana")
        await asyncio.to_thread(_meet, folder, name)
        for ident in ids:
            with suppress(NotFoundError):
                await session.forget(ident, by=name)


if __name__ == "__main__":
    if sys.argv[2] == "each":
        asyncio.run(forget_each(Path(sys.argv[1]), sys.argv[3], sys.argv[4:]))
    elif sys.argv[2] == "messages":
        asyncio.run(forget_messages(Path(sys.argv[1]), sys.argv[3], sys.argv[4], sys.argv[5:]))
    else:
        asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
