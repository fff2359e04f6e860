"""What a memory and its sessions share, and its life cycle."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from onlooker.domain.context import Layers
from onlooker.domain.errors import ClosedError
from onlooker.domain.events import Calibrated, Searched
from onlooker.domain.messages import SessionId, new_id
from onlooker.domain.notes import AppendResult, State
from onlooker.domain.search import Hit
from onlooker.engine.background import Background, Job, JobLease, JobLoop, Leases, NoteTasks
from onlooker.engine.events import Events
from onlooker.engine.histories import Histories, Originals, Recent
from onlooker.engine.indexing import GraphIndex, Index, VectorIndex
from onlooker.engine.item_maker import ItemMaker
from onlooker.engine.items import Items, ShownItems
from onlooker.engine.note_taker import Compaction, Composer, NoteTaker
from onlooker.engine.recall import QueryVectors, Search
from onlooker.engine.recording import Budgets, Recorder
from onlooker.engine.retention import SWEEPS, Retention
from onlooker.engine.writer import Writer
from onlooker.policy.assemble import Counting, MemorySection, memory_section
from onlooker.policy.layers import in_order
from onlooker.policy.pace import paced
from onlooker.policy.plan import is_due_now, is_postponed
from onlooker.policy.render import Context, Prefix
from onlooker.policy.secrets import mask
from onlooker.policy.settings import TIMING, Limits, Settings, Timing, check, with_models
from onlooker.policy.tokens import Calibration, estimator
from onlooker.ports import Advance, Clock, Embedder, Model, Store, Workers

if TYPE_CHECKING:
    from onlooker.engine.forgetting import Forgetter
    from onlooker.files.journal import Journal
    from onlooker.files.notes_folder import NotesFolder
    from onlooker.policy.reply.extraction import Extractors

_CALIBRATION = "calibration"
_FOLDERS = "folders"

log = logging.getLogger("onlooker")
# Bytes of memory sections that are cached: those of some 120 sessions with a budget of 16,000 tokens.
MAX_SECTION_BYTES = 4_000_000
# Bytes of prefixes that are cached to compare the next prompt with: those of a thousand sessions.
MAX_PREFIX_BYTES = 1_000_000
# The longest time between two checks for idle sessions, in seconds.
MAX_PAUSE = 60.0


class Runtime:
    """The parts of one memory. `Memory` and `Session` reach them here; every other class takes what it uses
    in its constructor."""

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
        extractors: Extractors | None = None,
        knowledge: Layers | None = None,
        embedder: Embedder | None = None,
        workers: Callable[[Advance], Workers] | None = None,
    ) -> None:
        free_observer, free_reflector = observer.name == builtin.name, reflector.name == builtin.name
        settings = with_models(check(settings), free_observer=free_observer, free_reflector=free_reflector)
        self.settings = settings
        self.timing = timing
        self.store = store
        self.clock = clock
        self.tz = tz
        self.builtin = builtin
        self.asks_model = not free_observer
        self.knowledge = in_order(knowledge or {})
        self.estimator = estimator(settings.estimator)
        self.events = Events(clock)
        self.emit = self.events.emit
        self._calibration = Calibration()
        self._sections: Recent[str, tuple[tuple[int, int, Limits], MemorySection]] = Recent(MAX_SECTION_BYTES)
        self._prefixes: Recent[str, tuple[Prefix, Counter[str]]] = Recent(MAX_PREFIX_BYTES)
        self._histories = Histories()
        self.originals = Originals()
        self._open = False
        self._closed = False
        self._changing = asyncio.Lock()

        # Notes.
        self.budgets = Budgets(store, settings, self.estimator.text)
        self.compaction = Compaction(store, settings, clock, self.estimator, self.emit)
        self.leases = Leases(store, clock, timing.lease_seconds)
        observer_writer = Writer(
            observer, settings, self.estimator, clock, self.emit, store.record_usage, extractors=extractors
        )
        reflector_writer = replace(observer_writer, model=reflector, extractors=None)
        self.item_maker = ItemMaker(
            store,
            settings,
            clock,
            tz,
            self.emit,
            leases=self.leases,
            reflector=reflector_writer,
            asks_model=not free_reflector,
        )
        self.shown_items = ShownItems(
            store, settings, self.estimator.text, clock, self.item_maker.read_others
        )
        self.note_taker = self._make_note_taker(observer_writer, reflector_writer)
        self.workers: Workers = (
            workers(self.note_taker.advance)
            if workers
            else NoteTasks(store, clock, self.note_taker.advance, concurrency=settings.concurrency)
        )

        # Messages, items and search.
        self.recorder = self._make_recorder()
        self.items = Items(store, clock, self.emit, self.ready, settings.own_owner)
        self.query_vectors = QueryVectors(embedder) if embedder else None
        self.index = self._make_index(embedder)

        # Files and periodic jobs.
        self.journal = self._make_journal() if settings.journal else None
        self.files = self._make_notes_folder(not free_reflector) if settings.notes_folder else None
        self.retention = Retention(store, settings, clock, self.emit, self._remove_from_journal, self.ready)
        self.background = Background(self.workers, self.item_maker, self.compaction, self.ready)
        self._loop = JobLoop(self._jobs())
        self._unsubscribe: list[Callable[[], None]] = []
        # Whether the store has a journal or notes in folders that this process has no setting for.
        self._leaves_files = False

    def _make_note_taker(self, observer_writer: Writer, reflector_writer: Writer) -> NoteTaker:
        return NoteTaker(
            self.store,
            self.settings,
            self.clock,
            self.estimator,
            self.emit,
            observer=observer_writer,
            reflector=reflector_writer,
            builtin=self.builtin,
            budgets=self.budgets,
            leases=self.leases,
            compaction=self.compaction,
            timing=self.timing,
            choose_items=self.shown_items.choose_replacement,
            before_shown=self._count_ahead,
            on_noted=self.item_maker.on_noted,
            on_condensed=self.item_maker.on_condensed,
        )

    def _make_recorder(self) -> Recorder:
        return Recorder(
            self.store,
            self.settings,
            self.clock,
            self.estimator,
            self.emit,
            budgets=self.budgets,
            histories=self._histories,
            originals=self.originals,
            on_append=self._on_append,
        )

    def _make_index(self, embedder: Embedder | None) -> Index:
        return Index(
            GraphIndex(self.store),
            VectorIndex(self.store, embedder, self.settings.model_deadline) if embedder else None,
            self.store,
            self.timing,
            self.emit,
            ready=self.ready,
            own_owner=self.settings.own_owner,
            # Without a lease, each of several processes would pay for the same vectors.
            lease=None if isinstance(self.workers, NoteTasks) else self._job_lease,
        )

    # `onlooker.files` is loaded only by a memory that uses it.

    def _make_journal(self) -> Journal:
        from onlooker.files.journal import Journal

        folder = Path(self.settings.journal).expanduser()
        return Journal(folder, self.store, self.emit, pause=self.timing.sweep_seconds)

    def _make_notes_folder(self, asks_model: bool) -> NotesFolder:
        from onlooker.files.notes_folder import NotesFolder

        return NotesFolder(
            Path(self.settings.notes_folder).expanduser(),
            store=self.store,
            settings=self.settings,
            clock=self.clock,
            tz=self.tz,
            emit=self.emit,
            ready=self.ready,
            new_id=new_id,
            forget_item=self.items.archive,
            choose_items=self.item_maker.choose_items,
            asks_model=asks_model,
            pause=self.timing.sweep_seconds,
        )

    def _job_lease(self, name: str) -> JobLease:
        return JobLease(self.store, self.clock, name)

    def _jobs(self) -> list[Job]:
        sweep = self.timing.sweep_seconds
        jobs = [Job("index", self.index.sweep, sweep)]
        if isinstance(self.workers, NoteTasks):
            jobs.append(Job("notes", self.workers.tick, sweep, first=sweep))
        if self.item_maker.is_automatic:
            pause = min(MAX_PAUSE, max(sweep, self.settings.idle_minutes * 6))
            jobs.append(Job("session end", self.item_maker.end_idle, pause))
        if self.retention.is_wanted:
            jobs.append(Job("retention", self.retention.run, SWEEPS * sweep, at_least_once=True))
        # These two run when an event wakes them.
        if self.journal:
            journal = self.journal
            jobs.append(Job("journal", journal.run, sweep, woken=journal.woken, finish=journal.finish))
        if self.files:
            files = self.files
            jobs.append(Job("files", files.run, sweep, woken=files.woken, finish=files.finish))
        return jobs

    @property
    def _mirrors(self) -> list[Journal | NotesFolder]:
        return [mirror for mirror in (self.journal, self.files) if mirror]

    # -- opening and closing

    async def ready(self) -> None:
        """Open the memory at its first use.

        Raises:
            ClosedError: It was closed.
        """
        if self._open:
            return
        if self._closed:
            raise ClosedError("this memory was closed; open it again or make a new one")
        await self.open()

    async def open(self) -> None:
        async with self._changing:
            if self._open:
                return
            await self.store.open()
            self._calibration = Calibration.from_json(await self.store.get_value(_CALIBRATION) or "{}")
            if self.settings.enabled:
                try:
                    if self.workers.takes_notes:
                        self._start()
                    await self.workers.start()
                except BaseException:
                    await self._stop(0.0)
                    raise
            self._open, self._closed = True, False
        await self._finish_forgetting()

    def _start(self) -> None:
        """Start everything in the background except note taking."""
        for mirror in self._mirrors:
            self._unsubscribe.append(self.events.subscribe(mirror.on_event))
        self._unsubscribe.append(self.events.subscribe(self.index.on_event))
        self.index.start()
        self._loop.start()

    async def close(self) -> None:
        async with self._changing:
            was_open, self._open, self._closed = self._open, False, True
            if was_open:
                await self._stop(self.timing.stop_deadline)
            self.events.close()

    async def _stop(self, deadline: float) -> None:
        stop_by = time.monotonic() + deadline
        await self._loop.stop()
        await self.workers.stop(deadline)
        self.builtin.close()
        await self.item_maker.stop(stop_by - time.monotonic())
        await self.index.stop(stop_by - time.monotonic())
        if self.query_vectors:
            await self.query_vectors.stop()
        await self._loop.finish(stop_by - time.monotonic())
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe.clear()
        await self.store.close()

    # -- notes that are due

    def _on_append(self, session: SessionId, result: AppendResult) -> None:
        """Wake the session, if what was recorded made it due."""
        if self.settings.shares_items(session.owner):
            self.item_maker.mark_used(session)
        if self.settings.enabled and is_due_now(result.progress, self.clock.now()):
            self.workers.wake(session)

    def wake(self, state: State) -> None:
        """Wake a session that may be due, unless it waits for a model to recover."""
        if not is_postponed(state.progress, self.clock.now()):
            self.workers.wake(state.progress.session)

    # -- counting

    @property
    def counting(self) -> Counting:
        return Counting(self.estimator, self._calibration)

    async def calibrate(self, counted: int, reported: int) -> None:
        """Learn from the tokens that a provider reported for a prompt."""
        learned = self._calibration.learn(counted, reported)
        if learned != self._calibration:
            before, self._calibration = self._calibration, learned
            await self.store.set_value(_CALIBRATION, learned.to_json())
            if learned.ratio != before.ratio:
                self.emit(Calibrated(learned.ratio))

    # -- reading

    def section(self, state: State, limits: Limits, counting: Counting) -> MemorySection:
        """The memory section, made again only if notes or limits changed."""
        progress = state.progress
        key = (progress.revision, progress.prompt_version, limits)
        known = self._sections.get(progress.sid)
        if known and known[0] == key:
            return known[1]
        section = memory_section(state, limits, counting)
        self._sections.put(progress.sid, (key, section), 1_000 + sum(map(len, section.sections.texts())))
        return section

    async def _count_ahead(self, state: State) -> None:
        """Count the tokens of the memory section that a session is about to show, so that its next turn need
        not. Only for sessions whose turns are in this process."""
        if known := self._sections.get(state.progress.sid):
            await asyncio.to_thread(paced, memory_section, state, known[0][2], self.counting)

    def with_changes(self, sid: str, context: Context) -> Context:
        """The context, with the part of the prompt that changed since the session's last one, and how often
        each part does."""
        prefix = Prefix.of(context)
        known = self._prefixes.get(sid)
        changed = known[0].change_to(prefix) if known else ""
        counts = known[1] if known else Counter[str]()
        counts[changed] += 1
        self._prefixes.put(sid, (prefix, counts), 1_000)
        per_100 = {part: 100 * n / counts.total() for part, n in counts.items() if part}
        return replace(context, stats=replace(context.stats, changed=changed, changes_per_100=per_100))

    async def search(self, search: Search, text: str) -> list[Hit]:
        """Search, and report it as an event; the best hits first."""
        began = time.perf_counter()
        hits = await search.run(self.store, text, self.query_vectors)
        where, took = search.session.key if search.session else "", time.perf_counter() - began
        self.emit(Searched(search.owner, mask(text), len(hits), where, seconds=took))
        return hits

    # -- forgetting

    def drop_cached(self, session: SessionId) -> None:
        """Clear cached state of a session."""
        self._histories.drop(session.sid)
        self.originals.drop(session.sid)
        self.item_maker.drop_cached(session)
        self._sections.pop(session.sid)
        self._prefixes.pop(session.sid)

    @property
    def forgetter(self) -> Forgetter:
        """What forgets messages, sessions and owners."""
        from onlooker.engine.forgetting import Forgetter

        return Forgetter(
            self.store,
            self.settings,
            self.clock,
            self.estimator.text,
            self.emit,
            self.builtin,
            asks_model=self.asks_model,
            drop_cached=self.drop_cached,
            files=self._mirrors,
            leaves_files=self._leaves_files,
        )

    async def _finish_forgetting(self) -> None:
        """Store the folders of this store's files, and finish what a killed process had begun to forget.

        A failure is logged and retried at the next opening: it must not prevent opening.
        """
        own = self._folders
        try:
            known: list[str] = json.loads(await self.store.get_value(_FOLDERS) or "[]")
            if own and own != known:
                await self.store.set_value(_FOLDERS, json.dumps(own))
            elif not own:
                self._leaves_files = any(map(os.path.isdir, known))
            if await self.store.get_value("forgetting") not in (None, "[]"):
                await self.forgetter.finish()
        except Exception:
            log.exception("could not finish forgetting; the next opening tries again")

    @property
    def _folders(self) -> list[str]:
        named = (self.settings.journal, self.settings.notes_folder)
        return [os.path.abspath(os.path.expanduser(folder)) for folder in named if folder]

    async def _remove_from_journal(self, sessions: Sequence[SessionId]) -> None:
        if self.journal:
            await self.journal.remove_forgotten(sessions)

    async def imported(self) -> None:
        """Add imported sessions to the journal."""
        if self.journal and self.settings.enabled:
            await self.journal.catch_up()
