"""Decide what to do next with a session, as data. Every threshold comparison is in this file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message, groups, is_open, newest_group, tokens_of
from onlooker.domain.notes import Note, Progress, State
from onlooker.policy.settings import SECTION_TOKENS, Limits, Settings, Timing, limits_for


@frozen
class Idle:
    """Nothing is due."""


@frozen
class Observe:
    """Write an observation of these messages. A buffered one is written ahead of time and shown later."""

    messages: tuple[Message, ...]
    buffered: bool
    tail_start: int
    ratio: float  # the note's length as a share of its source's

    @property
    def tokens(self) -> int:
        return tokens_of(self.messages)


@frozen
class Activate:
    """Show these buffered notes in place of their messages, without a model call.

    Without notes, only show fewer of the messages that are noted already.
    """

    notes: tuple[Note, ...]
    watermark: int
    tail_start: int

    @property
    def tokens(self) -> int:
        return sum(n.tokens for n in self.notes)


@frozen
class Reflect:
    """Condense these notes into one note of the given generation, and show others with it if there are any
    to show: that is one change of the prompt's prefix instead of two."""

    notes: tuple[Note, ...]
    generation: int
    target_tokens: int
    shows: Activate | None = None

    @property
    def tokens(self) -> int:
        return sum(n.tokens for n in self.notes)


@frozen
class Rewrite:
    """Let the model rewrite a note that the built-in model wrote in its place."""

    note: Note


# Reflections are condensed themselves above this share of the memory.
MAX_REFLECTED = 0.6
# If this share of a chunk is not noted yet, it is noted before other notes are shown: the less stays raw, the
# later the prefix breaks again.
LAST_CHUNK = 0.25

Step = Idle | Observe | Activate | Reflect | Rewrite


def plan(state: State, limits: Limits, *, leave: Collection[str] = ()) -> Step:
    """Return the next step. Repeating step and plan until idle settles the session.

    `leave` are the ids of notes that are not rewritten now.
    """
    if not limits.settings.enabled:
        return Idle()
    return (
        _activate(state, limits)
        or _observe(state, limits)
        or condense(state, limits)
        or _observe_ahead(state, limits)
        or _rewrite(state, leave)
        or Idle()
    )


# ------------------------------------------------------------------------------------ when

# More tokens than any session has: where no notes are taken, nothing becomes due.
_NEVER = 1 << 62


def due_tokens(settings: Settings, budget: int) -> int:
    """Return the number of un-noted tokens at which a session without buffered notes is due."""
    if not settings.enabled:
        return _NEVER
    return _due_tokens(limits_for(settings, budget))


def _due_tokens(limits: Limits) -> int:
    return limits.precompute_at if limits.settings.precompute else limits.observe_at


def is_due(unnoted_tokens: int, due_tokens: int, wake_at: int) -> bool:
    """Return whether so much has been said since the last note that the session is due."""
    return unnoted_tokens >= min(due_tokens, wake_at)


def after_append(
    progress: Progress, fresh: Sequence[Message], history_hash: bytes, due_tokens: int, now: datetime
) -> Progress:
    """The progress after an append of these messages."""
    p = progress
    last_seq, unnoted = p.last_seq + len(fresh), p.unnoted_tokens + sum(m.tokens for m in fresh)
    due = now if p.due_at is None and is_due(unnoted, due_tokens, p.wake_at) else p.due_at
    # Positional arguments are faster than `replace`, and this runs for every append.
    # fmt: off
    return Progress(
        p.session, last_seq, p.frontier, p.watermark, p.tail_start, unnoted, p.revision, p.prompt_version,
        p.budget, history_hash, due, p.wake_at, p.failures, p.ended,
    )
    # fmt: on


# A session is postponed, or leased to a worker, for minutes. A time further ahead comes from a clock that was
# wrong, and is taken for one that has passed. The stores' queries do the same.
FAR_AHEAD = timedelta(hours=1)


