"""The figures of a session: its messages and where each is now, its sizes over time, and what its contexts
saved."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from itertools import pairwise
from typing import Literal

from onlooker.domain.frozen import frozen
from onlooker.domain.history import Change
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import NOTE_STATUSES, Note, State, UsageDay
from onlooker.policy.cost import Prices
from onlooker.policy.render import Context
from onlooker.ports import Store

# Messages on a page, points of a chart, changes that they are computed from, and marks in the chart.
PAGE = 40
POINTS = 300
CHANGES = 400
MAX_MARKS = 150

# ------------------------------------------------------------------------------------ the conversation

# raw: in the prompt word for word. noted: covered by a note. archived: compacted or cleared.
Place = Literal["raw", "noted", "archived", "taken back"]


@frozen
class ShownMessage:
    """A message and its place. `note` is the live note that covers it, if any."""

    message: Message
    place: Place
    note: Note | None
    recalled: bool
    pinned: bool


@frozen
class Page:
    """Part of a conversation, and the seqs at which the pages before and after it end."""

    messages: Sequence[ShownMessage]
    older: int | None
    newer: int | None


async def page_of(store: Store, state: State, context: Context, to: int | None = None) -> Page:
    """The messages up to a seq, by default the newest, including those that the host took back."""
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
    """Whether recall quotes the message, line by line or in part."""
    line = " ".join(message.text.split())
    return len(line) >= 12 and (line in context.end or line[:60] in context.end)


# ------------------------------------------------------------------------------------ over time


@frozen
class Point:
    """Sizes after a message: of everything said so far, and of the notes and raw messages in its place."""

    seq: int
    at: datetime | None
    raw: int
    context: int


@frozen
class Mark:
    """Notes that replaced messages, or notes of `replaced` tokens."""

    seq: int
    kind: Literal["observation", "reflection"]
    notes: Sequence[Note]
    replaced: int


@frozen
class Span:
    """The time from one change of the notes to a later one, `changes` in all. The messages grew from `start`
    to `end` tokens, and the context from `after` to `before`; then a change made it `left` tokens, of which
    the first `kept` were unchanged."""

    seconds: float | None
    changes: int
    replies: int
    start: int
    end: int
    after: int
    before: int
    kept: int
    left: int


@frozen
class Timeline:
    """A session's sizes over time. They are known where notes changed, and interpolated in between."""

    points: Sequence[Point]
    marks: Sequence[Mark]
    spans: Sequence[Span]


NOTHING = Timeline((), (), ())


async def timeline(store: Store, session: SessionId, *, marks: bool = True) -> Timeline:
    """Compute a session's sizes over time from its history, without reading messages."""
    changes = await store.changes(session, most=CHANGES)
    if not changes or not changes[-1].last_seq:
        return NOTHING
    (summary,) = await store.sessions(owner=session.owner, key=session.key)
    walk = _Walk(changes, summary.started_at)
    notes = await _activated(store, session, changes) if marks else dict[str, Note]()
    return Timeline(_filled(walk.points()), walk.marks(notes), walk.spans())


