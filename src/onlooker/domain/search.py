"""Search: queries, matches, the graph of notes and entities, and index coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId

HitKind = Literal["message", "note", "item"]
# Why a text was found: it has words of the query, its vector is close, or it is a note that mentions what
# other hits mention.
Why = Literal["words", "meaning", "graph"]
# What is indexed. retired: a message that the host took back.
TextKind = Literal[HitKind, "retired"]


@frozen
class Hit:
    """A search result: a message, a note or an item.

    `seq` is the message's own, or that of the first message that a note covers. `snippet` is the part of
    the text that matches, with matching words between the requested marks. `score` compares the hits of
    one search only. `why` says how it was found; hits by words come first. `taken_back` marks a message
    that the host took back: it is in no prompt.
    """

    kind: HitKind
    session: SessionId
    id: str
    seq: int
    text: str
    snippet: str
    at: datetime | None
    score: float
    speaker: str = ""
    taken_back: bool = False
    why: Why = "words"


@frozen
class Query:
    """Asks a store for texts of one kind that contain any of the terms.

    Terms are tokens from `policy.search.words`, each with its weight. The search covers one session, or all
    sessions of one owner; `after` is inclusive, `before` is exclusive. Without terms, it returns everything
    said in that time, newest first. A term is looked up in at most `max_holders` texts, the newest: a more
    frequent word says next to nothing. How many texts have it is then estimated from how close they are.
    With `rare`, nothing is found unless a text has a term with at least this share of the rarity of a term
    that a single text has.
    """

    owner: str
    kind: TextKind
    terms: Mapping[str, float]
    session: SessionId | None = None
    after: datetime | None = None
    before: datetime | None = None
    limit: int = 300
    max_holders: int = 10_000
    rare: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A text that contains a term. `words` are its tokens, joined by spaces. Compared by identity."""

    kind: TextKind
    session: SessionId
    id: str
    seq: int
    at: datetime | None
    speaker: str
    text: str
    words: str

    @property
    def indexed_as(self) -> str:
        """Its name in the index. What replaced a retired message may have the same id."""
        return str(self.seq) if self.kind == "retired" else self.id


@frozen
class SearchResult:
    """The best matches of a query, and the statistics that BM25 needs: the number of texts searched
    (`docs`), their total number of tokens (`length`), and how many of them contain each term (`holders`)."""

    docs: int
    length: int
    holders: Mapping[str, int]
    matches: tuple[Match, ...]


# A message by its session and seq, and what picks some from the results of queries.
MessageRef = tuple[SessionId, int]
Pick = Callable[[Sequence[SearchResult]], Iterable[MessageRef]]


# -- The graph of an owner's notes, sessions, and the entities that notes mention

NodeKind = Literal["note", "session", "entity"]
EdgeKind = Literal["in_session", "follows", "reflects_on", "mentions"]
EDGE_KINDS: tuple[EdgeKind, ...] = get_args(EdgeKind)


@frozen
class Node:
    """A note by its id, a session by its key, or an entity by its name. An entity belongs to an owner and
    has no session."""

    kind: NodeKind
    name: str
    session: SessionId | None = None


@frozen
class Edge:
    """Links a note to its session, to the note before it, to a note it condenses, or to an entity."""

    kind: EdgeKind
    source: Node
    target: Node


def note_node(session: SessionId, note: str) -> Node:
    return Node("note", note, session)


# -- Vectors, and what is indexed in the background

IndexName = Literal["vectors", "graph"]


@frozen
class Document:
    """A message or note to index, with its text as it was read. `id` is `Match.indexed_as`."""

    kind: TextKind
    session: SessionId
    id: str
    text: str


@frozen
class VectorQuery:
    """Asks a store for texts of one kind with the vectors closest to this one.

    `space` names the embedder: vectors of different embedders cannot be compared. The search covers one
    session, or all sessions of one owner; `after` is inclusive, `before` is exclusive.
    """

    owner: str
    kind: TextKind
    space: str
    vector: tuple[float, ...]
    session: SessionId | None = None
    after: datetime | None = None
    before: datetime | None = None
    limit: int = 50


@frozen
class IndexCoverage:
    """How much of a store is indexed: `vectors` of all `texts`, and `linked` of all `notes`."""

    texts: int
    vectors: int
    notes: int
    linked: int
