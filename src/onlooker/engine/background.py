"""Background work: tasks that take the notes of sessions that are due, periodic jobs, and the leases of both.

A lease lets one worker at a time work on a session, so that no two pay for the same model call, and one
process at a time do a job for the whole store. Correctness does not depend on leases: the commit's guard
refuses what was decided on an older state. A worker may lose its lease while its process is suspended, so it
checks before each model call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from onlooker.domain.errors import OnlookerError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import State
from onlooker.policy import pace
from onlooker.ports import Clock, Store, Workers

if TYPE_CHECKING:
    from onlooker.engine.item_maker import ItemMaker
    from onlooker.engine.note_taker import Compaction, Compactor

log = logging.getLogger("onlooker")

# How long closing waits for the first run of a job that must run at least once, and the minimum time for
# final runs.
STOP_SECONDS = 1.0
# A model may swallow a cancellation, but seldom this many.
MAX_CANCELS = 5


class Background:
    """Notes and session ends in the background; `memory.background`. They run automatically while a memory is
    open."""

    def __init__(
        self,
        workers: Workers,
        item_maker: ItemMaker,
        compaction: Compaction,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._workers = workers
        self._item_maker = item_maker
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
        return await self._item_maker.end_idle(idle)

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
        left = late
        for _ in range(MAX_CANCELS if late else 0):
            for task in left:
                task.cancel()
            done, left = await asyncio.wait(left, timeout=STOP_SECONDS)
            await asyncio.gather(*done, return_exceptions=True)
            if not left:
                break
        if left:
            log.warning("%d calls of a model cannot be stopped and are left to themselves", len(left))
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


# ------------------------------------------------------------------------------------ leases on sessions

# How long a cancelled worker tries to give a session back.
GIVE_BACK_SECONDS = 1.0


@dataclass(slots=True)
class Lease:
    """A session that this process holds until a time that can be extended."""

    session: SessionId
    fence: int
    until: datetime
    over: bool = False
    # Without it, a heartbeat during the release would take the session again.
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Leases:
    """The leases of one process."""

    store: Store
    clock: Clock
    seconds: float
    holder: str = field(default_factory=lambda: secrets.token_hex(8))
    # One task at a time on a session: a lease tells processes apart, not the tasks of one.
    _locks: WeakValueDictionary[SessionId, asyncio.Lock] = field(
        default_factory=WeakValueDictionary[SessionId, asyncio.Lock]
    )

    @asynccontextmanager
    async def held(self, session: SessionId) -> AsyncGenerator[Lease | None]:
        """Hold the session for the length of the block; None if another process has it.

        Finished work calls `release`. If the work is cancelled, the session is given back unchanged, so that
        others need not wait until the lease expires.
        """
        async with self._locks.setdefault(session, asyncio.Lock()):
            lease = await self._take(session)
            if lease is None:
                yield None
                return
            beat = asyncio.create_task(self._beat(lease), name=f"onlooker lease {session.key}")
            try:
                yield lease
            except asyncio.CancelledError:
                with suppress(OnlookerError, TimeoutError):
                    async with asyncio.timeout(GIVE_BACK_SECONDS):
                        await self.give_back(lease)
                raise
            finally:
                beat.cancel()
                # Before the next task starts, whose lease a late heartbeat would give back.
                await asyncio.wait([beat])

    @asynccontextmanager
    async def alone(self, session: SessionId) -> AsyncGenerator[bool]:
        """Hold the session for work that takes no notes; False if another process has it."""
        async with self.held(session) as lease:
            yield lease is not None
            if lease is not None:
                await self.give_back(lease)

    async def still_held(self, lease: Lease) -> bool:
        """Whether the lease still holds. An expired one is extended if nobody else took it since."""
        return self.clock.now() < lease.until or await self.extend(lease)

    async def extend(self, lease: Lease) -> bool:
        """Extend the lease; False if it is lost."""
        async with lease.changing:
            again = None if lease.over else await self._take(lease.session)
            if again is not None and again.fence == lease.fence:
                lease.until = again.until
                return True
            lease.over = True
            if again is not None:
                # Another process had it in between, so what we decided before is out of date.
                await self.give_back(again)
            return False

    async def give_back(self, lease: Lease) -> None:
        """Release the session without changing when it is due."""
        if (state := await self.store.load(lease.session, newest=1)) is not None:
            progress = state.progress
            await self.release(state, lease, progress.due_at, progress.wake_at, progress.failures)

    async def release(
        self, state: State, lease: Lease, due_at: datetime | None, wake: int, failures: int
    ) -> None:
        """Store when the session is due next, and end the lease."""
        async with lease.changing:
            lease.over = True
            await self.store.release(
                lease.session,
                fence=lease.fence,
                last_seq=state.progress.last_seq,
                due_at=due_at,
                wake_at=wake,
                failures=failures,
            )

    async def _take(self, session: SessionId) -> Lease | None:
        taking = asyncio.ensure_future(self._request(session))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The store may grant it after the cancellation; give it back then.
            with suppress(OnlookerError, TimeoutError):
                async with asyncio.timeout(GIVE_BACK_SECONDS):
                    if (lease := await taking) is not None:
                        await self.give_back(lease)
            raise

    async def _request(self, session: SessionId) -> Lease | None:
        now = self.clock.now()
        until = now + timedelta(seconds=self.seconds)
        fence = await self.store.lease(session, holder=self.holder, now=now, until=until)
        return None if fence is None else Lease(session, fence, until)

    async def _beat(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(self.seconds / 3)
            try:
                if not await self.extend(lease):
                    return
            except OnlookerError as error:
                # It is valid for two more heartbeats; the store may be back by then.
                log.debug("%s: could not extend the lease: %s", lease.session.key, error)


# ------------------------------------------------------------------------------------ leases on jobs

# A process that does not finish a job within this time is considered dead.
JOB_DEADLINE = timedelta(minutes=10)
# How long a process holds a job unless it extends that.
JOB_SECONDS = 30.0
# How long a claim waits for the claims of other processes: longer than reading and writing a value takes.
CLAIM_SECONDS = 0.1
# How long a cancelled process tries to free a job.
FREE_SECONDS = 1.0
NEVER = datetime.min.replace(tzinfo=UTC)


class JobLease:
    """The lease on a job that one process does for all processes that share a store.

    It is a named value in the store, without a lock: two processes at once only waste time.
    """

    def __init__(self, store: Store, clock: Clock, name: str, *, version: Sequence[int] = ()) -> None:
        self._store = store
        self._clock = clock
        self._name = name
        self._version = list(version)  # processes of another version do the job separately
        self._holder = secrets.token_hex(8)
        self._due = clock.now()

    async def hold(self) -> bool:
        """Take the job for a while, or extend the lease; False if another process has it."""
        now = self._clock.now()
        stored = await self._store.get_value(self._name)
        if stored is not None:
            holder, _, _, until = json.loads(stored)
            left = datetime.fromisoformat(until) - now
            if holder != self._holder and timedelta() < left < 2 * JOB_DEADLINE:
                return False
            if holder == self._holder and left.total_seconds() > JOB_SECONDS / 2:
                return True
        await self._write(now, now + timedelta(seconds=JOB_SECONDS))
        return True

    @asynccontextmanager
    async def claimed(self, every: timedelta) -> AsyncGenerator[bool]:
        """Take the job for the length of the block; False if it is not due or another process has it. All
        processes of this version together do it once per `every`."""
        now = self._clock.now()
        if now < self._due:
            self._due = min(self._due, now + every)  # in case the clock was set back
            yield False
            return
        stored = await self._store.get_value(self._name)
        if stored is not None and not self._is_free(stored, now, every):
            yield False
            return
        try:
            # If the job was never done, there is little to do: no need to wait.
            ours = await self._claim(now, every, wait=0.0 if stored is None else CLAIM_SECONDS)
            yield ours
        except BaseException:
            # Cancelled or failed: that run does not count, and the next process need not wait.
            self._due = now
            with suppress(OnlookerError, TimeoutError):
                async with asyncio.timeout(FREE_SECONDS):
                    await self._write(NEVER, NEVER)
            raise
        if ours:
            await self._write(now, now)

    def _is_free(self, stored: str, now: datetime, every: timedelta) -> bool:
        _, version, *times = json.loads(stored)
        began, until = map(datetime.fromisoformat, times)
        if now < until < now + 2 * JOB_DEADLINE:
            return False  # another process is doing it
        if version == self._version and self._due <= began < now + every:
            self._due = began + every  # another process has done it
            return False
        return True

    async def _claim(self, now: datetime, every: timedelta, wait: float) -> bool:
        """Claim the job. Processes that start together may all claim it; the last one to do so gets it."""
        due, self._due = self._due, now + every
        await self._write(now, now + JOB_DEADLINE)
        await asyncio.sleep(wait)
        holder, *_ = json.loads(await self._store.get_value(self._name) or "[null]")
        if holder != self._holder:
            self._due = due  # the other one may be of another version
        return holder == self._holder

    async def _write(self, began: datetime, until: datetime) -> None:
        times = began.isoformat(), until.isoformat()
        await self._store.set_value(self._name, json.dumps([self._holder, self._version, *times]))