async def _activated(store: Store, session: SessionId, changes: Sequence[Change]) -> Mapping[str, Note]:
    """The notes that some of the changes made active, of those whose predecessor is known."""
    known = [change for before, change in pairwise(changes) if change.number == before.number + 1]
    some = [*changes[:1], *known[:: max(1, len(known) // MAX_MARKS)]]
    ids = [ident for change in some for ident, status in change.statuses if status == "active"]
    return {n.id: n for n in await store.notes(session, statuses=NOTE_STATUSES, ids=ids)}


class _Walk:
    """Walks through a session's history. The last change is the present state."""

    def __init__(self, changes: Sequence[Change], started_at: datetime | None) -> None:
        beginning = Change(0, changes[0].at, 0, 0, 0, 1, said_at=started_at)
        self._pairs = list(pairwise([beginning, *changes]))
        self._now = changes[-1]
        self._seqs = [0, *(c.last_seq for c in changes)]
        self._tokens = [0, *(c.tokens for c in changes)]

    def points(self) -> list[Point]:
        points = [Point(0, None, 0, 0)]
        for before, change in self._pairs:
            # The moment before the change, one message earlier, so that the chart shows both.
            if change is not self._now and points[-1].seq < change.last_seq - 1:
                grown = self._before(before, change)
                points.append(Point(change.last_seq - 1, change.said_at, change.tokens, grown))
            point = Point(change.last_seq, change.said_at, change.tokens, self._after(change))
            # Of several changes after one message, the last one counts.
            points[-1:] = [point] if points[-1].seq == point.seq else [points[-1], point]
        return points[1:] if len(points) > 2 and points[1].seq == 1 else points

    def marks(self, notes: Mapping[str, Note]) -> list[Mark]:
        found: list[Mark] = []
        for before, change in self._pairs:
            new = [notes[i] for i, status in change.statuses if status == "active" and i in notes]
            if new and change.number == before.number + 1:
                kind = "reflection" if any(n.generation for n in new) else "observation"
                gone = before.held - change.held + sum(n.tokens for n in new)
                found.append(Mark(change.last_seq, kind, new, max(0, gone)))
        return found

    def spans(self) -> list[Span]:
        spans: list[Span] = []
        for before, change in self._pairs:
            grown = self._before(before, change)
            spans.append(
                Span(
                    _seconds(change.said_at, before.said_at),
                    change.number - before.number - (change is self._now),
                    max(0, change.replies - before.replies),
                    before.tokens,
                    max(before.tokens, change.tokens),
                    self._after(before),
                    grown,
                    # The earlier part stays unless notes were condensed.
                    min(before.held, change.held),
                    grown if change is self._now else self._after(change),
                )
            )
        return spans

    def _after(self, change: Change) -> int:
        """The tokens after a change: notes, and the raw messages after them."""
        return change.held + max(0, change.tokens - self._said_until(change.tail_start - 1))

    def _before(self, before: Change, change: Change) -> int:
        """The tokens just before the next change; after several changes, as far as known."""
        if change.number > before.number + 1:
            return self._after(change)
        return before.held + max(0, change.tokens - self._said_until(before.tail_start - 1))

    def _said_until(self, seq: int) -> int:
        """The tokens of all messages up to a seq."""
        place = bisect.bisect_left(self._seqs, seq)
        if seq <= 0 or place >= len(self._seqs):
            return 0 if seq <= 0 else self._tokens[-1]
        low, high = self._seqs[place - 1], self._seqs[place]
        before, after = self._tokens[place - 1], self._tokens[place]
        return before + (after - before) * (seq - low) // max(1, high - low)


def _seconds(later: datetime | None, earlier: datetime | None) -> float | None:
    """The time between two messages, if both have a time of the same kind."""
    if later is None or earlier is None or (later.tzinfo is None) != (earlier.tzinfo is None):
        return None
    return max(0.0, (later - earlier).total_seconds())


def _filled(points: Sequence[Point]) -> list[Point]:
    """Add points in between, so that every part of a chart can be pointed at."""
    step = max(1, points[-1].seq // POINTS)
    filled = list(points[:1])
    for low, high in pairwise(points):
        for seq in range(low.seq + step, high.seq, step):
            share = (seq - low.seq) / (high.seq - low.seq)
            raw = low.raw + round((high.raw - low.raw) * share)
            filled.append(Point(seq, None, raw, low.context + round((high.context - low.context) * share)))
        filled.append(high)
    return filled


# ------------------------------------------------------------------------------------ what it saved


@frozen
class Billed:
    """What a provider bills for all calls of an agent, in uncached tokens: without a cache, and with its
    cache."""

    plain: float = 0.0
    cached: float = 0.0

    def __add__(self, other: Billed) -> Billed:
        return Billed(self.plain + other.plain, self.cached + other.cached)


@frozen
class Bills:
    """What a session's prompts cost with memory, with the full history, and with a sliding window; and what
    the notes cost, which is part of the first."""

    memory: Billed = field(default_factory=Billed)
    full: Billed = field(default_factory=Billed)
    window: Billed = field(default_factory=Billed)
    notes: float = 0.0

    def __add__(self, other: Bills) -> Bills:
        return Bills(
            self.memory + other.memory,
            self.full + other.full,
            self.window + other.window,
            self.notes + other.notes,
        )


def bills(line: Timeline, used: Iterable[UsageDay], budget: int, prices: Prices) -> Bills:
    """Estimate the bills from the sizes over time, with one call for each answer. The window is as large as
    the budget. When it is full, nothing of it is cached, because its beginning changes with every message."""
    notes = float(sum(day.input_tokens + prices.output * day.output_tokens for day in used))
    total = Bills(Billed(notes, notes), notes=notes)
    for span in line.spans:
        rate = _Rate(prices, _share_cold((span.seconds or 0.0) / max(1, span.replies), 60 * prices.minutes))
        said = span.end - span.start
        # A context never exceeds its budget, even if notes came late.
        size = min((span.after + span.before) / 2, budget)
        rewritten = span.changes * max(0, min(span.left, budget) - span.kept)
        # Until the window is full it is the history.
        share = 1.0 if span.end <= budget else max(0.0, (budget - span.start) / said) if said else 0.0
        slid = (1 - share) * span.replies * budget
        total += Bills(
            rate.bill(span.replies, size, said + rewritten),
            rate.bill(span.replies, (span.start + span.end) / 2, said),
            rate.bill(share * span.replies, (span.start + min(span.end, budget)) / 2, share * said)
            + Billed(slid, prices.write * slid),
        )
    return total


def _share_cold(pause: float, kept: float) -> float:
    """The share of calls that come after a pause longer than `kept`, if calls come at random and the pause is
    `pause` on average. Only the total time is known."""
    return math.exp(-kept / pause) if pause > 0 else 0.0


@frozen
class _Rate:
    """What a provider bills, if its cache is cold for this share of the calls."""

    prices: Prices
    cold: float

    def bill(self, calls: float, size: float, new: float) -> Billed:
        """Bill this many prompts of a size, with `new` tokens in total that are not in an earlier prefix."""
        sent = calls * size
        if size < self.prices.smallest:
            return Billed(sent, sent)
        written = self.cold * sent + (1 - self.cold) * min(sent, new)
        return Billed(sent, self.prices.write * written + self.prices.read * (sent - written))
