"""Judging takes time that grows with the reply, whatever is in it."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from onlooker.policy.reply import Rejected, judge

DAY = dt.date(2026, 2, 16)
SOURCE = " ".join(f"word{i}" for i in range(40_000))


def test_ten_megabytes_are_judged_at_once() -> None:
    reply = "## 2026-02-16\n" + "The user said something and was answered.\n" * 250_000
    began = time.perf_counter()
    judged = judge(reply, source_text="hi", source_tokens=400, format="lines", day=DAY, count=len)
    assert time.perf_counter() - began < 0.2
    assert isinstance(judged, Rejected)
    assert judged.reason == "too long"


@pytest.mark.parametrize("begin", ["", "## a", "[14:02] ", "**"])
@pytest.mark.parametrize(
    "unit",
    [
        *("-", "#", "# ", "<think>\n", "[", "a b ", "**x** ", "| a ", "14:02 ", "Values: a, ", "「」", "\n"),
        *("x\t", "ab", "(", "1. ", "**a*", "`", "</think>\n", "- - ", ": ", ". ", "2026-02-16 ", "CRITICAL "),
    ],
)
def test_time_grows_with_the_reply_and_not_with_its_square(unit: str, begin: str) -> None:
    length = 200_000
    reply = begin + (unit * (length // len(unit))) + "x"
    began = time.perf_counter()
    judge(reply, source_text=SOURCE, source_tokens=60_000, format="lines", day=DAY, count=len)
    # Quadratic work on so many characters would take minutes.
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("source", ["a" * 5_000_000, "`" * 5_000_000, "a." * 2_000_000, "你" * 2_000_000])
def test_a_source_of_one_long_line_is_judged_in_time(source: str) -> None:
    began = time.perf_counter()
    judge(
        "Ana moved to Oslo and likes it",
        source_text=source,
        source_tokens=10**6,
        format="lines",
        day=DAY,
        count=len,
    )
    assert time.perf_counter() - began < 5
