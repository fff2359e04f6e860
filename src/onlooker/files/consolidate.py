"""Old daily notes go through the reflector: what they say becomes items, and the raw files are archived.

Each file counts once. Its items have ids that follow from its content and go in together, so that a file
whose items are there was done, however the process ended; a file is archived only after that.
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
from onlooker.domain.items import Item, ItemChange
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note, NoteStatus
from onlooker.files.daily import read_day
from onlooker.files.folder import CONSOLIDATING, Folder
from onlooker.files.memory_md import EVERY, alone
from onlooker.files.names import day_of
from onlooker.files.page import damage
from onlooker.policy.items.match import duplicates, reconcile
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

MOST_TRIES = 3
_ID_TIME = "T000000000000"
_THERE: tuple[NoteStatus, ...] = ("buffered", "active", "superseded", "retired")


@dataclass(slots=True)
class Consolidation:
    """Consolidates the daily files of any owner."""

    root: Path
    store: Store
    clock: Clock
    tz: dt.tzinfo
    emit: Callable[[Event], None]
    choose_items: Callable[[SessionId, Sequence[Note]], Awaitable[list[Item]]]
    asks_model: bool  # whether choosing items calls a language model

    async def run(self, owner: str, before: dt.date, *, dry_run: bool) -> list[Consolidated]:
        """Every daily file of a day before that one, oldest first.

        Raises:
            Busy: Another process does it now.
            StoreError: The store cannot be read or written now.
        """
        folder = Folder(self.root, owner)
        if not await asyncio.to_thread(folder.days):
            return []
        async with alone(folder, CONSOLIDATING):
            days = [(day_of(path.name), path) for path in await asyncio.to_thread(folder.days)]
            done: list[Consolidated] = []
            for day, path in days:
                if day is not None and day < before:
                    done.append(await self._file(folder, day, path, dry_run))
            return done

    async def _file(self, folder: Folder, day: dt.date, path: Path, dry_run: bool) -> Consolidated:
        began = time.perf_counter()
        done = Consolidated(folder.owner, day, str(path))
        try:
            data = await asyncio.to_thread(read, path)
            if data is None:
                return self._left(done, "it is gone")
            if problem := damage(data):
                return self._left(done, problem)
            if dry_run:
                return replace(done, items=tuple(await self._would_make(folder.owner, day, data)))
            done = await self._consolidate(folder, done, path, data)
        except OSError as error:
            return self._left(done, str(error.strerror or error))
        except OnlookerError as error:
            return self._left(done, str(error))
        if not done.archived:
            return self._left(done, "it was changed meanwhile; it is looked at again next time")
        self.emit(FileConsolidated(done.owner, done, seconds=time.perf_counter() - began))
        return done

    async def _consolidate(self, folder: Folder, done: Consolidated, path: Path, data: bytes) -> Consolidated:
        """Nothing is archived where the file, or what it is about, changed while a model was asked."""
        before = await self._told(folder.owner, data)
        made = await self._made(folder.owner, done.day, data)
        async with alone(folder):
            unchanged = await asyncio.to_thread(read, path) == data
            if not unchanged or await self._told(folder.owner, data) != before:
                return done
            items = await self._kept(folder.owner, made)
            put = await asyncio.to_thread(folder.put_away, path, data)
        return replace(done, items=tuple(items), archived=str(put or ""))

    def _left(self, done: Consolidated, problem: str) -> Consolidated:
        log.warning("%s not consolidated now: %s", done.file, problem)
        return replace(done, problem=problem)

    # -- what becomes of one file

    async def _would_make(self, owner: str, day: dt.date, data: bytes) -> Sequence[Item]:
        if self.asks_model:
            return ()  # a model that is paid for is not asked for nothing
        change = await self._change(owner, await self._made(owner, day, data))
        return change.add if change else ()

    async def _kept(self, owner: str, made: Sequence[Item]) -> Sequence[Item]:
        """Keep the items of a file; none where that was done before."""
        for _ in range(MOST_TRIES):
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
        """What the items mean to those that are there; None where they are there themselves."""
        known = {i.id: i for i in await self.store.items(owner, statuses=EVERY)}
        if any(item.id in known for item in made):
            return None
        news = [item for item in made if not _was_there(item, known.values())]
        found = reconcile(news, [i for i in known.values() if i.status == "live"])
        # Said again by the same notes, nothing is used again.
        return ItemChange(owner, self.clock.now(), tuple(found.add), tuple(found.end.items()))

    async def _told(self, owner: str, data: bytes) -> dict[str, str]:
        """What the store has of the notes in a file: it may be forgotten at any time."""
        blocks = read_day(data.decode("utf-8-sig")).blocks
        found: dict[str, str] = {}
        for key in dict.fromkeys(block.session for block in blocks):
            wanted = {block.note for block in blocks if block.session == key}
            notes = await self.store.notes(SessionId(owner, key), statuses=_THERE, kind="observation")
            found |= {note.id: note.text for note in notes if note.id in wanted}
        return found

    async def _made(self, owner: str, day: dt.date, data: bytes) -> list[Item]:
        """The items that the file's notes make, by session, each with an id that follows from the file."""
        page = read_day(data.decode("utf-8-sig"))
        at = dt.datetime.combine(day, dt.time(12), self.tz)
        by_session: dict[str, list[Note]] = {}
        for block in page.blocks:
            note = _note(block.note, block.first, block.last, block.text, at)
            by_session.setdefault(block.session, []).append(note)
        made: list[Item] = []
        for key, notes in by_session.items():
            made += await self.choose_items(SessionId(owner, key), notes)
        if page.beside:
            # A person wrote it, in no session.
            own = await self.choose_items(
                SessionId(owner, f"daily:{day}"), [_note("", 1, 1, page.beside, at)]
            )
            made += [replace(item, session="", sources=()) for item in own]
        return [replace(item, id=_ident(owner, day, data, number)) for number, item in enumerate(made)]


def _note(ident: str, first: int, last: int, text: str, at: dt.datetime) -> Note:
    return Note(ident, 0, first, last, text, len(text) // 4, at, ())


def _ident(owner: str, day: dt.date, data: bytes, number: int) -> str:
    digest = hashlib.blake2b(data, digest_size=6, key=f"{day} {number}".encode())
    digest.update(owner.encode("utf-8", "surrogatepass"))
    return f"itm_{day:%Y%m%d}{_ID_TIME}_{digest.hexdigest()}"


def _was_there(item: Item, known: Iterable[Item]) -> bool:
    """Whether it ended or was forgotten after it was said: old notes bring nothing back."""
    # A note says the day alone, and counts as said at its end.
    said = item.stated_at - dt.timedelta(days=1)
    past = [i for i in known if i.status != "live" and (i.ended_at is None or i.ended_at >= said)]
    return bool(duplicates(item.summary, past))
