"""Which sessions have notes due, and the tasks that take them.

A set of session keys: waking a session twice is waking it once, so nothing can be dropped, and what
it holds can be rebuilt from the store at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from onlooker.domain.errors import OnlookerError
from onlooker.domain.messages import SessionId
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")


class Buffer:
    """Runs `advance` for sessions that are due: several at a time, each by one task at a time."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        advance: Callable[[SessionId], Awaitable[bool]],
        *,
        concurrency: int,
        sweep_seconds: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._advance = advance
        self._slots = asyncio.Semaphore(concurrency)
        self._sweep_seconds = sweep_seconds
        self._waiting: set[SessionId] = set()
        self._running: dict[SessionId, asyncio.Task[None]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def here(self) -> bool:
        return True

    @property
    def pending(self) -> int:
        """Sessions woken and not yet settled."""
        return len(self._waiting | self._running.keys())

    async def start(self) -> None:
        """Pick up what an earlier process left due, and look again now and then."""
        self._stopping = False
        await self.tick()
        self._sweeper = asyncio.create_task(self._sweep(), name="onlooker sweep")

    def wake(self, session: SessionId) -> None:
        """Say that the session may have something due. Returns at once."""
        if self._stopping:
            return
        if session in self._running:
            self._waiting.add(session)
        else:
            task = asyncio.create_task(self._run(session), name=f"onlooker {session.key}")
            self._running[session] = task

    async def tick(self) -> int:
        """Wake every session that the store says is due; return how many."""
        due = await self._store.due(self._clock.now())
        for session in due:
            self.wake(session)
        return len(due)

    async def flush(self) -> None:
        """Wait until everything woken so far is settled or has been put off."""
        while self._running:
            # Not `gather`: a caller who stops waiting must not stop the work.
            await asyncio.wait(list(self._running.values()))

    async def stop(self, deadline: float) -> bool:
        """Take nothing new and let work in progress complete; False when the deadline cut it off.

        What is cut off stays due in the store, and its messages stay raw.
        """
        self._stopping = True
        self._waiting.clear()
        if self._sweeper:
            self._sweeper.cancel()
            self._sweeper = None
        running = list(self._running.values())
        if not running:
            return True
        _, late = await asyncio.wait(running, timeout=deadline)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return not late

    async def _run(self, session: SessionId) -> None:
        try:
            async with self._slots:
                self._waiting.discard(session)
                await self._advance(session)
        except OnlookerError as error:
            # The turn must not hear of it; the session stays due and the sweep comes back to it.
            log.warning("%s: notes not taken now: %s", session.key, error)
        except Exception:
            log.exception("%s: notes not taken: this is a bug in Onlooker", session.key)
        finally:
            del self._running[session]
            if session in self._waiting:
                self._waiting.discard(session)
                self.wake(session)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._sweep_seconds)
            try:
                await self.tick()
            except OnlookerError as error:
                log.warning("looking for sessions that are due: %s", error)
            except Exception:
                log.exception("looking for sessions that are due: this is a bug in Onlooker")
