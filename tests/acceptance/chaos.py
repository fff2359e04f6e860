"""Workers and writers on one database, killed and stopped at random; and what must hold afterwards.

One harness for every store that several processes may share. `ONLOOKER_CHAOS_SECONDS` says for how long,
`ONLOOKER_SEED` what happens; pytest prints it at its start.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.acceptance.chaos_process import SESSIONS, key_of
from tests.acceptance.crash_writer import SETTINGS, text_of
from tests.acceptance.crashing import EVERY, Forker, forking, lines_of
from tests.promises.checks import check_coverage

import onlooker

WORKERS = 3
WRITERS = 2
MAX_CALLS_PER_CHUNK = 1.10
SETTLED_WITHIN = 60.0


def length(default: float = 15.0) -> float:
    return float(os.environ.get("ONLOOKER_CHAOS_SECONDS", default))


@dataclass(slots=True)
class Process:
    """One that is kept going: what was killed is started again."""

    name: str
    job: str
    details: dict[str, Any]
    pid: int = 0
    again_at: float | None = None  # when it goes on, while it stands still or is dead


@dataclass(slots=True)
class Figures:
    """What a run came to."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter[str])
    stops: Counter[str] = field(default_factory=Counter[str])
    messages: int = 0
    chunks: int = 0
    calls: int = 0
    settled: float = 0.0

    @property
    def calls_per_chunk(self) -> float:
        return self.calls / max(1, self.chunks)

    def __str__(self) -> str:
        faults = f"kills {dict(self.kills)}, stops {dict(self.stops)}"
        return (
            f"seed {self.seed}: {faults}; {self.messages:,} messages, "
            f"{self.chunks:,} chunks, {self.calls:,} calls ({self.calls_per_chunk:.3f} per chunk), "
            f"settled {self.settled:.1f} s after the last fault"
        )


