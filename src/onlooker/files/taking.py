"""Changes by hand as a change to the owner's items: a person's word, which ends what it contradicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from onlooker.domain.items import Item, ItemChange
from onlooker.files.finding import Hand, current, words_of, written_words
from onlooker.files.page import PINNED, Entry, Page, type_of
from onlooker.policy.items.extract import expiry, tags_of
from onlooker.policy.items.match import contradictions, duplicates, same_meaning
from onlooker.policy.items.statements import MOST_CHARACTERS, kind_of


@dataclass(slots=True)
class Taken:
    """What becomes of the changes: which item each entry stands for now, and which cannot be one."""

    change: ItemChange
    stands_for: dict[int, str] = field(default_factory=dict[int, str])
    refused: list[int] = field(default_factory=list[int])
    edited: int = 0  # how many of the added items take the place of one that was edited


def take(
    page: Page, hand: Hand, items: Mapping[str, Item], owner: str, now: datetime, ident: Callable[[], str]
) -> Taken:
    """`items` are as in `find`, `ident` makes ids."""
    taking = _Taking(items, hand, owner, now, ident)
    for place, entry in enumerate(page.entries):
        if place in hand.edited:
            taking.edit(place, entry, hand.edited[place])
        elif place in hand.added:
            taking.add(place, entry)
    change = ItemChange(owner, now, tuple(taking.made), tuple(taking.ended.items()))
    return Taken(change, taking.stands_for, taking.refused, taking.edits)


class _Taking:
    def __init__(
        self, items: Mapping[str, Item], hand: Hand, owner: str, now: datetime, ident: Callable[[], str]
    ) -> None:
        self._items = items
        self._owner = owner
        self._now = now
        self._ident = ident
        gone = {*hand.deleted}
        self._live = {i.id: i for i in items.values() if i.status == "live" and i.id not in gone}
        # A line that stands in the file beside a new one was left there by the person.
        self._left = {*hand.same.values(), *hand.edited.values()}
        self.made: list[Item] = []
        self.ended: dict[str, str] = {}
        self.stands_for: dict[int, str] = {}
        self.refused: list[int] = []
        self.edits = 0

    def edit(self, place: int, entry: Entry, ident: str) -> None:
        old = current(ident, self._items)
        if old is None or old.id not in self._live:
            self.add(place, entry)
            return
        words, wanted = written_words(entry.text), type_of(entry.section) or old.type
        if words == words_of(old) and wanted == old.type:
            self.stands_for[place] = old.id
            return
        if not self._possible(place, words):
            return
        same = same_meaning(words, old.summary, self._owner)
        item = replace(
            self._item(words, entry),
            type=wanted,
            # Said in other words it still holds since when it did.
            valid_from=old.valid_from if same else self._now,
            expires_at=old.expires_at if same else expiry(words, kind_of(words), self._now),
            tags=old.tags if same else tags_of(words, kind_of(words)),
            pinned=entry.section == PINNED if entry.section else old.pinned,
            uses=old.uses,
            last_used_at=old.last_used_at,
        )
        self.edits += 1
        self._keep(place, item, [old, *(i for i in self._against(words) if i.id != old.id)])

    def add(self, place: int, entry: Entry) -> None:
        words = written_words(entry.text)
        if not self._possible(place, words):
            return
        known = [i for i in duplicates(words, list(self._live.values())) if i.id not in self._left]
        against = self._against(words)
        others = {i.id: i for i in (*against, *known) if not i.pinned}
        self._keep(place, self._item(words, entry), list(others.values()))

    def _against(self, words: str) -> Sequence[Item]:
        return [i for i in contradictions(words, list(self._live.values())) if not i.pinned]

    def _possible(self, place: int, words: str) -> bool:
        if len(words) <= MOST_CHARACTERS:
            return True
        self.refused.append(place)
        return False

    def _item(self, words: str, entry: Entry) -> Item:
        kind = kind_of(words)
        return Item(
            owner=self._owner,
            id=self._ident(),
            type=type_of(entry.section) or (kind.type if kind else "knowledge"),
            summary=words,
            made_at=self._now,
            tags=tags_of(words, kind),
            origin="user",
            said_at=self._now,
            valid_from=self._now,
            expires_at=expiry(words, kind, self._now),
            pinned=entry.section == PINNED,
        )

    def _keep(self, place: int, item: Item, old: Sequence[Item]) -> None:
        made = {i.id: number for number, i in enumerate(self.made)}
        for other in old:
            self._live.pop(other.id, None)
            if other.id in made:
                # Two lines of one save that contradict each other: the lower one is the later word.
                self.made[made[other.id]] = replace(
                    other, status="ended", ended_at=self._now, superseded_by=item.id
                )
            else:
                self.ended[other.id] = item.id
        item = replace(item, replaces=tuple(o.id for o in old))
        self._live[item.id] = item
        self.made.append(item)
        self.stands_for[place] = item.id
