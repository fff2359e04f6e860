"""What memory costs a turn, beside what the machine costs: `python bench/overhead.py [--quick | --check]`.

Times are shown in milliseconds; goals are ratios to what the same run measured of the machine in between:
an append with its sync, a bare SQLite commit, and a piece of work that takes a millisecond on a quiet
machine. So another program on the machine changes the times and not the verdicts. `--check` fails if a limit
does not hold: what was reached, and about half more for what a busy machine adds.
"""

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
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import onlooker
from _figures import Figure, head, resident, scratch, show
from _profile import Profile
from _talk import QuickModel, Stopwatch, Talk, cpu_seconds
from onlooker.ports import Model

SYSTEM = "You are a helpful assistant."
# What recall adds depends on the words that people use, of which there are few here: bench/recall.py has it.
SETTINGS = onlooker.Settings(recall="off")
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
    rounds: int
    noted: int
    session: int


WHOLE = Sizes(1000, (10, 1000, 100_000), 200, (10, 1000, 10_000), 100, 9, 60, 10_000)
CHECK = Sizes(400, (10, 500, 2000), 40, (10, 500, 5000), 40, 5, 20, 3000)
QUICK = Sizes(200, (10, 500, 2000), 60, (10, 500, 1000), 40, 3, 10, 1000)

# What was reached, and about half more, since several other programs on two cores add up to a third.
LIMITS = {
    "p50": 1.8,
    "p99": 15.0,
    "bare": 10.0,
    "cpu": 3.0,
    "growth": 1.8,
    "histories": 2.8,
    "at once": 750.0,
    "note": 22.0,
    "import": 0.5,
    "use": 3.6,
    "hook": 150.0,
    "answer": 300.0,
    "resident": 64.0,
    "thirds": 2.0,
}


# ------------------------------------------------------------------------------------ the machine


def piece() -> int:
    """Work of the kind that a memory does, the same each time: a millisecond on a quiet machine."""
    said = [{"id": f"onl_{n:08x}", "text": f"moved to Oslo, order 88-{n}", "tokens": n} for n in range(415)]
    lengths: dict[str, int] = {}
    for message in json.loads(json.dumps(said)):
        for word in message["text"].split():
            lengths[word] = lengths.get(word, 0) + len(word)
    return sum(sorted(lengths.values())[-3:])


def a_piece() -> float:
    """The CPU seconds of a piece of work as the machine is now: with another program on the same core, all
    work takes more of them."""
    took: list[float] = []
    for _ in range(TOGETHER):
        began = time.thread_time()
        piece()
        took.append(time.thread_time() - began)
    return median(took)


class Machine:
    """What the same texts cost without any memory: in a file, in a bare table, and a piece of work each."""

    def __init__(self, folder: Path) -> None:
        self.appending, self.inserting, self.working = Stopwatch(), Stopwatch(), Stopwatch()
        self.cpu = self._pieces = 0.0
        self._file = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._db = sqlite3.connect(folder / "bare.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, text TEXT)")

    def write(self, texts: Sequence[str]) -> None:
        """So many texts, first one way, then the other, then the work."""
        began = time.thread_time()
        for text in texts:
            with self.appending:
                os.write(self._file, text.encode())
                os.fsync(self._file)
        for text in texts:
            with self.inserting:
                self._db.execute("INSERT INTO messages (text) VALUES (?)", (text,))
        between = time.thread_time()
        for _ in texts:
            with self.working:
                piece()
        ended = time.thread_time()
        self.cpu += ended - began
        self._pieces += ended - between

    @property
    def piece(self) -> float:
        """The CPU time of a piece of work on average, in milliseconds: of this thread alone, since the model
        may be writing in another."""
        return self._pieces / len(self.working.seconds) * 1000

    def close(self) -> None:
        os.close(self._file)
        self._db.close()


# ------------------------------------------------------------------------------------ turns


