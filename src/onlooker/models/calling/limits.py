"""Stay below what a provider, or a machine of one's own, can take."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import datetime, timedelta

from onlooker.models.calling.size import size_of
from onlooker.models.calling.waiting import Sleep
from onlooker.models.calling.wrapping import Wrapped
from onlooker.models.times import SystemClock
from onlooker.ports import Clock, Model, Reply, Request

_MINUTE = timedelta(minutes=1)


class Limited(Wrapped):
    """At most so many calls at once, and so many calls and input tokens in any minute; others wait.

    One object for observer and reflector makes them share the limits.
    """

    def __init__(
        self,
        model: Model,
        *,
        concurrency: int = 4,
        per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Clock | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(model)
        self._places = asyncio.Semaphore(concurrency)
        self._turn = asyncio.Lock()
        self._per_minute = per_minute
        self._tokens_per_minute = tokens_per_minute
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._calls: deque[tuple[datetime, int]] = deque()  # when, and how many tokens; oldest first

    async def write(self, request: Request) -> Reply:
        async with self._places:
            await self._wait(size_of(request))
            return await self._model.write(request)

    async def _wait(self, tokens: int) -> None:
        # First come, first served: a small request does not overtake one that waits.
        async with self._turn:
            while (seconds := self._seconds_to_wait(tokens)) > 0:
                await self._sleep(seconds)
            self._calls.append((self._clock.now(), tokens))

    def _seconds_to_wait(self, tokens: int) -> float:
        now = self._clock.now()
        # Those of more than a minute ago no longer count; nor do those after a clock that went back.
        while self._calls and not now - _MINUTE < self._calls[0][0] <= now:
            self._calls.popleft()
        if not self._calls or self._fits(tokens):
            return 0.0
        return (self._calls[0][0] + _MINUTE - now).total_seconds()

    def _fits(self, tokens: int) -> bool:
        if self._per_minute is not None and len(self._calls) >= self._per_minute:
            return False
        used = sum(size for _, size in self._calls)
        return self._tokens_per_minute is None or used + tokens <= self._tokens_per_minute
