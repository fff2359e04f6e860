"""What a person did to MEMORY.md: lines that were changed, deleted, added, or moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onlooker.domain.items import Item
from onlooker.files.names import digest_of, mark_of, one_line
from onlooker.files.page import PINNED, Entry, Page, type_of
from onlooker.files.sidecar import Line, Written
from onlooker.policy.items.match import contradictions, same_meaning
from onlooker.policy.values import mask

# Where so many lines or more were deleted, and they are more than half, a copy is kept.
MANY = 5
# How many lines must be known before a file in which none of them is left counts as another file.
LEAST_KNOWN = 3


@dataclass(slots=True)
class Hand:
    """Changes by hand. `same` are the entries that stand for an item as it is, by their place in the page;
    `copies` say again what another entry says."""

    same: dict[int, str] = field(default_factory=dict[int, str])
    copies: set[int] = field(default_factory=set[int])
    edited: dict[int, str] = field(default_factory=dict[int, str])
    added: list[int] = field(default_factory=list[int])
    deleted: list[str] = field(default_factory=list[str])
    pins: dict[str, bool] = field(default_factory=dict[str, bool])

    @property
    def count(self) -> int:
        return len(self.edited) + len(self.added) + len(self.deleted) + len(self.pins)


def words_of(item: Item) -> str:
    """The item's words as they stand in its line."""
    return one_line(item.summary)


def written_words(text: str) -> str:
    """What a line of the file becomes as an item: one line, without secrets."""
    return mask(one_line(text))


def replaced_whole(page: Page, base: Written, items: Mapping[str, Item]) -> bool:
    """Whether the file has nothing of what we wrote: it is another file, and says nothing about ours."""
    if len(base.lines) < LEAST_KNOWN or not page.entries:
        return False
    digests = {line.digest for line in base.lines.values()}
    return not any(
        e.mark in base.lines or digest_of(one_line(e.text)) in digests for e in page.entries
    ) and any(line.item in items for line in base.lines.values())


def find(page: Page, base: Written, items: Mapping[str, Item]) -> Hand:
    """Compare the file with what we wrote. `items` are the owner's live items, and whatever else became of
    those that we wrote, by id."""
    hand = Hand()
    finder = _Finder(page, base, items, hand)
    finder.match_unchanged()
    finder.match_edited()
    finder.match_rest()
    finder.miss()
    return hand


class _Finder:
    def __init__(self, page: Page, base: Written, items: Mapping[str, Item], hand: Hand) -> None:
        self._entries = page.entries
        self._base = base
        self._items = items
        self._hand = hand
        self._by_mark = {mark_of(item.id): item.id for item in items.values()}
        self._by_mark |= {mark: line.item for mark, line in base.lines.items()}
        self._live = [item for item in items.values() if item.status == "live"]
        self._taken: set[str] = set()

    def match_unchanged(self) -> None:
        for place, entry in enumerate(self._entries):
            ident = self._by_mark.get(entry.mark)
            if ident and ident not in self._taken and self._unchanged(entry, ident):
                self._same(place, entry, ident)

    def match_edited(self) -> None:
        for place, entry in enumerate(self._entries):
            ident = self._by_mark.get(entry.mark)
            if ident and ident not in self._taken:
                self._taken.add(ident)
                self._hand.edited[place] = ident

    def match_rest(self) -> None:
        """Lines without a mark, or with that of another: what they say may be known all the same."""
        known: dict[str, str] = {}
        for item in self._live:
            known.setdefault(words_of(item), item.id)
        for place, entry in enumerate(self._entries):
            if place in self._hand.same or place in self._hand.edited:
                continue
            ident = known.get(written_words(entry.text))
            if ident is None:
                self._hand.added.append(place)
            elif ident in self._taken:
                self._hand.copies.add(place)
            else:
                self._same(place, entry, ident)

    def miss(self) -> None:
        """Lines that are gone: their items go, unless a new line says what became of them."""
        for line in self._base.lines.values():
            item = self._items.get(line.item)
            if line.item in self._taken or item is None or item.status != "live":
                continue
            place = next((p for p in self._hand.added if _goes_on(self._entries[p].text, item)), None)
            if place is None:
                self._hand.deleted.append(item.id)
            else:
                self._hand.added.remove(place)
                self._hand.edited[place] = item.id

    def _same(self, place: int, entry: Entry, ident: str) -> None:
        self._taken.add(ident)
        item = self._items.get(ident)
        line = self._base.lines.get(mark_of(ident))
        if item is None or line is None or line.section == entry.section:
            self._hand.same[place] = ident
            return
        self._moved(place, entry, item, line)

    def _moved(self, place: int, entry: Entry, item: Item, line: Line) -> None:
        wanted = type_of(entry.section)
        if wanted is not None and wanted != item.type:
            self._hand.edited[place] = item.id
            return
        self._hand.same[place] = item.id
        if PINNED in (entry.section, line.section) and item.pinned != (entry.section == PINNED):
            self._hand.pins[item.id] = entry.section == PINNED

    def _unchanged(self, entry: Entry, ident: str) -> bool:
        words = one_line(entry.text)
        item = self._items.get(ident)
        if item is not None and words == words_of(item):
            return True
        line = self._base.lines.get(entry.mark)
        return line is not None and line.digest == digest_of(words)


def _goes_on(text: str, item: Item) -> bool:
    """Whether a new line says what an item said, or the opposite."""
    return same_meaning(text, item.summary, item.owner) or bool(contradictions(text, [item]))


def current(ident: str, items: Mapping[str, Item]) -> Item | None:
    """The live item that an item has become, itself where it is live; None where it was forgotten."""
    seen: set[str] = set()
    item = items.get(ident)
    while item is not None and item.status == "ended" and item.id not in seen:
        seen.add(item.id)
        item = items.get(item.superseded_by)
    return item if item is not None and item.status == "live" else None


def many(hand: Hand, base: Written) -> bool:
    """Whether so much was deleted at once that it may have been a mistake."""
    return len(hand.deleted) >= MANY and len(hand.deleted) * 2 > len(base.lines)
