"""Appends. All waiting appends go to the server in one transaction, with one sync to its disk; each caller
still gets its own result."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock, Thread
from typing import Any, NamedTuple

import psycopg
from psycopg import errors

from onlooker.domain.errors import ConflictError
from onlooker.domain.messages import Message, SessionId, extend_history_hash
from onlooker.domain.notes import AppendResult, Progress
from onlooker.policy.plan import after_append
from onlooker.stores.postgres.database import NamedRow, PostgresDatabase
from onlooker.stores.postgres.pool import Pool, RunAgain, lost_at_once
from onlooker.stores.sql.database import instant, message_values, pack, progress_of, sid_of, unpack
from onlooker.stores.sql.sessions import check_realignment
from onlooker.stores.sql.transactions import Inbox, QueuedWork, deliver

# The most appends, messages and characters in one transaction: others wait for its locks, and the server
# accepts at most a gigabyte at once. A single append may be larger.
MAX_APPENDS = 256
MAX_MESSAGES = 2_000
MAX_CHARACTERS = 8_000_000
# How long a batch waits for a session that another transaction has locked. After that, appends to this
# session wait separately, so that the others can proceed.
SHORT_WAIT = b"SET LOCAL lock_timeout = '100ms'"


class Append(NamedTuple):
    """Messages to append to a session."""

    session: SessionId
    sid: bytes
    messages: Sequence[Message]
    due_tokens: int
    now: datetime
    after: Progress | None = None  # the progress that the session must still have

    def refusal(self, progress: Progress) -> ConflictError | None:
        """The error if it cannot be appended to a session with this progress."""
        try:
            if self.after is not None:
                check_realignment(progress, self.after)
        except ConflictError as error:
            return error
        return None


@dataclass(slots=True)
class _BatchSession:
    """The progress of a session while appends are added to it.

    `seen` is the progress as callers know it: a session that this transaction creates does not exist for
    them before the first append. `used_at` is None until then.
    """

    progress: Progress
    messages: int
    message_tokens: int
    seen: Progress
    used_at: int | None = None

    @classmethod
    def of(cls, row: NamedRow, session: SessionId, *, is_new: bool) -> _BatchSession:
        _, messages, tokens, *marks = row
        progress = progress_of(session, marks)
        return cls(progress, messages, tokens, Progress(session) if is_new else progress)


_Queued = QueuedWork[Append]

_NOBODY = SessionId("", "")

# Errors that a single append of a batch can cause.
_OF_ONE = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.InternalError)


class Appender:
    """Collects appends and writes them in batches."""

    def __init__(self, pool: Pool) -> None:
        self.batches = 0  # transactions: under load far fewer than appends
        self._pool = pool
        self._inbox: Inbox[Append] = Inbox()
        # For appends to locked sessions, and a second thread, which is started when needed. Later appends to
        # these sessions follow there, so that they stay in order.
        self._late: Inbox[Append] = Inbox()
        self._lock = Lock()  # guards the sessions that are waited for
        self._late_sids: Counter[bytes] = Counter()
        self._late_thread: Thread | None = None
        # A daemon, so that a host that does not close the store can exit. One thread for all other sessions:
        # the appends that come while it waits for the server's disk make the next batch larger.
        self._thread = Thread(target=self._run, name="onlooker-append", daemon=True)
        self._thread.start()

    async def append(
        self,
        session: SessionId,
        messages: Sequence[Message],
        due_tokens: int,
        now: datetime,
        after: Progress | None,
    ) -> AppendResult:
        """Append messages; durable on return. Cancelling the call does not stop it."""
        return await self._inbox.do(Append(session, sid_of(session), messages, due_tokens, now, after))

    def close(self) -> None:
        """Complete the queued appends. Blocks; call it in a thread."""
        self._inbox.close()
        self._thread.join()
        self._late.close()
        if self._late_thread:
            self._late_thread.join()

    # -- in a thread

    def _run(self) -> None:
        while batch := _take(self._inbox):
            batch = self._without_late(batch)
            self._write(batch, short_wait=True)
            _deliver(batch)
            # Otherwise the last results, and their event loops, would live until the next append.
            del batch

    def _run_late(self) -> None:
        while batch := _take(self._late):
            self._write(batch, short_wait=False)
            with self._lock:
                self._late_sids -= Counter(w.work.sid for w in batch)
            _deliver(batch)
            del batch

    def _without_late(self, batch: list[_Queued]) -> list[_Queued]:
        """The appends to sessions that are not waited for; the others are postponed."""
        with self._lock:
            late = set(self._late_sids)
        if late:
            self._postpone([w for w in batch if w.work.sid in late])
            batch = [w for w in batch if w.work.sid not in late]
        return batch

    def _postpone(self, batch: Sequence[_Queued]) -> None:
        for queued in batch:
            with self._lock:
                self._late_sids[queued.work.sid] += 1
            self._late.put(queued)
        if batch and self._late_thread is None:
            self._late_thread = Thread(target=self._run_late, name="onlooker-append-late", daemon=True)
            self._late_thread.start()

    def _write(self, batch: Sequence[_Queued], *, short_wait: bool) -> None:
        """Write the batch. If it fails because of one append, write each separately. If the server is gone,
        all of them fail."""
        try:
            results = self._pool.attempt(
                lambda db: write(db, [w.work for w in batch], short_wait), writing=True, begins=True
            )
            self.batches += 1
            for queued, result in zip(batch, results, strict=True):
                if isinstance(result, ConflictError):
                    queued.error = result
                else:
                    queued.result = result
        except Exception as error:  # noqa: BLE001 - it belongs to the callers, not to this thread
            if isinstance(error.__cause__, errors.LockNotAvailable):
                self._write_unlocked(batch, error, short_wait=short_wait)
            elif len(batch) == 1 or not isinstance(error.__cause__, _OF_ONE):
                _fail(batch, error)
            else:
                for queued in batch:
                    self._write([queued], short_wait=short_wait)

    def _write_unlocked(self, batch: Sequence[_Queued], error: Exception, *, short_wait: bool) -> None:
        """Write the appends to sessions that are not locked; postpone the others, or fail them if they
        were."""
        sids = {w.work.sid for w in batch}
        try:
            locked = self._pool.attempt(lambda db: _locked(db, list(sids)), writing=True) or sids
        except Exception:  # noqa: BLE001 - then all of them wait, as if all were locked
            locked = sids
        waits, rest = (
            [w for w in batch if w.work.sid in locked],
            [w for w in batch if w.work.sid not in locked],
        )
        if short_wait:
            self._postpone(waits)
        else:
            _fail(waits, error)
        if rest:
            self._write(rest, short_wait=short_wait)


def _fail(batch: Sequence[_Queued], error: Exception) -> None:
    for queued in batch:
        queued.error = error


def _take(inbox: Inbox[Append]) -> list[_Queued]:
    """Waiting appends, up to the most for one transaction; none once the store is closed."""
    batch: list[_Queued] = []
    messages = characters = 0
    while (queued := inbox.get(wait=not batch)) is not None:
        batch.append(queued)
        messages += len(queued.work.messages)
        characters += sum(len(m.text) for m in queued.work.messages)
        if len(batch) >= MAX_APPENDS or messages >= MAX_MESSAGES or characters >= MAX_CHARACTERS:
            break
    return batch


def _deliver(batch: Sequence[_Queued]) -> None:
    """Deliver the results. A postponed append has none yet: the other thread delivers it."""
    deliver([w for w in batch if w.result is not None or w.error is not None])


# ------------------------------------------------------------------------------------ the transaction


def write(
    db: PostgresDatabase, batch: Sequence[Append], short_wait: bool = False
) -> list[AppendResult | ConflictError]:
    """Append everything in order: a transaction in two round trips, three if a session is new. What is
    refused leaves the others as they are."""
    sessions, known = _read(db, batch, short_wait)
    rows: list[dict[str, Any]] = []
    results: list[AppendResult | ConflictError] = []
    for append in batch:
        there = sessions.get(append.sid)
        refusal = append.refusal(there.seen if there else Progress(append.session))
        if refusal is None and there:
            results.append(_append(append, there, known, rows))
        elif refusal:
            results.append(refusal)
    saved = [_saved(sid, s, s.used_at) for sid, s in sessions.items() if s.used_at is not None]
    with db.connection.pipeline():
        db.run("append", added=_json(rows), saved=_json(saved))
        db.connection.execute(b"COMMIT")
    return results


def _read(
    db: PostgresDatabase, batch: Sequence[Append], short_wait: bool
) -> tuple[dict[bytes, _BatchSession], dict[bytes, set[str]]]:
    """The sessions, locked, and the ids that they already have. A session that does not exist is created for
    the first append that is not refused."""
    sessions = {w.sid: w.session for w in batch}
    asked = [(w.sid, pack(m.id)) for w in batch for m in w.messages]
    rows, known = _begin(db, list(sessions), asked, short_wait)
    missing = {
        w.sid: w for w in reversed(batch) if w.sid not in rows and w.refusal(Progress(w.session)) is None
    }
    if missing:
        rows |= {row[0]: row for row in _create(db, missing)}
    return {
        sid: _BatchSession.of(row, sessions[sid], is_new=sid in missing) for sid, row in rows.items()
    }, known


def _begin(
    db: PostgresDatabase, sids: list[bytes], asked: Sequence[tuple[bytes, str]], short_wait: bool = False
) -> tuple[dict[bytes, NamedRow], dict[bytes, set[str]]]:
    known: dict[bytes, set[str]] = {}
    # Two statements: after waiting for a lock the second one must see what the other transaction wrote. The
    # round trip ends here, so that the server's timeout for idle transactions applies.
    with lost_at_once(db.connection), db.connection.pipeline():
        db.connection.execute(b"BEGIN")
        if short_wait:
            db.connection.execute(SHORT_WAIT)
        locked = db.run("lock_sessions", sids=_json(sids))
        found = db.run("known_among", pairs=_json(asked))
    rows = {row[0]: row for row in locked.fetchall()}
    for sid, ident in found.fetchall():
        known.setdefault(sid, set()).add(unpack(ident))
    return rows, known


def _locked(db: PostgresDatabase, sids: list[bytes]) -> set[bytes]:
    return {row[0] for row in db.run("locked_sessions", sids=_json(sids))}


def _create(db: PostgresDatabase, missing: dict[bytes, Append]) -> list[NamedRow]:
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
    created = db.run("create_sessions", new=_json(new), wake_at=wake_at).fetchall()
    if any(row["last_seq"] for row in created):
        # Another transaction has just created it and appended to it.
        raise RunAgain
    return created


def _append(
    append: Append, session: _BatchSession, known: dict[bytes, set[str]], rows: list[dict[str, Any]]
) -> AppendResult:
    sid = append.sid
    ids = known.setdefault(sid, set())
    progress = session.progress
    seq, history_hash = progress.last_seq, progress.history_hash
    fresh: list[Message] = []
    for message in append.messages:
        if message.id in ids:
            continue
        ids.add(message.id)
        seq += 1
        placed = message.with_seq(seq)
        digest = placed.digest
        history_hash = extend_history_hash(history_hash, digest)
        fresh.append(placed)
        rows.append(message_values(sid, placed, digest))
    session.progress = after_append(progress, fresh, history_hash, append.due_tokens, append.now)
    session.seen = session.progress
    session.messages += len(fresh)
    session.message_tokens += sum(m.tokens for m in fresh)
    session.used_at = instant(append.now)
    return AppendResult(session.progress, tuple(fresh))


def _saved(sid: bytes, session: _BatchSession, used_at: int) -> dict[str, Any]:
    progress = session.progress
    return {
        "sid": sid,
        "last_seq": progress.last_seq,
        "unnoted_tokens": progress.unnoted_tokens,
        "history_hash": progress.history_hash,
        "due_at": None if progress.due_at is None else instant(progress.due_at),
        "messages": session.messages,
        "message_tokens": session.message_tokens,
        "used_at": used_at,
    }


def _json(rows: Sequence[Any]) -> str:
    """Rows of packed text, numbers and bytes as JSON."""
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"), default=bytes.hex)
