"""What to do next with a session, as data. Every threshold comparison lives in this file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, State
from onlooker.policy.cut import groups, newest_within, oldest_chunk, tokens_of
from onlooker.policy.settings import SECTION_TOKENS, Limits


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is due."""


@dataclass(frozen=True, slots=True)
class Observe:
    """Write an observation of these messages. Buffered: ahead of time, shown when it is needed."""

    messages: tuple[Message, ...]
    buffered: bool
    tail_start: int
    ratio: float  # what the note should be of its source


@dataclass(frozen=True, slots=True)
class Activate:
    """Show these buffered notes in place of their messages. No model call. Without notes: only show
    fewer of the messages that are noted already."""

    notes: tuple[Note, ...]
    watermark: int
    tail_start: int


@dataclass(frozen=True, slots=True)
class Reflect:
    """Condense these notes into one of the given generation."""

    notes: tuple[Note, ...]
    generation: int
    target_tokens: int


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Have the model write again what the built-in model noted in its place."""

    note: Note


# Reflections may take this share of the memory before they are condensed themselves.
MOST_REFLECTED = 0.6

Step = Idle | Observe | Activate | Reflect | Rewrite


def plan(state: State, limits: Limits) -> Step:
    """The next thing to do. Doing it and planning again, until idle, settles the session."""
    if not limits.settings.enabled:
        return Idle()
    return (
        _activate(state, limits)
        or _observe(state, limits)
        or _reflect_most(state, limits)
        or _consolidate(state, limits)
        or _reflect(state, limits)
        or _observe_ahead(state, limits)
        or _rewrite(state)
        or Idle()
    )


def due_tokens(limits: Limits) -> int:
    """How many un-noted tokens make a session due that has no buffered notes."""
    return limits.precompute_at if limits.settings.precompute else limits.observe_at


def wake_at(state: State, limits: Limits) -> int:
    """How many un-noted tokens make this session due next, now that it is settled.

    Buffered notes become due for showing when they and what follows fill `observe_at`, which may be
    before there is enough to note.
    """
    if not state.buffered:
        return due_tokens(limits)
    waiting = tokens_of(state.unshown) - tokens_of(state.unnoted)
    return max(1, min(due_tokens(limits), limits.observe_at - waiting))


# ------------------------------------------------------------------------------------ observing


def _activate(state: State, limits: Limits) -> Activate | None:
    if not _raw_is_full(state, limits):
        return None
    left = tokens_of(state.unshown)
    chosen: list[Note] = []
    for note in state.buffered:
        left -= tokens_of([m for m in state.unshown if note.first <= m.seq <= note.last])
        if left < limits.keep_recent:
            break
        chosen.append(note)
    return _activation(state, chosen, limits) if chosen else None


def _raw_is_full(state: State, limits: Limits) -> bool:
    return tokens_of(state.unshown) >= limits.observe_at


def _observe(state: State, limits: Limits) -> Observe | None:
    # A buffered note that keep_recent holds back is shown once more has been said.
    if not _raw_is_full(state, limits) or state.buffered:
        return None
    return _observation(state, limits, buffered=False)


def _observe_ahead(state: State, limits: Limits) -> Observe | None:
    if not limits.settings.precompute or tokens_of(state.unnoted) < limits.precompute_at:
        return None
    return _observation(state, limits, buffered=True)


def _observation(state: State, limits: Limits, *, buffered: bool) -> Observe | None:
    chunk = oldest_chunk(
        state.unnoted,
        keep=limits.keep_recent,
        most_tokens=limits.chunk_tokens,
        most_messages=limits.settings.chunk_messages,
    )
    if not chunk:
        return None
    return _noting(state, chunk, limits, buffered=buffered)


def _noting(state: State, chunk: Sequence[Message], limits: Limits, *, buffered: bool) -> Observe:
    start = tail_start(state, chunk[-1].seq, limits)
    return Observe(tuple(chunk), buffered, start, _note_ratio(state, limits))


def _note_ratio(state: State, limits: Limits) -> float:
    """From `first_ratio` while memory is empty down to `note_ratio` once it is full."""
    full = min(1.0, sum(n.tokens for n in state.notes) / limits.reflect_at)
    last = limits.settings.note_ratio
    first = limits.settings.first_ratio or last
    return first - (first - last) * full


def _activation(state: State, notes: Sequence[Note], limits: Limits) -> Activate:
    watermark = notes[-1].last
    return Activate(tuple(notes), watermark, tail_start(state, watermark, limits))


def tail_start(state: State, watermark: int, limits: Limits) -> int:
    """The first message that stands raw once notes cover everything up to the watermark.

    It moves when notes are shown, and only then, so that between two such moments the messages in
    the prompt only grow. The newest group stays raw, noted or not.
    """
    newest = list(groups(state.messages))[-1][0].seq
    behind = tokens_of([m for m in state.messages if m.seq > watermark])
    noted = [m for m in state.messages if m.seq <= watermark]
    overlap = newest_within(noted, max(0, limits.overlap - behind))
    return min(overlap[0].seq if overlap else watermark + 1, newest)


# ------------------------------------------------------------------------------------ making room


def make_room(state: State, limits: Limits, room: int) -> Activate | Observe | None:
    """What to show or note on the spot so that nothing is cut off unseen; None: nothing can be.

    Buffered notes come first, since they are written already.
    """
    excess = tokens_of(state.unshown) - room
    ready: list[Note] = []
    for note in state.buffered:
        if excess <= 0:
            break
        excess -= tokens_of([m for m in state.unshown if note.first <= m.seq <= note.last])
        ready.append(note)
    if ready:
        return _activation(state, ready, limits)
    return _observe_excess(state, limits, room) if excess > 0 else _drop_overlap(state, room)


def _drop_overlap(state: State, room: int) -> Activate | None:
    """Let noted messages go that still stand raw and no longer fit, with room to grow after."""
    progress = state.progress
    noted = [m for m in state.messages if progress.tail_start <= m.seq <= progress.watermark]
    if not noted or tokens_of(noted) + tokens_of(state.unshown) <= room:
        return None
    kept = newest_within(noted, max(0, room * 3 // 4 - tokens_of(state.unshown)))
    newest = list(groups(state.messages))[-1][0].seq
    start = min(kept[0].seq if kept else progress.watermark + 1, newest)
    return Activate((), progress.watermark, start) if start > progress.tail_start else None


def _observe_excess(state: State, limits: Limits, room: int) -> Observe | None:
    """An observation of the oldest messages, as large as the planner's own would be, until no more is
    left than it would keep raw; the newest group is never taken."""
    left = tokens_of(state.unnoted)
    most = limits.chunk_tokens or limits.message_limit
    chunk: list[Message] = []
    for group in list(groups(state.unnoted))[:-1]:
        enough = left <= min(room, max(limits.keep_recent, room // 2))
        if enough or (chunk and tokens_of(chunk) + tokens_of(group) > most):
            break
        chunk.extend(group)
        left -= tokens_of(group)
    return _noting(state, chunk, limits, buffered=False) if chunk else None


def must_wait(state: State, limits: Limits) -> bool:
    """Whether the model is so far behind that the turn should wait for it (`block_after`)."""
    return bool(limits.block_after) and tokens_of(state.unshown) >= limits.block_after


# ------------------------------------------------------------------------------------ condensing


def _memory_tokens(state: State, limits: Limits) -> int:
    counted = state.observations if limits.settings.reflect_counts == "observations" else state.active
    return sum(n.tokens for n in counted)


def _reflect_most(state: State, limits: Limits) -> Reflect | None:
    """Condense the oldest notes of either kind together, where a large share is to be taken at once."""
    if not limits.settings.reflect_share or _memory_tokens(state, limits) < limits.reflect_at:
        return None
    run = next((run for run in _runs(state, either_kind=True)), ())
    most = limits.settings.reflect_share * sum(n.tokens for n in state.active)
    chosen: list[Note] = []
    tokens = 0
    for note in run:
        if len(chosen) >= 2 and tokens >= most:
            break
        chosen.append(note)
        tokens += note.tokens
    # One alone might never get shorter; of two there is one less each time.
    if len(chosen) < 2:
        return None
    target = max(1, tokens - _excess(state, limits), tokens // 2)
    return Reflect(tuple(chosen), 1 + max(n.generation for n in chosen), target)


def _consolidate(state: State, limits: Limits) -> Reflect | None:
    loose = [n for n in state.reflections if n.id not in state.pins]
    many = len(loose) >= limits.settings.consolidate_at
    notes = next((run for run in _runs(state) if run[0].generation and len(run) >= 2), ())
    if not notes or not (many or _reflections_crowd(state, limits)):
        return None
    total = sum(n.tokens for n in notes)
    gentle = limits.settings.reflect_to and not _overflow(state, limits)
    target = total - _excess(state, limits) if gentle else total // 2
    return Reflect(notes, 1 + max(n.generation for n in notes), max(1, target, total // 2))


def _reflections_crowd(state: State, limits: Limits) -> bool:
    """Whether what is old takes so much room that what is newer would have to give way to it."""
    if _overflow(state, limits):
        return True
    if _memory_tokens(state, limits) < limits.reflect_at:
        return False
    share = sum(n.tokens for n in state.reflections) / max(1, sum(n.tokens for n in state.active))
    return share > MOST_REFLECTED or not _condensable(state)


def _overflow(state: State, limits: Limits) -> int:
    """By how much the prompt cannot hold all notes, where reflections count towards no threshold."""
    if limits.settings.reflect_counts == "memory":
        return 0
    return max(0, sum(n.tokens for n in state.active) + SECTION_TOKENS - limits.memory_limit)


def _reflect(state: State, limits: Limits) -> Reflect | None:
    notes = _condensable(state)
    full = _memory_tokens(state, limits) >= limits.reflect_at or _overflow(state, limits)
    if not full or not notes:
        return None
    if not limits.settings.reflect_to:
        tokens = sum(n.tokens for n in notes)
        return Reflect(notes, 1, max(1, round(tokens * limits.settings.note_ratio)))
    # Condensing to a half is gentle: take twice what must go, oldest first.
    excess = _excess(state, limits)
    chosen: list[Note] = []
    tokens = 0
    for note in notes:
        if tokens >= 2 * excess:
            break
        chosen.append(note)
        tokens += note.tokens
    return Reflect(tuple(chosen), 1, max(1, tokens - excess, tokens // 2))


def _excess(state: State, limits: Limits) -> int:
    """What must go for memory to come down to `reflect_to`, and to fit the prompt."""
    goal = round(limits.reflect_at * limits.settings.reflect_to)
    return max(0, _memory_tokens(state, limits) - goal, _overflow(state, limits))


def _condensable(state: State) -> tuple[Note, ...]:
    """The oldest observations that may become one note."""
    return next((run for run in _runs(state) if not run[0].generation), ())


def _runs(state: State, *, either_kind: bool = False) -> Iterator[tuple[Note, ...]]:
    """Notes of one kind with nothing else between them, oldest first, none of them pinned.

    Only such may become one note: it stands for all messages from its first to its last, and no
    message is covered twice.
    """
    for (pinned, _), run in groupby(state.active, key=lambda n: (n.id in state.pins, either_kind or n.kind)):
        if not pinned:
            yield tuple(run)


def _rewrite(state: State) -> Rewrite | None:
    # What a person pinned stays as they saw it.
    return next((Rewrite(n) for n in state.active if n.degraded and n.id not in state.pins), None)
