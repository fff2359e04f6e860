"""Runs a program of `examples/frameworks`, and reads what it recorded."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from onlooker.blocking import open_memory

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
QUESTIONS = ("I moved to Oslo.", "Where do I live?")


def run(name: str, folder: Path, *, key: str = "terminal", owner: str = "me") -> list[str]:
    """Run it in a folder as `python examples/frameworks/NAME_agent.py QUESTIONS` does. Returns what the user
    said, as memory has it. Without a key it is the only session."""
    before, home = sys.argv, Path.cwd()
    sys.argv = [name, *QUESTIONS]
    os.chdir(folder)
    try:
        runpy.run_path(str(EXAMPLES / f"{name}_agent.py"), run_name="__main__")
    finally:
        sys.argv = before
        os.chdir(home)
    with open_memory(folder / f"{name}.db", workers="external") as memory:
        keys = [key] if key else [s.progress.session.key for s in memory.sessions(owner=owner)]
        messages = [m for each in keys for m in memory.session(each, owner=owner).messages()]
    assert [m.role for m in messages] == ["user", "assistant"] * 2
    return [m.text for m in messages if m.role == "user"]
