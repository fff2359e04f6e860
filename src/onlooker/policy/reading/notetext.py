"""A note's text as lines, read from whatever a model answered and written back in our form."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from onlooker.domain.notes import NoteFormat
from onlooker.policy.reading.stamps import Head, Priority, heading_date, take_head
from onlooker.policy.reading.wrapping import unwrap

# "#12 is fixed" is about an issue; two hashes are a heading with or without the space.
_HEADING = re.compile(r"(?:#{2,6}\s*|#\s+)(?=[^\s#])")
_BOLD_LINE = re.compile(r"(?:\*\*|__)([^*\n]{1,80}?)(?:\*\*|__)\s*[:：]?$")
_COLON_LINE = re.compile(r"([^\W\d_][^:：\n]{0,60})[:：]$")
# Emphasis has space or punctuation outside it; `f(**options)` and `**kwargs` do not.
_BOLD = re.compile(r"(?<![\w*(=,/])\*\*(\S(?:[^*\n]*[^\s*])?)\*\*(?![\w*(/=])")
_INDENT = re.compile(r"(?: {2,}|\t)\s*(?P<bullet>(?:[-*+•‣◦▪]|\d{1,2}[.)])\s+)?")
_VALUES = re.compile(r"(?:[-*•]\s+)?\**(?:exact\s+)?values?(?:\s+used)?\s*\**\s*[:：]\s*\**\s*(?=\S|$)", re.I)
_TABLE_ROW = re.compile(r"\|(.+)\|\s*$")
# Headings that name no topic, the ones of our own prompt among them: a reply must not forge those.
_NO_TOPIC = re.compile(
    r"(?:conversation memory|memory|observations?|reflections?|notes?|note log|observation log|summary|log"
    r"|conversation|key (?:points|facts)|facts|details|updates?|new observations|notes so far|general"
    r"|other|misc"
    r"|time|date|priority|text|beobachtungen|notizen|zusammenfassung|résumé|resumen|notas|observaciones"
    r"|观察|观察记录|觀察|笔记|筆記|记录|摘要|总结|観察|観察記録|メモ|要約|관찰|메모|요약|наблюдения"
    r"|заметки|итоги)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One thing noted: when it was said, how much it matters, and what it says."""

    text: str
    day: dt.date | None = None
    time: dt.time | None = None
    priority: Priority = "NOTE"

    def render(self) -> str:
        """The line as it stands under the heading of its day."""
        stamp = f"[{self.time:%H:%M}] " if self.time else ""
        if self.priority != "NOTE":
            return f"{stamp}{self.priority} {self.text}"
        # NOTE is understood, unless the text alone would be read as something else.
        understood = read(stamp + self.text, format="lines", day=self.day).lines == (self,)
        return stamp + self.text if understood else f"{stamp}NOTE {self.text}"


@dataclass(frozen=True, slots=True)
class NoteText:
    """A note, read: its lines in order of their days, and the exact values beside them."""

    lines: tuple[Line, ...] = ()
    values: tuple[str, ...] = ()
    format: NoteFormat = "lines"
    # How many lines came with a date, a time, a priority or under a dated heading.
    dated: int = field(default=0, compare=False)

    def render(self) -> str:
        """The note in our own form, without an empty line."""
        rendered: list[str] = []
        day: dt.date | None = None
        for line in self.lines:
            if line.day and line.day != day:
                day = line.day
                rendered.append(f"## {day.isoformat()}")
            rendered.append(line.render() if self.format == "lines" else line.text)
        if self.values:
            rendered.append("Values: " + " · ".join(self.values))
        return "\n".join(rendered)


def read(text: str, *, format: NoteFormat, day: dt.date | None = None) -> NoteText:
    """Read a reply, repairing what can be repaired. `day` is when lines without a date were said."""
    if format == "prose":
        return _read_prose(unwrap(text))
    reader = _Reader(day)
    for line in unwrap(text):
        reader.take(line)
    lines = sorted(reader.lines, key=lambda line: line.day or dt.date.min)
    return NoteText(tuple(lines), _unique(reader.values), "lines", reader.dated)


def critical_lines(text: str) -> tuple[str, ...]:
    """The texts of a note's CRITICAL lines: what a reflection of it has to keep word for word."""
    return _unique([line.text for line in read(text, format="lines").lines if line.priority == "CRITICAL"])


