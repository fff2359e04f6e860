"""The note taker: load a session, plan, write, commit, until nothing is due.

`background.py` calls `advance` for sessions that are due. `policy/plan.py` decides each step, a `Writer`
(`writer.py`) has the model write the note, and the store commits it. `Session.context` shows it. `Compaction`
replaces the messages of a note that is shown, if the settings or a host ask for that.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol

from onlooker.domain.errors import ConflictError, ModelError, SpendError
from onlooker.domain.events import (
    Activated,
    Compacted,
    Event,
    Extracted,
    Noted,
    Planned,
    Reflected,
    SpendLimitReached,
    StepFailed,
)
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, SessionId, groups, new_id, tokens_of
from onlooker.domain.notes import Commit, Guard, Note, Progress, State
from onlooker.engine.background import Lease, Leases
from onlooker.engine.indexing import index_session
from onlooker.engine.recording import MIN_READ, Budgets
from onlooker.engine.writer import Source, UnusableError, Writer, WrittenNote
from onlooker.policy import pace
from onlooker.policy.plan import (
    Activate,
    Idle,
    Observe,
    Reflect,
    Rewrite,
    Step,
    gives_up,
    plan,
    retry_after,
    wake_at,
)
from onlooker.policy.render import text_lines
from onlooker.policy.settings import Settings, Timing
from onlooker.policy.tokens import Estimator
from onlooker.ports import Clock, ObserveRequest, ReflectRequest, Reply, Request, Store

log = logging.getLogger("onlooker")

# After this many failures in a row the built-in model reflects in the reflector's place.
PATIENCE = 2
# Sessions of which it is known how far their last note came.
MAX_SESSIONS = 1_000
# Notes whose failed rewrites are counted.
MAX_UNUSABLE = 1_000


class Composer(Protocol):
    """The built-in model. It writes at once and cannot fail, so it replaces a model that did."""

    @property
    def name(self) -> str: ...

    async def write(self, request: Request) -> Reply: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _OneAtATime:
    """Lets the built-in model write one note of a session at a time, and none that is written already.

    Without it, a turn that makes room and the background would both write the same note, and one of the two
    for nothing. It only saves work: the commit's guard keeps the notes correct.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    after: tuple[int, int, int] = (0, 0, 0)  # how far the last note brought the session

    async def take(self, state: State, write: Callable[[], Awaitable[State]]) -> State:
        async with self.lock:
            after, self.after = self.after, (0, 0, 0)
            if _how_far(state) < after:
                raise ConflictError("another note was taken meanwhile")
            done = await write()
            self.after = _how_far(done)
            return done


def _how_far(state: State) -> tuple[int, int, int]:
    return state.progress.revision, state.progress.frontier, state.progress.prompt_version


@dataclass(slots=True)
class _Failures:
    """What failed while one worker settles a session, and what it does about that."""

    in_a_row: int
    rewrites: set[str] = field(default_factory=set[str])  # notes that the model could not rewrite
    is_refused: bool = False  # the model answered with nothing usable for the next note
    reflector: ModelError | None = None  # its last error, once it failed too often

    def needs_builtin(self, step: Step) -> bool:
        """Whether the built-in model writes this note in the model's place."""
        return self.is_refused or (self.reflector is not None and isinstance(step, Reflect))

    def done(self, step: Step, *, instead: bool) -> None:
        """A step is done, with or without the model."""
        self.is_refused = False
        if not instead and not isinstance(step, Activate):
            self.in_a_row = 0

    def goes_on(self, step: Step, error: ModelError, before: int) -> bool:
        """Whether the session is settled further after this error. If not, it waits for the model. `before`
        is how often it failed in a row when the session was loaded."""
        if isinstance(error, UnusableError) and isinstance(step, Rewrite):
            # The model is there, and may do better with the next note.
            self.rewrites.add(step.note.id)
            return True
        if isinstance(error, UnusableError) and not self.in_a_row:
            # It may be this passage that the model refuses. Go on with the next one; if that fails as well,
            # it is the model.
            self.is_refused, self.in_a_row = True, 1
            return True
        if isinstance(step, Reflect) and before >= PATIENCE:
            # Notes must not exceed their limit because a model is down.
            self.reflector = error
            return True
        return False


