"""An independent model of a store, in plain Python objects. The real stores are compared with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

from tests.contract import model_index, model_session
from tests.contract.model_session import Held, HeldItems, HeldUsage, Record, in_order, newest_of

from onlooker.domain.errors import ClosedError, ConflictError, NotFoundError, StoreError
from onlooker.domain.history import (
    EVERYTHING,
    PORTABLE_VALUES,
    Change,
    ChangeRow,
    ExtractionRow,
    Forgetting,
    ItemRow,
    MessageRow,
    NoteHistory,
    NoteRow,
    RestartRow,
    RetentionLimits,
    RetentionResult,
    Row,
    Scope,
    SessionRow,
    UsageRow,
    ValueRow,
    VersionRow,
    kind_of,
    session_of,
)
from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import (
    LIVE,
    AppendResult,
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
    UsageDay,
)
from onlooker.domain.search import (
    EDGE_KINDS,
    Document,
    Edge,
    EdgeKind,
    IndexCoverage,
    Match,
    MessageRef,
    Node,
    Pick,
    Query,
    SearchResult,
    VectorQuery,
)
from onlooker.policy.history import as_of
from onlooker.policy.plan import FAR_AHEAD
from onlooker.stores.sql.inspection import matches
from onlooker.stores.sql.notes import position
from onlooker.stores.sql.realignment import Known
from onlooker.stores.sql.sessions import change_of, check_realignment, step_of
from onlooker.stores.sql.transfer import OnConflict, exists_already, incomplete


class ModelStore:
    """`Store` as Python objects. Closing keeps what it holds.

    For one event loop: no method waits, so each is one transaction.
    """

    def __init__(self) -> None:
        self._index = model_index.HeldIndex()
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
        self,
        session: SessionId,
        messages: Sequence[Message],
        *,
        due_tokens: int,
        now: datetime,
        after: Progress | None = None,
    ) -> AppendResult:
        if after is not None:
            found = self._find(session)
            check_realignment(found.progress if found else Progress(session), after)
        return self._find_or_create(session, now).append(messages, due_tokens, now)

    async def realign(
        self, session: SessionId, change: Realignment, *, due_tokens: int, now: datetime
    ) -> AppendResult:
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

    async def retired(self, session: SessionId) -> Sequence[MessageDigest]:
        held = self._find(session)
        records = held.retired() if held else []
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

    async def load(
        self, session: SessionId, *, newest: int | None = None, oldest: int | None = None
    ) -> State | None:
        held = self._find(session)
        if held is None:
            return None
        return replace(held.state(), items=self._items.shown(session)).part(newest=newest, oldest=oldest)

    async def commit(self, session: SessionId, change: Commit) -> Progress:
        held = self._find(session)
        if held is None:
            raise ConflictError(f"session {session.key!r} was deleted")
        progress = held.commit(change)
        if change.items is not None:
            self._items.choose_of(session, [item.id for item in change.items])
        return progress

    async def notes(
        self,
        session: SessionId,
        *,
        statuses: Sequence[NoteStatus] = ("active",),
        kind: NoteKind | None = None,
        recent: int | None = None,
        ids: Sequence[str] | None = None,
        after: tuple[int, int, str] | None = None,
        limit: int | None = None,
    ) -> Sequence[Note]:
        held = self._find(session)
        notes = held.notes.values() if held else ()
        found = in_order(n for n in notes if n.status in statuses and kind in (None, n.kind))
        found = [n for n in found if ids is None or n.id in ids]
        found = [n for n in found if after is None or position(n) > after][:limit]
        return newest_of(found, recent)

    async def notes_at(self, session: SessionId, seq: int) -> Sequence[Note]:
        rows = [row async for row in self.dump(Scope(session=session))]
        then = as_of(rows, seq)
        return then.state.notes if then else []

    async def note_history(self, session: SessionId, note_id: str) -> NoteHistory | None:
        held = self._find(session)
        if held is None or note_id not in held.notes:
            return None
        statuses: list[tuple[datetime, NoteStatus]]
        statuses = [(c.at, s) for c in held.changes for ident, s in c.statuses if ident == note_id]
        return NoteHistory(
            held.notes[note_id],
            tuple(v for v in held.versions if v.note == note_id),
            tuple(s for n, s in enumerate(statuses) if not n or statuses[n - 1][1] != s[1]),
            tuple(n.id for n in in_order(held.notes.values()) if n.generation and note_id in n.sources),
        )

    async def changes(self, session: SessionId, *, most: int) -> Sequence[Change]:
        held = self._find(session)
        if held is None:
            return []
        step = step_of(len(held.changes), most)
        some = [c for c in held.changes if c.number % step in (0, step - 1)]
        return [*some, change_of(held.progress, held.sizes(), held.used_at)]

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
            raise NotFoundError("note or message", target)
        held.pin(target, on)

    async def set_budget(self, session: SessionId, budget: int) -> None:
        if held := self._find(session):
            held.set_budget(budget)

    # -- search

    async def search(self, query: Query) -> SearchResult:
        return model_index.search(self._all(), query)

    async def around(
        self, session: SessionId, seqs: Sequence[int], reach: int, *, retired: bool = False
    ) -> Sequence[Message]:
        held = self._all().get(session)
        return model_index.around(held, seqs, max(reach, 0), retired=retired) if held else []

    async def search_around(
        self, queries: Sequence[Query], pick: Pick, reach: int
    ) -> Mapping[MessageRef, Message]:
        picked = list(pick([await self.search(query) for query in queries]))
        return {(s, m.seq): m for s, seq in picked for m in await self.around(s, [seq], reach)}

    async def unindexed(
        self, owner: str, *, session: SessionId | None = None, limit: int = 100
    ) -> Sequence[SessionId]:
        self._all()
        return []  # everything is looked at

    async def index(self, session: SessionId, *, limit: int = 500) -> int:
        self._all()
        return 0

    # -- by meaning and mention

    async def unindexed_anywhere(self, *, limit: int = 100) -> Sequence[SessionId]:
        self._all()
        return []  # everything is looked at

    async def without_vectors(self, space: str, *, limit: int = 100) -> Sequence[Document]:
        return self._index.without_vectors(self._all(), space, limit)

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        return self._index.add(self._all(), space, vectors)

    async def nearest(self, query: VectorQuery) -> Sequence[tuple[Match, float]]:
        return self._index.nearest(self._all(), query)

    async def unlinked(self, *, limit: int = 100) -> Sequence[Document]:
        return self._index.unlinked(self._all(), limit)

    async def link(self, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
        return self._index.link(self._all(), found)

    async def edges(
        self,
        owner: str,
        *,
        of: Sequence[Node] = (),
        session: SessionId | None = None,
        kinds: Sequence[EdgeKind] = EDGE_KINDS,
        limit: int = 10_000,
    ) -> Sequence[Edge]:
        return self._index.edges(self._all(), owner, of, session, kinds, limit)

    async def notes_by_id(self, wanted: Sequence[tuple[SessionId, str]]) -> Sequence[Match]:
        return model_index.notes_by_id(self._all(), wanted)

    async def coverage(self, space: str) -> IndexCoverage:
        return self._index.coverage(self._all(), space)

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
        self, session: SessionId, ids: Sequence[str], *, now: datetime, replacing: bool = False
    ) -> None:
        self._items.show(session, ids, replacing, self._find_or_create(session, now))

    async def idle(self, before: datetime, *, limit: int = 100) -> Sequence[SessionId]:
        open_ones = [
            (h.used_at, s.sid, s)
            for s, h in self._all().items()
            if h.used_at <= before and h.progress.last_seq > h.progress.ended
        ]
        return [session for _, _, session in sorted(open_ones)][: max(limit, 0)]

    async def open_sessions(self, owner: str, since: datetime, *, limit: int = 100) -> Sequence[SessionId]:
        open_ones = [
            (since - h.used_at, s.sid, s)
            for s, h in self._all().items()
            if s.owner == owner and h.used_at >= since and h.progress.last_seq > h.progress.ended
        ]
        return [session for _, _, session in sorted(open_ones)][: max(limit, 0)]

    # -- corrections

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
            raise NotFoundError("note", note_id)
        return model_session.edit(held, note_id, text, tokens, by, now, was)

    async def undo(self, session: SessionId, note_id: str, *, prompt_version: int, now: datetime) -> Progress:
        held = self._find(session)
        if held is None:
            raise NotFoundError("note", note_id)
        return model_session.undo(held, note_id, prompt_version, now)

    async def forget(self, session: SessionId, change: Forgetting, *, now: datetime) -> Progress:
        held = self._find(session)
        if held is None:
            raise ConflictError(f"session {session.key!r} was deleted")
        progress = model_session.forget(held, change, now)
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

    # -- rows

    async def dump(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        # All of one moment, whatever happens while they are read.
        for row in list(dump(self._all(), self._items, self._usage, self._values, scope)):
            yield row

    async def restore(
        self, rows: AsyncIterator[Row], *, replace: bool = False, update: bool = False
    ) -> dict[str, int]:
        self._all()
        way = OnConflict(replace, update)
        taking = Taking(self._held, self._items, self._usage, self._values, way)
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
        return [session for at, _, session in sorted(times) if not now < at <= now + FAR_AHEAD][
            : max(limit, 0)
        ]

    async def record_usage(self, session: SessionId, usage: Usage) -> None:
        self._all()
        self._usage.record(session, usage)

    async def usage(self, session: SessionId | None = None) -> Sequence[Usage]:
        self._all()
        return self._usage.of(session)

    async def usage_by_day(
        self, *, session: SessionId | None = None, owner: str | None = None, since: datetime | None = None
    ) -> Sequence[UsageDay]:
        self._all()
        return self._usage.by_day(session, owner, since)

    async def spent(
        self, *, session: SessionId | None = None, owner: str | None = None, since: datetime | None = None
    ) -> float:
        self._all()
        return self._usage.cost(session, owner, since)

    # -- the whole store

    async def sessions(
        self,
        *,
        owner: str | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: tuple[datetime, str] | None = None,
        matching: str = "",
    ) -> Sequence[SessionSummary]:
        wanted = [h for s, h in self._all().items() if owner in (None, s.owner) and key in (None, s.key)]
        wanted = [h for h in wanted if matches(h.progress.session, matching)]
        wanted.sort(key=lambda h: h.progress.sid)
        wanted.sort(key=lambda h: h.used_at, reverse=True)
        if after is not None:
            at, sid = after
            wanted = [h for h in wanted if h.used_at < at or (h.used_at == at and h.progress.sid > sid)]
        return [_summary(h) for h in (wanted if limit is None else wanted[: max(limit, 0)])]

    async def owners(self, *, limit: int) -> Sequence[str]:
        return sorted({s.owner for s in self._all()})[:limit]

    async def prune(self, *, before: datetime, dry_run: bool = False) -> int:
        found = self._all().values()
        return sum((deepcopy(held) if dry_run else held).prune(before) for held in found)

    async def retain(
        self, session: SessionId, limits: RetentionLimits, *, dry_run: bool = False
    ) -> RetentionResult:
        held = self._find(session)
        return model_session.retain(held, limits, dry_run=dry_run) if held else RetentionResult()

    async def get_value(self, name: str) -> str | None:
        self._all()
        return self._values.get(name)

    async def set_value(self, name: str, value: str) -> None:
        self._all()
        self._values[name] = value

    async def swap_value(self, name: str, value: str, *, expected: str | None) -> bool:
        self._all()
        if self._values.get(name) != expected:
            return False
        self._values[name] = value
        return True


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
        used_at=held.used_at,
        degraded=sum(n.degraded for n in notes),
    )


# ------------------------------------------------------------------------------------ rows

# ------------------------------------------------------------------------------------ out


def dump(
    held: Mapping[SessionId, Held],
    items: HeldItems,
    usage: HeldUsage,
    values: Mapping[str, str],
    scope: Scope,
) -> Iterator[Row]:
    """Sessions by their hash, each with what belongs to it; then what belongs to the store."""
    low, high = scope.hashes
    wanted = [s for s in held if scope.owner in (None, s.owner) and low <= s.sid <= high]
    for session in sorted(wanted, key=lambda s: s.sid):
        yield from rows_of(session, held[session], items, scope)
    if scope.wants("item"):
        for item in sorted(items.every(), key=lambda i: (i.owner, i.id)):
            made_in = SessionId(item.owner, item.session)
            if scope.owner in (None, item.owner) and scope.session in (None, made_in):
                yield ItemRow(item)
    if scope.wants("usage"):
        for payer, session, used in usage.every():
            if scope.owner in (None, payer) and scope.session in (None, session):
                yield UsageRow(payer, session.key if session and session in held else None, used)
    if scope.wants("value") and scope.owner is None and scope.session is None:
        yield from (ValueRow(name, values[name]) for name in PORTABLE_VALUES if name in values)


def rows_of(session: SessionId, held: Held, items: HeldItems, scope: Scope) -> Iterator[Row]:
    """One session, with what belongs to it."""
    seq, change = scope.after
    changed = {note for c in held.changes if c.number > change for note, _ in c.statuses}
    if scope.wants("session"):
        changes = held.changes[-1].number if held.changes else 0
        pins, shown = tuple(sorted(held.pins)), _shown(session, items, scope)
        yield SessionRow(held.progress, held.used_at, changes, pins, shown)
    if scope.wants("message"):
        for r in sorted((*held.live, *held.aside), key=_place):
            if not seq or r.seq > seq:
                yield MessageRow(session, r.message, r.known.status, r.known.summary)
    if scope.wants("note"):
        for note in sorted(held.notes.values(), key=_order):
            if not change or note.id in changed:
                yield NoteRow(session, note)
    if scope.wants("extraction"):
        yield from (e for e in _extractions(session, held) if not change or e.extraction.note in changed)
    if scope.wants("version"):
        fresh = {v.note for v in held.versions if v.change > change}
        for version in sorted(held.versions, key=lambda v: (v.note, v.number)):
            if not change or version.note in fresh:
                yield VersionRow(session, version)
    if scope.wants("change"):
        yield from (ChangeRow(session, c) for c in held.changes if c.number > change)


def _shown(session: SessionId, items: HeldItems, scope: Scope) -> tuple[str, ...] | None:
    shown = items.chosen(session)
    if shown is None or scope.session is None:
        return shown
    # Of other sessions' items only where those come along.
    own = {i.id for i in items.every() if SessionId(i.owner, i.session) == session}
    return tuple(i for i in shown if i in own)


def _place(record: Record) -> tuple[int, bool, str, str]:
    return record.seq, record.known.summary, record.known.status, record.known.id


def _order(note: Note) -> tuple[bool, int, int, str]:
    return note.status in LIVE, note.first, note.generation, note.id


def _extractions(session: SessionId, held: Held) -> Iterator[ExtractionRow]:
    by_note = sorted(held.extractions, key=lambda e: e.note)
    for _, group in groupby(by_note, key=lambda e: e.note):
        for number, extraction in enumerate(group):
            yield ExtractionRow(session, number, extraction)


# ------------------------------------------------------------------------------------ in


@dataclass(frozen=True, slots=True)
class Taking:
    """Where rows are taken into."""

    held: dict[SessionId, Held]
    items: HeldItems
    usage: HeldUsage
    values: dict[str, str]
    way: OnConflict

    async def take(
        self,
        rows: AsyncIterator[Row],
        make_way: Callable[[SessionId, OnConflict], Awaitable[None]],
        beginning: Callable[[], int],
    ) -> dict[str, int]:
        """Take the rows in, one session after the other; how many of each kind."""
        counts: Counter[str] = Counter()
        shown: dict[SessionId, tuple[str, ...] | None] = {}
        async for session, group in _grouped(rows):
            counts.update(kind_of(row) for row in group)
            if session is None:
                self._take_others(group)
                continue
            if session in self.held and not any(self.way):
                raise exists_already(session)
            made = held_of(session, group)
            if session in self.held:
                await make_way(session, self.way)
            self.held[session] = replace_branch(made, beginning())
            tops = [row for row in group if isinstance(row, SessionRow)]
            shown[session] = tops[-1].shown_items
        for session, ids in shown.items():
            self.items.choose(session, ids)
        return dict(counts)

    def _take_others(self, rows: Sequence[Row]) -> None:
        for row in rows:
            match row:
                case ItemRow(item):
                    self.items.put(item)
                case UsageRow(owner, key, usage):
                    spent = (owner, None if key is None else SessionId(owner, key), usage)
                    self.usage.put(spent)
                case ValueRow(name, value):
                    self.values[name] = value
                case _:
                    continue


async def _grouped(rows: AsyncIterator[Row]) -> AsyncIterator[tuple[SessionId | None, list[Row]]]:
    """Rows of one session together."""
    group: list[Row] = []
    async for row in rows:
        if group and session_of(group[-1]) != session_of(row):
            yield session_of(group[-1]), group
            group = []
        group.append(row)
    if group:
        yield session_of(group[-1]), group


def replace_branch(held: Held, beginning: int) -> Held:
    """Above every session of that name that was deleted, so that nobody writes into this one by mistake."""
    held.progress = replace(held.progress, revision=max(held.progress.revision, beginning))
    held.fence = beginning
    return held


def held_of(session: SessionId, rows: Sequence[Row]) -> Held:
    """The session that the rows make, the later of two that say the same thing counting.

    Raises:
        StoreError: They do not say where it stands.
    """
    top: SessionRow | None = None
    parts = _Parts()
    for row in rows:
        match row:
            case SessionRow():
                top = row
            case RestartRow():
                top, parts = None, _Parts()
            case ItemRow() | UsageRow() | ValueRow():
                continue
            case _:
                parts.take(row)
    if top is None:
        raise incomplete(session)
    return parts.held(top)


class _Parts:
    """What rows said so far about one session."""

    def __init__(self) -> None:
        self.records: dict[tuple[int, str], Record] = {}
        self.notes: dict[str, NoteRow] = {}
        self.extractions: dict[tuple[str, int], ExtractionRow] = {}
        self.versions: dict[tuple[str, int], VersionRow] = {}
        self.changes: dict[int, ChangeRow] = {}

    def take(self, row: MessageRow | NoteRow | ExtractionRow | VersionRow | ChangeRow) -> None:
        match row:
            case MessageRow(_, message, place, summary):
                known = Known(message.seq, message.id, message.digest, place, summary)
                self.records[message.seq, message.id] = Record(message, known)
            case NoteRow():
                self.notes[row.note.id] = row
            case ExtractionRow():
                self.extractions[row.extraction.note, row.number] = row
            case VersionRow():
                self.versions[row.version.note, row.version.number] = row
            case ChangeRow():
                self.changes[row.change.number] = row

    def held(self, top: SessionRow) -> Held:
        held = Held(top.progress, top.used_at, 0)
        held.set_records(self.records.values())
        held.notes = {ident: row.note for ident, row in self.notes.items()}
        held.pins = set(top.pins)
        held.extractions = [self.extractions[key].extraction for key in sorted(self.extractions)]
        held.versions = [self.versions[key].version for key in sorted(self.versions)]
        held.changes = [self.changes[key].change for key in sorted(self.changes)]
        return held
