"""The parts that a memory and its sessions share, and their life cycle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING

from onlooker.domain.errors import ClosedError
from onlooker.domain.events import Event
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Appended, State
from onlooker.engine.buffer import Buffer
from onlooker.engine.histories import Histories
from onlooker.engine.worker import Composer, Worker
from onlooker.engine.writing import Writer
from onlooker.policy.frame import Counting
from onlooker.policy.section import MemorySection, memory_section
from onlooker.policy.settings import Limits, Settings, check
from onlooker.policy.tokens import Calibration, Remembering, estimator
from onlooker.ports import Clock, Model, Store

if TYPE_CHECKING:
    from onlooker.engine.extracting import Types

log = logging.getLogger("onlooker")

_CALIBRATION = "calibration"
# Memory sections that are kept, of the sessions used last.
MOST_SECTIONS = 256


class Core:
    """Store, worker and buffer of one memory."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings,
        observer: Model,
        reflector: Model,
        builtin: Composer,
        clock: Clock,
        tz: tzinfo,
        types: Types | None = None,
    ) -> None:
        self.settings = check(settings)
        self.store = store
        self.clock = clock
        self.tz = tz
        self.histories = Histories()
        self._sections: dict[str, tuple[tuple[int, int, Limits], MemorySection]] = {}
        self.listeners: list[Callable[[Event], None]] = []
        self.estimator = Remembering(estimator(settings.estimator))
        self._calibration = Calibration()
        self.worker = Worker(
            store,
            settings,
            replace(self._writer(observer), types=types),
            self._writer(reflector),
            builtin,
            self.estimator,
            clock,
            self.emit,
        )
        self.buffer = Buffer(
            store,
            clock,
            self.worker.advance,
            concurrency=settings.concurrency,
            sweep_seconds=settings.sweep_seconds,
        )
        self._life = asyncio.Lock()
        self._open = False
        self._closed = False

    def _writer(self, model: Model) -> Writer:
        return Writer(model, self.settings, self.estimator, self.clock, self.emit, self.store.record_usage)

    # -- life

    async def ready(self) -> None:
        """Open at first use.

        Raises:
            ClosedError: It was closed.
        """
        if self._open:
            return
        if self._closed:
            raise ClosedError("this memory was closed; open it again or make a new one")
        await self.open()

    async def open(self) -> None:
        async with self._life:
            if self._open:
                return
            await self.store.open()
            self._calibration = Calibration.from_json(await self.store.get_value(_CALIBRATION) or "{}")
            if self.settings.retention_days:
                await self.prune(timedelta(days=self.settings.retention_days))
            if self.settings.enabled:
                await self.buffer.start()
            self._open, self._closed = True, False

    async def close(self) -> None:
        async with self._life:
            was_open, self._open, self._closed = self._open, False, True
            if was_open:
                await self.buffer.stop(self.settings.stop_deadline)
                await self.store.close()

    async def prune(self, age: timedelta) -> int:
        """Purge superseded notes, and what hosts took back, of at least that age."""
        return await self.store.prune(before=self.clock.now() - age)

    # -- shared

    @property
    def counting(self) -> Counting:
        return Counting(self.estimator, self._calibration)

    async def calibrate(self, counted: int, reported: int) -> None:
        """Learn from what a provider reported for a prompt that we counted."""
        learned = self._calibration.learn(counted, reported)
        if learned != self._calibration:
            self._calibration = learned
            await self.store.set_value(_CALIBRATION, learned.to_json())

    def section(self, state: State, bounds: Limits, counting: Counting) -> MemorySection:
        """The memory section, made anew only where notes or limits changed."""
        progress = state.progress
        key = (progress.branch, progress.epoch, bounds)
        known = self._sections.pop(progress.sid, None)
        section = known[1] if known and known[0] == key else memory_section(state, bounds, counting)
        self._sections[progress.sid] = key, section
        if len(self._sections) > MOST_SECTIONS:
            del self._sections[next(iter(self._sections))]
        return section

    def forget(self, session: SessionId) -> None:
        """Let go of everything kept in mind about a session."""
        self.histories.drop(session.sid)
        self._sections.pop(session.sid, None)

    def wake(self, session: SessionId, appended: Appended) -> None:
        """Tell the buffer, where what was recorded has made the session due."""
        due = appended.progress.due_at
        if self.settings.enabled and due is not None and due <= self.clock.now():
            self.buffer.wake(session)

    def wake_unless_put_off(self, state: State) -> None:
        """Tell the buffer that something may be due, but for a model that is given time to recover."""
        due = state.progress.due_at
        if due is None or due <= self.clock.now():
            self.buffer.wake(state.progress.session)

    def emit(self, event: Event) -> None:
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:
                # A subscriber is the host's code, and its failure must not break the turn.
                log.exception("a subscriber failed")
