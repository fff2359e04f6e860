"""Leave a model alone that keeps failing."""

from __future__ import annotations

from datetime import datetime, timedelta

from onlooker.domain.errors import ModelError
from onlooker.models.calling.errors import CallError, foreign, kind_of
from onlooker.models.calling.wrapping import Wrapped
from onlooker.models.times import SystemClock
from onlooker.ports import Clock, Model, Reply, Request


class Breaker(Wrapped):
    """Opens after so many failures in a row: calls then fail at once, without reaching the model.

    After `rest` seconds, or as long as the provider asked for, one call is let through to see. Where it
    succeeds the breaker closes; where it fails it opens again. A request that the provider rejects for
    what it holds says nothing about the model and does not count.
    """

    def __init__(
        self, model: Model, *, failures: int = 5, rest: float = 30.0, clock: Clock | None = None
    ) -> None:
        super().__init__(model)
        self._most = failures
        self._rest = rest
        self._clock = clock or SystemClock()
        self._failed = 0
        self._opened: datetime | None = None
        self._until: datetime | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether calls fail without being made."""
        return self._until is not None

    async def write(self, request: Request) -> Reply:
        probe = self._admit()
        try:
            reply = await self._model.write(request)
        except ModelError as error:
            self._note(error)
            raise
        except Exception as error:
            self._note(error)
            raise foreign(self.name, error) from error
        finally:
            # Also when the call is cancelled: the next one is the probe then.
            if probe:
                self._probing = False
        self._failed, self._until = 0, None
        return reply

    def _admit(self) -> bool:
        """Whether this call is the probe of an open breaker.

        Raises:
            CallError: The model rests.
        """
        if self._until is None:
            return False
        left = self._seconds_left()
        if left > 0 or self._probing:
            why = f"tried again in {left:.0f} s" if left > 0 else "being tried"
            raise CallError(
                f"{self.name} failed {self._failed} times in a row and is {why}",
                "resting",
                retry_after=max(left, 0.0),
            )
        self._probing = True
        return True

    def _seconds_left(self) -> float:
        assert self._until is not None
        assert self._opened is not None
        now = self._clock.now()
        # A clock that went back would keep it open for as long as it went back.
        if now < self._opened:
            self._until, self._opened = now + (self._until - self._opened), now
        return (self._until - now).total_seconds()

    def _note(self, error: Exception) -> None:
        if kind_of(error) in ("rejected", "spent"):
            return
        self._failed += 1
        if self._failed >= self._most:
            asked = error.retry_after if isinstance(error, CallError) else None
            self._opened = self._clock.now()
            self._until = self._opened + timedelta(seconds=max(self._rest, asked or 0.0))
