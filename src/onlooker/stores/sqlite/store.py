"""The store itself: which work goes to the writer, and which to the readers.

store.py       the file: opening, appending, copying   transactions.py   all else: one method, one transaction
writer.py      one thread, group commit                readers.py        snapshots, by threads or at once
messages.py  notes.py  extractions.py  sessions.py  …  what happens inside a transaction
rows.py        rows to nouns and back                  queries/, migrations/   the SQL
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TypeVar
from weakref import finalize

from onlooker.domain.errors import ClosedError, SettingsError
from onlooker.domain.history_rows import Row
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Appended
from onlooker.stores.moving import OnConflict
from onlooker.stores.sqlite import appending, copying, driver, feeding
from onlooker.stores.sqlite.key import Key
from onlooker.stores.sqlite.opening import open_for_writing
from onlooker.stores.sqlite.readers import Readers
from onlooker.stores.sqlite.reading import SqliteReading
from onlooker.stores.sqlite.transactions import Transactions
from onlooker.stores.sqlite.writer import Job, Writer

T = TypeVar("T")


class SqliteStore(Transactions):
    """`Store` in the file at `path`, which is created if missing, readable by its owner only, and encrypted
    if there is a key. ":memory:" is a new database without a file, which lives as long as this object.

    Any number of stores, in any number of processes, may have the same file open.
    """

    def __init__(self, path: str | os.PathLike[str], *, key: Key | None = None) -> None:
        in_memory = os.fspath(path) == driver.IN_MEMORY
        if in_memory and key is not None:
            raise SettingsError("key", "…", "encrypts a file, and :memory: has none")
        self.path = driver.new_in_memory() if in_memory else Path(path)
        self._key = key
        self._anchor: sqlite3.Connection | None = None  # keeps a database in memory while the store is closed
        self._lock = Lock()  # held in threads only, while opening and closing
        self._work: tuple[Writer, Readers] | None = None
        self._commits = 0

    @property
    def commits(self) -> int:
        """How many transactions were committed: under load far fewer than there were calls."""
        return self._commits + (self._work[0].commits if self._work else 0)

    def _open(self) -> None:
        with self._lock:
            if self._work is None:
                connection = open_for_writing(self.path, self._key)
                if driver.is_in_memory(self.path) and self._anchor is None:
                    self._anchor = driver.connect(self.path, None, timeout=0)
                    finalize(self, self._anchor.close)
                self._work = Writer(connection, self.path), Readers(self.path, self._key)

    def _close(self) -> None:
        with self._lock:
            if self._work is None:
                return
            writer, readers = self._work
            # The readers go first: SQLite tidies the log away when the last connection, the
            # writer's, is closed.
            readers.close()
            writer.close()
            self._commits += writer.commits
            self._work = None

    async def _write(self, job: Job[T]) -> T:
        return await self._opened()[0].run(job)

    async def _read(self, job: Job[T]) -> T:
        return await self._opened()[1].run(job)

    async def _read_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        return await self._opened()[1].run_again(name, job, is_quick)

    def _opened(self) -> tuple[Writer, Readers]:
        if self._work is None:
            raise ClosedError(f"the store {self.path} is not open")
        return self._work

    async def append(
        self, session: SessionId, messages: Sequence[Message], *, due_tokens: int, now: datetime
    ) -> Appended:
        return await self._write(lambda db: appending.append(db, session, messages, due_tokens, now))

    # -- files

    async def erase(self) -> bool:
        self._opened()
        return await asyncio.to_thread(copying.erase, self.path, self._key)

    def _reading(self) -> SqliteReading:
        self._opened()
        return SqliteReading(self.path, self._key)

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, renew: bool = False
    ) -> dict[str, int]:
        return await self._taking_away(feeding.restore(self._write, rows, OnConflict(replace, renew)))

    async def back_up(self, target: Path) -> None:
        self._opened()
        await asyncio.to_thread(copying.back_up, self.path, target, self._key)
