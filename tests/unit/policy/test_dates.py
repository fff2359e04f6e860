"""Relative dates, against a message written on Wednesday 18 February 2026 at 14:02."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.policy.dates import annotate, obvious_dates, resolve


def on(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, 14, 2, tzinfo=UTC)


AT = on(2026, 2, 18)

ENGLISH = {
    "today": "2026-02-18",
    "earlier today": "2026-02-18",
    "tonight": "2026-02-18",
    "this morning": "2026-02-18",
    "this evening": "2026-02-18",
    "yesterday": "2026-02-17",
    "Yesterday evening": "2026-02-17",
    "last night": "2026-02-17",
    "tomorrow": "2026-02-19",
    "tomorrow morning": "2026-02-19",
    "the day before yesterday": "2026-02-16",
    "the night before last": "2026-02-16",
    "the day after tomorrow": "2026-02-20",
    "3 days ago": "2026-02-15",
    "three days ago": "2026-02-15",
    "a day ago": "2026-02-17",
    "ten days ago": "2026-02-08",
    "in 3 days": "2026-02-21",
    "in two days": "2026-02-20",
    "five days from now": "2026-02-23",
    "a week ago": "2026-W07",
    "two weeks ago": "2026-W06",
    "3 weeks back": "2026-W05",
    "in two weeks": "2026-W10",
    "in a week's time": "2026-W09",
    "a fortnight ago": "2026-W06",
    "in a fortnight": "2026-W10",
    "six weeks from now": "2026-W14",
    "a week ago today": "2026-02-11",
    "two weeks ago yesterday": "2026-02-03",
    "a week from today": "2026-02-25",
    "a week from tomorrow": "2026-02-26",
    "a month ago": "2026-01",
    "two months ago": "2025-12",
    "in three months": "2026-05",
    "a year ago": "2025",
    "ten years ago": "2016",
    "20 years ago": "2006",
    "two decades ago": "2006",
    "in five years": "2031",
    "half a year ago": "2025-08",
    "a year and a half ago": "2024-08",
    "3 hours ago": "2026-02-18",
    "fifteen hours ago": "2026-02-17",
    "24 hours ago": "2026-02-17",
    "20 minutes ago": "2026-02-18",
    "twelve hours from now": "2026-02-19",
    "last week": "2026-W07",
    "this week": "2026-W08",
    "next week": "2026-W09",
    "later this week": "2026-W08",
    "by the end of the week": "2026-W08",
    "the week before last": "2026-W06",
    "the week after next": "2026-W10",
    "last month": "2026-01",
    "this month": "2026-02",
    "next month": "2026-03",
    "the month before last": "2025-12",
    "the month after next": "2026-04",
    "end of the month": "2026-02",
    "last year": "2025",
    "this year": "2026",
    "next year": "2027",
    "the year before last": "2024",
    "last weekend": "2026-02-14/15",
    "this past weekend": "2026-02-14/15",
    "this weekend": "2026-02-21/22",
    "the weekend before last": "2026-02-07/08",
    "two weekends ago": "2026-02-07/08",
    "last Friday": "2026-02-13",
    "last Fri": "2026-02-13",
    "this past Monday": "2026-02-16",
    "last Wednesday": "2026-02-11",
    "last Tuesday night": "2026-02-17",
    "this coming Monday": "2026-02-23",
    "this Friday": "2026-02-20",
    "next Monday": "2026-02-23",
    "next Wednesday": "2026-02-25",
    "the Sunday before last": "2026-02-08",
    "two Fridays ago": "2026-02-06",
    "Friday last week": "2026-02-13",
    "Monday of next week": "2026-02-23",
    "next week on Thursday": "2026-02-26",
    "a week ago Friday": "2026-02-06",
    "a week from Friday": "2026-02-27",
    "last March": "2025-03",
    "this March": "2026-03",
    "next January": "2027-01",
    "June last year": "2025-06",
    "March of next year": "2027-03",
    "last summer": "2025",
    "this summer": "2026",
    "last fall": "2025",
    "last Christmas": "2025-12-25",
    "this Halloween": "2026-10-31",
    "last New Year's Eve": "2025-12-31",
    "next Valentine's Day": "2027-02-14",
    "the 15th of next month": "2026-03-15",
    "the 3rd of this month": "2026-02-03",
}
GERMAN = {
    "heute": "2026-02-18",
    "heute Morgen": "2026-02-18",
    "gestern": "2026-02-17",
    "gestern Abend": "2026-02-17",
    "vorgestern": "2026-02-16",
    "wir fahren morgen": "2026-02-19",
    "übermorgen": "2026-02-20",
    "vor drei Tagen": "2026-02-15",
    "vor einer Woche": "2026-W07",
    "vor 2 Monaten": "2025-12",
    "vor zehn Jahren": "2016",
    "in zwei Wochen": "2026-W10",
    "letzte Woche": "2026-W07",
    "vergangenen Monat": "2026-01",
    "letztes Jahr": "2025",
    "nächste Woche": "2026-W09",
    "kommendes Jahr": "2027",
    "vorletzte Woche": "2026-W06",
    "übernächsten Monat": "2026-04",
    "letzten Freitag": "2026-02-13",
    "kommenden Montag": "2026-02-23",
    "letztes Wochenende": "2026-02-14/15",
    "dieses Wochenende": "2026-02-21/22",
}
FRENCH = {
    "aujourd'hui": "2026-02-18",
    "ce matin": "2026-02-18",
    "hier": "2026-02-17",
    "hier soir": "2026-02-17",
    "avant-hier": "2026-02-16",
    "demain": "2026-02-19",
    "après-demain": "2026-02-20",
    "il y a trois jours": "2026-02-15",
    "il y a deux semaines": "2026-W06",
    "il y a 5 ans": "2021",
    "dans deux mois": "2026-04",
    "la semaine dernière": "2026-W07",
    "le mois dernier": "2026-01",
    "l'année dernière": "2025",
    "la semaine prochaine": "2026-W09",
    "le mois prochain": "2026-03",
    "lundi dernier": "2026-02-16",
    "le week-end dernier": "2026-02-14/15",
}
SPANISH = {
    "hoy": "2026-02-18",
    "esta mañana": "2026-02-18",
    "ayer": "2026-02-17",
    "anoche": "2026-02-17",
    "anteayer": "2026-02-16",
    "salimos mañana": "2026-02-19",
    "pasado mañana": "2026-02-20",
    "hace tres días": "2026-02-15",
    "hace dos semanas": "2026-W06",
    "hace un año": "2025",
    "dentro de 2 meses": "2026-04",
    "la semana pasada": "2026-W07",
    "el mes pasado": "2026-01",
    "el año pasado": "2025",
    "la próxima semana": "2026-W09",
    "el mes que viene": "2026-03",
    "el lunes pasado": "2026-02-16",
    "el fin de semana pasado": "2026-02-14/15",
}
CHINESE = {
    "今天": "2026-02-18",
    "昨天下午": "2026-02-17",
    "昨晚": "2026-02-17",
    "前天": "2026-02-16",
    "大前天": "2026-02-15",
    "明天": "2026-02-19",
    "后天": "2026-02-20",
    "三天前": "2026-02-15",
    "十二天后": "2026-03-02",
    "两周前": "2026-W06",
    "两个星期后": "2026-W10",
    "三个月前": "2025-11",
    "五年前": "2021",
    "上周": "2026-W07",
    "这周": "2026-W08",
    "下周": "2026-W09",
    "上上周": "2026-W06",
    "上上周五": "2026-02-06",
    "下下周三": "2026-03-04",
    "上上个月": "2025-12",
    "大后天": "2026-02-21",
    "上周五": "2026-02-13",
    "下周一": "2026-02-23",
    "上週五": "2026-02-13",
    "上周末": "2026-02-14/15",
    "24小时前": "2026-02-17",
    "上个月": "2026-01",
    "下个月": "2026-03",
    "下个月5号": "2026-03-05",
    "去年": "2025",
    "去年3月": "2025-03",
    "前年": "2024",
    "明年": "2027",
}
JAPANESE = {
    "今日": "2026-02-18",
    "昨日": "2026-02-17",
    "一昨日": "2026-02-16",
    "明日": "2026-02-19",
    "明後日": "2026-02-20",
    "三日前": "2026-02-15",
    "2週間後": "2026-W10",
    "3か月前": "2025-11",
    "先週": "2026-W07",
    "来週": "2026-W09",
    "再来週": "2026-W10",
    "再来週の金曜": "2026-03-06",
    "先々週の月曜日": "2026-02-02",
    "しあさって": "2026-02-21",
    "先週の金曜日": "2026-02-13",
    "来週の月曜日": "2026-02-23",
    "先月": "2026-01",
    "来月": "2026-03",
    "去年": "2025",
    "一昨年": "2024",
    "来年": "2027",
    "今週末": "2026-02-21/22",
    "24時間前": "2026-02-17",
}
KOREAN = {
    "오늘": "2026-02-18",
    "어제": "2026-02-17",
    "그저께": "2026-02-16",
    "내일": "2026-02-19",
    "모레": "2026-02-20",
    "3일 전": "2026-02-15",
    "이틀 전": "2026-02-16",
    "일주일 전": "2026-W07",
    "2주 후": "2026-W10",
    "한 달 전": "2026-01",
    "5년 전": "2021",
    "지난주": "2026-W07",
    "다음 주": "2026-W09",
    "다다음 주": "2026-W10",
    "다다음 주 토요일": "2026-03-07",
    "지지난주": "2026-W06",
    "지난주 금요일": "2026-02-13",
    "지난달": "2026-01",
    "다음 달": "2026-03",
    "작년": "2025",
    "재작년": "2024",
    "내년": "2027",
    "지난 주말": "2026-02-14/15",
    "24시간 전": "2026-02-17",
}
LANGUAGES = {
    "en": ENGLISH, "de": GERMAN, "fr": FRENCH, "es": SPANISH, "zh": CHINESE, "ja": JAPANESE, "ko": KOREAN,
}  # fmt: skip
TABLE = [(language, text, iso) for language, rows in LANGUAGES.items() for text, iso in rows.items()]

AS_SAID = [
    "on Friday",
    "Friday",
    "next Friday",  # in two days, or in nine
    "next weekend",
    "this Monday",
    "a few days ago",
    "a couple of weeks ago",
    "recently",
    "the other day",
    "soon",
    "two days later",
    "the following week",
    "in March",
    "last January",  # a month ago, or thirteen
    "last winter",
    "over the weekend",
    "for five years",
    "three times a week",
    "in ten minutes a day",
    "the last week of training",
    "Guten Morgen",
    "por la mañana",
    "la última vez",
    "周三",
    "2019年后",
    "엊그제",
    "within 2 years",
    "Rome wasn't built in a day",  # how long it took
    "I lost five kilos in a month",
    "We wrote it in three weeks",
    "I haven't eaten in two days",
]


@pytest.mark.req(14)
@pytest.mark.parametrize(("language", "text", "iso"), TABLE)
def test_an_expression_means_its_date(language: str, text: str, iso: str) -> None:
    assert [found.iso for found in resolve(text, AT)] == [iso]


def test_the_table_holds_at_least_150_expressions() -> None:
    assert len(TABLE) >= 150


@pytest.mark.parametrize("text", AS_SAID)
def test_what_could_mean_two_dates_stays_as_said(text: str) -> None:
    assert resolve(text, AT) == []
    assert annotate(text, AT) == text


def test_the_date_stands_beside_its_phrase() -> None:
    assert annotate("Ana moved to Oslo last week, and I left yesterday.", AT) == (
        "Ana moved to Oslo last week (2026-W07), and I left yesterday (2026-02-17)."
    )


def test_no_space_is_put_into_chinese() -> None:
    assert annotate("预计下周出个demo", AT) == "预计下周(2026-W09)出个demo"


@pytest.mark.parametrize(
    "text",
    [
        "I booked it less than 24 hours ago",
        "we met over a year ago",
        "More than two weeks ago",
        "at least three months ago",
        "不到一个月前",
    ],
)
def test_a_time_that_is_only_bounded_is_no_date(text: str) -> None:
    assert annotate(text, AT) == text


def test_annotating_twice_changes_nothing() -> None:
    once = annotate("We met yesterday and will meet again in two weeks", AT)
    assert annotate(once, AT) == once


def test_what_is_read_off_the_heading_can_be_left_out() -> None:
    text = "We ship today, not tomorrow; last week was too early, this month is fine"
    assert annotate(text, AT, but_not=obvious_dates(AT)) == text.replace("tomorrow", "tomorrow (2026-02-19)")


def test_it_goes_by_the_day_of_the_message_in_its_own_zone() -> None:
    late = datetime(2026, 2, 18, 23, 30, tzinfo=timezone(timedelta(hours=9)))
    assert annotate("yesterday", late) == "yesterday (2026-02-17)"


def test_weeks_belong_to_the_year_that_iso_8601_says() -> None:
    assert resolve("last week", on(2026, 1, 5))[0].iso == "2026-W01"
    assert resolve("next week", on(2025, 12, 22))[0].iso == "2026-W01"


def test_a_weekend_over_the_end_of_a_month_names_both() -> None:
    assert resolve("this weekend", on(2026, 1, 28))[0].iso == "2026-01-31/02-01"


def test_last_weekend_on_a_sunday_is_the_one_before() -> None:
    assert resolve("last weekend", on(2026, 2, 22))[0].iso == "2026-02-14/15"


def test_a_date_outside_the_calendar_is_no_date() -> None:
    assert resolve("9000 years ago", AT) == []
    assert [found.iso for found in resolve("the 31st of next month", on(2026, 1, 10))] == ["2026-02"]


# What an expression means changes from one day to the next: the day before, the day itself, the day after.
BOUNDARIES = [
    ("last March", (2026, 2, 28), "2025-03"),
    ("last March", (2026, 3, 1), "2025-03"),
    ("last March", (2026, 4, 1), None),  # this year's, a month ago, or last year's
    ("next March", (2026, 2, 28), None),
    ("next March", (2026, 3, 31), "2027-03"),
    ("next March", (2026, 4, 1), "2027-03"),
    ("this March", (2026, 12, 31), "2026-03"),
    ("last Christmas", (2026, 12, 24), "2025-12-25"),
    ("last Christmas", (2026, 12, 25), "2025-12-25"),
    ("last Christmas", (2026, 12, 26), "2026-12-25"),
    ("next Christmas", (2026, 12, 24), None),  # tomorrow, or in a year and a day
    ("next Christmas", (2026, 12, 25), "2027-12-25"),
    ("next Christmas", (2026, 12, 26), "2027-12-25"),
    ("this Christmas", (2026, 12, 26), "2026-12-25"),
    ("last New Year's Day", (2026, 1, 1), "2025-01-01"),
    ("last New Year's Day", (2026, 1, 2), "2026-01-01"),
    ("last spring", (2026, 2, 28), "2025"),
    ("last spring", (2026, 3, 1), None),
    ("next spring", (2026, 6, 30), None),
    ("next spring", (2026, 7, 1), "2027"),
    ("last summer", (2026, 5, 31), "2025"),
    ("last summer", (2026, 6, 1), None),
    ("next summer", (2026, 9, 30), None),
    ("next summer", (2026, 10, 1), "2027"),
    ("last autumn", (2026, 8, 31), "2025"),
    ("last fall", (2026, 9, 1), None),
    ("next autumn", (2026, 12, 31), None),
    ("this autumn", (2026, 1, 1), "2026"),
    ("next winter", (2026, 7, 1), None),
    ("this weekend", (2026, 2, 17), None),  # on a Tuesday
    ("this weekend", (2026, 2, 18), "2026-02-21/22"),
    ("next weekend", (2026, 2, 20), None),  # on a Friday
    ("next weekend", (2026, 2, 21), "2026-02-28/03-01"),
    ("this Friday", (2026, 2, 20), "2026-02-20"),
    ("this Friday", (2026, 2, 21), None),
    ("next Friday", (2026, 2, 19), None),
    ("next Friday", (2026, 2, 20), "2026-02-27"),
    ("last Friday", (2026, 2, 20), "2026-02-13"),
    ("last Friday", (2026, 2, 21), "2026-02-20"),
]


@pytest.mark.parametrize(("text", "said_on", "iso"), BOUNDARIES)
def test_an_expression_changes_its_date_on_this_day(
    text: str, said_on: tuple[int, int, int], iso: str | None
) -> None:
    assert [found.iso for found in resolve(text, on(*said_on))] == ([iso] if iso else [])


@pytest.mark.parametrize(
    ("text", "said_on", "iso"),
    [
        ("a month ago today", (2026, 3, 31), "2026-02-28"),
        ("a month ago today", (2028, 3, 30), "2028-02-29"),
        ("a month ago today", (2026, 3, 28), "2026-02-28"),
        ("a month ago yesterday", (2026, 7, 1), "2026-05-30"),
        ("a month from today", (2026, 1, 31), "2026-02-28"),
        ("two months from tomorrow", (2026, 12, 30), "2027-02-28"),
        ("a year ago today", (2028, 2, 29), "2027-02-28"),
        ("four years ago today", (2028, 2, 29), "2024-02-29"),
    ],
)
def test_the_same_day_of_a_shorter_month_is_its_last(
    text: str, said_on: tuple[int, int, int], iso: str
) -> None:
    assert [found.iso for found in resolve(text, on(*said_on))] == [iso]


@given(st.text(max_size=200), st.integers(1900, 2200), st.integers(0, 364))
def test_spans_are_in_order_and_never_overlap(text: str, year: int, days: int) -> None:
    found = resolve(text, on(year, 1, 1) + timedelta(days))
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    assert all(0 <= span.start < span.end <= len(text) for span in found)


@pytest.mark.parametrize(
    "said",
    [
        "キャンセル料は十四日前から三割です",
        "出発の三日前に連絡します",
        "試験の一か月前に申し込みます",
        "一週間前までに予約してください",
        "취소는 일주일 전까지만 무료래",
        "여행 2주 전에 예약해요",
    ],
)
def test_so_long_before_something_else_is_no_date(said: str) -> None:
    assert annotate(said, AT) == said


def test_since_so_long_ago_is_a_date() -> None:
    assert annotate("三日前から咳が出ています", AT) == "三日前(2026-02-15)から咳が出ています"
