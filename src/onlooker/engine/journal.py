"""A journal beside the store: append-only files that say all that was said and noted, and from which a
store can be built again.

It is written in the background, from the store, from where each file ends. So nothing that goes wrong with
it costs a note, what was not written now is written later, and writing twice says the same twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from onlooker.domain.errors import OnlookerError, StoreError
from onlooker.domain.events import (
    Activated,
    Cleared,
    Deleted,
    Edited,
    Event,
    Forgotten,
    InSession,
    ItemsForgotten,
    ItemsMade,
    JournalFailed,
    Noted,
    Pinned,
    Realigned,
    Recorded,
    Reflected,
    Undone,
)
from onlooker.domain.history_rows import ItemRow, Position, RestartRow, RowKind, Scope, SessionRow
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Progress
from onlooker.engine import journal_files as files
from onlooker.policy.lines import to_line
from onlooker.ports import Store

log = logging.getLogger("onlooker")

BATCH = 500
# Pauses between two looks at what other processes recorded.
LOOK_EVERY = 6
# Sessions that are looked at when a memory is opened, the ones used last: an earlier process may have
# stopped before it had written all.
MOST_CAUGHT_UP = 1_000

_KINDS: frozenset[RowKind] = frozenset({"session", "message", "note", "extraction", "version", "change"})
_GOES_ON = (Recorded, Noted, Activated, Reflected, Pinned, Edited, Undone, Forgotten)
_BEGINS_ANEW = (Realigned, Cleared)


class Journal:
    """Writes the files of one memory into a folder."""

    def __init__(self, folder: Path, store: Store, emit: Callable[[Event], None], *, pause: float) -> None:
        self.folder = folder
        self._store = store
        self._emit = emit
        self._pause = pause  # seconds until what failed is tried again
        # What is to be written: sessions (True: anew), and owners with their items.
        self._due: dict[SessionId | str, bool] = {}
        self._woken = asyncio.Event()
        # Looked at again when the process stops: not everything that changes is an event.
        self._heard_of: dict[SessionId, None] = {}
        self._caught_up = False
        self._seen: dict[SessionId, Progress] = {}  # where sessions stood at the last look
        self._writing = asyncio.Lock()  # nothing of before is added to a file that is written anew
        self._task: asyncio.Task[None] | None = None

    # -- when

    def hear(self, event: Event) -> None:
        """Something happened to memory; write it down when there is time."""
        match event:
            case ItemsMade() | ItemsForgotten():
                self._due[event.owner] = False
            case Deleted():
                self._due.pop(event.session, None)
                self._due[event.owner] = False
            case _ if isinstance(event, _BEGINS_ANEW):
                self._due[event.session] = True
            case _ if isinstance(event, _GOES_ON):
                self._due.setdefault(event.session, False)
            case _:
                return
        if isinstance(event, InSession) and len(self._heard_of) < MOST_CAUGHT_UP:
            self._heard_of[event.session] = None
        self._woken.set()

    def start(self) -> None:
        """Write from now on, beginning with what an earlier process left."""
        self._task = asyncio.create_task(self._run(), name="onlooker journal")

    async def stop(self, deadline: float) -> None:
        """Write what is left, within the deadline; the rest is written when a memory is opened again."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            try:
                async with asyncio.timeout(max(0.0, deadline)):
                    if not self._caught_up:
                        await self.catch_up()
                    for session in self._heard_of:
                        self._due.setdefault(session, False)
                    await self.write()
            except TimeoutError:
                log.warning("%d files of the journal are written later", len(self._due))

    async def _run(self) -> None:
        await self.catch_up()
        while True:
            if not await self.write():
                await asyncio.sleep(self._pause)
                continue
            try:
                async with asyncio.timeout(self._pause * LOOK_EVERY):
                    await self._woken.wait()
            except TimeoutError:
                await self.catch_up()

    async def catch_up(self) -> None:
        """Look at the sessions used last for what their files lack: what other processes recorded, too."""
        try:
            found = [summary.progress for summary in await self._store.sessions(limit=MOST_CAUGHT_UP)]
            for progress in found:
                before = self._seen.get(progress.session)
                if before == progress:
                    continue
                anew = before is not None and before.revision != progress.revision
                self._due[progress.session] = anew or self._due.get(progress.session, False)
                self._due[progress.session.owner] = False
            self._seen = {progress.session: progress for progress in found}
            self._caught_up = True
            self._woken.set()
        except OnlookerError as error:
            log.warning("looking for what the journal lacks: %s", error)

    # -- what

    async def write(self) -> bool:
        """Write everything that is due; False where something could not be written and stays due."""
        self._woken.clear()
        left: dict[SessionId | str, bool] = {}
        try:
            while self._due:
                what, anew = next(iter(self._due.items()))
                del self._due[what]
                left[what] = anew  # also where this is stopped in the middle of it
                try:
                    async with self._writing:
                        await self._write(what, anew)
                    del left[what]
                except (OSError, OnlookerError) as error:
                    self._failed(self._file(what), error)
        finally:
            for what, anew in left.items():
                self._due[what] = self._due.get(what, False) or anew
        return not left

    def _failed(self, path: Path, error: Exception) -> None:
        log.warning("journal %s not written now: %s", path.name, error)
        self._emit(JournalFailed(str(path), str(error), self._pause))

    def _file(self, what: SessionId | str) -> Path:
        if isinstance(what, str):
            return files.owner_file(self.folder, what)
        return files.session_file(self.folder, what)

    async def _write(self, what: SessionId | str, anew: bool) -> None:
        if isinstance(what, str):
            await self._write_items(what)
        else:
            await self._write_session(what, anew)

    async def _write_session(self, session: SessionId, anew: bool) -> None:
        path = files.session_file(self.folder, session)
        before = None if anew else await asyncio.to_thread(files.written, path)
        top = await self._top(session)
        if top is None:
            return  # deleted meanwhile
        if before and (before.position.seq > top.progress.last_seq or before.position.change > top.changes):
            before = None  # an older store was put back
        if before is None and await asyncio.to_thread(path.exists):
            await asyncio.to_thread(files.append, path, [to_line(RestartRow(session))])
        position = before.position if before else Position()
        said = before.line if before else ""
        await self._copy(session, position, lambda lines: files.append(path, lines), said)

    async def _top(self, session: SessionId) -> SessionRow | None:
        scope = Scope(session=session, kinds=frozenset({"session"}))
        rows = [row async for row in self._store.dump(scope)]
        return next((row for row in rows if isinstance(row, SessionRow)), None)

    async def _copy(
        self, session: SessionId, after: Position, append: Callable[[list[str]], None], said: str = ""
    ) -> None:
        """Write what the store has after a position, and last where that is."""
        top = ""
        lines: list[str] = []
        async for row in self._store.dump(Scope(session=session, kinds=_KINDS, after=after)):
            if isinstance(row, SessionRow):
                top = to_line(row)
                continue
            lines.append(to_line(row))
            if len(lines) >= BATCH:
                batch, lines = lines, []
                await asyncio.to_thread(append, batch)
        if top and (lines or top != said):
            await asyncio.to_thread(append, [*lines, top])

    async def _write_items(self, owner: str) -> None:
        path = files.owner_file(self.folder, owner)
        known = await asyncio.to_thread(files.item_lines, path)
        now = {
            row.item.id: to_line(row)
            async for row in self._store.dump(Scope(owner=owner, kinds=frozenset({"item"})))
            if isinstance(row, ItemRow)
        }
        if known.keys() - now.keys():
            await asyncio.to_thread(_replace, path, list(now.values()))
        else:
            await asyncio.to_thread(files.append, path, [now[i] for i in now if now[i] != known.get(i)])

    # -- forgetting

    async def renew(self, sessions: Iterable[SessionId] = (), owners: Iterable[str] = ()) -> None:
        """Write these files anew, with nothing in them that the store no longer has.

        Raises:
            StoreError: A file cannot be written; it is tried again.
        """
        for session in sessions:
            path = files.session_file(self.folder, session)
            try:
                async with self._writing:
                    await self._renew_session(session, path)
            except OSError as error:
                raise _not_renewed(path, error) from error
        for owner in owners:
            path = files.owner_file(self.folder, owner)
            try:
                async with self._writing:
                    await self._renew_items(owner, path)
            except OSError as error:
                raise _not_renewed(path, error) from error

    async def _renew_session(self, session: SessionId, path: Path) -> None:
        if not await asyncio.to_thread(path.exists):
            return
        new = files.Replacement(path)
        try:
            await self._copy(session, Position(), new.append)
            await asyncio.to_thread(new.finish)
        finally:
            await asyncio.to_thread(new.drop)

    async def _renew_items(self, owner: str, path: Path) -> None:
        if not await asyncio.to_thread(path.exists):
            return
        rows = self._store.dump(Scope(owner=owner, kinds=frozenset({"item"})))
        await asyncio.to_thread(_replace, path, [to_line(row) async for row in rows])


def _replace(path: Path, lines: list[str]) -> None:
    new = files.Replacement(path)
    try:
        new.append(lines)
        new.finish()
    finally:
        new.drop()


def _not_renewed(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path}: forgotten in the store, but this journal could not be written anew "
        f"({error.strerror or error}); delete that file, and it is written anew from the store"
    )
