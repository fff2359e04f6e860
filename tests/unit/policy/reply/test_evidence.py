"""What a note may say of its source: what is said there, and what can be worked out from it."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from gallery_of_notes import CONVERSATIONS
from hypothesis import given
from hypothesis import strategies as st
from tests.growth import assert_not_quadratic

from onlooker.policy.reply.evidence import Evidence, invented
from onlooker.policy.reply.judge import Accepted, Rejected, judge
from onlooker.policy.tokens import estimate

# A Monday. Said a week after she moved, before a trip.
SOURCE = """\
## 2026-02-16
[14:02] Ana: I moved to Oslo last week. We are married for seven years. Yesterday we saw twenty five swans.
[14:03] assistant: Congratulations! When do you fly?
[14:03] Ana: Next Friday at 7pm, for ten days, with Marta. I wrote my first book five years ago, and I'm 34.
[14:04] Ana: It was €1,240.50 for order 88-1431, a hundred and fifty more than in May. Gym: 21st of March.
[14:05] Ana: Last weekend was rainy; a few months ago I had a dozen plants, and grandma was born in 1938.
"""
DAY = dt.date(2026, 2, 16)
SHOWN = "## 2026-01-10\nIMPORTANT Ana: flat in Bergen, contract K-7731, signed with Henrik on 2026-01-05"


@pytest.mark.parametrize(
    "note",
    [
        "Ana moved to Oslo last week (2026-02-09)",
        "Ana moved to Oslo last week (week of 2026-02-09)",
        "Ana moved to Oslo (2026-02-09 to 2026-02-15)",
        "Ana moved to Oslo (2026-02-09 – 2026-02-15)",
        "Ana moved to Oslo (2026-W07)",
        "Ana moved to Oslo in February 2026",
        "Ana moved to Oslo (Feb 9–15, 2026)",
        "Ana: married seven years, since 2019",
        "Ana: married seven years (c. 2019)",
        "Ana: married 7 years (2018/2019)",
        "Ana saw 25 swans yesterday (2026-02-15, Sunday)",
        "Ana saw 25 swans (Sun 2026-02-15)",
        "Ana saw 25 swans (February 15, 2026)",
        "Ana saw 25 swans (15 February)",
        "Ana saw 25 swans (15.02.2026)",
        "Ana saw 25 swans (2/15/2026)",
        "Ana saw 25 swans (2026年2月15日)",
        "Ana flies next Friday (2026-02-27) at 19:00",
        "Ana flies Friday (2026-02-20) at 7 pm",
        "Ana flies next Friday, back ten days later (2026-03-02)",
        "Ana flies next Friday, back ten days later (2026-03-09)",
        "Ana's first book: 2021",
        "Ana was born in 1991 or 1992",
        "Ana paid 1240.50 euros, 150 more than in May (2025-05)",
        "Ana's gym: 21 March (2026-03-21)",
        "Last weekend (2026-02-14/15) was rainy",
        "Ana had 12 plants a few months ago (2025-11)",
        "Ana's grandmother, born 1938, is 88",
        "Ana's tram: was the flat in Bergen, contract K-7731 of Henrik (2026-01-05), now Oslo",
    ],
)
def test_what_follows_from_the_words_is_not_invented(note: str) -> None:
    assert Evidence(SOURCE, DAY, SHOWN).invented(note, DAY) == []


@pytest.mark.parametrize(
    ("note", "made_up"),
    [
        ("Ana was born (1985-05-05)", "1985-05-05"),
        ("Ana moved to Oslo (2026-01-20)", "2026-01-20"),
        ("Ana moved to Oslo last week (2026-02-16)", "2026-02-16"),
        ("Ana saw 25 swans yesterday (2026-02-14)", "2026-02-14"),
        ("Ana saw 25 swans (2026-02-15, Monday)", "2026-02-15, Monday"),
        ("Ana had 12 plants a few months ago (2025-11-03)", "2025-11-03"),
        ("Ana moved in March 2024", "March 2024"),
        ("Ana: married since 2011", "2011"),
        ("Ana saw 26 swans", "26"),
        ("Ana flies next Friday at 20:30", "20:30"),
        ("Ana paid €1,250.50", "€1,250.50"),
        ("Ana's order 88-1432", "88-1432"),
        ("see /etc/passwd", "/etc/passwd"),
        ("Ana met Robert in Oslo", "Robert"),
        ("Robert told Ana to move", "Robert"),
        ("Ana moved to Berlin", "Berlin"),
        ("Ana likes Marten", "Marten"),
    ],
)
def test_what_does_not_is_found_and_named(note: str, made_up: str) -> None:
    assert [found.text for found in Evidence(SOURCE, DAY, SHOWN).invented(note, DAY)] == [made_up]


@pytest.mark.parametrize(
    "note",
    [
        "Hobbies: swans and plants",
        "Dinner was rainy",
        "Ana likes Norwegian weather",
        "Ana Oslo-based; Bergener no longer",
        "Open question: When does Ana fly?",
        "Ana, married, told the Assistant about May",
    ],
)
def test_an_ordinary_word_with_a_capital_is_no_name(note: str) -> None:
    source = SOURCE + "[14:09] Ana: Norway is beautiful.\n"
    assert Evidence(source, DAY, SHOWN).invented(note, DAY) == []


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("小雨：上周五搬家，房租五千八百元，有二十五盆花", "小雨：房租 5800 元，25 盆花（2026-02-13）"),
        ("あおい：家賃は九万二千円、先週の土曜日に引っ越した", "あおい：家賃 92,000円（2026-02-14）"),
        ("지민: 월세는 팔십만 원, 어제 이사했어요", "지민: 월세 800,000원 (2026-02-15)"),
        ("Ana: Gestern kamen fünfundzwanzig Gäste", "Ana: 25 Gäste (15. Februar 2026)"),
        ("Ana: J'ai déménagé il y a deux semaines", "Ana a déménagé (semaine du 2026-02-02)"),
    ],
)
def test_other_languages_have_their_own_words_for_days_and_numbers(source: str, note: str) -> None:
    assert invented(note, source, DAY) == []
    assert invented(note + " (1985-05-05)", source, DAY) == ["1985-05-05"]


@given(st.text(max_size=300))
def test_a_text_invents_nothing_of_itself(text: str) -> None:
    assert invented(text, text, DAY) == []


@pytest.mark.parametrize(
    "unit", ["a few weeks ago ", "2026-02-16 ", "May ", "twenty ", "Ana ", "12 ", "五千", "(1.2.3"]
)
def test_time_grows_with_the_source_and_not_with_its_square(unit: str) -> None:
    def checked(length: int) -> None:
        source = unit * (length // len(unit))
        Evidence(source, DAY).invented("Xaver moved on 1999-09-09 with 4711 books", DAY)
        Evidence(SOURCE, DAY).invented(source[: length // 4], DAY)

    assert_not_quadratic(checked, 16_000)


# -- Whole conversations with their honest notes, in many ways of writing a date


class Noted(NamedTuple):
    """A prompt's source, its notes so far, and an honest reply."""

    name: str
    source: str
    day: dt.date
    shown: str
    reply: str


