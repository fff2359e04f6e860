"""What is indexed in the background: texts that get a vector, notes that get their place in the graph."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from onlooker.domain.messages import SessionId
from onlooker.domain.search import HitKind

IndexName = Literal["vectors", "graph"]


@dataclass(frozen=True, slots=True)
class Document:
    """A message or a note to index, as its text was when it was read."""

    kind: HitKind
    session: SessionId
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Near:
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
class Coverage:
    """How much of a store is indexed: texts that can have a vector and that have one, notes that can be in
    the graph and that are."""

    texts: int
    vectors: int
    notes: int
    linked: int
