"""The memory as it was: which notes stood, with which text, and which messages were raw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from onlooker.domain.history import Change, Version
from onlooker.domain.history_rows import ChangeRow, MessageRow, NoteRow, Row, SessionRow, VersionRow
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message
from onlooker.domain.notes import LIVE, Note, NoteStatus, Progress, State


@dataclass(frozen=True, slots=True)
class Then:
    """The state at a moment; `missing` counts notes that stood then and are deleted or purged by now."""

    state: State
    missing: int = 0


@dataclass(slots=True)
class _Record:
    """What is known of a session."""

    top: SessionRow | None = None
    messages: list[MessageRow] = field(default_factory=list[MessageRow])
    notes: dict[str, Note] = field(default_factory=dict[str, Note])
    versions: dict[str, list[Version]] = field(default_factory=dict[str, list[Version]])
    changes: list[Change] = field(default_factory=list[Change])

    def take(self, row: Row) -> None:
        match row:
            case SessionRow():
                self.top = row
            case MessageRow():
                self.messages.append(row)
            case NoteRow(note=note):
                self.notes[note.id] = note
            case VersionRow(version=version):
                self.versions.setdefault(version.note, []).append(version)
            case ChangeRow(change=change):
                self.changes.append(change)
            case _:
                pass


def as_of(rows: Iterable[Row], point: int | datetime) -> Then | None:
    """The memory when message `point` was the newest, or at that time; None without a session.

    A time goes by when messages were said, and then by when notes changed. Pins are those of today.
    """
    record = _Record()
    for row in rows:
        record.take(row)
    if record.top is None:
        return None
    last = _newest(record, point)
    changes = list(_until(record.changes, last, point))
    statuses: dict[str, NoteStatus] = {}
    for change in changes:
        statuses.update(change.statuses)
    live = [ident for ident, status in statuses.items() if status in LIVE]
    number = changes[-1].number if changes else 0
    notes = [_note(record, ident, statuses[ident], number) for ident in live if ident in record.notes]
    missing = sum(ident not in record.notes for ident in live)
    return Then(_state(record.top, notes, _messages(record, last, changes), changes, last), missing)


def _newest(record: _Record, point: int | datetime) -> int:
    assert record.top is not None
    if isinstance(point, int):
        return max(0, min(point, record.top.progress.last_seq))
    said = (r.message for r in record.messages if not r.summary)
    return max((m.seq for m in said if m.at is not None and m.at <= point), default=0)


def _until(changes: Sequence[Change], last: int, point: int | datetime) -> Iterable[Change]:
    for change in changes:
        if change.last_seq > last:
            return
        if change.last_seq == last and isinstance(point, datetime) and change.at > point:
            return
        yield change


def _note(record: _Record, ident: str, status: NoteStatus, number: int) -> Note:
    note = replace(record.notes[ident], status=status)
    texts = [v for v in record.versions.get(ident, ()) if v.change <= number]
    if not texts:
        return note
    newest = max(texts, key=lambda v: v.number)
    return replace(note, text=newest.text, tokens=newest.tokens)


def _messages(record: _Record, last: int, changes: Sequence[Change]) -> list[Message]:
    """What was part of the conversation then, those that were taken back since included."""
    taken = [c.taken for c in changes if c.taken]
    originals = {r.message.seq for r in record.messages if not r.summary}
    found: list[Message] = []
    for row in record.messages:
        seq = row.message.seq
        if seq > last or (row.summary and seq in originals):
            continue
        if row.place != "retired" or not any(keep < seq <= up_to for keep, up_to in taken):
            found.append(row.message)
    return sorted(found, key=lambda m: m.seq)


def _state(
    top: SessionRow, notes: Sequence[Note], messages: Sequence[Message], changes: Sequence[Change], last: int
) -> State:
    then = changes[-1] if changes else Change(0, top.used_at, 0, 0, 0, 1)
    progress = Progress(
        top.session,
        last_seq=last,
        frontier=then.frontier,
        watermark=then.watermark,
        tail_start=then.tail_start,
        unnoted_tokens=sum(m.tokens for m in messages if m.seq > then.frontier),
        prompt_version=then.number,
        budget=top.progress.budget,
        history_hash=EMPTY_HISTORY_HASH,
    )
    start = min(then.tail_start, then.watermark + 1)
    return State(
        progress,
        tuple(sorted(notes, key=lambda n: (n.first, n.generation, n.id))),
        tuple(m for m in messages if m.seq >= start),
        frozenset(top.pins),
        tuple(m for m in messages if m.seq < start and m.id in top.pins),
    )
