"""The graph of notes: the entities they mention, the edges between them, and ranking by both."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note
from onlooker.domain.search import Edge, EdgeKind, Node, note_node
from onlooker.policy.search.words import STOP_WORDS
from onlooker.policy.text import regex
from onlooker.policy.values import find_values

# -- Entities: people, places, products, quoted titles and identifiers

# A note with more entities is a list, whose entries have little to do with each other.
MAX_ENTITIES = 64
MAX_CHARACTERS = 100_000  # of one text
_MAX_LENGTH = 80
# Values that name a thing. Amounts, times and dates occur in many unrelated notes.
_NAMING = frozenset(("url", "email", "path", "hash", "id", "code", "quoted"))
# A run of capitalised words, such as "Ana Lund" or "Trondheim", or of katakana.
_CAPITAL = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0401\u0410-\u042f"
_REST = r"[^\W_]*(?:['’&-][^\W_]+)*(?!\w)"  # of a word
# It begins with one character, since such a pattern is found several times faster.
_RUN = regex(
    rf"[{_CAPITAL}](?<![\w.@/#-].){_REST}(?: (?:(?:of|de|van|von|der|la|the) )?[{_CAPITAL}]{_REST})*"
)
_KATAKANA = regex("[\u30a1-\u30fa\u30fc]{3,}")
_QUOTES = "\"'“”‘’「」『』《》`"
# A capital means nothing at the beginning of a sentence, a line or a statement.
_BEGINS = regex(r"(?:^|[.!?:;。！？]\s*|[-*•→←>]\s+|\]\s+)$")
_NO_NAMES = frozenset(
    """critical important note values user assistant system tool january february march april may june july
    august september october november december monday tuesday wednesday thursday friday saturday sunday jan
    feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun ok yes no mr mrs ms dr""".split()  # noqa: SIM905
)
_COMMON = _NO_NAMES | STOP_WORDS
_POSSESSIVE = regex(r"['’]s?$")


def entities(text: str) -> tuple[str, ...]:
    """Find the names and identifiers in a text, as written, each once and in order."""
    text = text[:MAX_CHARACTERS]
    found: dict[str, str] = {}
    katakana = () if text.isascii() else _KATAKANA.findall(text)
    for name in (*_values(text), *_names(text), *katakana):
        key = folded(name)
        if 1 < len(key) <= _MAX_LENGTH and len(found) < MAX_ENTITIES:
            found.setdefault(key, name)
    return tuple(found.values())


def folded(name: str) -> str:
    """Normalise a name. Spellings with the same key are one entity."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _values(text: str) -> Iterator[str]:
    for value in find_values(text):
        if value.kind in _NAMING:
            yield " ".join(value.text.strip(_QUOTES).split())


def _names(text: str) -> Iterator[str]:
    runs = [(_bare(m[0]), _begins(text, m)) for m in _RUN.finditer(text)]
    inside = {word for words, begins in runs if not begins for word in words}
    for words, begins in runs:
        # The first word of a sentence is a name only if it is capitalised elsewhere too, or if another
        # capitalised word follows.
        if begins and len(words) == 1 and words[0] not in inside and not words[0][1:2].isupper():
            continue
        if words:
            yield " ".join(words)


def _bare(run: str) -> list[str]:
    """Split a run into words, without words at its ends that are not part of a name."""
    words = run.split()
    if "'" in run or "’" in run:
        words = [_POSSESSIVE.sub("", word) for word in words]
    while words and _is_common(words[0]):
        words.pop(0)
    while words and _is_common(words[-1]):
        words.pop()
    return words


def _is_common(word: str) -> bool:
    return len(word) < 2 or word.lower() in _COMMON


def _begins(text: str, match: re.Match[str]) -> bool:
    start = match.start()
    if text[match.end() : match.end() + 1] == ":" or text[match.end() - 2 : match.end()] in ("'s", "’s"):
        return False  # "Ana: …", "Ana's …": a person
    return _BEGINS.search(text, max(0, start - 8), start) is not None


# -- Edges


class Stub(NamedTuple):
    """The part of a note that the graph needs."""

    id: str
    generation: int
    first: int
    sources: tuple[str, ...]


def structure(session: SessionId, notes: Sequence[Stub]) -> Iterator[Edge]:
    """Link each note to its session, to the note of the same generation before it, and to the notes that it
    condenses."""
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


# -- Ranking: notes related to those that a search found

# The best notes found, which are the seeds of the ranking.
MAX_SEEDS = 10
# An entity mentioned by more notes than this does not relate them.
MAX_HOLDERS = 30
# The share of a note's score that each kind of edge passes on.
PASSED_ON: Mapping[EdgeKind, float] = {"mentions": 1.0, "reflects_on": 0.5, "follows": 0.1}
# The weight of this ranking in fusion. The graph confirms and adds to direct matches, but does not precede
# them.
GRAPH_WEIGHT = 0.5


def with_sources(seeds: Mapping[Node, float], notes: Iterable[tuple[SessionId, Note]]) -> dict[Node, float]:
    """Add to the seeds the first notes that each of them condenses. `notes` are those of the seeds."""
    found = dict(seeds)
    for session, note in notes:
        passed_on = PASSED_ON["reflects_on"] * seeds.get(note_node(session, note.id), 0.0)
        for source in note.sources[:MAX_SEEDS] if note.generation else ():
            found.setdefault(note_node(session, source), passed_on)
    return found


def rank_related(seeds: Mapping[Node, float], edges: Sequence[Edge]) -> list[Node]:
    """Rank the notes related to the seeds, closest first; a seed is included if another seed leads to it.

    An entity counts more the fewer notes mention it.
    """
    holders: dict[Node, set[Node]] = defaultdict(set)
    worth: dict[Node, float] = defaultdict(float)
    for edge in dict.fromkeys(edges):
        if edge.kind == "mentions":
            holders[edge.target].add(edge.source)
        elif edge.kind in PASSED_ON:
            for one, other in ((edge.source, edge.target), (edge.target, edge.source)):
                worth[other] += PASSED_ON[edge.kind] * seeds.get(one, 0.0)
    for notes in holders.values():
        if len(notes) > MAX_HOLDERS:
            continue
        for seed in notes & seeds.keys():
            for other in notes - {seed}:
                worth[other] += PASSED_ON["mentions"] * seeds[seed] / (len(notes) - 1)
    related = [node for node, value in worth.items() if value > 0]
    return sorted(related, key=lambda n: (-worth[n], str(n)))
