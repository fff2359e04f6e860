"""What a note may say: the values, dates and names of its source, and what can be worked out from them.

A model is asked to resolve "last Friday", to write "25" for "twenty five" and to say since when something has
been so. None of that stands in the source word for word, and none of it is invented. So a date is looked for
among the days, weeks, months and years that the source's own words can mean on the day they were said, a
number among the figures and number words, and a name among the words. What is in none of them is invented.

Everything is looked up only if the quick search for the same words fails, and in time that grows with the
length of the text.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from onlooker.domain.messages import is_real
from onlooker.policy.dates import resolve
from onlooker.policy.reply.readings import (
    DIGIT,
    FOR_A_DAY,
    FOR_A_MONTH,
    HEADING,
    LANGUAGES,
    LONG_YEAR,
    LOOK_BACK,
    MONTH_OF,
    MOST_SUMS,
    WEEKDAY_OF,
    WORD,
    Day,
    Span,
    Written,
    clock,
    figures,
    fits_weekday,
    in_han_or_hangul,
    lengths_of_time,
    of_iso,
    spans,
    spelled_out,
    sums,
    timed,
    weekday_beside,
    word_list,
    written_dates,
)
from onlooker.policy.text import language_of, regex
from onlooker.policy.values import Value, find_values, holds
from onlooker.policy.vocabulary import COMMON_WORDS


class Invented(NamedTuple):
    """Something in text[start:end] that the source neither says nor implies."""

    start: int
    end: int
    text: str


# -- Names

# A capital after a letter, or at the beginning of a line before what a person does or has.
_NAME = regex(r"(?<![\w'’.@/&-])[^\W\d_]{3,}(?![\w@/]|\.\w)")
_ASCII_NAME = regex(r"[A-Z](?<![\w'.@/&-][A-Z])[a-z][A-Za-z]+(?![\w@/]|\.\w)")  # the same, faster
_BEGINS = regex(
    r"(?:^|[.!?:;…。！？：；\"“„«(\[（「/|>=→•·–—*\-]|\d\.|\b(?:CRITICAL|IMPORTANT|NOTE))\s*[\"“„«(\[*]*$"
)
_DOES = word_list(
    """
    adopted advised advises agreed asked asks believes bought called decided emailed explained feels finds
    found gave hates hopes intends invited joined knows launched learned liked likes lived lives loved loves
    made married met moved needs offered opened planned plans preferred prefers promised puts recommended
    rehearsed said says shared started suggested thinks told took visited wanted wants worked works wrote
    """
)
_PERSON = regex(
    r"['’]s\b|\s(?:and|&)\s[A-Z]|\s(?:(?:also|now|still|never|often|already)\s)*(?:used to|went to"
    r"|is \w+ing to|is (?:a|an|the|from|married|allergic|vegan)|got (?:a|an|his|her|their)"
    r"|has (?:a|an|two|three)"
    rf"|lost (?:his|her|their)|{'|'.join(_DOES)})\b"
)
_EVERYWHERE = frozenset(
    word_list(
        """
        assistant user tool system english french german spanish dutch greek internet god christmas
        easter halloween thanksgiving
        """
    )
)
_COMMON = frozenset(COMMON_WORDS.split()) | frozenset(WEEKDAY_OF) | frozenset(MONTH_OF) | _EVERYWHERE
_ENDINGS = ("s", "es", "ed", "d", "ing", "er", "ers", "ly", "al", "'s")
_DEMONYM = ("ian", "ans", "ish", "ese", "ean", "can", "ic")
_MIN_SHARED = 4
_MAX_REST = 4


def _is_common(word: str) -> bool:
    return word in _COMMON or any(
        word.endswith(end) and (word[: -len(end)] in _COMMON or word[: -len(end)] + "e" in _COMMON)
        for end in _ENDINGS
    )


def _is_form_of(name: str, word: str) -> bool:
    """Return whether two words that begin alike are forms of one name: Mel and Melanie, Italy and Italian."""
    shared = next(
        (i for i, (a, b) in enumerate(zip(name, word, strict=False)) if a != b), min(len(name), len(word))
    )
    if shared == min(len(name), len(word)):
        return abs(len(name) - len(word)) <= _MAX_REST
    return shared >= _MIN_SHARED and name.endswith(_DEMONYM)


# -- The evidence

_CHECKED = frozenset({"number", "path", "id", "hash", "version", "money", "url", "email", "time"})
# A part of such a value is not invented: where the whole ends is a matter of dots.
_WHOLE = frozenset({"path", "id", "url", "email"})
_NO_NUMBER = regex(r"(?<!\d)\d{1,2}:\d\d(?::\d\d)?(?!\d)|(?<![\d-])(?:19|20)\d\d-\d\d(?:-\d\d)?(?![\d-])")
_REPEATED = regex(r"(?<=\s)[×x]\s?\d+\b|\b\d+\s?[×x](?!\w)")
_OF_A_WEEK = regex(r"\b(?:week (?:of|from|beginning|starting)|w/c|woche vom|semaine du|semana del)\s*$", re.I)
_STEM = 3
_MAX_LINE_LENGTH = 20_000


# Characters on each side of a value: with those of the source, it is copied.
_AROUND = 3


class Evidence:
    """A source, and what can be worked out from it.

    `text` has the heading of each day as notes have it, `day` is the day of what stands before the first one,
    and `shown` is what the model was shown besides: the notes so far.
    """

    def __init__(self, text: str, day: Day | None, shown: str = "") -> None:
        self._text = f"{text}\n{shown}" if shown else text
        self._source, self._shown, self._day = text, shown, day

    def invented(self, text: str, day: Day | None = None, *, names: bool = True) -> list[Invented]:
        """Return what is invented in a line of a note, in order. Counts of repetitions ("×4") are not.

        With the day of the line, the date beside "yesterday" must be that of the day before. Of a line that
        nobody would write, the rest counts as invented: it is not read.
        """
        rest = text[_MAX_LINE_LENGTH:]
        text = text[:_MAX_LINE_LENGTH]
        found: list[Invented] = []
        if rest:
            found.append(Invented(len(text), len(text) + len(rest), rest))
        if DIGIT.search(text):  # a date has one, and so has "×4"
            dates = list(written_dates(text, self._years))
            found += self._dates(text, day, dates)
            for date in dates:
                text = text[: date.start] + " " * (date.end - date.start) + text[date.end :]
            text = _REPEATED.sub(lambda repeated: " " * len(repeated[0]), text)
        found += self._values(text)
        found += self._names(text) if names else ()
        return sorted(found)

    # -- dates

    def _dates(self, text: str, day: Day | None, dates: Sequence[Written]) -> Iterator[Invented]:
        for date in dates:
            written = text[date.start : date.end]
            beside = weekday_beside(text, date.start, date.end)
            said = holds(self._text, written) and not any(written == d.isoformat() for d in self.days)
            if not said and (not self._is_implied(date, text) or _is_resolved_wrongly(text, date, day)):
                yield Invented(date.start, date.end, written)
            elif beside and date.readings and not fits_weekday(date, beside[0]):
                start, end = min(date.start, beside[1]), max(date.end, beside[2])
                if text[start:end] not in self._text:
                    yield Invented(beside[1], beside[2], text[start:end])

    def _is_implied(self, date: Written, text: str) -> bool:
        in_week = _OF_A_WEEK.search(text[max(0, date.start - 24) : date.start]) is not None
        return any(self.means(first, last, in_week) for first, last in date.readings) or (
            date.end - date.start == 4 and self.has_number(float(text[date.start : date.end]))
        )

    def means(self, first: Day, last: Day, in_week: bool = False) -> bool:
        """Return whether the source's words can mean these days."""
        days, months, years = self._calendar
        if not (is_real(first) and is_real(last)):
            return False
        length = (last - first).days + 1
        if in_week or 1 < length <= 7:
            start = first.toordinal() - (first.weekday() if in_week else 0)
            return any(start + n in days for n in range(7 if in_week else length))
        if first.day == 1 and 28 <= length <= 93:
            return any(first.year * 12 + first.month + n in months for n in range(round(length / 30)))
        if length <= FOR_A_MONTH:
            return first.toordinal() in days and last.toordinal() in days
        if length in (3652, 3653):
            return any(year in years for year in range(first.year, last.year + 1))
        return first.year in years and last.year in years

    @cached_property
    def _headings(self) -> list[re.Match[str]]:
        return list(HEADING.finditer(self._source))

    @cached_property
    def _sections(self) -> list[tuple[Day, str]]:
        """What was said, by its day."""
        parts: list[tuple[Day, str]] = []
        day, start = self._day, 0
        for heading in self._headings:
            if day is not None and heading.start() > start:
                parts.append((day, self._source[start : heading.start()]))
            try:
                day = Day.fromisoformat(heading[1])
            except ValueError:
                continue
            start = heading.end()
        if day is not None:
            parts.append((day, self._source[start:]))
        return [(day, text) for day, text in parts if is_real(day)]

    @cached_property
    def _timed(self) -> list[tuple[Day, str]]:
        """The sentences that may speak of a time, by the day they were said on."""
        return [(day, timed(text)) for day, text in self._sections]

    @cached_property
    def days(self) -> list[Day]:
        """The days of the source's headings."""
        found = {heading[1] for heading in self._headings}
        return sorted({day for day, _ in self._sections if day.isoformat() in found})

    @cached_property
    def _years(self) -> list[int]:
        days = [day for day, _ in self._sections]
        return sorted({day.year + n for day in days for n in (-1, 0, 1)})

    @cached_property
    def _knows_language(self) -> bool:
        return self._language in LANGUAGES

    @cached_property
    def _language(self) -> str:
        return language_of(self._text)

    @cached_property
    def _calendar(self) -> tuple[set[int], set[int], set[int]]:
        """The days (as ordinals), months (as numbers) and years that the words can mean."""
        days: set[int] = set()
        months: set[int] = set()
        years = {int(found[1]) for found in LONG_YEAR.finditer(self._text)}
        for span in self._all_spans():
            length = span.last - span.first + 1
            first, last = Day.fromordinal(span.first), Day.fromordinal(span.last)
            years.update(range(first.year, last.year + 1))
            if length <= FOR_A_MONTH:
                months.update(range(first.year * 12 + first.month, last.year * 12 + last.month + 1))
            if length <= FOR_A_DAY:
                days.update(range(span.first, span.last + 1))
        return days, months, years

    def _all_spans(self) -> Iterator[Span]:
        # The dates of notes are resolved already.
        for line in filter(DIGIT.search, self._shown.splitlines()):
            for written in written_dates(line, self._years):
                yield from (Span(first.toordinal(), last.toordinal()) for first, last in written.readings)
        for day, text in self._timed:
            single: list[int] = []
            for written in written_dates(text, (day.year - 1, day.year, day.year + 1)):
                yield from (Span(first.toordinal(), last.toordinal()) for first, last in written.readings)
            for span in spans(text, day):
                if span.first == span.last and len(single) < MOST_SUMS:
                    single.append(span.first)
                yield span
            yield from sums(text, single)
            if not self._knows_language:  # its words for days are not known
                yield from (
                    Span(day.toordinal() + 14 * n, day.toordinal() + 14 * n + 13) for n in range(-26, 26)
                )

    # -- values

    def _values(self, text: str) -> Iterator[Invented]:
        for value in find_values(text):
            if value.kind in _CHECKED and not self._holds(value):
                start = text.index(value.text, value.at)
                end = start + len(value.text)
                if not self._copied(text, start, end):
                    yield Invented(start, end, value.text)

    def _copied(self, text: str, start: int, end: int) -> bool:
        """Return whether a value stands in the source with the characters on both sides, whatever it is."""
        is_inside = start >= _AROUND and len(text) - end >= _AROUND
        if is_inside and text[start - _AROUND : end + _AROUND] in self._text:
            return True
        # Or the whole of what is written without blanks around it ("10.00:01"), but for a full stop.
        first = max(text.rfind(blank, 0, start) for blank in " \n") + 1
        written = text[first:].split(maxsplit=1)[0].rstrip(".")
        return len(written) > end - start and written in self._written

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(word.rstrip(".") for word in self._text.split())

    def _holds(self, value: Value) -> bool:
        if value.kind == "time":
            return holds(self._text, value.text) or set(clock(value.text)) <= self._times
        if value.kind not in ("number", "money") and (
            holds(self._text, value.text) or (value.kind in _WHOLE and value.text in self._text)
        ):
            return True
        # The same value in another form: 1,240 and 1240, 25 and "twenty five", or attached to a word ("P95").
        bare = value.text.replace(",", "")
        if re.search(rf"(?<![\d.])(?<!\d-){re.escape(bare)}(?!\.?\d)", self._plain):
            return True
        if value.kind not in ("number", "money"):
            return False
        return not self._knows_language or any(map(self.has_number, figures(value.text)))

    @cached_property
    def _plain(self) -> str:
        """The text without times and dates, whose parts are not numbers, and without commas."""
        return _NO_NUMBER.sub(" ", self._text).replace(",", "")

    def has_number(self, number: float) -> bool:
        """Return whether the source has this number in figures or words, or as a length of time."""
        return abs(number) in self._numbers or (number == int(number) and abs(number) in self._lengths)

    @cached_property
    def _numbers(self) -> set[float]:
        text = _NO_NUMBER.sub(" ", self._text)
        return {*figures(text), *spelled_out(text), *in_han_or_hangul(text)}

    @cached_property
    def _lengths(self) -> set[int]:
        """Years since a year that is named, weeks as days, days between two that are named."""
        lengths: set[int] = set()
        years = {int(found[1]) for found in islice(LONG_YEAR.finditer(self._text), MOST_SUMS)}
        for now in {day.year for day, _ in self._sections}:
            lengths |= {abs(now - year) + n for year in years for n in (-1, 0)}
        timed = "\n".join(text for _, text in self._timed)
        for n, unit, _ in lengths_of_time(timed):
            other = {"week": {7 * n}, "fortnight": {14 * n, 2 * n}, "year": {12 * n}}
            lengths |= other.get(unit, {n // 7} if n % 7 == 0 else set[int]())
        named = sorted({r[0] for w in written_dates(timed, self._years) for r in w.readings})[:MOST_SUMS]
        return lengths | {(b - a).days + n for i, a in enumerate(named) for b in named[i:] for n in (0, 1)}

    @cached_property
    def _times(self) -> set[str]:
        return set(clock(self._text))

    def has_day(self, iso: str) -> bool:
        """Return whether a day, as 2026-02-16, is said or meant."""
        return iso in self._text or any(self.means(*r) for w in written_dates(iso, ()) for r in w.readings)

    def has_time(self, time: str) -> bool:
        """Return whether a time of day, as 14:02, is said."""
        return time in self._times

    # -- names

    def _names(self, text: str) -> Iterator[Invented]:
        names = _ASCII_NAME if text.isascii() else _NAME
        suspect = [
            found
            for found in names.finditer(text)
            if found[0][0].isupper() and found[0][1].islower() and found[0] not in self._text
        ]
        if not suspect or self._names_are_unknown:
            return
        for found in suspect:
            begins = _BEGINS.search(text[max(0, found.start() - 12) : found.start()])
            if begins and not _PERSON.match(text, found.end()):
                continue
            if not self._has_name(found[0].casefold()):
                yield Invented(found.start(), found.end(), found[0])

    @cached_property
    def _names_are_unknown(self) -> bool:
        # In German every noun has a capital; of an unclear language it is not known.
        return self._language == "german" or not any(c.isupper() for c in self._text)

    def _has_name(self, name: str) -> bool:
        if name in self._compact or _is_common(name):
            return True
        at = bisect_left(self._words, name[:_STEM])
        end = bisect_right(self._words, name[:_STEM] + chr(0x10FFFF))
        return any(_is_form_of(name, word) for word in self._words[at:end])

    @cached_property
    def _compact(self) -> str:
        """The text without spaces and signs: "Door Dash" and "McDonald's" as one word each."""
        return "".join(filter(str.isalnum, self._text.casefold()))

    @cached_property
    def _words(self) -> list[str]:
        return sorted(set(WORD.findall(self._text.casefold())))


def invented(note: str, source: str, day: Day | None = None) -> list[str]:
    """Return what a note says and its source does not. Headings and times in brackets do not count."""
    evidence = Evidence(source, day)
    lines = (_STAMP.sub("", line) for line in note.splitlines() if line and not HEADING.match(line))
    return list(dict.fromkeys(found.text for line in lines for found in evidence.invented(line)))


_STAMP = regex(r"^\[(?:\d{4}-\d\d-\d\d )?\d\d:\d\d\]")


def _is_resolved_wrongly(text: str, date: Written, day: Day | None) -> bool:
    """Return whether the words before a date in brackets mean another date: "yesterday (2023-06-01)"."""
    if day is None or not is_real(day) or not date.readings or text[date.start - 1] not in "(（":
        return False
    before = text[max(0, date.start - LOOK_BACK) : date.start - 1].rstrip()
    for found in resolve(before, dt.datetime.combine(day, dt.time(12))):
        if found.end == len(before):
            meant = list(of_iso(found.iso))
            return not any(
                span.first <= last.toordinal() and first.toordinal() <= span.last
                for span in meant
                for first, last in date.readings
            )
    return False
