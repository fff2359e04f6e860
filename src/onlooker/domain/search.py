"""What is looked for in what was said and noted, and what is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

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
class Found:
    """The best matches, and what their ranking goes by: how many texts of that kind there are where it was
    looked, how many tokens they have together, and how many of them hold each term."""

    docs: int
    length: int
    holders: Mapping[str, int]
    matches: tuple[Match, ...]
