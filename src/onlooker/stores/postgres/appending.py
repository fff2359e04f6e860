"""Recording messages. Whatever waits goes to the server together: one transaction, one sync to its disk,
and each caller still gets an answer of its own."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

import psycopg
from psycopg import errors

from onlooker.domain.errors import ClosedError
from onlooker.domain.messages import Message, SessionId, extend_history_hash
from onlooker.domain.notes import Appended, Progress
from onlooker.stores.postgres.connections import Again, Connections, lost_at_once
from onlooker.stores.postgres.database import Database, Row
from onlooker.stores.progress import grown
from onlooker.stores.sqlite.rows import instant, message_row, pack, progress_of, sid_of, unpack

# The most appends, messages and text in one transaction: others wait for its locks meanwhile,
# and the server takes no more than a gigabyte at once. A single append may be larger.
MOST_APPENDS = 256
MOST_MESSAGES = 2_000
MOST_CHARACTERS = 8_000_000
# How long a batch waits for a session that another transaction holds. Then whatever comes for that session
# waits by itself, so that others go on.
HASTE = b"SET LOCAL lock_timeout = '100ms'"


@dataclass(slots=True)
class Waiting:
    """An append, and whoever waits for it."""

    session: SessionId
    sid: bytes
    messages: Sequence[Message]
    due_tokens: int
    now: datetime
    future: asyncio.Future[Appended]
    loop: asyncio.AbstractEventLoop
    result: Appended | None = None
    error: Exception | None = None


@dataclass(slots=True)
class _Standing:
    """Where a session stands while appends to it are gone through."""

    progress: Progress
    messages: int
    message_tokens: int
    used_at: int = 0

    @classmethod
    def of(cls, row: Row, session: SessionId) -> _Standing:
        _, messages, tokens, *marks = row
        return cls(progress_of(session, marks), messages, tokens)


_NOBODY = SessionId("", "")

# What one of several can be the reason for, and not the server.
_OF_ONE = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.InternalError)


class Appender:
    """Takes appends and writes them in batches."""

    def __init__(self, connections: Connections) -> None:
        self.batches = 0  # transactions: under load far fewer than appends
        self._connections = connections
        self._closing = False
        self._lock = Lock()  # between "is it closing?" and the queue: nothing comes after the end mark
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        # Of sessions that are held, for a second thread, which is started when there is one. What comes for
        # them meanwhile follows there, so that it stays in order.
        self._late: SimpleQueue[Waiting | None] = SimpleQueue()
        self._late_sids: Counter[bytes] = Counter()
        self._late_thread: Thread | None = None
        # A daemon: a host that forgets to close must still be able to exit. Only one for all others: what
        # comes while it waits for the server's disk makes the next batch larger.
        self._thread = Thread(target=self._run, name="onlooker-append", daemon=True)
        self._thread.start()

    async def append(
        self, session: SessionId, messages: Sequence[Message], due_tokens: int, now: datetime
    ) -> Appended:
        """Record messages; durable on return. A cancelled wait does not stop it."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(session, sid_of(session), messages, due_tokens, now, loop.create_future(), loop)
        with self._lock:
            if self._closing:
                raise ClosedError("the store was closed")
            self._queue.put(waiting)
        return await waiting.future

    def close(self) -> None:
        """Finish what was begun. Blocks; call it in a thread."""
        with self._lock:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        self._thread.join()
        if self._late_thread:
            self._late.put(None)
            self._late_thread.join()

    # -- in a thread

    def _run(self) -> None:
        open_ = True
        while open_:
            batch, open_ = _take(self._queue)
            batch = self._in_time(batch)
            if batch:
                self._write(batch, haste=True)
                _deliver(batch)
            # Else the last results, and the loops they belong to, would live until the next append.
            del batch

    def _run_late(self) -> None:
        open_ = True
        while open_:
            batch, open_ = _take(self._late)
            if batch:
                self._write(batch, haste=False)
                with self._lock:
                    self._late_sids -= Counter(w.sid for w in batch)
                _deliver(batch)
            del batch

    def _in_time(self, batch: list[Waiting]) -> list[Waiting]:
        """Those whose sessions nobody waits for; the others are put off."""
        with self._lock:
            late = set(self._late_sids)
        if late:
            self._put_off([w for w in batch if w.sid in late])
            batch = [w for w in batch if w.sid not in late]
        return batch

    def _put_off(self, batch: Sequence[Waiting]) -> None:
        for waiting in batch:
            with self._lock:
                self._late_sids[waiting.sid] += 1
            self._late.put(waiting)
        if batch and self._late_thread is None:
            self._late_thread = Thread(target=self._run_late, name="onlooker-append-late", daemon=True)
            self._late_thread.start()

    def _write(self, batch: Sequence[Waiting], *, haste: bool) -> None:
        """Write the batch; where it fails as a whole, each by itself, so that one that cannot be written
        takes no other down. A server that is gone fails them all."""
        try:
            results = self._connections.attempt(lambda db: write(db, batch, haste), writing=True, begins=True)
            self.batches += 1
            for waiting, result in zip(batch, results, strict=True):
                waiting.result = result
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits, not to this thread
            if isinstance(error.__cause__, errors.LockNotAvailable):
                self._write_unheld(batch, error, haste=haste)
            elif len(batch) == 1 or not isinstance(error.__cause__, _OF_ONE):
                _fail(batch, error)
            else:
                for waiting in batch:
                    self._write([waiting], haste=haste)

    def _write_unheld(self, batch: Sequence[Waiting], error: Exception, *, haste: bool) -> None:
        """Write what goes to sessions that nobody holds; the rest waits, or has waited long enough."""
        sids = {w.sid for w in batch}
        try:
            held = self._connections.attempt(lambda db: _held(db, list(sids)), writing=True) or sids
        except Exception:  # noqa: BLE001 - then all of them wait, as they would if all were held
            held = sids
        waits, rest = [w for w in batch if w.sid in held], [w for w in batch if w.sid not in held]
        if haste:
            self._put_off(waits)
        else:
            _fail(waits, error)
        if rest:
            self._write(rest, haste=haste)


