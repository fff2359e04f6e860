"""The graph as a ranking: what is tied to the notes that were found, and how closely."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onlooker.domain.graph import Edge, EdgeKind, Node, note_node
from onlooker.domain.messages import SessionId

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
