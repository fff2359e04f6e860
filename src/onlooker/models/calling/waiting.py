"""How long to wait for a model, and how often to ask it again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from onlooker.domain.errors import ModelError
from onlooker.models.calling.errors import CallError, foreign, worth_another_try
from onlooker.models.calling.wrapping import Wrapped
from onlooker.ports import Model, Reply, Request

Sleep = Callable[[float], Awaitable[None]]


class Deadline(Wrapped):
    """Gives up on a model that has not answered after so many seconds."""

    def __init__(self, model: Model, seconds: float) -> None:
        super().__init__(model)
        self._seconds = seconds

    async def write(self, request: Request) -> Reply:
        scope = asyncio.timeout(self._seconds)
        try:
            async with scope:
                return await self._model.write(request)
        except TimeoutError as error:
            if not scope.expired():
                raise  # the model's own, which says more
            raise CallError(f"{self.name} did not answer within {self._seconds:g} s", "timeout") from error


class Retries(Wrapped):
    """Asks again where that may help: a rate limit, a server's fault, a lost connection.

    It waits as long as the provider asks for, else twice as long each time, and a random part of that, so
    that many callers do not come back at once. Where the provider asks for more than `longest` seconds it
    gives up at once: the session's own back-off is made for long waits.
    """

    def __init__(
        self,
        model: Model,
        *,
        attempts: int = 3,
        first_wait: float = 1.0,
        longest: float = 30.0,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(model)
        self._attempts = attempts
        self._first_wait = first_wait
        self._longest = longest
        self._sleep = sleep
        self._chance = chance

    async def write(self, request: Request) -> Reply:
        attempt = 1
        while True:
            try:
                return await self._model.write(request)
            except ModelError as error:
                wait = self._wait_after(error, attempt)
                if wait is None:
                    raise
            except Exception as error:
                wait = self._wait_after(error, attempt)
                if wait is None:
                    raise foreign(self.name, error) from error
            await self._sleep(wait)
            attempt += 1

    def _wait_after(self, error: Exception, attempt: int) -> float | None:
        """Seconds until the next attempt; None: there is none."""
        if attempt >= self._attempts or not worth_another_try(error):
            return None
        asked = error.retry_after if isinstance(error, CallError) else None
        if asked is not None:
            # Never sooner than asked for, and a little spread out.
            return asked * (1 + self._chance() / 10) if asked <= self._longest else None
        wait = min(self._longest, self._first_wait * 2.0 ** (attempt - 1))
        return wait * (0.5 + self._chance() / 2)
