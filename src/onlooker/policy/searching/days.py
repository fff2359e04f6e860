"""The time that a question speaks of: "in June 2023", "on 8 May", "yesterday"."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from onlooker.policy.dates import resolve

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "(?P<month>" + "|".join(f"{m}|{m[:3]}\\b" for m in _MONTHS) + r")\.?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_PATTERNS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"\b{_YEAR}-(?P<month>\d\d)-(?P<day>\d\d)\b",
        rf"{_YEAR}年\s*(?P<month>\d{{1,2}})月(?:\s*(?P<day>\d{{1,2}})[日号號])?",
        rf"\b{_DAY}(?:\s+of)?\s+{_MONTH}(?:,?\s+{_YEAR})?",
        rf"\b{_MONTH}\s+{_DAY}\b(?:,?\s+{_YEAR})?",
        rf"\b{_MONTH},?\s+{_YEAR}\b",
        rf"\b(?:in|during|of|since)\s+{_YEAR}\b",
    )
)


def days_in(text: str, now: datetime) -> Iterator[tuple[str, str]]:
    """First and last day of each time that a text names, as ISO dates; a day without a year is the last
    such day that there was."""
    for pattern in _PATTERNS:
        for found in pattern.finditer(text):
            if span := _span(found.groupdict(), now.date()):
                yield span[0].isoformat(), span[1].isoformat()
            text = text[: found.start()] + " " * len(found[0]) + text[found.end() :]
    for relative in resolve(text, now):
        if span := _of_iso(relative.iso):
            yield span[0].isoformat(), span[1].isoformat()


def _span(parts: dict[str, str | None], today: date) -> tuple[date, date] | None:
    month, day, year = (_number(parts.get(part)) for part in ("month", "day", "year"))
    try:
        if year is None:
            this = date(today.year, month or 1, day or 1)
            year = today.year - (this > today)
        if not month:
            return date(year, 1, 1), date(year, 12, 31)
        if not day:
            return date(year, month, 1), date(year, month, monthrange(year, month)[1])
        return date(year, month, day), date(year, month, day)
    except ValueError:  # the 31st of February
        return None


def _number(part: str | None) -> int | None:
    """A number, or that of a month by its name."""
    if part is None or part.isdigit():
        return int(part) if part else None
    return next(n for n, name in enumerate(_MONTHS, 1) if name.startswith(part.lower()))


def _of_iso(iso: str) -> tuple[date, date] | None:
    """The days of 2026-02-09, 2026-02-14/15, 2026-W07, 2026-02 or 2026."""
    try:
        if "W" in iso:
            first = date.fromisocalendar(int(iso[:4]), int(iso[6:]), 1)
            return first, first + timedelta(days=6)
        if "/" in iso:
            first = date.fromisoformat(iso.split("/")[0])
            return first, first + timedelta(days=1)
        return _span(dict(zip(("year", "month", "day"), iso.split("-"), strict=False)), date.max)
    except ValueError:
        return None
