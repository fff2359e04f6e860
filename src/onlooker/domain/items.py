"""Items: facts that outlive their session, each with its source and validity."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId

# knowledge: facts and decisions. behavior: preferences and standing instructions. event: something with a
# date. skill: what someone can do. profile: who someone is. tool: how a tool is used.
ItemType = Literal["knowledge", "behavior", "event", "skill", "profile", "tool"]
ITEM_TYPES: tuple[ItemType, ...] = ("knowledge", "behavior", "event", "skill", "profile", "tool")
# Who said it.
Origin = Literal["user", "agent", "tool"]
TRUST: dict[Origin, float] = {"user": 1.0, "agent": 0.7, "tool": 0.3}
# live: valid. ended: replaced, or no longer so. archived: forgotten and no longer shown anywhere.
ItemStatus = Literal["live", "ended", "archived"]
ITEM_STATUSES: tuple[ItemStatus, ...] = ("live", "ended", "archived")  # a status moves only in this order


@frozen
class Item:
    """One fact of one owner. Its summary never changes; a changed fact becomes a new item.

    `sources` are the ids of the notes or messages of `session` that it was taken from, or of the turn in
    which an agent saved it; empty if a person did. `replaces` are the items it replaced, `derived_from` the
    items it was made from.
    """

    owner: str
    id: str
    type: ItemType
    summary: str
    made_at: datetime
    tags: tuple[str, ...] = ()
    origin: Origin = "user"
    said_at: datetime | None = None  # as precise as known; of two contradicting items the later one wins
    valid_from: datetime | None = None  # since when it is true, if known
    ended_at: datetime | None = None
    superseded_by: str = ""
    expires_at: datetime | None = None
    uses: int = 0
    last_used_at: datetime | None = None
    pinned: bool = False
    session: str = ""  # the key of the session it comes from
    sources: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    status: ItemStatus = "live"

    @property
    def stated_at(self) -> datetime:
        """When it was said, or saved if that is unknown."""
        return self.said_at or self.made_at

    @property
    def trust(self) -> float:
        return TRUST[self.origin]

    def holds(self, now: datetime) -> bool:
        """Return whether it is live and has not expired."""
        return self.status == "live" and (self.expires_at is None or self.expires_at > now)


@frozen
class EndMark:
    """Marks a session as ended: items were made from all messages up to seq `up_to`.

    `expected` is the previous mark as it was read, so that only one of two workers ends a session.
    `revision` is the session's revision as it was read, so that no item is made from messages forgotten
    since; None accepts any revision.
    """

    session: SessionId
    expected: int
    up_to: int
    revision: int | None = None


@frozen
class ItemChange:
    """One change to an owner's items, committed as a whole or not at all."""

    owner: str
    at: datetime
    add: tuple[Item, ...] = ()
    # Live items to end, each with the item that replaces it; "" if the person only asked to forget it.
    end: tuple[tuple[str, str], ...] = ()
    use: tuple[str, ...] = ()  # items that were searched for, or said again
    mark: EndMark | None = None
