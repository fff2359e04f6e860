"""What is shown: tables for people, JSON for scripts, remarks and questions on the side.

Colour only on a terminal. In a pipe lines are as long as they need to be, unless COLUMNS says how
wide the reader is.
"""

from __future__ import annotations

import json
import os
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Annotated, Any

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onlooker.domain.notes import Extraction, Note, SessionSummary, State
from onlooker.engine.session import Session
from onlooker.policy.cut import tokens_of

# Exit codes: 0 is done.
NOT_THERE = 1  # what was asked for is not there, was declined, or failed
WRONG_USE = 2  # an argument or a setting cannot work


class Stop(Exception):
    """End the command with one clear line for the person, and an exit code for the script."""

    def __init__(self, message: str, code: int = NOT_THERE) -> None:
        self.code = code
        super().__init__(message)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


# A pipe has no edge.
UNBOUNDED = 100_000
# A column of text narrower than this is no pleasure to read: then one thing below the other.
LEAST_TEXT = 36

_CONTROLS = {c: None for c in (*range(32), *range(127, 160)) if chr(c) not in "\n\t"}


def printable(text: str) -> str:
    """Without control characters: a conversation must not steer the terminal that shows it."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `text` ones take what room is left and fold."""

    title: str
    right: bool = False
    text: bool = False


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a command speaks: results on `out`, everything else on `err`."""

    out: Console
    err: Console
    quiet: bool = False

    @classmethod
    def of_process(cls, *, quiet: bool = False, no_color: bool = False) -> Screen:
        """The screen of this process, as its streams and environment are now."""
        plain = no_color or bool(os.environ.get("NO_COLOR"))
        return cls(_console(sys.stdout, plain), _console(sys.stderr, plain), quiet)

    @property
    def is_live(self) -> bool:
        """Whether someone watches stderr, so that progress is worth showing."""
        return self.err.is_terminal and not self.quiet

    @property
    def can_draw(self) -> bool:
        """Whether stdout takes more than ASCII."""
        return self.out.encoding.lower().startswith("utf")

    # -- results

    def text(self, text: str) -> None:
        """Print a text as it is: nothing is folded, cut or coloured."""
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
        """Print what Rich can draw; outside a terminal without its padding."""
        if self.out.is_terminal:
            self.out.print(*things, sep="\n")
            return
        with self.out.capture() as captured:
            self.out.print(*things, sep="\n")
        self.text("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print rows side by side where the width allows, else one below the other."""
        clean = [[printable(cell) for cell in row] for row in rows]
        fits = _needed(columns, clean) <= self.out.width
        self.show(_table(columns, clean, self.out) if fits else _stacked(columns, clean))

    # -- on the side

    def say(self, text: str) -> None:
        """A remark for people, which --quiet leaves out."""
        if not self.quiet:
            self._aside(text)

    def error(self, text: str) -> None:
        """What went wrong; always said."""
        self._aside(f"onlooker: {text}")

    def _aside(self, text: str) -> None:
        self.err.file.write(printable(text) + "\n")
        self.err.file.flush()

    def ask(self, question: str) -> str | None:
        """The answer, or None at the end of input."""
        self.err.file.write(printable(question))
        self.err.file.flush()
        # A process may be started with its standard input closed.
        line = sys.stdin.readline() if sys.stdin is not None else ""  # pyright: ignore[reportUnnecessaryComparison]
        if not line:
            self.err.file.write("\n")
            return None
        return line.strip()

    def confirm(self, question: str) -> bool:
        """Yes only where someone says yes: end of input means no."""
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


def _needed(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """The width at which the rows can stand side by side."""
    total = 0
    for place, column in enumerate(columns):
        widest = max((len(line) for row in rows for line in row[place].splitlines()), default=0)
        widest = max(widest, len(column.title))
        total += 2 + (min(widest, LEAST_TEXT) if column.text else widest)
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
    """Each row with its first cell as a heading: a text below its particulars, or else a cell a line."""
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


# ------------------------------------------------------------------------------------ views


@dataclass(frozen=True, slots=True)
class Positions:
    """Where messages stand in the conversation, counted from 0.

    A message's own number never changes, also where the host took others back, so the two differ
    in a conversation that went another way once.
    """

    seqs: Sequence[int]

    def of(self, note: Note) -> tuple[int, int]:
        """First and last position that the note stands for, inclusive."""
        if not self.seqs:
            return note.first - 1, note.last - 1
        first = bisect_left(self.seqs, note.first)
        return first, max(first, bisect_right(self.seqs, note.last) - 1)


async def positions(session: Session, summary: SessionSummary) -> Positions:
    """The positions in this session; read only where they cannot be computed."""
    if not summary.progress.revision:
        return Positions(())
    return Positions([d.seq for d in await session.core.store.digests(session.id)])


def note_view(note: Note, session: Session, places: Positions) -> dict[str, Any]:
    first, last = places.of(note)
    return {
        "id": note.id,
        "session_key": session.key,
        "owner": session.owner,
        "kind": note.kind,
        "tier": "session",
        "generation": note.generation,
        "content": note.text,
        "token_count": note.tokens,
        "source_start_index": first,
        "source_end_index": last,
        "source_message_range": [first, last + 1],
        "created_at": note.made_at.isoformat(),
        "model": note.model,
        "status": note.status,
        "degraded": note.degraded,
    }


def extraction_view(extraction: Extraction) -> dict[str, Any]:
    return {
        "session_key": extraction.session.key,
        "owner": extraction.session.owner,
        "type": extraction.type,
        "value": extraction.value,
        "note_id": extraction.note,
        "source_seqs": list(extraction.seqs),
        "said_at": extraction.said_at.isoformat(),
        "created_at": extraction.made_at.isoformat(),
    }


def session_view(summary: SessionSummary) -> dict[str, Any]:
    return {
        "session_key": summary.progress.session.key,
        "owner": summary.progress.session.owner,
        "messages": summary.messages,
        "message_tokens": summary.message_tokens,
        "observations": summary.observations,
        "observation_tokens": summary.observation_tokens,
        "reflections": summary.reflections,
        "reflection_tokens": summary.reflection_tokens,
        "started_at": iso(summary.started_at),
        "last_at": iso(summary.last_at),
    }


def status_view(summary: SessionSummary, state: State, spent: float, limit: float) -> dict[str, Any]:
    """A session with where it stands: what is raw, what is due, how much smaller it got, and what its notes
    cost."""
    tail = [m for m in state.messages if m.seq >= state.progress.tail_start]
    standing = sum(n.tokens for n in state.active) + tokens_of(tail)
    return session_view(summary) | {
        "unnoted_tokens": state.progress.unnoted_tokens,
        "buffered": len(state.buffered),
        "buffered_tokens": sum(n.tokens for n in state.buffered),
        "tail_messages": len(tail),
        "tail_tokens": tokens_of(tail),
        "budget": state.progress.budget,
        "compression": round(summary.message_tokens / standing, 2) if standing else 1.0,
        "due_at": iso(state.progress.due_at),
        "failures": state.progress.failures,
        "spent": round(spent, 6),
        "spend_limit": limit or None,
    }


def iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
