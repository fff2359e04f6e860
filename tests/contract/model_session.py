"""What the model of a store holds: a session, the items, the usage.

Every method checks before it changes anything, so a method that raises changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TypeVar

from onlooker.domain.errors import ConflictError, NotFoundError, StoreError
from onlooker.domain.history import Change, Forgetting, RetentionLimits, RetentionResult, Version
from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId, extend_history_hash
from onlooker.domain.notes import (
    LIVE,
    AppendResult,
    Commit,
    Extraction,
    Note,
    NoteKind,
    NoteStatus,
    Progress,
    Realignment,
    State,
    Usage,
    UsageDay,
)
from onlooker.policy.history import returning, roll_back
from onlooker.policy.plan import FAR_AHEAD, after_append
from onlooker.stores.sql.corrections import (
    check_forgetting,
    check_prompt_version,
    edited,
    undone,
    versions_after,
    without_summaries,
)
from onlooker.stores.sql.realignment import (
    Known,
    MessagePlace,
    Placement,
    RolledBack,
    due_with,
    floor_of,
    place,
    restored,
    retired_and_revived,
)
from onlooker.stores.sql.retention import DatedMessage, plan_retention
from onlooker.stores.sql.sessions import (
    Sizes,
    change_of,
    changed_by,
    check_commit,
    check_revision,
    released,
    time_of,
)
from onlooker.stores.sql.sessions import deleted as gone_notes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record:
    """A message and its place."""

    message: Message
    known: Known

    @property
    def seq(self) -> int:
        return self.known.seq

    def at(self, seq: int, place: MessagePlace) -> Record:
        return Record(replace(self.message, seq=seq), replace(self.known, seq=seq, status=place))


def _record(message: Message, *, summary: bool = False) -> Record:
    message = replace(message, original=None)
    return Record(message, Known(message.seq, message.id, message.digest, "live", summary))


@dataclass(slots=True)
class Held:
    """A session with everything in it."""

    progress: Progress
    used_at: datetime
    fence: int
    holder: str | None = None
    until: datetime | None = None
    live: list[Record] = field(default_factory=list[Record])  # by seq
    aside: list[Record] = field(default_factory=list[Record])
    ids: set[str] = field(default_factory=set[str])  # of all messages, wherever they are
    notes: dict[str, Note] = field(default_factory=dict[str, Note])
    pins: set[str] = field(default_factory=set[str])
    extractions: list[Extraction] = field(default_factory=list[Extraction])
    changes: list[Change] = field(default_factory=list[Change])
    versions: list[Version] = field(default_factory=list[Version])

    # -- reading

    def standing(self, *, summaries: bool) -> list[Record]:
        """The conversation, live and set aside, in order; a summary after what it stands for."""
        found = [r for r in (*self.aside, *self.live) if r.known.status != "retired"]
        if not summaries:
            found = [r for r in found if not r.known.summary]
        return sorted(found, key=lambda r: (r.seq, r.known.summary, r.known.status == "live", r.known.id))

    def retired(self) -> list[Record]:
        """What the host took back, in order."""
        found = [r for r in self.aside if r.known.status == "retired" and not r.known.summary]
        return sorted(found, key=lambda r: (r.seq, r.known.id))

    def after(self, seq: int) -> list[Record]:
        return self.live[bisect_right(self.live, seq, key=lambda r: r.seq) :]

    def live_notes(self, kind: NoteKind | None = None) -> list[Note]:
        return in_order(n for n in self.notes.values() if n.status in LIVE and kind in (None, n.kind))

    def state(self) -> State:
        start = min(self.progress.tail_start, self.progress.watermark + 1)
        # A summary put in before the first message has a seq below 1.
        tail = self.after(start - 1) if start > 1 else self.live
        hidden = self.pins - {r.message.id for r in tail}
        pinned = [r for r in self.standing(summaries=True) if r.message.id in hidden] if hidden else []
        return State(
            progress=self.progress,
            notes=tuple(self.live_notes()),
            messages=tuple(r.message for r in tail),
            pins=frozenset(self.pins),
            pinned=tuple(r.message for r in pinned),
        )

    def extracted(self) -> list[Extraction]:
        """What notes that stand were written with, in the order of those."""
        standing = in_order(n for n in self.notes.values() if n.status != "retired")
        places = {n.id: place for place, n in enumerate(standing)}
        return sorted((e for e in self.extractions if e.note in places), key=lambda e: places[e.note])

    def sources(self, note_id: str) -> list[Message]:
        """Live ones first where an id occurs twice, then the rest of the conversation."""
        if note_id not in self.notes:
            return []
        by_id: dict[str, Message] = {}
        for record in (*self.live, *sorted(self.aside, key=lambda r: r.known.status == "retired")):
            by_id.setdefault(record.message.id, record.message)
        wanted = dict.fromkeys(self._messages_of(self.notes[note_id]))  # once each, in order
        return [by_id[i] for i in wanted if i in by_id]

    def _messages_of(self, note: Note) -> Iterable[str]:
        if note.generation == 0:
            yield from note.sources
        elif all(s in self.notes for s in note.sources):
            for source in note.sources:
                yield from self._messages_of(self.notes[source])
        else:  # a person deleted the notes in between: its range still says what it stands for
            inside = (r for r in self.standing(summaries=False) if note.first <= r.seq <= note.last)
            yield from (r.message.id for r in inside)

    # -- messages

    def append(self, messages: Sequence[Message], due_tokens: int, now: datetime) -> AppendResult:
        fresh: list[Message] = []
        seq, history_hash = self.progress.last_seq, self.progress.history_hash
        for message in messages:
            if message.id in self.ids:
                continue
            seq += 1
            placed = message.with_seq(seq)
            record = _record(placed)
            history_hash = extend_history_hash(history_hash, record.known.digest)
            self.ids.add(message.id)
            self.live.append(record)
            fresh.append(placed)
        self.progress, self.used_at = after_append(self.progress, fresh, history_hash, due_tokens, now), now
        return AppendResult(self.progress, tuple(fresh))

    def realign(self, change: Realignment, due_tokens: int, now: datetime) -> AppendResult:
        records = [*self.live, *self.aside]
        known = [r.known for r in records]
        standing = [n for n in self.notes.values() if n.status != "retired"]
        decision = roll_back(standing, change.keep, floor_of(known))
        undone = RolledBack(decision.frontier, self.progress.frontier)
        placement = place(known, change, undone)
        self.set_records(_placed(records, placement, restored(known, change.keep, undone)))
        back = self._returning(decision.frontier) if placement.revives else ()
        shown = any(self.notes[i].status == "active" for i in decision.retire)
        self.notes |= {i: replace(self.notes[i], status="retired") for i in decision.retire}
        self.notes |= {i: replace(self.notes[i], status="active") for i in decision.revive}
        self.notes |= {n.id: n for n in back}
        frontier = back[-1].last if back else decision.frontier
        progress = replace(
            self.progress,
            last_seq=placement.last_seq,
            frontier=frontier,
            watermark=decision.watermark,
            tail_start=min(self.progress.tail_start, decision.watermark + 1),
            unnoted_tokens=self.unnoted(frontier),
            revision=self.progress.revision + 1,
            prompt_version=self.progress.prompt_version + (shown or bool(decision.revive)),
            history_hash=self.history_hash(),
        )
        taken = (change.keep, self.progress.last_seq)
        self.progress, self.used_at = due_with(progress, back, due_tokens, now), now
        self.log(now, retired_and_revived(decision, back), taken)
        fresh = (r.message for r in self.after(change.last_seq) if r.seq in placement.fresh)
        return AppendResult(self.progress, tuple(replace(m, original=placement.original(m)) for m in fresh))

    def _returning(self, frontier: int) -> tuple[Note, ...]:
        extracted = {e.note for e in self.extractions}
        retired = [n for n in self.notes.values() if n.status == "retired" and n.id not in extracted]
        return returning(retired, [(r.seq, r.message.id) for r in self.after(frontier)])

    def compact(
        self, up_to: int, summary: Message, archive: bool, now: datetime, revision: int | None
    ) -> Progress:
        check_revision(self.progress, revision)
        out = [r for r in self.live if r.seq <= up_to]
        # The same summary again is a retry: the first one is not an original to keep.
        again = [r for r in out if r.known.summary and r.message.id == summary.id]
        if summary.id in self.ids and not again:
            raise StoreError(f"the summary's id {summary.id!r} is that of another message; give it its own")
        rest = self.live[len(out) :]
        before_rest = rest[0].seq - 1 if rest else self.progress.last_seq
        before_rest = min(before_rest, self.progress.frontier or before_rest)
        archived = [r.seq for r in self.aside if r.known.status == "compacted" and r.known.is_current]
        last = out[-1].seq if out else max((s for s in archived if s <= up_to), default=before_rest)
        put_in = _record(replace(summary, seq=last), summary=True)
        kept = [r.at(r.seq, "compacted") for r in out if r not in again] if archive else []
        # One summary per place is enough: the one that is archived now stands for the older.
        places = {r.seq for r in kept if r.known.summary}
        aside = [r for r in self.aside if not (r.known.summary and r.seq in places)]
        self.set_records((*aside, *kept, put_in, *rest))
        if not archive:
            # One that was taken back under the same id does not keep the pin.
            self.pins -= {r.message.id for r in out if r not in again}
        retried = len(out) == len(again) > 0
        self.progress = replace(
            self.progress,
            unnoted_tokens=self.unnoted(self.progress.frontier),
            prompt_version=self.progress.prompt_version + (not retried),
            revision=self.progress.revision
            + any(r.seq > self.progress.frontier for r in out if r not in again),
        )
        self.used_at = now
        return self.progress

    # -- notes

    def commit(self, change: Commit) -> Progress:
        check_commit(self.progress, self.fence, change.guard)
        notes = dict(self.notes)
        for ident in change.activate:
            _change_status(notes, ident, "buffered", "active")
        # Before the added notes: one may start where a superseded one did.
        for ident in change.supersede:
            _change_status(notes, ident, "active", "superseded")
        for note in change.add:
            _add(notes, note)
        self.notes = notes
        self.extractions.extend(change.extractions)
        progress = self.progress.after(change)
        self.progress = replace(progress, unnoted_tokens=self.unnoted(progress.frontier))
        self.log(time_of(change, self.used_at), changed_by(change))
        return self.progress

    def delete_notes(self, kind: NoteKind | None) -> int:
        gone = self.live_notes(kind)
        records = [r.at(r.seq, "cleared") if _stood_for(r, gone) else r for r in (*self.aside, *self.live)]
        self.set_records(records)
        # Notes that a deleted one stood for may stay for provenance; what they were written with goes.
        self.notes = {i: n for i, n in self.notes.items() if kind not in (None, n.kind)}
        stay = {i for i, n in self.notes.items() if not any(_inside(n, g) for g in gone)}
        self.extractions = [e for e in self.extractions if e.note in stay]
        self.drop_loose()
        # What is cleared counts as noted. With no note buffered, nothing stands between the two marks.
        buffered = any(n.status == "buffered" for n in self.notes.values())
        p = self.progress
        self.progress = replace(
            p,
            watermark=p.watermark if buffered else p.frontier,
            prompt_version=p.prompt_version + any(n.status == "active" for n in gone),
            unnoted_tokens=self.unnoted(p.frontier),
        )
        self.log(self.used_at, gone_notes(n.id for n in gone))
        return len(gone)

    def pin(self, target: str, on: bool) -> None:
        pinned = target in self.pins
        note = self.notes.get(target)
        known = (note is not None and note.status in LIVE) or any(
            r.message.id == target for r in self.standing(summaries=True)
        )
        if not known and not (pinned and not on):
            raise NotFoundError("note or message", target)
        if pinned != on:
            self.pins ^= {target}
            self.progress = replace(self.progress, prompt_version=self.progress.prompt_version + 1)

    def prune(self, before: datetime) -> int:
        kept: set[str] = set()
        for note in self.live_notes():
            self._reach(note, kept)
        old = [
            i for i, n in self.notes.items() if n.status not in LIVE and n.made_at < before and i not in kept
        ]
        for ident in old:
            del self.notes[ident]
        self.extractions = [e for e in self.extractions if e.note in self.notes]
        named = {s for n in self.notes.values() if n.generation == 0 for s in n.sources}
        records = [*self.aside, *self.live]
        stay = [r for r in records if r.message.id in named or not _retired_before(r, before)]
        self.set_records(stay)
        self.drop_loose()
        return len(old) + len(records) - len(stay)

    def _reach(self, note: Note, kept: set[str]) -> None:
        kept.add(note.id)
        if note.generation:
            for source in note.sources:
                if source in self.notes and source not in kept:
                    self._reach(self.notes[source], kept)

    # -- work

    def set_budget(self, budget: int) -> None:
        self.progress = replace(self.progress, budget=budget)

    def lease(self, holder: str, now: datetime, until: datetime) -> int | None:
        held = self.until is not None and now < self.until <= now + FAR_AHEAD
        if held and self.holder != holder:
            return None
        if self.holder != holder:
            self.fence += 1
        self.holder, self.until = holder, until
        return self.fence

    def release(
        self, fence: int, last_seq: int, due_at: datetime | None, wake_at: int, failures: int
    ) -> None:
        if self.holder is None or fence != self.fence:
            return
        self.progress = released(self.progress, self.used_at, last_seq, due_at, wake_at, failures)
        self.holder = self.until = None

    # -- keeping the parts in step

    def log(
        self,
        at: datetime,
        statuses: Iterable[tuple[str, NoteStatus]] = (),
        taken: tuple[int, int] | None = None,
    ) -> Change:
        """Write down that the notes changed."""
        change = change_of(self.progress, self.sizes(), at, statuses, taken)
        self.changes.append(change)
        return change

    def sizes(self) -> Sizes:
        """The number of the next change, and how large the session is."""
        last = self.changes[-1] if self.changes else Change(0, self.used_at, 0, 0, 0, 1)
        said = [r.message for r in self.standing(summaries=False)]
        new = [r for r in self.live if r.seq > last.last_seq and not r.known.summary]
        return Sizes(
            last.number + 1,
            len(said),
            sum(m.tokens for m in said),
            last.replies + sum(r.message.role == "assistant" for r in new),
            sum(n.tokens for n in self.notes.values() if n.status == "active"),
            said[-1].at if said else None,
        )

    def set_records(self, records: Iterable[Record]) -> None:
        records = sorted(records, key=lambda r: r.seq)
        self.live = [r for r in records if r.known.status == "live"]
        self.aside = [r for r in records if r.known.status != "live"]
        self.ids = {r.message.id for r in records}

    def drop_loose(self) -> bool:
        """Forget pins and versions of what is gone; whether there were any pins."""
        self.versions = [v for v in self.versions if v.note in self.notes]
        held = {p for p in self.pins if p in self.ids or p in self.notes}
        loose, self.pins = held != self.pins, held
        return loose

    def unnoted(self, frontier: int) -> int:
        return sum(r.message.tokens for r in self.after(frontier))

    def history_hash(self) -> bytes:
        history_hash = EMPTY_HISTORY_HASH
        for record in self.standing(summaries=False):
            history_hash = extend_history_hash(history_hash, record.known.digest)
        return history_hash


def in_order(notes: Iterable[Note]) -> list[Note]:
    return sorted(notes, key=lambda n: (n.first, n.generation, n.id))


def newest_of(things: list[T], count: int | None) -> list[T]:
    """The last ones; all where no count is given."""
    return things if count is None else things[max(len(things) - max(count, 0), 0) :]


def _placed(records: Sequence[Record], placement: Placement, back: Sequence[Known]) -> Iterable[Record]:
    """The records as a realignment leaves them."""
    drop, retire, restore = ({id(k) for k in group} for group in (placement.drop, placement.retire, back))
    moves = {id(known): seq for known, seq in placement.move}
    for record in records:
        key = id(record.known)
        if key in drop:
            continue
        if key in retire:
            yield record.at(record.seq, "retired")
        elif key in moves or key in restore:
            yield record.at(moves.get(key, record.seq), "live")
        else:
            yield record
    yield from map(_record, placement.add)


def _change_status(notes: dict[str, Note], ident: str, old: NoteStatus, new: NoteStatus) -> None:
    note = notes.get(ident)
    if note is None or note.status != old:
        raise ConflictError(f"note {ident!r} is no longer {old}")
    notes[ident] = replace(note, status=new)


def _add(notes: dict[str, Note], note: Note) -> None:
    """Two live notes of a generation never start at the same message."""
    taken = any(
        n.status in LIVE and (n.generation, n.first) == (note.generation, note.first) for n in notes.values()
    )
    if note.id in notes or (taken and note.status in LIVE):
        raise ConflictError(f"another worker has noted message {note.first} first")
    notes[note.id] = note


def _stood_for(record: Record, notes: Iterable[Note]) -> bool:
    return record.known.status != "retired" and any(n.first <= record.seq <= n.last for n in notes)


def _inside(note: Note, other: Note) -> bool:
    return other.first <= note.first and note.last <= other.last


def _retired_before(record: Record, before: datetime) -> bool:
    at = record.message.at
    return record.known.status == "retired" and at is not None and at < before


# ------------------------------------------------------------------------------------ corrections


def edit(held: Held, ident: str, text: str, tokens: int, by: str, now: datetime, was: str | None) -> Note:
    before = held.notes.get(ident)
    after = edited(before, ident, was, text, tokens, by)
    assert before is not None
    held.notes[ident] = after
    p = held.progress
    # A note in the making may have been told the old text.
    held.progress = replace(
        p, revision=p.revision + 1, prompt_version=p.prompt_version + (after.status == "active")
    )
    change = held.log(now, [(after.id, after.status)])
    known = sum(v.note == ident for v in held.versions)
    held.versions.extend(versions_after(before, after, known, change, by))
    return after


def undo(held: Held, ident: str, prompt_version: int, now: datetime) -> Progress:
    check_prompt_version(held.progress, prompt_version)
    statuses = undone(held.notes, ident)
    held.notes |= {note: replace(held.notes[note], status=status) for note, status in statuses}
    held.pins.discard(ident)
    p = held.progress
    held.progress = replace(p, revision=p.revision + 1, prompt_version=p.prompt_version + 1)
    held.log(now, statuses)
    return held.progress


def forget(held: Held, change: Forgetting, now: datetime) -> Progress:
    last = held.changes[-1].number if held.changes else 0
    check_forgetting(held.progress, last, change)
    records = [*held.live, *held.aside]
    gone = set(change.messages)
    seqs = {r.seq for r in records if r.message.id in gone}
    drop, back = without_summaries([r.known for r in records], change)
    out, again = {id(k) for k in drop}, {id(k) for k in back}
    held.set_records(
        r.at(r.seq, "live") if id(r.known) in again else r
        for r in records
        if r.message.id not in gone and id(r.known) not in out
    )
    held.notes = {i: n for i, n in held.notes.items() if i not in change.deleted}
    held.notes |= {n.id: n for n in change.rewritten}
    rewritten = {n.id for n in change.rewritten}
    held.versions = [v for v in held.versions if v.note not in rewritten]
    held.extractions = [e for e in held.extractions if e.note in held.notes and seqs.isdisjoint(e.seqs)]
    held.drop_loose()
    p = held.progress
    held.progress = replace(
        p,
        history_hash=held.history_hash(),
        unnoted_tokens=held.unnoted(p.frontier),
        revision=p.revision + 1,
        prompt_version=p.prompt_version + 1,
        due_at=now if change.due and p.due_at is None else p.due_at,
    )
    held.log(now, gone_notes(change.deleted))
    return held.progress


# ------------------------------------------------------------------------------------ retention


def retain(held: Held, limits: RetentionLimits, *, dry_run: bool) -> RetentionResult:
    standing = held.standing(summaries=False)
    kept = [DatedMessage(r.seq, r.message.id, r.message.at, r.known.status == "live") for r in standing]
    decided = plan_retention(kept, limits, held.progress, pins=held.pins, notes=held.notes.values())
    if dry_run or decided.counts == RetentionResult():
        return decided.counts
    delete = {k.seq for k in decided.delete}
    archive = {k.seq for k in decided.archive}

    def moved(record: Record) -> Record | None:
        if record.known.summary or record.known.status == "retired":
            return record
        if record.seq in delete:
            return None
        return record.at(record.seq, "compacted") if record.seq in archive else record

    held.set_records(m for r in (*held.aside, *held.live) if (m := moved(r)) is not None)
    return decided.counts


# ------------------------------------------------------------------------------------ items

_LATE = datetime.max.replace(tzinfo=UTC)


class HeldItems:
    """All owners' items. Every method checks before it changes anything."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, Item]] = {}
        self._shown: dict[SessionId, tuple[str, ...]] = {}

    def read(
        self, owner: str, statuses: Sequence[ItemStatus], ids: Sequence[str] | None, limit: int | None
    ) -> list[Item]:
        wanted = [
            item
            for item in self._items.get(owner, {}).values()
            if item.status in statuses and (ids is None or item.id in ids)
        ]
        wanted.sort(key=lambda i: (not i.pinned, _LATE - (i.last_used_at or i.made_at), i.id))
        return wanted if limit is None else wanted[: max(limit, 0)]

    def change(self, change: ItemChange, sessions: dict[SessionId, Held]) -> None:
        ending = _ending(change, sessions)
        items = dict(self._items.get(change.owner, {}))
        for ident, by in change.end:
            old = items.get(ident)
            if old is None or old.status != "live":
                raise ConflictError(f"item {ident!r} is no longer live")
            items[ident] = replace(old, status="ended", ended_at=change.at, superseded_by=by)
        for item in change.add:
            if item.id in items:
                raise ConflictError(f"item {item.id!r} is there already")
            items[item.id] = replace(item, owner=change.owner)
        for ident in change.use:
            if item := items.get(ident):
                items[ident] = replace(item, uses=item.uses + 1, last_used_at=change.at)
        self._items[change.owner] = items
        if ending and change.mark:
            ending.progress = replace(ending.progress, ended=change.mark.up_to)

    def archive(
        self, owner: str, ids: Sequence[str], now: datetime, sessions: dict[SessionId, Held]
    ) -> list[Item]:
        items = self._items.get(owner, {})
        gone: list[Item] = []
        for ident in dict.fromkeys(ids):
            if (item := items.get(ident)) and item.status != "archived":
                ended = item.ended_at or now
                items[ident] = replace(item, status="archived", pinned=False, ended_at=ended)
                gone.append(items[ident])
        self._hide(owner, {item.id for item in gone}, sessions)
        return gone

    def delete(self, owner: str, ids: Iterable[str] | None, sessions: dict[SessionId, Held]) -> int:
        items = self._items.get(owner, {})
        gone = set(items if ids is None else ids) & items.keys()
        self._items[owner] = {i: _unlinked(item, gone) for i, item in items.items() if i not in gone}
        self._hide(owner, gone, sessions)
        return len(gone)

    def delete_of_session(self, session: SessionId, sessions: dict[SessionId, Held]) -> None:
        """What was made in a session goes with it, wherever it is shown."""
        items = self._items.get(session.owner, {})
        made = [item.id for item in items.values() if item.session == session.key]
        self.delete(session.owner, made, sessions)
        self._shown.pop(session, None)

    def _hide(self, owner: str, ids: set[str], sessions: dict[SessionId, Held]) -> None:
        """Take them out of every prompt that shows them."""
        for session, shown in self._shown.items():
            if session.owner == owner and ids & set(shown):
                self._shown[session] = tuple(i for i in shown if i not in ids)
                _grow_epoch(sessions[session])

    def pin(self, owner: str, ident: str, on: bool) -> None:
        item = self._items.get(owner, {}).get(ident)
        if item is None or item.status != "live":
            raise NotFoundError("note", ident)
        self._items[owner][ident] = replace(item, pinned=on)

    # -- sessions

    def shown(self, session: SessionId) -> tuple[Item, ...] | None:
        ids = self.chosen(session)
        return None if ids is None else tuple(self._items[session.owner][i] for i in ids)

    def show(self, session: SessionId, ids: Sequence[str], replacing: bool, held: Held) -> None:
        before = self.chosen(session)
        if before is not None and not replacing:
            return
        self.choose_of(session, ids)
        if (before or ()) != self._shown[session]:
            _grow_epoch(held)

    def choose_of(self, session: SessionId, ids: Sequence[str]) -> None:
        items = self._items.get(session.owner, {})
        there = (i for i in dict.fromkeys(ids) if i in items and items[i].status != "archived")
        self._shown[session] = tuple(there)

    # -- moving

    def every(self) -> list[Item]:
        """All items of all owners."""
        return [item for items in self._items.values() for item in items.values()]

    def put(self, item: Item) -> None:
        self._items.setdefault(item.owner, {})[item.id] = item

    def chosen(self, session: SessionId) -> tuple[str, ...] | None:
        """What the session shows, by id, as far as it is there; None while that was not chosen."""
        ids, there = self._shown.get(session), self._items.get(session.owner, {})
        return None if ids is None else tuple(i for i in ids if i in there)

    def choose(self, session: SessionId, ids: Iterable[str] | None) -> None:
        """What a session from elsewhere shows. Items come after the sessions that show them."""
        self._shown.pop(session, None)
        if ids is not None:
            self._shown[session] = tuple(ids)


