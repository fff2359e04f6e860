"""The journal: append-only files with every message and note, from which a store can be rebuilt.

There is one file per session, and one per owner for items. A background job copies rows from the store to
the end of each file. So a failure never affects the notes, missing rows are written later, and writing a row
twice does no harm.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from onlooker.atomic import NO_LINKS, NewFile, make_folder
from onlooker.domain.errors import OnlookerError, StoreError
from onlooker.domain.events import (
    Activated,
    Cleared,
    Deleted,
    Edited,
    Event,
    Forgotten,
    ItemPinned,
    ItemsForgotten,
    ItemsMade,
    JournalFailed,
    Noted,
    Pinned,
    Realigned,
    Recorded,
    Reflected,
    SessionEvent,
    Undone,
)
from onlooker.domain.history import ItemRow, Position, RestartRow, Row, RowKind, Scope, SessionRow
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Progress
from onlooker.policy.rows import from_line, to_line
from onlooker.ports import Store

log = logging.getLogger("onlooker")

# Rows written at a time.
BATCH = 500
# The store is checked for what other processes recorded once in this many pauses.
PAUSES_PER_CHECK = 6
# How many sessions are checked when a memory is opened, most recently used first. An earlier process may have
# stopped before it wrote everything.
MAX_SESSIONS = 1_000

_SESSION_KINDS: frozenset[RowKind] = frozenset(
    {"session", "message", "note", "extraction", "version", "change"}
)
_ITEM_KINDS: frozenset[RowKind] = frozenset({"item"})
_APPENDING_EVENTS = (Recorded, Noted, Activated, Reflected, Pinned, Edited, Undone, Forgotten)
# The content of the file is no longer valid: a restart line is written, then the whole session again.
_RESTARTING_EVENTS = (Realigned, Cleared)


class Journal:
    """Writes the journal of one memory into a folder."""

    def __init__(self, folder: Path, store: Store, emit: Callable[[Event], None], *, pause: float) -> None:
        self.folder = folder
        self._store = store
        self._emit = emit
        self._pause = pause  # seconds until a failed write is retried
        # Sessions, and owners for their items, whose files are due. True: write a restart line first.
        self._due: dict[SessionId | str, bool] = {}
        self.woken = asyncio.Event()  # there is something to write
        self._failed = False  # a file could not be written: wait for the retry
        # Checked again when the process stops, since some changes emit no event.
        self._touched: dict[SessionId, None] = {}
        self._check_at: float | None = None  # when to check the store again; None: at once
        self._progress: dict[SessionId, Progress] = {}  # as of the last check
        self._writing = asyncio.Lock()  # no old row is appended to a file that is being rewritten

    # -- the job

    def on_event(self, event: Event) -> None:
        """Mark the file that the event concerns as due."""
        match event:
            case ItemsMade() | ItemsForgotten() | ItemPinned():
                self._due[event.owner] = False
            case Deleted():
                self._due.pop(event.session, None)
                self._due[event.owner] = False
            case _ if isinstance(event, _RESTARTING_EVENTS):
                self._due[event.session] = True
            case _ if isinstance(event, _APPENDING_EVENTS):
                self._due.setdefault(event.session, False)
            case _:
                return
        if isinstance(event, SessionEvent) and len(self._touched) < MAX_SESSIONS:
            self._touched[event.session] = None
        if not self._failed:
            self.woken.set()

    async def run(self) -> None:
        """Write what is due. The first run, and one now and then, checks the store for what is missing."""
        if self._check_at is None or time.monotonic() >= self._check_at:
            await self.catch_up()
        await self.write()

    async def finish(self) -> None:
        """Write what is left, before the process stops."""
        if self._check_at is None:
            await self.catch_up()
        for session in self._touched:
            self._due.setdefault(session, False)
        self._check_at = None  # check again if it is opened again
        await self.write()

    async def catch_up(self) -> None:
        """Mark sessions as due that any process changed since the last check."""
        try:
            found = [summary.progress for summary in await self._store.sessions(limit=MAX_SESSIONS)]
            for progress in found:
                before = self._progress.get(progress.session)
                if before == progress:
                    continue
                restart = before is not None and before.revision != progress.revision
                self._due[progress.session] = restart or self._due.get(progress.session, False)
                self._due[progress.session.owner] = False
            self._progress = {progress.session: progress for progress in found}
            self._check_at = time.monotonic() + self._pause * PAUSES_PER_CHECK
            self.woken.set()
        except OnlookerError as error:
            log.warning("cannot check the store for what the journal lacks: %s", error)

    # -- writing

    async def write(self) -> None:
        """Write every file that is due. A file that cannot be written stays due."""
        self.woken.clear()
        left: dict[SessionId | str, bool] = {}
        try:
            while self._due:
                what, restart = next(iter(self._due.items()))
                del self._due[what]
                left[what] = restart  # before the write, which may be cancelled
                try:
                    async with self._writing:
                        await self._write(what, restart)
                    del left[what]
                except (OSError, OnlookerError) as error:
                    path = file_of(self.folder, what)
                    log.warning("%s not written, will be retried: %s", path.name, error)
                    self._emit(JournalFailed(str(path), str(error), self._pause))
        finally:
            for what, restart in left.items():
                self._due[what] = self._due.get(what, False) or restart
        self._failed = bool(left)
        if left:
            self.woken.clear()

    async def _write(self, what: SessionId | str, restart: bool) -> None:
        path = file_of(self.folder, what)
        if isinstance(what, str):
            await self._write_items(what, path)
        else:
            await self._write_session(what, path, restart)

    async def _write_session(self, session: SessionId, path: Path, restart: bool) -> None:
        end = None if restart else await asyncio.to_thread(read_end, path)
        top = await self._session_row(session)
        if top is None:
            return  # the session was deleted
        if end and (end.position.seq > top.progress.last_seq or end.position.change > top.changes):
            end = None  # an older store was restored
        if end is None and await asyncio.to_thread(path.exists):
            await asyncio.to_thread(append, path, [to_line(RestartRow(session))])
        await self._copy(session, end or _START, lambda lines: append(path, lines))

    async def _session_row(self, session: SessionId) -> SessionRow | None:
        scope = Scope(session=session, kinds=frozenset({"session"}))
        rows = [row async for row in self._store.dump(scope)]
        return next((row for row in rows if isinstance(row, SessionRow)), None)

    async def _copy(self, session: SessionId, end: _End, append: Callable[[list[str]], None]) -> None:
        """Write the rows after a position, then the session row: a file is valid up to its last session
        row."""
        top = ""
        lines: list[str] = []
        async for row in self._store.dump(Scope(session=session, kinds=_SESSION_KINDS, after=end.position)):
            if isinstance(row, SessionRow):
                top = to_line(row)
                continue
            lines.append(to_line(row))
            if len(lines) >= BATCH:
                batch, lines = lines, []
                await asyncio.to_thread(append, batch)
        if top and (lines or top != end.line):
            await asyncio.to_thread(append, [*lines, top])

    async def _write_items(self, owner: str, path: Path) -> None:
        known = await asyncio.to_thread(read_item_lines, path)
        now = await self._item_lines(owner)
        if known.keys() - now.keys():
            await asyncio.to_thread(_replace, path, list(now.values()))
        else:
            await asyncio.to_thread(append, path, [now[i] for i in now if now[i] != known.get(i)])

    async def _item_lines(self, owner: str) -> dict[str, str]:
        """The line of each item, by id."""
        rows = self._store.dump(Scope(owner=owner, kinds=_ITEM_KINDS))
        return {row.item.id: to_line(row) async for row in rows if isinstance(row, ItemRow)}

    # -- forgetting

    async def remove_forgotten(self, sessions: Iterable[SessionId] = (), owners: Iterable[str] = ()) -> None:
        """Rewrite these files, so that nothing is left that the store no longer holds.

        Raises:
            StoreError: A file cannot be written.
        """
        for what in (*sessions, *owners):
            path = file_of(self.folder, what)
            try:
                async with self._writing:
                    if await asyncio.to_thread(path.exists):
                        await self._rewrite(what, path)
            except OSError as error:
                raise StoreError(
                    f"{path}: this file still has what was forgotten, because it cannot be written "
                    f"({error.strerror or error}); delete it, and it is written again from the store"
                ) from error

    async def _rewrite(self, what: SessionId | str, path: Path) -> None:
        if isinstance(what, str):
            await asyncio.to_thread(_replace, path, list((await self._item_lines(what)).values()))
            return
        with await asyncio.to_thread(NewFile, path) as new:
            await self._copy(what, _START, lambda lines: new.append(_encoded(lines)))
            await asyncio.to_thread(_publish, new)


# ------------------------------------------------------------------------------------ the files

_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
_CHUNK = 1 << 16
_SESSION_LINE, _RESTART_LINE = b'{"kind":"session"', b'{"kind":"restart"'


def file_of(folder: Path, what: SessionId | str) -> Path:
    """The file of a session, or of an owner's items. A hash tells files apart; the readable part of the
    session key is for people."""
    if isinstance(what, str):
        digest = hashlib.blake2b(what.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return folder / f"cross-session-{digest}.jsonl"
    readable = _UNSAFE.sub("-", what.key)[:40].strip("-")
    return folder / f"session-{what.sid}{'-' if readable else ''}{readable}.jsonl"


def append(path: Path, lines: Sequence[str]) -> None:
    """Append lines. If the last line of the file was cut off, they start on a new one."""
    data = _encoded(lines)
    if not data:
        return
    make_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_LINKS, 0o600)
    try:
        size = os.fstat(handle).st_size
        if size:
            os.lseek(handle, size - 1, os.SEEK_SET)
            data = data if os.read(handle, 1) == b"\n" else b"\n" + data
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)


def _encoded(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _replace(path: Path, lines: Sequence[str]) -> None:
    with NewFile(path) as new:
        new.append(_encoded(lines))
        _publish(new)


def _publish(new: NewFile) -> None:
    """Put the file in place; if it is empty, remove the old one."""
    if new.path.stat().st_size:
        new.publish()
    else:
        new.target.unlink(missing_ok=True)


class _End(NamedTuple):
    """Where a session's file ends: a position in the store, and the session row that gives it."""

    position: Position
    line: str


