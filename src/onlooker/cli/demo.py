"""`demo`: replay nine days of a conversation and show what is remembered."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from onlooker import demo as bundled
from onlooker.cli.replay import Replay, ReplayClock
from onlooker.cli.screen import WRONG_USE, Json, Screen, Stop, printable
from onlooker.cli.target import database_path
from onlooker.demo import Value
from onlooker.domain.events import Event, Noted, Reflected
from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, Progress, State
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.intake import intake_all
from onlooker.policy.render import Context
from onlooker.policy.tokens import Estimator
from onlooker.ports import SystemClock
from onlooker.wiring import open_memory

SESSION = "demo"
OWNER = "ana"
SYSTEM = "You are Ana's assistant. Be brief and exact."
BUDGET = 8000


@dataclass(frozen=True, slots=True)
class Result:
    """How it ended."""

    figures: Figures
    final: Context
    report: dict[str, Any]


def demo(
    screen: Screen,
    budget: Annotated[
        int, typer.Option("--budget", "-b", min=1000, metavar="TOKENS", help="The most a context may cost.")
    ] = BUDGET,
    full: Annotated[bool, typer.Option("--full", help="Show the whole memory, not a screenful.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="PATH", help="Keep the database there to look at.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay a long conversation and watch it shrink into dated notes. No key, no network.

    Nine days of Ana's, who moves house and runs a web service: what was said, what the agent would
    have received at each turn, and what is still there at the end.
    """
    if keep is not None and database_path(str(keep)).exists():
        raise Stop(f"{keep} is there already: name a file that is not", WRONG_USE)
    with _database(keep) as path:
        result = asyncio.run(
            _replay_demo(Screen(screen.out, screen.err, screen.quiet or as_json), path, budget)
        )
    if as_json:
        screen.json(result.report)
        return
    print_result(screen, result.figures, result.final, result.report, full=full)
    if keep is not None:
        screen.text(f"\nThe database is {keep}: try `onlooker list --db {keep}`.")
    screen.text(f"\nYour own, in three lines:\n\n{CODE}")


@contextmanager
def _database(keep: Path | None) -> Generator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="onlooker-demo-") as folder:
        yield Path(folder) / "demo.db"


async def _replay_demo(screen: Screen, path: Path, budget: int) -> Result:
    started = time.perf_counter()
    messages = intake_all(bundled.conversation(), at=SystemClock().now(), tz=UTC)
    clock = ReplayClock(messages)
    async with open_memory(path, budget=budget, clock=clock) as memory:
        session = memory.session(SESSION, owner=OWNER)
        figures = Figures(session.core.estimator)
        async with _watched(screen, memory, figures, len(messages)) as view:
            async for moment in Replay(memory, session, clock, SYSTEM).moments(messages):
                figures.said(moment.message)
                if moment.context:
                    figures.built(moment.context, clock.now())
                view.moment(moment.number, clock.now())
        final = await session.context(system=SYSTEM)
        figures.built(final, clock.now())
        report = await _report(session, figures, final)
    return Result(figures, final, report | {"seconds": round(time.perf_counter() - started, 2)})


async def _report(session: Session, figures: Figures, final: Context) -> dict[str, Any]:
    state = await session.history.state() or State(Progress(session.id))
    said = await session.messages(archived=True)
    values = bundled.facts().values
    return {
        "messages": len(said),
        "messages_lost": lost(said, state) + final.stats.left_out_messages,
        "contexts": len(figures.points),
        "budget": final.stats.budget,
        "raw_tokens": figures.raw,
        "context_tokens": figures.context,
        "most_context_tokens": max(p.context for p in figures.points),
        "compression": round(figures.compression, 2),
        "prefix_reuse": round(figures.prefix_reuse, 3),
        "values": len(values),
        "values_kept": kept(values, final.text()),
        "observations": len(state.observations),
        "reflections": len(state.reflections),
    }


@asynccontextmanager
async def _watched(screen: Screen, memory: Memory, figures: Figures, total: int) -> AsyncGenerator[LiveView]:
    """A view of the replay that hears of every note."""
    view = LiveView(screen, figures, total)

    def hear(event: Event) -> None:
        if isinstance(event, Noted | Reflected):
            view.noted(event.note)

    leave = memory.subscribe(hear)
    try:
        with view:
            yield view
    finally:
        leave()


