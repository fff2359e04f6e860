"""Choose items: by salience for a new session's prompt, by relevance for a query, and by their links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import log2

from onlooker.domain.frozen import frozen
from onlooker.domain.items import Item, Origin
from onlooker.domain.messages import DEFAULT_OWNER, SessionId
from onlooker.policy.search.rank import K1, B, rarity
from onlooker.policy.search.words import query_tokens, tokens
from onlooker.policy.text import regex

# -- Salience

HALF_LIFE_DAYS = 14
USE_WEIGHT = 0.15
_SECONDS_PER_DAY = 86_400


def decay(days: float) -> float:
    """Return an item's weight after this many days without use. It halves every two weeks."""
    return 2.0 ** (-max(0.0, days) / HALF_LIFE_DAYS)


def boost(uses: int) -> float:
    """Return the factor for an item used this often."""
    return 1 + USE_WEIGHT * log2(1 + max(0, uses))


def days_unused(item: Item, now: datetime) -> float:
    """Return the days since the item was last used, or made."""
    return (now - (item.last_used_at or item.made_at)).total_seconds() / _SECONDS_PER_DAY


def salience(item: Item, now: datetime, relevance: float = 1.0) -> float:
    """Return relevance × decay × boost × trust."""
    return relevance * decay(days_unused(item, now)) * boost(item.uses) * item.trust


def choose_items(
    items: Sequence[Item], session: SessionId, limit: int, now: datetime, count: Callable[[str], int]
) -> list[Item]:
    """Choose the items that a session shows within `most` tokens: pinned first, then by salience.

    Items taken from the session itself are left out, since its notes contain them.
    """
    elsewhere = [i for i in items if i.holds(now) and (i.pinned or i.session != session.key or not i.sources)]
    order = sorted(elsewhere, key=lambda i: (not i.pinned, -salience(i, now), i.id))
    return list(_fitting(order, limit - count(items_heading(session.owner)) - 1, count))


def _fitting(items: Sequence[Item], left: int, count: Callable[[str], int]) -> Iterator[Item]:
    for item in items:
        cost = count(item_line(item)) + 1
        if cost <= left:
            left -= cost
            yield item


@frozen
class RankedItem:
    """An item that matches a query, with its score."""

    item: Item
    score: float


def rank_items(items: Sequence[Item], query: str, now: datetime) -> list[RankedItem]:
    """Return the items that contain a word of the query, best first."""
    relevance = bm25([" ".join((item.summary, *item.tags)) for item in items], query)
    found = [
        RankedItem(item, salience(item, now, score))
        for item, score in zip(items, relevance, strict=True)
        if score > 0
    ]
    return sorted(found, key=lambda f: (-f.score, f.item.id))


def bm25(texts: Sequence[str], query: str) -> list[float]:
    """Score each text for the query by Okapi BM25 over these texts."""
    wanted = query_tokens(query)
    counts = [Counter(tokens(text)) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    weights = {word: rarity(len(texts), sum(word in count for count in counts)) for word in wanted}
    return [
        sum(weights[word] * _saturated(count[word], length / mean) for word in wanted)
        for count, length in zip(counts, lengths, strict=True)
    ]


def _saturated(count: int, length: float) -> float:
    return count * (K1 + 1) / (count + K1 * (1 - B + B * length)) if count else 0.0


# -- Items in a prompt

_MAX_NAME_LENGTH = 60
_DATED = regex(r"\b\d{4}-\d\d(?:-\d\d)?\b|\b\d{4}-W\d\d\b")


def items_heading(owner: str) -> str:
    """Return the heading of the items. The owner's name is made safe: one line, without hashes."""
    name = re.sub(r"[\s#]+", " ", owner).strip()[:_MAX_NAME_LENGTH] or DEFAULT_OWNER
    return f"### About {'the user' if owner == DEFAULT_OWNER else name}"


# Whose word it is, where it is not the user's.
_BY: dict[Origin, str] = {"user": "", "agent": " (said by the assistant)", "tool": " (from a tool)"}


# What would make it read as a line of the user's, or as one that matters more than others.
_LABELS = regex(
    r"\A(?:(?:CRITICAL|IMPORTANT|NOTE)\b[ :：]{0,4}|(?i:critical|important|note|(?:the )?user) ?[:：] ?)+"
)


def shown_summary(item: Item) -> str:
    """Return the summary on one line. One that is not the user's word does not begin as if it were."""
    summary = re.sub(r"\s+", " ", item.summary).strip()
    return summary if item.origin == "user" else _LABELS.sub("", summary) or summary


def item_line(item: Item) -> str:
    """Render an item as one line, with the date since when it is true."""
    summary = shown_summary(item) + _BY[item.origin]
    day = item.valid_from
    if day is None or (_DATED.search(summary) and not item.replaces):
        return f"- {summary}"
    return f"- {summary} ({'since ' if item.replaces else ''}{day:%Y-%m-%d})"


def items_section(owner: str, items: Sequence[Item], limit: int, count: Callable[[str], int]) -> str:
    """Render the section about the owner with the items that fit, in order; empty if none fits."""
    lines: list[str] = []
    left = limit - count(items_heading(owner)) - 1
    for item in items:
        line = item_line(item)
        cost = count(line) + 1
        if cost <= left:
            lines.append(line)
            left -= cost
    return "\n".join([items_heading(owner), *lines]) if lines else ""


# -- Links between items


def item_history(items: Sequence[Item], ident: str) -> list[Item]:
    """Return the item with all items it replaced and all that replaced it, oldest first."""
    by_id = {item.id: item for item in items}
    found = _reach(
        by_id, ident, lambda item: (*item.replaces, item.superseded_by, *_replaced_by(item, by_id))
    )
    return sorted(found, key=lambda i: (i.stated_at, i.made_at, len(_before(by_id, i)), i.id))


def cascade(items: Sequence[Item], ident: str) -> list[Item]:
    """Return the items to forget with this one: those it replaced, and those derived from any of them."""
    by_id = {item.id: item for item in items}
    made_of: dict[str, list[str]] = {}
    for item in items:
        for source in item.derived_from:
            made_of.setdefault(source, []).append(item.id)
    return _reach(by_id, ident, lambda item: (*item.replaces, *made_of.get(item.id, ())))


def _before(by_id: Mapping[str, Item], item: Item) -> list[Item]:
    """Return the item and everything it replaced, directly or not."""
    return _reach(by_id, item.id, lambda i: i.replaces)


def _replaced_by(item: Item, by_id: Mapping[str, Item]) -> list[str]:
    """Return the items that name this one as their replacement."""
    return [other.id for other in by_id.values() if other.superseded_by == item.id]


def _reach(by_id: Mapping[str, Item], ident: str, links: Callable[[Item], Iterable[str]]) -> list[Item]:
    """Return the item and all items reachable from it, each once."""
    found: dict[str, Item] = {}
    waiting = [ident]
    while waiting:
        item = by_id.get(waiting.pop(0))
        if item is not None and item.id not in found:
            found[item.id] = item
            waiting += links(item)
    return list(found.values())
