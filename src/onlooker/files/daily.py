"""Daily notes: one file per day, with a block for each observation that was made on it.

    ## telegram:1, 14:05 <!-- note_20260216T140500… 1-12 0a1b2c3d4e5f telegram:1 -->

The mark in a block's heading holds the note's id, its first and last message, a hash of the text that was
written, and the session key. What a person adds or removes stays added or removed.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote

from onlooker.atomic import read, swap, write
from onlooker.domain.events import Event
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note, NoteStatus
from onlooker.files.folder import BusyError, Folder, day_of, locked, report_copy
from onlooker.files.markdown import damage, digest_of, one_line
from onlooker.ports import Clock, Store

# Notes this much older than the newest one in the files may also be missing from them.
SLACK = dt.timedelta(days=1)
MAX_NOTES = 100
MAX_RECENT_NOTES = 500
MAX_TRIES = 5
_WRITTEN: tuple[NoteStatus, ...] = ("buffered", "active", "superseded")
_MAX_KEY_LENGTH = 60

_MARK = re.compile(
    r"^## .*<!-- (?P<note>\S+) (?P<first>\d+)-(?P<last>\d+) (?P<digest>[0-9a-f]{12}) (?P<key>\S*) -->\s*$"
)
_TOP = re.compile(r"#{1,2}\s")
_HEADING = re.compile(r"#+(?=\s)")
_BULLET = re.compile(r"[-*+]\s")


# ------------------------------------------------------------------------------------ the text


@frozen
class Block:
    """The block of a note: the lines from `start` up to `end`."""

    start: int
    end: int
    session: str
    note: str
    first: int
    last: int
    text: str
    digest: str  # of the text that was written

    @property
    def is_as_written(self) -> bool:
        return _digest([self.text]) == self.digest


@frozen
class DayPage:
    """A daily file: its blocks, and the text that a person added outside of them."""

    blocks: tuple[Block, ...]
    own_text: str


def read_day(text: str) -> DayPage:
    """The blocks of a file, as a person may have changed them."""
    lines = text.replace("\r\n", "\n").split("\n")
    blocks: list[Block] = []
    outside: list[str] = []
    number = 0
    while number < len(lines):
        end = number + 1
        match = _MARK.match(lines[number])
        if match is None:
            outside.append(lines[number])
            number = end
            continue
        while end < len(lines) and not _TOP.match(lines[end]):
            end += 1
        blocks.append(_block(match, number, end, lines[number + 1 : end]))
        number = end
    # The title is the day, as in the name of the file.
    own_text = [line for line in outside if not line.startswith("# ")]
    return DayPage(tuple(blocks), "\n".join(own_text).strip())


def _block(match: re.Match[str], start: int, end: int, body: Sequence[str]) -> Block:
    return Block(
        start,
        end,
        unquote(match["key"], errors="surrogatepass"),
        match["note"],
        int(match["first"]),
        int(match["last"]),
        "\n".join(body).strip(),
        match["digest"],
    )


def add_note(text: str, day: dt.date, session: str, note: Note, at: dt.datetime) -> str:
    """Add a note at the end, or in place of the note that it rewrites. A note that is already there is not
    changed."""
    new = _note_lines(day, session, note, at)
    for block in read_day(text).blocks:
        if block.session != session or (block.first, block.last) != (note.first, note.last):
            continue
        if block.note == note.id:
            return text
        if block.is_as_written:
            lines = text.split("\n")
            return "\n".join([*lines[: block.start], *new, "", *lines[block.end :]]).rstrip() + "\n"
    before = text.rstrip() or f"# {day.isoformat()}"
    return "\n".join([before, "", *new]) + "\n"


def update_notes(text: str, day: dt.date, notes: Mapping[str, Mapping[str, Note]]) -> str:
    """Update the text of these sessions' notes, given by session key and note id. The block of a note that no
    longer exists is removed. Return an empty text if only the title is left."""
    lines = text.replace("\r\n", "\n").split("\n")
    changed = False
    for block in reversed(read_day(text).blocks):
        if block.session not in notes:
            continue
        note = notes[block.session].get(block.note)
        body = [] if note is None else list(_body(note.text, day))
        digest = _digest(body)
        if note is not None and digest == block.digest:
            continue
        heading = lines[block.start].replace(block.digest, digest)
        lines[block.start : block.end] = [] if note is None else [heading, "", *body, ""]
        changed = True
    if not changed:
        return text
    left = "\n".join(lines).rstrip() + "\n"
    page = read_day(left)
    return left if page.blocks or page.own_text else ""


def _note_lines(day: dt.date, session: str, note: Note, at: dt.datetime) -> list[str]:
    body = list(_body(note.text, day))
    name = re.sub(r"[#<>]+", " ", one_line(session)).strip()[:_MAX_KEY_LENGTH]
    key = quote(session, safe=":@,;+", errors="surrogatepass")
    mark = f"<!-- {note.id} {note.first}-{note.last} {_digest(body)} {key} -->"
    return [f"## {name}, {at:%H:%M} {mark}", "", *body]


def _body(text: str, day: dt.date) -> Iterator[str]:
    """The note as a list, with its headings below that of the block. A first heading that is only the day of
    the file is left out."""
    first = True
    for raw in text.split("\n"):
        line = one_line(raw)
        heading = _HEADING.match(line)
        is_day = first and heading and line[heading.end() :].strip() == day.isoformat()
        first = first and not line
        if is_day:
            continue
        if heading:
            yield f"###{line[heading.end() :]}"
        elif line:
            yield line if _BULLET.match(line) else f"- {line}"


def _digest(body: Sequence[str]) -> str:
    return digest_of("\n".join(body).strip())[:12]


# ------------------------------------------------------------------------------------ the files


@frozen
class DatedNote:
    """An observation, and when it was made in the time zone of its session."""

    session: SessionId
    note: Note
    at: dt.datetime


@dataclass(slots=True)
class DailyFiles:
    """Writes the daily files of any owner."""

    root: Path
    store: Store
    clock: Clock
    emit: Callable[[Event], None]

    async def add(self, owner: str, notes: Sequence[DatedNote]) -> None:
        """Add notes to the files of their days.

        Raises:
            OSError: The disk is full or not accessible. Adding the same notes again does no harm.
        """
        folder = Folder(self.root, owner)
        if not (notes := await self._still_stored(notes)):
            return
        by_day: dict[dt.date, list[DatedNote]] = {}
        for dated in notes:
            by_day.setdefault(dated.at.date(), []).append(dated)
        async with locked(folder):
            for day, dated_notes in by_day.items():
                await self._add(folder, day, dated_notes)
            sidecar = await asyncio.to_thread(folder.sidecar)
            newest = max(dated.note.made_at for dated in notes)
            noted = newest if sidecar.noted is None else max(newest, sidecar.noted)
            recent = tuple(dict.fromkeys((*sidecar.recent, *(d.note.id for d in notes))))[-MAX_RECENT_NOTES:]
            await asyncio.to_thread(folder.write_sidecar, replace(sidecar, noted=noted, recent=recent))

    async def _still_stored(self, notes: Sequence[DatedNote]) -> list[DatedNote]:
        """The notes as they are in the store now. Those that were forgotten meanwhile are left out."""
        stored: dict[str, Note] = {}
        for session, count in Counter(dated.session for dated in notes).items():
            found = await self.store.notes(
                session, statuses=_WRITTEN, kind="observation", recent=count + MAX_NOTES
            )
            stored |= {note.id: note for note in found}
        return [replace(d, note=stored[d.note.id]) for d in notes if d.note.id in stored]

    async def _add(self, folder: Folder, day: dt.date, notes: Sequence[DatedNote]) -> None:
        path = folder.day_file(day)
        for _ in range(MAX_TRIES):
            before = await asyncio.to_thread(read, path)
            text = ""
            if before and (reason := damage(before)):
                copy = await asyncio.to_thread(folder.keep, before, path, self.clock.now())
                report_copy(folder, path, copy, reason, self.emit)
            elif before:
                text = before.decode("utf-8-sig")
            archived = await asyncio.to_thread(_archived_notes, folder, day)
            for dated in notes:
                if dated.note.id not in archived:
                    text = add_note(text, day, dated.session.key, dated.note, dated.at)
            data = text.encode()
            if data == (before or b"") or await asyncio.to_thread(swap, path, data, before):
                return
        raise BusyError(f"{path}: another program keeps changing it")

    async def missing(
        self, owner: str, sessions: Sequence[SessionId], zone: Callable[[SessionId], dt.tzinfo]
    ) -> list[DatedNote]:
        """Recent notes of these sessions that are not in the files yet."""
        sidecar = await asyncio.to_thread(Folder(self.root, owner).sidecar)
        since, known = (sidecar.noted or self.clock.now()) - SLACK, {*sidecar.recent}
        found: list[DatedNote] = []
        for session in sessions:
            notes = await self.store.notes(session, statuses=_WRITTEN, kind="observation", recent=MAX_NOTES)
            rewritten = {(n.first, n.last) for n in notes if n.status != "superseded"}
            for note in notes:
                stale = note.status == "superseded" and (note.first, note.last) in rewritten
                if note.made_at > since and not stale and note.id not in known:
                    found.append(DatedNote(session, note, note.made_at.astimezone(zone(session))))
        return sorted(found, key=lambda dated: dated.note.made_at)

    async def remove_forgotten(self, owner: str, sessions: Collection[SessionId]) -> None:
        """Remove what the store no longer holds of these sessions from daily files, archived or not."""
        folder = Folder(self.root, owner)
        if not await asyncio.to_thread(folder.path.is_dir):
            return
        stored: dict[str, dict[str, Note]] = {}
        for session in sessions:
            notes = await self.store.notes(session, statuses=(*_WRITTEN, "retired"), kind="observation")
            stored[session.key] = {note.id: note for note in notes}
        async with locked(folder):
            for path in await asyncio.to_thread(lambda: [*folder.days(), *folder.archived_days()]):
                await asyncio.to_thread(_update_file, path, stored)


def _update_file(path: Path, stored: dict[str, dict[str, Note]]) -> None:
    data, day = read(path), day_of(path.name)
    if data is None or day is None or damage(data):
        return
    text = data.decode("utf-8-sig")
    left = update_notes(text, day, stored)
    if not left:
        path.unlink()
    elif left != text:
        write(path, left.encode())


def _archived_notes(folder: Folder, day: dt.date) -> set[str]:
    """The notes of that day that are already consolidated."""
    found: set[str] = set()
    for path in folder.archived_days():
        if day_of(path.name) == day and (data := read(path)):
            found |= {block.note for block in read_day(data.decode("utf-8", "replace")).blocks}
    return found