class NoteTaker:
    """Takes the notes of sessions. Any number may run: leases keep two from paying for the same model call,
    and the commit's guard keeps the notes correct even if a lease fails."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        estimator: Estimator,
        emit: Callable[[Event], None],
        *,
        observer: Writer,
        reflector: Writer,
        builtin: Composer,
        budgets: Budgets,
        leases: Leases,
        compaction: Compaction,
        timing: Timing,
        choose_items: Callable[[State, int], Awaitable[tuple[Item, ...] | None]],
        before_shown: Callable[[State], Awaitable[None]],
        on_noted: Callable[[Progress, Sequence[Message]], Awaitable[None]],
        on_condensed: Callable[[Progress, Sequence[Note]], Awaitable[None]],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._estimator = estimator
        self._emit = emit
        self._observer = observer
        self._reflector = reflector
        self._builtin = builtin
        self._budgets = budgets
        self._leases = leases
        self._compaction = compaction
        self._timing = timing
        self._choose_items = choose_items
        # Called before a commit in the background changes the prompt, with the state after it.
        self._before_shown = before_shown
        # Both make items, in the background only: of messages that a note now covers, and of notes that were
        # condensed, since the reflection leaves out some of their content.
        self._on_noted = on_noted
        self._on_condensed = on_condensed
        # How often the model answered with nothing usable for a note that it was to rewrite.
        self._unusable: dict[str, int] = {}
        self._one_at_a_time: dict[SessionId, _OneAtATime] = {}

    async def advance(self, session: SessionId) -> bool:
        """Take every note that is due; False if another worker has the session, or a model failed.

        A failure is logged and gives the session a later due time. Raises only StoreError.
        """
        async with self._leases.held(session) as lease:
            if lease is None:
                return False
            await index_session(self._store, session)  # within the lease: whoever holds it does so
            return await self._settle(session, lease)

    async def _settle(self, session: SessionId, lease: Lease) -> bool:
        # A long backlog is read in parts, from its beginning.
        most = MIN_READ
        state, fresh = await self._store.load(session, oldest=most), True
        failed = _Failures(state.progress.failures if state else 0)
        while state is not None:
            await pace.between_turns()
            await self._budgets.store(state.progress)
            limits = self._budgets.limits(state)
            left = {note for note, times in self._unusable.items() if gives_up(times)}
            step = plan(state, limits, leave={*failed.rewrites, *left})
            if state.missing and (isinstance(step, Idle) or len(state.messages) < most // 2):
                most *= 4 if fresh else 1  # too little for a note of this session's size
                state, fresh = await self._store.load(session, oldest=most), True
                continue
            down = failed.reflector
            if isinstance(step, Idle) or (isinstance(step, Rewrite) and (down or self._observer_is_builtin)):
                if fresh and down:
                    await self._back_off(state, step, lease, down)
                    return False
                if fresh:
                    await self._on_noted(state.progress, ())  # of notes that turns took themselves
                    await self._leases.release(state, lease, None, wake_at(state, limits), failed.in_a_row)
                    return failed.rewrites <= left  # any others are tried again with the next note
                state, fresh = await self._store.load(session, oldest=most), True
                continue
            if not await self._leases.still_held(lease):
                return False
            began = time.perf_counter()
            try:
                # The state is not loaded again: for a long backlog that would cost a load per chunk.
                instead = failed.needs_builtin(step)
                state, fresh = await self.do(state, step, fence=lease.fence, on_the_spot=instead), False
                failed.done(step, instead=instead)
            except ConflictError:
                # A turn took a note itself, or messages were retired. Go on only while the lease is held.
                if not await self._leases.extend(lease):
                    return False
                state, fresh = await self._store.load(session, oldest=most), True
            except ModelError as error:
                if isinstance(step, Rewrite) and isinstance(error, UnusableError):
                    self._count_unusable(step.note)
                if not failed.goes_on(step, error, state.progress.failures):
                    await self._back_off(state, step, lease, error, time.perf_counter() - began)
                    return False
        return True

    def _count_unusable(self, note: Note) -> None:
        times = self._unusable.pop(note.id, 0) + 1
        self._unusable[note.id] = times
        if len(self._unusable) > MAX_UNUSABLE:
            del self._unusable[next(iter(self._unusable))]
        if gives_up(times):
            log.warning("note %s stays as the built-in model wrote it: no usable answer", note.id)

    @property
    def _observer_is_builtin(self) -> bool:
        return self._observer.model.name == self._builtin.name

    @property
    def _reflector_is_builtin(self) -> bool:
        return self._reflector.model.name == self._builtin.name

    # -- steps

    async def do(self, state: State, step: Step, *, fence: int | None, on_the_spot: bool = False) -> State:
        """Carry out one step and commit it; return the state after it.

        With `on_the_spot`, the built-in model writes, so that nothing waits for a language model.

        Raises:
            ModelError: The model gave no usable answer; nothing changed.
            ConflictError: The session changed meanwhile; nothing was committed.
        """
        builtin = self._reflector_is_builtin if isinstance(step, Reflect) else self._observer_is_builtin
        if isinstance(step, Observe | Reflect) and (on_the_spot or builtin):
            return await self._of_session(state.progress.session).take(
                state, lambda: self._carry_out(state, step, fence, on_the_spot)
            )
        return await self._carry_out(state, step, fence, on_the_spot)

    def _of_session(self, session: SessionId) -> _OneAtATime:
        found = self._one_at_a_time.pop(session, None) or _OneAtATime()
        self._one_at_a_time[session] = found
        if len(self._one_at_a_time) > MAX_SESSIONS:
            del self._one_at_a_time[next(iter(self._one_at_a_time))]
        return found

    async def _carry_out(self, state: State, step: Step, fence: int | None, on_the_spot: bool) -> State:
        if (event := planned_event(state.progress.session, step)) is not None:
            self._emit(event)
        match step:
            case Activate():
                return await self._activate(state, step, fence)
            case Observe():
                return await self._observe(state, step, fence, on_the_spot)
            case Reflect():
                return await self._reflect(state, step, fence, on_the_spot)
            case Rewrite():
                return await self._rewrite(state, step.note, fence)
            case Idle():
                return state

    async def show(self, state: State, step: Activate | Observe | Reflect) -> State:
        """The state after a step, for one prompt alone; nothing is stored. For a caller whose conversation is
        no longer the recorded one, because another caller took messages back."""
        match step:
            case Activate():
                change = self._activation(state, step, None)
            case Observe():
                change, _ = await self._observation(state, step, None, on_the_spot=True)
            case Reflect():
                change, _ = await self._reflection(state, step, None, on_the_spot=True)
        return state.after(change, state.progress.after(change))

    def _activation(self, state: State, step: Activate, fence: int | None) -> Commit:
        return Commit(
            _guard(state, fence),
            activate=tuple(n.id for n in step.notes),
            watermark=step.watermark,
            tail_start=step.tail_start,
            at=self._clock.now(),
        )

    async def _activate(self, state: State, step: Activate, fence: int | None) -> State:
        change, after = await self._commit(state, self._activation(state, step, fence))
        await self._activated(after, step)
        return state.after(change, after)

    async def _activated(self, after: Progress, step: Activate) -> None:
        self._emit(Activated(after.session, step.notes))
        if step.notes:
            await self._compaction.after_note(after, step.notes[-1])

    async def _observation(
        self, state: State, step: Observe, fence: int | None, on_the_spot: bool
    ) -> tuple[Commit, WrittenNote]:
        session = state.progress.session
        if on_the_spot or self._observer_is_builtin:
            request = observe_request(session, step.messages, state.notes, step.ratio, self._observer)
            written = await self._compose(request)
        else:
            written = await observe(session, step.messages, state.notes, step.ratio, self._observer)
        degraded = on_the_spot and not self._observer_is_builtin
        note = self._note_of_messages(step.messages, written, buffered=step.buffered, degraded=degraded)
        shown = not step.buffered
        change = Commit(
            _guard(state, fence),
            add=(note,),
            frontier=note.last,
            watermark=note.last if shown else None,
            tail_start=step.tail_start if shown else None,
            extractions=written.extracted(note),
        )
        return change, written

    async def _observe(self, state: State, step: Observe, fence: int | None, on_the_spot: bool) -> State:
        change, written = await self._observation(state, step, fence, on_the_spot)
        change, after = await self._commit(state, change)
        (note,) = change.add
        self._emit_noted(state.progress.session, note, change, written)
        if not step.buffered:
            await self._compaction.after_note(after, note)
        if fence is not None:
            await self._on_noted(after, step.messages)
        return state.after(change, after)

    async def _reflection(
        self, state: State, step: Reflect, fence: int | None, on_the_spot: bool
    ) -> tuple[Commit, WrittenNote]:
        session = state.progress.session
        builtin = self._reflector_is_builtin
        if on_the_spot or builtin:
            written = await self._compose(
                reflect_request(session, step.notes, step.generation, step.target_tokens, self._reflector)
            )
        else:
            written = await reflect(session, step.notes, step.generation, step.target_tokens, self._reflector)
        note = Note(
            id=new_id("ref", self._clock.now()),
            generation=step.generation,
            first=min(n.first for n in step.notes),
            last=max(n.last for n in step.notes),
            text=written.text,
            tokens=self._estimator.text(written.text),
            made_at=self._clock.now(),
            sources=tuple(n.id for n in step.notes),
            model=written.model,
            degraded=on_the_spot and not builtin,
        )
        change = self._activation(state, step.shows, fence) if step.shows else Commit(_guard(state, fence))
        return replace(change, add=(note,), supersede=note.sources), written

    async def _reflect(self, state: State, step: Reflect, fence: int | None, on_the_spot: bool) -> State:
        change, written = await self._reflection(state, step, fence, on_the_spot)
        change, after = await self._commit(state, change)
        session, (note,) = state.progress.session, change.add
        self._emit(Reflected(session, note, step.notes, written.calls, seconds=written.seconds))
        if step.shows:
            await self._activated(after, step.shows)
        if fence is not None:
            await self._on_condensed(after, step.notes)
        return state.after(change, after)

    async def _rewrite(self, state: State, note: Note, fence: int | None) -> State:
        """Have the model, which is back, write a note that the built-in model wrote in its place."""
        session, messages = state.progress.session, ()
        if note.generation:
            known = {n.id: n for n in await self._store.notes(session, statuses=("superseded",))}
            sources = [known[s] for s in note.sources if s in known]
            written = await reflect(session, sources, note.generation, note.tokens, self._reflector)
        else:
            messages = await self._store.sources(session, note.id)
            earlier = [n for n in state.active if n.last < note.first]
            ratio = self._budgets.limits(state).note_ratio
            written = await observe(session, messages, earlier, ratio, self._observer)
        now = self._clock.now()
        better = replace(
            note,
            id=new_id("ref" if note.generation else "obs", now),
            text=written.text,
            tokens=self._estimator.text(written.text),
            made_at=now,
            model=written.model,
            degraded=False,
        )
        found = written.extracted(better)
        change = Commit(_guard(state, fence), add=(better,), supersede=(note.id,), extractions=found)
        change, after = await self._commit(state, change)
        self._emit_noted(session, better, change, written)
        await self._on_noted(after, messages)
        return state.after(change, after)

    async def _commit(self, state: State, change: Commit) -> tuple[Commit, Progress]:
        """Commit a change. If it changes the notes, it also updates the items that the session shows: the
        prompt's prefix breaks anyway, so showing what other sessions learned costs nothing more."""
        if change.changes_notes and state.items is not None:
            items = await self._choose_items(state, self._budgets.of(state.progress))
            change = replace(change, items=items)
        if change.changes_prompt and change.guard.fence is not None:
            await self._before_shown(state.after(change, state.progress.after(change)))
        return change, await self._store.commit(state.progress.session, change)

    def _emit_noted(self, session: SessionId, note: Note, change: Commit, written: WrittenNote) -> None:
        self._emit(Noted(session, note, written.calls, seconds=written.seconds))
        if change.extractions:
            self._emit(Extracted(session, change.extractions))

    async def _compose(self, request: Request) -> WrittenNote:
        # It takes its sentences from the source, so there is nothing to judge.
        began = time.perf_counter()
        reply = await self._builtin.write(request)
        return WrittenNote(reply.text, self._builtin.name, seconds=time.perf_counter() - began)

    def _note_of_messages(
        self, messages: Sequence[Message], written: WrittenNote, *, buffered: bool, degraded: bool
    ) -> Note:
        now = self._clock.now()
        return Note(
            id=new_id("obs", now),
            generation=0,
            first=messages[0].seq,
            last=messages[-1].seq,
            text=written.text,
            tokens=self._estimator.text(written.text),
            made_at=now,
            sources=tuple(m.id for m in messages),
            status="buffered" if buffered else "active",
            model=written.model,
            degraded=degraded,
        )

    # -- when a model fails

    async def _back_off(
        self, state: State, step: Step, lease: Lease, error: ModelError, took: float = 0.0
    ) -> None:
        """Change nothing, and give the session a later due time."""
        session = state.progress.session
        failures = state.progress.failures + 1
        # Random, so that many sessions do not return to a recovering model at once.
        wait = retry_after(failures, self._timing) * random.uniform(0.5, 1.0)
        log.warning("%s: retrying notes in %.1f s: %s", session.key, wait, error)
        if isinstance(error, SpendError):
            self._emit(SpendLimitReached(session, error.scope, error.spent, error.limit))
        self._emit(StepFailed(session, type(step).__name__.lower(), str(error), wait, seconds=took))
        due = self._clock.now() + timedelta(seconds=wait)
        await self._leases.release(state, lease, due, state.progress.wake_at, failures)


