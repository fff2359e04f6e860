"""What one text kept, dropped and added against another, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff


@dataclass(frozen=True, slots=True)
class Diff:
    """Two texts side by side. Day headings, which only say when, are in neither of the three lists."""

    before: str
    after: str
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    added: tuple[str, ...]

    def unified(self, before: str = "before", after: str = "after") -> str:
        """As a patch, with names for the two; empty where they are equal."""
        old, new = self.before.splitlines(), self.after.splitlines()
        return "\n".join(unified_diff(old, new, before, after, lineterm=""))


def diff(before: str, after: str) -> Diff:
    """The lines of two texts compared, in order; a line said twice counts twice."""
    old, new = _lines(before), _lines(after)
    dropped = _left(old, Counter(new))
    kept = _left(old, Counter(dropped))
    return Diff(before, after, tuple(kept), tuple(dropped), tuple(_left(new, Counter(old))))


def _lines(text: str) -> list[str]:
    stripped = (line.strip() for line in text.splitlines())
    return [line for line in stripped if line and not line.startswith("## ")]


def _left(lines: Sequence[str], others: Counter[str]) -> list[str]:
    """The lines without those that the others have, as often as they have them."""
    found: list[str] = []
    for line in lines:
        if others[line]:
            others[line] -= 1
        else:
            found.append(line)
    return found
