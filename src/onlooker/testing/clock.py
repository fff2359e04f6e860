"""A clock that moves only when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FrozenClock:
    """Stands still at `start` until it is advanced; a negative step takes it back."""

    def __init__(self, start: datetime = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)) -> None:
        self._now = start if start.tzinfo else start.replace(tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Move on, and return the time it is then."""
        self._now += timedelta(seconds=seconds)
        return self._now