def _guard(state: State, fence: int | None) -> Guard:
    return Guard(state.progress.frontier, state.progress.revision, fence)


# ------------------------------------------------------------------------------------ compaction

# (session, seq of the last message to replace, summary of the replaced messages)
Compactor = Callable[[SessionId, int, str], Awaitable[None]]


class Compaction:
    """Replaces messages by a summary: on request, and after a note if `compact` or a host asks for it."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        estimator: Estimator,
        emit: Callable[[Event], None],
    ) -> None:
        self._store = store
        self._archive = settings.archive
        self._clock = clock
        self._estimator = estimator
        self._emit = emit
        self._after_notes = settings.compact
        self._compactor: Compactor | None = None

    def use(self, compactor: Compactor | None) -> None:
        """Compact with a host's own function after each note; None turns compaction off."""
        self._compactor, self._after_notes = compactor, compactor is not None

    async def compact(
        self, session: SessionId, up_to: int, summary: str, *, revision: int | None = None
    ) -> None:
        """Replace every message up to and including seq `up_to` by a summary, in one transaction; with
        `revision`, only if no message was retired since."""
        now = self._clock.now()
        message = Message("system", summary, new_id("sum", now), now, "summary")
        message = replace(message, tokens=self._estimator.message(message))
        await self._store.compact(
            session, up_to=up_to, summary=message, archive=self._archive, now=now, revision=revision
        )
        self._emit(Compacted(session, up_to))

    async def after_note(self, progress: Progress, note: Note) -> None:
        """Replace the messages that a note was made from. A failure is only logged: the note is committed,
        and the messages are still there."""
        # Messages that the prompt shows raw stay, with or without a note.
        up_to = min(note.last, progress.tail_start - 1)
        if not self._after_notes or up_to < 1:
            return
        session = progress.session
        try:
            if self._compactor is None:
                await self.compact(session, up_to, note.text, revision=progress.revision)
            else:
                await self._compactor(session, up_to, note.text)
                self._emit(Compacted(session, up_to))
        except ConflictError:
            log.debug("%s: messages were retired before they were compacted", session.key)
        except Exception:
            log.exception("%s: compaction failed", session.key)


