"""Whatever was done to a store, its rows restore the same store; and a dump can be cancelled at any time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.contract.model_store import ModelStore
from tests.contract.test_alike import Script

from onlooker.domain.errors import StoreError
from onlooker.domain.history import Row
from onlooker.files.export import check, lines_of, rows_of
from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import ANA


async def export(store: Store) -> list[bytes]:
    return [f"{line}\n".encode() async for line in lines_of(store.dump())]


async def given_rows(lines: list[bytes]) -> AsyncIterator[Row]:
    for row in rows_of(lines, "export"):
        yield row


async def moved(lines: list[bytes], store: Store) -> list[bytes]:
    await store.open()
    try:
        await store.restore(given_rows(lines))
        return await export(store)
    finally:
        await store.close()


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_an_export_comes_back_byte_for_byte_whatever_was_done_before(seed: int, steps: int) -> None:
    async def run(folder: Path) -> None:
        script, store = Script(seed), ModelStore()
        await store.open()
        for _ in range(steps):
            step = await script.next(store)
            try:
                await step(store)
            except (KeyError, StoreError):  # refused; nothing changed
                continue
        lines = await export(store)
        assert check(lines, "export") == len(lines) - 2
        through = await moved(lines, SqliteStore(folder / "a.db"))
        assert through == lines
        again = ModelStore()
        assert await moved(through, again) == lines
        await again.open()
        assert await again.load(ANA) == await store.load(ANA)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


# In a process of its own: a connection that is closed under a reader ends the whole process.
GIVING_UP = """
import asyncio, random, sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from onlooker.domain.messages import Message, SessionId
from onlooker.stores.sqlite import SqliteStore

async def main() -> None:
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    now, chance = datetime(2026, 2, 16, tzinfo=UTC), random.Random(7)
    for n in range(40):
        said = [Message("user", f"crate {n} {i}", id=f"m{i}", at=now, tokens=4) for i in range(100)]
        await store.append(SessionId("ana", f"s{n}"), said, due_tokens=10**9, now=now)

    async def read() -> int:
        return len([row async for row in store.dump()])

    whole = await read()
    for _ in range(400):
        reading = asyncio.create_task(read())
        await asyncio.sleep(chance.uniform(0, 0.006))
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
    assert await read() == whole > 4_000
    await store.close()
    print("whole")

asyncio.run(main())
"""


def test_a_dump_can_be_given_up_at_any_moment(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", GIVING_UP, tmp_path / "a.db"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "whole", "")
