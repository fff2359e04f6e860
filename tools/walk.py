"""Count the files that a message passes on its way from `record` to a note and into the prompt.

Traces which files of the package run while a session without an owner records sixty turns, takes its notes
and builds a context, once with a model and once with the built-in one. What runs beside that way, because it
listens to events or to a timer, is counted apart. Prints the numbers; with -v, the names.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import onlooker
from onlooker.ports import Model
from onlooker.testing import ScriptedModel

PACKAGE = Path(onlooker.__file__).parent
TURNS = 60
# The search index, items for other sessions, and telemetry: no reader of the way opens them.
BESIDE = (
    "engine/indexing.py",
    "engine/item_maker.py",
    "policy/search",
    "stores/sql/indexes.py",
    "telemetry.py",
)


def walk(model: Model | None) -> list[str]:
    """The files whose functions were called, as paths in the package."""
    seen: set[str] = set()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file not in seen and file.startswith(str(PACKAGE)) and not _is_import(frame):
            seen.add(file)

    threading.setprofile(trace)  # the store's own threads
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_talk(Path(folder) / "walk.db", model, trace))
    finally:
        threading.setprofile(None)
    found = sorted(str(Path(file).relative_to(PACKAGE)) for file in seen)
    return [file for file in found if not file.startswith("testing")]


def _is_import(frame: FrameType | None) -> bool:
    """Whether a module is being loaded, which is no part of the way."""
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(str(PACKAGE))


async def _talk(path: Path, model: Model | None, trace: Any) -> None:
    async with onlooker.open_memory(path, model=model, budget=4_000) as memory:
        session = memory.session("walk")
        user, assistant = onlooker.user, onlooker.assistant
        sys.setprofile(trace)
        for turn in range(TURNS):
            said = f"{turn}: I moved to Oslo last week, and my order {turn}-1431 is late. " * 8
            await session.record(user(said), assistant(f"I will ask about order {turn}-1431."))
        await session.settle()
        context = await session.context(system="You are helpful.")
        sys.setprofile(None)
        assert "## Conversation Memory" in context.system


if __name__ == "__main__":
    # What only runs the first time, such as making the methods of a class, is no part of the way. The second
    # memory is the first that compares settings.
    for _ in range(2):
        walk(ScriptedModel())
    scripted, built_in = walk(ScriptedModel()), walk(None)
    beside = [file for file in scripted if file.startswith(BESIDE)]
    way, built_in_way = ([f for f in files if not f.startswith(BESIDE)] for files in (scripted, built_in))
    print(f"{len(way)} files with a model, {len(built_in_way)} with the built-in one; {len(beside)} beside")
    if "-v" in sys.argv:
        added = sorted(set(built_in_way) - set(way))
        print(*way, "", "the built-in model:", *added, "", "beside the way:", *beside, sep="\n")
