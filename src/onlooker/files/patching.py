"""MEMORY.md written: what a person made of the file stays as it is, and only what changed is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onlooker.domain.items import Item
from onlooker.files.finding import words_of
from onlooker.files.names import digest_of, mark_of, name_of
from onlooker.files.page import PINNED, TITLES, Entry, Page, Section, emptied, marked, unmarked
from onlooker.files.sidecar import Line, Written

_ORDER = tuple(TITLES)


def header(owner: str) -> list[str]:
    """The beginning of a new file."""
    return [
        f"# About {name_of(owner)}",
        "",
        "<!--",
        "What is known across conversations. Change a line, and what is known changes. Delete a line,",
        "and it is forgotten. Add a line under any heading, and it is remembered. The marks at the",
        "ends of lines say which fact is which: leave them alone.",
        "-->",
    ]


def line_of(item: Item) -> str:
    return marked(f"- {words_of(item)}", mark_of(item.id))


def says_it_all(written: Written, items: Sequence[Item]) -> bool:
    """Whether a file that nobody touched has exactly these items already, each where it belongs."""
    if len(written.lines) != len(items):
        return False
    lines = {line.item: line for line in written.lines.values()}
    return all(i.id in lines and not _belongs_elsewhere(i, lines[i.id].section) for i in items)


@dataclass(frozen=True, slots=True)
class Patched:
    text: str
    written: Written


@dataclass(slots=True)
class _Row:
    """One line of the new file: under which heading, and what it is."""

    text: str
    section: Section
    fact: bool = False
    heading: bool = False


def patched(
    page: Page | None, stands_for: Mapping[int, str], left: Sequence[int], items: Sequence[Item], owner: str
) -> Patched:
    """The file with exactly these items, in their order where they are new to it.

    `stands_for` says which entry is which item. Entries that stand for none go, but for those in `left`,
    which stay as they are.
    """
    rows = [_Row(line, "") for line in header(owner)]
    shown: set[str] = set()
    lines: dict[str, Line] = {}
    if page is not None:
        writer = _Writer(page, stands_for, left, {item.id: item for item in items})
        rows = list(writer.rows())
        shown, lines = writer.shown, writer.lines
    for item in items:
        if item.id not in shown:
            section = PINNED if item.pinned else item.type
            _insert(rows, _Row(line_of(item), section, fact=True))
            lines[mark_of(item.id)] = Line(item.id, section, digest_of(words_of(item)))
    rows = list(_without_empty_sections(rows))
    newline = page.newline if page else "\n"
    text = newline.join(row.text for row in rows).rstrip() + newline
    return Patched(text, Written(digest_of(text), lines))


class _Writer:
    """Copies a page, with the entries as they should be."""

    def __init__(
        self, page: Page, stands_for: Mapping[int, str], left: Sequence[int], items: Mapping[str, Item]
    ) -> None:
        self._page = page
        self._stands_for = stands_for
        self._left = {*left}
        self._items = items
        self.shown: set[str] = set()
        self.lines: dict[str, Line] = {}

    def rows(self) -> Iterator[_Row]:
        starts = {entry.start: place for place, entry in enumerate(self._page.entries)}
        number = 0
        while number < len(self._page.lines):
            line, section = self._page.lines[number], self._page.sections[number]
            place = starts.get(number)
            if place is None:
                number += 1
                if not emptied(line):
                    yield _Row(line, section, heading=line.lstrip().startswith("#"))
                continue
            entry = self._page.entries[place]
            yield from self._entry(place, entry)
            number = entry.end

    def _entry(self, place: int, entry: Entry) -> Iterator[_Row]:
        raw = self._page.lines[entry.start : entry.end]
        ident = self._stands_for.get(place, "")
        if place in self._left:
            # What cannot be an item stays, and keeps the mark of the item it stood for.
            if ident in self._items and ident not in self.shown:
                self._note(self._items[ident], entry)
            yield from (_Row(line, entry.section, fact=True) for line in raw)
            return
        item = self._items.get(ident)
        if item is None or item.id in self.shown or _belongs_elsewhere(item, entry.section):
            return
        self._note(item, entry)
        if entry.text == words_of(item):
            *before, last = [unmarked(line) for line in raw]
            lines = [*before, marked(last, mark_of(item.id))]
            lines = lines if entry.mark != mark_of(item.id) else list(raw)
        else:
            lines = [line_of(item)]
        yield from (_Row(line, entry.section, fact=True) for line in lines)

    def _note(self, item: Item, entry: Entry) -> None:
        self.shown.add(item.id)
        self.lines[mark_of(item.id)] = Line(item.id, entry.section, digest_of(words_of(item)))


def _belongs_elsewhere(item: Item, section: Section) -> bool:
    """Under a person's own heading everything is where it belongs."""
    return bool(section) and item.pinned != (section == PINNED)


def _insert(rows: list[_Row], row: _Row) -> None:
    """Put a line at the end of its section, which is made at need, in its order among ours."""
    last = next(
        (n for n in range(len(rows) - 1, -1, -1) if rows[n].section == row.section and rows[n].fact), None
    )
    heading = next((n for n, r in enumerate(rows) if r.section == row.section and r.heading), None)
    if last is not None:
        rows.insert(last + 1, row)
    elif heading is not None:
        rows.insert(heading + 1, row)
        rows.insert(heading + 1, _Row("", row.section))
    else:
        at = _place_of(rows, row.section)
        new = [_Row(f"## {TITLES[row.section]}", row.section, heading=True), _Row("", row.section), row]
        before = (
            [] if at and not rows[at - 1].text.strip() else [_Row("", rows[at - 1].section if at else "")]
        )
        after = [_Row("", row.section)] if at < len(rows) else []
        rows[at:at] = [*before, *new, *after]


def _place_of(rows: Sequence[_Row], section: Section) -> int:
    """Before the first of our sections that comes after it, else at the end of what is written."""
    later = _ORDER[_ORDER.index(section) + 1 :]
    found = next((n for n, r in enumerate(rows) if r.heading and r.section in later), None)
    if found is not None:
        return found
    end = len(rows)
    while end and not rows[end - 1].text.strip():
        end -= 1
    return end


def _without_empty_sections(rows: Sequence[_Row]) -> Iterator[_Row]:
    """Without headings of ours that have nothing under them any more."""
    number = 0
    while number < len(rows):
        row = rows[number]
        end = number + 1
        if row.heading and row.section:
            while end < len(rows) and not rows[end].heading:
                end += 1
            if not any(r.text.strip() for r in rows[number + 1 : end]):
                number = end
                continue
        yield row
        number += 1
