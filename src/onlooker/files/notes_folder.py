"""The notes folder: MEMORY.md and daily notes of every owner, for people to read and edit.

A background job writes the files after each commit, and checks for edits now and then. A failure never
affects the notes or the agent's turn: what cannot be written now is written later.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from weakref import WeakValueDictionary

from onlooker.domain.errors import OnlookerError, StoreError
from onlooker.domain.events import (
    Consolidated,
    Deleted,
    Event,
    FileFailed,
    ItemPinned,
    ItemsForgotten,
    ItemsMade,
    Noted,
)
from onlooker.domain.items import ITEM_STATUSES, Item
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note
from onlooker.files.consolidate import Consolidation
from onlooker.files.daily import DailyFiles, DatedNote
from onlooker.files.folder import BusyError, Folder, Stamp, locked, owners_in
from onlooker.files.memory_md import MemoryFile
from onlooker.policy.settings import Settings
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

# Owners whose files are watched for edits, most recently used first.
MAX_OWNERS = 1_000
# When a memory is opened, the owners of this many sessions get their files checked, and the notes of this
# many sessions are compared with the daily files, most recently used first.
MAX_SESSIONS = 1_000
MAX_SESSIONS_READ = 200
# Notes that are held while the disk is not writable. Older ones are found in the store at the next opening.
MAX_WAITING = 10_000
# How long a new session waits for manual edits.
PICK_UP_SECONDS = 0.5
# The age at which daily files are consolidated, if the call names none.
CONSOLIDATION_AGE = timedelta(days=7)


class NotesFolder:
    """MEMORY.md and the daily notes of every owner; `memory.files`."""

    def __init__(
        self,
        root: Path,
        *,
        store: Store,
        settings: Settings,
        clock: Clock,
        tz: tzinfo,
        emit: Callable[[Event], None],
        ready: Callable[[], Awaitable[None]],
        new_id: Callable[[str, datetime], str],
        forget_item: Callable[[str, str], Awaitable[object]],
        choose_items: Callable[[SessionId, Sequence[Note]], Awaitable[list[Item]]],
        asks_model: bool,
        pause: float,
    ) -> None:
        self.root = root
        self._store = store
        self._settings = settings
        self._clock = clock
        self._tz = tz
        self._emit = emit
        self._ready = ready
        self._pause = pause
        self._memory = MemoryFile(root, store, clock, emit, new_id, forget_item)
        self._daily = DailyFiles(root, store, clock, emit)
        self._consolidation = Consolidation(root, store, clock, tz, emit, choose_items, asks_model)
        self._due: dict[str, None] = {}  # owners whose MEMORY.md may be out of date
        self._noted: list[DatedNote] = []  # notes that are not in the daily files yet
        self._stamps: dict[str, Stamp | None] = {}  # of each MEMORY.md, as we left it
        self._zones: dict[SessionId, tzinfo] = {}
        self.woken = asyncio.Event()  # there is something to write
        self._caught_up = False
        self._check_at = 0.0  # when to check for edits again
        self._reading: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # -- the job

    def set_zone(self, session: SessionId, tz: tzinfo) -> None:
        """Set the time zone of a session's daily notes."""
        if tz != self._tz:
            self._zones.pop(session, None)
            self._zones[session] = tz
            if len(self._zones) > MAX_SESSIONS:
                del self._zones[next(iter(self._zones))]

    def _zone(self, session: SessionId) -> tzinfo:
        return self._zones.get(session, self._tz)

    def on_event(self, event: Event) -> None:
        """Mark what the event changed as due for writing."""
        match event:
            case Noted(session=session, note=note) if not note.generation:
                at = note.made_at.astimezone(self._zone(session))
                self._noted.append(DatedNote(session, note, at))
                del self._noted[:-MAX_WAITING]
                self.woken.set()
            case ItemsMade() | ItemsForgotten() | ItemPinned() | Deleted():
                self._set_due(event.owner)
            case _:
                pass

    def _set_due(self, owner: str) -> None:
        self._due[owner] = None
        self.woken.set()

    async def run(self) -> None:
        """Write what is due. The first run also checks for what an earlier process did not write; one now and
        then, for edits."""
        try:
            if not self._caught_up:
                await self._catch_up()
                self._caught_up = True
                self._check_at = time.monotonic() + self._pause
            elif time.monotonic() >= self._check_at:
                await self._check_for_edits()
                self._check_at = time.monotonic() + self._pause
            await self._write_all()
        except asyncio.CancelledError:
            self._caught_up = False  # what was not written is found in the store
            await self._stop_reading()
            raise

    async def finish(self) -> None:
        """Write what is left, before the process stops."""
        try:
            if not self._caught_up:
                await self._catch_up()
            self._caught_up = False
            await self._write_all()
            if self._reading:
                await asyncio.wait(self._reading)
        finally:
            await self._stop_reading()

    async def _stop_reading(self) -> None:
        late = list(self._reading)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _catch_up(self) -> None:
        """Mark recent owners, and all who have files, as due; and find notes that are not in the files."""
        try:
            found = await self._store.sessions(limit=MAX_SESSIONS)
            by_owner: dict[str, list[SessionId]] = {}
            for summary in found:
                session = summary.progress.session
                by_owner.setdefault(session.owner, []).append(session)
            recent = {summary.progress.session for summary in found[:MAX_SESSIONS_READ]}
            for owner, sessions in by_owner.items():
                read = [session for session in sessions if session in recent]
                self._noted += await self._daily.missing(owner, read, self._zone)
            for owner in dict.fromkeys((*by_owner, *await self._owners())):
                self._set_due(owner)
        except (OSError, OnlookerError) as error:
            log.warning("cannot check the store for what the files lack: %s", error)

    async def _check_for_edits(self) -> None:
        """Mark owners as due whose MEMORY.md was saved by a person."""
        for owner in list(self._stamps)[-MAX_OWNERS:]:
            if await self._is_edited(owner):
                self._due[owner] = None
        # Other processes change items too, so the owner who was checked longest ago is checked as well.
        if self._stamps:
            self._due[next(iter(self._stamps))] = None

    async def _is_edited(self, owner: str) -> bool:
        stamp = await asyncio.to_thread(Folder(self.root, owner).stamp)
        return owner not in self._stamps or stamp != self._stamps[owner]

    async def _owners(self) -> list[str]:
        return await asyncio.to_thread(lambda: list(owners_in(self.root)))

    # -- writing

    async def _write_all(self) -> None:
        """Write until nothing is due, or what is due cannot be written now."""
        while await self._write_due():
            if not (self._due or self._noted):
                return
        self.woken.clear()  # it is retried after a pause, or when there is more to write

    async def _write_due(self) -> bool:
        """Write everything that is due. False if something could not be written; it stays due."""
        self.woken.clear()
        owners = dict.fromkeys((*self._due, *(dated.session.owner for dated in self._noted)))
        try:
            return all([await self._write(owner) for owner in owners])
        except Exception:
            log.exception("files not written: this is a bug in Onlooker")
            return False

    async def _write(self, owner: str) -> bool:
        async with self._lock(owner):
            # Also without a MEMORY.md: the first daily notes may have created the folder.
            due = owner in self._due or self._stamps.get(owner) is None
            self._due.pop(owner, None)
            noted = [dated for dated in self._noted if dated.session.owner == owner]
            self._noted = [dated for dated in self._noted if dated.session.owner != owner]
            try:
                if noted:
                    await self._daily.add(owner, noted)
                    noted = []
                if due:
                    await self._sync(owner)
            except (OSError, OnlookerError) as error:
                self._due[owner] = None
                self._noted = [*noted, *self._noted]
                self._report_failure(owner, error)
                return False
            return True

    def _report_failure(self, owner: str, error: Exception) -> None:
        path = Folder(self.root, owner).path
        log.warning("%s not written, will be retried: %s", path, error)
        if not isinstance(error, BusyError):
            self._emit(FileFailed(owner, str(path), str(error), self._pause))

    def _lock(self, owner: str) -> asyncio.Lock:
        """One task at a time per owner, so that nothing is written that is being forgotten."""
        return self._locks.setdefault(owner, asyncio.Lock())

    async def _sync(self, owner: str, *, write: bool = True) -> None:
        """Synchronize MEMORY.md with the items. The caller holds the owner's lock."""
        folder = Folder(self.root, owner)
        stamp = await asyncio.to_thread(folder.stamp)
        exists = await asyncio.to_thread(folder.path.is_dir)
        # An owner without items gets no folder.
        if exists or (write and await self._store.items(owner, limit=1)):
            await self._memory.sync(owner, write=write)
            stamp = await asyncio.to_thread(folder.written_stamp) if write else stamp
        self._stamps.pop(owner, None)
        self._stamps[owner] = stamp

    # -- edits in a turn

    async def pick_up(self, owner: str) -> None:
        """Apply manual edits before a new session chooses its items. Writes no file, waits briefly, and never
        raises."""
        if not self._settings.shares_items(owner):
            return
        task = asyncio.create_task(self._pick_up(owner), name="onlooker pick up")
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        # Not cancelled if it takes longer: the work in its thread would continue anyway.
        _, late = await asyncio.wait({task}, timeout=PICK_UP_SECONDS)
        if late:
            log.warning("%s: manual edits are applied later", owner)

    async def _pick_up(self, owner: str) -> None:
        try:
            if await self._is_edited(owner):
                async with self._lock(owner):
                    await self._sync(owner, write=False)
                self._set_due(owner)
        except Exception as error:  # noqa: BLE001  no failure of files may reach the agent's turn
            log.warning("%s: manual edits are applied later: %r", owner, error)

    # -- on demand

    async def sync(self, *, owner: str | None = None) -> None:
        """Apply manual edits of MEMORY.md, and write the file, for one owner or for all who have files.

        This happens in the background too; call it if you do not want to wait.

        Raises:
            StoreError: The files or the store cannot be read or written.
        """
        await self._ready()
        owners = [owner] if owner is not None else await self._owners()
        try:
            for each in owners:
                async with self._lock(each):
                    await self._sync(each)
        except OSError as error:
            raise StoreError(f"{self.root}: {error.strerror or error}") from error

    async def consolidate(
        self, *, owner: str | None = None, older_than: timedelta | None = None, dry_run: bool = False
    ) -> Sequence[Consolidated]:
        """Make items of the daily notes of one owner, or of all, that are older than `older_than` (seven
        days), and archive the files. A file is consolidated once.

        Raises:
            StoreError: The files or the store cannot be read or written.
        """
        await self._ready()
        age = CONSOLIDATION_AGE if older_than is None else older_than
        before = (self._clock.now().astimezone(self._tz) - age).date()
        done: list[Consolidated] = []
        try:
            for each in [owner] if owner is not None else await self._owners():
                if not replace(self._settings, enabled=True).shares_items(each):
                    log.info("%s: sessions of this owner share nothing, so no items are made", each)
                    continue
                if not dry_run:
                    await self.sync(owner=each)  # what a person deleted must not come back
                done += await self._consolidation.run(each, before, dry_run=dry_run)
                if not dry_run:
                    await self.sync(owner=each)
        except OSError as error:
            raise StoreError(f"{self.root}: {error.strerror or error}") from error
        return done

    # -- forgetting

    async def remove_forgotten(self, sessions: Iterable[SessionId] = (), owners: Iterable[str] = ()) -> None:
        """Remove from these owners' files what the store no longer holds.

        Raises:
            StoreError: A file cannot be written.
        """
        forgotten = list(sessions)
        for owner in owners:
            folder = Folder(self.root, owner)
            try:
                async with self._lock(owner):
                    self._noted = [dated for dated in self._noted if dated.session not in forgotten]
                    if await asyncio.to_thread(folder.path.is_dir):
                        await self._remove_forgotten(folder, [s for s in forgotten if s.owner == owner])
            except OSError as error:
                self._set_due(owner)
                raise StoreError(
                    f"{folder.path}: its files still have what was forgotten, because they cannot be written "
                    f"({error.strerror or error}); delete the folder, and it is written again from the store"
                ) from error

    async def _remove_forgotten(self, folder: Folder, sessions: Sequence[SessionId]) -> None:
        owner = folder.owner
        if await self._is_forgotten(owner):
            async with locked(folder):
                await asyncio.to_thread(folder.remove)
            self._stamps.pop(owner, None)
            return
        await self._daily.remove_forgotten(owner, sessions)
        self._noted += await self._daily.missing(owner, sessions, self._zone)
        await asyncio.to_thread(folder.remove_copies)
        await self._sync(owner)

    async def _is_forgotten(self, owner: str) -> bool:
        """Whether the store holds nothing of the owner."""
        if await self._store.sessions(owner=owner, limit=1):
            return False
        return not await self._store.items(owner, statuses=ITEM_STATUSES, limit=1)
