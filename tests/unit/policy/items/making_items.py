"""Items for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from onlooker.domain.items import Item

NOW = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)


def days(count: float) -> timedelta:
    return timedelta(days=count)


def item(summary: str, ident: str = "", **more: Any) -> Item:
    values: dict[str, Any] = {"owner": "ana", "type": "profile", "made_at": NOW} | more
    return Item(id=ident or summary, summary=summary, **values)
