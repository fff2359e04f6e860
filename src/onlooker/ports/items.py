"""A store's part for facts that outlive their session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import SessionId


class Items(Protocol):
    """The items of an owner, and which a session shows."""

    async def items(
        self,
        owner: str,
        *,
        statuses: Sequence[ItemStatus] = ("live",),
        ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Sequence[Item]:
        """Items of the owner, pinned ones first, then the ones used (or made) last; `ids` names them."""
        ...

    async def change_items(self, change: ItemChange) -> None:
        """Apply one change to an owner's items; see `ItemChange`.

        An item that ends gets its time and what took its place. A use counts one up and sets the time. With
        a mark, the session has ended: its `ended` moves. Ended items stay where sessions show them.

        Raises:
            ConflictError: An item to end is no longer live, one to add is there already, or the session's
                mark is no longer the expected one.
        """
        ...

    async def archive_items(self, owner: str, ids: Sequence[str], *, now: datetime) -> Sequence[Item]:
        """Archive items, whatever their status: no prompt shows them any more, and the `prompt_version`
        of sessions that did grows. Returns those that were not archived before."""
        ...

    async def delete_items(self, owner: str, ids: Sequence[str] | None = None) -> int:
        """Delete items for good, or all of the owner's; no prompt shows them any more. Items that name one
        as replaced, derived from or superseding lose that name. Returns how many there were."""
        ...

    async def pin_item(self, owner: str, item: str, *, on: bool) -> None:
        """Pin or unpin a live item. What sessions show stays as it is.

        Raises:
            KeyError: The owner has no live item with that id.
        """
        ...

    async def show_items(
        self, session: SessionId, ids: Sequence[str], *, now: datetime, anew: bool = False
    ) -> None:
        """Keep which items of its owner the session shows, in order, creating the session at need. What was
        chosen before stays, unless `anew`; `prompt_version` grows where the prompt changes. Items that
        are archived or missing are skipped."""
        ...

    async def idle(self, before: datetime, *, limit: int = 100) -> Sequence[SessionId]:
        """Sessions that were last used up to then and have messages after their `ended`, oldest first."""
        ...
