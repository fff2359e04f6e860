"""Storage that cannot write or read: one typed error that says what to do, and nothing half written."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from tests.acceptance.crash_writer import KEY, text_of
from tests.acceptance.crashing import Forker, forking, going_on, lines_of, log_of, reading
from tests.promises.checks import check_conversation, check_coverage

import onlooker
import onlooker.blocking


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


# As someone whom permissions bind. The first round imports what this user may not read afterwards.
READ_ONLY = """
import json, os, sys
from typer.testing import CliRunner
from onlooker.cli.app import app

folder, mode, commands = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])

def call(arguments):
    done = CliRunner(env={"ONLOOKER_DB": folder + "/memory.db"}).invoke(app(), arguments)
    return [done.exit_code, done.stdout, done.stderr]

before = [call(arguments) for arguments in commands]
os.chmod(folder + "/memory.db", 0o444)
os.chmod(folder, mode)
if os.geteuid() == 0:
    os.setuid(65534)
print(json.dumps([before, [call(arguments) for arguments in commands]]))
"""

LOOKING = [
    ["search", "peanuts"],
    ["context"],
    ["status"],
    ["export", "-"],
    ["sessions"],
    ["list"],
    ["recall", "1"],
    ["items"],
]


@pytest.mark.parametrize("mode", [0o555, 0o777], ids=["folder", "file"])
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_a_database_that_may_only_be_read_can_be_looked_at_and_changes_are_refused(
    mode: int, is_open: bool
) -> None:
    commands = [["pin", "1"], *LOOKING]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.chmod(folder, 0o755)
        memory = stack.enter_context(onlooker.blocking.open_memory(f"{folder}/memory.db"))
        memory.session("a", owner="ana").record(onlooker.user("I am allergic to peanuts."))
        if is_open:
            for suffix in ("-wal", "-shm"):
                os.chmod(f"{folder}/memory.db{suffix}", 0o644)
        else:
            memory.close()
        try:
            done = subprocess.run(
                [sys.executable, "-c", READ_ONLY, folder, str(mode), json.dumps(commands)],
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            os.chmod(folder, 0o755)
    before, (pinned, *looked) = json.loads(done.stdout)
    assert looked == before[1:]
    for arguments, (code, out, _) in zip(LOOKING, looked, strict=True):
        assert code == 0, arguments
        if arguments[0] in ("search", "context", "export", "recall"):
            assert "allergic to peanuts" in out
    code, _, err = pinned
    assert code == 1
    assert "the database cannot be written; check the permissions of file and folder" in err


# ------------------------------------------------------------------------------------ no turn


@pytest.mark.anyio
async def test_a_locked_database_is_an_error_that_says_what_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onlooker.stores.sqlite.store.WRITE_SECONDS", 0.1)
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


LONG = 600.0  # longer than any test waits


@contextmanager
def locked(path: Path) -> Generator[sqlite3.Connection]:
    """Another program has the file for itself."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield other


@pytest.mark.anyio
@pytest.mark.parametrize("call", ["context", "question"])
async def test_a_context_goes_on_without_what_another_programs_lock_keeps_it_from_storing(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr("onlooker.stores.sqlite.store.WRITE_SECONDS", LONG)
    async with onlooker.open_memory(path, budget=1000, workers="external") as memory:
        await memory.items.save("Ana lives in Oslo.", owner="ana")
        session = memory.session("a", owner="ana")
        for i in range(20):
            await session.record(onlooker.user(f"Parcel {i} weighs {i * 37} grams. " + "It is heavy. " * 15))
        with locked(path) as other:
            late = asyncio.create_task(session.record(onlooker.user("While it is locked")))
            async with asyncio.timeout(LONG / 10):
                # It has items to choose and notes to write on the spot, and can store neither.
                if call == "context":
                    context = await session.context(system="Be brief.")
                else:
                    context = await session.context(system="Be brief.", question="What does parcel 3 weigh?")
            assert other.in_transaction
            assert not late.done()
            assert context.text().startswith("Be brief.")
            assert context.messages[-1].text.startswith("Parcel 19 weighs 703 grams.")
            assert context.stats.left_out_messages == 20 - len(context.messages)
            assert "Ana lives in Oslo." in context.text()
            assert not await session.notes()
            other.execute("ROLLBACK")
        await late
        context = await session.context(system="Be brief.")
        assert context.stats.left_out_messages == 0
        assert context.messages[-1].text == "While it is locked"
        assert "Ana lives in Oslo." in context.text()
        assert [m.seq for m in await session.messages()] == list(range(1, 22))


@pytest.mark.anyio
async def test_each_record_has_its_own_deadline_and_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with onlooker.open_memory(path) as memory:
        session = memory.session("a")
        await session.record(onlooker.user("first"))
        with locked(path) as other:
            monkeypatch.setattr("onlooker.stores.sqlite.store.WRITE_SECONDS", LONG)
            patient = asyncio.create_task(session.record(onlooker.user("patient")))
            await asyncio.sleep(0.01)
            monkeypatch.setattr("onlooker.stores.sqlite.store.WRITE_SECONDS", 0.1)
            # They come after one that goes on waiting.
            for call in (
                session.record([onlooker.user("second"), onlooker.user("third")]),
                session.prepare(
                    [{"role": "user", "content": "first"}, {"role": "user", "content": "fourth"}]
                ),
            ):
                with pytest.raises(onlooker.StoreError, match="locked by another process; try again"):
                    await call
            assert not patient.done()
            other.execute("ROLLBACK")
        await patient
        assert [m.text for m in await session.messages()] == ["first", "patient"]
        await session.record(onlooker.user("second"))
        assert [m.text for m in (await session.context()).messages] == ["first", "patient", "second"]


@pytest.mark.anyio
async def test_a_file_is_opened_while_another_program_writes_to_it(path: Path) -> None:
    await _record(path, 3)
    with locked(path):
        async with onlooker.open_memory(path, workers="external") as memory:
            context = await memory.session(KEY).context()
            assert context.messages


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