async def turns(folder: Path, sizes: Sizes) -> list[Figure]:
    """Record and context, turn by turn, with notes taken by the built-in model in the background."""
    await talk_on(folder / "before.db", Talk(), 200)  # importing is measured elsewhere
    turn, record, context = Stopwatch(), Stopwatch(), Stopwatch()
    machine = Machine(folder)
    began = cpu_seconds()
    talk = Talk()
    async with onlooker.open_memory(folder / "turns.db", settings=SETTINGS) as memory:
        session = memory.session("bench")
        for _ in range(0, sizes.turns, TOGETHER):
            messages = talk.many(TOGETHER)
            for message in messages:
                with turn:
                    with record:
                        await session.record(message)
                    with context:
                        await session.context(system=SYSTEM)
            machine.write([m.text for m in messages])
        await memory.background.flush()
        notes = len(await session.notes(statuses=("active", "superseded", "buffered")))
    if not notes:
        raise SystemExit("no notes were taken in the background: these would be figures of something else")
    cpu = (cpu_seconds() - began - machine.cpu) / sizes.turns * 1000
    machine.close()
    sync, bare, work = machine.appending.timed, machine.inserting.timed, machine.working.timed
    whole, own, one = turn.timed, turn.own, machine.piece
    bare_cpu = median(machine.appending.cpus) + median(machine.inserting.cpus)
    turn_cpu = median(turn.cpus)
    return [
        Figure(f"record + context, p50 of {sizes.turns} turns", whole.p50, "ms"),
        Figure("record + context, p99", whole.p99, "ms"),
        Figure("  record, p50", record.timed.p50, "ms"),
        Figure("  context, p50", context.timed.p50, "ms"),
        Figure("append + fsync of the same text, p50", sync.p50, "ms"),
        Figure("append + fsync, p99", sync.p99, "ms"),
        Figure("bare SQLite insert + commit, p50", bare.p50, "ms"),
        Figure("a piece of work, p50", work.p50, "ms"),
        Figure("on top of the disk's sync, p50", whole.p50 - sync.p50, "ms"),
        Figure("on top of a bare SQLite commit, p50", whole.p50 - bare.p50, "ms"),
        Figure("p50 against a bare SQLite commit", whole.p50 / bare.p50, "×"),
        Figure("p50 against a sync and a piece of work", whole.p50 / (sync.p50 + work.p50), "×"),
        Figure("the process's own part of a turn, p50", own.p50, "ms"),
        Figure("  against a piece of work", own.p50 / one, "×", 1.0, limit=LIMITS["p50"]),
        Figure("the process's own part of a turn, p99", own.p99, "ms"),
        Figure("  against a piece of work", own.p99 / one, "×", 7.5, limit=LIMITS["p99"]),
        Figure("CPU of a turn, p50", turn_cpu * 1000, "ms"),
        Figure("  against a bare commit and a bare append", turn_cpu / bare_cpu, "×", limit=LIMITS["bare"]),
        Figure(f"CPU per turn, {notes} notes included", cpu, "ms"),
        Figure("  against a piece of work", cpu / one, "×", 2.0, limit=LIMITS["cpu"]),
    ]


async def talk_on(path: Path, talk: Talk, count: int, model: Model | None = None) -> None:
    """Turns as an agent makes them, and the notes that become due."""
    async with onlooker.open_memory(path, model=model, settings=SETTINGS) as memory:
        session = memory.session("bench")
        for _ in range(count):
            await session.record(talk.next())
            await session.context(system=SYSTEM)
        await memory.background.flush()


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
        talk, settings = Talk(), SETTINGS
        # All but the last messages in large notes, which those of the usual size then displace.
        early = max(0, self.count - 5000)
        for count, chunk in ((early, 20_000), (self.count - early, settings.chunk_tokens)):
            large = replace(settings, chunk_tokens=chunk)
            async with onlooker.open_memory(self.path, model=QuickModel(), settings=large) as memory:
                for start in range(0, count, 250):
                    await memory.session(key).record(talk.many(min(250, count - start)))
                    await memory.background.flush()


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
    memories = [onlooker.open_memory(s.path, model=QuickModel(), settings=SETTINGS) for s in subjects]
    for turn in range(sizes.growth_turns):
        for subject, memory, watch in zip(subjects, memories, watches, strict=True):
            session, message = memory.session(subject.key(turn)), talk.next()
            with watch:
                await session.record(message)
                await session.context(system=SYSTEM)
            await memory.background.flush()
    for memory in memories:
        await memory.close()
    return _grown("record + context at {:,} messages, p50", sizes.growth, watches, LIMITS["growth"])


