"""Notes are taken by workers in other processes; this one only records, and does what it is asked to."""

from __future__ import annotations

from onlooker.domain.messages import SessionId
from onlooker.engine.buffer import Buffer


class Elsewhere(Buffer):
    """A buffer that nothing wakes: what is due stays in the store, where workers find it.

    `tick` and `flush`, which a host calls on purpose, work here as they do everywhere.
    """

    @property
    def here(self) -> bool:
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
