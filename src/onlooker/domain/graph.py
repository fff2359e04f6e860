"""The graph of an owner's notes, sessions, and the names and ids that notes speak of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from onlooker.domain.messages import SessionId

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