async def histories(folder: Path, sizes: Sizes) -> list[Figure]:
    """`prepare` with a whole history that has one more message each time, in turn about as above."""
    subjects = await _subjects(folder, sizes.histories, sizes.prepare_turns)
    watches = [Stopwatch() for _ in subjects]
    memories = [onlooker.open_memory(s.path, model=QuickModel(), settings=SETTINGS) for s in subjects]
    hosts = [Host(s, m, w) for s, m, w in zip(subjects, memories, watches, strict=True)]
    for turn in range(sizes.prepare_turns):
        for host in hosts:
            await host.hand_over(turn)
    for memory in memories:
        await memory.close()
    return [
        *_grown("prepare, one message after {:,}, p50", sizes.histories, watches, LIMITS["histories"]),
        *await _adopted(folder, sizes),
    ]


class Host:
    """Hands over its whole history in each turn."""

    def __init__(self, subject: Subject, memory: onlooker.Memory, watch: Stopwatch) -> None:
        self._subject, self._memory, self._watch = subject, memory, watch
        self._history: list[dict[str, str]] = []
        self._talk = Talk()

    async def hand_over(self, turn: int) -> None:
        session = self._memory.session(self._subject.key(turn))
        if turn % self._subject.stay == 0:
            self._talk = Talk()
            self._history = [_plain(m) for m in self._talk.many(self._subject.count)]
            await session.prepare(self._history, system=SYSTEM)
        self._history.append(_plain(self._talk.next()))
        with self._watch:
            await session.prepare(self._history, system=SYSTEM)
        await self._memory.background.flush()


async def _adopted(folder: Path, sizes: Sizes) -> list[Figure]:
    """A host that had its conversation before it had a memory."""
    taken, history = Stopwatch(), [_plain(m) for m in Talk().many(1000)]
    ratios: list[float] = []
    for n in range(sizes.rounds):
        async with onlooker.open_memory(folder / f"adopt-{n}.db", settings=SETTINGS) as memory:
            with taken:
                await memory.session("bench").prepare(history, system=SYSTEM)
        ratios.append(taken.cpus[-1] / a_piece())
    return [
        Figure("prepare, 1,000 messages at once, nothing recorded", min(taken.seconds) * 1000, "ms"),
        Figure("  its CPU against a piece of work", median(ratios), "×", 400.0, limit=LIMITS["at once"]),
    ]


def _plain(message: onlooker.Message) -> dict[str, str]:
    return {"role": message.role, "content": message.text}


def _grown(name: str, counts: Sequence[int], watches: Sequence[Stopwatch], limit: float) -> list[Figure]:
    p50 = [watch.timed.p50 for watch in watches]
    # A slow disk would hide the growth, and a busy machine blur it.
    own = [watch.own.p50 for watch in watches]
    growth = f"growth from {counts[0]} to {counts[-1]:,}"
    return [
        *(Figure(name.format(count), ms, "ms") for count, ms in zip(counts, p50, strict=True)),
        Figure(growth, p50[-1] / p50[0], "×"),
        Figure(f"growth from {counts[1]:,} to {counts[-1]:,}", p50[-1] / p50[1], "×"),
        Figure(f"{growth}, without the disk", own[-1] / own[0], "×", 2.0, limit=limit),
    ]


# ------------------------------------------------------------------------------------ notes


async def notes(folder: Path, sizes: Sizes) -> list[Figure]:
    """A worker that takes notes of sessions that became due while nobody worked, with a model that answers at
    once: what is left is reading, checking, committing and indexing."""
    per_note: list[float] = []
    pieces: list[float] = []
    for n in range(sizes.rounds):
        path, talk = folder / f"notes-{n}.db", Talk()
        async with onlooker.open_memory(path, workers="external") as memory:
            for k in range(sizes.noted):
                await memory.session(f"due-{k}").record(talk.many(100))
        async with onlooker.open_memory(path, model=QuickModel(), settings=SETTINGS) as memory:
            began = time.process_time()
            await memory.settle()
            taken = time.process_time() - began
        with closing(sqlite3.connect(path)) as db:
            per_note.append(taken / db.execute("SELECT COUNT(*) FROM notes").fetchone()[0] * 1000)
        pieces.append(a_piece() * 1000)
    # Of each the least: a busy machine only adds.
    return [
        Figure("CPU per note, a model that answers at once", min(per_note), "ms"),
        Figure("  against a piece of work", min(per_note) / min(pieces), "×", 10.0, limit=LIMITS["note"]),
    ]


