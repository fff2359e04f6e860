"""Leases: one worker at a time on a session, so that no two pay for the same model call; and one process at a
time on a job that concerns the whole store.

Correctness never depends on them: the commit's guard refuses what was decided on an older state. A worker may
lose its lease without noticing while its process is suspended, so it checks before it pays.
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

# How long a worker that is stopped in the middle tries to give a session back.
GIVE_BACK_SECONDS = 1.0


@dataclass(slots=True)
class Lease:
    """A session that is ours until then, unless that is extended."""

    session: SessionId
    fence: int
    until: datetime
    over: bool = False
    # Else a beat that is on its way while the session is given back would take it once more.
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Leases:
    """The leases of one process."""

    store: Store
    clock: Clock
    seconds: float
    holder: str = field(default_factory=lambda: secrets.token_hex(8))
    # One at a time within a session: a lease tells processes apart, not tasks of this one.
    _turns: WeakValueDictionary[SessionId, asyncio.Lock] = field(
        default_factory=WeakValueDictionary[SessionId, asyncio.Lock]
    )

    @asynccontextmanager
    async def held(self, session: SessionId) -> AsyncGenerator[Lease | None]:
        """Hold the session for however long this takes; None while another process has it.

        Whoever is done says so by `release`. Where the work is cancelled, or the taking of it, the session is
        given back as it stands: others should not have to wait until the lease of a worker that stops has run
        out.
        """
        turn = self._turns.setdefault(session, asyncio.Lock())
        async with turn:
            lease = await self._take(session)
            if lease is None:
                yield None
                return
            beat = asyncio.create_task(self._keep(lease), name=f"onlooker lease {session.key}")
            try:
                yield lease
            except asyncio.CancelledError:
                with suppress(OnlookerError, TimeoutError):
                    async with asyncio.timeout(GIVE_BACK_SECONDS):
                        await self.give_back(lease)
                raise
            finally:
                beat.cancel()
                # Before the next one's turn: what it is about to give back would be theirs.
                await asyncio.wait([beat])

    @asynccontextmanager
    async def alone(self, session: SessionId) -> AsyncGenerator[bool]:
        """Hold the session for work that takes no notes; False while another has it."""
        async with self.held(session) as lease:
            yield lease is not None
            if lease is not None:
                await self.give_back(lease)

    async def still_held(self, lease: Lease) -> bool:
        """Whether it is ours; one that has run out is extended where nobody else was there meanwhile."""
        return self.clock.now() < lease.until or await self.extend(lease)

    async def extend(self, lease: Lease) -> bool:
        """Hold it for longer; False where it is no longer ours."""
        async with lease.changing:
            again = None if lease.over else await self._take(lease.session)
            if again is not None and again.fence == lease.fence:
                lease.until = again.until
                return True
            lease.over = True
            if again is not None:
                # Another had it and is done. What we are at was decided before that, and is worth nothing.
                await self.give_back(again)
            return False

    async def give_back(self, lease: Lease) -> None:
        """Release the session as it stands."""
        if (state := await self.store.load(lease.session)) is not None:
            progress = state.progress
            await self.release(state, lease, progress.due_at, progress.wake_at, progress.failures)

    async def release(
        self, state: State, lease: Lease, due_at: datetime | None, wake: int, failures: int
    ) -> None:
        """Say when the session is due next, and let go of it."""
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
        taking = asyncio.ensure_future(self._asked_for(session))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The store may be about to give it to us, and then nobody would know who has it.
            with suppress(OnlookerError, TimeoutError):
                async with asyncio.timeout(GIVE_BACK_SECONDS):
                    if (lease := await taking) is not None:
                        await self.give_back(lease)
            raise

    async def _asked_for(self, session: SessionId) -> Lease | None:
        now = self.clock.now()
        until = now + timedelta(seconds=self.seconds)
        fence = await self.store.lease(session, holder=self.holder, now=now, until=until)
        return None if fence is None else Lease(session, fence, until)

    async def _keep(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(self.seconds / 3)
            try:
                if not await self.extend(lease):
                    return
            except OnlookerError as error:
                # It holds for two more beats, and the storage may be back by then.
                log.debug("%s: the lease is not extended now: %s", lease.session.key, error)


# ------------------------------------------------------------------------------------ jobs

# A process that took a job and did not finish it is gone after this.
JOB_AT_MOST = timedelta(minutes=10)
# How long a process that holds a job keeps it, unless it extends that.
JOB_SECONDS = 30.0
# Longer than it takes to read a value and write it.
CLAIM_SECONDS = 0.1
FREE_SECONDS = 1.0
NEVER = datetime.min.replace(tzinfo=UTC)


class JobLease:
    """A job that one process at a time does for all that share a store; known to the store by its name.

    It is a named value, without a lock: two processes at once cost time, and nothing else.
    """

    def __init__(self, store: Store, clock: Clock, name: str, *, version: Sequence[int] = ()) -> None:
        self._store = store
        self._clock = clock
        self._name = name
        self._version = list(version)  # processes with another version do the job for themselves
        self._holder = secrets.token_hex(8)
        self._due = clock.now()

    async def hold(self) -> bool:
        """Take the job for a while, or extend it; False while another process has it."""
        now = self._clock.now()
        said = await self._store.get_value(self._name)
        if said is not None:
            holder, _, _, until = json.loads(said)
            left = datetime.fromisoformat(until) - now
            if holder != self._holder and timedelta() < left < 2 * JOB_AT_MOST:
                return False
            if holder == self._holder and left.total_seconds() > JOB_SECONDS / 2:
                return True
        await self._say(now, now + timedelta(seconds=JOB_SECONDS))
        return True

    @asynccontextmanager
    async def turn(self, every: timedelta) -> AsyncGenerator[bool]:
        """Whether the job is due, and ours to do now: once in `every` for all processes of this version."""
        now = self._clock.now()
        if now < self._due:
            self._due = min(self._due, now + every)  # a clock that was set back must not postpone it
            yield False
            return
        said = await self._store.get_value(self._name)
        if said is not None and not self._is_free(said, now, every):
            yield False
            return
        try:
            # Where nobody ever did the job, there is little to do.
            ours = await self._claim(now, every, wait=0.0 if said is None else CLAIM_SECONDS)
            yield ours
        except BaseException:
            # Cancelled or failed: it does not count, and the next process need not wait.
            self._due = now
            with suppress(OnlookerError, TimeoutError):
                async with asyncio.timeout(FREE_SECONDS):
                    await self._say(NEVER, NEVER)
            raise
        if ours:
            await self._say(now, now)

    def _is_free(self, said: str, now: datetime, every: timedelta) -> bool:
        _, version, *times = json.loads(said)
        began, until = map(datetime.fromisoformat, times)
        if now < until < now + 2 * JOB_AT_MOST:
            return False  # another process is at it
        if version == self._version and self._due <= began < now + every:
            self._due = began + every  # another process did it since
            return False
        return True

    async def _claim(self, now: datetime, every: timedelta, wait: float) -> bool:
        """Claim the job. Processes that start together look together and may all claim it, so it belongs to
        the one that did so last."""
        due, self._due = self._due, now + every
        await self._say(now, now + JOB_AT_MOST)
        await asyncio.sleep(wait)
        holder, *_ = json.loads(await self._store.get_value(self._name) or "[null]")
        if holder != self._holder:
            self._due = due  # it may have another version
        return holder == self._holder

    async def _say(self, began: datetime, until: datetime) -> None:
        times = began.isoformat(), until.isoformat()
        await self._store.set_value(self._name, json.dumps([self._holder, self._version, *times]))