# 89 replies of a strong model stand beside the checkout of those who have them.
REPLIES = Path(__file__).parents[5] / "shared" / "quality" / "replies" / "strong-model.jsonl"


def of_the_gallery() -> Iterator[Noted]:
    for name, (source, shown, reply) in CONVERSATIONS.items():
        first = re.search(r"\d{4}-\d\d-\d\d", source)
        assert first
        yield Noted(name, source, dt.date.fromisoformat(first[0]), shown, reply)


def of_a_strong_model() -> Iterator[Noted]:
    if not REPLIES.exists():
        return
    earlier: dict[str, str] = {}
    for line in REPLIES.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        asked = row["messages"][1]["content"]
        data = "\n".join(re.findall(r"^<<< .*?\n(.*?)^>>> ", asked, re.S | re.M))
        source = re.sub(r"^\[(\d{4}-\d\d-\d\d) (\d\d:\d\d)\]", r"## \1\n[\2]", data, flags=re.M)
        first = re.search(r"\d{4}-\d\d-\d\d", source)
        assert first
        run, reply = row["run"], row["reply"]
        yield Noted(f"{run} {row['n']}", source, dt.date.fromisoformat(first[0]), earlier.get(run, ""), reply)
        earlier[run] = f"{earlier.get(run, '')}\n{reply}"


HONEST = list(of_the_gallery())
IN_BRACKETS = re.compile(r"\((\d{4}-\d\d-\d\d)\)")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)