# ------------------------------------------------------------------------------------ importing


FIRST_TURN = """
import asyncio, onlooker

async def turn():
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("bench")
        await session.record(onlooker.user("I moved to Oslo last week."))
        await session.context(system="You are a helpful assistant.")

asyncio.run(turn())
"""


def importing(sizes: Sizes) -> list[Figure]:
    """The CPU time of the best of several, in turn about: not what else the machine was doing."""
    starts = {
        code: list[float]()
        for code in (
            "pass",
            "import asyncio",
            "import onlooker",
            "from onlooker import open_memory",
            FIRST_TURN,
        )
    }
    # An installed package has its bytecode, so the first round, which is rarely the best, may write ours.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(sizes.rounds):
        for code, cpus in starts.items():
            began = cpu_seconds()
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            cpus.append(cpu_seconds() - began)
    python, loop, whole, used, turn = (min(cpus) * 1000 for cpus in starts.values())
    return [
        Figure("Python's own start", python, "ms"),
        Figure("import asyncio, which every async host has", loop - python, "ms"),
        Figure("import onlooker, without Python's own start", whole - python, "ms"),
        Figure("  against asyncio", (whole - python) / (loop - python), "×", 2.2, limit=LIMITS["import"]),
        Figure("import onlooker and use it, asyncio included", used - python, "ms"),
        Figure("  against asyncio", (used - python) / (loop - python), "×", 3.3, limit=LIMITS["use"]),
        Figure("the same with the first turn, in memory", turn - python, "ms"),
    ]


# ------------------------------------------------------------------------------------ hooks


def hooks(folder: Path, sizes: Sizes) -> list[Figure]:
    """What a coding agent waits for: the CPU of a whole process, from its start to its end."""
    transcript = folder / "session.jsonl"
    with transcript.open("w") as file:
        for n, said in enumerate(Talk().many(200)):
            message = {"role": said.role, "content": said.text}
            file.write(json.dumps({"type": said.role, "uuid": f"line-{n}", "message": message}) + "\n")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"HOME": str(folder)}

    def cpu(event: str, session: str, path: str) -> float:
        given = {"session_id": session, "transcript_path": path, "cwd": str(folder), "prompt": "And Oslo?"}
        command = [sys.executable, "-m", "onlooker", "hook", event, "--deadline", "60"]
        began = cpu_seconds()
        sent = json.dumps(given).encode()
        subprocess.run(command, check=True, env=environment, input=sent, capture_output=True)
        return cpu_seconds() - began

    cpu("UserPromptSubmit", "first", str(transcript))  # it records the session
    pieces, stops, answers = list[float](), list[float](), list[float]()
    for n in range(sizes.rounds):
        pieces.append(a_piece())
        stops.append(cpu("Stop", "first", str(transcript)))
        # Another session each time: the same prompt is not answered twice.
        answers.append(cpu("UserPromptSubmit", f"later-{n}", ""))
    while any(_works_in(folder / ".onlooker", process) for process in Path("/proc").glob("[0-9]*")):
        time.sleep(0.05)  # what takes notes after a hook must be done before the folder goes
    one = min(pieces)
    return [
        Figure("onlooker hook Stop, the whole process", min(stops) * 1000, "ms"),
        Figure("  against a piece of work", min(stops) / one, "×", 150.0, limit=LIMITS["hook"]),
        Figure("onlooker hook UserPromptSubmit, the whole process", min(answers) * 1000, "ms"),
        Figure("  against a piece of work", min(answers) / one, "×", 150.0, limit=LIMITS["answer"]),
    ]