def is_due_now(progress: Progress, now: datetime) -> bool:
    """Return whether a session is due, and not postponed because a model failed."""
    return progress.due_at is not None and not is_postponed(progress, now)


def is_postponed(progress: Progress, now: datetime) -> bool:
    """Return whether a session waits for a model to recover."""
    return progress.due_at is not None and now < progress.due_at <= now + FAR_AHEAD


def retry_after(failures: int, timing: Timing) -> float:
    """Return the seconds until the next try after so many failures in a row: twice as long each time."""
    longest = min(timing.retry_limit_seconds, FAR_AHEAD.total_seconds())
    return min(longest, timing.retry_seconds * 2.0 ** min(failures - 1, 30))


def wake_at(state: State, limits: Limits) -> int:
    """Return the number of un-noted tokens at which this settled session is due next.

    Buffered notes are shown when their messages and what follows reach `observe_at`, which may be before
    there is enough for another note.
    """
    if not state.buffered:
        return _due_tokens(limits)
    waiting = tokens_of(state.unshown) - tokens_of(state.unnoted)
    return max(1, min(_due_tokens(limits), _raw_limit(state, limits) - waiting))


# ------------------------------------------------------------------------------------ observing


def _activate(state: State, limits: Limits) -> Activate | Observe | Reflect | None:
    if not _raw_is_full(state, limits) or not state.buffered:
        return None
    if _raw_limit(state, limits) > limits.observe_at and (rest := _observe_rest(state, limits)):
        return rest
    left = tokens_of(state.unshown)
    chosen: list[Note] = []
    for note in state.buffered:
        left -= tokens_of([m for m in state.unshown if note.first <= m.seq <= note.last])
        if left < limits.keep_recent:
            break
        chosen.append(note)
    return _condensing(state, _activation(state, chosen, limits), limits) if chosen else None


def _observe_rest(state: State, limits: Limits) -> Observe | None:
    """Note what is raw after the buffered notes, so that it is shown with them, unless it is short."""
    rest = _observation(state, limits, buffered=True)
    return rest if rest and rest.tokens >= LAST_CHUNK * limits.chunk_tokens else None


def _condensing(state: State, step: Activate, limits: Limits) -> Activate | Reflect:
    """Return the step together with what must be condensed because of it."""
    shown = {n.id for n in step.notes}
    notes = tuple(replace(n, status="active") if n.id in shown else n for n in state.notes)
    reflect = condense(replace(state, notes=notes), limits)
    return replace(reflect, shows=step) if reflect else step


def _raw_is_full(state: State, limits: Limits) -> bool:
    return tokens_of(state.unshown) >= _raw_limit(state, limits)


def _raw_limit(state: State, limits: Limits) -> int:
    """Return how much may stay raw: `observe_at`, and more while notes leave room. The longer the messages
    only grow, the less often the prefix breaks."""
    return max(limits.observe_at, limits.fill_to - sum(n.tokens for n in state.active))


def _observe(state: State, limits: Limits) -> Observe | None:
    # A buffered note that keep_recent holds back is shown after more messages.
    if not _raw_is_full(state, limits) or state.buffered:
        return None
    # The next step shows it, together with what must be condensed because of it.
    return _observation(state, limits, buffered=limits.settings.precompute)


def _observe_ahead(state: State, limits: Limits) -> Observe | None:
    if not limits.settings.precompute or tokens_of(state.unnoted) < limits.precompute_at:
        return None
    return _observation(state, limits, buffered=True)


def _observation(state: State, limits: Limits, *, buffered: bool) -> Observe | None:
    chunk = oldest_chunk(
        state.unnoted,
        keep=limits.keep_recent,
        max_tokens=limits.chunk_tokens,
        max_messages=limits.settings.chunk_messages,
    )
    if not chunk:
        return None
    return _noting(state, chunk, limits, buffered=buffered)


