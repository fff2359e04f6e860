"""Parse a model's reply into the lines of a note, and render them in Onlooker's format."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Literal, NamedTuple

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message
from onlooker.domain.notes import NoteFormat
from onlooker.policy.text import encodable, regex

# -- Unwrapping: remove thinking, code fences, a preamble and a closing offer from a reply

_THINKS = r"(?:think|thinking|reasoning|scratchpad)"
_OPENS_THINKING = regex(rf"^[ \t]*<{_THINKS}>", re.I | re.M)
# The whole line must match, since a note may mention such a tag.
_CLOSES_THINKING = regex(rf"^.*</{_THINKS}>[ \t]*$", re.I | re.M)
_FENCE = regex(r"\s*(?:```+|~~~+)\s*[\w.+-]*\s*$")
_TAG = regex(r"\s*(?:</?[a-z][\w-]{0,40}>\s*)+$", re.I)
_RULE = regex(r"\s*(?:[-*_=~#—]\s*){3,}$")
_TABLE_RULE = regex(r"[\s|:-]+$")
# Tokens of chat templates, which could end a message inside a prompt.
_TEMPLATE_TOKEN = regex(r"<\|([A-Za-z_]{1,30})\|>")
_UNPRINTABLE = regex("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufff9-\ufffb]")
# Any of these two, or a line break that is not "\n".
_UNCLEAN = regex("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufff9-\ufffb\ud800-\udfff]")

_SUBJECT = (
    r"observ|note|reflect|summar|memor|log|condens|updat|entr|beobacht|notiz|zusammenfass|resum|résum"
    r"|sammendrag|notat|merknad|riassunt|appunt|nota|观察|觀察|笔记|筆記|记录|記錄|摘要|总结|總結|観察"
    r"|メモ|要約|記録"
    r"|관찰|메모|요약|наблюден|замет|резюме"
)
_OPENING = (
    r"^(?:(?:sure|certainly|of course|okay|ok|absolutely|understood|alright|got it|great|klar|gerne"
    r"|natürlich"
    r"|bien sûr|d'accord|claro|por supuesto|certo|конечно|好的|当然|當然|了解|はい|承知しました"
    r"|わかりました|네|알겠습니다)"
    r"[\s,.!，。！、-]*){0,3}"
)
_HERE_IS = regex(_OPENING + r"here(?:'s|’s| is| are)\b", re.I)
_POINTS = regex(
    _OPENING + r"(?:here|below (?:is|are)|i(?:'ve|’ve| have)|these are|the following|this is|based on"
    r"|hier (?:ist|sind)|voici|ci-dessous|aquí|a continuación|aqui|ecco|her er|вот|以下|下面|这是|這是"
    r"|これ|다음은|아래)",
    re.I,
)
_COURTESY = regex(
    r"^(?:sure|certainly|of course|okay|ok|absolutely|understood|alright|got it|no problem|好的"
    r"|当然可以|はい"
    r"|承知しました|네|알겠습니다|gerne|claro|bien sûr)[!.,。！]*$",
    re.I,
)
_CLOSING = regex(
    r"^[\[(*_]*(?:let me know|i hope (?:this|that)|hope this helps|feel free|would you like me"
    r"|if you (?:need|want|would like|'d like)"
    r"|is there anything else|please let me know|end of (?:notes|observations|reflection|log)|\(?end\)?$"
    r"|lass mich wissen|n'hésitez pas|avísame|如果您|如需|希望这|希望這|ご不明な点|필요하시면|дайте знать)",
    re.I,
)


def clean(text: str) -> str:
    """Remove characters that a note must not contain, and make template tokens harmless."""
    if "<|" not in text and not _UNCLEAN.search(text):
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    text = _UNPRINTABLE.sub("", encodable(text.replace("\x0b", "\n").replace("\x0c", "\n")))
    return _TEMPLATE_TOKEN.sub(r"[\1]", text.replace("\x85", "\n"))


def is_thinking_only(text: str) -> bool:
    """Return whether the reply ended while the model was still thinking."""
    return "<" in text and bool(_OPENS_THINKING.search(_after_thinking(text)))


def unwrap(text: str) -> list[str]:
    """Return the lines of the answer itself, including blank ones."""
    lines = [line.rstrip() for line in _after_thinking(clean(text)).split("\n")]
    lines = [line for line in lines if line[:1].isalnum() or not _is_wrapping(line)]
    return _without_closing(_without_preamble(lines))


def _is_wrapping(line: str) -> bool:
    return bool(_FENCE.match(line) or _TAG.match(line)) or is_rule(line)


def _after_thinking(text: str) -> str:
    """Return what follows the last closing tag of thinking; some servers send no opening tag."""
    if "</" not in text:
        return text
    ends = [closing.end() for closing in _CLOSES_THINKING.finditer(text)]
    return text[ends[-1] :] if ends else text


def is_rule(line: str) -> bool:
    """Return whether the line is only a divider."""
    return bool(_RULE.match(line)) or ("--" in line and bool(_TABLE_RULE.match(line)))


def announces(line: str) -> bool:
    """Return whether the line only announces notes, such as "Here are the observations:"."""
    line = line.strip(" \t*_#")
    if len(line) > 300:
        return False
    if _COURTESY.match(line):
        return True
    points = _POINTS.match(line) if line.endswith((":", "：")) else len(line) < 80 and _HERE_IS.match(line)
    return bool(points) and re.search(_SUBJECT, line, re.I) is not None


def _without_preamble(lines: list[str]) -> list[str]:
    start = 0
    while start < len(lines) and (not lines[start].strip() or announces(lines[start])):
        start += 1
    return lines[start:]


def _without_closing(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and (not lines[end - 1].strip() or _CLOSING.match(lines[end - 1].strip())):
        end -= 1
    return lines[:end]


# -- The head of a line: the date, time and priority before its text

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
# "High: 23 °C" is text, so these words count only in brackets.
_ANYWHERE = [w for w in _PRIORITY if w not in {"high", "low", "info", "注"}]
_PRIORITY_INITIALS = frozenset(word[0] for word in _ANYWHERE)
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
    regex(r"(?<!\d)(?P<y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})(?!\d)"),
    regex(r"(?<!\d)(?P<y>\d{4})[年년]\s?(?P<m>\d{1,2})[月월]\s?(?P<d>\d{1,2})[日일]"),
    regex(r"(?<!\d)(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>\d{4})(?!\d)"),
    regex(rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s{_MONTH},?\s(?P<y>\d{{4}})(?!\d)", re.I),
    regex(rf"\b{_MONTH}\s(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<y>\d{{4}})(?!\d)", re.I),
)
_TIME = regex(
    r"(?<![\d:.])(?P<h>\d{1,2})[:：](?P<min>\d{2})(?:[:：]\d{2}(?:\.\d+)?)?\s?(?P<half>[AaPp]\.?[Mm]\.?)?(?![\d:])"
)
_WEEKDAY = regex(
    r"\b(?:mon|tues?|wednes|thurs?|fri|satur|sun)(?:day)?\b|(?:星期|周|週)[一二三四五六日天]"
    r"|[月火水木金土日]曜日?",
    re.I,
)
_LEFT_OVER = regex(r"\b(?:date|day|utc|gmt|at|on|T|Z)\b|[+-]\d{2}:?\d{2}\b|[\s,;:|()\-–—·@/]", re.I)

_SQUARE = regex(r"[\[【]([^\[\]【】\n]{1,48})[\]】]\s*")
_ROUND = regex(r"[(（]([^()（）\n]{1,24})[)）]\s*")
_BARE_DATE = regex(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2})(?:\s*[:：|](?:\s+|$)|\s+[-–—]\s+|(?=[T ]\d{1,2}:\d{2}))[T ]?"
)
_BARE_TIME = regex(
    r"(\d{1,2}:\d{2}(?::\d{2})?(?:\s?[AaPp][Mm])?)(?!\s*[-–—]\s*\d)(?:\s*[:：|]|\s*[-–—](?=\s))?\s+"
)
_BARE_PRIORITY = regex(rf"({_SHOUTED})(?:\s*[:：|]\s*|\s+[-–—]\s+|\s+|$)")
_NAMED_PRIORITY = regex(rf"({_NAMED})\s*[:：]\s*", re.I)
_MARK = regex(r"([🔴🚨❗‼🟠🟡⚠🟢🔵⚪])\ufe0f?\s*")
# "16. Februar" is a date, not the sixteenth item of a list.
_NO_MONTH = r"(?!\s*(?:jan|feb|m[aä]r|apr|mai|jun|jul|aug|sep|okt|nov|de[zs])[a-zé]*\b)"
_BULLET = regex(rf"(?:[-*+•‣◦▪●·–—>]|#{{1,6}}|\d{{1,3}}\)|\d{{1,2}}\.{_NO_MONTH})(?:\s+|$)|[:：|]+\s*", re.I)
_JOINT = regex(r"[:：|]\s*|[-–—]\s+")
# The most bullets and timestamps removed from one line; any further ones stay.
_MAX_MARKS = 12


class Head(NamedTuple):
    """The date, time and priority found before the text of a line, and the text."""

    text: str
    day: dt.date | None = None
    time: dt.time | None = None
    priority: Priority | None = None

    @property
    def found(self) -> bool:
        return bool(self.day or self.time or self.priority)


def take_head(line: str) -> Head:
    """Take bullets, timestamps and a priority off the front of a line, each kind at most once."""
    head = Head(line.strip())
    if _is_text(head.text):
        return head
    for _ in range(_MAX_MARKS):
        shorter = _take_one(head)
        if shorter is None:
            break
        head = shorter
    return head


def _is_text(text: str) -> bool:
    """Return whether it begins with a letter that begins no priority, as most lines do."""
    first = text[:1]
    return first.isascii() and first.isalpha() and first.lower() not in _PRIORITY_INITIALS


def find_date(text: str) -> tuple[dt.date, str] | None:
    """Find the first date in a text, and return it with the rest of the text."""
    hits = [(m.start(), m) for pattern in _DATES if (m := pattern.search(text))]
    for _, match in sorted(hits, key=lambda hit: hit[0]):
        if day := _as_date(match):
            return day, text[: match.start()] + " " + text[match.end() :]
    return None


def heading_date(text: str) -> tuple[dt.date, str] | None:
    """Find the day that a heading names, and return it with the heading's topic."""
    found = find_date(text)
    if found is None:
        return None
    day, rest = found
    if again := find_date(rest):  # a span of days: its lines go under the first
        rest = again[1]
    rest = _WEEKDAY.sub(" ", rest)
    topic = re.sub(r"^(?:date|day|on|to|日期|日付)\b", "", rest.strip(" :：,;()-–—|·*_"), flags=re.I)
    return day, topic.strip(" :：,;()-–—|·*_")


