"""What is said in the benchmarks, and how long things take."""

from __future__ import annotations

import random
import re
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

import onlooker
from onlooker.ports import ItemsRequest, ObserveRequest, Reply, Request

_WORDS = tuple(
    re.findall(
        r"\w+",
        "the order parcel harbour station invoice moved to Oslo last week deploy failed because of a missing "
        "variable in the file we set it and then it worked again customer asked about price and delivery "
        "date next Friday she prefers the blue one please send a copy to Ana before noon and tell Ben that",
    )
)


class Talk:
    """A conversation of user and assistant in turns, the same each time."""

    def __init__(self, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self._count = 0

    def next(self) -> onlooker.Message:
        """Some 25 words and a value to remember."""
        self._count += 1
        words = " ".join(self._chance.choices(_WORDS, k=self._chance.randint(10, 40)))
        say = onlooker.user if self._count % 2 else onlooker.assistant
        return say(f"{words}, order 88-{self._count}.")

    def many(self, count: int) -> list[onlooker.Message]:
        return [self.next() for _ in range(count)]


# What is said above, as a fact for other sessions. Without an answer, all messages would be read once more.
_ITEM = '{"type": "profile", "summary": "Ana prefers the blue one", "tags": ["taste"], "said_by": "user"}'


class QuickModel:
    """Answers at once with a note of the usual size, to build long sessions with."""

    name = "quick"
    window = 100_000

    async def write(self, request: Request) -> Reply:
        if isinstance(request, ItemsRequest):
            return Reply(_ITEM)
        count = max(1, request.target_tokens // 20)
        if isinstance(request, ObserveRequest):
            # Words alone: a value cut in two would be refused as one that nobody said.
            words = (re.findall(r"[a-zA-Z]+", m.text) for m in request.messages)
            lines = [f"Ana: {' '.join(w[:6])}, and {' '.join(w[-4:])}." for w in words]
        else:
            lines = [line for n in request.notes for line in n.text.splitlines() if line.startswith("Ana:")]
            lines = lines[::2]
        return Reply("\n".join(["## 2026-02-16", *lines[:count]]))


@dataclass(frozen=True)
class Timed:
    """The middle and the slow end of some durations, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timed:
        cuts = quantiles(seconds, n=100)
        return cls(cuts[49] * 1000, cuts[98] * 1000)


class Stopwatch:
    """Durations of what runs inside `with`, and the CPU time that the process took meanwhile."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpus: list[float] = []

    def __enter__(self) -> None:
        self._cpu = time.process_time()
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds.append(time.perf_counter() - self._start)
        self.cpus.append(time.process_time() - self._cpu)

    @property
    def timed(self) -> Timed:
        return Timed.of(self.seconds)

    @property
    def own(self) -> Timed:
        """What this process itself took of each: neither its waits for a disk or for other programs, nor
        what a thread of it did while another waited for the disk."""
        return Timed.of([min(both) for both in zip(self.seconds, self.cpus, strict=True)])


def cpu_seconds() -> float:
    """CPU time of this process and of those that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)
