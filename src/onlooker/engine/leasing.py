"""Leases: one worker at a time on a session, so that no two pay for the same call.

What is right never depends on them: the commit's guard refuses what was decided on an older state. A worker
may lose its lease without noticing, when its process stands still; so it looks before it pays.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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
