"""Rank matches by BM25, the same for every store, fuse rankings, and cut snippets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from heapq import nlargest
from math import log
from typing import TypeVar

from onlooker.domain.search import Match, SearchResult
from onlooker.policy.search.words import tokens
from onlooker.policy.text import MAX_READ, regex

# -- Ranking

K = TypeVar("K", bound=Hashable)

# The usual parameters of BM25: the saturation of repeated words, and the penalty of long texts.
K1, B = 1.2, 0.75
# The usual constant of reciprocal rank fusion.
RANK_CONSTANT = 60
# How much more a text counts if the query names its speaker.
SPEAKER_BOOST = 1.0


def rarity(docs: int, holders: int) -> float:
    """Return the inverse document frequency of a term that `holders` of `docs` texts contain."""
    return log(1 + (docs - holders + 0.5) / (holders + 0.5))


def most_holders(docs: int, rare: float, limit: int) -> int:
    """Return how many of `docs` texts, at most `limit`, may contain a term that has at least the share `rare`
    of the rarity of a term that a single text has."""
    least = rare * rarity(docs, 1)
    return next((n for n in range(limit) if rarity(docs, n + 1) < least), limit)


def shortlist(
    holders: Mapping[str, Sequence[int]], terms: Mapping[str, float], docs: int, limit: int
) -> list[int]:
    """Choose the texts worth reading, by number: those with the rarest terms, the newer first among equals.

    A store can do this from its index, without reading any text.
    """
    weights: dict[int, float] = {}
    for term, numbers in holders.items():
        weight = terms[term] * rarity(docs, len(numbers))
        for number in numbers:
            weights[number] = weights.get(number, 0.0) + weight
    best = nlargest(limit, zip(weights.values(), weights, strict=True))
    return [number for _, number in best]


def scores(found: SearchResult, terms: Mapping[str, float]) -> dict[Match, float]:
    """Score each match by BM25."""
    average = found.length / found.docs if found.docs else 1.0
    weights = {t: w * rarity(found.docs, found.holders.get(t, 0)) for t, w in terms.items()}
    return {match: _score(match.words.split(), weights, average or 1.0) for match in found.matches}


def _score(words: Sequence[str], weights: Mapping[str, float], average: float) -> float:
    norm = K1 * (1 - B + B * len(words) / average)
    # Once, however many terms there are, and without a step of Python's for each word.
    counts = Counter(filter(weights.__contains__, words))
    return sum([weights[term] * count * (K1 + 1) / (count + norm) for term, count in sorted(counts.items())])


def best_first(scored: Mapping[Match, float]) -> list[Match]:
    """Sort matches by score. Among equals those that were taken back are last, and the newer first."""

    def order(m: Match) -> tuple[object, ...]:
        return -scored[m], m.kind == "retired", -(m.at.timestamp() if m.at else 0.0), -m.seq, m.session

    return sorted(scored, key=order)


def together(one: SearchResult, other: SearchResult) -> SearchResult:
    """The results of one query on two kinds, as of one collection of texts."""
    holders = {t: one.holders.get(t, 0) + other.holders.get(t, 0) for t in {**one.holders, **other.holders}}
    return SearchResult(
        one.docs + other.docs, one.length + other.length, holders, (*one.matches, *other.matches)
    )


def fuse(*rankings: Sequence[K], weights: Sequence[float] = ()) -> dict[K, float]:
    """Fuse rankings by reciprocal rank, which needs no common scale of scores.

    `weights` are the weights of the rankings, 1 by default.
    """
    together: dict[K, float] = {}
    for number, ranking in enumerate(rankings):
        weight = weights[number] if number < len(weights) else 1.0
        for position, key in enumerate(ranking, 1):
            together[key] = together.get(key, 0.0) + weight / (RANK_CONSTANT + position)
    return together


def speaker_names(terms: Iterable[str], matches: Iterable[Match]) -> set[str]:
    """Return the terms that are names of speakers."""
    speakers = {m.speaker for m in matches}
    return {t for speaker in speakers for t in tokens(speaker)} & set(terms)


def boost_speakers(scored: Mapping[Match, float], names: set[str]) -> dict[Match, float]:
    """Raise the scores of named speakers: "what did Ana buy" asks for what Ana says."""
    return {m: s * (1 + SPEAKER_BOOST * (not names.isdisjoint(tokens(m.speaker)))) for m, s in scored.items()}


# -- Snippets

ELLIPSIS = "…"
MAX_SNIPPET_LENGTH = 240
_WORD = regex(r"\S+")


def snippet(
    text: str, terms: Collection[str], *, limit: int = MAX_SNIPPET_LENGTH, marks: tuple[str, str] = ("", "")
) -> str:
    """Cut at most `most` characters from where the terms are densest, with found words between the marks.

    >>> snippet("We moved to Oslo", {"oslo"}, marks=("[", "]"))
    'We moved to [Oslo]'
    """
    if len(text) <= limit and marks == ("", ""):
        return text
    text = text[:MAX_READ]
    words = list(_WORD.finditer(text))
    found = {word for word in {m[0] for m in words} if not set(tokens(word)).isdisjoint(terms)}
    spans = [m.span() for m in words if m[0] in found]
    start, end = _window(text, spans, limit)
    parts: list[str] = []
    at = start
    for left, right in spans if marks != ("", "") else ():
        if start <= left and right <= end:
            parts += [text[at:left], marks[0], text[left:right], marks[1]]
            at = right
    shown = "".join([*parts, text[at:end]]).strip()
    return (ELLIPSIS if start else "") + shown + (ELLIPSIS if end < len(text) else "")


def _window(text: str, spans: list[tuple[int, int]], limit: int) -> tuple[int, int]:
    if len(text) <= limit:
        return 0, len(text)
    if not spans:
        return 0, _at_a_space(text, limit)
    # The window that begins a little before a found word and contains the most of them. Its end moves on with
    # its beginning, so that each word is counted once.
    lead = limit // 5
    first = most = end = 0
    for number, (left, _) in enumerate(spans):
        while end < len(spans) and spans[end][1] <= left + limit - lead:
            end += 1
        if end - number > most:
            first, most = left, end - number
    start = max(0, min((first if most else spans[0][0]) - lead, len(text) - limit))
    if start:
        start = text.find(" ", start, first) + 1 or start
    return start, _at_a_space(text, start + limit)


def _at_a_space(text: str, end: int) -> int:
    if end >= len(text):
        return len(text)
    return text.rfind(" ", end - 40, end) if " " in text[end - 40 : end] else end
