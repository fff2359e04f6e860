"""Events as they happen, for `for`."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Self, TypeVar

from onlooker.blocking.portal import Portal
from onlooker.domain.events import BaseEvent
from onlooker.engine import events as engine

H = TypeVar("H", bound=BaseEvent)


class EventStream(Generic[H]):
    """Events for `for`, each of which waits for the next one."""

    def __init__(self, stream: engine.EventStream[H], portal: Portal) -> None:
        self._stream = stream
        self._portal = portal

    @property
    def dropped(self) -> int:
        return self._stream.dropped

    def close(self) -> None:
        """Hear no more; whoever waits for the next event waits no longer."""

        async def closed() -> None:
            self._stream.close()

        if not self._stream.closed:
            self._portal.call(closed())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> H:
        # Once closed there may be no loop to ask any more.
        if self._stream.closed:
            event = self._stream.take()
            if event is None:
                raise StopIteration
            return event
        try:
            return self._portal.call(self._next())
        except StopAsyncIteration:
            raise StopIteration from None

    async def _next(self) -> H:
        return await self._stream.__anext__()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
