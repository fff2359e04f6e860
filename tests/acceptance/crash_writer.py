"""Processes that are made to be killed, stopped and starved.

Run as a script it imports everything once, and then forks a process for each job that it reads from
its standard input: a job costs some milliseconds, not the start of an interpreter. `crashing.py` is
the other end.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import onlooker
from onlooker.domain.events import Event, Noted, Reflected
from onlooker.ports import Request
from onlooker.testing import ScriptedModel

Job = dict[str, Any]
KEY = "telegram:42"

# Small enough that a few messages reach every threshold, notes on notes included.
SETTINGS = onlooker.Settings(budget=400)
TIMING = onlooker.Timing(lease_seconds=1.0, sweep_seconds=0.05)


class AheadClock:
    """The machine's time and so many seconds more: enough of them, and a dead process's lease is over."""

    def __init__(self, seconds: float) -> None:
        self._ahead = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead


class Log:
    """Lines that outlive the process: each is one write, straight to the operating system."""

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: str) -> None:
        os.write(self._file, (" ".join(words) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


def text_of(ident: str) -> str:
    """What the message with this id says."""
    return f"{ident}: the parcel for order {ident} goes to the harbour, not to the station."


def said(idents: list[str]) -> list[onlooker.Message]:
    return [onlooker.user(text_of(i), id=i) for i in idents]


def slow_model(log: Log, seconds: float) -> ScriptedModel:
    """A well-behaved model that takes its time, and leaves a line for each call."""

    async def answer(_request: Request) -> None:
        log.write("call")
        await asyncio.sleep(seconds)

    return ScriptedModel(answer)


def open_memory(job: Job) -> onlooker.Memory:
    model = slow_model(Log(job["log"]), job.get("model_seconds", 0.002))
    return onlooker.open_memory(
        job["path"], model=model, settings=SETTINGS, timing=TIMING, clock=AheadClock(job.get("ahead", 0))
    )


_told: set[int] = set()


def ready() -> None:
    """Tell the parent who this is, once: it may begin to count."""
    if os.getpid() not in _told:
        _told.add(os.getpid())
        os.write(1, f"{os.getpid()}\n".encode())


# ------------------------------------------------------------------------------------ jobs


async def talk(job: Job) -> None:
    """Record, settle and look until killed. First comes what the last one did not hear about."""
    log, chance = Log(job["log"]), random.Random(job["seed"])
    async with open_memory(job) as memory:
        memory.subscribe(lambda event: _log_note(event, log))
        session = memory.session(KEY)
        ready()
        for idents in _calls(job, chance):
            log.write("try", *idents)
            await session.record(said(idents))
            log.write("ok", *idents)
            match chance.randrange(6):
                case 0:
                    await session.settle()
                case 1:
                    await session.context(system="You are helpful.")
                case 2:
                    await asyncio.sleep(0.004)
                case _:
                    pass


def _log_note(event: Event, log: Log) -> None:
    if isinstance(event, Noted | Reflected):
        log.write("noted", event.note.id)


def _calls(job: Job, chance: random.Random) -> Iterator[list[str]]:
    if job["again"]:
        yield job["again"]
    number = job["first"]
    while True:
        count = job.get("size") or chance.choice((1, 1, 2, 5))
        yield [f"m{n}" for n in range(number, number + count)]
        number += count


async def begin(job: Job) -> None:
    """Open a file for the first time, and record into it."""
    ready()
    async with open_memory(job) as memory:
        await memory.session(KEY).record(said(["m1"]))
        Log(job["log"]).write("ok", "m1")


async def hold(job: Job) -> None:
    """Take the session, and never come back from the model."""
    async with open_memory(job | {"model_seconds": 60}) as memory:
        ready()
        await memory.session(KEY).record(said([f"m{n}" for n in range(30)]))
        await asyncio.sleep(60)


async def share(job: Job) -> None:
    """Record a number of messages beside other writers, with notes taken in the background."""
    async with open_memory(job) as memory:
        session = memory.session(KEY)
        ready()
        idents = [f"{job['name']}-{n}" for n in range(job["count"])]
        for call in [idents] if job.get("at_once") else [[i] for i in idents]:
            await session.record(said(call))
            await asyncio.sleep(job.get("pause", 0))
        # Another writer may hold the session for as long as its own notes take.
        while await memory.background.tick():
            await memory.background.flush()
            await asyncio.sleep(0.02)


async def starve(job: Job) -> None:
    """Run out of room for files, then get it back."""
    log = Log(job["log"])
    async with open_memory(job) as memory:
        session = memory.session(KEY)
        await session.record(said(["m1", "m2"]))
        ready()
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(job["path"] + "-wal").st_size + 20_000, most))
        log.write("failed", json.dumps(await _record_until_it_fails(session)))
        context = await session.context(system="You are helpful.")
        log.write("shown", json.dumps([m.id for m in await session.messages()]))
        assert context.messages
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        await session.record(said(["after"]))
        await session.settle()


async def _record_until_it_fails(session: onlooker.Session) -> list[str]:
    """Ids of what was recorded, and the error that ended it."""
    done: list[str] = []
    for n in range(200):
        idents = [f"s{n}-{i}" for i in range(5)]
        try:
            await session.record(said(idents))
        except onlooker.StoreError as error:
            return [*done, str(error)]
        done += idents
    raise AssertionError("there was room for everything")


async def open_forbidden(job: Job) -> None:
    """Open a file that may not be written, as someone whom permissions bind."""
    log, forbidden = Log(job["log"]), open_memory(job)
    # What is read at first use, before the right to read it is given up.
    with tempfile.TemporaryDirectory() as folder:
        async with onlooker.open_memory(f"{folder}/memory.db") as memory:
            await memory.session(KEY).record(said(["m1"]))
    ready()
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        async with forbidden:
            await forbidden.session(KEY).record(said(["m2"]))
    except onlooker.StoreError as error:
        log.write("failed", str(error))


# ------------------------------------------------------------------------------------ forking


Task = Callable[[Job], Coroutine[Any, Any, None]]

JOBS: dict[str, Task] = {job.__name__: job for job in (talk, begin, hold, share, starve, open_forbidden)}
LONGEST = 50.0


def main(jobs: dict[str, Task] = JOBS, longest: float = LONGEST) -> None:
    for line in sys.stdin:
        job: Job = json.loads(line)
        if "wait" in job:
            _, status = os.waitpid(job["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
        elif os.fork() == 0:
            _run(jobs[job["job"]], job, longest)


def _run(task: Task, job: Job, longest: float) -> None:
    """Do the job and end the process, whatever happens: a fork must not go on reading jobs."""
    code = 1
    try:
        asyncio.run(asyncio.wait_for(task(job), longest))
        code = 0
    except BaseException:  # noqa: BLE001 - it is printed, and the exit code tells the parent
        traceback.print_exc()
        ready()  # the parent may still be waiting for it
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