def _week(day: dt.date) -> tuple[dt.date, dt.date]:
    monday = day - dt.timedelta(day.weekday())
    return monday, monday + dt.timedelta(6)


STYLES: dict[str, Callable[[dt.date], str]] = {
    "as they are": lambda day: f"{day}",
    "with the weekday after": lambda day: f"{day}, {WEEKDAYS[day.weekday()]}",
    "with the weekday before": lambda day: f"{WEEKDAYS[day.weekday()][:3]} {day}",
    "in words": lambda day: f"{MONTHS[day.month - 1]} {day.day}, {day.year}",
    "in words, the British way": lambda day: f"{day.day} {MONTHS[day.month - 1]} {day.year}",
    "in words, without the year": lambda day: f"{WEEKDAYS[day.weekday()]}, {MONTHS[day.month - 1]} {day.day}",
    "the German way": lambda day: f"{day:%d.%m.%Y}",
    "as weeks": lambda day: f"week of {_week(day)[0]}",
    "as ISO weeks": lambda day: f"{day:%G-W%V}",
    "as ranges": lambda day: "{} to {}".format(*_week(day)),
    "as months": lambda day: f"{MONTHS[day.month - 1]} {day.year}",
    "as years": lambda day: f"c. {day.year}",
}


def verdict(noted: Noted, reply: str, *, strike: bool = False) -> object:
    return judge(
        reply,
        source_text=noted.source,
        source_tokens=max(estimate(noted.source), 200),
        format="lines",
        day=noted.day,
        shown_text=noted.shown,
        count=estimate,
        strike=strike,
    )


def rewritten(reply: str, style: Callable[[dt.date], str]) -> str:
    return IN_BRACKETS.sub(lambda found: f"({style(dt.date.fromisoformat(found[1]))})", reply)


def assert_accepted(noted: Noted, style: str) -> None:
    reply = rewritten(noted.reply, STYLES[style])
    judged = verdict(noted, reply)
    assert isinstance(judged, Accepted), (noted.name, judged)
    said = {line.strip() for line in reply.splitlines() if line.strip()}
    assert said == set(judged.text.splitlines()), noted.name


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("noted", HONEST, ids=lambda noted: noted.name)
def test_honest_notes_are_accepted_as_they_are_however_they_write_dates(noted: Noted, style: str) -> None:
    assert_accepted(noted, style)


@pytest.mark.long
@pytest.mark.parametrize("style", STYLES)
def test_so_are_those_of_a_strong_model_where_they_are(style: str) -> None:
    for noted in of_a_strong_model():
        assert_accepted(noted, style)


@pytest.mark.parametrize("noted", HONEST, ids=lambda noted: noted.name)
def test_the_same_notes_with_a_wrong_date_are_refused_and_then_lose_it(noted: Noted) -> None:
    false = IN_BRACKETS.sub("(1985-05-05)", noted.reply, count=1)
    refused = verdict(noted, false)
    assert isinstance(refused, Rejected)
    assert '"1985-05-05"' in refused.correction
    struck = verdict(noted, false, strike=True)
    assert isinstance(struck, Accepted)
    assert struck.struck == ("1985-05-05",)
    without = re.sub(r" (?=[;,，\n ])", "", IN_BRACKETS.sub("", noted.reply, count=1))
    assert struck.text == without.strip()


@pytest.mark.parametrize("noted", [n for n in HONEST if "in " not in n.name], ids=lambda noted: noted.name)
def test_the_same_notes_about_someone_else_are_refused(noted: Noted) -> None:
    name = next(name for name in ("Lea", "Marek", "Jonas", "Tom") if name in noted.reply)
    refused = verdict(noted, re.sub(rf"\b{name}\b", "Bernadette", noted.reply))
    assert isinstance(refused, Rejected)
    assert refused.values == ("Bernadette",)


def test_of_a_line_that_nobody_would_write_the_rest_counts_as_invented() -> None:
    source = "Ana paid 4,417 for the fence."
    evidence = Evidence(source, None)
    assert not evidence.invented(source)
    long = source + " " + "and so on " * 2_000
    (rest,) = evidence.invented(long + source)
    assert (rest.end, rest.text) == (len(long + source), (long + source)[rest.start :])
    assert source in rest.text
    assert "4,417" not in long[rest.start : rest.end]
