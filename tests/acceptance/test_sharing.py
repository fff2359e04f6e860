"""Several processes on one session: nothing lost, nothing doubled, and no model call paid for twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.acceptance.crash_writer import KEY, SETTINGS, Log, said, slow_model
from tests.acceptance.crashing import EVERY, Forker, forking, lines_of, log_of, reading, wait_for_call
from tests.marks import first
from tests.promises.checks import check_coverage

import onlooker

MAX_CALLS_PER_NOTE = 1.05

pytestmark = pytest.mark.req(43)


@pytest.fixture(scope="module")
def forker() -> Generator[Forker]:
    with forking() as forker:
        yield forker


async def _check_writers(session: onlooker.Session, counts: dict[str, int]) -> None:
    """Everything that each writer recorded is there once, in its order, and covered."""
    found = [m.id for m in await session.messages(archived=True)]
    assert len(found) == sum(counts.values())
    for name, count in counts.items():
        assert [i for i in found if i.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(count)]
    await check_coverage(session)


@pytest.mark.parametrize("names", first(["ab", "abc"]))
def test_processes_that_share_a_session_double_neither_messages_nor_calls(
    forker: Forker, tmp_path: Path, names: str
) -> None:
    path = tmp_path / "memory.db"
    # About as much to note as the model can keep up with.
    details = {"count": 120, "pause": 0.008 * len(names), "model_seconds": 0.02}
    writers = [forker.start("share", path, name=name, **details) for name in names]
    assert [forker.wait(writer) for writer in writers] == [0] * len(names)

    async def check() -> int:
        async with reading(path) as session:
            await _check_writers(session, dict.fromkeys(names, 120))
            state = await session.history.state()
            assert state
            assert state.progress.due_at is None
            return len(await session.notes(statuses=EVERY))

    notes, calls = asyncio.run(check()), len(lines_of(path, "call"))
    assert notes >= 40
    assert calls <= MAX_CALLS_PER_NOTE * notes, f"{calls} model calls for {notes} notes"


@pytest.mark.anyio
async def test_settling_beside_the_background_pays_for_no_call_twice(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    log = Log(log_of(path))
    model = slow_model(log, 0.01)
    async with onlooker.open_memory(path, model=model, settings=SETTINGS) as memory:
        session = memory.session(KEY)
        for n in range(60):
            await session.record(said([f"m{n}"]))
            if n % 7 == 0:
                assert await session.settle()
        await memory.background.flush()
        notes = await session.notes(statuses=EVERY)
    log.close()
    assert model.calls <= MAX_CALLS_PER_NOTE * len(notes), f"{model.calls} calls for {len(notes)} notes"


@pytest.mark.parametrize("_round", range(2))
def test_a_process_that_sleeps_beyond_its_lease_spoils_nothing(
    forker: Forker, tmp_path: Path, _round: int
) -> None:
    path = tmp_path / "memory.db"
    sleeper = forker.start("share", path, name="a", count=30, at_once=True, model_seconds=0.3)
    # It waits for its model now, and has no transaction open: that would lock everyone out, as any
    # SQLite file is locked by a writer that stands still.
    wait_for_call(path)
    os.kill(sleeper, signal.SIGSTOP)
    try:
        other = forker.start("share", path, name="b", count=40, pause=0.002)
        assert forker.wait(other) == 0
        assert len(asyncio.run(_noted(path))) > 1
    finally:
        os.kill(sleeper, signal.SIGCONT)
    assert forker.wait(sleeper) == 0
    asyncio.run(_noted(path))


async def _noted(path: Path) -> list[str]:
    """Notes that other processes wrote while one slept; checks that they are right."""
    async with reading(path) as session:
        await _check_writers(session, {"a": 30, "b": 40})
        return [n.id for n in await session.notes(statuses=EVERY)]
