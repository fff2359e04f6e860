"""What a memory does in the background, as a host controls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from onlooker.domain.events import Compacted, Event
from onlooker.domain.notes import Progress
from onlooker.engine.ending import Ending
from onlooker.engine.worker import Worker
from onlooker.ports import Workers

# (session key, last message to take out, summary of what is taken out)
Compactor = Callable[[str, int, str], Awaitable[None]]


class Background:
    """Work in the background; `memory.background`. It runs by itself while a memory is open."""

    def __init__(
        self,
        workers: Workers,
        worker: Worker,
        ending: Ending,
        emit: Callable[[Event], None],
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._workers = workers
        self._worker = worker
        self._ending = ending
        self._emit = emit
        self._ready = ready

    @property
    def pending(self) -> int:
        """Sessions whose notes are being taken now."""
        return self._workers.pending

    async def tick(self) -> int:
        """Start on every session that is due, without waiting for it; return how many."""
        await self._ready()
        return await self._workers.tick()

    async def flush(self) -> None:
        """Wait until everything in progress is done or postponed."""
        await self._ready()
        await self._workers.flush()

    async def end_idle(self, *, idle: timedelta | None = None) -> int:
        """End sessions without a message for that long, by default the setting `idle_minutes`; return how
        many. It runs by itself unless `idle_minutes` is 0."""
        await self._ready()
        return await self._ending.end_idle(idle)

    def set_compactor(self, compactor: Compactor | None) -> None:
        """Replace what removes noted messages from a session (the setting `compact` installs the store's
        own); None: every message stays."""
        if compactor is None:
            self._worker.compact = None
            return

        async def compact(progress: Progress, up_to: int, summary: str) -> None:
            await compactor(progress.session.key, up_to, summary)
            self._emit(Compacted(progress.session, up_to))

        self._worker.compact = compact
