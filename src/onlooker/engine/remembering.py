"""What a memory knows about each owner, beyond any one session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from onlooker.domain.errors import SettingsError
from onlooker.domain.items import ITEM_TYPES, TRUST, Item, ItemStatus, ItemType, Origin
from onlooker.domain.messages import DEFAULT_OWNER
from onlooker.engine.core import Core
from onlooker.ports import Files

if TYPE_CHECKING:
    from onlooker.domain.events import Consolidated


class Remembering:
    """The part of `Memory` that is about items."""

    _core: Core

    async def items(
        self, owner: str = DEFAULT_OWNER, *, statuses: Sequence[ItemStatus] = ("live",)
    ) -> Sequence[Item]:
        """Facts about an owner that outlive their sessions, pinned ones first, then those used last.

        Expired ones are among the live ones; `Item.holds` tells.
        """
        await self._core.ready()
        return await self._core.store.items(owner, statuses=statuses)

    async def save_item(
        self,
        summary: str,
        *,
        owner: str = DEFAULT_OWNER,
        type: ItemType = "knowledge",
        tags: Sequence[str] = (),
        origin: Origin = "user",
        supersedes: str = "",
        expires_at: datetime | None = None,
        pinned: bool = False,
    ) -> Item:
        """Keep a fact by hand: one sentence that can be understood alone. `supersedes` names the item whose
        place it takes, which is then kept as history.

        Raises:
            SettingsError: It is too short or too long, or there is no such item to supersede.
        """
        if type not in ITEM_TYPES:
            raise SettingsError("type", type, f"must be one of {', '.join(ITEM_TYPES)}")
        if origin not in TRUST:
            raise SettingsError("origin", origin, f"must be one of {', '.join(TRUST)}")
        await self._core.ready()
        return await self._core.items.save(
            owner,
            summary,
            type=type,
            tags=tags,
            origin=origin,
            supersedes=supersedes,
            expires_at=expires_at,
            pinned=pinned,
        )

    async def forget_item(self, item: str, *, owner: str = DEFAULT_OWNER) -> Sequence[Item]:
        """Archive an item by id, with what it replaced and what was made of it; return what went. It leaves
        every prompt at once."""
        await self._core.ready()
        return await self._core.items.forget(owner, item)

    async def pin_item(self, item: str, *, owner: str = DEFAULT_OWNER, on: bool = True) -> None:
        """Show an item first in every session that begins; `on=False` lets it go again.

        Raises:
            KeyError: The owner has no live item with that id.
        """
        await self._core.ready()
        await self._core.store.pin_item(owner, item, on=on)
        if self._core.files:
            self._core.files.changed(owner)

    async def item_history(self, item: str, *, owner: str = DEFAULT_OWNER) -> Sequence[Item]:
        """An item with what it replaced and what replaced it, oldest first."""
        await self._core.ready()
        return await self._core.items.history(owner, item)

    async def end_idle(self, *, idle: timedelta | None = None) -> int:
        """End sessions without a message for so long, `idle_minutes` where it is not said; return how many.

        It happens by itself now and then, unless `idle_minutes` is 0.
        """
        await self._core.ready()
        return await self._core.ending.end_idle(
            timedelta(minutes=self._core.settings.idle_minutes) if idle is None else idle
        )

    # -- files

    async def consolidate(
        self, *, owner: str | None = None, older_than: timedelta | None = None, dry_run: bool = False
    ) -> Sequence[Consolidated]:
        """Make items of the daily notes of an owner, or of all, that are so old (seven days where it is not
        said), and archive the files; what became of each. What was done before is not done again.

        Raises:
            SettingsError: There is no `notes_folder`.
            StoreError: The files or the store cannot be read or written now.
        """
        await self._core.ready()
        return await self._files().consolidate(owner, older_than, dry_run=dry_run)

    async def sync_files(self, *, owner: str | None = None) -> None:
        """Take in what was changed in MEMORY.md by hand and write what is known now, for an owner or for all
        who have files. It happens by itself; this is for those who do not want to wait.

        Raises:
            SettingsError: There is no `notes_folder`.
            StoreError: The files or the store cannot be read or written now.
        """
        await self._core.ready()
        await self._files().sync(owner)

    def _files(self) -> Files:
        if self._core.files is None:
            raise SettingsError("notes_folder", "", "must name a folder for MEMORY.md and daily notes")
        return self._core.files
