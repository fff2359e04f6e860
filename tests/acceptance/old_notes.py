"""Daily notes of days that are past, to be consolidated."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.acceptance.people_files import NOON, OFTEN, SETTINGS

import onlooker
from onlooker.ports import ObserveRequest, Request
from onlooker.testing import FrozenClock, ScriptedModel

LATER = NOON + timedelta(days=30)


@asynccontextmanager
async def opened(folder: Path, at: datetime = LATER, **options: Any) -> AsyncGenerator[onlooker.Memory]:
    given: dict[str, Any] = {
        "settings": SETTINGS,
        "timing": OFTEN,
        "clock": FrozenClock(at),
        "notes_folder": folder / "notes",
    }
    async with onlooker.open_memory(folder / "a.db", **(given | options)) as memory:
        yield memory


def observer(request: Request) -> str | None:
    """Notes that say what was said, but for parcels."""
    said = request.messages if isinstance(request, ObserveRequest) else ()
    lines = [f"[12:00] user: {m.text}" for m in said if not m.text.startswith("Parcel")]
    return "\n".join(lines) or None


async def talked(
    folder: Path, *said: str, at: datetime = NOON, owner: str = "ana", key: str = "telegram:1"
) -> None:
    """A day on which this was said and noted. Sessions shared no items then, so that only its file has it."""
    alone = replace(SETTINGS, cross_session_limit=0)
    model = ScriptedModel(observer)
    async with opened(folder, at, model=model, reflector="extractive", settings=alone) as memory:
        session = memory.session(key, owner=owner)
        await session.record(*(onlooker.user(text) for text in said))
        for i in range(10):
            await session.record(
                onlooker.user(f"Parcel {i} weighs {i + 100} grams and goes to Tromsø by boat.")
            )
        await session.settle()


async def summaries(folder: Path, **options: Any) -> list[str]:
    async with opened(folder, settings=replace(SETTINGS, enabled=False)) as memory:
        return sorted(item.summary for item in await memory.items.list("ana", **options))


def days(folder: Path, where: str = "daily") -> list[Path]:
    return sorted((folder / "notes").glob(f"*/{where}/*.md"))
