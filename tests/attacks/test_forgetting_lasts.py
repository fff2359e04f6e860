"""Forgetting lasts: whoever is killed at any of its steps, the next opening completes it everywhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import onlooker
from onlooker.domain.history import ValueRow
from tests.attacks.forgetting_process import KILLED, SECRET, fill, settings

pytestmark = pytest.mark.anyio

STEPS = ("the store", "the journal", "the notes", "the bytes")


def files_with(secret: str, folder: Path) -> list[str]:
    """The files that hold it, in any case."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.name for path in found if secret.encode() in path.read_bytes().lower())


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", ["message", "session", "owner"])
async def test_what_a_killed_process_was_forgetting_is_gone_after_the_next_opening(
    what: str, step: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.attacks.forgetting_process", str(tmp_path), what, step]
    assert subprocess.run(command, timeout=240, check=False).returncode == KILLED  # noqa: ASYNC221
    assert files_with(SECRET, tmp_path), "there was nothing to forget"
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(tmp_path)) as memory:
        await memory.files.sync()
        assert not [i for i in await memory.items.list("ana") if SECRET in i.summary.lower()]
        assert not await memory.search(SECRET, owner="ana")
        assert await memory.store.get_value("forgetting") == "[]"
    assert files_with(SECRET, tmp_path) == []


async def test_a_process_that_does_not_know_the_folders_leaves_them_to_one_that_does(tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(tmp_path)) as memory:
        await fill(memory)
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(None)) as memory:
        done = await memory.session("k", owner="ana").forget("q1")
        assert not done.erased
    assert files_with(SECRET, tmp_path), "nothing was left in the folders"
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(tmp_path)) as memory:
        await memory.files.sync()
    assert files_with(SECRET, tmp_path) == []


async def test_a_deleted_session_leaves_no_words_in_the_search_index(tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "agent.db", settings=settings(None)) as memory:
        session = await fill(memory)
        assert await memory.search(SECRET, owner="ana")
        assert await session.delete()
    assert files_with(SECRET, tmp_path) == []


async def test_no_file_makes_a_store_forget(tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "agent.db") as memory:
        await memory.session("k", owner="ana").record(onlooker.user("I live in Oslo."))

        async def rows():
            yield ValueRow("forgetting", '[["ana", null, [], "all"]]')

        await memory.store.restore(rows())
    async with onlooker.open_memory(tmp_path / "agent.db") as memory:
        assert len(await memory.session("k", owner="ana").messages()) == 1
