"""What a command prints: tables for people, JSON for scripts, and errors with an exit code.

Results go to stdout, everything else to stderr. Colour only on a terminal. In a pipe, lines are as long as
they need to be, unless COLUMNS gives a width.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import IO, Annotated, Any

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onlooker.domain.frozen import frozen
from onlooker.policy.text import count as count  # the commands take it from here

# One object as `--json` prints it. The keys are documented and stay.
View = dict[str, Any]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


# ------------------------------------------------------------------------------------ errors


class CommandError(Exception):
    """Ends the command with a message on stderr: something is missing, was declined, or failed."""

    exit_code = 1


class UsageError(CommandError):
    """An argument or a setting is invalid."""

    exit_code = 2


# ------------------------------------------------------------------------------------ text

_CONTROLS = {c: None for c in (*range(32), *range(127, 160)) if chr(c) not in "\n\t"}


def printable(text: str) -> str:
    """Remove control characters: a conversation must not steer the terminal that shows it."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)


def iso(at: datetime | None) -> str | None:
    """Format a time for JSON."""
    return at.isoformat() if at else None


def minute(at: datetime | str | None) -> str:
    """Format a time to the minute, for a table."""
    text = at.isoformat() if isinstance(at, datetime) else at
    return text[:16].replace("T", " ") if text else "-"


# ------------------------------------------------------------------------------------ the screen

# The width of a pipe, which has none.
UNBOUNDED = 100_000
# A column of text narrower than this is hard to read: rows are then stacked.
MIN_TEXT = 36


@frozen
class Column:
    """A column of a table. A text column takes the remaining width and wraps."""

    title: str
    right: bool = False
    text: bool = False


@frozen
class Screen:
    """Where a command prints: results on `out`, everything else on `err`."""

    out: Console
    err: Console
    quiet: bool = False

    @classmethod
    def of_process(cls, *, quiet: bool = False, no_color: bool = False) -> Screen:
        """Make the screen of this process from its streams and environment."""
        plain = no_color or bool(os.environ.get("NO_COLOR"))
        return cls(_console(sys.stdout, plain), _console(sys.stderr, plain), quiet)

    @property
    def is_live(self) -> bool:
        """Whether stderr is a terminal, so that progress is worth showing."""
        return self.err.is_terminal and not self.quiet

    @property
    def can_draw(self) -> bool:
        """Whether stdout takes more than ASCII."""
        return self.out.encoding.lower().startswith("utf")

    # -- results

    def text(self, text: str) -> None:
        """Print a text unchanged: not wrapped, cut or coloured."""
        shown = printable(text) if self.out.is_terminal else text
        self.out.file.write(shown if shown.endswith("\n") else shown + "\n")
        self.out.file.flush()

    def json(self, document: object) -> None:
        """Print one JSON document."""
        text = json.dumps(document, indent=2, ensure_ascii=False)
        try:
            text.encode(self.out.encoding)
        except UnicodeEncodeError:
            text = json.dumps(document, indent=2)
        self.out.file.write(text + "\n")
        self.out.file.flush()

    def show(self, *things: RenderableType) -> None:
        """Print Rich renderables; outside a terminal without trailing spaces."""
        if self.out.is_terminal:
            self.out.print(*things, sep="\n")
            return
        with self.out.capture() as captured:
            self.out.print(*things, sep="\n")
        self.text("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print rows side by side if the width allows, otherwise stacked."""
        clean = [[printable(cell) for cell in row] for row in rows]
        fits = _width_needed(columns, clean) <= self.out.width
        self.show(_table(columns, clean, self.out) if fits else _stacked(columns, clean))

    def results(
        self,
        views: Sequence[View],
        as_json: bool,
        columns: Sequence[Column],
        row: Callable[[View], Sequence[str]],
        *,
        empty: str,
    ) -> None:
        """Print a list: as JSON, as a table, or the sentence for an empty list."""
        if as_json:
            self.json(views)
        elif views:
            self.table(columns, [row(view) for view in views])
        else:
            self.say(empty)

    def result(self, view: View, as_json: bool, sentence: str) -> None:
        """Print what a command did: as JSON, or as a sentence on stderr."""
        if as_json:
            self.json(view)
        else:
            self.say(sentence)

    # -- everything else

    def say(self, text: str) -> None:
        """Print a remark on stderr, unless --quiet is given."""
        if not self.quiet:
            self._print_aside(text)

    def error(self, text: str) -> None:
        """Print an error on stderr."""
        self._print_aside(f"onlooker: {text}")

    def _print_aside(self, text: str) -> None:
        self.err.file.write(printable(text) + "\n")
        self.err.file.flush()

    def ask(self, question: str) -> str | None:
        """Ask and return the answer, or None at the end of input."""
        self.err.file.write(printable(question))
        self.err.file.flush()
        # A process may be started with its standard input closed.
        line = sys.stdin.readline() if sys.stdin is not None else ""  # pyright: ignore[reportUnnecessaryComparison]
        if not line:
            self.err.file.write("\n")
            return None
        return line.strip()

    def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question. The end of input means no."""
        return (self.ask(f"{question} [y/N] ") or "").lower() in ("y", "yes")


def _console(stream: IO[str], plain: bool) -> Console:
    width: int | None = None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        width = int(columns)
    elif not stream.isatty():
        width = UNBOUNDED
    return Console(
        file=stream,
        width=width,
        color_system=None if plain or not stream.isatty() else "auto",
        force_terminal=stream.isatty(),
        highlight=False,
        markup=False,
        emoji=False,
    )


# ------------------------------------------------------------------------------------ tables


def _width_needed(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """The width that the rows need side by side."""
    total = 0
    for place, column in enumerate(columns):
        widest = max((len(line) for row in rows for line in row[place].splitlines()), default=0)
        widest = max(widest, len(column.title))
        total += 2 + (min(widest, MIN_TEXT) if column.text else widest)
    return total


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]], console: Console) -> Table:
    drawn = box.SIMPLE_HEAD if console.is_terminal else None
    table = Table(box=drawn, pad_edge=False, padding=(0, 1), header_style="bold")
    for column in columns:
        justify: Any = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, no_wrap=not column.text, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _stacked(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> RenderableType:
    """Show each row below the other, with its first cell as a heading and a text at its end."""
    has_text = any(c.text for c in columns)
    parts: list[RenderableType] = []
    for row in rows:
        cells = list(zip(columns, row, strict=True))
        if parts and has_text:
            parts.append(Text(""))
        parts.append(Text(cells[0][1], style="bold", overflow="fold"))
        short = [f"{c.title}: {cell}" for c, cell in cells[1:] if not c.text]
        lines = ["; ".join(short)] if has_text else short
        lines += [cell for c, cell in cells[1:] if c.text]
        parts.append(Padding(Text("\n".join(lines), overflow="fold"), (0, 0, 0, 2)))
    return Group(*parts)