class Chaos:
    """The processes of one run."""

    def __init__(
        self, forker: Forker, folder: Path, url: str, *, workers: str, lease: float, pause: float, seed: int
    ) -> None:
        self.url = url
        self.figures = Figures(seed)
        self.path = folder / "chaos.db"
        self._forker = forker
        self._lease = lease
        self._chance = random.Random(seed)
        common = {"url": url, "lease": lease, "workers": workers, "pause": pause}
        self.workers = [Process("worker", "take_notes", common) for _ in range(WORKERS)]
        self.writers = [Process("writer", "write", common | {"name": f"w{n}"}) for n in range(WRITERS)]
        for process in self.all:
            self._start(process)

    @property
    def all(self) -> list[Process]:
        return [*self.workers, *self.writers]

    @property
    def acknowledged(self) -> int:
        """Calls of `record` so far."""
        return len(lines_of(self.path, "ok"))

    # -- faults

    def torment(self, seconds: float) -> None:
        """Kill and stop processes at random, each for its time; all of them go on in the end."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._pass(self._chance.uniform(0.3, 1.2))
            process = self._chance.choice(self.all)
            if process.again_at is None:
                self._harm(process)
        for process in self.all:
            if process.again_at is not None:
                self._go_on(process)

    def _harm(self, process: Process) -> None:
        if self._chance.random() < 0.6:
            self._kill(process)
            wait = self._chance.uniform(0, 1.5)
            self.figures.kills[process.name] += 1
        else:
            os.kill(process.pid, signal.SIGSTOP)
            # The heart beats within half a lease.
            wait = self._chance.uniform(0.6, 1.8) * self._lease
            self.figures.stops[process.name] += 1
        process.again_at = time.monotonic() + wait

    def _pass(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for process in self.all:
                if process.again_at is not None and time.monotonic() >= process.again_at:
                    self._go_on(process)
            time.sleep(0.02)

    def _go_on(self, process: Process) -> None:
        process.again_at = None
        if not process.pid:
            self._start(process)
        elif self._chance.random() < 0.2:  # killed where it stands
            self._kill(process)
            self._start(process)
        else:
            os.kill(process.pid, signal.SIGCONT)

    def _kill(self, process: Process) -> None:
        pid, process.pid = process.pid, 0
        os.kill(pid, signal.SIGKILL)
        assert self._forker.wait(pid) == -signal.SIGKILL, f"a {process.name} had ended by itself"

    def _start(self, process: Process) -> None:
        process.pid = self._forker.start(
            process.job, self.path, **process.details, seed=self._chance.random()
        )

    # -- the end

    def settle(self) -> None:
        """Let writers end what they are at, and workers what is due; then let those go as well."""
        last_fault = time.monotonic()
        self._end(self.writers)
        asyncio.run(self._settled(last_fault + SETTLED_WITHIN))
        self.figures.settled = time.monotonic() - last_fault
        self._end(self.workers)

    def _end(self, processes: list[Process]) -> None:
        for process in processes:
            os.kill(process.pid, signal.SIGTERM)
        for process in processes:
            pid, process.pid = process.pid, 0
            assert self._forker.wait(pid) == 0, f"a {process.name} failed"

    async def _settled(self, deadline: float) -> None:
        async with self._reading() as memory:
            while left := [s for s in await memory.sessions() if s.progress.due_at is not None]:
                assert time.monotonic() < deadline, f"{len(left)} not settled: {left[0].progress}"
                await asyncio.sleep(0.1)

    def kill_all(self) -> None:
        """Leave nothing behind, whatever went wrong."""
        for process in self.all:
            if process.pid:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    # -- what must hold

    def check(self) -> None:
        """Nothing lost, doubled or out of order, and hardly a call paid for twice."""
        asyncio.run(self._check())
        self.figures.calls = len(lines_of(self.path, "call"))
        assert self.figures.calls_per_chunk <= MAX_CALLS_PER_CHUNK, str(self.figures)

    async def _check(self) -> None:
        async with self._reading() as memory:
            assert len(await memory.sessions()) == SESSIONS
            for number in range(SESSIONS):
                session = memory.session(key_of(number))
                await self._check_session(session)
                notes = await session.notes(statuses=EVERY)
                self.figures.chunks += sum(note.model == "scripted" for note in notes)

    async def _check_session(self, session: onlooker.Session) -> None:
        found = await session.messages(archived=True)
        self.figures.messages += len(found)
        assert [m.seq for m in found] == list(range(1, len(found) + 1))
        assert all(m.text == text_of(m.id) for m in found)
        ids = [m.id for m in found]
        assert len(set(ids)) == len(ids), "doubled"
        for writer in self.writers:
            name = writer.details["name"]
            self._check_writer(session.key, name, [i for i in ids if i.startswith(f"{name}-")])
        await check_coverage(session)

    def _check_writer(self, key: str, name: str, found: list[str]) -> None:
        sure = self._calls("ok", key, name)
        # Nobody waited for these, and the server may have been at them still when the next was recorded.
        given_up = self._calls("given-up", key, name)
        for call in given_up:
            assert len(set(call) & set(found)) in (0, len(call)), f"{call} is half there"
        unsure = {i for call in given_up for i in call}
        said = [i for call in sure for i in call]
        kept = [i for i in found if i not in unsure]
        lost, unknown = [i for i in said if i not in kept], [i for i in kept if i not in said]
        assert kept == said, f"{key}: lost {lost}, never acknowledged {unknown}, or out of order"

    def _calls(self, kind: str, key: str, name: str) -> list[list[str]]:
        lines = lines_of(self.path, kind)
        return [idents for _, at, *idents in lines if at == key and idents[0].startswith(f"{name}-")]

    def _reading(self) -> onlooker.Memory:
        """With nothing going on in the background."""
        return onlooker.open_memory(self.url, settings=replace(SETTINGS, enabled=False))


@contextmanager
def chaos(folder: Path, url: str, *, workers: str, lease: float, pause: float = 0.03) -> Generator[Chaos]:
    """Processes at work. What they came to is checked at the end."""
    number = int(os.environ["ONLOOKER_SEED"])
    with forking("chaos_process") as forker:
        running = Chaos(forker, folder, url, workers=workers, lease=lease, pause=pause, seed=number)
        try:
            yield running
            running.settle()
            running.check()
            print(running.figures, flush=True)
        finally:
            running.kill_all()
