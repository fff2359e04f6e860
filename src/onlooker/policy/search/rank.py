"""Which of the texts that hold a term come first: BM25, the same for every store, and how rankings join."""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import log
from typing import TypeVar

from onlooker.domain.messages import Message
from onlooker.domain.search import Match, SearchResult
from onlooker.policy.search.words import tokens

# -- What of a message or a note can be found, and how it reads when it is

# Arguments of one call that are shown and can be found: beyond that they are data.
MOST_ARGUMENTS = 2_000
KEPT_TEXTS = 4_096


def text_of(message: Message) -> str:
    """What a message says, its tool calls included."""
    calls = (f"→ {c.name}({c.arguments[:MOST_ARGUMENTS]})" for c in message.calls)
    return "\n".join(t for t in (message.body, *calls) if t)


@lru_cache(maxsize=KEPT_TEXTS)
def words_of(text: str) -> str:
    """The tokens of a text as an index keeps them, a space between them."""
    return " ".join(tokens(text))


# -- Which of the texts that hold a term come first

K = TypeVar("K", bound=Hashable)

# The usual parameters: how soon more of the same word counts less, and how much a long text is held back.
K1, B = 1.2, 0.75
# The usual constant of reciprocal rank fusion: how much the first places stand out.
RANK_CONSTANT = 60
# The most texts that a term is looked up in, the newest: a word that more have tells next to nothing.
MOST_HOLDERS = 50_000
# How much more a text counts that was said by someone whom the query names.
BY_NAME = 1.0


def rarity(docs: int, holders: int) -> float:
    """How much a term tells: the fewer texts hold it, the more."""
    return log(1 + (docs - holders + 0.5) / (holders + 0.5))


def shortlist(
    holders: Mapping[str, Sequence[int]], terms: Mapping[str, float], docs: int, most: int
) -> list[int]:
    """The texts, by number, that are worth reading: those that hold the most telling terms, and the newer
    of two that hold the same. A store has these at hand without reading any."""
    weights: dict[int, float] = {}
    for term, numbers in holders.items():
        weight = terms[term] * rarity(docs, len(numbers))
        for number in numbers:
            weights[number] = weights.get(number, 0.0) + weight
    return heapq.nlargest(most, weights, key=lambda number: (weights[number], number))


def scores(found: SearchResult, terms: Mapping[str, float]) -> dict[Match, float]:
    """BM25 of each match."""
    average = found.length / found.docs if found.docs else 1.0
    telling = {t: w * rarity(found.docs, found.holders.get(t, 0)) for t, w in terms.items()}
    return {match: _score(match.words.split(), telling, average or 1.0) for match in found.matches}


def _score(words: Sequence[str], telling: Mapping[str, float], average: float) -> float:
    norm = K1 * (1 - B + B * len(words) / average)
    score = 0.0
    for term in telling.keys() & set(words):
        count = words.count(term)
        score += telling[term] * count * (K1 + 1) / (count + norm)
    return score


def best_first(scored: Mapping[Match, float]) -> list[Match]:
    """By score; of two that are alike the newer one."""
    return sorted(scored, key=lambda m: (-scored[m], -(m.at.timestamp() if m.at else 0.0), -m.seq, m.session))


def fused(*rankings: Sequence[K], weights: Sequence[float] = ()) -> dict[K, float]:
    """Several rankings as one, by reciprocal rank: what stands high in any of them comes first, and more so
    what stands high in several. None needs to know how another scores. `weights` say how much each counts;
    1 where there is none."""
    together: dict[K, float] = {}
    for number, ranking in enumerate(rankings):
        weight = weights[number] if number < len(weights) else 1.0
        for place, key in enumerate(ranking, 1):
            together[key] = together.get(key, 0.0) + weight / (RANK_CONSTANT + place)
    return together


def names_in(terms: Iterable[str], matches: Iterable[Match]) -> set[str]:
    """Those of the terms that are names of whoever speaks."""
    speakers = {m.speaker for m in matches}
    return {t for speaker in speakers for t in tokens(speaker)} & set(terms)


def weighted_by_name(scored: Mapping[Match, float], names: set[str]) -> dict[Match, float]:
    """The scores, with more for those who are named: "what did Ana buy" is for what Ana says."""
    return {m: s * (1 + BY_NAME * (not names.isdisjoint(tokens(m.speaker)))) for m, s in scored.items()}


# -- The part of a text that speaks of what was asked for

ELLIPSIS = "…"
MOST_SNIPPET = 240
_WORD = re.compile(r"\S+")


def snippet(
    text: str, terms: Collection[str], *, most: int = MOST_SNIPPET, marks: tuple[str, str] = ("", "")
) -> str:
    """At most `most` characters where the terms stand closest, each found word between the marks.

    >>> snippet("We moved to Oslo", {"oslo"}, marks=("[", "]"))
    'We moved to [Oslo]'
    """
    if len(text) <= most and marks == ("", ""):
        return text
    spans = [m.span() for m in _WORD.finditer(text) if not set(tokens(m[0])).isdisjoint(terms)]
    start, end = _window(text, spans, most)
    parts: list[str] = []
    at = start
    for left, right in spans if marks != ("", "") else ():
        if start <= left and right <= end:
            parts += [text[at:left], marks[0], text[left:right], marks[1]]
            at = right
    shown = "".join([*parts, text[at:end]]).strip()
    return (ELLIPSIS if start else "") + shown + (ELLIPSIS if end < len(text) else "")


def _window(text: str, spans: list[tuple[int, int]], most: int) -> tuple[int, int]:
    if len(text) <= most:
        return 0, len(text)
    if not spans:
        return 0, _at_a_space(text, most)
    # The window that begins at a found word and holds the most of them, with a little before it.
    first = max(
        spans, key=lambda s: (sum(s[0] <= left and right <= s[0] + most for left, right in spans), -s[0])
    )
    start = max(0, min(first[0] - most // 5, len(text) - most))
    if start:
        start = text.find(" ", start, first[0]) + 1 or start
    return start, _at_a_space(text, start + most)


def _at_a_space(text: str, end: int) -> int:
    if end >= len(text):
        return len(text)
    return text.rfind(" ", end - 40, end) if " " in text[end - 40 : end] else end