# ------------------------------------------------------------------------------------ plot


@dataclass(frozen=True, slots=True)
class Point:
    """One moment: when, how much was said by then, how large the context was."""

    at: str
    raw: int
    context: int


@dataclass(frozen=True, slots=True)
class Ink:
    """What the two areas and the frame are drawn with."""

    raw: str
    context: str
    corner: str
    side: str
    floor: str


DRAWN = Ink(raw="░", context="█", corner="└", side="│", floor="─")
ASCII = Ink(raw=".", context="#", corner="+", side="|", floor="-")


def plot(points: Sequence[Point], *, width: int, height: int, ink: Ink) -> str:
    """Raw tokens as the light area, context tokens as the dark one in front of it."""
    top = max(max(p.raw, p.context) for p in points)
    labels = [_short(top * row // height) for row in range(height, 0, -1)]
    margin = max(len(label) for label in labels)
    across = max(10, width - margin - 2)
    columns = [points[place * (len(points) - 1) // max(1, across - 1)] for place in range(across)]
    lines: list[str] = []
    for row, label in zip(range(height, 0, -1), labels, strict=True):
        cells = "".join(_cell(p, row, top, height, ink) for p in columns)
        lines.append(f"{label:>{margin}} {ink.side}{cells}".rstrip())
    lines.append(f"{'0':>{margin}} {ink.corner}{ink.floor * across}")
    lines.append(" " * (margin + 2) + _dates(columns))
    lines.append(f"{' ' * margin}  {ink.raw} raw tokens   {ink.context} context tokens")
    return "\n".join(lines)


def _cell(point: Point, row: int, top: int, height: int, ink: Ink) -> str:
    # A cell is filled when the value reaches its middle; what is there at all shows in the lowest row.
    middle = top * (row - 0.5) / height
    if point.context >= middle or (row == 1 and point.context):
        return ink.context
    return ink.raw if point.raw >= middle else " "


def _short(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)


def _dates(columns: Sequence[Point]) -> str:
    """Each day under the column where it begins, where there is room for it."""
    line = ""
    day = ""
    for place, point in enumerate(columns):
        label = point.at[5:]
        free = not line or place > len(line)
        if point.at != day and free and place + len(label) <= len(columns):
            line = line.ljust(place) + label
        day = point.at
    return line


# ------------------------------------------------------------------------------------ figures


@dataclass(slots=True)
class Figures:
    """Gathered while the conversation goes on."""

    estimator: Estimator
    raw: int = 0
    context: int = 0
    points: list[Point] = field(default_factory=list[Point])
    _prompt: str = ""
    _sent: int = 0
    _reused: int = 0

    def said(self, message: Message) -> None:
        self.raw += self.estimator.message(message)

    def built(self, context: Context, at: datetime) -> None:
        """Count a prompt, and how much of it a provider's cache would have had already."""
        prompt = "\n".join(json.dumps(m, ensure_ascii=False) for m in context.openai())
        if self._prompt:
            self._sent += self.estimator.text(prompt)
            self._reused += self.estimator.text(prompt[: shared_prefix(self._prompt, prompt)])
        self._prompt = prompt
        self.context = context.stats.total
        self.points.append(Point(f"{at:%Y-%m-%d}", self.raw, self.context))

    @property
    def prefix_reuse(self) -> float:
        """Share of all prompt tokens that began as the prompt before had begun, byte for byte."""
        return self._reused / self._sent if self._sent else 0.0

    @property
    def compression(self) -> float:
        return self.raw / self.context if self.context else 1.0


def shared_prefix(a: str, b: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def kept(values: tuple[Value, ...], text: str) -> int:
    """How many of the values stand in the text, word for word."""
    return sum(v.value in text for v in values)


def lost(messages: Sequence[Message], state: State) -> int:
    """Messages that neither stand raw in the tail nor are covered by a note that is shown."""
    covered = {seq for note in state.active for seq in range(note.first, note.last + 1)}
    return sum(m.seq < state.progress.tail_start and m.seq not in covered for m in messages)


# ------------------------------------------------------------------------------------ demo screen


# Outside a terminal: a line for each so many messages.
LINE_EVERY = 50
# The memory is shown on one screen unless all of it is asked for.
SCREENFUL = 24
WIDEST = 100

CODE = """\
import onlooker.blocking
session = onlooker.blocking.open_memory("agent.db").session("me", owner="ana")
print(session.prepare([{"role": "user", "content": "I moved to Oslo"}], budget=16_000).openai())
"""


class LiveView:
    """The replay as it goes: drawn anew on a terminal, in plain lines elsewhere."""

    def __init__(self, screen: Screen, figures: Figures, total: int) -> None:
        self._screen = screen
        self._figures = figures
        self._total = total
        self._number = 0
        self._day = ""
        self._observations = 0
        self._reflections = 0
        self._last = ""
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._screen.is_live and self._screen.out.is_terminal:
            self._live = Live(console=self._screen.out, transient=True, get_renderable=self._drawn)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def moment(self, number: int, at: datetime) -> None:
        """One more message was recorded."""
        self._number, self._day = number, f"{at:%Y-%m-%d}"
        if self._live is None and (number % LINE_EVERY == 0 or number == self._total):
            self._screen.say(
                f"{self._day}  {number}/{self._total} messages  raw {self._figures.raw:,}  "
                f"context {self._figures.context:,}  notes {self._observations + self._reflections}"
            )

    def noted(self, note: Note) -> None:
        """One more note was written."""
        if note.generation:
            self._reflections += 1
        else:
            self._observations += 1
        lines = [line for line in note.text.splitlines() if not line.startswith("#")]
        self._last = printable(lines[-1]) if lines else self._last

    def _drawn(self) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        rows.add_row("messages", f"{self._number} of {self._total}   {self._day}")
        rows.add_row("raw tokens", f"{self._figures.raw:,}")
        rows.add_row("context tokens", f"{self._figures.context:,}")
        rows.add_row("notes", f"{self._observations} observations, {self._reflections} reflections")
        last = Text(f"last line  {self._last}", style="dim", no_wrap=True, overflow="ellipsis")
        bar = Table.grid()
        width = min(WIDEST, self._screen.out.width)
        bar.add_row(ProgressBar(total=self._total, completed=self._number, width=width))
        return Group(bar, rows, last)


# ------------------------------------------------------------------------------------ the result


def print_result(
    screen: Screen, figures: Figures, final: Context, report: dict[str, Any], *, full: bool
) -> None:
    """The picture, the notes, and the figures."""
    width = min(WIDEST, screen.out.width)
    ink = DRAWN if screen.can_draw else ASCII
    _heading(screen, "What was said, and what the agent received")
    screen.show(Text(plot(figures.points, width=width, height=12, ink=ink), overflow="crop", no_wrap=True))
    _heading(screen, "The memory at the end")
    screen.show(Text(printable(final.memory if full else _screenful(final.memory)), overflow="fold"))
    _heading(screen, "In figures")
    screen.show(_figures_table(report))


def _heading(screen: Screen, title: str) -> None:
    screen.show(Text(f"\n{title}\n", style="bold"))


def _screenful(memory: str) -> str:
    lines = memory.splitlines()
    if len(lines) <= SCREENFUL:
        return memory
    half = SCREENFUL // 2
    between = f"    ... {len(lines) - 2 * half} more lines (--full shows them) ..."
    return "\n".join([*lines[:half], "", between, "", *lines[-half:]])


def _figures_table(report: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    kept = report["values_kept"] / report["values"]
    notes = f"{report['observations']} observations, {report['reflections']} reflections"
    for name, value in (
        ("messages", f"{report['messages']:,}, of which lost: {report['messages_lost']}"),
        ("raw tokens", f"{report['raw_tokens']:,}"),
        ("context tokens", f"{report['context_tokens']:,} (budget {report['budget']:,})"),
        ("compression", f"{report['compression']:.1f}x"),
        ("prefix reuse", f"{report['prefix_reuse']:.0%} of prompt tokens"),
        ("exact values kept", f"{report['values_kept']} of {report['values']} ({kept:.0%})"),
        ("notes", notes),
        ("time taken", f"{report['seconds']:.1f} s for {report['contexts']} contexts"),
    ):
        table.add_row(Text(name), Text(value))
    return table