class _Reader:
    """Goes through the lines of a reply once, remembering the heading that each stands under."""

    def __init__(self, day: dt.date | None) -> None:
        self.lines: list[Line] = []
        self.values: list[str] = []
        self.dated = 0
        self._day = day
        self._under_date = False
        self._topic = ""
        self._priority: Priority = "NOTE"
        self._time: dt.time | None = None
        self._in_values = False
        self._joinable = False  # whether the newest line stands under the newest heading

    def take(self, raw: str) -> None:
        line = raw.strip()
        if not line:
            return
        if (heading := _heading(line)) is not None:
            self._take_heading(heading)
        elif match := _VALUES.match(line):
            values = split_values(_plain(line[match.end() :]))
            self.values += values
            self._in_values = not values  # then they follow, one on each line
        elif not self._joins_previous(raw):
            self._take_line(line)

    def _take_heading(self, heading: str) -> None:
        self._in_values = self._joinable = False
        self._time = None
        if dated := heading_date(heading):
            self._day, topic = dated
            self._under_date = True
            self._priority = "NOTE"
            self._topic = _topic(topic)
            return
        if _VALUES.fullmatch(heading + ":") or heading.lower() == "values":
            self._in_values = True
            return
        head = take_head(heading.rstrip(":： ") + ":")
        if head.priority and not head.text.strip(":： "):
            self._priority, self._topic = head.priority, ""
            return
        self._topic = _topic(re.sub(r"^about\s+", "", heading.strip(" :：*_"), flags=re.I))
        self._priority = "NOTE"

    def _take_line(self, line: str) -> None:
        if row := _TABLE_ROW.match(line):
            cells = [c.strip() for c in row[1].split("|") if c.strip()]
            if all(_NO_TOPIC.fullmatch(c) for c in cells):
                return
            line = " ".join(cells)
        head = take_head(_plain(line))
        if self._in_values and not head.found:
            self.values += split_values(head.text)
            return
        self._in_values = False
        if any(c.isalnum() or not c.isascii() for c in head.text):
            self._add(head)
        elif head.found:
            self._take_stamp_alone(head)

    def _take_stamp_alone(self, head: Head) -> None:
        """A stamp on a line of its own is a heading."""
        if head.day:
            self._day, self._under_date = head.day, True
        if head.priority:
            self._priority = head.priority
        self._time = head.time

    def _add(self, head: Head) -> None:
        if head.found or self._under_date:
            self.dated += 1
        day = head.day or self._day
        text = self._with_topic(re.sub(r"\s+", " ", head.text))
        self.lines.append(Line(text, day, head.time or self._time, head.priority or self._priority))
        self._joinable = True

    def _with_topic(self, text: str) -> str:
        """Name the topic in the line itself: a line has to be understood alone."""
        if not self._topic or self._topic.casefold() in text.casefold():
            return text
        return f"{self._topic}: {text}"

    def _joins_previous(self, raw: str) -> bool:
        """Whether the line is indented under the one before and goes on with it."""
        indent = _INDENT.match(raw)
        if indent is None or not self._joinable or self._in_values:
            return False
        rest = _plain(raw[indent.end() :].strip())
        if not rest or take_head(rest).found:
            return False
        before = self.lines[-1]
        joint = " " if not indent["bullet"] or before.text.endswith((":", "：", ";")) else "; "
        self.lines[-1] = replace(before, text=before.text + joint + re.sub(r"\s+", " ", rest))
        return True


def _heading(line: str) -> str | None:
    """What the line names as a heading: after hashes, in bold, or short and ending with a colon."""
    if match := _HEADING.match(line):
        return _plain(line[match.end() :].rstrip(" #"))
    match = _BOLD_LINE.match(line) or _COLON_LINE.match(line)
    if (
        match is None
        or len(match[1].split()) > 6
        or match[1].rstrip().endswith((".", "。", "!", "！", "?", "？"))
    ):
        return None
    head = take_head(match[1])
    return None if head.found and head.text else match[1]


def _topic(heading: str) -> str:
    """What a heading says that its lines are about, if anything."""
    topic = take_head(heading[:60]).text.rstrip(" :：*_|")
    says = any(c.isalnum() for c in topic) and not _NO_TOPIC.fullmatch(topic)
    return re.sub(r"\s+", " ", topic) if says else ""


def _read_prose(raw: Sequence[str]) -> NoteText:
    """One paragraph: the sentences of the reply without headings and bullets."""
    parts: list[str] = []
    values: list[str] = []
    for line in raw:
        if match := _VALUES.match(line.strip()):
            values += split_values(_plain(line.strip()[match.end() :]))
        else:
            parts += _prose_parts(line)
    text = re.sub(r"\s+", " ", " ".join(parts)).strip()
    while (shorter := text.lstrip("#> ")) != text:
        text = shorter
    return NoteText((Line(text),) if text else (), _unique(values), "prose")


def _prose_parts(raw: str) -> Iterator[str]:
    line = raw.strip()
    heading = _heading(line)
    if heading is None:
        if text := re.sub(r"^(?:[-*+•‣◦▪●>]\s+)+", "", _plain(line)):
            yield text
        return
    topic = heading.strip(" :：*_")
    if topic and not _NO_TOPIC.fullmatch(topic) and heading_date(topic) is None:
        yield topic + ":"


def split_values(text: str) -> list[str]:
    """The values of a ledger line. One comma may be part of a name; two divide a list."""
    separator = next((s for s in ("·", ";", "|") if s in text), ", " if text.count(", ") > 1 else "·")
    parts = text.split(separator)
    return [value for part in parts if (value := re.sub(r"\s+", " ", part).strip(" `"))]


def _plain(text: str) -> str:
    """The text without bold marks."""
    return _BOLD.sub(r"\1", text).strip()


def _unique(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
