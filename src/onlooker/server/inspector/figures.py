"""What the pages show of a session: its messages with what became of each, its sizes over time, and what its
contexts saved."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from onlooker.domain.history import Change, ChangeRow, NoteRow, Row, RowKind, Scope, SessionRow, VersionRow
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Note, State, Stretch
from onlooker.policy.history import as_of
from onlooker.policy.render import Context
from onlooker.ports import Store

# Messages on a page, and points of a chart.
PAGE = 40
POINTS = 400
MAX_MARKS = 150

# ------------------------------------------------------------------------------------ the conversation

# raw: in the prompt word for word. noted: a note stands for it. archived: compacted or cleared.
Place = Literal["raw", "noted", "archived", "taken back"]


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message, and what became of it. `note` is the live note that covers it, if one does."""

    message: Message
    place: Place
    note: Note | None
    recalled: bool
    pinned: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a conversation, and the seqs at which the pages before and after it end."""

    messages: Sequence[ShownMessage]
    older: int | None
    newer: int | None


async def page_of(store: Store, state: State, context: Context, to: int | None = None) -> Page:
    """The messages up to a seq, by default the newest, with those that the host took back among them."""
    session, last = state.progress.session, state.progress.last_seq
    to = last if to is None else max(1, min(to, last))
    after = max(0, to - PAGE)
    # A summary before the first message has a seq below 1.
    found = await store.messages(session, after=after if after else -1, up_to=to, archived=True)
    live = {m.seq for m in await store.messages(session, after=after if after else -1, up_to=to)}
    gone = [d.seq for d in await store.retired(session) if after < d.seq <= to]
    retired = await store.around(session, gone, 0, retired=True) if gone else ()
    taken = {m.seq for m in retired} - {m.seq for m in found}

    def place(message: Message) -> Place:
        if message.seq in taken:
            return "taken back"
        if message.seq not in live:
            return "archived"
        return "raw" if message.seq >= state.progress.tail_start else "noted"

    everything = sorted([*found, *(m for m in retired if m.seq in taken)], key=lambda m: m.seq)
    shown = [
        ShownMessage(m, place(m), covering(state.notes, m.seq), _is_in(m, context), m.id in state.pins)
        for m in everything
    ]
    return Page(shown, after if after else None, min(to + PAGE, last) if to < last else None)


def covering(notes: Iterable[Note], seq: int) -> Note | None:
    """The note that covers a message, an active one first."""
    found = [n for n in notes if n.first <= seq <= n.last]
    return min(found, key=lambda n: n.status != "active", default=None)


def _is_in(message: Message, context: Context) -> bool:
    """Whether the message is among those that recall quotes, which it does line by line, or in part."""
    line = " ".join(message.text.split())
    return len(line) >= 12 and (line in context.end or line[:60] in context.end)


# ------------------------------------------------------------------------------------ over time


@dataclass(frozen=True, slots=True)
class Point:
    """Sizes after a message: of everything said so far, and of the notes and raw messages in its place."""

    seq: int
    at: datetime | None
    raw: int
    context: int
    replies: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Notes that took the place of messages or of other notes. `kept` is how much of the prompt before them
    stays as it was."""

    seq: int
    kind: Literal["observation", "reflection"]
    notes: Sequence[Note]
    replaced: int
    kept: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Timeline:
    points: Sequence[Point]
    marks: Sequence[Mark]


async def timeline(store: Store, state: State) -> Timeline:
    """A session's sizes over time. Between two points of a long session they are interpolated."""
    session = state.progress.session
    length = max(1, math.ceil(state.progress.last_seq / POINTS))
    stretches = await store.stretches(session, length=length)
    notes: dict[str, Note] = {}
    changes: list[Change] = []
    for row in await rows_of(store, session, "note", "change"):
        if isinstance(row, NoteRow):
            notes[row.note.id] = row.note
        elif isinstance(row, ChangeRow):
            changes.append(row.change)
    return _Walk(stretches, notes, changes).run()


async def rows_of(store: Store, session: SessionId, *kinds: RowKind) -> list[Row]:
    return [row async for row in store.dump(Scope(session=session, kinds=frozenset(kinds)))]