# ----------------------------------------------------------------------------- messages become an observation


# Even a note of a short chunk needs room for its heading and one line.
MIN_TARGET = 40


def observe_request(
    session: SessionId, messages: Sequence[Message], notes: Sequence[Note], ratio: float, writer: Writer
) -> ObserveRequest:
    """Ask for a note of about `ratio` of the tokens of its messages."""
    target = max(MIN_TARGET, round(tokens_of(messages) * ratio))
    return ObserveRequest(session, tuple(messages), tuple(notes), target, writer.settings.format)


async def observe(
    session: SessionId, messages: Sequence[Message], notes: Sequence[Note], ratio: float, writer: Writer
) -> WrittenNote:
    """Write an observation of these messages.

    Messages that exceed the model's window, or a single one that does, are noted in parts.

    Raises:
        ModelError: A part got no usable answer.
    """
    parts = [
        await writer.write(observe_request(session, part, notes, ratio, writer), _source_of_messages(part))
        for part in _parts(messages, writer)
    ]
    return WrittenNote.in_parts(parts)


def _source_of_messages(messages: Sequence[Message]) -> Source:
    at = messages[0].at
    assert at is not None  # recorded messages have a time
    by_day: dict[str, list[str]] = {}
    for m in messages:
        texts = by_day.setdefault(f"## {m.at.date()}" if m.at else "", [])
        texts.extend(filter(None, (m.body, *(c.arguments for c in m.calls))))
    said = {day: "\n".join(texts) for day, texts in by_day.items()}
    return Source(text_lines(messages), said, tokens_of(messages), at.date())


