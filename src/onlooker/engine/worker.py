"""Take one session forward: load, plan, write, commit, until nothing is due."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from onlooker.domain.errors import ConflictError, ModelError, SpendError
from onlooker.domain.events import (
    Activated,
    Event,
    Extracted,
    Noted,
    Reflected,
    SpendLimitReached,
    StepFailed,
)
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Commit, Guard, Note, Progress, State
from onlooker.engine.leasing import Lease, Leases
from onlooker.engine.observer import observe, observe_request
from onlooker.engine.reflector import reflect, reflect_request
from onlooker.engine.searching import keep_findable
from onlooker.engine.steps import planned
from onlooker.engine.writing import Writer, Written
from onlooker.policy.assemble import limits_beside_items
from onlooker.policy.plan import Activate, Idle, Observe, Reflect, Rewrite, Step, plan, wake_at
from onlooker.policy.settings import TIMING, Limits, Settings, Timing, limits
from onlooker.policy.tokens import Estimator
from onlooker.ports import Clock, Request, Store

log = logging.getLogger("onlooker")

# After so many failures in a row the built-in model condenses notes in the reflector's place.
PATIENCE = 2
# Hosts' budgets that are kept in mind; older ones are read from the store again.
MOST_BUDGETS = 10_000


class Composer(Protocol):
    """The built-in model: it writes at once and cannot fail, so it stands in for one that did."""

    @property
    def name(self) -> str: ...

    def compose(self, request: Request) -> str: ...


# Asking the operating system for each id lets go of the interpreter, and under load every `record` would wait
# for its turn again. Ours alone, since hosts seed the one that all share; and another one after a fork.
_lot = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lot.seed)


def note_id(kind: str, at: datetime) -> str:
    """Readable, and in order of time."""
    return f"{kind}_{at:%Y%m%dT%H%M%S%f}_{_lot.getrandbits(48):012x}"


@dataclass(slots=True)
class Worker:
    """Writes a session's notes. Any number may run: leases keep them from paying for the same call,
    and the commit's guard keeps the notes right even where a lease fails to."""

    store: Store
    settings: Settings
    observer: Writer
    reflector: Writer
    builtin: Composer
    estimator: Estimator
    clock: Clock
    emit: Callable[[Event], None]
    timing: Timing = TIMING
    compact: Callable[[Progress, int, str], Awaitable[None]] | None = None
    # Told of notes that were condensed in the background, since some of what they say is then gone.
    condensed: Callable[[Progress, Sequence[Note]], Awaitable[None]] | None = None
    # What hosts last asked for in this process, by sid; written down with the next notes.
    budgets: dict[str, int] = field(default_factory=dict[str, int])
    leases: Leases = field(init=False)

    def __post_init__(self) -> None:
        self.leases = Leases(self.store, self.clock, self.timing.lease_seconds)

    def bounds(self, state: State) -> Limits:
        """The settings in tokens for the budget that the session's host asks for."""
        known = self.budgets.get(state.progress.sid) or state.progress.budget
        usable = int(self.settings.budget * (1 - self.settings.margin))
        return limits_beside_items(limits(self.settings, known or usable), state, self.estimator.text)

    def asked(self, session: SessionId, budget: int) -> bool:
        """Remember the budget that a host asks for; True where it is another than before."""
        before = self.budgets.pop(session.sid, None)
        self.budgets[session.sid] = budget
        if len(self.budgets) > MOST_BUDGETS:
            del self.budgets[next(iter(self.budgets))]
        return before != budget

    async def advance(self, session: SessionId) -> bool:
        """Take every note that is due; False when another worker has the session, or a model failed.

        A failure is logged and gives the session a later due time. Nothing is raised but StoreError.
        """
        await keep_findable(self.store, session)
        async with self.leases.held(session) as lease:
            return lease is not None and await self._settle(session, lease)

    @asynccontextmanager
    async def alone(self, session: SessionId) -> AsyncGenerator[bool]:
        """Hold the session for work that is no step, as `advance` does; False while another has it."""
        async with self.leases.held(session) as lease:
            yield lease is not None
            if lease is not None:
                await self.leases.give_back(lease)

    async def _settle(self, session: SessionId, lease: Lease) -> bool:
        state, fresh = await self.store.load(session), True
        down: ModelError | None = None  # the reflector, where it failed so often that we go on without
        while state is not None:
            await self._keep_budget(state)
            bounds = self.bounds(state)
            step = plan(state, bounds)
            if isinstance(step, Idle) or (isinstance(step, Rewrite) and (down or self._is_builtin)):
                if fresh and down:
                    await self._back_off(state, step, lease, down)
                    return False
                if fresh:
                    await self.leases.release(state, lease, None, wake_at(state, bounds), 0)
                    return True
                state, fresh = await self.store.load(session), True
                continue
            if not await self.leases.still_held(lease):
                return False
            began = time.perf_counter()
            try:
                # Going on from here saves loading a long backlog for each of its chunks.
                without = down is not None and isinstance(step, Reflect)
                state, fresh = await self.do(state, step, fence=lease.fence, on_the_spot=without), False
            except ConflictError:
                # Someone noted on the spot, or took messages back. Go on only while it is ours.
                if not await self.leases.extend(lease):
                    return False
                state, fresh = await self.store.load(session), True
            except ModelError as error:
                if not isinstance(step, Reflect) or state.progress.failures < PATIENCE:
                    await self._back_off(state, step, lease, error, time.perf_counter() - began)
                    return False
                # Memory must not outgrow its room because a model is down.
                down = error
        return True

    @property
    def _is_builtin(self) -> bool:
        return self.observer.model.name == self.builtin.name

    # -- steps

    async def do(self, state: State, step: Step, *, fence: int | None, on_the_spot: bool = False) -> State:
        """Carry out one step and commit it; return the state after it.

        On the spot the built-in model writes, and nothing is waited for.

        Raises:
            ModelError: The model gave no usable answer; nothing changed.
            ConflictError: The session moved on meanwhile; nothing changed.
        """
        if (event := planned(state.progress.session, step)) is not None:
            self.emit(event)
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

    async def _activate(self, state: State, step: Activate, fence: int | None) -> State:
        change = Commit(
            _guard(state, fence),
            activate=tuple(n.id for n in step.notes),
            watermark=step.watermark,
            tail_start=step.tail_start,
            at=self.clock.now(),
        )
        after = await self.store.commit(state.progress.session, change)
        self.emit(Activated(state.progress.session, step.notes))
        if step.notes:
            await self._compact(after, step.notes[-1])
        return state.after(change, after)

    async def _observe(self, state: State, step: Observe, fence: int | None, on_the_spot: bool) -> State:
        session = state.progress.session
        if on_the_spot or self._is_builtin:
            request = observe_request(session, step.messages, state.notes, step.ratio, self.observer)
            written = await self._compose(request)
        else:
            written = await observe(session, step.messages, state.notes, step.ratio, self.observer)
        degraded = on_the_spot and not self._is_builtin
        note = self._observation(step.messages, written, buffered=step.buffered, degraded=degraded)
        shown = not step.buffered
        change = Commit(
            _guard(state, fence),
            add=(note,),
            frontier=note.last,
            watermark=note.last if shown else None,
            tail_start=step.tail_start if shown else None,
            extractions=written.extracted(note),
        )
        after = await self.store.commit(session, change)
        self._noted(session, note, change, written)
        if shown:
            await self._compact(after, note)
        return state.after(change, after)

    async def _reflect(self, state: State, step: Reflect, fence: int | None, on_the_spot: bool) -> State:
        session = state.progress.session
        builtin = self.reflector.model.name == self.builtin.name
        if on_the_spot or builtin:
            written = await self._compose(
                reflect_request(session, step.notes, step.generation, step.target_tokens, self.reflector)
            )
        else:
            written = await reflect(session, step.notes, step.generation, step.target_tokens, self.reflector)
        return await self._commit_reflection(
            state, step, written, fence, degraded=on_the_spot and not builtin
        )

    async def _commit_reflection(
        self, state: State, step: Reflect, written: Written, fence: int | None, *, degraded: bool
    ) -> State:
        session = state.progress.session
        note = Note(
            id=note_id("ref", self.clock.now()),
            generation=step.generation,
            first=min(n.first for n in step.notes),
            last=max(n.last for n in step.notes),
            text=written.text,
            tokens=self.estimator.text(written.text),
            made_at=self.clock.now(),
            sources=tuple(n.id for n in step.notes),
            model=written.model,
            degraded=degraded,
        )
        change = Commit(_guard(state, fence), add=(note,), supersede=note.sources)
        after = await self.store.commit(session, change)
        self.emit(Reflected(session, note, step.notes, written.calls, seconds=written.seconds))
        if self.condensed is not None and fence is not None:
            await self.condensed(after, step.notes)
        return state.after(change, after)

    async def _rewrite(self, state: State, note: Note, fence: int | None) -> State:
        """The model is back: have it write what the built-in one noted in its place."""
        session = state.progress.session
        if note.generation:
            known = {n.id: n for n in await self.store.notes(session, statuses=("superseded",))}
            sources = [known[s] for s in note.sources if s in known]
            written = await reflect(session, sources, note.generation, note.tokens, self.reflector)
        else:
            messages = await self.store.sources(session, note.id)
            earlier = [n for n in state.active if n.last < note.first]
            written = await observe(session, messages, earlier, self.settings.note_ratio, self.observer)
        now = self.clock.now()
        better = replace(
            note,
            id=note_id("ref" if note.generation else "obs", now),
            text=written.text,
            tokens=self.estimator.text(written.text),
            made_at=now,
            model=written.model,
            degraded=False,
        )
        found = written.extracted(better)
        change = Commit(_guard(state, fence), add=(better,), supersede=(note.id,), extractions=found)
        after = await self.store.commit(session, change)
        self._noted(session, better, change, written)
        return state.after(change, after)

    def _noted(self, session: SessionId, note: Note, change: Commit, written: Written) -> None:
        self.emit(Noted(session, note, written.calls, seconds=written.seconds))
        if change.extractions:
            self.emit(Extracted(session, change.extractions))

    async def _compose(self, request: Request) -> Written:
        # It takes its sentences from the source and cannot fail, so there is nothing to judge.
        began = time.perf_counter()
        text = await asyncio.to_thread(self.builtin.compose, request)
        return Written(text, self.builtin.name, seconds=time.perf_counter() - began)

    def _observation(
        self, messages: Sequence[Message], written: Written, *, buffered: bool, degraded: bool
    ) -> Note:
        now = self.clock.now()
        return Note(
            id=note_id("obs", now),
            generation=0,
            first=messages[0].seq,
            last=messages[-1].seq,
            text=written.text,
            tokens=self.estimator.text(written.text),
            made_at=now,
            sources=tuple(m.id for m in messages),
            status="buffered" if buffered else "active",
            model=written.model,
            degraded=degraded,
        )

    async def _compact(self, progress: Progress, note: Note) -> None:
        """Let the compactor take noted messages out of the session, where there is one."""
        # What still stands raw is never taken out, noted or not.
        up_to = min(note.last, progress.tail_start - 1)
        if self.compact is None or up_to < 1:
            return
        try:
            await self.compact(progress, up_to, note.text)
        except ConflictError:
            log.debug("%s: messages were taken back before they were compacted", progress.session.key)
        except Exception:
            # The note is committed and the messages are still there: nothing is lost.
            log.exception("%s: messages were not compacted", progress.session.key)

    # -- when a model fails

    async def _back_off(
        self, state: State, step: Step, lease: Lease, error: ModelError, took: float = 0.0
    ) -> None:
        """Leave everything as it is and try again later."""
        session = state.progress.session
        failures = state.progress.failures + 1
        limit = self.timing.retry_limit_seconds
        wait = min(limit, self.timing.retry_seconds * 2.0 ** min(failures - 1, 30))
        # Spread out, so that many sessions do not come back to a recovering model at once.
        wait *= random.uniform(0.5, 1.0)
        log.warning("%s: notes wait %.1f s: %s", session.key, wait, error)
        if isinstance(error, SpendError):
            self.emit(SpendLimitReached(session, error.scope, error.spent, error.limit))
        self.emit(StepFailed(session, type(step).__name__.lower(), str(error), wait, seconds=took))
        due = self.clock.now() + timedelta(seconds=wait)
        await self.leases.release(state, lease, due, state.progress.wake_at, failures)

    # -- budgets

    async def _keep_budget(self, state: State) -> None:
        """Write down what the host asks for, where it differs enough to matter."""
        asked = self.budgets.get(state.progress.sid, 0)
        if asked and abs(asked - state.progress.budget) * 20 > asked:
            await self.store.set_budget(state.progress.session, asked)


def _guard(state: State, fence: int | None) -> Guard:
    return Guard(state.progress.frontier, state.progress.revision, fence)