_START = _End(Position(), "")


def read_end(path: Path) -> _End | None:
    """Where the file ends; None if it must be started again."""
    try:
        with path.open("rb") as file:
            return _last_end(file)
    except FileNotFoundError:
        return None


def _last_end(file: BinaryIO) -> _End | None:
    size = file.seek(0, os.SEEK_END)
    reach = 0
    while reach < size:
        reach = min(size, max(_CHUNK, reach * 4))
        file.seek(size - reach)
        lines = file.read(reach).split(b"\n")
        # The first may be the end of a longer line. The last is empty, or was cut off.
        for line in reversed(lines[:-1] if reach == size else lines[1:-1]):
            if line.startswith(_RESTART_LINE):
                return None
            if line.startswith(_SESSION_LINE) and (found := _as_end(line)):
                return found
    return None


def _as_end(line: bytes) -> _End | None:
    try:
        text = line.decode()
        row = from_line(text)
    except ValueError:
        return None
    if not isinstance(row, SessionRow):
        return None
    return _End(Position(row.progress.last_seq, row.changes), text)


def read_item_lines(path: Path) -> dict[str, str]:
    """The last line of each item in a file, by id."""
    found: dict[str, str] = {}
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return found
    for line in data.split(b"\n"):
        try:
            row = from_line(line.decode())
        except ValueError:
            continue
        if isinstance(row, ItemRow):
            found[row.item.id] = line.decode()
    return found


