"""The text of MEMORY.md: read it, find a person's edits, turn them into items, and write it back.

Pure functions, in that order. The parts of the file that are not ours stay as they are, byte for byte.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from onlooker.domain.frozen import frozen
from onlooker.domain.items import Item, ItemChange, ItemType
from onlooker.domain.messages import DEFAULT_OWNER
from onlooker.policy.items.extract import expiry, tags_of
from onlooker.policy.items.match import contradictions, duplicates, names_of, same_meaning
from onlooker.policy.items.statements import MAX_CHARACTERS, kind_of
from onlooker.policy.secrets import mask

# The key of one of our sections; "" for a heading of the person's own.
Section = str
PINNED = "pinned"
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
_ORDER = tuple(TITLES)
_TYPES: dict[Section, ItemType] = {
    "profile": "profile",
    "behavior": "behavior",
    "knowledge": "knowledge",
    "skill": "skill",
    "event": "event",
    "tool": "tool",
}
# Nobody edits a larger file by hand.
MAX_BYTES = 4_000_000
# A copy is kept if at least this many lines, and more than half of all, are deleted at once.
MASS_DELETION = 5
# If we wrote at least this many lines and none is left, it is taken for another file.
MIN_KNOWN_LINES = 3
_MAX_NAME_LENGTH = 60

_HEADING = re.compile(r" {0,3}#{1,6}\s+(?P<title>.*)$")
_BULLET = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d{1,3}[.)])\s+(?=\S)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
# A rule, a table, a quotation, or the line under a heading.
_NOT_A_FACT = re.compile(r"\s*(?:>|\||(?:[-*_=]\s*){3,}$)")
_MARK = re.compile(r"<!--\s{0,9}([0-9a-f]{12})\s{0,9}-->")
_ENDS = ("```", "~~~", "-->")
_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->")
_CONFLICT = re.compile(r"^(?:<{7} |>{7} |={7}$)", re.M)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_ID_TAIL = re.compile(r"_([0-9a-f]{12})$")


def digest_of(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def mark_of(ident: str) -> str:
    """The mark in an item's line: the end of its id, or a hash if the id has another form."""
    found = _ID_TAIL.search(ident)
    if found:
        return found[1]
    return hashlib.blake2b(ident.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def one_line(text: str) -> str:
    """Put a text on one line, without anything that reads as a comment or as one of our marks."""
    text = text.encode("utf-8", "replace").decode()
    text = re.sub(r"\s+", " ", _CONTROL.sub(" ", text)).strip()
    return text.replace("<!--", "<! --").replace("-->", "-- >")


# ------------------------------------------------------------------------------------ reading


@frozen
class Entry:
    """One fact: the lines from `start` up to `end`, and the text without bullet and mark."""

    start: int
    end: int
    text: str
    mark: str = ""
    section: Section = ""


@frozen
class Page:
    """The lines of the file, the section of each line, and the facts."""

    lines: tuple[str, ...]
    entries: tuple[Entry, ...]
    sections: tuple[Section, ...]
    newline: str = "\n"


def damage(data: bytes) -> str:
    """Why the file is damaged; empty if it is not."""
    if len(data) > MAX_BYTES:
        return f"it is larger than {MAX_BYTES // 1_000_000} MB"
    if b"\0" in data:
        return "it is not a text file"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "it is not UTF-8"
    if not text.strip():
        return "it is empty"
    return "it has conflict markers of an unfinished merge" if _CONFLICT.search(text) else ""


def read_page(text: str) -> Page:
    """Read the file. Headings, comments, code, tables and quotations are not facts."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = tuple(line.removesuffix("\r") for line in text.split("\n"))
    return _Reader(lines).page(newline)


class _Reader:
    """Reads the lines once, from top to bottom."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self._lines = lines
        self._entries: list[Entry] = []
        self._sections: list[Section] = []
        self._section: Section = ""
        self._open: list[str] = []  # the text of the entry that the next line may continue
        self._start = 0
        self._until = ""  # what ends the code block or comment that we are in
        # The last line with each of these, searched once instead of for every line that opens a block.
        self._last = {end: number for number, line in enumerate(lines) for end in _ENDS if end in line}

    def page(self, newline: str) -> Page:
        for number, line in enumerate(self._lines):
            self._read(number, line)
            self._sections.append(self._section)
        self._close(len(self._lines))
        return Page(self._lines, tuple(self._entries), tuple(self._sections), newline)

    def _read(self, number: int, line: str) -> None:
        if self._until:
            if self._until in line:
                self._until = ""
            return
        opening = self._opens(number, line)
        if opening or not line.strip() or _NOT_A_FACT.match(line):
            self._close(number)
            self._until = opening if opening != "closed" else ""
        elif heading := _HEADING.match(line):
            self._close(number)
            self._section = _section_of(heading["title"].rstrip().rstrip("#"))
        elif (bullet := _BULLET.match(line)) and (not self._open or not bullet["indent"]):
            self._close(number)
            self._start, self._open = number, [line[bullet.end() :]]
        elif bullet:
            # Indented below another bullet: part of the same fact.
            self._open.append(f"; {line[bullet.end() :]}")
        elif self._open:
            self._open.append(f" {line.strip()}")
        else:
            self._start, self._open = number, [line]

    def _opens(self, number: int, line: str) -> str:
        """The end of the block that opens in this line; "closed" for a comment of one line; else empty."""
        if fence := _FENCE.match(line):
            mark = fence[0].strip()
            return mark if self._last[mark] > number else "closed"
        if not line.lstrip().startswith("<!--"):
            return ""
        if "-->" in line:
            # A mark alone is left over from a deleted line. Text after a comment counts.
            return "" if _COMMENT.sub("", line).strip() else "closed"
        # A comment that is never closed must not swallow the rest of the file.
        return "-->" if self._last.get("-->", 0) > number else "closed"

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


def _section_of(title: str) -> Section:
    name = _COMMENT.sub("", title).strip(" :*_").casefold().replace("behaviour", "behavior")
    for section, ours in TITLES.items():
        if name in (section, ours.casefold(), f"{section}s"):
            return section
    return ""


# ------------------------------------------------------------------------------------ finding edits


@frozen
class BaseLine:
    """A line as we wrote it: its item, its section, and a hash of its text."""

    item: str
    section: Section
    digest: str


@frozen
class Base:
    """A version of the file as we wrote it: a hash of the whole, and its lines by mark."""

    digest: str = ""
    lines: Mapping[str, BaseLine] = field(default_factory=dict[str, BaseLine])


@dataclass(slots=True)
class Edits:
    """What a person changed. Entries are given by their index in the page, items by their id."""

    same: dict[int, str] = field(default_factory=dict[int, str])  # entries that state an item as it is
    copies: set[int] = field(default_factory=set[int])  # entries that repeat another entry
    edited: dict[int, str] = field(default_factory=dict[int, str])
    added: list[int] = field(default_factory=list[int])
    deleted: list[str] = field(default_factory=list[str])
    pins: dict[str, bool] = field(default_factory=dict[str, bool])

    @property
    def count(self) -> int:
        return len(self.edited) + len(self.added) + len(self.deleted) + len(self.pins)


def text_of(item: Item) -> str:
    """The text of an item's line."""
    return one_line(item.summary)


def text_for_item(text: str) -> str:
    """The text that an item gets from an entry: without secrets."""
    return mask(one_line(text))


def is_other_file(page: Page, base: Base, items: Mapping[str, Item]) -> bool:
    """Whether none of our lines is left: then it is another file, and nobody deleted the lines."""
    if len(base.lines) < MIN_KNOWN_LINES or not page.entries:
        return False
    digests = {line.digest for line in base.lines.values()}
    if any(e.mark in base.lines or digest_of(one_line(e.text)) in digests for e in page.entries):
        return False
    return any(line.item in items for line in base.lines.values())


def is_mass_deletion(edits: Edits, base: Base) -> bool:
    """Whether so many lines were deleted at once that it may have been a mistake."""
    return len(edits.deleted) >= MASS_DELETION and len(edits.deleted) * 2 > len(base.lines)


def find_edits(page: Page, base: Base, items: Mapping[str, Item]) -> Edits:
    """Compare the file with the version we wrote.

    `items` are the owner's live items, and those that the base names with any status, by id.
    """
    comparison = _Comparison(page, base, items)
    comparison.match_unchanged()
    comparison.match_edited()
    comparison.match_by_text()
    comparison.match_missing()
    return comparison.edits


class _Comparison:
    def __init__(self, page: Page, base: Base, items: Mapping[str, Item]) -> None:
        self.edits = Edits()
        self._entries = page.entries
        self._base = base
        self._items = items
        self._by_mark = {mark_of(item.id): item.id for item in items.values()}
        self._by_mark |= {mark: line.item for mark, line in base.lines.items()}
        self._live = [item for item in items.values() if item.status == "live"]
        self._matched: set[str] = set()

    def match_unchanged(self) -> None:
        for index, entry in enumerate(self._entries):
            ident = self._by_mark.get(entry.mark)
            if ident and ident not in self._matched and self._is_unchanged(entry, ident):
                self._match(index, entry, ident)

    def match_edited(self) -> None:
        for index, entry in enumerate(self._entries):
            ident = self._by_mark.get(entry.mark)
            if ident and ident not in self._matched:
                self._matched.add(ident)
                self.edits.edited[index] = ident

    def match_by_text(self) -> None:
        """Match entries without a mark, or with the mark of another entry, to items of the same text."""
        known: dict[str, str] = {}
        for item in self._live:
            known.setdefault(text_of(item), item.id)
        for index, entry in enumerate(self._entries):
            if index in self.edits.same or index in self.edits.edited:
                continue
            ident = known.get(text_for_item(entry.text))
            if ident is None:
                self.edits.added.append(index)
            elif ident in self._matched:
                self.edits.copies.add(index)
            else:
                self._match(index, entry, ident)

    def match_missing(self) -> None:
        """Items whose lines are gone are deleted, unless a new line rewords or contradicts them."""
        for line in self._base.lines.values():
            item = self._items.get(line.item)
            if line.item in self._matched or item is None or item.status != "live":
                continue
            index = next((i for i in self.edits.added if _is_about(self._entries[i].text, item)), None)
            if index is None:
                self.edits.deleted.append(item.id)
            else:
                self.edits.added.remove(index)
                self.edits.edited[index] = item.id

    def _match(self, index: int, entry: Entry, ident: str) -> None:
        self._matched.add(ident)
        item = self._items.get(ident)
        line = self._base.lines.get(mark_of(ident))
        if item is None or line is None or line.section == entry.section:
            self.edits.same[index] = ident
        else:
            self._match_moved(index, entry, item, line)

    def _match_moved(self, index: int, entry: Entry, item: Item, line: BaseLine) -> None:
        wanted = _TYPES.get(entry.section)
        if wanted is not None and wanted != item.type:
            self.edits.edited[index] = item.id
            return
        self.edits.same[index] = item.id
        if PINNED in (entry.section, line.section) and item.pinned != (entry.section == PINNED):
            self.edits.pins[item.id] = entry.section == PINNED

    def _is_unchanged(self, entry: Entry, ident: str) -> bool:
        text = one_line(entry.text)
        item = self._items.get(ident)
        if item is not None and text == text_of(item):
            return True
        line = self._base.lines.get(entry.mark)
        return line is not None and line.digest == digest_of(text)


def _is_about(text: str, item: Item) -> bool:
    """Whether a new line rewords or contradicts an item."""
    return same_meaning(text, item.summary, names_of([item])) or bool(contradictions(text, [item]))


# ------------------------------------------------------------------------------------ items of edits


@dataclass(slots=True)
class Resolution:
    """What the edits change: the items, the item that each entry now states, and the entries that are too
    long to be items."""

    change: ItemChange
    stated: dict[int, str] = field(default_factory=dict[int, str])
    too_long: list[int] = field(default_factory=list[int])
    edited: int = 0  # how many of the added items supersede one whose line was edited


def resolve(
    page: Page, edits: Edits, items: Mapping[str, Item], owner: str, now: datetime, new_id: Callable[[], str]
) -> Resolution:
    """Make items of added and edited entries. Their origin is the user, and they end what they contradict.

    `items` are as in `find_edits`.
    """
    resolver = _Resolver(items, edits, owner, now, new_id)
    for index, entry in enumerate(page.entries):
        if index in edits.edited:
            resolver.edit(index, entry, edits.edited[index])
        elif index in edits.added:
            resolver.add(index, entry)
    change = ItemChange(owner, now, tuple(resolver.made), tuple(resolver.ended.items()))
    return Resolution(change, resolver.stated, resolver.too_long, resolver.edit_count)


def successor(ident: str, items: Mapping[str, Item]) -> Item | None:
    """The live item at the end of the chain of superseded ones; the item itself if it is live; None if it
    was forgotten."""
    seen: set[str] = set()
    item = items.get(ident)
    while item is not None and item.status == "ended" and item.id not in seen:
        seen.add(item.id)
        item = items.get(item.superseded_by)
    return item if item is not None and item.status == "live" else None


class _Resolver:
    def __init__(
        self, items: Mapping[str, Item], edits: Edits, owner: str, now: datetime, new_id: Callable[[], str]
    ) -> None:
        self._items = items
        self._owner = owner
        self._now = now
        self._new_id = new_id
        deleted = {*edits.deleted}
        self._live = {i.id: i for i in items.values() if i.status == "live" and i.id not in deleted}
        # The person kept these lines next to the new ones, so they are not duplicates.
        self._kept = {*edits.same.values(), *edits.edited.values()}
        self.made: list[Item] = []
        self.ended: dict[str, str] = {}
        self.stated: dict[int, str] = {}
        self.too_long: list[int] = []
        self.edit_count = 0

    def edit(self, index: int, entry: Entry, ident: str) -> None:
        old = successor(ident, self._items)
        if old is None or old.id not in self._live:
            self.add(index, entry)
            return
        text, wanted = text_for_item(entry.text), _TYPES.get(entry.section) or old.type
        if text == text_of(old) and wanted == old.type:
            self.stated[index] = old.id
            return
        if self._is_too_long(index, text):
            return
        same = same_meaning(text, old.summary, names_of([old]))
        item = replace(
            self._item(text, entry),
            type=wanted,
            # A reworded fact keeps its dates.
            valid_from=old.valid_from if same else self._now,
            expires_at=old.expires_at if same else expiry(text, kind_of(text), self._now),
            tags=old.tags if same else tags_of(text, kind_of(text)),
            pinned=entry.section == PINNED if entry.section else old.pinned,
            uses=old.uses,
            last_used_at=old.last_used_at,
        )
        self.edit_count += 1
        self._supersede(index, item, [old, *(i for i in self._contradicted(text) if i.id != old.id)])

    def add(self, index: int, entry: Entry) -> None:
        text = text_for_item(entry.text)
        if self._is_too_long(index, text):
            return
        known = [i for i in duplicates(text, list(self._live.values())) if i.id not in self._kept]
        old = {i.id: i for i in (*self._contradicted(text), *known) if not i.pinned}
        self._supersede(index, self._item(text, entry), list(old.values()))

    def _contradicted(self, text: str) -> Sequence[Item]:
        return [i for i in contradictions(text, list(self._live.values())) if not i.pinned]

    def _is_too_long(self, index: int, text: str) -> bool:
        if len(text) <= MAX_CHARACTERS:
            return False
        self.too_long.append(index)
        return True

    def _item(self, text: str, entry: Entry) -> Item:
        kind = kind_of(text)
        return Item(
            owner=self._owner,
            id=self._new_id(),
            type=_TYPES.get(entry.section) or (kind.type if kind else "knowledge"),
            summary=text,
            made_at=self._now,
            tags=tags_of(text, kind),
            origin="user",
            said_at=self._now,
            valid_from=self._now,
            expires_at=expiry(text, kind, self._now),
            pinned=entry.section == PINNED,
        )

    def _supersede(self, index: int, item: Item, old: Sequence[Item]) -> None:
        made = {i.id: number for number, i in enumerate(self.made)}
        for other in old:
            self._live.pop(other.id, None)
            if other.id in made:
                # If two new lines contradict each other, the lower one counts.
                self.made[made[other.id]] = replace(
                    other, status="ended", ended_at=self._now, superseded_by=item.id
                )
            else:
                self.ended[other.id] = item.id
        item = replace(item, replaces=tuple(o.id for o in old))
        self._live[item.id] = item
        self.made.append(item)
        self.stated[index] = item.id


# ------------------------------------------------------------------------------------ writing


@frozen
class Rendered:
    """The new file, and the base to compare it with the next time."""

    text: str
    base: Base


@dataclass(slots=True)
class _Row:
    """A line of the new file, and the section that it is in."""

    text: str
    section: Section
    fact: bool = False
    heading: bool = False


def is_current(base: Base, items: Sequence[Item]) -> bool:
    """Whether the version we wrote has exactly these items, each in its section."""
    if len(base.lines) != len(items):
        return False
    lines = {line.item: line for line in base.lines.values()}
    return all(i.id in lines and not _is_misplaced(i, lines[i.id].section) for i in items)


def render(
    page: Page | None, stated: Mapping[int, str], kept: Sequence[int], items: Sequence[Item], owner: str
) -> Rendered:
    """Render the page with exactly these items. New ones are added in their order.

    `stated` gives the item of each entry. An entry without one is removed, unless it is in `kept`.
    """
    rows = [_Row(line, "") for line in _header(owner)]
    shown: set[str] = set()
    lines: dict[str, BaseLine] = {}
    if page is not None:
        copier = _Copier(page, stated, kept, {item.id: item for item in items})
        rows = list(copier.rows())
        shown, lines = copier.shown, copier.lines
    for item in items:
        if item.id not in shown:
            section = PINNED if item.pinned else item.type
            _insert(rows, _Row(_line_of(item), section, fact=True))
            lines[mark_of(item.id)] = BaseLine(item.id, section, digest_of(text_of(item)))
    rows = list(_without_empty_sections(rows))
    newline = page.newline if page else "\n"
    text = newline.join(row.text for row in rows).rstrip() + newline
    return Rendered(text, Base(digest_of(text), lines))


def _header(owner: str) -> list[str]:
    """The first lines of a new file. The owner's name is made safe: it cannot add markup."""
    name = re.sub(r"[\s#<>]+", " ", one_line(owner)).strip()[:_MAX_NAME_LENGTH] or DEFAULT_OWNER
    return [
        f"# About {'the user' if owner == DEFAULT_OWNER else name}",
        "",
        "<!--",
        "Facts that are remembered across conversations. Edit a line to change a fact. Delete a line to",
        "forget it. Add a line under any heading to have it remembered. Leave the marks at the ends of",
        "lines alone: they identify the facts.",
        "-->",
    ]


def _line_of(item: Item) -> str:
    return _with_mark(f"- {text_of(item)}", mark_of(item.id))


def _with_mark(line: str, mark: str) -> str:
    return f"{_without_mark(line)} <!-- {mark} -->"


def _without_mark(line: str) -> str:
    return _MARK.sub("", line).rstrip()


class _Copier:
    """Copies a page with its entries updated."""

    def __init__(
        self, page: Page, stated: Mapping[int, str], kept: Sequence[int], items: Mapping[str, Item]
    ) -> None:
        self._page = page
        self._stated = stated
        self._kept = {*kept}
        self._items = items
        self.shown: set[str] = set()
        self.lines: dict[str, BaseLine] = {}

    def rows(self) -> Iterator[_Row]:
        starts = {entry.start: index for index, entry in enumerate(self._page.entries)}
        number = 0
        while number < len(self._page.lines):
            line, section = self._page.lines[number], self._page.sections[number]
            index = starts.get(number)
            if index is None:
                number += 1
                if not _is_only_mark(line):
                    yield _Row(line, section, heading=line.lstrip().startswith("#"))
                continue
            entry = self._page.entries[index]
            yield from self._entry(index, entry)
            number = entry.end

    def _entry(self, index: int, entry: Entry) -> Iterator[_Row]:
        raw = self._page.lines[entry.start : entry.end]
        ident = self._stated.get(index, "")
        if index in self._kept:
            # It is too long for an item, and keeps the mark of the item that it stated before.
            if ident in self._items and ident not in self.shown:
                self._show(self._items[ident], entry)
            yield from (_Row(line, entry.section, fact=True) for line in raw)
            return
        item = self._items.get(ident)
        if item is None or item.id in self.shown or _is_misplaced(item, entry.section):
            return
        self._show(item, entry)
        mark = mark_of(item.id)
        if entry.text != text_of(item):
            lines = [_line_of(item)]
        elif entry.mark == mark:
            lines = list(raw)
        else:
            *before, last = [_without_mark(line) for line in raw]
            lines = [*before, _with_mark(last, mark)]
        yield from (_Row(line, entry.section, fact=True) for line in lines)

    def _show(self, item: Item, entry: Entry) -> None:
        self.shown.add(item.id)
        self.lines[mark_of(item.id)] = BaseLine(item.id, entry.section, digest_of(text_of(item)))


def _is_only_mark(line: str) -> bool:
    """Whether the text of a line was deleted but not its mark."""
    return bool(_MARK.search(line)) and not _MARK.sub("", line).strip(" -*+")


def _is_misplaced(item: Item, section: Section) -> bool:
    """Whether a pinned item is outside the Pinned section, or another item inside it. Any item may be under a
    person's own heading."""
    return bool(section) and item.pinned != (section == PINNED)


def _insert(rows: list[_Row], row: _Row) -> None:
    """Add a line at the end of its section. A missing section is inserted in its order."""
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
        at = _start_of_section(rows, row.section)
        new = [_Row(f"## {TITLES[row.section]}", row.section, heading=True), _Row("", row.section), row]
        before = (
            [] if at and not rows[at - 1].text.strip() else [_Row("", rows[at - 1].section if at else "")]
        )
        after = [_Row("", row.section)] if at < len(rows) else []
        rows[at:at] = [*before, *new, *after]


def _start_of_section(rows: Sequence[_Row], section: Section) -> int:
    """Where a section starts: before the first of our sections that comes later, or after the last text."""
    later = _ORDER[_ORDER.index(section) + 1 :]
    found = next((n for n, r in enumerate(rows) if r.heading and r.section in later), None)
    if found is not None:
        return found
    end = len(rows)
    while end and not rows[end - 1].text.strip():
        end -= 1
    return end


def _without_empty_sections(rows: Sequence[_Row]) -> Iterator[_Row]:
    """Leave out our headings with nothing under them."""
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
