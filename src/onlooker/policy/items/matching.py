"""What a new item means to those that are there: the same, more, or the opposite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from onlooker.domain.items import Item
from onlooker.policy.items.facts import facts_of, subject_of
from onlooker.policy.items.lexicon import NEGATION, kind_of
from onlooker.policy.items.statements import speaker_of
from onlooker.policy.searching.words import query_tokens

# Share of words that two summaries of the same meaning have in common.
SAME = 0.75
# Share of the shorter one's words that the longer has, where that says the same and more.
WITHIN = 0.9
LEAST_WORDS = 2
_PARTS = re.compile(r"[,;]\s+|\s+(?:and|but)\s+")


@lru_cache(maxsize=4096)
def words_of(summary: str, owner: str) -> frozenset[str]:
    """What a summary says, whoever is named as its speaker: the user and the owner are one."""
    who, text = speaker_of(summary)
    words = set(query_tokens(text if who.casefold() in ("user", owner.casefold()) else summary))
    return frozenset(words - {"user", *query_tokens(owner)}) or frozenset(words)


def same_meaning(one: str, other: str, owner: str) -> bool:
    """Whether two summaries say the same, or one all that the other does."""
    if subject_of(one, owner) != subject_of(other, owner):
        return False
    first, second = words_of(one, owner), words_of(other, owner)
    if not first or not second or _numbers(first) != _numbers(second):
        return first == second
    if bool(NEGATION.search(one)) != bool(NEGATION.search(other)):
        return False
    both = len(first & second)
    return both / len(first | second) >= SAME or _says_more(first, second) or _says_more(second, first)


def says_more(one: str, other: str, owner: str) -> bool:
    """Whether the first says what the other does, and something besides."""
    return _says_more(words_of(one, owner), words_of(other, owner))


def _says_more(words: frozenset[str], others: frozenset[str]) -> bool:
    if len(others) < LEAST_WORDS or len(words) <= len(others):
        return False
    return len(words & others) / len(others) >= WITHIN


def _numbers(words: Iterable[str]) -> frozenset[str]:
    return frozenset(w for w in words if any(c.isdigit() for c in w))


def duplicates(summary: str, items: Sequence[Item]) -> list[Item]:
    """The items that say the same."""
    return [item for item in items if same_meaning(summary, item.summary, item.owner)]


def contradictions(summary: str, items: Sequence[Item]) -> list[Item]:
    """The items that cannot hold together with it."""
    found: list[Item] = []
    for item in items:
        new, old = facts_of(summary, item.owner), facts_of(item.summary, item.owner)
        if any(a.contradicts(b) for a in new for b in old):
            found.append(item)
    return found


# ------------------------------------------------------------------------------------ many at once


@dataclass(slots=True)
class Reconciled:
    """What becomes of new items among those that are there."""

    add: list[Item] = field(default_factory=list[Item])
    end: dict[str, str] = field(default_factory=dict[str, str])
    use: list[str] = field(default_factory=list[str])


def reconcile(new: Sequence[Item], existing: Sequence[Item]) -> Reconciled:
    """Take in new items, oldest first: one that is known counts as a use of the known one, one that
    contradicts ends it, unless that is newer, pinned, or a more trusted word."""
    done = Reconciled()
    live = {item.id: item for item in existing}
    for item in new:
        _take_in(item, live, done)
    return done


def _take_in(item: Item, live: dict[str, Item], done: Reconciled) -> None:
    others = list(live.values())
    # What changed is often said in nearly the same words, so this comes first.
    against = contradictions(item.summary, others)
    if not against and (known := duplicates(item.summary, others)):
        more = [k for k in known if says_more(item.summary, k.summary, item.owner) and _may_end(item, k)]
        if not more:
            done.use.append(known[0].id)
            return
        _replace(replace(item, derived_from=tuple(k.id for k in more)), more, live, done)
        return
    newer = [other for other in against if other.word_of > item.word_of]
    if newer:
        at = newer[0].valid_from or newer[0].made_at
        done.add.append(replace(item, status="ended", ended_at=at, superseded_by=newer[0].id))
    elif all(_may_end(item, other) or other.pinned for other in against):
        over = [other for other in against if not other.pinned and _says_only_that(other, item)]
        _replace(item, over, live, done)


def _says_only_that(old: Item, new: Item) -> bool:
    """Whether the old item says nothing worth keeping besides what the new one contradicts."""
    who, text = speaker_of(old.summary)
    facts = facts_of(new.summary, new.owner)
    for part in _PARTS.split(text):
        said = facts_of(f"{who}: {part}" if who else part, old.owner)
        if kind_of(part) and not any(a.contradicts(b) for a in facts for b in said):
            return False
    return True


def _replace(item: Item, old: Sequence[Item], live: dict[str, Item], done: Reconciled) -> None:
    item = replace(item, replaces=tuple(o.id for o in old))
    for other in old:
        del live[other.id]
        made_now = next((place for place, a in enumerate(done.add) if a.id == other.id), None)
        if made_now is None:
            done.end[other.id] = item.id
        else:
            at = item.valid_from or item.made_at
            done.add[made_now] = replace(other, status="ended", ended_at=at, superseded_by=item.id)
    live[item.id] = item
    done.add.append(item)


def _may_end(item: Item, other: Item) -> bool:
    return not other.pinned and item.trust >= other.trust
