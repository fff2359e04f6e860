"""A process that consolidates and is killed at a given point: `consolidator.py FOLDER POINT`.

The points: `asked` (items chosen, nothing kept), `kept` (items kept, file not archived), `archived`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import onlooker
from onlooker.files.consolidate import Consolidation
from onlooker.files.folder import Folder


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        original(*args)
        die()

    return run


async def main(folder: Path, point: str) -> None:
    if point == "asked":
        made = Consolidation._make_items  # pyright: ignore[reportPrivateUsage]

        async def ask_and_die(*args: Any) -> Any:
            await made(*args)
            die()

        Consolidation._make_items = cast("Any", ask_and_die)  # pyright: ignore[reportPrivateUsage]
    elif point == "kept":
        Folder.archive_day = cast("Any", die)
    elif point == "archived":
        Folder.archive_day = after(Folder.archive_day)
    async with onlooker.open_memory(
        folder / "a.db", settings=onlooker.Settings(enabled=False), notes_folder=folder / "notes"
    ) as memory:
        await memory.files.consolidate()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
