"""Relative dates in English."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from onlooker.policy import dates
from onlooker.policy.dates import Resolver, Rules
from onlooker.policy.text import regex

_NUMBERS = {
    word: n
    for n, word in enumerate(
        [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ],
        1,
    )
} | {"a": 1, "an": 1, "thirty": 30, "forty": 40, "fifty": 50, "hundred": 100, "a hundred": 100}
_WEEKDAYS = {name: n for n, name in enumerate(["mon", "tue", "wed", "thu", "fri", "sat", "sun"])}
_MONTHS = {
    name: n
    for n, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_HOLIDAYS = {
    "christmas eve": (12, 24), "christmas": (12, 25), "christmas day": (12, 25), "new year's eve": (12, 31),
    "new year's day": (1, 1), "halloween": (10, 31), "valentine's day": (2, 14),
}  # fmt: skip

N = r"(?P<n>\d{1,4}|a hundred|" + "|".join(sorted(_NUMBERS, key=lambda w: (-len(w), w))) + ")"
UNIT = r"(?P<unit>day|week|month|year)s?"
DOW = (
    r"(?P<dow>mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:r(?:s(?:day)?)?)?|fri(?:day)?|sat(?:urday)?"
    r"|sun(?:day)?)"
)
MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_PART = r"(?: (?:morning|afternoon|evening|night))?"
_LAST = r"(?:last|this past|the past|past|the previous|previous)"
_HOLIDAY = r"(?P<holiday>christmas(?: eve| day)?|new year's (?:eve|day)|halloween|valentine's day)"


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text.lower()]


def _weekday(found: re.Match[str]) -> int:
    return _WEEKDAYS[found["dow"][:3].lower()]


def _month(found: re.Match[str]) -> int:
    return _MONTHS[found["month"][:3].lower()]


def _days(amount: int) -> Resolver:
    return lambda _, at: dates.day(at, amount)


def _units(amount: int) -> Resolver:
    return lambda found, at: dates.shifted(at, found["unit"].lower(), amount)


def _ago(found: re.Match[str], at: datetime) -> str:
    return dates.shifted(at, found["unit"].lower(), -_number(found["n"]))


def _ahead(found: re.Match[str], at: datetime) -> str:
    return dates.shifted(at, found["unit"].lower(), _number(found["n"]))


# "I lost five kilos in a month" says how long it took.
_PAST = regex(
    r"\b(?:was|were|had|did|been|got|went|took|made|lost|won|built|wrote|read|ran|drove|spent|sold|bought"
    r"|came|saw|ate|gave|found|grew|fell|left|done|never|[a-z]{2,}ed|(?:was|were|had|did|have|has)n't"
    r"|(?:have|has) not)\b",
    re.I,
)
_FUTURE = regex(
    r"\b(?:will|shall|would|is|are|am|be|going|want|wants|plan|plans|expect|due|should|can|must|if|to)\b"
    r"|'(?:ll|s|re|m|d)\b",
    re.I,
)
_CLAUSE = regex(r"[.!?;:,\n]|\b(?:and|but)\b")
_LONGEST_CLAUSE = 120  # characters


def _from_now(resolver: Resolver) -> Resolver:
    """Resolve "in two weeks", unless its clause tells of the past."""

    def resolved(found: re.Match[str], at: datetime) -> str | None:
        clause = _CLAUSE.split(found.string[max(0, found.start() - _LONGEST_CLAUSE) : found.start()])[-1]
        clause = clause.replace("’", "'")
        return None if _PAST.search(clause) and not _FUTURE.search(clause) else resolver(found, at)

    return resolved


def _exactly(sign: int) -> Resolver:
    """ "a week ago today", "three weeks from tomorrow"."""

    def resolver(found: re.Match[str], at: datetime) -> str:
        start = at + timedelta({"yesterday": -1, "today": 0, "tomorrow": 1}[found["anchor"].lower()])
        return dates.same_day(start, found["unit"].lower(), sign * _number(found["n"]))

    return resolver


def _clock(sign: int) -> Resolver:
    def resolver(found: re.Match[str], at: datetime) -> str:
        amount = sign * _number(found["n"])
        return dates.day(
            at + (timedelta(hours=amount) if found["unit"].lower() == "hour" else timedelta(minutes=amount))
        )

    return resolver


def _weekday_in_week(found: re.Match[str], at: datetime) -> str:
    weeks = {"last": -1, "this": 0, "next": 1}[found["which"].lower()]
    return dates.day_of_week(at, weeks, _weekday(found))


def _weeks_and_weekday(sign: int) -> Resolver:
    """ "a week ago Friday", "two weeks from Monday"."""

    def resolver(found: re.Match[str], at: datetime) -> str:
        near = (
            dates.last_weekday(at, _weekday(found)) if sign < 0 else dates.coming_weekday(at, _weekday(found))
        )
        return (date.fromisoformat(near) + timedelta(weeks=sign * _number(found["n"]))).isoformat()

    return resolver


def _named_month(found: re.Match[str], at: datetime) -> str | None:
    which, number = found["which"].lower(), _month(found)
    if which == "this":
        return f"{at.year:04}-{number:02}"
    if which == "last":  # said in May, "last March" may be this year's
        return f"{at.year - 1:04}-{number:02}" if number >= at.month else None
    return f"{at.year + 1:04}-{number:02}" if number <= at.month else None


def _month_and_year(found: re.Match[str], at: datetime) -> str:
    years = {"last": -1, "this": 0, "next": 1}[found["which"].lower()]
    return f"{at.year + years:04}-{_month(found):02}"


def _season(found: re.Match[str], at: datetime) -> str | None:
    which, season = found["which"].lower(), found["season"].lower()
    if season == "winter":  # two years share one
        return None
    if which == "this":
        return dates.year(at)
    starts, ends = {"spring": (3, 6), "summer": (6, 9), "fall": (9, 12), "autumn": (9, 12)}[season]
    if which == "last":
        return dates.year(at, -1) if at.month < starts else None
    return dates.year(at, 1) if at.month > ends else None


def _holiday(found: re.Match[str], at: datetime) -> str | None:
    month, number = _HOLIDAYS[found["holiday"].lower()]
    this_year = date(at.year, month, number)
    which = found["which"].lower()
    if which == "this":
        return this_year.isoformat()
    if which == "last":
        return this_year.replace(year=at.year - (this_year >= at.date())).isoformat()
    return this_year.replace(year=at.year + 1).isoformat() if this_year <= at.date() else None


def _number_of_month(found: re.Match[str], at: datetime) -> str:
    months = {"last": -1, "this": 0, "the": 0, "next": 1}[found["which"].lower()]
    return dates.day_of_month(at, months, int(found["number"]))


RULES = (
    Rules(
        "today|tonight|this|yesterday|night|tomorrow",
        (
            r"\b(?:earlier |later )?today\b|\btonight\b|\bthis (?:very )?(?:morning|afternoon|evening)\b",
            _days(0),
        ),
        (rf"\byesterday{_PART}\b|\blast night\b", _days(-1)),
        (rf"\btomorrow{_PART}\b", _days(1)),
        (rf"\b(?:the )?day before yesterday{_PART}\b|\b(?:the )?night before last\b", _days(-2)),
        (rf"\b(?:the )?day after tomorrow{_PART}\b", _days(2)),
    ),
    Rules(
        "ago",
        (rf"\b(?:exactly )?{N} {UNIT} ago\b(?! (?:today|yesterday))", _ago),
        (rf"\b{N} {UNIT} ago (?P<anchor>today|yesterday)\b", _exactly(-1)),
        (rf"\b{N} (?P<unit>hour|minute)s? ago\b", _clock(-1)),
        (r"\b(?:a|one) fortnight ago\b", lambda _, at: dates.week(at, -2)),
        (r"\bhalf a year ago\b", lambda _, at: dates.month(at, -6)),
        (r"\b(?:a year and a half|one and a half years) ago\b", lambda _, at: dates.month(at, -18)),
        (rf"\b{N} decades? ago\b", lambda found, at: dates.year(at, -10 * _number(found["n"]))),
        (rf"\b{N} weekends ago\b", lambda found, at: dates.weekend(at, -_number(found["n"]))),
        (
            rf"\b{N} {DOW}s ago\b",
            lambda found, at: dates.last_weekday(at, _weekday(found), _number(found["n"])),
        ),
        (rf"\b{N} weeks? ago,? (?:on )?{DOW}\b", _weeks_and_weekday(-1)),
    ),
    Rules(
        " back|from now|hence|from today|from tomorrow|from yesterday|week from|weeks from",
        (rf"\b{N} {UNIT} back\b", _ago),
        (rf"\b{N} {UNIT} (?:from now|hence)\b", _ahead),
        (rf"\b{N} {UNIT} from (?P<anchor>today|tomorrow|yesterday)\b", _exactly(1)),
        (rf"\b(?:in )?{N} (?P<unit>hour|minute)s? from now\b", _clock(1)),
        (rf"\b{N} weeks? from (?:next )?{DOW}\b", _weeks_and_weekday(1)),
    ),
    Rules(
        "day|week|month|year|fortnight",
        (
            rf"\bin (?:about |exactly )?{N} {UNIT}(?:'s?)?(?: time)?\b(?! (?:a|per|each|every|old|or|ago"
            rf"|from)\b|-)",
            _from_now(_ahead),
        ),
        (r"\bin (?:a|one) fortnight\b", _from_now(lambda _, at: dates.week(at, 2))),
        (r"\bin half a year\b", _from_now(lambda _, at: dates.month(at, 6))),
    ),
    Rules(
        "last|this|next|past|previous|coming|current|end of the|month",
        (r"\b(?<!the )(?:last|the previous|this past) (?P<unit>week|month|year)\b", _units(-1)),
        (r"\b(?:this|the current) (?P<unit>week|month|year)\b", _units(0)),
        (r"\bnext (?P<unit>week|month|year)\b", _units(1)),
        (r"\b(?:the )?end of the (?P<unit>week|month|year)\b", _units(0)),
        (r"\b(?:the )?(?P<unit>week|month|year) before last\b", _units(-2)),
        (r"\b(?:the )?(?P<unit>week|month|year) after next\b", _units(2)),
        (r"\b(?:last|this past|the past) weekend\b", lambda _, at: dates.weekend(at, -1)),
        (r"\bthis coming weekend\b", lambda _, at: dates.weekend(at, 0)),
        # Early in a week it may be the one that was.
        (
            r"\bthis weekend\b",
            lambda _, at: dates.weekend(at, 0) if at.weekday() >= dates.WEDNESDAY else None,
        ),
        (r"\bnext weekend\b", lambda _, at: dates.next_weekend(at)),
        (r"\b(?:the )?weekend before last\b", lambda _, at: dates.weekend(at, -2)),
        (rf"\b{_LAST} {DOW}\b{_PART}", lambda found, at: dates.last_weekday(at, _weekday(found))),
        (
            rf"\b(?:this |the )coming {DOW}\b{_PART}",
            lambda found, at: dates.coming_weekday(at, _weekday(found)),
        ),
        (rf"\bthis {DOW}\b{_PART}", lambda found, at: dates.this_weekday(at, _weekday(found))),
        (rf"\bnext {DOW}\b{_PART}", lambda found, at: dates.next_weekday(at, _weekday(found))),
        (rf"\b(?:the )?{DOW} before last\b", lambda found, at: dates.last_weekday(at, _weekday(found), 2)),
        (rf"\b{DOW}{_PART},? (?:of )?(?P<which>last|this|next) week\b", _weekday_in_week),
        (rf"\b(?P<which>last|this|next) week,? (?:on )?{DOW}\b", _weekday_in_week),
        (rf"\b(?P<which>last|this|next) {MONTH}\b(?! \d)", _named_month),
        (rf"\b{MONTH},? (?:of )?(?P<which>last|this|next) year\b", _month_and_year),
        (r"\b(?P<which>last|this|next) (?P<season>spring|summer|fall|autumn|winter)\b", _season),
        (rf"\b(?P<which>last|this|next) {_HOLIDAY}", _holiday),
        (
            r"\bthe (?P<number>\d{1,2})(?:st|nd|rd|th) (?:of )?(?P<which>last|this|next|the) month\b",
            _number_of_month,
        ),
    ),
)
