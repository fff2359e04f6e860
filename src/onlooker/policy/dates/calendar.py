"""Arithmetic on days, weeks, months and years, and how each is written."""

from __future__ import annotations

from datetime import date, datetime, timedelta

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
    """That weekday in the calendar week so many weeks from this one."""
    return day(at, weeks * _DAYS_IN_WEEK + weekday - at.weekday())


def last_weekday(at: datetime, weekday: int, times: int = 1) -> str:
    """The most recent such day before today; with `times`, the one so many back."""
    back = (at.weekday() - weekday - 1) % _DAYS_IN_WEEK + 1
    return day(at, -back - _DAYS_IN_WEEK * (times - 1))


def coming_weekday(at: datetime, weekday: int) -> str:
    """The first such day after today."""
    return day(at, (weekday - at.weekday() - 1) % _DAYS_IN_WEEK + 1)


def next_weekday(at: datetime, weekday: int) -> str | None:
    """None while that day is still to come this week: people then mean either of two days."""
    return coming_weekday(at, weekday) if weekday <= at.weekday() else None


def this_weekday(at: datetime, weekday: int) -> str | None:
    """None once it has passed this week: "this Monday", said on a Friday, looks either way."""
    return day_of_week(at, 0, weekday) if weekday >= at.weekday() else None


def weekend(at: datetime, weekends: int) -> str:
    """0 is the one of this calendar week. Written as Saturday and Sunday: 2026-02-14/15."""
    saturday = at.date() + timedelta(SATURDAY - at.weekday() + _DAYS_IN_WEEK * weekends)
    sunday = saturday + timedelta(1)
    return (
        f"{saturday.isoformat()}/{sunday:%d}"
        if saturday.month == sunday.month
        else f"{saturday}/{sunday:%m-%d}"
    )


def next_weekend(at: datetime) -> str | None:
    """None on a working day, when it may be the coming one or the one after."""
    return weekend(at, 1) if at.weekday() >= SATURDAY else None


def shifted(at: datetime, unit: str, amount: int) -> str:
    """So many days, weeks, months or years from now, as exactly as the unit says."""
    return {"day": day, "week": week, "month": month, "year": year}[unit](at, amount)


def same_day(at: datetime, unit: str, amount: int) -> str:
    """The exact day so many units from now ("a week from today")."""
    if unit in ("day", "week"):
        return day(at, amount * (_DAYS_IN_WEEK if unit == "week" else 1))
    return day_of_month(at, amount * (_MONTHS if unit == "year" else 1), at.day)
