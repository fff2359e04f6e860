"""A dump that is given up while its thread reads: the journal's is, whenever a memory is closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
