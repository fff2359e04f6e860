"""`demo`: replay nine days of a conversation and show what is remembered."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
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
from onlooker.cli.replay import ReplayClock, replay_messages
from onlooker.cli.screen import Json, Screen, UsageError, View, count, iso, printable
from onlooker.cli.target import database_path
from onlooker.domain.events import Event, Noted, Reflected
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, Progress, State
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.cost import shared_prefix
from onlooker.policy.intake import intake_all
from onlooker.policy.render import Context
from onlooker.policy.tokens import Estimator
from onlooker.wiring import open_memory

SESSION = "demo"
OWNER = "ana"
SYSTEM = "You are Ana's assistant. Be brief and exact."
BUDGET = 8000
# Without a terminal, a progress line is printed after this many messages.
LINE_EVERY = 50
# How many lines of the memory are shown without --full.
SCREENFUL = 24
MAX_WIDTH = 100
# How many of Ana's earliest facts are shown.
FIRST_SHOWN = 3
# What Ana asks in the end, and the words that answer it, which she said on the first day.
QUESTION = "What do we never do on Fridays?"
ANSWER = "we never deploy on Fridays"

CODE = """\
import onlooker.blocking
session = onlooker.blocking.open_memory("agent.db").session("me", owner="ana")
print(session.prepare([{"role": "user", "content": "I moved to Oslo"}], budget=16_000).openai())
"""


async def demo(
    screen: Screen,
    budget: Annotated[
        int, typer.Option("--budget", "-b", min=1000, metavar="TOKENS", help="The limit of a context.")
    ] = BUDGET,
    full: Annotated[bool, typer.Option("--full", help="Show the whole memory.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="PATH", help="Keep the database in this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Watch a long conversation shrink into dated notes.

    Nine days of a conversation with Ana, who moves house and runs a web service: what was said, what the
    agent would have received at each turn, and what is remembered at the end. Needs no key and no network.
    """
    if keep is not None and database_path(str(keep)).exists():
        raise UsageError(f"{keep} exists: name a new file")
    if not as_json:
        said = len(bundled.conversation())
        prompt = f"{said} messages in nine days, and a prompt of at most {budget:,} tokens."
        screen.show(Text(f"{prompt}\nWhat does Ana's assistant still know in the end?", overflow="fold"))
    started = time.perf_counter()
    quiet = Screen(screen.out, screen.err, screen.quiet or as_json)
    with _database(keep) as path:
        figures, final, report = await _replay(quiet, path, budget)
    report["seconds"] = round(time.perf_counter() - started, 2)
    if as_json:
        screen.json(report)
        return
    _print_result(screen, figures, final, report, full=full)
    if keep is not None:
        screen.text(f"\nThe database is {keep}: try `onlooker list --db {keep}`.")
    screen.text(f"\nIn your own program, in three lines:\n\n{CODE}")


@contextmanager
def _database(keep: Path | None) -> Generator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="onlooker-demo-") as folder:
        yield Path(folder) / "demo.db"


async def _replay(screen: Screen, path: Path, budget: int) -> tuple[Figures, Context, View]:
    messages = intake_all(bundled.conversation(), at=datetime.now(UTC), tz=UTC)
    clock = ReplayClock(messages)
    async with open_memory(path, budget=budget, clock=clock) as memory:
        session = memory.session(SESSION, owner=OWNER)
        figures = Figures(memory.counting.estimator)
        async with _watch(screen, memory, figures, len(messages)) as view:
            async for turn in replay_messages(memory, session, clock, messages, SYSTEM):
                figures.add_message(turn.message)
                if turn.context:
                    figures.add_context(turn.context, clock.now())
                view.show_turn(turn.number, clock.now())
        final = await session.context(system=SYSTEM)
        figures.add_context(final, clock.now())
        report = await _report(session, figures, final)
        asked = await session.context(system=SYSTEM, question=QUESTION)
        return figures, final, report | {"asked": _asked(asked, messages)}


async def _report(session: Session, figures: Figures, final: Context) -> View:
    state = await session.history.state() or State(Progress(session.id))
    messages = await session.messages(archived=True)
    values = bundled.facts().values
    text = final.text()
    kept = [value for value in values if value.value in text]
    said_at = {m.id: m.at for m in messages if m.role == "user"}
    earliest = [value for value in kept if value.message in said_at][:FIRST_SHOWN]
    return {
        "messages": len(messages),
        "messages_lost": _count_lost(messages, state) + final.stats.left_out_messages,
        "contexts": len(figures.points),
        "budget": final.stats.budget,
        "raw_tokens": figures.raw,
        "context_tokens": figures.context,
        "most_context_tokens": max(p.context for p in figures.points),
        "compression": round(figures.compression, 2),
        "prefix_reuse": round(figures.prefix_reuse, 3),
        "values": len(values),
        "values_kept": len(kept),
        "first_kept": [asdict(value) | {"at": iso(said_at[value.message])} for value in earliest],
        "observations": len(state.observations),
        "reflections": len(state.reflections),
    }


