"""A picture in characters: what was said against what the agent receives, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
