"""The head of a line: the date, the time and the priority that stand before its text.

Models are asked for one form and answer in many. Everything recognised here is taken off the line
and put back in our form; whatever is not recognised stays part of the text.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, replace
from typing import Literal

Priority = Literal["CRITICAL", "IMPORTANT", "NOTE"]

_WORDS: dict[Priority, str] = {
    "CRITICAL": (
        "critical kritisch kritisk critique crítico crítica critico critica krytyczne критично критическое "
        "关键 關鍵 严重 重大 緊急 치명적 심각"
    ),
    "IMPORTANT": ("important high wichtig viktig importante ważne importantes важно важное 重要 중요"),
    "NOTE": "note low info notiz merknad nota notatka заметка примечание 备注 備註 注 メモ 備考 메모 참고",
}
_PRIORITY: dict[str, Priority] = {word: p for p, words in _WORDS.items() for word in words.split()}
# "High: 23 °C" and the like are text: these words count inside brackets only.
_ANYWHERE = [w for w in _PRIORITY if w not in {"high", "low", "info", "注"}]
_SHOUTED = "|".join(w.upper() for w in _ANYWHERE)
_NAMED = "|".join(_ANYWHERE)
_EMOJI: dict[str, Priority] = {
    **dict.fromkeys("🔴🚨❗‼", "CRITICAL"),
    **dict.fromkeys("🟠🟡⚠", "IMPORTANT"),
    **dict.fromkeys("🟢🔵⚪", "NOTE"),
}
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTH = r"(?P<mon>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"

_DATES = (
    re.compile(r"(?<!\d)(?P<y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?<!\d)(?P<y>\d{4})[年년]\s?(?P<m>\d{1,2})[月월]\s?(?P<d>\d{1,2})[日일]"),
    re.compile(r"(?<!\d)(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>\d{4})(?!\d)"),
    re.compile(rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s{_MONTH},?\s(?P<y>\d{{4}})(?!\d)", re.I),
    re.compile(rf"\b{_MONTH}\s(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<y>\d{{4}})(?!\d)", re.I),
)
_TIME = re.compile(
    r"(?<![\d:.])(?P<h>\d{1,2})[:：](?P<min>\d{2})(?:[:：]\d{2}(?:\.\d+)?)?\s?(?P<half>[AaPp]\.?[Mm]\.?)?(?![\d:])"
)
_WEEKDAY = re.compile(
    r"\b(?:mon|tues?|wednes|thurs?|fri|satur|sun)(?:day)?\b|(?:星期|周|週)[一二三四五六日天]"
    r"|[月火水木金土日]曜日?",
    re.I,
)
_LEFT_OVER = re.compile(r"\b(?:date|day|utc|gmt|at|on|T|Z)\b|[+-]\d{2}:?\d{2}\b|[\s,;:|()\-–—·@/]", re.I)

_SQUARE = re.compile(r"[\[【]([^\[\]【】\n]{1,48})[\]】]\s*")
_ROUND = re.compile(r"[(（]([^()（）\n]{1,24})[)）]\s*")
_BARE_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2})(?:\s*[:：|](?:\s+|$)|\s+[-–—]\s+|(?=[T ]\d{1,2}:\d{2}))[T ]?"
)
_BARE_TIME = re.compile(
    r"(\d{1,2}:\d{2}(?::\d{2})?(?:\s?[AaPp][Mm])?)(?!\s*[-–—]\s*\d)(?:\s*[:：|]|\s*[-–—](?=\s))?\s+"
)
_BARE_PRIORITY = re.compile(rf"({_SHOUTED})(?:\s*[:：|]\s*|\s+[-–—]\s+|\s+|$)")
_NAMED_PRIORITY = re.compile(rf"({_NAMED})\s*[:：]\s*", re.I)
_MARK = re.compile(r"([🔴🚨❗‼🟠🟡⚠🟢🔵⚪])\ufe0f?\s*")
# "16. Februar" is a date, not the sixteenth item of a list.
_NO_MONTH = r"(?!\s*(?:jan|feb|m[aä]r|apr|mai|jun|jul|aug|sep|okt|nov|de[zs])[a-zé]*\b)"
_BULLET = re.compile(
    rf"(?:[-*+•‣◦▪●·–—>]|#{{1,6}}|\d{{1,3}}\)|\d{{1,2}}\.{_NO_MONTH})(?:\s+|$)|[:：|]+\s*", re.I
)
_JOINT = re.compile(r"[:：|]\s*|[-–—]\s+")
# Nobody writes more bullets and stamps than this before a text; whoever does may keep them.
_MOST_MARKS = 12


@dataclass(frozen=True, slots=True)
class Head:
    """What stood before the text of a line, and the text."""

    text: str
    day: dt.date | None = None
    time: dt.time | None = None
    priority: Priority | None = None

    @property
    def found(self) -> bool:
        return bool(self.day or self.time or self.priority)


def take_head(line: str) -> Head:
    """Take bullets, stamps and a priority off the front of a line, each kind at most once."""
    head = Head(line.strip())
    for _ in range(_MOST_MARKS):
        shorter = _take_one(head)
        if shorter is None:
            break
        head = shorter
    return head


def find_date(text: str) -> tuple[dt.date, str] | None:
    """The first date in the text, and the text without it."""
    hits = [(m.start(), m) for pattern in _DATES if (m := pattern.search(text))]
    for _, match in sorted(hits, key=lambda hit: hit[0]):
        if day := _as_date(match):
            return day, text[: match.start()] + " " + text[match.end() :]
    return None


def heading_date(text: str) -> tuple[dt.date, str] | None:
    """The day that a heading names, and the topic it names beside it."""
    found = find_date(text)
    if found is None:
        return None
    day, rest = found
    if again := find_date(rest):  # a span of days: its lines stand under the first
        rest = again[1]
    rest = _WEEKDAY.sub(" ", rest)
    topic = re.sub(r"^(?:date|day|on|to|日期|日付)\b", "", rest.strip(" :：,;()-–—|·*_"), flags=re.I)
    return day, topic.strip(" :：,;()-–—|·*_")


def _take_one(head: Head) -> Head | None:
    text = head.text
    if match := _BULLET.match(text):
        return replace(head, text=text[match.end() :].lstrip())
    for pattern in (_SQUARE, _ROUND):
        if (match := pattern.match(text)) and (inside := _read_inside(match[1], pattern is _SQUARE)):
            return _merge(head, inside, _after(text, match.end()))
    for pattern in (_BARE_DATE, _BARE_TIME):
        if (match := pattern.match(text)) and (inside := _read_inside(match[1], True)):
            return _merge(head, inside, text[match.end() :].lstrip())
    if match := _MARK.match(text):
        return _merge(head, Head("", priority=_EMOJI[match[1]]), _after(text, match.end()))
    if match := _BARE_PRIORITY.match(text) or _NAMED_PRIORITY.match(text):
        return _merge(head, Head("", priority=_PRIORITY[match[1].lower()]), text[match.end() :].lstrip())
    return None


def _after(text: str, at: int) -> str:
    """What follows a stamp, without the colon or dash that joined it."""
    rest = text[at:].lstrip()
    joint = _JOINT.match(rest)
    return rest[joint.end() :].lstrip() if joint else rest


def _merge(head: Head, inside: Head, text: str) -> Head | None:
    """Add what was found; None where that kind was found before, so that it is text this time."""
    if (head.day and inside.day) or (head.time and inside.time) or (head.priority and inside.priority):
        return None
    return Head(text, head.day or inside.day, head.time or inside.time, head.priority or inside.priority)


def _read_inside(text: str, dates_count: bool) -> Head | None:
    """A date, a time and a priority, if that is all the text holds.

    A date in round brackets is what a line refers to, not when it was said.
    """
    day = time = priority = None
    rest = text
    if dates_count and (found := find_date(rest)):
        day, rest = found
    if match := _TIME.search(rest):
        time = _as_time(match)
        rest = rest[: match.start()] + " " + rest[match.end() :] if time else rest
    rest = _LEFT_OVER.sub(" ", _WEEKDAY.sub(" ", rest)).strip()
    if rest.lower() in _PRIORITY:
        priority, rest = _PRIORITY[rest.lower()], ""
    if rest or not (day or time or priority):
        return None
    return Head("", day, time, priority)


def _as_date(match: re.Match[str]) -> dt.date | None:
    parts = match.groupdict()
    month = int(parts["m"]) if parts.get("m") else _MONTHS.index(parts["mon"].lower()) // 4 + 1
    try:
        return dt.date(int(parts["y"]), month, int(parts["d"]))
    except ValueError:
        return None


def _as_time(match: re.Match[str]) -> dt.time | None:
    hour, half = int(match["h"]), (match["half"] or "")[:1].lower()
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    try:
        return dt.time(hour, int(match["min"]))
    except ValueError:
        return None
