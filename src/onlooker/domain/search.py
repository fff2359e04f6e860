"""What is looked for in what was said and noted, and what is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from onlooker.domain.messages import SessionId

HitKind = Literal["message", "note", "item"]


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that was found: a message word for word, or a note.

    `seq` is the message's own, or that of the first message that a note stands for. `snippet` is the part
    of the text that speaks of it, with what was asked for between the marks that were asked for. `score`
    says which of the hits of one search is better, and nothing else.
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


@dataclass(frozen=True, slots=True)
class Query:
    """What a store is asked for: texts of one kind that hold any of the terms.

    Terms are tokens as `policy.searching.words` makes them, each with its weight. The search is in the
    sessions of one owner, or in one session; `after` is inclusive, `before` is not. Without terms it is for
    whatever was said then, newest first.
    """

    owner: str
    kind: HitKind
    terms: Mapping[str, float]
    session: SessionId | None = None
    after: datetime | None = None
    before: datetime | None = None
    most: int = 300


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A text that holds a term. `words` are its tokens, a space between them. No two are equal."""

    kind: HitKind
    session: SessionId
    id: str
    seq: int
    at: datetime | None
    speaker: str
    text: str
    words: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best matches, and what their ranking goes by: how many texts of that kind there are where it was
    looked, how many tokens they have together, and how many of them hold each term."""

    docs: int
    length: int
    holders: Mapping[str, int]
    matches: tuple[Match, ...]


# -- The graph of an owner's notes, sessions, and the names and ids that notes speak of

NodeKind = Literal["note", "session", "entity"]
EdgeKind = Literal["in_session", "follows", "reflects_on", "mentions"]
EDGE_KINDS: tuple[EdgeKind, ...] = get_args(EdgeKind)


@dataclass(frozen=True, slots=True)
class Node:
    """A note by its id, a session by its key, or an entity by its name. An entity belongs to its owner, and
    has no session."""

    kind: NodeKind
    name: str
    session: SessionId | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """From a note: to its session, to the note before it, to a note that it condenses, or to what it
    mentions."""

    kind: EdgeKind
    source: Node
    target: Node


def note_node(session: SessionId, note: str) -> Node:
    return Node("note", note, session)


# -- What is indexed in the background

IndexName = Literal["vectors", "graph"]


@dataclass(frozen=True, slots=True)
class Document:
    """A message or a note to index, as its text was when it was read."""

    kind: HitKind
    session: SessionId
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """What a store is asked for: texts of one kind whose vectors are closest to this one.

    `space` is the embedder that made them: vectors of two embedders cannot be compared. The search is in
    the sessions of one owner, or in one session; `after` is inclusive, `before` is not.
    """

    owner: str
    kind: HitKind
    space: str
    vector: tuple[float, ...]
    session: SessionId | None = None
    after: datetime | None = None
    before: datetime | None = None
    most: int = 50


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """How much of a store is indexed: texts that can have a vector and that have one, notes that can be in
    the graph and that are."""

    texts: int
    vectors: int
    notes: int
    linked: int
