"""What memory costs a turn, beside what the disk costs: `python bench/overhead.py [--quick] [--check]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onlooker
from _figures import Figure, head, resident, scratch, show
from _talk import QuickModel, Stopwatch, Talk

SYSTEM = "You are a helpful assistant."
# Turns and bare writes take turns in such numbers: both see the same disk, and neither has to sync
# what the other has written.
TOGETHER = 20


@dataclass(frozen=True)
class Sizes:
    turns: int
    growth: tuple[int, ...]
    growth_turns: int
    histories: tuple[int, ...]
    prepare_turns: int
    imports: int
    session: int


WHOLE = Sizes(1000, (10, 1000, 100_000), 200, (10, 1000, 10_000), 100, 9, 10_000)
QUICK = Sizes(200, (10, 500, 2000), 60, (10, 500, 1000), 40, 5, 1000)


# ------------------------------------------------------------------------------------ the disk


class Disk:
    """What the same number of bytes costs without any memory: a file, and a bare table."""

    def __init__(self, folder: Path) -> None:
        self.appending, self.inserting = Stopwatch(), Stopwatch()
        self._file = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._db = sqlite3.connect(folder / "bare.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, text TEXT)")

    def write(self, texts: Sequence[str]) -> None:
        """So many texts, first one way, then the other."""
        for text in texts:
            with self.appending:
                os.write(self._file, text.encode())
                os.fsync(self._file)
        for text in texts:
            with self.inserting:
                self._db.execute("INSERT INTO messages (text) VALUES (?)", (text,))

    def close(self) -> None:
        os.close(self._file)
        self._db.close()


# ------------------------------------------------------------------------------------ turns


async def turns(folder: Path, sizes: Sizes) -> list[Figure]:
    """Record and context, turn by turn, with notes taken by the built-in model in the background."""
    talk, turn, record, context = Talk(), Stopwatch(), Stopwatch(), Stopwatch()
    disk = Disk(folder)
    began = time.process_time()
    async with onlooker.open_memory(folder / "turns.db") as memory:
        session = memory.session("bench")
        for _ in range(0, sizes.turns, TOGETHER):
            messages = talk.many(TOGETHER)
            for message in messages:
                with turn:
                    with record:
                        await session.record(message)
                    with context:
                        await session.context(system=SYSTEM)
            disk.write([m.text for m in messages])
        await memory.background.flush()
        notes = len(await session.notes(statuses=("active", "superseded", "buffered")))
    if not notes:
        raise SystemExit("no notes were taken in the background: these would be figures of something else")
    cpu = time.process_time() - began - disk.appending.cpu - disk.inserting.cpu
    disk.close()
    sync, bare = disk.appending.timed, disk.inserting.timed
    whole = turn.timed
    return [
        Figure(f"record + context, p50 of {sizes.turns} turns", whole.p50, "ms"),
        Figure("record + context, p99", whole.p99, "ms"),
        Figure("  record, p50", record.timed.p50, "ms"),
        Figure("  context, p50", context.timed.p50, "ms"),
        Figure("append + fsync of the same text, p50", sync.p50, "ms"),
        Figure("append + fsync, p99", sync.p99, "ms"),
        Figure("bare SQLite insert + commit, p50", bare.p50, "ms"),
        Figure("on top of the disk's sync, p50", whole.p50 - sync.p50, "ms", 1.0),
        Figure("on top of a bare SQLite commit, p50", whole.p50 - bare.p50, "ms"),
        Figure(f"CPU per turn, {notes} notes included", cpu / sizes.turns * 1000, "ms"),
    ]


# ------------------------------------------------------------------------------------ growth


@dataclass(frozen=True)
class Subject:
    """Settled sessions of one length. A short one would not stay short: it is left after some turns,
    and the next one taken."""

    path: Path
    count: int
    turns: int

    @property
    def stay(self) -> int:
        return max(10, self.count // 2)

    def key(self, turn: int) -> str:
        return f"bench-{turn // self.stay}"

    async def build(self) -> None:
        for turn in range(0, self.turns, self.stay):
            await self._build(self.key(turn))

    async def _build(self, key: str) -> None:
        talk, settings = Talk(), onlooker.Settings()
        # All but the last messages in large notes, which those of the usual size then displace.
        early = max(0, self.count - 5000)
        for count, chunk in ((early, 20_000), (self.count - early, settings.chunk_tokens)):
            large = replace(settings, chunk_tokens=chunk)
            async with onlooker.open_memory(self.path, model=QuickModel(), settings=large) as memory:
                for start in range(0, count, 250):
                    await memory.session(key).record(talk.many(min(250, count - start)))
                    await memory.background.flush()

    def talk(self) -> Talk:
        """What goes on from what was built."""
        talk = Talk()
        talk.many(self.count)
        return talk


async def _subjects(folder: Path, counts: Sequence[int], turns: int) -> list[Subject]:
    subjects = [Subject(folder / f"{count}.db", count, turns) for count in counts]
    for subject in subjects:
        await subject.build()
    return subjects


async def growth(folder: Path, sizes: Sizes) -> list[Figure]:
    """The same turn in sessions of different length, in turn about, so that all see the same disk."""
    subjects = await _subjects(folder, sizes.growth, sizes.growth_turns)
    watches = [Stopwatch() for _ in subjects]
    talk = Talk(2)
    memories = [onlooker.open_memory(s.path, model=QuickModel()) for s in subjects]
    for turn in range(sizes.growth_turns):
        for subject, memory, watch in zip(subjects, memories, watches, strict=True):
            session, message = memory.session(subject.key(turn)), talk.next()
            with watch:
                await session.record(message)
                await session.context(system=SYSTEM)
            await memory.background.flush()
    for memory in memories:
        await memory.close()
    return _grown("record + context at {:,} messages, p50", sizes.growth, watches)


async def histories(folder: Path, sizes: Sizes) -> list[Figure]:
    """`prepare` with a whole history that has one more message each time."""
    watches: list[Stopwatch] = []
    for subject in await _subjects(folder, sizes.histories, sizes.prepare_turns):
        watch = Stopwatch()
        async with onlooker.open_memory(subject.path, model=QuickModel()) as memory:
            for turn in range(0, subject.turns, subject.stay):
                await _hand_over(memory.session(subject.key(turn)), subject, memory, watch)
        watches.append(watch)
    return [
        *_grown("prepare, one message after {:,}, p50", sizes.histories, watches),
        Figure("prepare, 1,000 messages at once, nothing recorded", await _adopt(folder, 1000), "ms"),
    ]


async def _hand_over(
    session: onlooker.Session, subject: Subject, memory: onlooker.Memory, watch: Stopwatch
) -> None:
    history = [_plain(m) for m in Talk().many(subject.count)]
    await session.prepare(history, system=SYSTEM)
    for message in subject.talk().many(min(subject.stay, subject.turns)):
        history.append(_plain(message))
        with watch:
            await session.prepare(history, system=SYSTEM)
        await memory.background.flush()


async def _adopt(folder: Path, count: int) -> float:
    """A host that had its conversation before it had a memory."""
    watch = Stopwatch()
    async with onlooker.open_memory(folder / "adopt.db") as memory:
        with watch:
            await memory.session("bench").prepare([_plain(m) for m in Talk().many(count)], system=SYSTEM)
    return watch.seconds[0] * 1000


def _plain(message: onlooker.Message) -> dict[str, str]:
    return {"role": message.role, "content": message.text}


def _grown(name: str, counts: Sequence[int], watches: Sequence[Stopwatch]) -> list[Figure]:
    p50 = [watch.timed.p50 for watch in watches]
    growth = f"growth from {counts[0]} to {counts[-1]:,}"
    return [
        *(Figure(name.format(count), ms, "ms") for count, ms in zip(counts, p50, strict=True)),
        Figure(growth, p50[-1] / p50[0], "×", 2.0),
        Figure(f"growth from {counts[1]:,} to {counts[-1]:,}", p50[-1] / p50[1], "×"),
    ]


# ------------------------------------------------------------------------------------ importing


def importing(sizes: Sizes) -> list[Figure]:
    """The best of several: what it costs, not what else the machine was doing."""
    python = _best_start("pass", sizes.imports)
    loop = _best_start("import asyncio", sizes.imports)
    whole = _best_start("import onlooker", sizes.imports)
    used = _best_start("from onlooker import open_memory", sizes.imports)
    return [
        Figure("Python's own start", python, "ms"),
        Figure("import onlooker, without it", whole - python, "ms", 100.0),
        Figure("import onlooker and use it, without it", used - python, "ms"),
        Figure("  of which asyncio, which every async host has", loop - python, "ms"),
    ]


def _best_start(code: str, tries: int) -> float:
    watch = Stopwatch()
    for _ in range(tries):
        with watch:
            subprocess.run([sys.executable, "-c", code], check=True)
    return min(watch.seconds) * 1000


# ------------------------------------------------------------------------------------ space


def space(sizes: Sizes) -> list[Figure]:
    """Each way in a process of its own, so that nothing else is counted."""
    alone = json.loads(_itself("--rss", sizes))
    traced = json.loads(_itself("--traced", sizes))
    return [
        Figure(f"resident memory, peak over {sizes.session:,} messages", alone["peak"], "MB", 60.0),
        Figure("  of which Python with onlooker imported", alone["before"], "MB"),
        Figure(f"Python objects, peak over {sizes.session // 4:,} (traced)", traced["peak"], "MB"),
    ]


def _itself(how: str, sizes: Sizes) -> str:
    command = [sys.executable, __file__, how, *(["--quick"] if sizes == QUICK else [])]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure_space(sizes: Sizes, *, traced: bool) -> dict[str, float]:
    before = resident()
    if traced:
        tracemalloc.start()
    with scratch() as folder:
        # Tracing makes everything several times slower.
        asyncio.run(_long_session(Path(folder), sizes.session // 4 if traced else sizes.session))
    peak = tracemalloc.get_traced_memory()[1] / 1024**2 if traced else resident()
    return {"before": before, "peak": peak}


async def _long_session(folder: Path, count: int) -> None:
    talk = Talk()
    async with onlooker.open_memory(folder / "space.db") as memory:
        session = memory.session("bench")
        for _ in range(0, count, 10):
            await session.record(talk.many(10))
            await session.context(system=SYSTEM)
        await memory.background.flush()


# ------------------------------------------------------------------------------------ the table


def _parts(sizes: Sizes) -> dict[str, Callable[[Path], list[Figure]]]:
    return {
        "A turn": lambda folder: asyncio.run(turns(folder, sizes)),
        "Long sessions": lambda folder: asyncio.run(growth(folder, sizes)),
        "Whole histories": lambda folder: asyncio.run(histories(folder, sizes)),
        "Importing": lambda _: importing(sizes),
        "Space": lambda _: space(sizes),
    }


def table(sizes: Sizes) -> bool:
    """Print it; False when a goal was missed."""
    missed = False
    head()
    for name, part in _parts(sizes).items():
        with scratch() as folder:
            missed |= show(name, part(Path(folder)))
    return not missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, half a minute")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument("--rss", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else WHOLE
    if arguments.rss or arguments.traced:
        print(json.dumps(measure_space(sizes, traced=arguments.traced)))
        return 0
    met = table(sizes)
    return 1 if arguments.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
