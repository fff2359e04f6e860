"""Rows one by one, out of one snapshot or into one transaction, without holding them all."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import islice
from queue import Full, Queue

from onlooker.domain.errors import ClosedError
from onlooker.domain.history_rows import Row, SessionRow, session_of
from onlooker.domain.messages import SessionId
from onlooker.stores.moving import OnConflict, kind_of
from onlooker.stores.sqlite import moving
from onlooker.stores.sqlite.writer import Job

BATCH = 256
WAITING = 4  # batches
PAUSE = 0.002

Write = Callable[[Job[None]], Awaitable[None]]


async def in_batches(rows: Iterator[Row]) -> AsyncIterator[Row]:
    """Rows that are read from a database, without holding up the event loop for long."""
    while batch := await asyncio.to_thread(lambda: list(islice(rows, BATCH))):
        for row in batch:
            yield row


async def restore(write: Write, rows: AsyncIterator[Row], way: OnConflict) -> dict[str, int]:
    """Take the rows in, each session in one transaction; how many of each kind."""
    counts: Counter[str] = Counter()
    shown: dict[SessionId, tuple[str, ...]] = {}
    feed: _Feed | None = None
    try:
        async for row in rows:
            session = session_of(row)
            if feed is not None and feed.session != session:
                await feed.finish()
                feed = None
            if feed is None:
                feed = _Feed(session, way, write)
            await feed.add(row)
            counts[kind_of(row)] += 1
            if way.replace and isinstance(row, SessionRow):
                shown[row.session] = row.shown_items or ()
        if feed is not None:
            await feed.finish()
            feed = None
        if any(shown.values()):
            await write(lambda db: moving.show(db, shown))
    finally:
        if feed is not None:
            await feed.abort()
    return dict(counts)


class _Aborted(Exception):
    """The rows stopped coming before their end."""


class _Feed:
    """The rows of one session on their way into a transaction."""

    def __init__(self, session: SessionId | None, way: OnConflict, write: Write) -> None:
        self.session = session
        self._way = way
        self._batch: list[Row] = []
        self._queue: Queue[list[Row] | _Aborted | None] = Queue(WAITING)
        self._task = asyncio.ensure_future(write(self._run))

    async def add(self, row: Row) -> None:
        self._batch.append(row)
        if len(self._batch) >= BATCH:
            await self._flush()

    async def finish(self) -> None:
        """Commit."""
        await self._flush()
        await self._put(None)
        await self._task

    async def abort(self) -> None:
        """Leave everything as it was."""
        with suppress(_Aborted, Exception):
            await self._put(_Aborted())
            await self._task

    async def _flush(self) -> None:
        batch, self._batch = self._batch, []
        if batch:
            await self._put(batch)

    async def _put(self, batch: list[Row] | _Aborted | None) -> None:
        while True:
            if self._task.done():
                await self._task
                raise ClosedError("the store took no more rows")
            try:
                self._queue.put_nowait(batch)
                return
            except Full:
                await asyncio.sleep(PAUSE)

    def _run(self, db: sqlite3.Connection) -> None:
        moving.restore(db, self.session, self._batches(), self._way)

    def _batches(self) -> Iterator[list[Row]]:
        while (batch := self._queue.get()) is not None:
            if isinstance(batch, _Aborted):
                raise batch
            yield batch
