"""Resolve relative dates in a message against the message's own date.

An expression that could mean two dates ("on Friday", "a few days ago", "next Friday" said on a Monday) is
not resolved. Each language has a file with its rules; this one matches them, and has the arithmetic on days,
weeks, months and years that they share.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from typing import NamedTuple

from onlooker.domain.messages import is_real
from onlooker.policy.text import CJK_CHARACTER, regex

# -- Resolving


def resolve(text: str, at: datetime) -> list[Resolved]:
    """Find the relative expressions in a text, each with its day, weekend, week, month or year.

    >>> resolve("I moved last week", datetime(2026, 2, 16, 14, 2))
    [Resolved(start=8, end=17, iso='2026-W07')]
    """
    small = text.lower()
    found = [span for rules in _all_rules() for span in rules.find(text, small, at)]
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
    if not is_real(at):
        return frozenset()
    return frozenset({day(at), week(at, -1), week(at), week(at, 1), month(at), year(at)})


# "More than a year ago" does not name a year.
_BOUND = regex(
    r"(?:\b(?:(?:less|more|fewer|longer|earlier) than|over|under|at least|within)\s|不到|不足|超过|至少)$",
    re.I,
)
_LONGEST_BOUND = 16  # characters


def annotate(text: str, at: datetime, *, but_not: Container[str] = ()) -> str:
    """Add each resolved date in parentheses after its expression, except those in `but_not`, and those that
    the words only bound.

    >>> annotate("I moved yesterday", datetime(2026, 2, 16))
    'I moved yesterday (2026-02-15)'
    """
    for span in reversed(resolve(text, at)):
        already = text[span.end :].lstrip().startswith(("(" + span.iso, "（" + span.iso))
        bound = _BOUND.search(text, max(0, span.start - _LONGEST_BOUND), span.start)
        if span.iso not in but_not and not already and not bound:
            gap = "" if CJK_CHARACTER.match(text[span.end - 1]) else " "
            text = f"{text[: span.end]}{gap}({span.iso}){text[span.end :]}"
    return text


@cache
def _all_rules() -> tuple[Rules, ...]:
    # Loaded with the first text, since the languages use what is defined below.
    from onlooker.policy.dates import cjk, english, european

    return (*english.RULES, *european.RULES, *cjk.RULES)


# -- Arithmetic

WEDNESDAY, SATURDAY = 2, 5
_DAYS_IN_WEEK = 7
_MONTHS = 12


def day(at: datetime, days: int = 0) -> str:
    return (at.date() + timedelta(days)).isoformat()


def week(at: datetime, weeks: int = 0) -> str:
    year, number, _ = (at.date() + timedelta(weeks=weeks)).isocalendar()
    return f"{year}-W{number:02}"


def month(at: datetime, months: int = 0) -> str:
    year, index = divmod(at.year * _MONTHS + at.month - 1 + months, _MONTHS)
    return f"{date(year, index + 1, 1):%Y-%m}"


def year(at: datetime, years: int = 0) -> str:
    return f"{date(at.year + years, 1, 1):%Y}"


def day_of_month(at: datetime, months: int, number: int) -> str:
    y, m = (int(part) for part in month(at, months).split("-"))
    return date(y, m, number).isoformat()


def day_of_week(at: datetime, weeks: int, weekday: int) -> str:
    """The weekday in the calendar week this many weeks from now."""
    return day(at, weeks * _DAYS_IN_WEEK + weekday - at.weekday())


def last_weekday(at: datetime, weekday: int, times: int = 1) -> str:
    """The most recent such weekday before today; with `times`, the one that many back."""
    back = (at.weekday() - weekday - 1) % _DAYS_IN_WEEK + 1
    return day(at, -back - _DAYS_IN_WEEK * (times - 1))


def coming_weekday(at: datetime, weekday: int) -> str:
    """The first such weekday after today."""
    return day(at, (weekday - at.weekday() - 1) % _DAYS_IN_WEEK + 1)


def next_weekday(at: datetime, weekday: int) -> str | None:
    """The weekday next week; None if it is still to come this week, when people may mean either day."""
    return coming_weekday(at, weekday) if weekday <= at.weekday() else None


def this_weekday(at: datetime, weekday: int) -> str | None:
    """The weekday of this week; None if it has passed: "this Monday", said on a Friday, is ambiguous."""
    return day_of_week(at, 0, weekday) if weekday >= at.weekday() else None


def weekend(at: datetime, weekends: int) -> str:
    """The weekend this many weeks from now, written as Saturday and Sunday: 2026-02-14/15."""
    saturday = at.date() + timedelta(SATURDAY - at.weekday() + _DAYS_IN_WEEK * weekends)
    sunday = saturday + timedelta(1)
    return (
        f"{saturday.isoformat()}/{sunday:%d}"
        if saturday.month == sunday.month
        else f"{saturday}/{sunday:%m-%d}"
    )


def next_weekend(at: datetime) -> str | None:
    """The next weekend; None on a working day, when it may be the coming one or the one after."""
    return weekend(at, 1) if at.weekday() >= SATURDAY else None


def shifted(at: datetime, unit: str, amount: int) -> str:
    """The day, week, month or year this many units from now."""
    return {"day": day, "week": week, "month": month, "year": year}[unit](at, amount)


def same_day(at: datetime, unit: str, amount: int) -> str:
    """The exact day this many units from now ("a week from today"), in a shorter month its last day."""
    if unit in ("day", "week"):
        return day(at, amount * (_DAYS_IN_WEEK if unit == "week" else 1))
    months = amount * (_MONTHS if unit == "year" else 1)
    first = date.fromisoformat(f"{month(at, months)}-01")
    return first.replace(day=min(at.day, monthrange(first.year, first.month)[1])).isoformat()


# -- Rules: a pattern, and how a match is resolved

# Returns the date that a match means, or None if it is ambiguous.
Resolver = Callable[[re.Match[str], datetime], str | None]


class Resolved(NamedTuple):
    """The date that text[start:end] means: 2026-02-09, 2026-02-14/15, 2026-W07, 2026-02 or 2026."""

    start: int
    end: int
    iso: str


class Rules:
    """The rules of one or more languages, or some of them.

    Most texts match none, and are skipped quickly: a text that a rule could match contains one of the words,
    in small letters, and matches `hint`. Without words, the rules are of a script other than ours.
    """

    def __init__(self, words: str, *rules: tuple[str, Resolver], hint: str = "") -> None:
        self._words = words.split("|")
        self._hint = regex(hint, re.I)
        self._rules = [(regex(pattern, re.I), resolver) for pattern, resolver in rules]

    def find(self, text: str, small: str, at: datetime) -> Iterable[Resolved]:
        """Find what the rules match in a text, which is also given in small letters."""
        # A list, since a generator takes twice as long.
        words = [word for word in self._words if word in small]
        if not words or (words == [""] and text.isascii()) or not self._hint.search(text):
            return
        for start, end in self._lines(text, small, words):
            for pattern, resolver in self._rules:
                for found in pattern.finditer(text, start, end):
                    iso = _within_calendar(resolver, found, at)
                    if iso is not None:
                        yield Resolved(found.start(), found.end(), iso)

    def _lines(self, text: str, small: str, words: Sequence[str]) -> Iterable[tuple[int, int]]:
        """Return where the lines are that a rule could match; none matches more than one."""
        if "\n" not in text or len(small) != len(text):
            return [(0, len(text))]
        if not all(words):  # any line may have one
            return [line.span() for line in _LINE.finditer(text) if self._hint.search(line[0])]
        lines: set[tuple[int, int]] = set()
        for word in words:
            at = small.find(word)
            while at >= 0:
                start, end = small.rfind("\n", 0, at) + 1, small.find("\n", at)
                lines.add((start, end if end >= 0 else len(text)))
                at = small.find(word, end) if end >= 0 else -1
        return sorted(lines)


_LINE = regex(r"[^\n]+")


def _within_calendar(resolver: Resolver, found: re.Match[str], at: datetime) -> str | None:
    try:
        return resolver(found, at)
    except (ValueError, OverflowError):  # "9999 years ago", "the 31st of next month" in January
        return None
