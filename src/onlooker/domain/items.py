"""Items: facts that outlive their session, each with where it came from and how long it holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from onlooker.domain.messages import SessionId

# knowledge: what is known or was decided; behavior: preferences and standing instructions; event: what
# has a date; skill: what someone can do; profile: who someone is; tool: how a tool is used.
ItemType = Literal["knowledge", "behavior", "event", "skill", "profile", "tool"]
ITEM_TYPES: tuple[ItemType, ...] = ("knowledge", "behavior", "event", "skill", "profile", "tool")
# Whose word it is.
Origin = Literal["user", "agent", "tool"]
TRUST: dict[Origin, float] = {"user": 1.0, "agent": 0.7, "tool": 0.3}
# live: holds; ended: another item took its place; archived: forgotten, and shown nowhere any more.
ItemStatus = Literal["live", "ended", "archived"]


@dataclass(frozen=True, slots=True)
class Item:
    """One fact of one owner. Its words never change: what changes becomes another item.

    `sources` are the ids of the notes or messages of `session` that it was taken from; none where a
    person or an agent saved it. `replaces` are the items whose place it took, `derived_from` those that
    it was made of.
    """

    owner: str
    id: str
    type: ItemType
    summary: str
    made_at: datetime
    tags: tuple[str, ...] = ()
    origin: Origin = "user"
    said_at: datetime | None = None  # as near as is known; of two that contradict the later one stands
    valid_from: datetime | None = None  # since when it holds, as far as is known
    ended_at: datetime | None = None
    superseded_by: str = ""
    expires_at: datetime | None = None
    uses: int = 0
    last_used_at: datetime | None = None
    pinned: bool = False
    session: str = ""  # the key of the session that it was made in
    sources: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    status: ItemStatus = "live"

    @property
    def stated_at(self) -> datetime:
        """When it was said, or else saved."""
        return self.said_at or self.made_at

    @property
    def trust(self) -> float:
        return TRUST[self.origin]

    def holds(self, now: datetime) -> bool:
        """Whether it is live and has not expired."""
        return self.status == "live" and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True, slots=True)
class EndMark:
    """That a session has ended: items were made of all that was said up to seq `up_to`.

    `expected` is the mark that was read, so that of two who end a session only one does; `revision` what
    the session's was then, so that nothing is made of what was forgotten meanwhile (None: whatever it is).
    """

    session: SessionId
    expected: int
    up_to: int
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class ItemChange:
    """One change to an owner's items: all of it happens, or none."""

    owner: str
    at: datetime
    add: tuple[Item, ...] = ()
    end: tuple[tuple[str, str], ...] = ()  # live items that end, each with the one that takes its place
    use: tuple[str, ...] = ()  # items that were asked for, or said again
    mark: EndMark | None = None
