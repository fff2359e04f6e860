"""Files beside the store, as the engine sees them. `onlooker.files` holds the implementations, and is loaded
only by a memory that uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import timedelta, tzinfo
from pathlib import Path
from typing import Protocol

from onlooker.domain.events import Consolidated, Event
from onlooker.domain.history import Row
from onlooker.domain.messages import SessionId


class Mirror(Protocol):
    """Files that repeat what the store holds: the journal, and MEMORY.md with the daily notes.

    A background task writes them from the store. A failure is logged, emitted as an event and retried; it
    never reaches a turn.
    """

    def start(self) -> None:
        """Start writing, with what an earlier process left unwritten first."""
        ...

    async def stop(self, deadline: float) -> None:
        """Write what is left within `deadline` seconds. The rest is written the next time."""
        ...

    def hear(self, event: Event) -> None:
        """Mark what the event changed as due for writing."""
        ...

    async def catch_up(self) -> None:
        """Look in the store for what the files lack, and mark it as due."""
        ...

    async def renew(self, sessions: Iterable[SessionId] = (), owners: Iterable[str] = ()) -> None:
        """Remove from the files of these sessions and owners what the store no longer holds.

        Raises:
            StoreError: A file cannot be written.
        """
        ...


class Files(Mirror, Protocol):
    """MEMORY.md and the daily notes of every owner."""

    def in_zone(self, session: SessionId, tz: tzinfo) -> None:
        """Set the time zone in which a session's days begin."""
        ...

    async def pick_up(self, owner: str) -> None:
        """Take in manual edits before a new session chooses its items. Waits briefly and never raises."""
        ...

    async def sync(self, *, owner: str | None = None) -> None:
        """Take in manual edits and write the files of one owner, or of all.

        Raises:
            StoreError: The files or the store cannot be read or written.
        """
        ...

    async def consolidate(
        self, *, owner: str | None = None, older_than: timedelta | None = None, dry_run: bool = False
    ) -> Sequence[Consolidated]:
        """Make items of daily files that are old enough, and archive the files.

        Raises:
            StoreError: The files or the store cannot be read or written.
        """
        ...


class RowFiles(Protocol):
    """Reads and writes rows in files: exports, and journals. The module `onlooker.files.export` is one."""

    async def write_export(self, path: Path, rows: AsyncIterator[Row]) -> int:
        """Write a new file that appears once it is complete; return the number of rows.

        Raises:
            StoreError: The file exists, or cannot be written.
        """
        ...

    def read_export(self, path: Path) -> AsyncIterator[Row]:
        """Check the whole file, then yield its rows.

        Raises:
            StoreError: The file cannot be read, or is not a complete and unchanged export.
        """
        ...

    def read_journal(self, folder: Path, problem: Callable[[str], None]) -> AsyncIterator[Row]:
        """Yield the rows of a journal. Lines that cannot be used are reported to `problem` and skipped.

        Raises:
            StoreError: There is no such folder, or it cannot be read.
        """
        ...
