"""Start, kill and await the processes of `crash_writer.py`, and read what they leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.acceptance.crash_writer import KEY, SETTINGS, TIMING, AheadClock

import onlooker
from onlooker.domain.notes import NoteStatus
from onlooker.testing import ScriptedModel

EVERY: tuple[NoteStatus, ...] = ("buffered", "active", "superseded", "retired")


class Forker:
    """A warm interpreter that forks a process for each job."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def start(self, job: str, path: Path, **details: Any) -> int:
        """Begin a job; return its process id once it says that it is under way."""
        log = str(log_of(path))
        self._ask({"job": job, "path": str(path), "log": log} | details)
        return self._answer()

    def wait(self, pid: int) -> int:
        """The exit code of a process that has ended or is about to."""
        self._ask({"wait": pid})
        return self._answer()

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.wait(pid)

    def _ask(self, question: dict[str, Any]) -> None:
        assert self._server.stdin
        self._server.stdin.write(json.dumps(question) + "\n")
        self._server.stdin.flush()

    def _answer(self) -> int:
        assert self._server.stdout
        return int(self._server.stdout.readline())


@contextmanager
def forking(module: str = "crash_writer") -> Generator[Forker]:
    command = [sys.executable, "-m", f"tests.acceptance.{module}"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        yield Forker(server)


def log_of(path: Path) -> Path:
    return path.with_suffix(".log")


def lines_of(path: Path, kind: str) -> list[list[str]]:
    """The whole lines of one kind that processes left for this file, as words."""
    text = log_of(path).read_text() if log_of(path).exists() else ""
    return [words for line in text.split("\n")[:-1] if (words := line.split(" "))[0] == kind]


def left_open(path: Path, since: int, begun: str, done: str) -> bool:
    """Whether, of the lines after so many bytes, the last of these two kinds says that it was begun."""
    lines = log_of(path).read_bytes()[since:].decode().split("\n")
    kinds = [line.split(" ")[0] for line in lines[:-1]]
    return next((kind for kind in reversed(kinds) if kind in (begun, done)), "") == begun


def size_of_log(path: Path) -> int:
    return log_of(path).stat().st_size if log_of(path).exists() else 0


def wait_for_call(path: Path) -> None:
    """Until a process has asked its model for the first time."""
    deadline = time.monotonic() + 120
    while not lines_of(path, "call"):
        assert time.monotonic() < deadline, "no model call"
        time.sleep(0.002)


@dataclass(frozen=True)
class Calls:
    """What was handed to `record`, call by call, and whether the last one was acknowledged."""

    tried: list[list[str]]
    acknowledged: int

    @classmethod
    def of(cls, path: Path) -> Calls:
        tried: list[list[str]] = []
        for _, *idents in lines_of(path, "try"):
            # A call that its process did not live to hear about is made again by the next one.
            if not tried or tried[-1] != idents:
                tried.append(idents)
        done = {words[-1] for words in lines_of(path, "ok")}
        return cls(tried, sum(call[-1] in done for call in tried))

    @property
    def unheard(self) -> list[str]:
        """The call that may or may not have been recorded."""
        return self.tried[-1] if len(self.tried) > self.acknowledged else []

    @property
    def next_number(self) -> int:
        return 1 + sum(map(len, self.tried))

    def expected(self, recorded: int) -> list[str]:
        """The ids that must be there, given that so many are: all that was acknowledged, and the
        unheard call whole or not at all."""
        sure = [i for call in self.tried[: self.acknowledged] for i in call]
        return sure if recorded <= len(sure) else [*sure, *self.unheard]


@asynccontextmanager
async def reading(path: Path) -> AsyncGenerator[onlooker.Session]:
    """The session as it stands, with nothing going on in the background."""
    still = replace(SETTINGS, enabled=False)
    async with onlooker.open_memory(path, settings=still) as memory:
        yield memory.session(KEY)


@asynccontextmanager
async def going_on(path: Path, *, ahead: float = 0) -> AsyncGenerator[onlooker.Session]:
    """The session in a memory that works, some seconds later."""
    memory = onlooker.open_memory(
        path, model=ScriptedModel(), settings=SETTINGS, timing=TIMING, clock=AheadClock(ahead)
    )
    async with memory:
        yield memory.session(KEY)


async def settle(session: onlooker.Session, seconds: float = 120) -> float:
    """Take every note that is due, as soon as nobody else holds the session; return when that was."""
    deadline = time.monotonic() + seconds
    while not await session.settle():
        assert time.monotonic() < deadline, "the session is still held, or its model fails"
        await asyncio.sleep(0.02)
    return time.monotonic()
