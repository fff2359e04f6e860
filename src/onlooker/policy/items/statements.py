"""Notes taken apart into statements, each of which can stand alone."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass

from onlooker.domain.items import Origin
from onlooker.domain.notes import NoteFormat
from onlooker.policy.reading import Line, Priority, read

# The longest summary: what is longer is a passage, not a fact.
MOST_CHARACTERS = 300

_SPEAKER = re.compile(r"(?P<who>[\w.-]+\([^\n]*?\)|[^\s:：][^:：;]{0,40}?)\s?[:：]\s+(?=\S)")
_CLAUSES = re.compile(r";\s+|；")
# Two facts in one breath: each may end without the other.
_TWO = re.compile(
    r",?\s+and\s+(?=(?:i\s+|i'm\s+|also\s+)*(?:am|work|live|have|prefer|like|love|hate|speak|study|own|use|play)"
    r"(?:s|es|ing)?\b|i'm\b|i am\b|i've\b|my \w+(?: \w+)? (?:is|are)\b)",
    re.I,
)
# Where "I" is the subject already, a second one begins a sentence of its own.
_AGAIN = re.compile(r",?\s+and\s+(?=i\b)", re.I)
_I = re.compile(r"i\b", re.I)
_INTRODUCED = re.compile(r"(?P<name>[A-ZÀ-Þ][\w'’-]+), (?=I\b)")
_SENTENCES = re.compile(r"(?<=[.!。！])\s+(?=[^\sa-z])|(?<=[。！])")
_NAME = re.compile(r"(?P<who>[A-ZÀ-Þ][\w'’-]+(?: [A-ZÀ-Þ][\w'’-]+)?)(?:'s|’s)? (?=[a-z])")
_NO_NAME = re.compile(
    r"(?:the|an?|this|that|these|those|i|we|you|they|it|he|she|my|our|your|his|her|their|there|here|please|can"
    r"|could|would|will|if|when|what|how|why|where|who|deadline|meeting|team|project|user|assistant)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that a note says, as it stands there, with whoever said it or is meant by it."""

    text: str
    subject: str  # as written; empty where nobody is named
    origin: Origin
    day: dt.date | None
    priority: Priority
    source: str  # the note's id; empty for what has no note yet

    @property
    def summary(self) -> str:
        """The text with its speaker, to be read alone."""
        led = self.text if not self.subject or self.text.startswith(self.subject) else ""
        whole = led or f"{self.subject}: {self.text}"
        return re.sub(r"\s+", " ", whole).strip(" ;,")


def statements(
    text: str, *, source: str = "", format: NoteFormat = "lines", day: dt.date | None = None
) -> Iterator[Statement]:
    """The statements of a note, in its order; `day` is when those were said that have no day."""
    for line in read(text, format="lines", day=day).lines:
        yield from _of_line(line, source, format)


def _of_line(line: Line, source: str, format: NoteFormat) -> Iterator[Statement]:
    who, rest = speaker_of(line.text)
    for clause in _clauses(rest, format):
        subject = who or named_in(clause)
        yield Statement(clause, subject, origin_of(who), line.day, line.priority, source)


def _clauses(text: str, format: NoteFormat) -> Iterator[str]:
    for part in _SENTENCES.split(text) if format == "prose" else _CLAUSES.split(text):
        introduced = _INTRODUCED.match(part)
        if introduced:
            yield f"name is {introduced['name']}"
        yield from in_two(part[introduced.end() if introduced else 0 :])


def in_two(text: str) -> Iterator[str]:
    """The clauses of a sentence that are facts of their own."""
    parts: list[str] = _TWO.split(text)
    for part in (p for whole in parts for p in (_AGAIN.split(whole) if _I.match(whole) else (whole,))):
        if clause := part.strip(" ;,"):
            yield clause


def speaker_of(text: str) -> tuple[str, str]:
    """Who a line says it is from, and the rest; nobody where it says none."""
    match = _SPEAKER.match(text)
    return (match["who"], text[match.end() :]) if match else ("", text)


def named_in(text: str) -> str:
    """The name that a statement begins with, if it begins with one."""
    match = _NAME.match(text)
    if match is None or _NO_NAME.match(text):
        return ""
    return re.sub(r"['’]s$", "", match["who"])


def origin_of(speaker: str) -> Origin:
    """Whose word a line is, by its speaker: a call such as `search(x)` is a tool's."""
    if speaker.endswith(")") or speaker.startswith(("tool", "→")):
        return "tool"
    return "agent" if speaker.casefold() in ("assistant", "system") else "user"