@dataclass(slots=True)
class _Walk:
    """Goes through a session from its first message to its last."""

    stretches: Sequence[Stretch]
    notes: dict[str, Note]
    changes: Sequence[Change]
    active: dict[str, Note] = field(default_factory=dict[str, Note])
    marks: list[Mark] = field(default_factory=list[Mark])

    def run(self) -> Timeline:
        ends, sums = [0], [0]
        for stretch in self.stretches:
            ends.append(stretch.last)
            sums.append(sums[-1] + stretch.tokens)
        points: list[Point] = []
        tail_start = done = 0
        for number, stretch in enumerate(self.stretches, 1):
            while done < len(self.changes) and self.changes[done].last_seq <= stretch.last:
                tail_start = self.changes[done].tail_start
                self._apply(self.changes[done])
                done += 1
            tail = sums[number] - _between(ends, sums, tail_start - 1)
            held = sum(n.tokens for n in self.active.values()) + max(0, tail)
            points.append(Point(stretch.last, stretch.at, sums[number], held, stretch.replies))
        return Timeline(points, self.marks)

    def _apply(self, change: Change) -> None:
        before = dict(self.active)
        for ident, status in change.statuses:
            if status == "active" and ident in self.notes:
                self.active[ident] = self.notes[ident]
            else:
                self.active.pop(ident, None)
        new = [n for ident, n in self.active.items() if ident not in before]
        if not new:
            return
        reflected = any(n.generation for n in new)
        gone = [n for ident, n in before.items() if ident not in self.active]
        stays = [n.tokens for ident, n in before.items() if ident in self.active and n.first < new[0].first]
        self.marks.append(
            Mark(
                change.last_seq,
                "reflection" if reflected else "observation",
                new,
                sum(n.tokens for n in gone),
                sum(stays),
                change.at,
            )
        )


def _between(ends: Sequence[int], sums: Sequence[int], seq: int) -> int:
    """The tokens of all messages up to a seq."""
    if seq <= 0:
        return 0
    place = bisect.bisect_left(ends, seq)
    if place >= len(ends):
        return sums[-1]
    before, after = ends[place - 1], ends[place]
    return sums[place - 1] + (sums[place] - sums[place - 1]) * (seq - before) // max(1, after - before)


async def notes_then(store: Store, session: SessionId, seq: int) -> Sequence[Note]:
    """The notes of a session when that message was the newest, with the texts they had."""
    rows = await rows_of(store, session, "session", "note", "version", "change")
    then = as_of((r for r in rows if isinstance(r, SessionRow | NoteRow | VersionRow | ChangeRow)), seq)
    return then.state.notes if then else ()


# ------------------------------------------------------------------------------------ what it saved

# What a provider bills for a token that it has in its cache, where any other is 1.
CACHED = 0.1


@dataclass(frozen=True, slots=True)
class Bill:
    """Input tokens of all calls of an agent, and the same where cached ones count a tenth."""

    plain: float = 0.0
    cached: float = 0.0

    def __add__(self, other: Bill) -> Bill:
        return Bill(self.plain + other.plain, self.cached + other.cached)


@dataclass(frozen=True, slots=True)
class Bills:
    """What a session's prompts came to with memory, with the full history, and with a sliding window."""

    memory: Bill = field(default_factory=Bill)
    full: Bill = field(default_factory=Bill)
    window: Bill = field(default_factory=Bill)

    def __add__(self, other: Bills) -> Bills:
        return Bills(self.memory + other.memory, self.full + other.full, self.window + other.window)


def bills(line: Timeline, budget: int) -> Bills:
    """Estimate them from the sizes over time: one call for each answer. The window is as large as the budget,
    and once it is full nothing of it is cached, since its beginning changes with every message."""
    total = Bills()
    raw, done = 0, 0
    for point in line.points:
        calls, new = point.replies, point.raw - raw
        raw = point.raw
        rewritten = 0
        while done < len(line.marks) and line.marks[done].seq <= point.seq:
            mark = line.marks[done]
            rewritten += max(0, point.context - mark.kept)
            done += 1
        if not calls:
            continue
        slid = budget and point.raw > budget
        total += Bills(
            _bill(calls * point.context, new + rewritten),
            _bill(calls * point.raw, new),
            Bill(calls * budget, calls * budget) if slid else _bill(calls * point.raw, new),
        )
    return total


def _bill(sent: int, new: int) -> Bill:
    fresh = min(sent, new)
    return Bill(sent, fresh + CACHED * (sent - fresh))