def _works_in(folder: Path, process: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False


# ------------------------------------------------------------------------------------ space


def space(sizes: Sizes) -> list[Figure]:
    """Each way in a process of its own, so that nothing else is counted."""
    alone = json.loads(_itself("--rss", sizes))
    most = LIMITS["resident"]
    grown = alone["last"] / alone["middle"]
    figures = [
        Figure(
            f"resident memory, peak over {sizes.session:,} messages", alone["peak"], "MB", 60.0, limit=most
        ),
        Figure("  of which Python with onlooker imported", alone["before"], "MB"),
        Figure("CPU of the last third against that of the second", grown, "×", 1.2, limit=LIMITS["thirds"]),
    ]
    if sizes == CHECK:  # the rest says why, and is slow
        return figures
    traced = json.loads(_itself("--traced", sizes))
    return [
        *figures,
        Figure(f"Python objects, peak over {sizes.session // 4:,} (traced)", traced["peak"], "MB"),
    ]


def _itself(how: str, sizes: Sizes) -> str:
    size = {WHOLE: (), CHECK: ("--check",), QUICK: ("--quick",)}[sizes]
    command = [sys.executable, __file__, how, *size]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure_space(sizes: Sizes, *, traced: bool) -> dict[str, float]:
    before = resident()
    if traced:
        tracemalloc.start()
    with scratch() as folder:
        # Tracing makes everything several times slower.
        thirds = asyncio.run(_long_session(Path(folder), sizes.session // 4 if traced else sizes.session))
    peak = tracemalloc.get_traced_memory()[1] / 1024**2 if traced else resident()
    return {"before": before, "peak": peak, "middle": thirds[1], "last": thirds[2]}


async def _long_session(folder: Path, count: int) -> list[float]:
    """The CPU seconds of each third: the built-in model's work must not grow with what was said."""
    talk, thirds = Talk(), list[float]()
    async with onlooker.open_memory(folder / "space.db", settings=SETTINGS) as memory:
        session = memory.session("bench")
        for _ in range(3):
            began = time.process_time()
            for _ in range(0, count // 3, 10):
                await session.record(talk.many(10))
                await session.context(system=SYSTEM)
            await memory.background.flush()
            thirds.append(time.process_time() - began)
    return thirds


# ------------------------------------------------------------------------------------ where it goes


def profile(sizes: Sizes) -> None:
    """Print where the CPU time of a turn goes: first with a model that answers at once, then with the
    built-in one."""
    for name, model in (("A model that answers at once", QuickModel()), ("The built-in model", None)):
        with scratch() as place:
            folder = Path(place)
            asyncio.run(talk_on(folder / "before.db", Talk(), 200, model))  # importing is measured elsewhere
            began = cpu_seconds()
            asyncio.run(talk_on(folder / "plain.db", Talk(), sizes.turns, model))
            cpu = (cpu_seconds() - began) / sizes.turns * 1000
            with Profile() as found:
                asyncio.run(talk_on(folder / "profiled.db", Talk(), sizes.turns, model))
        print(f"{name}: {cpu:.2f} ms of CPU per turn, of {sizes.turns}")
        _shares("by what is done", found.shares(), cpu)
        _shares("by thread", found.threads(), cpu)
        _shares("the functions with the most time of their own", found.top(), cpu, count=12)


def _shares(name: str, shares: dict[str, float], cpu: float, count: int | None = None) -> None:
    print(f"  {name}")
    for what, share in list(shares.items())[:count]:
        print(f"    {what[:56]:56}{share * cpu:8.3f} ms{share:8.1%}")


# ------------------------------------------------------------------------------------ the table


def _parts(sizes: Sizes) -> dict[str, Callable[[Path], list[Figure]]]:
    return {
        "A turn": lambda folder: asyncio.run(turns(folder, sizes)),
        "Long sessions": lambda folder: asyncio.run(growth(folder, sizes)),
        "Whole histories": lambda folder: asyncio.run(histories(folder, sizes)),
        "Notes": lambda folder: asyncio.run(notes(folder, sizes)),
        "Importing": lambda _: importing(sizes),
        "Hooks": lambda folder: hooks(folder, sizes),
        "Space": lambda _: space(sizes),
    }


def table(sizes: Sizes) -> bool:
    """Print it; False when a limit did not hold."""
    failed = False
    head(limits=True)
    for name, part in _parts(sizes).items():
        with scratch() as folder:
            failed |= show(name, part(Path(folder)))
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, half a minute")
    parser.add_argument("--check", action="store_true", help="a minute; exit with 1 if a limit does not hold")
    parser.add_argument(
        "--profile", action="store_true", help="where the time of a turn goes, by what is done"
    )
    parser.add_argument("--rss", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else CHECK if arguments.check else WHOLE
    if arguments.rss or arguments.traced:
        print(json.dumps(measure_space(sizes, traced=arguments.traced)))
        return 0
    if arguments.profile:
        profile(sizes)
        return 0
    holds = table(sizes)
    return 1 if arguments.check and not holds else 0


if __name__ == "__main__":
    sys.exit(main())