def _noting(state: State, chunk: Sequence[Message], limits: Limits, *, buffered: bool) -> Observe:
    start = tail_start(state, chunk[-1].seq, limits)
    return Observe(tuple(chunk), buffered, start, _note_ratio(state, limits))


def _note_ratio(state: State, limits: Limits) -> float:
    """Return a ratio between `first_ratio`, while memory is empty, and `note_ratio`, when it is full.

    It is `note_ratio` once notes were condensed: longer ones would have to be condensed again soon."""
    if state.reflections:
        return limits.note_ratio
    full = min(1.0, sum(n.tokens for n in state.notes) / limits.reflect_at)
    return limits.first_ratio - (limits.first_ratio - limits.note_ratio) * full


def _activation(state: State, notes: Sequence[Note], limits: Limits) -> Activate:
    watermark = notes[-1].last
    return Activate(tuple(notes), watermark, tail_start(state, watermark, limits))


def tail_start(state: State, watermark: int, limits: Limits) -> int:
    """Return the first message shown raw once notes cover everything up to the watermark.

    It moves only when notes are activated, so that between two activations the messages in the prompt only
    grow. The newest group stays raw, noted or not.
    """
    newest = newest_group(state.messages)[0].seq
    behind = tokens_of([m for m in state.messages if m.seq > watermark])
    noted = [m for m in state.messages if m.seq <= watermark]
    overlap = newest_within(noted, max(0, limits.overlap - behind))
    return min(overlap[0].seq if overlap else watermark + 1, newest)


# ------------------------------------------------------------------------------------ making room

# How many tokens of messages and notes a turn notes itself in any case, about 0.05 s of work, and the least
# that one step counts, for storing the note. After that, `Timing.on_the_spot` says how long it may go on.
ON_THE_SPOT_TOKENS = 2_000
MIN_STEP_TOKENS = 100
# A history of this size that a host hands over at once is more than several turns could note.
LONG_HISTORY_MESSAGES = 100
LONG_HISTORY_TOKENS = 4 * ON_THE_SPOT_TOKENS
# For how many seconds turns leave the notes of such a history to the background.
HEAD_START = 5.0


def is_long_history(messages: Sequence[Message]) -> bool:
    """Return whether messages that are recorded at once are a long history that a host hands over."""
    return len(messages) >= LONG_HISTORY_MESSAGES and tokens_of(messages) > LONG_HISTORY_TOKENS