# ------------------------------------------------------------------------------------ reading it back


def read_rows(folder: Path, problem: Callable[[str], None]) -> Iterator[Row]:
    """Yield the rows of every file in the folder, sessions first, then items.

    A line that is not a row, or not of the file's session, is reported to `problem` and skipped.
    """
    for path in sorted(folder.glob("session-*.jsonl")):
        if last := _last_session_line(path):
            yield from _rows_of_session(path, last, problem)
        else:
            problem(f"{path.name}: skipped, because it has no session row")
    for path in sorted(folder.glob("cross-session-*.jsonl")):
        for number, row in _rows(path, problem):
            if isinstance(row, ItemRow):
                yield row
            else:
                problem(f"{path.name}, line {number}: not an item")


def _last_session_line(path: Path) -> int:
    """The number of the last complete session row; 0 if there is none."""
    last = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.startswith(_SESSION_LINE) and line.endswith(b"\n") and _as_end(line[:-1]):
                last = number
    return last


def _rows_of_session(path: Path, last: int, problem: Callable[[str], None]) -> Iterator[Row]:
    session: SessionId | None = None
    for number, row in _rows(path, problem):
        if number > last:
            return  # what follows the last session row is incomplete
        found = getattr(row, "session", None)
        session = session or (found if isinstance(found, SessionId) else None)
        if session is None or found != session or isinstance(row, ItemRow):
            problem(f"{path.name}, line {number}: belongs to another session")
            continue
        yield row


def _rows(path: Path, problem: Callable[[str], None]) -> Iterator[tuple[int, Row]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, from_line(line.decode())
            except ValueError as error:
                problem(f"{path.name}, line {number}: {error}")
