"""Events: tell subscribers and streams what happens in a memory."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast
from weakref import WeakSet

from onlooker.domain.errors import SettingsError
from onlooker.domain.events import UNSTAMPED, BaseEvent, Event
from onlooker.ports import Clock

log = logging.getLogger("onlooker")

E = TypeVar("E", bound=BaseEvent)

MAX_HELD = 1000


class Events:
    """Tells subscribers and streams what happens."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: list[Callable[[Event], None]] = []
        # Weak, so that a stream is dropped with its reader.
        self._streams: WeakSet[EventStream[Any]] = WeakSet()

    def emit(self, event: Event) -> None:
        """Pass the event to all streams and subscribers, in the order in which they subscribed."""
        if not self._listeners and not self._streams:
            return
        if event.at is UNSTAMPED:
            # Nobody else has the event yet. `replace` would take ten times as long.
            object.__setattr__(event, "at", self._clock.now())
        if self._streams:  # iterating over a weak set takes longer than everything else here
            for stream in tuple(self._streams):
                stream.on_event(event)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                # A subscriber is the host's code; its failure must not break the turn.
                log.exception("a subscriber failed")

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call the listener with every event; the returned function unsubscribes it."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def stream(self, types: tuple[type[BaseEvent], ...], limit: int) -> EventStream[Any]:
        stream: EventStream[Any] = EventStream(types, limit)
        self._streams.add(stream)
        return stream

    def close(self) -> None:
        """End every stream."""
        for stream in tuple(self._streams):
            stream.close()


class EventStream(Generic[E]):
    """Events from now on, until the memory is closed; made by `Memory.events`.

    It holds a limited number of unread events. Beyond that the oldest are dropped and counted in
    `dropped`: a slow reader loses events, but does not slow the memory down.
    """

    dropped: int = 0
    closed: bool = False

    def __init__(self, types: tuple[type[E], ...], limit: int) -> None:
        if not isinstance(limit, int) or limit < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SettingsError("limit", limit, "must be an integer of at least 1")
        self._types = types
        self._limit = limit
        self._held: deque[E] = deque()
        self._came = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Hold the event if it has one of the types."""
        if self.closed or (self._types and not isinstance(event, self._types)):
            return
        if len(self._held) >= self._limit:
            self._held.popleft()
            self.dropped += 1
        self._held.append(cast("E", event))
        self._came.set()

    def take(self) -> E | None:
        """The next event, or None if there is none yet."""
        return self._held.popleft() if self._held else None

    def close(self) -> None:
        """Accept no more events; those held can still be taken."""
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
