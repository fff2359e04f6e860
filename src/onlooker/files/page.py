"""MEMORY.md as a person left it: its facts, each with the lines it stands in, and everything else."""

from __future__ import annotations

import re
from dataclasses import dataclass

from onlooker.domain.items import ItemType

# A section that has our heading; "" for one of the person's own.
PINNED = "pinned"
Section = str
# In the order in which they are written.
TITLES: dict[Section, str] = {
    PINNED: "Pinned",
    "profile": "Profile",
    "behavior": "Behavior",
    "knowledge": "Knowledge",
    "skill": "Skills",
    "event": "Events",
    "tool": "Tools",
}
_TYPES: dict[str, ItemType] = {
    "profile": "profile",
    "behavior": "behavior",
    "knowledge": "knowledge",
    "skill": "skill",
    "event": "event",
    "tool": "tool",
}
# A file for people; more than this is something else.
MOST_BYTES = 4_000_000

_HEADING = re.compile(r" {0,3}#{1,6}\s+(?P<title>.*?)\s*#*\s*$")
_BULLET = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d{1,3}[.)])\s+(?=\S)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
# A rule, a table, a quotation, or a line under a heading.
_NO_FACT = re.compile(r"\s*(?:>|\||(?:[-*_=]\s*){3,}$)")
_MARK = re.compile(r"\s*<!--\s*([0-9a-f]{12})\s*-->")
_COMMENT = re.compile(r"<!--.*?-->")
_CONFLICT = re.compile(r"^(?:<{7} |>{7} |={7}$)", re.M)


@dataclass(frozen=True, slots=True)
class Entry:
    """One fact: lines `start` to `end`, which is not part of it, and its words without bullet and mark."""

    start: int
    end: int
    text: str
    mark: str = ""
    section: Section = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The file by lines, and the facts in it. `sections` says under which heading each line stands."""

    lines: tuple[str, ...]
    entries: tuple[Entry, ...]
    sections: tuple[Section, ...]
    newline: str = "\n"


def type_of(section: Section) -> ItemType | None:
    """The type that a section is for."""
    return _TYPES.get(section)


def damage(data: bytes) -> str:
    """Why the file cannot be what a person meant to save; empty where it can."""
    if len(data) > MOST_BYTES:
        return f"it is larger than {MOST_BYTES // 1_000_000} MB"
    if b"\0" in data:
        return "it is no text"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "it is not UTF-8"
    if not text.strip():
        return "it is empty"
    return "it has marks of a merge that was not finished" if _CONFLICT.search(text) else ""


def read_page(text: str) -> Page:
    """Read the file. What is no fact is left alone: headings, comments, code, tables, quotations."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = tuple(line.removesuffix("\r") for line in text.split("\n"))
    return _Reader(lines).page(newline)


class _Reader:
    """Goes through the lines once."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self._lines = lines
        self._entries: list[Entry] = []
        self._sections: list[Section] = []
        self._section: Section = ""
        self._open: list[str] = []  # the words of the entry that may go on
        self._start = 0
        self._until = ""  # what ends the code or comment that we are in

    def page(self, newline: str) -> Page:
        for number, line in enumerate(self._lines):
            self._take(number, line)
            self._sections.append(self._section)
        self._close(len(self._lines))
        return Page(self._lines, tuple(self._entries), tuple(self._sections), newline)

    def _take(self, number: int, line: str) -> None:
        if self._until:
            if self._until in line:
                self._until = ""
            return
        opening = self._opens(number, line)
        if opening or not line.strip() or _NO_FACT.match(line):
            self._close(number)
            self._until = opening if opening != "closed" else ""
        elif heading := _HEADING.match(line):
            self._close(number)
            self._section = _section(heading["title"])
        elif (bullet := _BULLET.match(line)) and (not self._open or not bullet["indent"]):
            self._close(number)
            self._start, self._open = number, [line[bullet.end() :]]
        elif bullet:
            # Below another: it says more of the same.
            self._open.append(f"; {line[bullet.end() :]}")
        elif self._open:
            self._open.append(f" {line.strip()}")
        else:
            self._start, self._open = number, [line]

    def _opens(self, number: int, line: str) -> str:
        """What ends what begins here; "closed" for a comment of one line, empty where nothing begins."""
        if fence := _FENCE.match(line):
            mark = fence[0].strip()
            return mark if any(mark in later for later in self._lines[number + 1 :]) else "closed"
        if not line.lstrip().startswith("<!--"):
            return ""
        if "-->" in line:
            # A mark alone is the rest of a line that was deleted; words after a comment are words.
            return "" if _COMMENT.sub("", line).strip() else "closed"
        # One that nobody closed would swallow the rest of the file.
        return "-->" if any("-->" in later for later in self._lines[number + 1 :]) else "closed"

    def _close(self, end: int) -> None:
        if not self._open:
            return
        found = _MARK.search("".join(self._open))
        whole = "".join(_COMMENT.sub("", _MARK.sub("", part)) for part in self._open)
        text = re.sub(r"\s+", " ", whole).strip()
        entry = Entry(self._start, end, text, found[1] if found else "", self._section)
        if any(c.isalnum() for c in text):
            self._entries.append(entry)
        self._open = []


def _section(title: str) -> Section:
    name = _COMMENT.sub("", title).strip(" :*_").casefold().replace("behaviour", "behavior")
    for section, ours in TITLES.items():
        if name in (section, ours.casefold(), f"{section}s"):
            return section
    return ""


def marked(line: str, mark: str) -> str:
    """The line with this mark at its end, and no other."""
    return f"{_MARK.sub('', line).rstrip()} <!-- {mark} -->"


def unmarked(line: str) -> str:
    return _MARK.sub("", line).rstrip()


def emptied(line: str) -> bool:
    """Whether only the mark is left of a line."""
    return bool(_MARK.search(line)) and not _MARK.sub("", line).strip(" -*+")