def _take_one(head: Head) -> Head | None:
    text = head.text
    if match := _BULLET.match(text):
        return Head(text[match.end() :].lstrip(), head.day, head.time, head.priority)
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
    """Return what follows a timestamp, without the colon or dash between them."""
    rest = text[at:].lstrip()
    joint = _JOINT.match(rest)
    return rest[joint.end() :].lstrip() if joint else rest


def _merge(head: Head, inside: Head, text: str) -> Head | None:
    """Add what was found; None if that kind was found before, so that this one is text."""
    if (head.day and inside.day) or (head.time and inside.time) or (head.priority and inside.priority):
        return None
    return Head(text, head.day or inside.day, head.time or inside.time, head.priority or inside.priority)


def _read_inside(text: str, dates_count: bool) -> Head | None:
    """Read a date, a time and a priority, if the text contains nothing else.

    A date in round brackets is what the line refers to, not when it was said.
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


# -- The note: its lines and values

# "#12 is fixed" is about an issue; two hashes are a heading, with or without a space.
_HEADING = regex(r"(?:#{2,6}\s*|#\s+)(?=[^\s#])")
_BOLD_LINE = regex(r"(?:\*\*|__)([^*\n]{1,80}?)(?:\*\*|__)\s*[:：]?$")
_COLON_LINE = regex(r"([^\W\d_][^:：\n]{0,60})[:：]$")
# Bold text has a space or punctuation around it; `f(**options)` and `**kwargs` do not.
_BOLD = regex(r"(?<![\w*(=,/])\*\*(\S(?:[^*\n]*[^\s*])?)\*\*(?![\w*(/=])")
_INDENT = regex(r"(?: {2,}|\t)\s*(?P<bullet>(?:[-*+•‣◦▪]|\d{1,2}[.)])\s+)?")
_VALUES = regex(r"(?:[-*•]\s+)?\**(?:exact\s+)?values?(?:\s+used)?\s*\**\s*[:：]\s*\**\s*(?=\S|$)", re.I)
# Before the name of the person who quoted, attached or pasted what a line says: it is not their word.
QUOTED_BY = "quoted by "
# Lines that say what the user asked for (`policy/asked.py`). A note has them first.
STANDING = "Standing instruction: "
OPEN_REQUEST = "Open request: "
FOLLOW_UP = "Follow-up request: "
_ASKED = regex(
    r"(?:[-*•]\s+)?\**(?P<kind>standing instructions?|open requests?|follow-up requests?)"
    r"\**\s*[:：]\**\s*(?=\S|$)",
    re.I,
)
_ASKED_KINDS = {"s": STANDING, "o": OPEN_REQUEST, "f": FOLLOW_UP}
_TABLE_ROW = regex(r"\|(.+)\|\s*$")
# Headings without a topic. They include our own prompt's headings, which a reply must not forge.
_NO_TOPIC = regex(
    r"(?:conversation memory|memory|observations?|reflections?|notes?|note log|observation log|summary|log"
    r"|conversation|key (?:points|facts)|facts|details|updates?|new observations|notes so far|general"
    r"|other|misc"
    r"|time|date|priority|text|beobachtungen|notizen|zusammenfassung|résumé|resumen|notas|observaciones"
    r"|观察|观察记录|觀察|笔记|筆記|记录|摘要|总结|観察|観察記録|メモ|要約|관찰|메모|요약|наблюдения"
    r"|заметки|итоги)",
    re.I,
)


@frozen
class Line:
    """One line of a note: its text, when it was said, and its priority."""

    text: str
    day: dt.date | None = None
    time: dt.time | None = None
    priority: Priority = "NOTE"

    def render(self) -> str:
        """Render the line as it appears under its day's heading."""
        stamp = f"[{self.time:%H:%M}] " if self.time else ""
        if self.priority != "NOTE":
            return f"{stamp}{self.priority} {self.text}"
        # NOTE is left out unless the text alone would be read differently.
        line = stamp + self.text
        plain = _is_plain(self.text) and (
            self.time is None or not (self.time.second or self.time.microsecond)
        )
        understood = plain or read(line, format="lines", day=self.day).lines == (self,)
        return line if understood else f"{stamp}NOTE {self.text}"


