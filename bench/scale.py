"""100,000 sessions and 5 million messages: `python bench/scale.py [--store sqlite|postgres|both] [--quick]`.

What an append and a context cost in a database of that size, and how much of it is its size; how many appends
and notes it takes in a second; how much room a message needs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import onlooker
from _figures import Figure
from _filling import Said, append, fill, opened, session_id
from _places import PLACES, Place
from _talk import QuickModel, Stopwatch
from onlooker.ports import Store

SYSTEM = "You are a helpful assistant."
FOLDER = Path(".bench")
# No session ends by itself meanwhile.
SETTINGS = replace(onlooker.Settings(), idle_minutes=0)
# What must be free on the disk: for each message with its indexes and the logs, and for all.
ROOM_PER_MESSAGE, ROOM = 1_500, 1_000_000_000


@dataclass(frozen=True)
class Sizes:
    sessions: int
    messages: int
    small: int  # messages that the database has when it is measured for the first time
    turns: int
    warm: int  # sessions that these turns are about
    seconds: float  # for each number of writers
    due: int  # sessions to take notes of, for each number of workers
    due_messages: int
    workers: tuple[int, ...]

    @property
    def each(self) -> int:
        return self.messages // self.sessions


WHOLE = Sizes(100_000, 5_000_000, 50_000, 1000, 200, 8.0, 300, 250, (1, 2, 4))
QUICK = Sizes(200, 4_000, 1_000, 60, 20, 0.3, 6, 150, (1, 2))


# ------------------------------------------------------------------------------------ a turn


@dataclass(frozen=True)
class Turns:
    """What single calls took, one after the other."""

    append: Stopwatch
    load: Stopwatch
    record: Stopwatch
    context: Stopwatch
    first: Stopwatch  # contexts of sessions that were not touched before

    def figures(self) -> list[Figure]:
        named = {
            "append": self.append,
            "load": self.load,
            "record": self.record,
            "context": self.context,
            "first context of a session": self.first,
        }
        return [
            Figure(f"{name}, {cut}", getattr(watch.timed, cut), "ms")
            for name, watch in named.items()
            for cut in ("p50", "p99")
        ]


async def turns(place: Place, said: Said, sizes: Sizes, sessions: int) -> Turns:
    """Turns in sessions drawn by lot, through the store and through the whole of Onlooker."""
    chance = random.Random(sessions)
    drawn = chance.sample(range(sessions), min(sizes.warm * 2, sessions))
    warm, fresh = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    took = Turns(*(Stopwatch() for _ in range(5)))
    async with (
        opened(place) as store,
        onlooker.open_memory(place.url, model=QuickModel(), settings=SETTINGS) as memory,
    ):
        for number in fresh:
            with took.first:
                await named(memory, number).context(system=SYSTEM)
        for number in warm:
            await named(memory, number).context(system=SYSTEM)
        for number in chance.choices(warm, k=sizes.turns):
            ident, session, message = session_id(number), named(memory, number), said.next()
            with took.record:
                await session.record(onlooker.user(message.text))
            with took.context:
                await session.context(system=SYSTEM)
            with took.append:
                await append(store, ident, [message])
            with took.load:
                await store.load(ident)
    return took


def named(memory: onlooker.Memory, number: int) -> onlooker.Session:
    session = session_id(number)
    return memory.session(session.key, owner=session.owner)


def growth(before: Turns, after: Turns) -> Iterator[Figure]:
    for name in ("append", "load", "record", "context"):
        small, large = (getattr(t, name).timed.p50 for t in (before, after))
        yield Figure(f"{name}, p50 against the small database", large / small, "×", most=2.0)


# ------------------------------------------------------------------------------------ throughput


async def rate(
    seconds: float,
    writers: int,
    draw: Callable[[], int],
    turns: int,
    write: Callable[[int], Awaitable[object]],
) -> float:
    """How many messages in a second so many tasks write, each one at a time: so many to a session that it
    drew, then to another."""
    done = 0
    until = time.perf_counter() + seconds

    async def run() -> None:
        nonlocal done
        while time.perf_counter() < until:
            session = draw()
            for _ in range(turns):
                await write(session)
                done += 1

    began = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(writers)))
    return done / (time.perf_counter() - began)


def bare_rate(place: Place, seconds: float, writers: int, said: Said) -> float:
    """The same with the bare driver: so many threads, each with a connection, and a commit for each row."""
    done = [0] * writers
    texts = [m.text for m in said.many(200)]
    began = threading.Barrier(writers + 1)

    def run(number: int) -> None:
        with place.bare() as write:
            began.wait()
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                ident = f"{writers}-{number}-{done[number]}"
                write((f"{writers}-{number}", done[number], ident, "user", texts[done[number] % 200]))
                done[number] += 1

    threads = [threading.Thread(target=run, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    began.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - start)


GOALS = {("SQLite", 8): 8_000.0, ("PostgreSQL", 32): 10_000.0}


# A writer is an agent: so many messages of a conversation, then it has another.
TURNS = 20


async def throughput(place: Place, said: Said, sizes: Sizes) -> list[Figure]:
    """Durable appends in a second, to sessions drawn by lot from all."""
    found: list[Figure] = []
    chance = random.Random(7)

    def draw() -> int:
        return chance.randrange(sizes.sessions)

    for writers in (1, 8, 32):
        async with opened(place) as store:

            async def write(number: int, store: Store = store) -> None:
                await append(store, session_id(number), [said.next()])

            of_store = await rate(sizes.seconds, writers, draw, TURNS, write)
            scattered = await rate(sizes.seconds, writers, draw, 1, write)
        # With a budget that none has filled, so that no notes fall due: those are measured by themselves.
        roomy = replace(SETTINGS, budget=2_000_000)
        async with onlooker.open_memory(place.url, model=QuickModel(), settings=roomy) as memory:

            async def record(number: int, memory: onlooker.Memory = memory) -> None:
                await named(memory, number).record(onlooker.user(said.next().text))

            of_memory = await rate(sizes.seconds, writers, draw, 1, record)
        bare = await asyncio.to_thread(bare_rate, place, sizes.seconds, writers, said)
        who = f"{writers} writer{'s'[: writers > 1]}"
        found += [
            Figure(f"appends, {who}", of_store, "/s", least=GOALS.get((place.name, writers))),
            Figure(f"  each to another session, {who}", scattered, "/s"),
            Figure(f"  record, each to another session, {who}", of_memory, "/s"),
            Figure(f"  bare driver, {who}", bare, "/s"),
            Figure("  appends against the bare driver", of_store / bare, "×"),
        ]
    return found


# ------------------------------------------------------------------------------------ notes


def _take_notes(url: str, workers: str, ready: Barrier, finish: Event) -> None:
    """A process that takes notes until it is told to stop."""

    async def run() -> None:
        memory = onlooker.open_memory(url, model=QuickModel(), settings=SETTINGS, workers=workers)  # pyright: ignore
        ready.wait(120)
        async with memory:
            await asyncio.to_thread(finish.wait, 600)

    asyncio.run(run())


async def notes(place: Place, said: Said, sizes: Sizes) -> list[Figure]:
    """Notes in a second: sessions fall due while nobody works, then so many processes begin."""
    found: list[Figure] = []
    context = multiprocessing.get_context("spawn")
    for workers in sizes.workers:
        async with onlooker.open_memory(place.url, settings=SETTINGS, workers="external") as memory:
            for n in range(sizes.due):
                await memory.session(f"due-{workers}-{n}").record(said.many(sizes.due_messages))
        before = place.ask("SELECT COUNT(*) FROM notes")
        ready, finish = context.Barrier(workers + 1), context.Event()
        arguments = (place.url, place.workers, ready, finish)
        processes = [context.Process(target=_take_notes, args=arguments, daemon=True) for _ in range(workers)]
        for process in processes:
            process.start()
        await asyncio.to_thread(ready.wait, 120)
        took = await _until_nothing_is_due(place)
        finish.set()
        for process in processes:
            await asyncio.to_thread(process.join, 60)
        made = place.ask("SELECT COUNT(*) FROM notes") - before
        found.append(
            Figure(f"notes, {workers} worker{'s'[: workers > 1]}, {made:,} notes", made / took, "/s")
        )
    return found


async def _until_nothing_is_due(place: Place) -> float:
    """How many seconds that took."""
    began = time.perf_counter()
    async with opened(place) as store:
        while await store.due(datetime.now(UTC) + timedelta(days=1), limit=1):
            if time.perf_counter() - began > 600:
                raise SystemExit("the workers did not come to an end within ten minutes")
            await asyncio.sleep(0.02)
    return time.perf_counter() - began


# ------------------------------------------------------------------------------------ the table


async def measure(place: Place, sizes: Sizes) -> AsyncIterator[tuple[str, list[Figure]]]:
    """Every part of the table, as it is there."""
    said = Said()
    few = sizes.small // sizes.each
    async with opened(place) as store:
        await fill(store, said, range(few), sizes.each)
    place.rest()
    small = await turns(place, said, sizes, few)
    yield f"{sizes.small:,} messages", small.figures()
    began = time.perf_counter()
    async with opened(place) as store:
        await fill(store, said, range(few, sizes.sessions), sizes.each)
    took = time.perf_counter() - began
    place.rest()
    count, size = place.ask("SELECT COUNT(*) FROM messages"), place.size()
    yield (
        "Filling",
        [
            Figure("messages in a second, 10 at a time", (sizes.messages - sizes.small) / took, "/s"),
            Figure("on the disk, for each message", size / count, "B"),
            Figure("  of which its text", said.characters, "B"),
        ],
    )
    large = await turns(place, said, sizes, sizes.sessions)
    bounds = {"context, p50": {"SQLite": 0.5, "PostgreSQL": 2.0}[place.name]}
    figures = [replace(f, most=bounds.get(f.name)) for f in large.figures()]
    yield f"{sizes.messages:,} messages in {sizes.sessions:,} sessions", [*figures, *growth(small, large)]
    yield "Durable appends in a second", await throughput(place, said, sizes)
    yield "Notes in a second, by a model that answers at once", await notes(place, said, sizes)


async def table(name: str, folder: Path, sizes: Sizes) -> dict[str, list[Figure]]:
    """Print it, and return what was printed."""
    found: dict[str, list[Figure]] = {}
    with PLACES[name](folder) as place:
        print(f"{place.name:54}{'measured':>10} {'':3}{'goal':>12}", flush=True)
        async for part, figures in measure(place, sizes):
            found[part] = figures
            print(part)
            for figure in figures:
                print(f"  {figure}", flush=True)
    return found


def check_room(folder: Path, sizes: Sizes) -> None:
    """Refuse to begin what would not fit."""
    need, free = sizes.messages * ROOM_PER_MESSAGE + ROOM, shutil.disk_usage(folder).free
    if need > free:
        raise SystemExit(
            f"{folder.absolute()}: {sizes.messages:,} messages need {need / 1e9:.1f} GB to be measured, "
            f"and {free / 1e9:.1f} GB are free; free some, name another --folder, or fewer --messages"
        )


def _sizes(arguments: argparse.Namespace) -> Sizes:
    sizes = QUICK if arguments.quick else WHOLE
    sessions, messages = arguments.sessions or sizes.sessions, arguments.messages or sizes.messages
    if messages < sessions * 4:
        raise SystemExit("a session needs at least 4 messages: name fewer --sessions or more --messages")
    small = min(sizes.small, messages // 4)
    return replace(sizes, sessions=sessions, messages=messages, small=small)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[2].strip())
    parser.add_argument("--store", choices=(*PLACES, "both"), default="both")
    parser.add_argument("--sessions", type=int, help="how many (100,000)")
    parser.add_argument("--messages", type=int, help="how many in all of them (5,000,000)")
    parser.add_argument("--quick", action="store_true", help="small sizes, some ten seconds")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the databases are (.bench)")
    arguments = parser.parse_args()
    # A run that is ended takes its files and its server along.
    signal.signal(signal.SIGTERM, _stop)
    sizes = _sizes(arguments)
    # Beside the project, since a temporary folder may be in memory, where a sync costs nothing.
    arguments.folder.mkdir(exist_ok=True)
    check_room(arguments.folder, sizes)
    stores = list(PLACES) if arguments.store == "both" else [arguments.store]
    found = {name: asyncio.run(table(name, arguments.folder, sizes)) for name in stores}
    if arguments.json:
        arguments.json.write_text(json.dumps(_plain(found, sizes), indent=2, ensure_ascii=False) + "\n")
    missed = any(f.missed for parts in found.values() for figures in parts.values() for f in figures)
    return 1 if arguments.check and missed else 0


def _stop(*_: object) -> None:
    raise SystemExit(143)


def _plain(found: dict[str, dict[str, list[Figure]]], sizes: Sizes) -> dict[str, object]:
    stores = {
        name: {part: [asdict(f) for f in figures] for part, figures in parts.items()}
        for name, parts in found.items()
    }
    return {"sizes": asdict(sizes), "stores": stores}


if __name__ == "__main__":
    sys.exit(main())
