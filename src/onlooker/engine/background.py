"""Background work: periodic jobs, and tasks that take the notes of sessions that are due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from onlooker.domain.errors import OnlookerError
from onlooker.domain.messages import SessionId
from onlooker.engine.retention import Compaction, Compactor
from onlooker.engine.session_end import SessionEnd
from onlooker.policy import pace
from onlooker.ports import Clock, Store, Workers

log = logging.getLogger("onlooker")

# How long closing waits for the first run of a job that must run at least once, and the minimum time for
# final runs.
STOP_SECONDS = 1.0


class Background:
    """Notes and session ends in the background; `memory.background`. They run automatically while a memory is
    open."""

    def __init__(
        self,
        workers: Workers,
        session_end: SessionEnd,
        compaction: Compaction,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._workers = workers
        self._session_end = session_end
        self._compaction = compaction
        self._ready = ready

    @property
    def takes_notes(self) -> bool:
        """Whether this process takes notes. If not, other processes do."""
        return self._workers.takes_notes

    @property
    def pending(self) -> int:
        """Sessions whose notes are being taken now."""
        return self._workers.pending

    async def tick(self) -> int:
        """Start taking the notes of every session that is due; return how many there are."""
        await self._ready()
        return await self._workers.tick()

    async def flush(self) -> None:
        """Wait until everything in progress is done or postponed."""
        await self._ready()
        await self._workers.flush()

    async def end_idle(self, *, idle: timedelta | None = None) -> int:
        """End sessions without a message for that long, by default for the setting `idle_minutes`; return how
        many. This happens automatically unless `idle_minutes` is 0."""
        await self._ready()
        return await self._session_end.end_idle(idle)

    def set_compactor(self, compactor: Compactor | None) -> None:
        """Set the function that removes noted messages from a session; None removes none. It gets the
        session (its `owner` and `key`), the seq of the last message to remove, and the note. The setting
        `compact` uses the store's own."""
        self._compaction.use(compactor)


