"""Resolve relative dates in a message against the message's own date.

An expression that could mean two dates ("on Friday", "a few days ago", "next Friday" said on a Monday) is
not resolved.
"""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime
from functools import lru_cache

from onlooker.policy.dates import cjk, english, european
from onlooker.policy.dates.rules import Resolved, Rules, day, month, week, year
from onlooker.policy.text import CJK_CHARACTER

__all__ = ["Resolved", "annotate", "obvious_dates", "resolve"]

_RULES: tuple[Rules, ...] = (*english.RULES, *european.RULES, *cjk.RULES)


def resolve(text: str, at: datetime) -> list[Resolved]:
    """Find the relative expressions in a text, each with its day, weekend, week, month or year.

    >>> resolve("I moved last week", datetime(2026, 2, 16, 14, 2))
    [Resolved(start=8, end=17, iso='2026-W07')]
    """
    small = text.lower()
    found = [span for rules in _RULES for span in rules.find(text, small, at)]
    # Of two that overlap, the longer one wins ("the day before yesterday").
    found.sort(key=lambda span: (span.start, span.start - span.end))
    kept: list[Resolved] = []
    for span in found:
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
        elif span.end - span.start > kept[-1].end - kept[-1].start:
            kept[-1] = span
    return kept


@lru_cache(maxsize=256)
def obvious_dates(at: datetime) -> frozenset[str]:
    """Return the dates obvious from the day itself: the day, the weeks around it, its month and year."""
    return frozenset({day(at), week(at, -1), week(at), week(at, 1), month(at), year(at)})


def annotate(text: str, at: datetime, *, but_not: Container[str] = ()) -> str:
    """Add each resolved date in parentheses after its expression, except those in `but_not`.

    >>> annotate("I moved yesterday", datetime(2026, 2, 16))
    'I moved yesterday (2026-02-15)'
    """
    for span in reversed(resolve(text, at)):
        already = text[span.end :].lstrip().startswith(("(" + span.iso, "（" + span.iso))
        if span.iso not in but_not and not already:
            gap = "" if CJK_CHARACTER.match(text[span.end - 1]) else " "
            text = f"{text[: span.end]}{gap}({span.iso}){text[span.end :]}"
    return text
