"""The store as rows: dump, restore, and read-only snapshots.

Rows are streamed in batches, out of one snapshot or into one transaction for each session, so that a store of
any size can be moved.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from queue import Full, Queue
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from onlooker.domain.errors import ClosedError, ConflictError, StoreError
from onlooker.domain.history import (
    EVERYTHING,
    PORTABLE_VALUES,
    ChangeRow,
    ExtractionRow,
    ItemRow,
    MessageRow,
    NoteRow,
    RestartRow,
    Row,
    Scope,
    SessionRow,
    UsageRow,
    ValueRow,
    VersionRow,
    kind_of,
    session_of,
)
from onlooker.domain.messages import SessionId
from onlooker.stores.sql import corrections, sessions
from onlooker.stores.sql.database import (
    EPOCH,
    FIRST_SEQ,
    Database,
    Job,
    change_values,
    clamp,
    extraction_values,
    from_instant,
    instant,
    item_values,
    message_values,
    pack,
    progress_values,
    sid_of,
    to_change,
    to_extraction,
    to_item,
    to_message,
    to_note,
    to_progress,
    to_session,
    to_usage,
    to_version,
    unpack,
    usage_values,
    version_values,
)

T = TypeVar("T")

# Rows read or written at a time, batches that wait for the writer, and seconds between checks of a full
# queue.
BATCH = 256
WAITING = 4
PAUSE = 0.002


class OnConflict(NamedTuple):
    """What happens to an existing session: it is deleted with its items and usage (`replace`), or without
    them (`update`); with neither it is an error."""

    replace: bool = False
    update: bool = False


def exists_already(session: SessionId) -> ConflictError:
    return ConflictError(
        f"session {session.key!r} of {session.owner!r} exists already; `replace` (--replace) replaces it"
    )


def incomplete(session: SessionId) -> StoreError:
    return StoreError(
        f"session {session.key!r} of {session.owner!r}: the rows do not include the session itself, so they "
        "are incomplete"
    )


# ------------------------------------------------------------------------------------ dump


def dump(db: Database, scope: Scope) -> Iterator[Row]:
    """Sessions by their hash, each with its rows; then what belongs to the store."""
    sid = sid_of(scope.session) if scope.session else None
    owner = None if scope.owner is None else pack(scope.owner)
    # By hash, not by name, so that every store gives them in the same order.
    low, high = map(bytes.fromhex, scope.hashes)
    if scope.of_sessions:
        for row in db.run("dump_sessions", low=low, high=high, owner=owner).fetchall():
            yield from _session(db, row, scope)
    if scope.wants("item"):
        for row in db.run("dump_items", sid=sid, owner=owner):
            yield ItemRow(to_item(row))
    if scope.wants("usage"):
        for row in db.run("dump_usage", sid=sid, owner=owner):
            key = None if row["key"] is None else unpack(row["key"])
            yield UsageRow(unpack(row["owner"]), key, to_usage(row))
    if scope.wants("value") and sid is None and owner is None:
        for name in PORTABLE_VALUES:
            if (value := sessions.get_value(db, name)) is not None:
                yield ValueRow(name, value)


def _session(db: Database, row: Any, scope: Scope) -> Iterator[Row]:
    session, sid, change = to_session(row), row["sid"], scope.after.change
    if scope.wants("session"):
        pins = sorted(unpack(r[0]) for r in db.run("pins", sid=sid))
        used_at, shown = from_instant(row["used_at"]), _shown(db, row, scope)
        yield SessionRow(to_progress(row, session), used_at, row["changes"], tuple(pins), shown)
    if scope.wants("message"):
        after = clamp(scope.after.seq) or FIRST_SEQ
        live = db.run("dump_live", sid=sid, after=after)
        archived = db.run("dump_archived", sid=sid, after=after)
        for found in sessions.merged(live, archived):
            yield MessageRow(session, to_message(found), found[9], bool(found[8]))
    if scope.wants("note"):
        for found in db.run("dump_notes", sid=sid, change=change):
            yield NoteRow(session, to_note(found))
    if scope.wants("extraction"):
        for found in db.run("dump_extractions", sid=sid, change=change):
            yield ExtractionRow(session, found["number"], to_extraction(found, session))
    if scope.wants("version"):
        for found in db.run("dump_versions", sid=sid, change=change):
            yield VersionRow(session, to_version(found))
    if scope.wants("change"):
        for found in db.run("dump_changes", sid=sid, change=change):
            yield ChangeRow(session, to_change(found))


def _shown(db: Database, row: Any, scope: Scope) -> tuple[str, ...] | None:
    if not row["items_chosen"]:
        return None
    # With one session only, items made in other sessions are not part of the dump.
    made_in = row["sid"] if scope.session else None
    return tuple(unpack(r[0]) for r in db.run("dump_shown", sid=row["sid"], made_in=made_in))


class Snapshot(ABC):
    """`Reading`: a store in one snapshot, on a separate connection. Each database implements how that is
    opened."""

    def __init__(self) -> None:
        self._db: Database | None = None
        self._wanted = False  # between `open` and `close`
        # A reader that gave up may still be reading or opening in its thread.
        self._lock = Lock()

    @property
    @abstractmethod
    def name(self) -> str:
        """The store's location, without secrets."""

    @abstractmethod
    def _connect(self) -> Database | None:
        """A connection that sees the current state and no later one; None if nothing is stored yet."""

    @abstractmethod
    def _disconnect(self, db: Database) -> None:
        """Close it."""

    @abstractmethod
    def _translated(self, call: Callable[[], T]) -> T:
        """Call it, and raise the driver's errors as `StoreError`."""

    async def open(self) -> bool:
        self._wanted = True
        return await asyncio.to_thread(self._open)

    def _open(self) -> bool:
        db = self._connect()
        with self._lock:
            # The caller may have given up in the meantime.
            if db is not None and not self._wanted:
                self._disconnect(db)
            elif db is not None:
                self._db = db
        return db is not None

    async def close(self) -> None:
        self._wanted = False
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._lock:
            db, self._db = self._db, None
            if db is not None:
                self._disconnect(db)

    async def mark(self) -> tuple[int, ...]:
        db = self._opened()
        return await asyncio.to_thread(self._translated, lambda: tuple(db.run("mark").fetchone()))

    async def rows(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        rows = self._one_by_one(dump(self._opened(), scope))
        while batch := await asyncio.to_thread(self._translated, lambda: list(islice(rows, BATCH))):
            for row in batch:
                yield row

    def _opened(self) -> Database:
        if self._db is None:
            raise ClosedError(f"{self.name} is not open")
        return self._db

    def _one_by_one(self, rows: Iterator[Row]) -> Iterator[Row]:
        while True:
            with self._lock:
                row = next(rows, None) if self._db is not None else None
            if row is None:
                return
            yield row


# ------------------------------------------------------------------------------------ restore


async def restore(
    write: Callable[[Job[None]], Awaitable[None]], rows: AsyncIterator[Row], on_conflict: OnConflict
) -> dict[str, int]:
    """Insert the rows, each session in one transaction; return the count of each kind."""
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
                feed = _Feed(session, on_conflict, write)
            await feed.add(row)
            counts[kind_of(row)] += 1
            if on_conflict.replace and isinstance(row, SessionRow):
                shown[row.session] = row.shown_items or ()
        if feed is not None:
            await feed.finish()
            feed = None
        if any(shown.values()):
            await write(lambda db: _show_all(db, shown))
    finally:
        if feed is not None:
            await feed.abort()
    return dict(counts)


class _Aborted(Exception):
    """The rows stopped before their end."""


class _Feed:
    """The rows of one session on their way into a transaction."""

    def __init__(
        self,
        session: SessionId | None,
        on_conflict: OnConflict,
        write: Callable[[Job[None]], Awaitable[None]],
    ) -> None:
        self.session = session
        self._on_conflict = on_conflict
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
        """Roll back."""
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
                raise ClosedError("the store stopped reading rows")
            try:
                self._queue.put_nowait(batch)
                return
            except Full:
                await asyncio.sleep(PAUSE)

    def _run(self, db: Database) -> None:
        _restore(db, self.session, self._batches(), self._on_conflict)

    def _batches(self) -> Iterator[list[Row]]:
        while (batch := self._queue.get()) is not None:
            if isinstance(batch, _Aborted):
                raise batch
            yield batch


def _restore(
    db: Database, session: SessionId | None, batches: Iterable[list[Row]], on_conflict: OnConflict
) -> None:
    """Insert the rows of one session, or those of the store itself."""
    if session is not None:
        _delete_existing(db, session, on_conflict)
    whole = False  # whether the session's own row came
    for batch in batches:
        for is_message, rows in groupby(batch, lambda row: isinstance(row, MessageRow)):
            if is_message:
                _put_messages(db, [row for row in rows if isinstance(row, MessageRow)])
                continue
            for row in rows:
                _put(db, row, on_conflict.replace)
                whole = isinstance(row, SessionRow) or (whole and not isinstance(row, RestartRow))
    if session is not None:
        if not whole:
            raise incomplete(session)
        sid = sid_of(session)
        count, tokens = sessions.totals(db, sid)
        db.run("save_totals", sid=sid, messages=count, message_tokens=tokens)


def _delete_existing(db: Database, session: SessionId, on_conflict: OnConflict) -> None:
    if on_conflict.replace:
        db.lock_owner(session.owner)
    stored = sessions.find(db, session)
    if stored is None:
        return
    if on_conflict.replace:
        # Its usage comes with the rows.
        db.run("delete_usage", sid=stored.sid)
        corrections.delete_session(db, session)
    elif on_conflict.update:
        corrections.raise_beginnings(db, stored)
        _empty(db, stored.sid)
    else:
        raise exists_already(session)


def _empty(db: Database, sid: bytes) -> None:
    """Delete what was inserted of a session so far."""
    corrections.delete_rows(db, sid)
    db.run("hide_items_of_session", sid=sid)


def _put(db: Database, row: Row, replace: bool) -> None:
    match row:
        case SessionRow():
            _put_session(db, row)
            _show(db, row.session, () if replace else row.shown_items or ())
        case MessageRow():
            _put_messages(db, [row])
        case NoteRow(session, note):
            corrections.put_note(db, sid_of(session), note)
        case ExtractionRow(session, number, extraction):
            db.run("add_extraction", **extraction_values(sid_of(session), number, extraction))
        case VersionRow(session, version):
            db.run("add_version", **version_values(sid_of(session), version))
        case ChangeRow(session, change):
            db.run("add_change", **change_values(sid_of(session), change))
        case RestartRow(session):
            _empty(db, sid_of(session))
        case ItemRow(item):
            db.run("put_item", **item_values(item.owner, item))
        case UsageRow(owner, key, usage):
            sid = b"" if key is None else sid_of(SessionId(owner, key))
            db.run("record_usage", **usage_values(sid, owner, usage))
        case ValueRow(name, value):
            # Not others: a file must not set what this store is forgetting, or where its files are.
            if name in PORTABLE_VALUES:
                sessions.set_value(db, name, value)


def _put_session(db: Database, row: SessionRow) -> None:
    session = row.session
    sid = sid_of(session)
    db.run(
        "put_session",
        sid=sid,
        owner=pack(session.owner),
        key=pack(session.key),
        used_at=instant(row.used_at),
        items_chosen=int(row.shown_items is not None),
        **progress_values(row.progress),
    )
    db.run("delete_pins_of", sid=sid)
    db.run_many("add_pin", [{"sid": sid, "id": pack(target)} for target in row.pins])


def _put_messages(db: Database, rows: Sequence[MessageRow]) -> None:
    """Many at once: on a server each statement would be a round trip."""
    # Their session's row may come after them, and SQLite stores them by its base.
    sessions.find_or_create(db, rows[0].session, EPOCH)
    live: list[dict[str, Any]] = []
    archived: list[dict[str, Any]] = []
    for row in rows:
        values = message_values(sid_of(row.session), row.message, row.message.digest, summary=row.summary)
        if row.place == "live":
            live.append(values)
        else:
            archived.append(values | {"reason": row.place})
    db.run_many("put_message", live)
    db.run_many("put_archived", archived)


def _show_all(db: Database, shown: Mapping[SessionId, Sequence[str]]) -> None:
    """Set the items that replaced sessions show. This comes last, because deleting a session also deletes the
    items made in it, wherever they are shown."""
    for session, ids in shown.items():
        if sessions.find(db, session) is not None:
            _show(db, session, ids)


def _show(db: Database, session: SessionId, ids: Sequence[str]) -> None:
    where: dict[str, Any] = {"sid": sid_of(session), "owner": pack(session.owner)}
    db.run("hide_items_of_session", sid=where["sid"])
    db.run_many("put_shown", [where | {"position": n, "id": pack(item)} for n, item in enumerate(ids)])