def _asked(context: Context, messages: Sequence[Message]) -> View:
    """A question, and the line of its prompt that has the answer."""
    said_at = next(m.at for m in messages if ANSWER in m.text)
    line = next((line for line in context.text().splitlines() if ANSWER in line), "")
    return {"question": QUESTION, "line": line, "said_at": iso(said_at), "tokens": context.stats.total}


def _count_lost(messages: Sequence[Message], state: State) -> int:
    """Count messages that are neither in the tail nor covered by an active note."""
    covered = {seq for note in state.active for seq in range(note.first, note.last + 1)}
    return sum(m.seq < state.progress.tail_start and m.seq not in covered for m in messages)


# ------------------------------------------------------------------------------------ figures


@frozen
class Point:
    """The raw tokens and the context tokens on a day."""

    day: str
    raw: int
    context: int


@dataclass(slots=True)
class Figures:
    """What the replay measures."""

    estimator: Estimator
    raw: int = 0
    context: int = 0
    points: list[Point] = field(default_factory=list[Point])
    _prompt: str = ""
    _sent: int = 0
    _reused: int = 0

    def add_message(self, message: Message) -> None:
        self.raw += self.estimator.message(message)

    def add_context(self, context: Context, at: datetime) -> None:
        """Count a prompt, and how much of it a provider would have in its cache."""
        prompt = "\n".join(json.dumps(m, ensure_ascii=False) for m in context.openai())
        if self._prompt:
            self._sent += self.estimator.text(prompt)
            self._reused += self.estimator.text(prompt[: shared_prefix(self._prompt, prompt)])
        self._prompt = prompt
        self.context = context.stats.total
        self.points.append(Point(f"{at:%Y-%m-%d}", self.raw, self.context))

    @property
    def prefix_reuse(self) -> float:
        """The share of all prompt tokens that repeat the beginning of the previous prompt, byte for byte."""
        return self._reused / self._sent if self._sent else 0.0

    @property
    def compression(self) -> float:
        return self.raw / self.context if self.context else 1.0


# ------------------------------------------------------------------------------------ while it runs


class LiveView:
    """The replay as it runs: redrawn on a terminal, in plain lines elsewhere."""

    def __init__(self, screen: Screen, figures: Figures, total: int) -> None:
        self._screen = screen
        self._figures = figures
        self._total = total
        self._number = 0
        self._day = ""
        self._observations = 0
        self._reflections = 0
        self._last_line = ""
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._screen.is_live and self._screen.out.is_terminal:
            self._live = Live(console=self._screen.out, transient=True, get_renderable=self._draw)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show_turn(self, number: int, at: datetime) -> None:
        """Show that a message is recorded."""
        self._number, self._day = number, f"{at:%Y-%m-%d}"
        if self._live is None and (number % LINE_EVERY == 0 or number == self._total):
            self._screen.say(
                f"{self._day}  {number}/{self._total} messages  raw {self._figures.raw:,}  "
                f"context {self._figures.context:,}  notes {self._observations + self._reflections}"
            )

    def show_note(self, note: Note) -> None:
        """Show that a note is written."""
        if note.generation:
            self._reflections += 1
        else:
            self._observations += 1
        lines = [line for line in note.text.splitlines() if not line.startswith("#")]
        self._last_line = printable(lines[-1]) if lines else self._last_line

    def _draw(self) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        rows.add_row("messages", f"{self._number} of {self._total}   {self._day}")
        rows.add_row("raw tokens", f"{self._figures.raw:,}")
        rows.add_row("context tokens", f"{self._figures.context:,}")
        rows.add_row("notes", _notes(self._observations, self._reflections))
        last = Text(f"last line  {self._last_line}", style="dim", no_wrap=True, overflow="ellipsis")
        bar = Table.grid()
        width = min(MAX_WIDTH, self._screen.out.width)
        bar.add_row(ProgressBar(total=self._total, completed=self._number, width=width))
        return Group(bar, rows, last)