def _parts(messages: Sequence[Message], writer: Writer) -> Iterator[tuple[Message, ...]]:
    """Split the messages into runs that fit the model's window."""
    window = writer.model.window
    if tokens_of(messages) <= window:
        yield tuple(messages)
        return
    run: list[Message] = []
    for group in groups(messages):
        if run and tokens_of(run) + tokens_of(group) > window:
            yield tuple(run)
            run = []
        if tokens_of(group) <= window:
            run.extend(group)
            continue
        for message in group:
            yield from ((piece,) for piece in _pieces(message, writer))
    if run:
        yield tuple(run)


def _pieces(message: Message, writer: Writer) -> Iterator[Message]:
    """Split a message into pieces that fit the window."""
    if message.tokens <= writer.model.window:
        yield message
        return
    count = -(-message.tokens // max(1, writer.model.window * 9 // 10))
    size = max(1, -(-len(message.text) // count))
    for start in range(0, max(1, len(message.text)), size):
        calls = message.calls if start == 0 else ()
        piece = replace(message, text=message.text[start : start + size], calls=calls)
        yield replace(piece, tokens=min(writer.estimator.message(piece), writer.model.window))


# ---------------------------------------------------------------------------------- notes become a reflection


def reflect_request(
    session: SessionId, notes: Sequence[Note], generation: int, target_tokens: int, writer: Writer
) -> ReflectRequest:
    """Ask for one reflection on these notes."""
    return ReflectRequest(session, tuple(notes), generation, target_tokens, writer.settings.format)


async def reflect(
    session: SessionId, notes: Sequence[Note], generation: int, target_tokens: int, writer: Writer
) -> WrittenNote:
    """Write a reflection on these notes.

    Raises:
        ModelError: There was no usable answer.
    """
    request = reflect_request(session, notes, generation, target_tokens, writer)
    return await writer.write(request, _source_of_notes(request, writer))


def _source_of_notes(request: ReflectRequest, writer: Writer) -> Source:
    from onlooker.policy.reply.note_text import CRITICAL_SHARE, critical_lines, read
    from onlooker.policy.values import by_day

    text = "\n".join(n.text for n in request.notes)
    note = read(text, format="lines")
    said: dict[str, str] = {}
    for heading, lines in by_day(text).items():
        part = read("\n".join(lines), format="lines")
        said[heading] = "\n".join((*(line.text for line in part.lines), *part.values))
    day = next((line.day for line in note.lines if line.day), request.notes[0].made_at.date())
    # Prose has no priorities: there, CRITICAL at the start of a sentence is just a word.
    dated = any(line.startswith("## ") for line in text.splitlines())
    critical = critical_lines(note) if dated else ()
    kept = _newest(critical, round(request.target_tokens * CRITICAL_SHARE), writer)
    return Source(text, said, sum(n.tokens for n in request.notes), day, kept)


def _newest(lines: Sequence[str], tokens: int, writer: Writer) -> Sequence[str]:
    """The newest lines that fit."""
    start = len(lines)
    while start and (tokens := tokens - writer.estimator.text(lines[start - 1])) >= 0:
        start -= 1
    return lines[start:]


# ------------------------------------------------------------------------------------ events


def planned_event(session: SessionId, step: Step) -> Planned | None:
    """The event for the start of a step; None if there is nothing to do."""
    match step:
        case Activate():
            return Planned(session, "activate", step.tokens)
        case Observe():
            return Planned(session, "observe", step.tokens)
        case Reflect():
            return Planned(session, "reflect", step.tokens)
        case Rewrite(note=note):
            return Planned(session, "rewrite", note.tokens)
        case _:
            return None