def make_room(state: State, limits: Limits, room: int) -> Activate | Observe | None:
    """Return what to activate or note on the spot so that no message is left out unnoted; None if nothing
    can be done. Buffered notes come first, since they are written already."""
    if state.missing:
        return None  # a long backlog is left to the background, which reads it from its beginning
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
    """Stop showing noted messages that no longer fit raw, and leave room to grow."""
    progress = state.progress
    noted = [m for m in state.messages if progress.tail_start <= m.seq <= progress.watermark]
    if not noted or tokens_of(noted) + tokens_of(state.unshown) <= room:
        return None
    kept = newest_within(noted, max(0, room * 3 // 4 - tokens_of(state.unshown)))
    newest = newest_group(state.messages)[0].seq
    start = min(kept[0].seq if kept else progress.watermark + 1, newest)
    return Activate((), progress.watermark, start) if start > progress.tail_start else None


def _observe_excess(state: State, limits: Limits, room: int) -> Observe | None:
    """Note the oldest messages, in a chunk of the planner's size at most, until no more is left than it
    would keep raw. The newest group is never taken."""
    left = tokens_of(state.unnoted)
    most = limits.chunk_tokens or limits.message_limit
    enough = min(room, max(limits.keep_recent, room // 2))
    chunk: list[Message] = []
    used = 0
    unnoted = state.unnoted
    newest = newest_group(unnoted)
    for group in groups(unnoted):
        used += tokens_of(group)
        if group[0].seq == newest[0].seq or left <= enough or (chunk and used > most):
            break
        chunk.extend(group)
        left -= tokens_of(group)
    return _noting(state, chunk, limits, buffered=False) if chunk else None


def must_wait(state: State, limits: Limits) -> bool:
    """Return whether the model is so far behind that the turn should wait for it (`block_after`)."""
    behind = max(tokens_of(state.unshown), state.progress.unnoted_tokens)
    return bool(limits.block_after) and behind >= limits.block_after


# ------------------------------------------------------------------------------------ condensing


def condense(state: State, limits: Limits) -> Reflect | None:
    """Return the notes to condense next, if there are too many."""
    return _reflect_all(state, limits) or _consolidate(state, limits) or _reflect(state, limits)


def _memory_tokens(state: State, limits: Limits) -> int:
    counted = state.observations if limits.settings.reflect_counts == "observations" else state.active
    return sum(n.tokens for n in counted)


def _reflect_all(state: State, limits: Limits) -> Reflect | None:
    """Condense all notes of both kinds together, if that costs nothing: among more, the choice is better."""
    if not limits.condenses_all or _memory_tokens(state, limits) < limits.reflect_at:
        return None
    chosen = next(_runs(state, either_kind=True), ())
    # A single note might never get shorter; of two, one is gone each time.
    if len(chosen) < 2:
        return None
    if len(chosen) > 2:
        chosen = _but_newest(chosen, state)
    tokens = sum(n.tokens for n in chosen)
    target = max(1, tokens - _excess(state, limits), round(tokens * _least_left(limits)))
    return Reflect(chosen, 1 + max(n.generation for n in chosen), target)


def _consolidate(state: State, limits: Limits) -> Reflect | None:
    loose = [n for n in state.reflections if n.id not in state.pins]
    many = len(loose) >= limits.settings.consolidate_at
    notes = next((run for run in _runs(state) if run[0].generation and len(run) >= 2), ())
    if not notes or not (many or _reflections_crowd(state, limits)):
        return None
    total = sum(n.tokens for n in notes)
    gentle = limits.reflect_to and not _overflow(state, limits)
    target = total - _excess(state, limits) if gentle else total // 2
    return Reflect(
        notes, 1 + max(n.generation for n in notes), max(1, target, round(total * _least_left(limits)))
    )


def _reflections_crowd(state: State, limits: Limits) -> bool:
    """Return whether reflections take so much room that newer notes would have to give way."""
    if _overflow(state, limits):
        return True
    if _memory_tokens(state, limits) < limits.reflect_at:
        return False
    share = sum(n.tokens for n in state.reflections) / max(1, sum(n.tokens for n in state.active))
    return share > MAX_REFLECTED or not _condensable(state)


def _overflow(state: State, limits: Limits) -> int:
    """Return by how much notes exceed the memory limit, if reflections do not count towards `reflect_at`."""
    if limits.settings.reflect_counts == "memory":
        return 0
    return max(0, sum(n.tokens for n in state.active) + SECTION_TOKENS - limits.memory_limit)


def _reflect(state: State, limits: Limits) -> Reflect | None:
    notes = _condensable(state)
    full = _memory_tokens(state, limits) >= limits.reflect_at or _overflow(state, limits)
    if not full or not notes:
        return None
    if not limits.reflect_to:
        tokens = sum(n.tokens for n in notes)
        return Reflect(notes, 1, max(1, round(tokens * limits.note_ratio)))
    # The oldest notes, as many as can lose the excess without losing more than they may.
    excess = _excess(state, limits)
    chosen: list[Note] = []
    tokens = 0
    if limits.settings.reflect_counts == "memory":
        notes = _but_newest(notes, state) or notes
    for note in notes:
        if tokens * (1 - _least_left(limits)) >= excess:
            break
        chosen.append(note)
        tokens += note.tokens
    return Reflect(tuple(chosen), 1, max(1, tokens - excess, round(tokens * _least_left(limits))))


def _but_newest(notes: Sequence[Note], state: State) -> tuple[Note, ...]:
    """The notes without the last one of all, which is what the conversation is at."""
    return tuple(n for n in notes if n is not state.active[-1])


def _excess(state: State, limits: Limits) -> int:
    """Return the tokens to remove for memory to come down to `reflect_to` and to fit the prompt."""
    goal = round(limits.reflect_at * limits.reflect_to)
    return max(0, _memory_tokens(state, limits) - goal, _overflow(state, limits))


def _least_left(limits: Limits) -> float:
    """Return the share of the notes' size that condensing them leaves at least: a half, or less where
    `reflect_to` asks for it."""
    return min(0.5, limits.reflect_to or 0.5)


def _condensable(state: State) -> tuple[Note, ...]:
    """Return the oldest observations that may become one note."""
    return next((run for run in _runs(state) if not run[0].generation), ())


def _runs(state: State, *, either_kind: bool = False) -> Iterator[tuple[Note, ...]]:
    """Yield runs of adjacent notes of one kind, oldest first, without pinned notes.

    Only such a run may become one note: it covers all messages from its first to its last, and no message
    may be covered twice.
    """
    for (pinned, _), run in groupby(state.active, key=lambda n: (n.id in state.pins, either_kind or n.kind)):
        if not pinned:
            yield tuple(run)


def _rewrite(state: State, leave: Collection[str]) -> Rewrite | None:
    # A pinned note stays as the person saw it.
    stays = {*state.pins, *leave}
    return next((Rewrite(n) for n in state.active if n.degraded and n.id not in stays), None)


# After this many failures to rewrite a note, it stays as the built-in model wrote it.
MAX_REWRITES = 3


def gives_up(failures: int) -> bool:
    """Return whether a note that could not be rewritten so often stays as it is."""
    return failures >= MAX_REWRITES


# ------------------------------------------------------------------------------------ where to cut

# A tool call is never separated from its results.

_QUESTION_ENDS = ("?", "？", "か。", "吗。", "か", "吗")


def oldest_chunk(
    messages: Sequence[Message], *, keep: int, max_tokens: int = 0, max_messages: int = 0
) -> tuple[Message, ...]:
    """Choose the oldest messages that may be noted now, keeping at least `keep` tokens raw after them.

    The chunk has about `max_tokens` and at most `max_messages` (0: no limit), but at least one group. A call
    at the very end that waits for its results stays raw, so that they are not separated.
    """
    pieces = list(groups(messages))
    if pieces and is_open(pieces[-1]):
        pieces.pop()
    free = tokens_of(messages) - keep
    chunk: list[Message] = []
    used = start_of_last = 0
    for piece in pieces:
        before, used = used, used + tokens_of(piece)
        if used > free:
            break
        # End where the size is nearest to `max_tokens`, before or after a long message.
        if chunk and max_tokens and used - max_tokens > max_tokens - before:
            break
        if chunk and max_messages and len(chunk) + len(piece) > max_messages:
            break
        start_of_last = len(chunk)
        chunk.extend(piece)
    # A question is noted together with its answer.
    asks = start_of_last > 0 and chunk[-1].text.rstrip().endswith(_QUESTION_ENDS)
    return tuple(chunk[:start_of_last] if asks else chunk)


def newest_within(messages: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """Choose the newest whole groups that fit in `tokens`, possibly none."""
    start = end = len(messages)
    used = 0
    while end:
        # Every message but a result begins a group.
        first = end - 1
        while first and messages[first].role == "tool":
            first -= 1
        run = messages[first:end]
        for group in reversed(tuple(groups(run))) if len(run) > 1 else (run,):
            used += tokens_of(group)
            if used > tokens:
                return tuple(messages[start:])
            start -= len(group)
        end = first
    return tuple(messages)
