"""Daily notes as a file: one block for each observation, under the session that it is of."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from onlooker.domain.notes import Note
from onlooker.files.names import digest_of, one_line

# Which note of which messages of which session a block is, and a hash of its words.
_MARK = re.compile(
    r"^## .*<!-- (?P<note>\S+) (?P<first>\d+)-(?P<last>\d+) (?P<digest>[0-9a-f]{12}) (?P<key>\S*) -->\s*$"
)
_TOP = re.compile(r"#{1,2}\s")
_HEADING = re.compile(r"#+(?=\s)")
_BULLET = re.compile(r"[-*+]\s")
_MOST_KEY = 60


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a daily file: lines `start` to `end`, which is not part of it."""

    start: int
    end: int
    session: str
    note: str
    first: int
    last: int
    text: str
    digest: str  # of the words that were written

    @property
    def untouched(self) -> bool:
        return _digest([self.text]) == self.digest


@dataclass(frozen=True, slots=True)
class DayPage:
    """A daily file: its blocks, and what a person wrote beside them."""

    blocks: tuple[Block, ...]
    beside: str


def _digest(body: Sequence[str]) -> str:
    return digest_of("\n".join(body).strip())[:12]


def read_day(text: str) -> DayPage:
    """The blocks of a file, as a person may have changed them."""
    lines = text.replace("\r\n", "\n").split("\n")
    blocks: list[Block] = []
    beside: list[str] = []
    number = 0
    while number < len(lines):
        end = number + 1
        match = _MARK.match(lines[number])
        if match is None:
            beside.append(lines[number])
            number = end
            continue
        while end < len(lines) and not _TOP.match(lines[end]):
            end += 1
        blocks.append(_block(match, number, end, lines[number + 1 : end]))
        number = end
    # The title says the day, which the file's name says as well.
    said = [line for line in beside if not line.startswith("# ")]
    return DayPage(tuple(blocks), "\n".join(said).strip())


def _block(match: re.Match[str], start: int, end: int, body: Sequence[str]) -> Block:
    text = "\n".join(body).strip()
    return Block(
        start,
        end,
        unquote(match["key"], errors="surrogatepass"),
        match["note"],
        int(match["first"]),
        int(match["last"]),
        text,
        match["digest"],
    )


def with_note(text: str, day: dt.date, session: str, note: Note, at: dt.datetime) -> str:
    """The file with the note in it: in place of the one that it rewrites, else at the end. A note that is
    there already stays as it is."""
    page = read_day(text)
    new = _rendered(day, session, note, at)
    for block in page.blocks:
        if block.session != session or (block.first, block.last) != (note.first, note.last):
            continue
        if block.note == note.id:
            return text
        if block.untouched:
            lines = text.split("\n")
            return "\n".join([*lines[: block.start], *new, "", *lines[block.end :]]).rstrip() + "\n"
    before = text.rstrip() or f"# {day.isoformat()}"
    return "\n".join([before, "", *new]) + "\n"


def _rendered(day: dt.date, session: str, note: Note, at: dt.datetime) -> list[str]:
    body = list(_body(note.text, day))
    name = re.sub(r"[#<>]+", " ", one_line(session)).strip()[:_MOST_KEY]
    key = quote(session, safe=":@,;+", errors="surrogatepass")
    digest = _digest(body)
    mark = f"<!-- {note.id} {note.first}-{note.last} {digest} {key} -->"
    return [f"## {name}, {at:%H:%M} {mark}", "", *body]


def _body(text: str, day: dt.date) -> Iterator[str]:
    """The note's lines as a list; its headings below that of the block, without that of the day itself where
    it comes first."""
    first = True
    for raw in text.split("\n"):
        line = one_line(raw)
        heading = _HEADING.match(line)
        understood = first and heading and line[heading.end() :].strip() == day.isoformat()
        first = first and not line
        if understood:
            continue
        if heading:
            yield f"###{line[heading.end() :]}"
        elif line:
            yield line if _BULLET.match(line) else f"- {line}"


def renewed(text: str, day: dt.date, notes: Mapping[str, Mapping[str, Note]]) -> str:
    """The file with what these sessions' notes say now, by session and id: blocks of notes that are gone go,
    and one whose note changed says what it says now. Empty where nothing but the title is left."""
    lines = text.replace("\r\n", "\n").split("\n")
    changed = False
    for block in reversed(read_day(text).blocks):
        if block.session not in notes:
            continue
        note = notes[block.session].get(block.note)
        body = [] if note is None else list(_body(note.text, day))
        digest = _digest(body)
        if note is not None and digest == block.digest:
            continue
        heading = lines[block.start].replace(block.digest, digest)
        lines[block.start : block.end] = [] if note is None else [heading, "", *body, ""]
        changed = True
    if not changed:
        return text
    left = "\n".join(lines).rstrip() + "\n"
    rest = read_day(left)
    return left if rest.blocks or rest.beside else ""
