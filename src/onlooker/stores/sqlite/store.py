"""The SQLite store: which transactions go to the writer and which to the readers.

connection.py  which SQLite, opening, migrating, errors    writer.py      one thread, group commit
readers.py     snapshots, in threads or at once            snapshot.py    the file as it is at one moment
key.py         the key of an encrypted file                encryption.py  encrypt, decrypt, change the key
backup.py      copy and restore the file, erase            vectors.py     with sqlite-vec or without
queries/       statements that only SQLite has             migrations/    the schema
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast
from weakref import finalize

from onlooker.domain.errors import ClosedError, SettingsError, StoreError
from onlooker.domain.messages import Message, SessionId, extend_history_hash
from onlooker.domain.notes import Appended
from onlooker.stores.sql import sessions
from onlooker.stores.sql.database import Database, Job
from onlooker.stores.sql.rows import LAST_SEQ, instant, message_values, progress_of, sid_of
from onlooker.stores.sql.transactions import Transactions
from onlooker.stores.sqlite import backup, vectors
from onlooker.stores.sqlite.connection import (
    IN_MEMORY,
    SqliteDatabase,
    connect,
    is_in_memory,
    new_in_memory,
    open_for_writing,
)
from onlooker.stores.sqlite.key import Key
from onlooker.stores.sqlite.readers import Readers
from onlooker.stores.sqlite.snapshot import SqliteSnapshot
from onlooker.stores.sqlite.writer import Writer

T = TypeVar("T")


class SqliteStore(Transactions):
    """`Store` in the file at `path`, which is created if missing, readable by its owner only, and encrypted
    if there is a key. ":memory:" is a new database without a file, which lives as long as this object.

    Any number of stores, in any number of processes, may have the same file open.
    """

    def __init__(self, path: str | os.PathLike[str], *, key: Key | None = None) -> None:
        in_memory = os.fspath(path) == IN_MEMORY
        if in_memory and key is not None:
            raise SettingsError("key", "…", "encrypts a file, and :memory: has none")
        self.path = new_in_memory() if in_memory else Path(path)
        self._key = key
        self._anchor: sqlite3.Connection | None = None  # keeps a database in memory while the store is closed
        self._lock = Lock()  # held in threads only, while opening and closing
        self._threads: tuple[Writer, Readers] | None = None
        self._commits = 0

    @property
    def commits(self) -> int:
        """The number of committed transactions: under load far below the number of calls."""
        return self._commits + (self._threads[0].commits if self._threads else 0)

    def _open(self) -> None:
        with self._lock:
            if self._threads is None:
                connection = open_for_writing(self.path, self._key)
                if is_in_memory(self.path) and self._anchor is None:
                    self._anchor = connect(self.path, None, timeout=0)
                    finalize(self, self._anchor.close)
                self._threads = Writer(connection, self.path), Readers(self.path, self._key)

    def _close(self) -> None:
        with self._lock:
            if self._threads is None:
                return
            writer, readers = self._threads
            # The readers first: SQLite removes the log when the last connection, the writer's, is closed.
            readers.close()
            writer.close()
            self._commits += writer.commits
            self._threads = None

    def _opened(self) -> tuple[Writer, Readers]:
        if self._threads is None:
            raise ClosedError(f"the store {self.path} is not open")
        return self._threads

    async def _write(self, job: Job[T], *, session: SessionId | None = None, owner: str | None = None) -> T:
        # There is one writer at a time, so nothing has to be locked.
        return await self._opened()[0].run(job)

    async def _write_once(self, job: Job[T]) -> T:
        return await self._opened()[0].run(job)

    async def _read(self, job: Job[T]) -> T:
        return await self._opened()[1].run(job)

    async def _read_again(self, name: Hashable, job: Job[T], is_quick: Callable[[T], bool]) -> T:
        return await self._opened()[1].run_again(name, job, is_quick)

    def _snapshot(self) -> SqliteSnapshot:
        self._opened()
        return SqliteSnapshot(self.path, self._key)

    def _likely(self, db: Database, wanted: dict[str, Any]) -> list[int]:
        return vectors.likely(cast("SqliteDatabase", db), wanted)

    async def append(
        self, session: SessionId, messages: Sequence[Message], *, due_tokens: int, now: datetime
    ) -> Appended:
        return await self._write(lambda db: _append(db, session, messages, due_tokens, now))

    async def erase(self) -> bool:
        self._opened()
        return await asyncio.to_thread(backup.erase, self.path, self._key)

    async def back_up(self, target: Path) -> None:
        self._opened()
        await asyncio.to_thread(backup.back_up, self.path, target, self._key)


def _append(
    db: Database, session: SessionId, messages: Sequence[Message], due_tokens: int, now: datetime
) -> Appended:
    """What runs most often, and so writes only what an append changes."""
    sid = sid_of(session)
    row = db.run("standing", sid=sid).fetchone()
    if row is None:
        sessions.create(db, session, now)
        row = db.run("standing", sid=sid).fetchone()
    base, *marks = row
    before = progress_of(session, marks)
    seq, history_hash = before.last_seq, before.history_hash
    if seq + len(messages) > LAST_SEQ:
        raise StoreError(f"session {session.key!r} is full with {seq:,} messages; start another")
    fresh: list[Message] = []
    for message in messages:
        placed = message.with_seq(seq + 1)
        digest = placed.digest
        if db.run("append_message", base=base, **message_values(sid, placed, digest)).rowcount:
            seq, history_hash = seq + 1, extend_history_hash(history_hash, digest)
            fresh.append(placed)
    progress = sessions.grown(before, fresh, history_hash, due_tokens, now)
    db.run(
        "save_appended",
        base=base,
        last_seq=seq,
        unnoted_tokens=progress.unnoted_tokens,
        history_hash=history_hash,
        due_at=None if progress.due_at is None else instant(progress.due_at),
        messages=len(fresh),
        message_tokens=progress.unnoted_tokens - before.unnoted_tokens,
        used_at=instant(now),
    )
    return Appended(progress, tuple(fresh))
