"""Sessions held in memory as rows: giving them out and taking them in."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from onlooker.domain.history_rows import (
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
    session_of,
)
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import LIVE, Note
from onlooker.stores.held import Held, Record
from onlooker.stores.held_items import HeldItems
from onlooker.stores.held_usage import HeldUsage
from onlooker.stores.moving import OnConflict, already_there, incomplete, kind_of
from onlooker.stores.realigning import Known

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
                yield MessageRow(session, r.message, r.known.place, r.known.summary)
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
    return record.seq, record.known.summary, record.known.place, record.known.id


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
                raise already_there(session)
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
