"""Consolidation: the reflector turns old daily notes into items, and their files are archived.

Each file is consolidated once. The ids of its items are computed from its content, and all of them are stored
in one transaction. So if they exist, the file was done, even if the process ended before it was archived.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onlooker.atomic import read
from onlooker.domain.errors import ConflictError, OnlookerError
from onlooker.domain.events import Consolidated, Event, FileConsolidated, ItemsMade
from onlooker.domain.items import ITEM_STATUSES, Item, ItemChange
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import NOTE_STATUSES, Note
from onlooker.files.daily import read_day
from onlooker.files.folder import CONSOLIDATING, Folder, day_of, locked
from onlooker.files.markdown import damage
from onlooker.policy.items.match import duplicates, reconcile
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

# How often a change is tried while other workers change the owner's items.
MAX_TRIES = 3


@dataclass(slots=True)
class Consolidation:
    """Consolidates the daily files of any owner."""

    root: Path
    store: Store
    clock: Clock
    tz: dt.tzinfo
    emit: Callable[[Event], None]
    choose_items: Callable[[SessionId, Sequence[Note]], Awaitable[list[Item]]]
    asks_model: bool  # whether `choose_items` calls a language model

    async def run(self, owner: str, before: dt.date, *, dry_run: bool) -> list[Consolidated]:
        """Consolidate every daily file of a day before that one, oldest first.

        Raises:
            BusyError: Another process is doing it.
            StoreError: The store cannot be read or written.
        """
        folder = Folder(self.root, owner)
        if not await asyncio.to_thread(folder.days):
            return []
        async with locked(folder, CONSOLIDATING):
            days = [(day_of(path.name), path) for path in await asyncio.to_thread(folder.days)]
            return [
                await self._consolidate(folder, day, path, dry_run)
                for day, path in days
                if day is not None and day < before
            ]

    async def _consolidate(self, folder: Folder, day: dt.date, path: Path, dry_run: bool) -> Consolidated:
        began = time.perf_counter()
        done = Consolidated(folder.owner, day, str(path))
        try:
            data = await asyncio.to_thread(read, path)
            if data is None:
                return _skipped(done, "it no longer exists")
            if reason := damage(data):
                return _skipped(done, reason)
            if dry_run:
                return replace(done, items=tuple(await self._preview(folder.owner, day, data)))
            done = await self._store_and_archive(folder, done, path, data)
        except OSError as error:
            return _skipped(done, str(error.strerror or error))
        except OnlookerError as error:
            return _skipped(done, str(error))
        if not done.archived:
            return _skipped(done, "it changed meanwhile; the next run tries again")
        self.emit(FileConsolidated(done.owner, done, seconds=time.perf_counter() - began))
        return done

    async def _store_and_archive(
        self, folder: Folder, done: Consolidated, path: Path, data: bytes
    ) -> Consolidated:
        """Archive nothing if the file, or its notes in the store, change while the model works."""
        before = await self._stored_notes(folder.owner, data)
        made = await self._make_items(folder.owner, done.day, data)
        async with locked(folder):
            if await asyncio.to_thread(read, path) != data:
                return done
            if await self._stored_notes(folder.owner, data) != before:
                return done
            items = await self._store_items(folder.owner, made)
            archived = await asyncio.to_thread(folder.archive_day, path, data)
        return replace(done, items=tuple(items), archived=str(archived or ""))

    async def _stored_notes(self, owner: str, data: bytes) -> dict[str, str]:
        """The stored text of the file's notes, which may be forgotten at any time."""
        blocks = read_day(data.decode("utf-8-sig")).blocks
        found: dict[str, str] = {}
        for key in dict.fromkeys(block.session for block in blocks):
            wanted = {block.note for block in blocks if block.session == key}
            notes = await self.store.notes(SessionId(owner, key), statuses=NOTE_STATUSES, kind="observation")
            found |= {note.id: note.text for note in notes if note.id in wanted}
        return found

    # -- items

    async def _preview(self, owner: str, day: dt.date, data: bytes) -> Sequence[Item]:
        if self.asks_model:
            return ()  # a dry run must not cost anything
        change = await self._change(owner, await self._make_items(owner, day, data))
        return change.add if change else ()

    async def _make_items(self, owner: str, day: dt.date, data: bytes) -> list[Item]:
        """The items of the file's notes, session by session."""
        page = read_day(data.decode("utf-8-sig"))
        at = dt.datetime.combine(day, dt.time(12), self.tz)
        by_session: dict[str, list[Note]] = {}
        for block in page.blocks:
            note = _note(block.note, block.first, block.last, block.text, at)
            by_session.setdefault(block.session, []).append(note)
        made: list[Item] = []
        for key, notes in by_session.items():
            made += await self.choose_items(SessionId(owner, key), notes)
        if page.own_text:
            note = _note("", 1, 1, page.own_text, at)
            own = await self.choose_items(SessionId(owner, f"daily:{day}"), [note])
            # A person wrote it, outside of any session.
            made += [replace(item, session="", sources=()) for item in own]
        return [replace(item, id=_item_id(owner, day, data, number)) for number, item in enumerate(made)]

    async def _store_items(self, owner: str, made: Sequence[Item]) -> Sequence[Item]:
        """Store the items of a file; return those that are new, none if the file was done before."""
        for _ in range(MAX_TRIES):
            change = await self._change(owner, made)
            if change is None or not change.add:
                return ()
            try:
                await self.store.change_items(change)
            except ConflictError:
                continue
            self.emit(ItemsMade(owner, change.add))
            return change.add
        raise ConflictError("other workers keep changing the items of this owner")

    async def _change(self, owner: str, made: Sequence[Item]) -> ItemChange | None:
        """How these items change the stored ones; None if they are stored already."""
        known = {i.id: i for i in await self.store.items(owner, statuses=ITEM_STATUSES)}
        if any(item.id in known for item in made):
            return None
        new = [item for item in made if not _has_ended(item, known.values())]
        found = reconcile(new, [i for i in known.values() if i.status == "live"])
        # Repeating what the same notes said before does not count as a use.
        return ItemChange(owner, self.clock.now(), tuple(found.add), tuple(found.end.items()))


def _skipped(done: Consolidated, reason: str) -> Consolidated:
    log.warning("%s not consolidated: %s", done.file, reason)
    return replace(done, problem=reason)


def _note(ident: str, first: int, last: int, text: str, at: dt.datetime) -> Note:
    return Note(ident, 0, first, last, text, len(text) // 4, at, ())


def _item_id(owner: str, day: dt.date, data: bytes, number: int) -> str:
    """Return the same id for the same file, so that its items are not made twice."""
    digest = hashlib.blake2b(data, digest_size=6, key=f"{day} {number}".encode())
    digest.update(owner.encode("utf-8", "surrogatepass"))
    return f"itm_{day:%Y%m%d}T000000000000_{digest.hexdigest()}"


def _has_ended(item: Item, known: Iterable[Item]) -> bool:
    """Whether the same fact was superseded or forgotten since. Old notes must not bring it back."""
    # A note gives the day only, and counts as written at its end.
    since = item.stated_at - dt.timedelta(days=1)
    past = [i for i in known if i.status != "live" and (i.ended_at is None or i.ended_at >= since)]
    return bool(duplicates(item.summary, past))
