"""Sessions in this process's memory: for tests and trials, and the plainest form of the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from onlooker.domain.errors import ClosedError, ConflictError, StoreError
from onlooker.domain.history import Forgetting, Retention, RetentionResult
from onlooker.domain.history_rows import EVERYTHING, Row, Scope
from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import (
    Appended,
    Commit,
    Extraction,
    MessageDigest,
    Note,
    NoteKind,
    NoteStatus,
    Progress,
    Realignment,
    SessionSummary,
    State,
    Usage,
)
from onlooker.stores import held_moving, held_past, held_retaining
from onlooker.stores.held import Held, in_order, newest_of
from onlooker.stores.held_finding import Finding
from onlooker.stores.held_items import HeldItems
from onlooker.stores.held_usage import HeldUsage
from onlooker.stores.moving import OnConflict
from onlooker.stores.progress import check_realignment


class MemoryStore(Finding):
    """`Store` without a file. Closing keeps what it holds; that goes with the object.

    For one event loop: no method waits, so each is one transaction.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_open = False
        self._held: dict[SessionId, Held] = {}
        self._usage = HeldUsage()
        self._values: dict[str, str] = {}
        self._items = HeldItems()
        # Where revision and fence of a new session start: above those of every deleted one, so that a
        # worker still busy with that cannot write into its namesake.
        self._beginning = 0

    async def open(self) -> None:
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False

    def _all(self) -> dict[SessionId, Held]:
        if not self._is_open:
            raise ClosedError("the store is not open")
        return self._held

    def _find(self, session: SessionId) -> Held | None:
        return self._all().get(session)

    def _find_or_create(self, session: SessionId, now: datetime) -> Held:
        found = self._find(session)
        if found is None:
            progress = Progress(session, revision=self._beginning)
            found = self._held[session] = Held(progress, now, self._beginning)
        return found

    # -- messages

    async def append(
        self, session: SessionId, messages: Sequence[Message], *, due_tokens: int, now: datetime
    ) -> Appended:
        return self._find_or_create(session, now).append(messages, due_tokens, now)

    async def realign(
        self, session: SessionId, change: Realignment, *, due_tokens: int, now: datetime
    ) -> Appended:
        found = self._find(session)
        check_realignment(found.progress if found else Progress(session), change)
        # A session that does not exist holds nothing that `follow` could name, and may be refused.
        held = found or Held(Progress(session, revision=self._beginning), now, self._beginning)
        done = held.realign(change, due_tokens, now)
        self._held[session] = held
        return done

    async def digests(self, session: SessionId, *, newest: int | None = None) -> Sequence[MessageDigest]:
        held = self._find(session)
        records = held.standing(summaries=False) if held else []
        records = newest_of(records, newest)
        return [MessageDigest(r.seq, r.message.id, r.message.role, r.known.digest) for r in records]

    async def messages(
        self,
        session: SessionId,
        *,
        after: int = 0,
        up_to: int | None = None,
        limit: int | None = None,
        archived: bool = False,
    ) -> Sequence[Message]:
        held = self._find(session)
        if held is None:
            return []
        found = (r.message for r in (held.standing(summaries=True) if archived else held.live))
        # A summary put in before the first message has a seq below 1.
        inside = [m for m in found if (after <= 0 or m.seq > after) and (up_to is None or m.seq <= up_to)]
        return inside if limit is None else inside[: max(limit, 0)]

    async def sources(self, session: SessionId, note_id: str) -> Sequence[Message]:
        held = self._find(session)
        return held.sources(note_id) if held else []

    async def compact(
        self,
        session: SessionId,
        *,
        up_to: int,
        summary: Message,
        archive: bool,
        now: datetime,
        revision: int | None = None,
    ) -> Progress:
        return self._find_or_create(session, now).compact(up_to, summary, archive, now, revision)

    # -- notes

    async def load(self, session: SessionId) -> State | None:
        held = self._find(session)
        return replace(held.state(), items=self._items.shown(session)) if held else None

    async def commit(self, session: SessionId, change: Commit) -> Progress:
        held = self._find(session)
        if held is None:
            raise ConflictError(f"session {session.key!r} was deleted")
        return held.commit(change)

    async def notes(
        self,
        session: SessionId,
        *,
        statuses: Sequence[NoteStatus] = ("active",),
        kind: NoteKind | None = None,
        recent: int | None = None,
    ) -> Sequence[Note]:
        held = self._find(session)
        notes = held.notes.values() if held else ()
        found = in_order(n for n in notes if n.status in statuses and kind in (None, n.kind))
        return newest_of(found, recent)

    async def delete_notes(self, session: SessionId, kind: NoteKind | None = None) -> int:
        held = self._find(session)
        return held.delete_notes(kind) if held else 0

    async def extractions(self, session: SessionId, *, type: str | None = None) -> Sequence[Extraction]:
        held = self._find(session)
        return [e for e in (held.extracted() if held else ()) if type in (None, e.type)]

    async def delete_session(self, session: SessionId) -> bool:
        self._items.delete_of_session(session, self._all())
        self._usage.leave_session(session)
        return self._drop(session)

    def _drop(self, session: SessionId) -> bool:
        held = self._all().pop(session, None)
        if held is None:
            return False
        self._beginning = max(self._beginning, held.progress.revision + 1, held.fence + 1)
        self._index.drop_stale(self._all())
        return True

    async def pin(self, session: SessionId, target: str, *, on: bool) -> None:
        held = self._find(session)
        if held is None:
            raise KeyError(target)
        held.pin(target, on)

    async def set_budget(self, session: SessionId, budget: int) -> None:
        if held := self._find(session):
            held.set_budget(budget)

    # -- items

    async def items(
        self,
        owner: str,
        *,
        statuses: Sequence[ItemStatus] = ("live",),
        ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Sequence[Item]:
        self._all()
        return self._items.read(owner, statuses, ids, limit)

    async def change_items(self, change: ItemChange) -> None:
        self._items.change(change, self._all())

    async def archive_items(self, owner: str, ids: Sequence[str], *, now: datetime) -> Sequence[Item]:
        return self._items.archive(owner, ids, now, self._all())

    async def delete_items(self, owner: str, ids: Sequence[str] | None = None) -> int:
        return self._items.delete(owner, ids, self._all())

    async def pin_item(self, owner: str, item: str, *, on: bool) -> None:
        self._all()
        self._items.pin(owner, item, on)

    async def show_items(
        self, session: SessionId, ids: Sequence[str], *, now: datetime, anew: bool = False
    ) -> None:
        self._items.show(session, ids, anew, self._find_or_create(session, now))

    async def idle(self, before: datetime, *, limit: int = 100) -> Sequence[SessionId]:
        open_ones = [
            (h.used_at, s.sid, s)
            for s, h in self._all().items()
            if h.used_at <= before and h.progress.last_seq > h.progress.ended
        ]
        return [session for _, _, session in sorted(open_ones)][: max(limit, 0)]

    # -- a person's hand

    async def edit(
        self,
        session: SessionId,
        note_id: str,
        text: str,
        *,
        tokens: int,
        by: str,
        now: datetime,
        was: str | None = None,
    ) -> Note:
        held = self._find(session)
        if held is None:
            raise KeyError(note_id)
        return held_past.edit(held, note_id, text, tokens, by, now, was)

    async def undo(self, session: SessionId, note_id: str, *, prompt_version: int, now: datetime) -> Progress:
        held = self._find(session)
        if held is None:
            raise KeyError(note_id)
        return held_past.undo(held, note_id, prompt_version, now)

    async def forget(self, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
        held = self._find(session)
        if held is None:
            raise ConflictError(f"session {session.key!r} was deleted")
        progress = held_past.forget(held, change, now)
        self._items.delete(session.owner, change.items, self._all())
        self._index.drop_stale(self._all())
        return progress

    async def forget_owner(self, owner: str) -> int:
        gone = [session for session in self._all() if session.owner == owner]
        for session in gone:
            await self.delete_session(session)
        self._items.delete(owner, None, self._all())
        self._usage.leave_owner(owner)
        return len(gone)

    async def erase(self) -> bool:
        self._all()
        return True

    # -- moving

    async def dump(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        # All of one moment, whatever happens while they are read.
        for row in list(held_moving.dump(self._all(), self._items, self._usage, self._values, scope)):
            yield row

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, renew: bool = False
    ) -> dict[str, int]:
        self._all()
        way = OnConflict(replace, renew)
        taking = held_moving.Taking(self._held, self._items, self._usage, self._values, way)
        return await taking.take(rows, self._make_way, lambda: self._beginning)

    async def _make_way(self, session: SessionId, way: OnConflict) -> None:
        if way.replace:
            self._usage.drop(session)
            await self.delete_session(session)
        else:
            self._drop(session)

    async def back_up(self, target: Path) -> None:
        raise StoreError("this memory keeps nothing in a file; export it instead")

    # -- work

    async def lease(self, session: SessionId, *, holder: str, now: datetime, until: datetime) -> int | None:
        held = self._find(session)
        return held.lease(holder, now, until) if held else None

    async def release(
        self,
        session: SessionId,
        *,
        fence: int,
        last_seq: int,
        due_at: datetime | None,
        wake_at: int,
        failures: int,
    ) -> None:
        if held := self._find(session):
            held.release(fence, last_seq, due_at, wake_at, failures)

    async def due(self, now: datetime, *, limit: int = 1000) -> Sequence[SessionId]:
        times = [(h.progress.due_at, s.sid, s) for s, h in self._all().items() if h.progress.due_at]
        return [session for at, _, session in sorted(times) if at <= now][: max(limit, 0)]

    async def record_usage(self, session: SessionId, usage: Usage) -> None:
        self._all()
        self._usage.record(session, usage)

    async def usage(self, session: SessionId | None = None) -> Sequence[Usage]:
        self._all()
        return self._usage.of(session)

    async def spent(
        self, *, session: SessionId | None = None, owner: str | None = None, since: datetime | None = None
    ) -> float:
        self._all()
        return self._usage.cost(session, owner, since)

    # -- the whole store

    async def sessions(
        self, *, owner: str | None = None, key: str | None = None, limit: int | None = None
    ) -> Sequence[SessionSummary]:
        wanted = [h for s, h in self._all().items() if owner in (None, s.owner) and key in (None, s.key)]
        wanted.sort(key=lambda h: h.progress.sid)
        wanted.sort(key=lambda h: h.used_at, reverse=True)
        return [_summary(h) for h in (wanted if limit is None else wanted[: max(limit, 0)])]

    async def prune(self, *, before: datetime, dry_run: bool = False) -> int:
        found = self._all().values()
        return sum((deepcopy(held) if dry_run else held).prune(before) for held in found)

    async def retain(
        self, session: SessionId, limits: Retention, *, dry_run: bool = False
    ) -> RetentionResult:
        held = self._find(session)
        return held_retaining.retain(held, limits, dry_run=dry_run) if held else RetentionResult()

    async def get_value(self, name: str) -> str | None:
        self._all()
        return self._values.get(name)

    async def set_value(self, name: str, value: str) -> None:
        self._all()
        self._values[name] = value


def _summary(held: Held) -> SessionSummary:
    messages = [r.message for r in held.standing(summaries=False)]
    notes = [n for n in held.notes.values() if n.status == "active"]
    observations = [n.tokens for n in notes if n.kind == "observation"]
    reflections = [n.tokens for n in notes if n.kind == "reflection"]
    return SessionSummary(
        progress=held.progress,
        messages=len(messages),
        message_tokens=sum(m.tokens for m in messages),
        observations=len(observations),
        observation_tokens=sum(observations),
        reflections=len(reflections),
        reflection_tokens=sum(reflections),
        started_at=messages[0].at if messages else None,
        last_at=messages[-1].at if messages else None,
    )
