"""How long ago the days in the notes are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from conversations import note

from onlooker.policy.assemble import MOST_DAYS, relative_days

NOW = datetime(2026, 2, 16, 14, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "ago"),
    [
        (-2, "in 2 days"),
        (-1, "tomorrow"),
        (0, "today"),
        (1, "yesterday"),
        (2, "2 days ago"),
        (13, "13 days ago"),
        (14, "2 weeks ago"),
        (59, "8 weeks ago"),
        (60, "2 months ago"),
        (729, "24 months ago"),
        (730, "2 years ago"),
        (3650, "10 years ago"),
    ],
)
def test_a_day_is_told_as_people_tell_it(days: int, ago: str) -> None:
    day = (NOW - timedelta(days=days)).date().isoformat()
    said = relative_days([note(1, 1, text=f"## {day}\nNOTE something")], NOW)
    assert said == f"Now: 2026-02-16 14:05 (Monday). In the notes: {day} {ago}."


def test_without_dated_notes_only_today_is_told() -> None:
    assert relative_days([], NOW) == "Now: 2026-02-16 14:05 (Monday)."
    assert relative_days([note(1, 1, text="on 2026-01-01 something")], NOW) == relative_days([], NOW)


def test_each_day_is_told_once_and_only_the_last_ones() -> None:
    days = [f"2026-01-{i:02}" for i in range(1, 29)]
    notes = [note(i, i, text=f"## {d}\nNOTE a\n## {d}\nNOTE b") for i, d in enumerate(days, 1)]
    said = relative_days([*notes, *notes], NOW)
    assert [d for d in days if d in said] == days[-MOST_DAYS:]
    assert said.count(days[-1]) == 1


def test_a_day_that_is_in_no_calendar_breaks_nothing() -> None:
    said = relative_days([note(1, 1, text="## 2026-02-31\nNOTE a\n## 2026-02-15\nNOTE b")], NOW)
    assert said.endswith("In the notes: 2026-02-15 yesterday.")