def _is_plain(text: str) -> bool:
    """Return whether a text is surely read as a line of a note, as it is: most are."""
    return (
        _is_text(text)
        and not text.endswith((":", "：", "__"))
        and "**" not in text
        and "</" not in text
        and clean(text) == text == " ".join(text.split())
        and not (announces(text) or _CLOSING.match(text) or _ASKED.match(text) or _VALUES.match(text))
    )


@frozen
class NoteText:
    """A parsed note: its lines, ordered by day, its ledger of exact values, and what the user asked for."""

    lines: tuple[Line, ...] = ()
    values: tuple[str, ...] = ()
    format: NoteFormat = "lines"
    asked: tuple[str, ...] = ()  # whole lines
    # How many lines had a date, a time or a priority, or a dated heading above them.
    dated: int = field(default=0, compare=False)

    def render(self) -> str:
        """Render the note in Onlooker's format, without empty lines."""
        rendered: list[str] = list(self.asked)
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
    """Parse a reply, repairing what can be repaired. `day` is the date of lines without one."""
    if format == "prose":
        return _read_prose(unwrap(text))
    reader = _Reader(day)
    for line in unwrap(text):
        reader.take(line)
    lines = sorted(reader.lines, key=lambda line: line.day or dt.date.min)
    return NoteText(tuple(lines), _unique(reader.values), "lines", _unique(reader.asked), reader.dated)


