"""How much an item matters now: for a question, or where none is asked."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from onlooker.domain.items import Item
from onlooker.domain.messages import DEFAULT_OWNER, SessionId
from onlooker.policy.search.words import query_tokens, tokens
from onlooker.policy.settings import Settings

HALF_LIFE_DAYS = 14
USE_WEIGHT = 0.15

# The usual constants of BM25.
_K1 = 1.2
_B = 0.75
_SECONDS_PER_DAY = 86_400


def decay(days: float) -> float:
    """What is left of an item's weight after so many days without use: a half after two weeks."""
    return 2.0 ** (-max(0.0, days) / HALF_LIFE_DAYS)


def boost(uses: int) -> float:
    """What having been used so often adds."""
    return 1 + USE_WEIGHT * math.log2(1 + max(0, uses))


def days_unused(item: Item, now: datetime) -> float:
    """Days since it was last used, or made."""
    return (now - (item.last_used_at or item.made_at)).total_seconds() / _SECONDS_PER_DAY


def salience(item: Item, now: datetime, relevance: float = 1.0) -> float:
    """Relevance × decay × boost × trust."""
    return relevance * decay(days_unused(item, now)) * boost(item.uses) * item.trust


def chosen(
    items: Sequence[Item], session: SessionId, most: int, now: datetime, count: Callable[[str], int]
) -> list[Item]:
    """What a session that begins now shows, within so many tokens: pinned first, then by salience.

    What was taken from the session itself stands in its own notes.
    """
    elsewhere = [i for i in items if i.holds(now) and (i.pinned or i.session != session.key or not i.sources)]
    order = sorted(elsewhere, key=lambda i: (not i.pinned, -salience(i, now), i.id))
    return list(_fitting(order, most - count(heading(session.owner)) - 1, count))


def _fitting(items: Sequence[Item], left: int, count: Callable[[str], int]) -> Iterator[Item]:
    for item in items:
        cost = count(line_of(item)) + 1
        if cost <= left:
            left -= cost
            yield item


@dataclass(frozen=True, slots=True)
class RankedItem:
    """An item that answers a query, and how well."""

    item: Item
    score: float


def ranked(items: Sequence[Item], query: str, now: datetime) -> list[RankedItem]:
    """The items that have a word of the query, best first."""
    relevance = bm25([" ".join((item.summary, *item.tags)) for item in items], query)
    found = [
        RankedItem(item, salience(item, now, score))
        for item, score in zip(items, relevance, strict=True)
        if score > 0
    ]
    return sorted(found, key=lambda f: (-f.score, f.item.id))


def bm25(texts: Sequence[str], query: str) -> list[float]:
    """How well each text answers the query, by Okapi BM25 over these texts."""
    wanted = query_tokens(query)
    counts = [Counter(tokens(text)) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    weights = {word: _rarity(sum(word in count for count in counts), len(texts)) for word in wanted}
    return [
        sum(weights[word] * _saturated(count[word], length / mean) for word in wanted)
        for count, length in zip(counts, lengths, strict=True)
    ]


def _rarity(holding: int, total: int) -> float:
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def _saturated(count: int, length: float) -> float:
    return count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length)) if count else 0.0


# -- The items that stand in a session's prompt, and how

_MOST_NAME = 60
_DATED = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b|\b\d{4}-W\d\d\b")


def remembers(settings: Settings, owner: str) -> bool:
    """Whether sessions of this owner share what they know. Those that were opened without an owner may be
    anybody's, so that by default they do not."""
    if not settings.enabled or not settings.cross_session_limit or settings.cross_session == "off":
        return False
    return settings.cross_session == "all" or owner != DEFAULT_OWNER


def heading(owner: str) -> str:
    """The heading of the items; an owner's name cannot be more than a name in it."""
    name = re.sub(r"[\s#]+", " ", owner).strip()[:_MOST_NAME] or DEFAULT_OWNER
    return f"### About {'the user' if owner == DEFAULT_OWNER else name}"


def line_of(item: Item) -> str:
    """The item as it stands in a prompt: one line, with the day since when it holds."""
    summary = re.sub(r"\s+", " ", item.summary).strip()
    day = item.valid_from
    if day is None or (_DATED.search(summary) and not item.replaces):
        return f"- {summary}"
    return f"- {summary} ({'since ' if item.replaces else ''}{day:%Y-%m-%d})"


def about(owner: str, items: Sequence[Item], most: int, count: Callable[[str], int]) -> str:
    """The section: as many of the items, in their order, as the tokens allow; empty where none does."""
    lines: list[str] = []
    left = most - count(heading(owner)) - 1
    for item in items:
        line = line_of(item)
        cost = count(line) + 1
        if cost <= left:
            lines.append(line)
            left -= cost
    return "\n".join([heading(owner), *lines]) if lines else ""


# -- What an item leads to: what came before it, and what goes with it


def history(items: Sequence[Item], ident: str) -> list[Item]:
    """The item with everything that it replaced and everything that replaced it, oldest first."""
    by_id = {item.id: item for item in items}
    found = _reach(
        by_id, ident, lambda item: (*item.replaces, item.superseded_by, *_replaced_by(item, by_id))
    )
    return sorted(found, key=lambda i: (i.stated_at, i.made_at, len(_before(by_id, i)), i.id))


def cascade(items: Sequence[Item], ident: str) -> list[Item]:
    """What is forgotten with an item: what it replaced, and what was made of any of these."""
    by_id = {item.id: item for item in items}
    made_of: dict[str, list[str]] = {}
    for item in items:
        for source in item.derived_from:
            made_of.setdefault(source, []).append(item.id)
    return _reach(by_id, ident, lambda item: (*item.replaces, *made_of.get(item.id, ())))


def _before(by_id: Mapping[str, Item], item: Item) -> list[Item]:
    """The item and what it replaced, however often."""
    return _reach(by_id, item.id, lambda i: i.replaces)


def _replaced_by(item: Item, by_id: Mapping[str, Item]) -> list[str]:
    """Items that say they were replaced by this one, where it does not say so itself."""
    return [other.id for other in by_id.values() if other.superseded_by == item.id]


def _reach(by_id: Mapping[str, Item], ident: str, links: Callable[[Item], Iterable[str]]) -> list[Item]:
    """The item, and whatever can be reached from it, each once."""
    found: dict[str, Item] = {}
    waiting = [ident]
    while waiting:
        item = by_id.get(waiting.pop(0))
        if item is not None and item.id not in found:
            found[item.id] = item
            waiting += links(item)
    return list(found.values())
