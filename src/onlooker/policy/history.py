"""A session's memory over time: taking messages back, forgetting them, past states, and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import unified_diff

from onlooker.domain.frozen import frozen
from onlooker.domain.history import (
    Change,
    ChangeRow,
    MessageRow,
    NoteRow,
    Row,
    SessionRow,
    Version,
    VersionRow,
)
from onlooker.domain.items import Item
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message
from onlooker.domain.notes import LIVE, Note, NoteStatus, Progress, State
from onlooker.policy.search.words import tokens
from onlooker.policy.values import find_values, holds

# -- Taking back: which notes remain when a host takes messages back


@frozen
class Rollback:
    """Notes to retire and to revive, and the session's new frontier and watermark."""

    retire: tuple[str, ...]
    revive: tuple[str, ...]
    frontier: int
    watermark: int


def roll_back(notes: Sequence[Note], keep: int, floor: int) -> Rollback:
    """Undo every note that covers messages after `keep`.

    `notes` are all of the session's notes that are not retired. A reflection that covers later messages is
    replaced by those of its sources that do not, so that as little as possible is noted again. `floor` is
    the last message whose notes a person cleared: nothing up to it is noted again.
    """
    by_id = {n.id: n for n in notes}
    live = [n for n in notes if n.status in LIVE]
    standing: dict[str, Note] = {}
    for note in live:
        for survivor in _survivors(note, keep, by_id):
            standing[survivor.id] = survivor
    retire = {n.id for n in _reaching_beyond(live, keep, by_id)}
    floor = min(floor, keep)
    in_order = sorted(standing.values(), key=lambda n: (n.first, n.last))
    return Rollback(
        retire=tuple(sorted(retire)),
        revive=tuple(n.id for n in in_order if n.status not in LIVE),
        frontier=max((floor, *(n.last for n in in_order))),
        watermark=max((floor, *(n.last for n in in_order if n.status != "buffered"))),
    )


def _survivors(note: Note, keep: int, by_id: dict[str, Note]) -> Iterable[Note]:
    """Yield the note itself, or those of its sources that do not reach beyond `keep`."""
    if note.last <= keep:
        yield note
        return
    if note.generation:
        for source in note.sources:
            if source in by_id:
                yield from _survivors(by_id[source], keep, by_id)


def _reaching_beyond(live: Iterable[Note], keep: int, by_id: dict[str, Note]) -> Iterable[Note]:
    for note in live:
        if note.last > keep:
            yield note
            if note.generation:
                yield from _reaching_beyond((by_id[s] for s in note.sources if s in by_id), keep, by_id)


def returning(retired: Iterable[Note], unnoted: Sequence[tuple[int, str]]) -> tuple[Note, ...]:
    """The notes that are valid again because their messages came back, with their new positions.

    `unnoted` are the seqs and ids of the messages that no note covers, in order. From the first of them on,
    notes of exactly these messages return, so that nothing is noted again when a host goes from one branch to
    another and back. They are not shown before there is need.
    """
    ids = tuple(ident for _, ident in unnoted)
    by_first: dict[str, list[Note]] = {}
    for note in retired:
        if not note.generation and note.sources:
            by_first.setdefault(note.sources[0], []).append(note)
    found: list[Note] = []
    at = 0
    while at < len(ids):
        # The newest message is left to its own turn.
        fits = [
            n
            for n in by_first.get(ids[at], ())
            if at + len(n.sources) < len(ids) and n.sources == ids[at : at + len(n.sources)]
        ]
        if not fits:
            break
        best = max(fits, key=lambda n: (not n.degraded, len(n.sources), n.made_at, n.id))
        end = at + len(best.sources)
        found.append(replace(best, first=unnoted[at][0], last=unnoted[end - 1][0], status="buffered"))
        at = end
    return tuple(found)


# -- Forgetting: which notes and items go with messages, and which are rewritten


@frozen
class RemakePlan:
    """The notes to delete and to rewrite when messages are forgotten.

    `delete` are notes with no source left, or that no live note is made from. `remake` are notes to write
    again from the sources left, each after the notes it is made from.
    """

    delete: tuple[str, ...]
    remake: tuple[Note, ...]


def is_made_from(note: Note, notes: Mapping[str, Note], gone: Collection[str], seqs: Collection[int]) -> bool:
    """Return whether a note was made from any of the forgotten messages, over any number of generations.

    `gone` are the ids of these messages, `seqs` their sequence numbers.
    """
    if not note.generation:
        return any(source in gone for source in note.sources)
    if lacks_sources(note, notes) and any(note.first <= seq <= note.last for seq in seqs):
        return True  # its range still shows what it covers
    return any(is_made_from(notes[s], notes, gone, seqs) for s in note.sources if s in notes)


def lacks_sources(note: Note, notes: Mapping[str, Note]) -> bool:
    """Return whether any source of a reflection was purged."""
    return note.generation > 0 and any(source not in notes for source in note.sources)


def with_descendants(notes: Mapping[str, Note], touched: Collection[str]) -> set[str]:
    """Return these notes and all notes made from them, over any number of generations."""
    found = set(touched)
    while more := {n.id for n in notes.values() if n.generation and found & set(n.sources)} - found:
        found |= more
    return found