def with_times(text: str, messages: Sequence[Message], notes: Sequence[str]) -> str:
    """Give every line of a note a time: its own, or else the first of its day in what the note is made from,
    which is messages, or notes."""
    first: dict[dt.date, dt.time] = {}
    for message in messages:
        if message.at:
            first.setdefault(message.at.date(), message.at.time())
    for line in () if messages else read("\n".join(notes), format="lines").lines:
        if line.day and line.time:
            first.setdefault(line.day, line.time)
    note = read(text, format="lines")
    lines = [
        replace(line, time=line.time or (first.get(line.day) if line.day else None)) for line in note.lines
    ]
    return replace(note, lines=tuple(lines)).render()


def reads_as_asked(line: str) -> bool:
    """Return whether a line would be read as one that says what the user asked for."""
    return bool(_ASKED.match(line))


def _as_asked(line: str) -> str | None:
    """Return such a line as it is written in a note; None for any other."""
    found = _ASKED.match(line)
    if found is None:
        return None
    text = " ".join(_plain(line[found.end() :]).split())
    return _ASKED_KINDS[found["kind"][0].lower()] + text if text else ""


# CRITICAL lines are kept word for word, up to this share of a reflection: without a limit they would fill the
# memory in time. Beyond it the oldest may go.
CRITICAL_SHARE = 0.5


