"""What a note speaks of by name: people, places, products, quoted titles, identifiers."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onlooker.domain.messages import SessionId
from onlooker.domain.search import Edge, EdgeKind, Node, note_node
from onlooker.policy.search.words import STOP_WORDS
from onlooker.policy.values import find_values

# Of one note: beyond that it is a list, and its entries tell little of each other.
MOST_ENTITIES = 64
MOST_CHARACTERS = 100_000
_LONGEST = 80
# Values that name a thing. Amounts, times and dates stand in many notes that have nothing to do with
# each other.
_NAMING = frozenset(("url", "email", "path", "hash", "id", "code", "quoted"))
# A run of words with a capital, as "Ana Lund" or "Trondheim"; or in katakana.
_CAPITAL = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0401\u0410-\u042f"
_WORD = rf"[{_CAPITAL}][^\W_]*(?:['’&-][^\W_]+)*(?!\w)"
_RUN = re.compile(rf"(?<![\w.@/#-]){_WORD}(?: (?:(?:of|de|van|von|der|la|the) )?{_WORD})*")
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc]{3,}")
_QUOTES = "\"'“”‘’「」『』《》`"
# Where a sentence, a line or a statement begins, a capital says nothing.
_BEGINS = re.compile(r"(?:^|[.!?:;。！？]\s*|[-*•→←>]\s+|\]\s+)$")
_NO_NAMES = frozenset(
    """critical important note values user assistant system tool january february march april may june july
    august september october november december monday tuesday wednesday thursday friday saturday sunday jan
    feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun ok yes no mr mrs ms dr""".split()  # noqa: SIM905
)


def entities(text: str) -> tuple[str, ...]:
    """The names and identifiers that a text speaks of, as it writes them, each once and in order."""
    text = text[:MOST_CHARACTERS]
    found: dict[str, str] = {}
    for name in (*_values(text), *_names(text), *_KATAKANA.findall(text)):
        key = folded(name)
        if 1 < len(key) <= _LONGEST and len(found) < MOST_ENTITIES:
            found.setdefault(key, name)
    return tuple(found.values())


def folded(name: str) -> str:
    """What makes two spellings one entity."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _values(text: str) -> Iterator[str]:
    for value in find_values(text):
        if value.kind in _NAMING:
            yield " ".join(value.text.strip(_QUOTES).split())


def _names(text: str) -> Iterator[str]:
    runs = [(_bare(m[0]), _begins(text, m)) for m in _RUN.finditer(text)]
    inside = {word for words, begins in runs if not begins for word in words}
    for words, begins in runs:
        # Whatever begins a sentence has a capital: it is a name where it has one elsewhere too, or stands
        # before another.
        if begins and len(words) == 1 and words[0] not in inside and not words[0][1:2].isupper():
            continue
        if words:
            yield " ".join(words)


def _bare(run: str) -> list[str]:
    """The words of a run, without those at its ends that are no part of a name."""
    words = [re.sub(r"['’]s?$", "", word) for word in run.split()]
    while words and _says_nothing(words[0]):
        words.pop(0)
    while words and _says_nothing(words[-1]):
        words.pop()
    return words


def _says_nothing(word: str) -> bool:
    return len(word) < 2 or word.lower() in _NO_NAMES or word.lower() in STOP_WORDS


def _begins(text: str, match: re.Match[str]) -> bool:
    start = match.start()
    if text[match.end() : match.end() + 1] == ":" or text[match.end() - 2 : match.end()] in ("'s", "’s"):
        return False  # "Ana: …", "Ana's …": whoever it is about
    return _BEGINS.search(text, max(0, start - 8), start) is not None


# -- The graph as a ranking: what is tied to the notes that were found, and how closely

# Notes that the graph is entered by, the best that were found.
MOST_SEEDS = 10
# An entity that more notes mention than this ties none of them together.
MOST_HOLDERS = 30
# How much of what a note is worth passes on, by what ties the two.
PASSED_ON: Mapping[EdgeKind, float] = {"mentions": 1.0, "reflects_on": 0.5, "follows": 0.1}
# What a place in this ranking counts, next to one in a ranking of what was asked for itself: the graph adds
# to what was found and confirms it, and puts nothing before it.
GRAPH_WEIGHT = 0.5


class Stub(NamedTuple):
    """A note as the graph sees it."""

    id: str
    generation: int
    first: int
    sources: tuple[str, ...]


def structure(session: SessionId, notes: Sequence[Stub]) -> Iterator[Edge]:
    """The edges that notes have by what they are: to their session, to the note of the same generation
    before them, to the notes that they condense."""
    known = {n.id for n in notes}
    before: dict[int, Stub] = {}
    for note in sorted(notes, key=lambda n: (n.first, n.generation, n.id)):
        node = note_node(session, note.id)
        yield Edge("in_session", node, Node("session", session.key, session))
        if earlier := before.get(note.generation):
            yield Edge("follows", node, note_node(session, earlier.id))
        before[note.generation] = note
        for source in note.sources if note.generation else ():
            if source in known:
                yield Edge("reflects_on", node, note_node(session, source))


def with_sources(seeds: Mapping[Node, float], edges: Sequence[Edge]) -> dict[Node, float]:
    """The seeds, and the notes that they condense, the first ones of each."""
    found = dict(seeds)
    taken: dict[Node, int] = defaultdict(int)
    for edge in edges:
        if edge.kind == "reflects_on" and edge.source in seeds and taken[edge.source] < MOST_SEEDS:
            taken[edge.source] += 1
            found.setdefault(edge.target, PASSED_ON["reflects_on"] * seeds[edge.source])
    return found


def spread(seeds: Mapping[Node, float], edges: Sequence[Edge]) -> list[Node]:
    """Notes that are tied to the seeds, the closest first; the seeds themselves are among them where another
    seed leads to them. An entity counts the more, the fewer notes mention it."""
    holders: dict[Node, set[Node]] = defaultdict(set)
    worth: dict[Node, float] = defaultdict(float)
    for edge in dict.fromkeys(edges):
        if edge.kind == "mentions":
            holders[edge.target].add(edge.source)
        elif edge.kind in PASSED_ON:
            for one, other in ((edge.source, edge.target), (edge.target, edge.source)):
                worth[other] += PASSED_ON[edge.kind] * seeds.get(one, 0.0)
    for notes in holders.values():
        if len(notes) > MOST_HOLDERS:
            continue
        for seed in notes & seeds.keys():
            for other in notes - {seed}:
                worth[other] += PASSED_ON["mentions"] * seeds[seed] / (len(notes) - 1)
    tied = [node for node, value in worth.items() if value > 0]
    return sorted(tied, key=lambda n: (-worth[n], str(n)))
