"""Events for `async for`."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from onlooker.domain.errors import SettingsError
from onlooker.domain.events import BaseEvent, Event

E = TypeVar("E", bound=BaseEvent)

MOST_HELD = 1000


class EventStream(Generic[E]):
    """Events from now on, until the memory is closed; made by `Memory.events`.

    It holds at most so many that were not taken yet. Beyond that the oldest make way, and `dropped`
    counts them: a reader that is slow costs itself events, and memory nothing.
    """

    def __init__(self, types: tuple[type[E], ...], most: int) -> None:
        if not isinstance(most, int) or most < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SettingsError("most", most, "must be a whole number of events, 1 or more")
        self.dropped = 0
        self.closed = False
        self._types = types
        self._most = most
        self._held: deque[E] = deque()
        self._came = asyncio.Event()

    def hear(self, event: Event) -> None:
        """Hold the event, where it is one of those asked for."""
        if self.closed or (self._types and not isinstance(event, self._types)):
            return
        if len(self._held) >= self._most:
            self._held.popleft()
            self.dropped += 1
        self._held.append(cast("E", event))
        self._came.set()

    def take(self) -> E | None:
        """The next event, if one is there already."""
        return self._held.popleft() if self._held else None

    def close(self) -> None:
        """Hear no more; what is held can still be taken."""
        self.closed = True
        self._came.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        while (event := self.take()) is None:
            if self.closed:
                raise StopAsyncIteration
            self._came.clear()
            await self._came.wait()
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
