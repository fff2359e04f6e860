"""How long ago the days in the notes are: for the end of a prompt, where what changes may stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime

from onlooker.domain.notes import Note

_DAY = re.compile(r"^## (\d{4}-\d{2}-\d{2})$", re.MULTILINE)
MOST_DAYS = 10


def relative_days(notes: Sequence[Note], now: datetime) -> str:
    """Today, and how long ago the last days are that the notes speak of."""
    days = sorted({day for n in notes for day in _DAY.findall(n.text) if _is_real(day)})[-MOST_DAYS:]
    today = f"Now: {now:%Y-%m-%d %H:%M} ({now:%A})."
    ago = [f"{day} {_ago(date.fromisoformat(day), now.date())}" for day in days]
    return f"{today} In the notes: {'; '.join(ago)}." if ago else today


def _is_real(day: str) -> bool:
    # A note says what its writer wrote.
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True


def _ago(day: date, today: date) -> str:
    days = (today - day).days
    if days < 0:
        return f"in {-days} days" if days < -1 else "tomorrow"
    if days < 2:
        return ("today", "yesterday")[days]
    if days < 14:
        return f"{days} days ago"
    if days < 60:
        return f"{days // 7} weeks ago"
    return f"{days // 30} months ago" if days < 730 else f"{days // 365} years ago"
