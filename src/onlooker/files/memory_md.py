"""MEMORY.md of one owner, synchronized with the items: first a person's edits are applied, then the file is
written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from onlooker.atomic import before_of, read, swap
from onlooker.domain.errors import ConflictError
from onlooker.domain.events import Event, FileEdited, ItemsMade
from onlooker.domain.frozen import frozen
from onlooker.domain.items import ITEM_STATUSES, Item
from onlooker.files.folder import BusyError, Folder, Sidecar, locked, report_copy
from onlooker.files.markdown import (
    TITLES,
    Base,
    Edits,
    Page,
    Resolution,
    damage,
    digest_of,
    find_edits,
    is_current,
    is_mass_deletion,
    is_other_file,
    read_page,
    render,
    resolve,
    successor,
)
from onlooker.policy.items.choose import salience
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

# The name of the value that identifies a store. Lines that were written from another store are not ours.
STORE_ID = "files_store"
MAX_TRIES = 5
# The most items of an owner that the file holds: pinned ones, and those used last.
MAX_ITEMS = 2_000


@frozen
class _Found:
    """The file on the disk, and what we know about it."""

    sidecar: Sidecar
    data: bytes | None
    page: Page | None  # None if there is no file, or it is damaged
    base: Base

    @property
    def is_as_written(self) -> bool:
        sidecar, data = self.sidecar, self.data
        return data is not None and sidecar.before is None and digest_of(data) == sidecar.memory.digest


@dataclass(slots=True)
class MemoryFile:
    """Reads and writes MEMORY.md for any owner."""

    root: Path
    store: Store
    clock: Clock
    emit: Callable[[Event], None]
    new_id: Callable[[str, datetime], str]
    forget_item: Callable[[str, str], Awaitable[object]]

    async def sync(self, owner: str, *, write: bool = True) -> None:
        """Apply a person's edits, and write the file unless `write` is False.

        Raises:
            OSError: The disk is full or not accessible. The file is unchanged.
            StoreError: The store cannot be read or written.
        """
        folder = Folder(self.root, owner)
        async with locked(folder):
            for _ in range(MAX_TRIES):
                try:
                    if await self._try(folder, write):
                        return
                except ConflictError:
                    continue  # the items changed meanwhile
            raise BusyError(f"{folder.memory}: another program keeps changing it")

    async def _try(self, folder: Folder, write: bool) -> bool:
        """One attempt; False if a person saved the file meanwhile."""
        store_id = await self._store_id()
        found = await self._read(folder, store_id)
        if write:
            await self._keep_leftover(folder, found.sidecar)
        if found.is_as_written and is_current(found.base, await self._items_in_order(folder.owner)):
            return True
        items = await self._known_items(folder.owner, found.base)
        if found.page is not None and is_other_file(found.page, found.base, items):
            found = replace(found, page=None)
            if write:
                await self._keep_copy(folder, folder.memory, "it has none of the lines that Onlooker wrote")
        elif found.data is not None and found.page is None and write:
            await self._keep_copy(folder, folder.memory, damage(found.data))
        stated, kept = await self._apply_edits(folder, found, items)
        if not write:
            return True
        shown = await self._items_in_order(folder.owner)
        new = await asyncio.to_thread(render, found.page, stated, kept, shown, folder.owner)
        data = new.text.encode()
        after = replace(found.sidecar, store=store_id, memory=new.base, before=None)
        if data == found.data and found.sidecar == after:
            return True
        return await self._write(folder, found, data, after)

    async def _write(self, folder: Folder, found: _Found, data: bytes, after: Sidecar) -> bool:
        # The sidecar is written first, with both versions: so after a crash in between, our lines and a
        # person's are not mistaken for each other.
        await asyncio.to_thread(folder.write_sidecar, replace(after, before=found.base))
        if data != found.data and not await asyncio.to_thread(swap, folder.memory, data, found.data):
            return False
        await asyncio.to_thread(folder.write_sidecar, after)
        return True

    # -- reading

    async def _store_id(self) -> str:
        ident = await self.store.get_value(STORE_ID)
        if not ident:
            ident = self.new_id("store", self.clock.now())
            await self.store.set_value(STORE_ID, ident)
        return ident

    async def _read(self, folder: Folder, store_id: str) -> _Found:
        sidecar = await asyncio.to_thread(folder.sidecar)
        data = await asyncio.to_thread(read, folder.memory)
        if sidecar.store != store_id:
            # Written from another store: every line is new to this store, and none was deleted.
            sidecar = replace(sidecar, store="", memory=Base(), before=None)
        if data is None or damage(data):
            return _Found(sidecar, data, None, Base())
        page = await asyncio.to_thread(read_page, data.decode("utf-8-sig"))
        return _Found(sidecar, data, page, sidecar.base(digest_of(data)))

    async def _known_items(self, owner: str, base: Base) -> dict[str, Item]:
        """Live items, and the items that the base names with their successors."""
        known = {item.id: item for item in await self.store.items(owner, limit=MAX_ITEMS)}
        wanted = [line.item for line in base.lines.values() if line.item not in known]
        while wanted:
            more = {i.id: i for i in await self.store.items(owner, statuses=ITEM_STATUSES, ids=wanted)}
            known |= more
            wanted = [
                i.superseded_by for i in more.values() if i.superseded_by and i.superseded_by not in known
            ]
        return known

    async def _items_in_order(self, owner: str) -> list[Item]:
        """Items that hold now: pinned first, then by type, then by salience."""
        now = self.clock.now()
        order = list(TITLES)
        live = [i for i in await self.store.items(owner, limit=MAX_ITEMS) if i.holds(now)]
        return sorted(live, key=lambda i: (not i.pinned, order.index(i.type), -salience(i, now), i.id))

    # -- edits

    async def _apply_edits(
        self, folder: Folder, found: _Found, items: Mapping[str, Item]
    ) -> tuple[dict[int, str], Sequence[int]]:
        """Apply a person's edits to the items. Return the item that each entry states, and the entries to
        keep unchanged."""
        if found.page is None:
            return {}, ()
        # In a thread, because comparing many items takes a while.
        edits = await asyncio.to_thread(find_edits, found.page, found.base, items)
        if is_mass_deletion(edits, found.base):
            await self._keep_before(folder, f"{len(edits.deleted)} lines were deleted at once")
        now = self.clock.now()
        resolution = await asyncio.to_thread(
            resolve, found.page, edits, items, folder.owner, now, lambda: self.new_id("itm", now)
        )
        await self._change_items(folder.owner, edits, resolution)
        if edits.count:
            self._report(folder, found.page, edits, resolution)
        # The line of an item that was superseded meanwhile now states its successor.
        same = {index: (new.id if (new := successor(i, items)) else i) for index, i in edits.same.items()}
        too_long = {index: edits.edited[index] for index in resolution.too_long if index in edits.edited}
        return {**same, **too_long, **resolution.stated}, resolution.too_long

    async def _change_items(self, owner: str, edits: Edits, resolution: Resolution) -> None:
        change = resolution.change
        if change.add or change.end:
            await self.store.change_items(change)
            self.emit(ItemsMade(owner, change.add))
        for ident in edits.deleted:
            await self.forget_item(owner, ident)
        for ident, on in edits.pins.items():
            try:
                await self.store.pin_item(owner, ident, on=on)
            except KeyError:
                log.debug("%s ended before it was pinned", ident)

    def _report(self, folder: Folder, page: Page, edits: Edits, resolution: Resolution) -> None:
        added, edited = len(resolution.change.add) - resolution.edited, resolution.edited
        deleted = len(edits.deleted)
        if added or edited or deleted or edits.pins:
            log.info("%s: a person added %d, changed %d, deleted %d", folder.memory, added, edited, deleted)
            too_long = tuple(page.entries[index].text for index in resolution.too_long)
            self.emit(FileEdited(folder.owner, str(folder.memory), added, edited, deleted, too_long))

    # -- copies

    async def _keep_copy(self, folder: Folder, path: Path, reason: str) -> None:
        copy = await asyncio.to_thread(folder.keep_copy, path, self.clock.now())
        if copy is not None:
            report_copy(folder, path, copy, reason, self.emit)

    async def _keep_before(self, folder: Folder, reason: str) -> None:
        """Keep what the file held before an edit that may have been a mistake."""
        text = render(None, {}, (), await self._items_in_order(folder.owner), folder.owner).text
        copy = await asyncio.to_thread(folder.keep, text.encode(), folder.memory, self.clock.now())
        report_copy(folder, folder.memory, copy, reason, self.emit)

    async def _keep_leftover(self, folder: Folder, sidecar: Sidecar) -> None:
        """Keep the version that a person saved while a process was killed replacing the file."""
        left = before_of(folder.memory)
        data = await asyncio.to_thread(read, left)
        if data is None:
            return
        if digest_of(data) not in (sidecar.memory.digest, sidecar.before and sidecar.before.digest):
            await self._keep_copy(folder, left, "it was saved while the file was written")
        await asyncio.to_thread(left.unlink, True)