def plan_remake(
    notes: Mapping[str, Note],
    touched: Collection[str],
    left: Collection[str],
    by_range: Collection[str] = (),
) -> RemakePlan:
    """Decide which of the `touched` notes to delete and which to write again.

    `left` are the ids of the messages that remain. `by_range` are reflections that lack sources but still
    have messages in their range.
    """
    reached = _reached(notes)
    delete = {ident for ident in touched if ident not in reached}
    remake: list[Note] = []
    for note in sorted((notes[i] for i in touched if i in reached), key=lambda n: (n.generation, n.first)):
        if note.generation:
            sources = tuple(s for s in note.sources if s not in delete)
        else:
            sources = tuple(s for s in note.sources if s in left)
        has_source = any(s in notes for s in sources) if note.generation else bool(sources)
        if has_source or note.id in by_range:
            remake.append(replace(note, sources=sources))
        else:
            delete.add(note.id)
    return RemakePlan(tuple(sorted(delete)), tuple(remake))


def _reached(notes: Mapping[str, Note]) -> set[str]:
    """Return the live notes and everything they were made from."""
    reached: set[str] = set()
    layer = [n for n in notes.values() if n.status in LIVE]
    while layer:
        reached |= {n.id for n in layer}
        layer = [
            notes[s] for n in layer if n.generation for s in n.sources if s in notes and s not in reached
        ]
    return reached


def exact_values(text: str) -> frozenset[str]:
    """Return the exact values in a text."""
    return frozenset(value.text for value in find_values(text))


def has_borrowed_values(note: Note, values: Collection[str], own: Iterable[Message]) -> bool:
    """Return whether a note contains any of the forgotten values although its own messages do not.

    The model saw earlier notes too, and may have copied the value from them.
    """
    shared = [value for value in values if holds(note.text, value)]
    if not shared:
        return False
    said = "\n".join(text_of(m) for m in own)
    return any(not holds(said, value) for value in shared)


def mentions_forgotten(text: str, values: Collection[str], notes: Iterable[str]) -> bool:
    """Return whether a summary contains a forgotten value, or the text of a note made from it."""
    return any(note.strip() and note.strip() in text for note in notes) or any(
        holds(text, value) for value in values
    )


def text_of(message: Message) -> str:
    """Return all text of a message: its body, its speaker's name and its calls."""
    parts = (message.body, message.name, *(text for c in message.calls for text in (c.name, c.arguments)))
    return "\n".join(part for part in parts if part)


# An item without sources comes from forgotten messages if they contain this share of its words.
MIN_SHARE = 0.8


def items_to_forget(
    items: Sequence[Item],
    *,
    session: str,
    touched: Collection[str],
    gone: Collection[str],
    forgotten: str,
    remaining: str,
) -> tuple[str, ...]:
    """Return the items of a session that come from forgotten messages, and the items derived from them.

    An item stays if every word of it is still in `remaining`, the text of the notes and messages that stay.
    """
    sources = {*touched, *gone}
    words, kept = set(tokens(forgotten)), set(tokens(remaining))
    going: set[str] = set()
    for item in items:
        if item.session != session:
            continue
        told = set(tokens(item.summary))
        comes_from = bool(sources & set(item.sources)) and not told <= kept
        # An item that someone saved does not only come from the messages of that turn.
        if not item.sources or item.origin == "agent":
            comes_from = comes_from or (bool(told) and len(told & words) >= MIN_SHARE * len(told))
        if comes_from:
            going.add(item.id)
    return tuple(sorted(_with_derived(items, going)))


def _with_derived(items: Sequence[Item], going: set[str]) -> set[str]:
    while more := {i.id for i in items if going & set(i.derived_from)} - going:
        going = going | more
    return going


# -- The past: a session's memory at an earlier time


@frozen
class PastState:
    """The state at an earlier time. `missing` counts its notes that have been deleted or purged since."""

    state: State
    missing: int = 0


@dataclass(slots=True)
class _Record:
    """The rows of one session."""

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


def as_of(rows: Iterable[Row], point: int | datetime) -> PastState | None:
    """Return the memory when message `point` was the newest, or at that time; None without a session.

    A time selects the messages said by then, and then the changes made by then. Pins are today's.
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
    return PastState(_state(record.top, notes, _messages(record, last, changes), changes, last), missing)


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
    """Return the messages of the conversation at that time, including those taken back since."""
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


# -- Differences between two texts, line by line


@frozen
class Diff:
    """Two texts compared line by line. None of the three lists contains day headings."""

    before: str
    after: str
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    added: tuple[str, ...]

    def unified(self, before: str = "before", after: str = "after") -> str:
        """Return a unified diff with these names; empty if the texts are equal."""
        old, new = self.before.splitlines(), self.after.splitlines()
        return "\n".join(unified_diff(old, new, before, after, lineterm=""))


def diff(before: str, after: str) -> Diff:
    """Compare the lines of two texts. A repeated line counts each time."""
    old, new = _lines(before), _lines(after)
    dropped = _left(old, Counter(new))
    kept = _left(old, Counter(dropped))
    return Diff(before, after, tuple(kept), tuple(dropped), tuple(_left(new, Counter(old))))


def _lines(text: str) -> list[str]:
    stripped = (line.strip() for line in text.splitlines())
    return [line for line in stripped if line and not line.startswith("## ")]


def _left(lines: Sequence[str], others: Counter[str]) -> list[str]:
    """Remove each of the other lines once per occurrence."""
    found: list[str] = []
    for line in lines:
        if others[line]:
            others[line] -= 1
        else:
            found.append(line)
    return found
