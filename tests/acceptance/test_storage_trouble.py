"""Storage that cannot write or read: one typed error that says what to do, and nothing half written."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from tests.acceptance.crash_writer import text_of
from tests.acceptance.crashing import Forker, forking, going_on, lines_of, log_of, reading
from tests.promises.checks import check_conversation, check_coverage

import onlooker


@pytest.fixture(scope="module")
def forker() -> Generator[Forker]:
    with forking() as forker:
        yield forker


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


async def _record(path: Path, count: int) -> None:
    async with going_on(path) as session:
        await session.record([onlooker.user(text_of(f"m{n}"), id=f"m{n}") for n in range(count)])
        await session.settle()


# ------------------------------------------------------------------------------------ no room


@pytest.mark.req(43)
def test_a_full_disk_is_an_error_and_nothing_is_half_written(forker: Forker, path: Path) -> None:
    assert forker.wait(forker.start("starve", path)) == 0
    *recorded, error = json.loads(" ".join(lines_of(path, "failed")[0][1:]))
    shown = json.loads(" ".join(lines_of(path, "shown")[0][1:]))
    assert "try again" in error
    assert shown == ["m1", "m2", *recorded]

    async def check() -> None:
        async with reading(path) as session:
            await check_conversation(session, [text_of(i) for i in [*shown, "after"]])
            await check_coverage(session)

    asyncio.run(check())


# ------------------------------------------------------------------------------------ no right


def test_a_file_that_may_not_be_written_is_an_error_that_says_so(forker: Forker) -> None:
    # In a folder that anyone may enter, since the process gives up being root.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        asyncio.run(_record(path, 1))
        log_of(path).touch()
        os.chmod(path, 0o444)
        os.chmod(folder, 0o555)
        try:
            assert forker.wait(forker.start("open_forbidden", path)) == 0
        finally:
            os.chmod(folder, 0o755)
        (error,) = lines_of(path, "failed")
        assert "check the path and its permissions" in " ".join(error)
        os.chmod(path, 0o600)
        asyncio.run(_record(path, 2))


# ------------------------------------------------------------------------------------ no turn


@pytest.mark.anyio
async def test_a_locked_database_is_an_error_that_says_what_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onlooker.stores.sqlite.connection.BUSY_SECONDS", 0.1)
    async with going_on(path) as session:
        await session.record(onlooker.user("first"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(onlooker.StoreError, match="locked by another process; try again"):
                await session.record(onlooker.user("second"))
            context = await session.context(system="You are helpful.")
            assert [m.text for m in context.messages] == ["first"]
            other.execute("ROLLBACK")
        await session.record(onlooker.user("third"))
        assert [m.text for m in await session.messages()] == ["first", "third"]


# ------------------------------------------------------------------------------------ damage


@pytest.mark.anyio
async def test_a_damaged_head_is_an_error_at_opening(path: Path) -> None:
    await _record(path, 5)
    with path.open("r+b") as file:
        file.write(random.Random(1).randbytes(100))
    with pytest.raises(onlooker.StoreError, match="not a database"):
        async with going_on(path):
            pass


@pytest.mark.parametrize("damage", ["overwritten", "cut off"])
def test_damaged_pages_are_an_error_that_says_what_to_do(path: Path, damage: str) -> None:
    asyncio.run(_record(path, 200))
    pages = path.stat().st_size // 4096
    with path.open("r+b") as file:
        if damage == "cut off":
            file.truncate(4096 * (pages // 2))
        else:
            # All but the first, which says that this is a database of ours.
            file.seek(4096)
            file.write(random.Random(2).randbytes(4096 * (pages - 1)))
    with pytest.raises(onlooker.StoreError, match="damaged; restore it from a backup"):
        asyncio.run(_read(path))


async def _read(path: Path) -> None:
    async with going_on(path) as session:
        await session.context()
        await session.messages()
