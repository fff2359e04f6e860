"""The machine's clock, where no other is given."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)