def _fail(batch: Sequence[Waiting], error: Exception) -> None:
    for waiting in batch:
        waiting.error = error


def _take(queue: SimpleQueue[Waiting | None]) -> tuple[list[Waiting], bool]:
    """What waits, up to the most for one transaction, and whether there will be more."""
    batch: list[Waiting] = []
    messages = characters = 0
    waiting = queue.get()
    while waiting is not None:
        batch.append(waiting)
        messages += len(waiting.messages)
        characters += sum(len(m.text) for m in waiting.messages)
        if len(batch) >= MOST_APPENDS or messages >= MOST_MESSAGES or characters >= MOST_CHARACTERS:
            return batch, True
        try:
            waiting = queue.get_nowait()
        except Empty:
            return batch, True
    return batch, False


def _deliver(batch: Sequence[Waiting]) -> None:
    """Hand the results over, with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}
    for waiting in batch:
        by_loop.setdefault(waiting.loop, []).append(waiting)
    for loop, group in by_loop.items():
        with suppress(RuntimeError):  # its loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, group)


def _resolve(group: Sequence[Waiting]) -> None:
    for waiting in group:
        if waiting.future.done():  # cancelled
            continue
        # One that was put off has neither: it is delivered by whoever writes it.
        if waiting.error is not None:
            waiting.future.set_exception(waiting.error)
        elif waiting.result is not None:
            waiting.future.set_result(waiting.result)


# ------------------------------------------------------------------------------------ the transaction


def write(db: Database, batch: Sequence[Waiting], haste: bool = False) -> list[Appended]:
    """Append everything, in order: a transaction in two trips to the server, three where a session is new."""
    standing, known = _read(db, batch, haste)
    rows: list[tuple[Any, ...]] = []
    results = [_append(w, standing[w.sid], known, rows) for w in batch]
    added = _json([dict(zip(_MESSAGE, row, strict=True)) for row in rows])
    saved = _json([_saved(sid, s) for sid, s in standing.items()])
    with db.connection.pipeline():
        db.named("append", [added, saved])
        db.connection.execute(b"COMMIT")
    return results


def _read(
    db: Database, batch: Sequence[Waiting], haste: bool
) -> tuple[dict[bytes, _Standing], dict[bytes, set[str]]]:
    """The sessions, locked, and which of the messages they have already."""
    sessions = {w.sid: w for w in reversed(batch)}  # of several the first
    asked = [(w.sid, pack(m.id)) for w in batch for m in w.messages]
    rows, known = _begin(db, list(sessions), asked, haste)
    missing = {sid: w for sid, w in sessions.items() if sid not in rows}
    if missing:
        rows |= {row[0]: row for row in _create(db, missing)}
    return {sid: _Standing.of(rows[sid], w.session) for sid, w in sessions.items()}, known


def _begin(
    db: Database, sids: list[bytes], asked: Sequence[tuple[bytes, str]], haste: bool = False
) -> tuple[dict[bytes, Row], dict[bytes, set[str]]]:
    known: dict[bytes, set[str]] = {}
    # Two statements, since whoever waited for a lock must see what its holder wrote; and an end of the trip,
    # so that the server knows that it waits for us, and for how long.
    with lost_at_once(db.connection), db.connection.pipeline():
        db.connection.execute(b"BEGIN")
        if haste:
            db.connection.execute(HASTE)
        locked = db.named("lock_sessions", [_json(sids)])
        found = db.named("known_among", [_json(asked)])
    rows = {row[0]: row for row in locked.fetchall()}
    for sid, ident in found.fetchall():
        known.setdefault(sid, set()).add(unpack(ident))
    return rows, known


def _held(db: Database, sids: list[bytes]) -> set[bytes]:
    return {row[0] for row in db.named("held_sessions", [_json(sids)])}


def _create(db: Database, missing: dict[bytes, Waiting]) -> list[Row]:
    new = [
        {
            "sid": sid,
            "owner": pack(w.session.owner),
            "key": pack(w.session.key),
            "used_at": instant(w.now),
        }
        for sid, w in missing.items()
    ]
    wake_at = Progress(_NOBODY).wake_at
    created = db.named("create_sessions", [_json(new), wake_at]).fetchall()
    if any(row["last_seq"] for row in created):
        # Another made it a moment ago, and wrote into it.
        raise Again
    return created


def _append(
    waiting: Waiting, standing: _Standing, known: dict[bytes, set[str]], rows: list[tuple[Any, ...]]
) -> Appended:
    sid = waiting.sid
    ids = known.setdefault(sid, set())
    progress = standing.progress
    seq, history_hash = progress.last_seq, progress.history_hash
    fresh: list[Message] = []
    for message in waiting.messages:
        if message.id in ids:
            continue
        ids.add(message.id)
        seq += 1
        placed = message.with_seq(seq)
        digest = placed.digest
        history_hash = extend_history_hash(history_hash, digest)
        fresh.append(placed)
        rows.append(message_row(sid, placed, digest))
    standing.progress = grown(progress, fresh, history_hash, waiting.due_tokens, waiting.now)
    standing.messages += len(fresh)
    standing.message_tokens += sum(m.tokens for m in fresh)
    standing.used_at = instant(waiting.now)
    return Appended(standing.progress, tuple(fresh))


# As `message_row` gives them.
_MESSAGE = ("sid", "seq", "id", "role", "tokens", "at", "digest", "summary", "name", "extra", "text")


def _saved(sid: bytes, standing: _Standing) -> dict[str, Any]:
    progress = standing.progress
    return {
        "sid": sid,
        "last_seq": progress.last_seq,
        "unnoted_tokens": progress.unnoted_tokens,
        "history_hash": progress.history_hash,
        "due_at": None if progress.due_at is None else instant(progress.due_at),
        "messages": standing.messages,
        "message_tokens": standing.message_tokens,
        "used_at": standing.used_at,
    }


def _json(rows: Sequence[Any]) -> str:
    """Rows of packed text, numbers and bytes."""
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"), default=bytes.hex)
