"""A clause: the smallest thing that is kept or dropped."""

from __future__ import annotations

from dataclasses import dataclass, field

ROLES = ("user", "assistant", "system")  # speakers who have no name


def is_call(speaker: str) -> bool:
    """Whether the subject of a line is a call, as `label` writes it, and nobody who speaks."""
    return speaker.endswith(")")


@dataclass(slots=True)
class Clause:
    """Some words of one speaker on one day, as they would stand in the note.

    `place` orders clauses: the message (or note line) that it is from, and its position there.
    """

    text: str
    speaker: str
    day: str
    place: tuple[int, int]
    time: str = ""
    priority: str = "NOTE"
    units: dict[str, float] = field(default_factory=dict[str, float])
    quality: float = 1.0
    cost: int = 0
    # What a date in parentheses adds to the cost: it is paid for, and never held against the clause.
    date_cost: int = 0
    # What is left of its worth where the clause before it, which explains it, is not there.
    alone: float = 1.0
