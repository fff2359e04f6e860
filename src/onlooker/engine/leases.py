"""Leases: one worker at a time on a session, so that no two pay for the same model call, and one process at a
time on a job for the whole store.

Correctness does not depend on them: the commit's guard refuses what was decided on an older state. A worker
may lose its lease while its process is suspended, so it checks before each model call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from weakref import WeakValueDictionary

from onlooker.domain.errors import OnlookerError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import State
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

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
        turn = self._locks.setdefault(session, asyncio.Lock())
        async with turn:
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


# ------------------------------------------------------------------------------------ jobs

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
    """The lease on a job that one process does for all that share a store.

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
    async def turn(self, every: timedelta) -> AsyncGenerator[bool]:
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