# ------------------------------------------------------------------------------------ periodic jobs


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Work that a memory repeats while it is open."""

    name: str
    run: Callable[[], Awaitable[object]]
    every: float  # seconds after the last run has ended
    first: float = 0.0  # seconds until the first run
    at_least_once: bool = False  # also in a process that ends soon
    # Set to run the job at once.
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    # A final run. A job that has one keeps running until everything else has stopped.
    finish: Callable[[], Awaitable[object]] | None = None


class JobLoop:
    """Repeats jobs. Each has its own task, so that a long job does not hold up the others."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = tuple(jobs)
        self._tasks: dict[Job, asyncio.Task[None]] = {}
        self._first_runs: dict[Job, asyncio.Event] = {}  # closing waits for these
        self._ending: set[Job] = set()  # jobs that are not run again

    def start(self) -> None:
        """Start running the jobs."""
        if not self._tasks:
            self._ending.clear()
            self._first_runs = {job: asyncio.Event() for job in self._jobs if job.at_least_once}
            for job in self._jobs:
                self._tasks[job] = asyncio.create_task(self._repeat(job), name=f"onlooker {job.name}")

    async def stop(self) -> None:
        """Cancel the jobs without a final run."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                for ended in self._first_runs.values():
                    await ended.wait()
        self._first_runs.clear()
        await self._cancel([job for job in self._tasks if job.finish is None])

    async def finish(self, deadline: float) -> None:
        """Give the other jobs their final run, and cancel those that take longer than `deadline` seconds.
        They get at least STOP_SECONDS, because slow models may have used up the time."""
        self._ending.update(self._tasks)
        for job in self._tasks:
            job.woken.set()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=max(STOP_SECONDS, deadline))
        late = [job for job, task in self._tasks.items() if not task.done()]
        for job in late:
            log.warning("%s: not finished in time; the next process does the rest", job.name)
        await self._cancel(late)
        self._tasks.clear()

    async def _cancel(self, jobs: Sequence[Job]) -> None:
        self._ending.update(jobs)
        tasks = [self._tasks.pop(job) for job in jobs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, job: Job) -> None:
        await asyncio.sleep(job.first)
        while job not in self._ending:
            job.woken.clear()
            await self._run(job, job.run)
            if job in self._first_runs:
                self._first_runs[job].set()
            if job not in self._ending:
                with suppress(TimeoutError):
                    # Not `wait_for`, which may swallow being cancelled.
                    async with asyncio.timeout(job.every):
                        await job.woken.wait()
        if job.finish:
            await self._run(job, job.finish)

    async def _run(self, job: Job, run: Callable[[], Awaitable[object]]) -> None:
        try:
            await run()
        except OnlookerError as error:
            log.warning("%s failed, and will be retried: %s", job.name, error)
        except Exception:
            log.exception("%s failed, and will be retried: this is a bug in Onlooker", job.name)


# ------------------------------------------------------------------------------------ note tasks


class NoteTasks:
    """Runs `advance` for sessions that are due: several at a time, each by one task at a time.

    It holds a set of sessions. Waking a session twice counts once, so nothing is dropped, and the set can be
    rebuilt from the store at any time.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        advance: Callable[[SessionId], Awaitable[bool]],
        *,
        concurrency: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._advance = advance
        self._slots = asyncio.Semaphore(concurrency)
        self._waiting: set[SessionId] = set()
        self._running: dict[SessionId, asyncio.Task[None]] = {}
        self._stopping = False

    @property
    def takes_notes(self) -> bool:
        return True

    @property
    def pending(self) -> int:
        """Sessions woken and not yet settled."""
        return len(self._waiting | self._running.keys())

    async def start(self) -> None:
        """Pick up what an earlier process left due."""
        self._stopping = False
        await self.tick()

    def wake(self, session: SessionId) -> None:
        """Start on a session that may be due. Returns at once."""
        if self._stopping:
            return
        if session in self._running:
            self._waiting.add(session)
        else:
            task = asyncio.create_task(self._run(session), name=f"onlooker {session.key}")
            self._running[session] = task

    async def tick(self) -> int:
        """Wake every session that is due in the store; return how many."""
        due = await self._store.due(self._clock.now())
        for session in due:
            self.wake(session)
        return len(due)

    async def flush(self) -> None:
        """Wait until everything woken so far is settled or postponed."""
        while self._running:
            # Not `gather`: a caller who stops waiting must not stop the work.
            await asyncio.wait(list(self._running.values()))

    async def stop(self, deadline: float) -> bool:
        """Start nothing new and let work in progress complete; False if the deadline interrupted it.

        Interrupted work stays due in the store, and its messages stay raw.
        """
        self._stopping = True
        self._waiting.clear()
        running = list(self._running.values())
        if not running:
            return True
        _, late = await asyncio.wait(running, timeout=deadline)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return not late

    async def _run(self, session: SessionId) -> None:
        settled = False
        try:
            async with self._slots:
                await pace.between_turns()
                self._waiting.discard(session)
                settled = await self._advance(session)
        except OnlookerError as error:
            # The session stays due, and the next sweep tries it again.
            log.warning("%s: notes not taken now: %s", session.key, error)
        except Exception:
            log.exception("%s: notes not taken: this is a bug in Onlooker", session.key)
        finally:
            del self._running[session]
            if session in self._waiting:
                self._waiting.discard(session)
                # If a model failed, the session is postponed, and a later sweep tries it again.
                if settled:
                    self.wake(session)


class RecordOnly(NoteTasks):
    """Takes no notes by itself: what is due stays in the store, where workers of other processes find it.

    `tick` and `flush`, which a host calls itself, still take notes.
    """

    @property
    def takes_notes(self) -> bool:
        return False

    async def start(self) -> None:
        self._stopping = False

    def wake(self, session: SessionId) -> None:
        pass

    async def tick(self) -> int:
        due = await self._store.due(self._clock.now())
        for session in due:
            super().wake(session)
        return len(due)
