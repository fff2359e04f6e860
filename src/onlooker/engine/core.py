"""The parts that a memory and its sessions share, and their life cycle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from onlooker.domain.context import Layers
from onlooker.domain.errors import ClosedError
from onlooker.domain.events import UNSTAMPED, Calibrated, Event, Searched
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Appended, State
from onlooker.engine.background import Background
from onlooker.engine.buffer import Buffer
from onlooker.engine.ending import Ending
from onlooker.engine.histories import Histories
from onlooker.engine.indexing import Index
from onlooker.engine.items import Items, ShownItems
from onlooker.engine.meaning import GraphIndex, Meaning, VectorIndex
from onlooker.engine.retention import Retention
from onlooker.engine.worker import Composer, Worker
from onlooker.engine.writing import Writer
from onlooker.policy.assemble import Counting, MemorySection, memory_section
from onlooker.policy.layers import in_order
from onlooker.policy.settings import TIMING, Limits, Settings, Timing, check, suited
from onlooker.policy.tokens import Calibration, Remembering, estimator
from onlooker.ports import Clock, Embedder, Files, Mirror, Model, Store, Workers

if TYPE_CHECKING:
    from onlooker.domain.search import Hit
    from onlooker.engine.events import EventStream
    from onlooker.engine.searching import Search
    from onlooker.policy.reply.extraction import Extractors

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
        timing: Timing = TIMING,
        observer: Model,
        reflector: Model,
        builtin: Composer,
        clock: Clock,
        tz: tzinfo,
        types: Extractors | None = None,
        knowledge: Layers | None = None,
        embedder: Embedder | None = None,
        workers: Callable[[Core], Workers] | None = None,
        journal: Callable[[Core], Mirror] | None = None,
        files: Callable[[Core], Files] | None = None,
    ) -> None:
        self.settings = settings = suited(
            check(settings),
            free_observer=observer.name == builtin.name,
            free_reflector=reflector.name == builtin.name,
        )
        self.timing = timing
        self.store = store
        self.clock = clock
        self.tz = tz
        self.knowledge = in_order(knowledge or {})
        self.histories = Histories()
        self._sections: dict[str, tuple[tuple[int, int, Limits], MemorySection]] = {}
        self.listeners: list[Callable[[Event], None]] = []
        # One that nobody reads any more is let go of with its reader.
        self.streams: WeakSet[EventStream[Any]] = WeakSet()
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
            timing,
        )
        self.buffer = (workers or _tasks)(self)
        self.journal = journal(self) if journal else None
        self.retention = Retention(
            store, settings, clock, self.emit, self.journal, self.ready, timing.sweep_seconds
        )
        self.meaning = Meaning(embedder) if embedder else None
        vectors = VectorIndex(store, embedder, settings.model_deadline) if embedder else None
        shared = not isinstance(self.buffer, Buffer)
        self.index = Index(
            GraphIndex(store), vectors, store, timing, self.emit, ready=self.ready, shared=shared
        )
        self.items = Items(store, clock, self.emit, self.ready)
        self.shown_items = ShownItems(store, settings, self.estimator.text, clock)
        self.ending = Ending(store, settings, clock, self.emit, self.worker, tz, timing.sweep_seconds)
        self.background = Background(self.buffer, self.worker, self.ending, self.emit, self.ready)
        self.worker.condensed = self.ending.condensed
        self.files = files(self) if files else None
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
            if self.settings.enabled:
                try:
                    if self.buffer.here:
                        self._start()
                    await self.buffer.start()
                except BaseException:
                    await self._stop(0.0)
                    raise
            self._open, self._closed = True, False

    def _start(self) -> None:
        """Whatever goes on in the background besides notes."""
        if self.journal:
            self.listeners.append(self.journal.hear)
            self.journal.start()
        if self.files:
            self.listeners.append(self.files.hear)
            self.files.start()
        self.listeners.append(self.index.hear)
        self.index.start()
        self.ending.start()
        self.retention.start()

    async def close(self) -> None:
        async with self._life:
            was_open, self._open, self._closed = self._open, False, True
            if was_open:
                await self._stop(self.timing.stop_deadline)
            for stream in tuple(self.streams):
                stream.close()

    async def _stop(self, deadline: float) -> None:
        stop_by = time.monotonic() + deadline
        await self.retention.stop()
        await self.buffer.stop(deadline)
        await self.ending.stop(stop_by - time.monotonic())
        await self._stop_indexing(stop_by - time.monotonic())
        if self.journal and self.journal.hear in self.listeners:
            await self.journal.stop(stop_by - time.monotonic())
            self.listeners.remove(self.journal.hear)
        if self.files and self.files.hear in self.listeners:
            await self.files.stop(stop_by - time.monotonic())
            self.listeners.remove(self.files.hear)
        await self.store.close()

    async def _stop_indexing(self, deadline: float) -> None:
        await self.index.stop(deadline)
        if self.meaning:
            await self.meaning.stop()
        if self.index.hear in self.listeners:
            self.listeners.remove(self.index.hear)

    # -- shared

    @property
    def counting(self) -> Counting:
        return Counting(self.estimator, self._calibration)

    async def calibrate(self, counted: int, reported: int) -> None:
        """Learn from what a provider reported for a prompt that we counted."""
        learned = self._calibration.learn(counted, reported)
        if learned != self._calibration:
            before, self._calibration = self._calibration, learned
            await self.store.set_value(_CALIBRATION, learned.to_json())
            if learned.ratio != before.ratio:
                self.emit(Calibrated(learned.ratio))

    def section(self, state: State, bounds: Limits, counting: Counting) -> MemorySection:
        """The memory section, made anew only where notes or limits changed."""
        progress = state.progress
        key = (progress.revision, progress.prompt_version, bounds)
        known = self._sections.pop(progress.sid, None)
        section = known[1] if known and known[0] == key else memory_section(state, bounds, counting)
        self._sections[progress.sid] = key, section
        if len(self._sections) > MOST_SECTIONS:
            del self._sections[next(iter(self._sections))]
        return section

    def forget(self, session: SessionId) -> None:
        """Let go of everything kept in mind about a session."""
        self.histories.drop(session.sid)
        self.ending.forget(session)
        self._sections.pop(session.sid, None)

    async def erase(self, sessions: Sequence[SessionId], *, owners: Sequence[str]) -> bool:
        """See to it that what was forgotten is in no file any more; False where that waits for others
        who read the store's files now."""
        if self.journal:
            await self.journal.renew(sessions, owners)
        if self.files:
            await self.files.renew(sessions, owners)
        return await self.store.erase()

    async def imported(self) -> None:
        """Sessions came in from elsewhere."""
        if self.journal and self.settings.enabled:
            await self.journal.catch_up()

    def wake(self, session: SessionId, appended: Appended) -> None:
        """Tell the buffer, where what was recorded has made the session due."""
        self.ending.used(session)
        due = appended.progress.due_at
        if self.settings.enabled and due is not None and due <= self.clock.now():
            self.buffer.wake(session)

    def wake_unless_put_off(self, state: State) -> None:
        """Tell the buffer that something may be due, but for a model that is given time to recover."""
        due = state.progress.due_at
        if due is None or due <= self.clock.now():
            self.buffer.wake(state.progress.session)

    async def search(self, search: Search, text: str) -> list[Hit]:
        """The best hits first."""
        began = time.perf_counter()
        hits = await search.run(self.store, text, self.meaning)
        where, took = search.session.key if search.session else "", time.perf_counter() - began
        self.emit(Searched(search.owner, text, len(hits), where, seconds=took))
        return hits

    def emit(self, event: Event) -> None:
        """Tell whoever listens, in the order in which they came."""
        if not self.listeners and not self.streams:
            return
        if event.at is UNSTAMPED:
            event = replace(event, at=self.clock.now())
        for stream in tuple(self.streams):
            stream.hear(event)
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception:
                # A subscriber is the host's code, and its failure must not break the turn.
                log.exception("a subscriber failed")


def _tasks(core: Core) -> Workers:
    """Tasks of this process take the notes, where nothing else is said."""
    return Buffer(
        core.store,
        core.clock,
        core.worker.advance,
        concurrency=core.settings.concurrency,
        sweep_seconds=core.timing.sweep_seconds,
    )