@asynccontextmanager
async def _watch(screen: Screen, memory: Memory, figures: Figures, total: int) -> AsyncGenerator[LiveView]:
    """Show the replay and each new note."""
    view = LiveView(screen, figures, total)

    def show(event: Event) -> None:
        if isinstance(event, Noted | Reflected):
            view.show_note(event.note)

    unsubscribe = memory.subscribe(show)
    try:
        with view:
            yield view
    finally:
        unsubscribe()


# ------------------------------------------------------------------------------------ the result


def _print_result(screen: Screen, figures: Figures, final: Context, report: View, *, full: bool) -> None:
    width = min(MAX_WIDTH, screen.out.width)
    ink = DRAWN if screen.can_draw else ASCII
    if first := report["first_kept"]:
        values = ", ".join(f"{value['what']} ({value['value']})" for value in first)
        since = first[0]["at"][:10]
        screen.show(Text(f"\nSince {since} it knows {values}.", overflow="fold"))
    _print_heading(screen, "What was said, and what the agent received")
    screen.show(Text(plot(figures.points, width=width, height=12, ink=ink), overflow="crop", no_wrap=True))
    _print_heading(screen, "The memory at the end")
    screen.show(Text(printable(final.memory if full else _shorten(final.memory)), overflow="fold"))
    _print_heading(screen, "In figures")
    screen.show(_figures_table(report))
    asked = report["asked"]
    _print_heading(screen, "And what if Ana asks now?")
    prompt = f"The prompt that her assistant gets then, {asked['tokens']:,} tokens,"
    answer = f"has the answer, from {asked['said_at'][:10]}:" if asked["line"] else "has no answer."
    lines = (f'"{asked["question"]}"', "", f"{prompt} {answer}", f"    {asked['line']}".rstrip())
    screen.show(Text(printable("\n".join(lines)), overflow="fold"))


def _print_heading(screen: Screen, title: str) -> None:
    screen.show(Text(f"\n{title}\n", style="bold"))


def _shorten(memory: str) -> str:
    lines = memory.splitlines()
    if len(lines) <= SCREENFUL:
        return memory
    half = SCREENFUL // 2
    between = f"    ... {len(lines) - 2 * half} more lines (--full shows them) ..."
    return "\n".join([*lines[:half], "", between, "", *lines[-half:]])


def _notes(observations: int, reflections: int) -> str:
    return f"{count(observations, 'observation')}, {count(reflections, 'reflection')}"


def _figures_table(report: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    kept = report["values_kept"] / report["values"]
    for name, value in (
        ("messages", f"{report['messages']:,}, {report['messages_lost']} lost"),
        ("raw tokens", f"{report['raw_tokens']:,}"),
        ("context tokens", f"{report['context_tokens']:,} (budget {report['budget']:,})"),
        ("compression", f"{report['compression']:.1f}x"),
        ("prefix reuse", f"{report['prefix_reuse']:.0%} of prompt tokens"),
        ("exact values kept", f"{report['values_kept']} of {report['values']} ({kept:.0%})"),
        ("notes", _notes(report["observations"], report["reflections"])),
        ("time", f"{report['seconds']:.1f} s for {report['contexts']} contexts"),
    ):
        table.add_row(Text(name), Text(value))
    return table


# ------------------------------------------------------------------------------------ the plot


@frozen
class Ink:
    """The characters of a plot."""

    raw: str
    context: str
    corner: str
    side: str
    floor: str


DRAWN = Ink(raw="░", context="█", corner="└", side="│", floor="─")
ASCII = Ink(raw=".", context="#", corner="+", side="|", floor="-")


def plot(points: Sequence[Point], *, width: int, height: int, ink: Ink) -> str:
    """Plot raw tokens as a light area and context tokens as a dark one in front of it."""
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
    lines.append(" " * (margin + 2) + _day_labels(columns))
    lines.append(f"{' ' * margin}  {ink.raw} raw tokens   {ink.context} context tokens")
    return "\n".join(lines)


def _cell(point: Point, row: int, top: int, height: int, ink: Ink) -> str:
    # A cell is filled if the value reaches its middle. The lowest row shows every value above 0.
    middle = top * (row - 0.5) / height
    if point.context >= middle or (row == 1 and point.context):
        return ink.context
    return ink.raw if point.raw >= middle else " "


def _short(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)


def _day_labels(columns: Sequence[Point]) -> str:
    """Label each day under its first column, if there is room."""
    line = ""
    day = ""
    for place, point in enumerate(columns):
        label = point.day[5:]
        free = not line or place > len(line)
        if point.day != day and free and place + len(label) <= len(columns):
            line = line.ljust(place) + label
        day = point.day
    return line
