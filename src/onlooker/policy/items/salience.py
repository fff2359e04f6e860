"""How much an item matters now: for a question, or where none is asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from onlooker.domain.items import Item
from onlooker.domain.messages import SessionId
from onlooker.policy.items.shown import heading, line_of
from onlooker.policy.searching.words import query_tokens, tokens

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
class Found:
    """An item that answers a query, and how well."""

    item: Item
    score: float


def ranked(items: Sequence[Item], query: str, now: datetime) -> list[Found]:
    """The items that have a word of the query, best first."""
    relevance = bm25([" ".join((item.summary, *item.tags)) for item in items], query)
    found = [
        Found(item, salience(item, now, score))
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
