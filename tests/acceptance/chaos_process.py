"""The processes of `chaos.py`: some record, some take notes, and any of them may be killed or stopped at any
moment. What they did stands in a log outside the database: each call of `record` before it is made and after
it was acknowledged, and each call of the model.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

from tests.acceptance import crash_writer
from tests.acceptance.crash_writer import SETTINGS, Job, Log, ready, said

import onlooker
from onlooker.ports import Request
from onlooker.testing import ScriptedModel

SESSIONS = 12
# How often a context is asked for: one in so many calls of `record`.
CONTEXT_EVERY = 10
LONGEST = 900.0


def timing(lease: float) -> onlooker.Timing:
    return onlooker.Timing(lease_seconds=lease, sweep_seconds=0.5, retry_seconds=0.2, stop_deadline=20.0)


def key_of(number: int) -> str:
    return f"telegram:{number}"


async def take_notes(job: Job) -> None:
    """Be a worker until told to stop."""
    stop, log = _told_to_stop(), Log(job["log"])
    ready()
    chance = random.Random(job["seed"])

    async def answer(_request: Request) -> None:
        log.write("call")
        await asyncio.sleep(chance.uniform(0.020, 0.050))

    memory = onlooker.open_memory(
        job["url"],
        model=ScriptedModel(answer),
        settings=SETTINGS,
        timing=timing(job["lease"]),
        workers=job["workers"],
    )
    async with _opened(memory):
        await stop.wait()


async def write(job: Job) -> None:
    """Record until told to stop, beginning with what an earlier life did not hear about."""
    stop, log, chance = _told_to_stop(), Log(job["log"]), random.Random(job["seed"])
    ready()
    unheard, counts = _earlier_life(Path(job["log"]), job["name"])
    memory = onlooker.open_memory(
        job["url"], settings=SETTINGS, timing=timing(job["lease"]), workers="external"
    )
    async with _opened(memory):
        if unheard and chance.random() < 0.5:
            log.write("given-up", *unheard)
            unheard = []
        while not stop.is_set():
            key, *idents = unheard or _next_call(job["name"], counts, chance)
            log.write("try", key, *idents)
            await _surely_record(memory.session(key), idents)
            log.write("ok", key, *idents)
            unheard = []
            if not chance.randrange(CONTEXT_EVERY):
                await _look(memory.session(key))
            await asyncio.sleep(chance.uniform(0, 2 * job["pause"]))
        if unheard:  # told to stop before it could ask
            log.write("given-up", *unheard)


def _told_to_stop() -> asyncio.Event:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


def _earlier_life(log: Path, name: str) -> tuple[list[str], Counter[str]]:
    """The call that nobody knows the end of, and how many messages this writer had for each session."""
    counts: Counter[str] = Counter()
    last: list[str] = []
    for line in log.read_text().split("\n")[:-1] if log.exists() else ():
        kind, *call = line.split(" ")
        if kind in ("try", "ok", "given-up") and call[1].startswith(f"{name}-"):
            last = call if kind == "try" else []
            key, *idents = call
            counts[key] = max(counts[key], *(int(i.rsplit("-", 1)[1]) for i in idents))
    return last, counts


def _next_call(name: str, counts: Counter[str], chance: random.Random) -> list[str]:
    number = chance.randrange(SESSIONS)
    key, size = key_of(number), chance.choice((1, 1, 2, 4))
    first = counts[key] + 1
    counts[key] += size
    return [key, *(f"{name}-{number}-{n}" for n in range(first, first + size))]


async def _surely_record(session: onlooker.Session, idents: list[str]) -> None:
    """As a host does that has something to say: whether it was recorded or not, its ids make it safe to say
    again."""
    while True:
        try:
            await session.record(said(idents))
        except onlooker.StoreError:
            await asyncio.sleep(0.1)
        else:
            return


async def _look(session: onlooker.Session) -> None:
    try:
        context = await session.context(system="You are helpful.", budget=2_000)
    except onlooker.StoreError:
        return
    assert context.messages
    assert context.stats.total <= 2_000


@asynccontextmanager
async def _opened(memory: onlooker.Memory) -> AsyncGenerator[None]:
    while True:
        try:
            await memory.open()
        except onlooker.StoreError:  # the file is locked by one that stands still, or the server is away
            await asyncio.sleep(0.1)
        else:
            break
    try:
        yield
    finally:
        await memory.close()


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # all of them are about what the test does to it
    for store in ("sqlite", "postgres.workers"):
        import_module(f"onlooker.stores.{store}")  # now, so that each fork has it
    crash_writer.main({"take_notes": take_notes, "write": write}, LONGEST)