def _ending(change: ItemChange, sessions: dict[SessionId, Held]) -> Held | None:
    """The session that the change ends, if any, as it was when the change was made."""
    mark = change.mark
    if mark is None:
        return None
    held = sessions.get(mark.session)
    if (
        held is None
        or held.progress.ended != mark.expected
        or mark.revision not in (None, held.progress.revision)
    ):
        raise ConflictError(f"session {mark.session.key!r} was ended by another worker, changed, or deleted")
    return held


def _grow_epoch(held: Held) -> None:
    held.progress = replace(held.progress, prompt_version=held.progress.prompt_version + 1)


def _unlinked(item: Item, gone: set[str]) -> Item:
    if item.superseded_by not in gone and not gone & {*item.replaces, *item.derived_from}:
        return item
    return replace(
        item,
        superseded_by="" if item.superseded_by in gone else item.superseded_by,
        replaces=tuple(i for i in item.replaces if i not in gone),
        derived_from=tuple(i for i in item.derived_from if i not in gone),
    )


# ------------------------------------------------------------------------------------ usage

# What a call cost: for which owner, and which session unless that was deleted.
Spent = tuple[str, SessionId | None, Usage]


class HeldUsage:
    """All owners' calls. What was paid stays paid: it outlives the session and the owner it was for."""

    def __init__(self) -> None:
        self._spent: list[Spent] = []

    def record(self, session: SessionId, usage: Usage) -> None:
        self._spent.append((session.owner, session, usage))

    def of(self, session: SessionId | None) -> list[Usage]:
        """The calls for one session, or all."""
        return [usage for _, whose, usage in self._spent if session in (None, whose)]

    def cost(self, session: SessionId | None, owner: str | None, since: datetime | None) -> float:
        return sum(
            usage.cost or 0.0
            for payer, whose, usage in self._spent
            if session in (None, whose) and owner in (None, payer) and (since is None or usage.at >= since)
        )

    def by_day(
        self, session: SessionId | None, owner: str | None, since: datetime | None
    ) -> Sequence[UsageDay]:
        days: dict[tuple[date, str, str], list[Usage]] = {}
        for payer, whose, usage in self._spent:
            if session in (None, whose) and owner in (None, payer) and (since is None or usage.at >= since):
                key = usage.at.astimezone(UTC).date(), usage.model, usage.purpose
                days.setdefault(key, []).append(usage)
        found = sorted(sorted(days, key=lambda key: key[1:]), key=lambda key: key[0], reverse=True)
        return [_of_day(key[0], days[key]) for key in found]

    def leave_session(self, session: SessionId) -> None:
        """It was deleted: its calls stay its owner's."""
        self._spent = [(owner, None if s == session else s, usage) for owner, s, usage in self._spent]

    def leave_owner(self, owner: str) -> None:
        """They were forgotten: their calls are nobody's."""
        self._spent = [("" if payer == owner else payer, s, usage) for payer, s, usage in self._spent]

    # -- moving

    def every(self) -> Sequence[Spent]:
        return tuple(self._spent)

    def put(self, spent: Spent) -> None:
        self._spent.append(spent)

    def drop(self, session: SessionId) -> None:
        """Another copy of the session comes, with its own."""
        self._spent = [spent for spent in self._spent if spent[1] != session]


def _of_day(day: date, calls: Sequence[Usage]) -> UsageDay:
    costs = [u.cost for u in calls if u.cost is not None]
    return UsageDay(
        day,
        calls[0].model,
        calls[0].purpose,
        len(calls),
        sum(u.verdict != "accepted" for u in calls),
        sum(u.input_tokens for u in calls),
        sum(u.output_tokens for u in calls),
        sum(costs) if costs else None,
    )
