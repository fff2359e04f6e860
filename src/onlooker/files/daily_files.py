"""Daily notes of one owner: each observation is added to the file of its day, once."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

from onlooker.atomic import read, swap, write
from onlooker.domain.events import Event, FileBackedUp
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note, NoteStatus
from onlooker.files.daily import read_day, renewed, with_note
from onlooker.files.folder import Busy, Folder, day_path
from onlooker.files.memory_md import MOST_TRIES, alone
from onlooker.files.names import day_of
from onlooker.files.page import damage
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

# How far back notes are looked for that an earlier process could not write any more.
SLACK = timedelta(days=1)
MOST_NOTES = 100
MOST_RECENT = 500
_THERE: tuple[NoteStatus, ...] = ("buffered", "active", "superseded")


@dataclass(frozen=True, slots=True)
class Dated:
    """An observation, and when it was noted by the clock of its session."""

    session: SessionId
    note: Note
    at: datetime


@dataclass(slots=True)
class DailyFiles:
    """Writes daily files for any owner."""

    root: Path
    store: Store
    clock: Clock
    emit: Callable[[Event], None]

    async def add(self, owner: str, notes: Sequence[Dated]) -> None:
        """Add notes to the files of their days.

        Raises:
            OSError: The disk does not let us; what was not written can be added again.
        """
        folder = Folder(self.root, owner)
        if not (notes := await self._still_there(notes)):
            return
        async with alone(folder):
            for path in dict.fromkeys(day_path(folder, note.at) for note in notes):
                await self._add(folder, path, [n for n in notes if day_path(folder, n.at) == path])
            sidecar = await asyncio.to_thread(folder.sidecar)
            newest = max(note.note.made_at for note in notes)
            noted = newest if sidecar.noted is None else max(newest, sidecar.noted)
            recent = tuple(dict.fromkeys((*sidecar.recent, *(n.note.id for n in notes))))[-MOST_RECENT:]
            await asyncio.to_thread(folder.write_sidecar, replace(sidecar, noted=noted, recent=recent))

    async def _still_there(self, notes: Sequence[Dated]) -> list[Dated]:
        """As they are now, without those that were forgotten meanwhile, perhaps by another process."""
        kept: dict[str, Note] = {}
        for session, count in Counter(dated.session for dated in notes).items():
            found = await self.store.notes(
                session, statuses=_THERE, kind="observation", recent=count + MOST_NOTES
            )
            kept |= {note.id: note for note in found}
        return [replace(d, note=kept[d.note.id]) for d in notes if d.note.id in kept]

    async def _add(self, folder: Folder, path: Path, notes: Sequence[Dated]) -> None:
        for _ in range(MOST_TRIES):
            before = await asyncio.to_thread(read, path)
            if before and damage(before):
                await self._keep(folder, path, damage(before))
            text = before.decode("utf-8-sig") if before and not damage(before) else ""
            there = await asyncio.to_thread(_archived_notes, folder, path)
            for dated in notes:
                if dated.note.id not in there:
                    text = with_note(text, dated.at.date(), dated.session.key, dated.note, dated.at)
            data = text.encode()
            if data == (before or b"") or await asyncio.to_thread(swap, path, data, before):
                return
        raise Busy(f"{path}: it keeps changing")

    async def _keep(self, folder: Folder, path: Path, reason: str) -> None:
        copy = await asyncio.to_thread(folder.keep_copy, path, self.clock.now())
        if copy is not None:
            log.warning("%s: %s; a copy is kept as %s", path, reason, copy)
            self.emit(FileBackedUp(folder.owner, str(path), str(copy), reason))

    async def missing(
        self, owner: str, sessions: Sequence[SessionId], zone: Callable[[SessionId], tzinfo]
    ) -> list[Dated]:
        """Notes of late that were not written into their files."""
        folder = Folder(self.root, owner)
        sidecar = await asyncio.to_thread(folder.sidecar)
        since, known = (sidecar.noted or self.clock.now()) - SLACK, {*sidecar.recent}
        found: list[Dated] = []
        for session in sessions:
            notes = await self.store.notes(session, statuses=_THERE, kind="observation", recent=MOST_NOTES)
            rewritten = {(n.first, n.last) for n in notes if n.status != "superseded"}
            for note in notes:
                stale = note.status == "superseded" and (note.first, note.last) in rewritten
                if note.made_at > since and not stale and note.id not in known:
                    found.append(Dated(session, note, note.made_at.astimezone(zone(session))))
        return sorted(found, key=lambda d: d.note.made_at)

    # -- forgetting

    async def forget(self, owner: str, sessions: Collection[SessionId]) -> None:
        """Take out of daily files, and of the archive, what the store no longer has of these sessions."""
        folder = Folder(self.root, owner)
        if not await asyncio.to_thread(folder.path.is_dir):
            return
        kept: dict[str, dict[str, Note]] = {}
        for session in sessions:
            notes = await self.store.notes(session, statuses=(*_THERE, "retired"), kind="observation")
            kept[session.key] = {note.id: note for note in notes}
        async with alone(folder):
            for path in [*await asyncio.to_thread(folder.days), *await asyncio.to_thread(folder.archived)]:
                await asyncio.to_thread(_forget, path, kept)


def _forget(path: Path, kept: dict[str, dict[str, Note]]) -> None:
    data, day = read(path), day_of(path.name)
    if data is None or day is None or damage(data):
        return
    text = data.decode("utf-8-sig")
    left = renewed(text, day, kept)
    if not left:
        path.unlink()
    elif left != text:
        write(path, left.encode())


def _archived_notes(folder: Folder, path: Path) -> set[str]:
    """The notes of that day which were consolidated already."""
    day = day_of(path.name)
    found: set[str] = set()
    for archived in folder.archived():
        if day_of(archived.name) == day and (data := read(archived)):
            found |= {block.note for block in read_day(data.decode("utf-8", "replace")).blocks}
    return found
