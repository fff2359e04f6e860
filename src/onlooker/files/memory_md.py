"""MEMORY.md of one owner: what a person changed is taken in first, then the file is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from onlooker.atomic import before_of, read, swap
from onlooker.domain.errors import ConflictError
from onlooker.domain.events import Event, FileBackedUp, FileEdited, ItemsMade
from onlooker.domain.items import Item, ItemStatus
from onlooker.files.finding import Hand, current, find, many, replaced_whole
from onlooker.files.folder import WRITING, Busy, Folder, Lock
from onlooker.files.names import digest_of
from onlooker.files.page import TITLES, Page, damage, read_page
from onlooker.files.patching import patched, says_it_all
from onlooker.files.sidecar import Sidecar, Written
from onlooker.files.taking import Taken, take
from onlooker.policy.items.choose import salience
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

# The name under which a store says which one it is, so that lines of another are not taken for ours.
STORE_NAME = "files_store"
MOST_TRIES = 5
# The most of an owner's items that a file holds: pinned ones, and those used last.
MOST_ITEMS = 2_000
EVERY: tuple[ItemStatus, ...] = ("live", "ended", "archived")
LOCK_SECONDS = 2.0
LOCK_PAUSE = 0.02


@asynccontextmanager
async def alone(
    folder: Folder, name: str = WRITING, *, seconds: float = LOCK_SECONDS
) -> AsyncGenerator[None]:
    """Hold the folder, against tasks of this process as well.

    Raises:
        Busy: Another has it for too long.
    """
    lock = Lock(folder.path / name)
    tries = max(1, round(seconds / LOCK_PAUSE))
    while not await asyncio.to_thread(lock.take):
        tries -= 1
        if not tries:
            raise Busy(f"{folder.path}: another process writes it now")
        await asyncio.sleep(LOCK_PAUSE)
    try:
        yield
    finally:
        lock.free()


@dataclass(frozen=True, slots=True)
class _Read:
    """The file as it is on the disk, with what we know of it."""

    sidecar: Sidecar
    data: bytes | None
    page: Page | None  # None: there is none, or it is damaged
    base: Written

    @property
    def untouched(self) -> bool:
        """Whether it is what we wrote, and we know that."""
        side, data = self.sidecar, self.data
        return data is not None and side.before is None and digest_of(data) == side.memory.digest


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
        """Take in what a person changed, and write what is known now, unless that is left for later.

        Raises:
            OSError: The disk does not let us; nothing is lost, and the file is as it was.
            StoreError: The store cannot be read or written now.
        """
        folder = Folder(self.root, owner)
        async with alone(folder):
            for _ in range(MOST_TRIES):
                try:
                    if await self._once(folder, write):
                        return
                except ConflictError:
                    continue  # the items changed meanwhile
            raise Busy(f"{folder.memory}: it keeps changing")

    async def _once(self, folder: Folder, write: bool) -> bool:
        """One pass; False where a person saved the file meanwhile."""
        store = await self._store_name()
        found = await self._read(folder, store)
        if write:
            await self._keep_leftover(folder, found.sidecar)
        if found.untouched and says_it_all(found.base, await self._shown(folder.owner)):
            return True
        items = await self._known(folder.owner, found.base)
        if found.page is not None and replaced_whole(found.page, found.base, items):
            found = replace(found, page=None)
            if write:
                await self._keep(folder, folder.memory, "it has none of the lines that were written")
        elif found.data is not None and found.page is None and write:
            await self._keep(folder, folder.memory, damage(found.data))
        stands_for, left = await self._take_in(folder, found, items)
        if not write:
            return True
        shown = await self._shown(folder.owner)
        new = await asyncio.to_thread(patched, found.page, stands_for, left, shown, folder.owner)
        data = new.text.encode()
        after = replace(found.sidecar, store=store, memory=new.written, before=None)
        if data == found.data and found.sidecar == after:
            return True
        return await self._write(folder, found, data, after)

    async def _write(self, folder: Folder, found: _Read, data: bytes, after: Sidecar) -> bool:
        # Which lines are ours is known before they stand there, so that a crash in between mistakes
        # nothing of ours for a person's, nor the other way round.
        ahead = replace(after, before=found.base)
        await asyncio.to_thread(folder.write_sidecar, ahead)
        if data != found.data and not await asyncio.to_thread(swap, folder.memory, data, found.data):
            return False
        await asyncio.to_thread(folder.write_sidecar, after)
        return True

    # -- what is there

    async def _store_name(self) -> str:
        store = self.store
        name = await store.get_value(STORE_NAME)
        if not name:
            name = self.new_id("store", self.clock.now())
            await store.set_value(STORE_NAME, name)
        return name

    async def _read(self, folder: Folder, store: str) -> _Read:
        sidecar = await asyncio.to_thread(folder.sidecar)
        data = await asyncio.to_thread(read, folder.memory)
        if sidecar.store != store:
            # Written for another store: every line is news to this one, and none is missed.
            sidecar = replace(sidecar, store="", memory=Written(), before=None)
        if data is None or damage(data):
            return _Read(sidecar, data, None, Written())
        page = await asyncio.to_thread(read_page, data.decode("utf-8-sig"))
        return _Read(sidecar, data, page, sidecar.base(digest_of(data)))

    async def _known(self, owner: str, base: Written) -> dict[str, Item]:
        """Live items, and what became of others that we wrote."""
        store = self.store
        live = {item.id: item for item in await store.items(owner, limit=MOST_ITEMS)}
        wanted = [line.item for line in base.lines.values() if line.item not in live]
        while wanted:
            more = {i.id: i for i in await store.items(owner, statuses=EVERY, ids=wanted)}
            live |= more
            wanted = [
                i.superseded_by for i in more.values() if i.superseded_by and i.superseded_by not in live
            ]
        return live

    async def _shown(self, owner: str) -> list[Item]:
        """What holds now, pinned first, then by type, then by weight."""
        now = self.clock.now()
        order = list(TITLES)
        live = [i for i in await self.store.items(owner, limit=MOST_ITEMS) if i.holds(now)]
        return sorted(live, key=lambda i: (not i.pinned, order.index(i.type), -salience(i, now), i.id))

    # -- what a person did

    async def _take_in(
        self, folder: Folder, found: _Read, items: Mapping[str, Item]
    ) -> tuple[dict[int, str], Sequence[int]]:
        """Which entry stands for which item now, and which stay as they are."""
        if found.page is None:
            return {}, ()
        # In a thread, since comparing many items takes a while.
        hand = await asyncio.to_thread(find, found.page, found.base, items)
        if many(hand, found.base):
            await self._keep_before(folder, f"{len(hand.deleted)} lines were deleted at once")
        now = self.clock.now()
        taken = await asyncio.to_thread(
            take, found.page, hand, items, folder.owner, now, lambda: self.new_id("itm", now)
        )
        await self._apply(folder.owner, hand, taken)
        if hand.count:
            self._tell(folder, found.page, hand, taken)
        # Where an item gave way to another, that one stands in its place.
        heirs = {place: (heir.id if (heir := current(i, items)) else i) for place, i in hand.same.items()}
        unchanged = {place: hand.edited[place] for place in taken.refused if place in hand.edited}
        return {**heirs, **unchanged, **taken.stands_for}, taken.refused

    async def _apply(self, owner: str, hand: Hand, taken: Taken) -> None:
        store = self.store
        if taken.change.add or taken.change.end:
            await store.change_items(taken.change)
            self.emit(ItemsMade(owner, taken.change.add))
        for ident in hand.deleted:
            await self.forget_item(owner, ident)
        for ident, on in hand.pins.items():
            try:
                await store.pin_item(owner, ident, on=on)
            except KeyError:
                log.debug("%s ended before it was pinned", ident)

    def _tell(self, folder: Folder, page: Page, hand: Hand, taken: Taken) -> None:
        refused = tuple(page.entries[place].text for place in taken.refused)
        added = len(taken.change.add) - taken.edited
        deleted = len(hand.deleted)
        if added or taken.edited or deleted or hand.pins:
            log.info(
                "%s: %d added, %d changed, %d deleted by hand", folder.memory, added, taken.edited, deleted
            )
            self.emit(FileEdited(folder.owner, str(folder.memory), added, taken.edited, deleted, refused))

    # -- copies

    async def _keep(self, folder: Folder, path: Path, reason: str) -> None:
        copy = await asyncio.to_thread(folder.keep_copy, path, self.clock.now())
        if copy is not None:
            log.warning("%s: %s; a copy is kept as %s", path, reason, copy)
            self.emit(FileBackedUp(folder.owner, str(path), str(copy), reason))

    async def _keep_before(self, folder: Folder, reason: str) -> None:
        """Keep what the file said before a change that may have been a mistake."""
        text = patched(None, {}, (), await self._shown(folder.owner), folder.owner).text
        target = await asyncio.to_thread(folder.keep, text.encode(), folder.memory, self.clock.now())
        log.warning("%s: %s; what it said before is kept as %s", folder.memory, reason, target)
        self.emit(FileBackedUp(folder.owner, str(folder.memory), str(target), reason))

    async def _keep_leftover(self, folder: Folder, sidecar: Sidecar) -> None:
        """A process that was killed while it wrote may have left what a person saved in that moment."""
        left = before_of(folder.memory)
        data = await asyncio.to_thread(read, left)
        if data is None:
            return
        if digest_of(data) not in (sidecar.memory.digest, sidecar.before and sidecar.before.digest):
            await self._keep(folder, left, "it was saved while the file was written")
        await asyncio.to_thread(left.unlink, True)
