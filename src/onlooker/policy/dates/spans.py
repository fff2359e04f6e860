"""Rules: what to look for, and the date that it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

# The date that a match means; None where it could mean two.
Meaning = Callable[[re.Match[str], datetime], str | None]


class Resolved(NamedTuple):
    """text[start:end] refers to `iso`: 2026-02-09, 2026-02-14/15, 2026-W07, 2026-02 or 2026."""

    start: int
    end: int
    iso: str


class Rules:
    """The rules of a language or a family of them.

    `hint` matches wherever any rule could: most clauses speak of no time, and are done with then.
    """

    def __init__(self, hint: str, *rules: tuple[str, Meaning]) -> None:
        self._hint = re.compile(hint, re.I)
        self._patterns = rules

    @cached_property
    def _rules(self) -> list[tuple[re.Pattern[str], Meaning]]:
        # On first use: compiling them all would be felt when the package is imported.
        return [(re.compile(pattern, re.I), meaning) for pattern, meaning in self._patterns]

    def find(self, text: str, at: datetime) -> Iterable[Resolved]:
        if not self._hint.search(text):
            return
        for pattern, meaning in self._rules:
            for found in pattern.finditer(text):
                iso = _within_calendar(meaning, found, at)
                if iso is not None:
                    yield Resolved(found.start(), found.end(), iso)


def _within_calendar(meaning: Meaning, found: re.Match[str], at: datetime) -> str | None:
    try:
        return meaning(found, at)
    except (ValueError, OverflowError):  # "9999 years ago", "the 31st of next month" in January
        return None
