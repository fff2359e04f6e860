"""Files for people beside the store: MEMORY.md and daily notes, by owner.

They are written in the background, after the commit. Nothing that goes wrong with them costs a note or a
turn: what could not be written now is written later, and what a person changed is taken in when it is seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from onlooker.domain.errors import OnlookerError, StoreError
from onlooker.domain.events import Deleted, Event, FileFailed, ItemPinned, ItemsForgotten, ItemsMade, Noted
from onlooker.domain.items import Item
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note
from onlooker.files.daily_files import DailyFiles, Dated
from onlooker.files.folder import Busy, Folder, owners_in
from onlooker.files.memory_md import MemoryFile, alone
from onlooker.policy.items.choose import remembers
from onlooker.policy.settings import Settings
from onlooker.ports import Clock, Store

if TYPE_CHECKING:
    from onlooker.domain.events import Consolidated

log = logging.getLogger("onlooker")

# Owners whose files are looked after, the ones used last; and sessions, used last as well, that are looked
# at when a memory is opened: for their owners, and for notes that an earlier process did not write.
MOST_OWNERS = 1_000
MOST_CAUGHT_UP = 1_000
MOST_READ = 200
# Notes that wait for a disk which does not let us write; older ones are found in the store at opening.
MOST_WAITING = 10_000
# The longest that a session which begins waits for what a person changed.
TURN_SECONDS = 0.5
# A daily file is consolidated once it is so old.
OLDER_THAN = timedelta(days=7)


class NotesFolder:
    """Looks after the folder of one memory."""

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
    ) -> None:
        self.root = root
        self._store = store
        self._settings = settings
        self._clock = clock
        self._tz = tz
        self._emit = emit
        self._ready = ready
        self._choose_items = choose_items
        self._asks_model = asks_model
        self._pause = settings.sweep_seconds
        self._memory = MemoryFile(root, store, clock, emit, new_id, forget_item)
        self._daily = DailyFiles(root, store, clock, emit)
        self._due: dict[str, None] = {}  # owners whose MEMORY.md may have to be written
        self._noted: list[Dated] = []
        self._seen: dict[str, tuple[int, int, int] | None] = {}  # MEMORY.md as it was left, by owner
        self._zones: dict[SessionId, tzinfo] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._reading: set[asyncio.Task[None]] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # -- when

    def in_zone(self, session: SessionId, tz: tzinfo) -> None:
        """By whose clock a session's days begin."""
        if tz != self._tz:
            self._zones.pop(session, None)
            self._zones[session] = tz
            if len(self._zones) > MOST_CAUGHT_UP:
                del self._zones[next(iter(self._zones))]

    def _zone(self, session: SessionId) -> tzinfo:
        return self._zones.get(session, self._tz)

    def hear(self, event: Event) -> None:
        """Something happened to memory; write it down when there is time."""
        match event:
            case Noted(session=session, note=note) if not note.generation:
                self._noted.append(Dated(session, note, note.made_at.astimezone(self._zone(session))))
                del self._noted[:-MOST_WAITING]
                self._wake.set()
            case ItemsMade() | ItemsForgotten() | ItemPinned() | Deleted():
                self.changed(event.owner)
            case _:
                pass

    def changed(self, owner: str) -> None:
        """What is known of an owner may be another than what stands in the file."""
        self._due[owner] = None
        self._wake.set()

    def start(self) -> None:
        """Write from now on, beginning with what an earlier process left."""
        self._stopping = False
        self._task = asyncio.create_task(self._run(), name="onlooker files")

    async def stop(self, deadline: float) -> None:
        """Write what is left, within the deadline; the rest is written when a memory is opened again."""
        if self._task is None:
            return
        self._stopping = True
        self._wake.set()
        _, late = await asyncio.wait({self._task, *self._reading}, timeout=max(0.0, deadline))
        if late:
            log.warning("the files of %d owners are written later", len(self._due))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._task = None

    async def _run(self) -> None:
        await self.catch_up()
        while True:
            done = await self._write_all()
            more = bool(self._due or self._noted)
            if self._stopping and not (done and more):
                return  # all is written, or cannot be now
            if done and more:
                continue
            if not done:
                self._wake.clear()
            await self._rest()

    async def _rest(self) -> None:
        """Until something is due, or it is time to look."""
        try:
            async with asyncio.timeout(self._pause):
                await self._wake.wait()
        except TimeoutError:
            await self._look()

    async def _write_all(self) -> bool:
        try:
            return await self.write()
        except Exception:
            log.exception("files not written: this is a bug in Onlooker")
            return False

    async def catch_up(self) -> None:
        """Owners of late, and those who have files."""
        try:
            found = await self._store.sessions(limit=MOST_CAUGHT_UP)
            by_owner: dict[str, list[SessionId]] = {}
            for summary in found:
                session = summary.progress.session
                by_owner.setdefault(session.owner, []).append(session)
            lately = {summary.progress.session for summary in found[:MOST_READ]}
            for owner, sessions in by_owner.items():
                recent = [session for session in sessions if session in lately]
                self._noted += await self._daily.missing(owner, recent, self._zone)
            there = await asyncio.to_thread(lambda: list(owners_in(self.root)))
            for owner in dict.fromkeys((*by_owner, *there)):
                self.changed(owner)
        except (OSError, OnlookerError) as error:
            log.warning("looking for what the files lack: %s", error)

    async def _look(self) -> None:
        """See whether a person saved a file."""
        for owner in list(self._seen)[-MOST_OWNERS:]:
            if await self._is_changed(owner):
                self._due[owner] = None
        # Other processes change items as well: each time the owner who was not looked at for longest.
        if self._seen:
            self._due[next(iter(self._seen))] = None

    async def _is_changed(self, owner: str) -> bool:
        seen = await asyncio.to_thread(Folder(self.root, owner).seen)
        return owner not in self._seen or seen != self._seen[owner]

    # -- what

    async def write(self) -> bool:
        """Write everything that is due; False where something could not be written and stays due."""
        self._wake.clear()
        owners = dict.fromkeys((*self._due, *(dated.session.owner for dated in self._noted)))
        return all([await self._write(owner) for owner in owners])

    async def _write(self, owner: str) -> bool:
        async with self._turn(owner):
            due = owner in self._due or owner not in self._seen
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
                return self._failed(owner, error)
            return True

    def _turn(self, owner: str) -> asyncio.Lock:
        """One task at a time for an owner, so that nothing is written of what is being forgotten."""
        return self._turns.setdefault(owner, asyncio.Lock())

    async def _sync(self, owner: str, *, write: bool = True) -> None:
        """With the owner's turn held."""
        folder = Folder(self.root, owner)
        seen = await asyncio.to_thread(folder.seen)
        there = await asyncio.to_thread(folder.path.is_dir)
        # Nobody gets a folder before there is something to say about them.
        if there or (write and await self._store.items(owner, limit=1)):
            await self._memory.sync(owner, write=write)
            seen = await asyncio.to_thread(folder.seen_as_written) if write else seen
        self._seen.pop(owner, None)
        self._seen[owner] = seen

    def _failed(self, owner: str, error: Exception) -> bool:
        path = Folder(self.root, owner).path
        log.warning("%s not written now: %s", path, error)
        if not isinstance(error, Busy):
            self._emit(FileFailed(owner, str(path), str(error), self._pause))
        return False

    async def pick_up(self, owner: str) -> None:
        """Take in what a person changed before a session of theirs chooses what to show. It writes no file,
        waits for nothing long, and nothing that goes wrong here reaches the turn."""
        if not remembers(self._settings, owner):
            return
        task = asyncio.create_task(self._read(owner), name="onlooker pick up")
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        # Not cancelled when it takes too long: what is half done in a thread goes on there.
        _, late = await asyncio.wait({task}, timeout=TURN_SECONDS)
        if late:
            log.warning("%s: what was changed by hand is taken in later", owner)

    async def _read(self, owner: str) -> None:
        try:
            if await self._is_changed(owner):
                async with self._turn(owner):
                    await self._sync(owner, write=False)
                self.changed(owner)
        except Exception as error:  # noqa: BLE001  no failure of files may reach the agent's turn
            log.warning("%s: what was changed by hand is taken in later: %r", owner, error)

    # -- asked for

    async def sync(self, *, owner: str | None = None) -> None:
        """Take in what was changed in MEMORY.md by hand and write what is known now, for an owner or for all
        who have files. It happens by itself; this is for those who do not want to wait.

        Raises:
            StoreError: The files or the store cannot be read or written now.
        """
        await self._ready()
        owners = [owner] if owner is not None else await self._owners()
        try:
            for each in owners:
                async with self._turn(each):
                    await self._sync(each)
        except OSError as error:
            raise StoreError(f"{self.root}: {error.strerror or error}") from error

    async def consolidate(
        self, *, owner: str | None = None, older_than: timedelta | None = None, dry_run: bool = False
    ) -> Sequence[Consolidated]:
        """Make items of the daily notes of an owner, or of all, that are so old (seven days where it is not
        said), and archive the files; what became of each. What was done before is not done again.

        Raises:
            StoreError: The files or the store cannot be read or written now.
        """
        from onlooker.files.consolidate import Consolidation

        await self._ready()
        age = OLDER_THAN if older_than is None else older_than
        before = (self._clock.now().astimezone(self._tz) - age).date()
        run = Consolidation(
            self.root, self._store, self._clock, self._tz, self._emit, self._choose_items, self._asks_model
        )
        done: list[Consolidated] = []
        try:
            for each in [owner] if owner is not None else await self._owners():
                if not remembers(replace(self._settings, enabled=True), each):
                    log.info("%s: sessions of this owner share nothing, so that no items are made", each)
                    continue
                if not dry_run:
                    await self.sync(owner=each)  # what was forgotten by hand must not come back
                done += await run.run(each, before, dry_run=dry_run)
                if not dry_run:
                    await self.sync(owner=each)
        except OSError as error:
            raise StoreError(f"{self.root}: {error.strerror or error}") from error
        return done

    async def _owners(self) -> list[str]:
        return await asyncio.to_thread(lambda: list(owners_in(self.root)))

    # -- forgetting

    async def renew(self, sessions: Iterable[SessionId] = (), owners: Iterable[str] = ()) -> None:
        """Leave nothing in the files that the store no longer has.

        Raises:
            StoreError: A file cannot be written; it is tried again.
        """
        gone = list(sessions)
        for owner in owners:
            folder = Folder(self.root, owner)
            try:
                async with self._turn(owner):
                    self._noted = [dated for dated in self._noted if dated.session not in gone]
                    if await asyncio.to_thread(folder.path.is_dir):
                        await self._renew(folder, [session for session in gone if session.owner == owner])
            except OSError as error:
                self.changed(owner)
                raise StoreError(
                    f"{folder.path}: forgotten in the store, but these files could not be written anew "
                    f"({error.strerror or error}); delete the folder, and it is written anew from the store"
                ) from error

    async def _renew(self, folder: Folder, sessions: Sequence[SessionId]) -> None:
        owner = folder.owner
        if await self._is_empty(owner):
            async with alone(folder):
                await asyncio.to_thread(folder.remove)
            self._seen.pop(owner, None)
            return
        await self._daily.forget(owner, sessions)
        self._noted += await self._daily.missing(owner, sessions, self._zone)
        await asyncio.to_thread(folder.drop_copies)
        await self._sync(owner)

    async def _is_empty(self, owner: str) -> bool:
        """Whether the store has nothing of an owner any more."""
        store = self._store
        if await store.sessions(owner=owner, limit=1):
            return False
        return not await store.items(owner, statuses=("live", "ended", "archived"), limit=1)