def critical_lines(note: NoteText) -> tuple[str, ...]:
    """Return the texts of a note's CRITICAL lines. A reflection of it must keep them word for word."""
    return _unique([line.text for line in note.lines if line.priority == "CRITICAL"])


class _Reader:
    """Reads the lines of a reply in one pass, and tracks the current heading."""

    def __init__(self, day: dt.date | None) -> None:
        self.lines: list[Line] = []
        self.values: list[str] = []
        self.asked: list[str] = []
        self.dated = 0
        self._day = day
        self._under_date = False
        self._topic = ""
        self._priority: Priority = "NOTE"
        self._time: dt.time | None = None
        self._in_values = False
        self._joinable = False  # whether the newest line is under the newest heading

    def take(self, raw: str) -> None:
        line = raw.strip()
        if not line:
            return
        if (asked := _as_asked(line)) is not None:
            self.asked += [asked] if asked else []
        elif (heading := _heading(line)) is not None:
            self._take_heading(heading)
        elif match := _VALUES.match(line):
            values = split_values(_plain(line[match.end() :]))
            self.values += values
            self._in_values = not values  # then they follow, one per line
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
        if line.startswith("|") and (row := _TABLE_ROW.match(line)):
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
        """Treat a timestamp on a line of its own as a heading."""
        if head.day:
            self._day, self._under_date = head.day, True
        if head.priority:
            self._priority = head.priority
        self._time = head.time

    def _add(self, head: Head) -> None:
        if head.found or self._under_date:
            self.dated += 1
        day = head.day or self._day
        text = self._with_topic(" ".join(head.text.split()))
        self.lines.append(Line(text, day, head.time or self._time, head.priority or self._priority))
        self._joinable = True

    def _with_topic(self, text: str) -> str:
        """Name the heading's topic in the line, so that the line can be read alone."""
        if not self._topic or self._topic.casefold() in text.casefold():
            return text
        return f"{self._topic}: {text}"

    def _joins_previous(self, raw: str) -> bool:
        """Append an indented line to the line before it, and return whether it was one."""
        if not self._joinable or self._in_values or not raw[:1].isspace():
            return False
        indent = _INDENT.match(raw)
        if indent is None:
            return False
        rest = _plain(raw[indent.end() :].strip())
        if not rest or take_head(rest).found:
            return False
        before = self.lines[-1]
        joint = " " if not indent["bullet"] or before.text.endswith((":", "：", ";")) else "; "
        self.lines[-1] = replace(before, text=before.text + joint + " ".join(rest.split()))
        return True


def _heading(line: str) -> str | None:
    """Return the text of a heading: after hashes, in bold, or short and ending with a colon."""
    if line.startswith("#") and (match := _HEADING.match(line)):
        return _plain(line[match.end() :].rstrip(" #"))
    if not line.endswith((":", "：", "**", "__")):
        return None
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
    """Return the topic that a heading names, or ""."""
    topic = take_head(heading[:60]).text.rstrip(" :：*_|")
    says = any(c.isalnum() for c in topic) and not _NO_TOPIC.fullmatch(topic)
    return re.sub(r"\s+", " ", topic) if says else ""


def _read_prose(raw: Sequence[str]) -> NoteText:
    """Read a reply as one paragraph, without headings and bullets."""
    parts: list[str] = []
    values: list[str] = []
    said: list[str] = []
    for line in raw:
        if (asked := _as_asked(line.strip())) is not None:
            said += [asked] if asked else []
        elif match := _VALUES.match(line.strip()):
            values += split_values(_plain(line.strip()[match.end() :]))
        else:
            parts += _prose_parts(line)
    text = re.sub(r"\s+", " ", " ".join(parts)).strip()
    while (shorter := text.lstrip("#> ")) != text:
        text = shorter
    return NoteText((Line(text),) if text else (), _unique(values), "prose", _unique(said))


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
    """Split a ledger line into values. A single comma may be part of a name; two or more separate a list."""
    separator = next((s for s in ("·", ";", "|") if s in text), ", " if text.count(", ") > 1 else "·")
    parts = text.split(separator)
    return [value for part in parts if (value := " ".join(part.split()).strip(" `"))]


def _plain(text: str) -> str:
    """Remove bold marks."""
    if "**" not in text:
        return text.strip()
    return _BOLD.sub(r"\1", text).strip()


def _unique(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
