"""What the demo draws: the replay as it goes, and the result."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Any, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from onlooker.cli.figures import Figures
from onlooker.cli.plot import ASCII, DRAWN, plot
from onlooker.cli.screen import Screen, printable
from onlooker.domain.notes import Note
from onlooker.policy.context import Context

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
