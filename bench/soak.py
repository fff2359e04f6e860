"""Whether a process that runs for long keeps growing: `python bench/soak.py [--minutes 5]`.

Thousands of sessions, one after the other and many at once, recorded one by one or handed over as whole
histories, with a model that fails every third time. Resident memory is read every few seconds. Caches fill at
first; after that it must stay where it is. `--check` exits with 1 if the last quarter is more than 5 % above
the second.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import sys
import time
from collections import deque
from pathlib import Path
from statistics import median

import onlooker
from _figures import scratch
from onlooker.domain.messages import MessageLike
from onlooker.policy.settings import Timing
from onlooker.testing import FAULTS, FaultyModel, ScriptedModel

EVERY = 5.0  # seconds between two readings
AT_ONCE = 16
ALLOWED = 1.05
_WORDS = ("alpha", "bravo", "cabin", "delta", "ember", "frost", "grape", "hotel", "india", "jolly", "kayak")


def resident_now() -> float:
    """What this process has resident, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1024**2


class Traffic:
    """Agents that each hold a conversation for a while, leave it, and take up another or an old one."""

    def __init__(self, memory: onlooker.Memory, stop: float) -> None:
        self._memory = memory
        self._stop = stop
        self._chance = random.Random(3)
        self._known: deque[str] = deque(maxlen=500)
        self.turns = self.sessions = 0

    def _text(self) -> str:
        words = self._chance.choice((5, 40, 150, 600))
        return f"{' '.join(self._chance.choices(_WORDS, k=words))}, order 88-{self.turns}."

    async def agent(self) -> None:
        while time.monotonic() < self._stop:
            old = self._known and self._chance.random() < 0.3
            self.sessions += not old
            key = self._chance.choice(self._known) if old else f"s{self.sessions}"
            self._known.append(key)
            session = self._memory.session(key, owner=f"o{self.sessions % 200}")
            await (self._records(session) if int(key[1:]) % 2 else self._prepares(session))
            # What is still to be noted is work, not a leak: agents wait for it as people would let them.
            await self._memory.background.flush()

    async def _records(self, session: onlooker.Session) -> None:
        for _ in range(self._chance.randint(3, 30)):
            await session.record(onlooker.user(self._text()))
            await session.context(system="Be brief.", budget=4_000)
            await session.record(onlooker.assistant(self._text()))
            self.turns += 1
        await session.search("ember order")
        if self._chance.random() < 0.3:
            await session.end()

    async def _prepares(self, session: onlooker.Session) -> None:
        history: list[MessageLike] = []
        for _ in range(self._chance.randint(3, 30)):
            history.append({"role": "user", "content": self._text()})
            await session.prepare(history, system="Be brief.", budget=4_000)
            history.append({"role": "assistant", "content": self._text()})
            self.turns += 1
        if self._chance.random() < 0.1:
            await session.delete()


async def soak(folder: Path, seconds: float) -> list[float]:
    good = ScriptedModel()
    model = FaultyModel([f for f in FAULTS if f not in ("hang", "huge")], rate=0.3, then=good)
    began, readings, calls = time.monotonic(), list[float](), 0
    async with onlooker.open_memory(
        folder / "soak.db", model=model, budget=4_000, timing=Timing(stop_deadline=0.2)
    ) as memory:
        traffic = Traffic(memory, began + seconds)
        agents = [asyncio.create_task(traffic.agent()) for _ in range(AT_ONCE)]
        print(f"{'seconds':>8}{'MB':>8}{'sessions':>10}{'turns':>8}{'model calls':>13}", flush=True)
        while not all(agent.done() for agent in agents):
            await asyncio.sleep(EVERY)
            gc.collect()
            readings.append(resident_now())
            for fake in (model, good):  # they keep every request
                calls += len(fake.requests) if fake is model else 0
                fake.requests.clear()
            passed = time.monotonic() - began
            print(
                f"{passed:8.0f}{readings[-1]:8.1f}{traffic.sessions:10,}{traffic.turns:8,}{calls:13,}",
                flush=True,
            )
        await asyncio.gather(*agents)
    return readings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--check", action="store_true", help="exit with 1 if it grew")
    arguments = parser.parse_args()
    logging.disable()
    with scratch() as folder:
        readings = asyncio.run(soak(Path(folder), arguments.minutes * 60))
    quarter = max(1, len(readings) // 4)
    before, after = median(readings[quarter : 2 * quarter] or readings), median(readings[-quarter:])
    print(f"second quarter {before:.1f} MB, last quarter {after:.1f} MB: {after / before:.3f} ×")
    return 1 if arguments.check and after > ALLOWED * before else 0


if __name__ == "__main__":
    sys.exit(main())
