"""The same memory without `await`: each call runs on one background event loop.

with onlooker.blocking.open_memory("agent.db") as memory:
    session = memory.session("telegram:42")
    session.record(onlooker.user("I moved to Oslo last week"))
    context = session.context(system="You are helpful.", budget=16_000)
"""

from __future__ import annotations

from typing import Any

from onlooker.blocking.memory import Memory
from onlooker.blocking.portal import Portal
from onlooker.blocking.session import Session, Tools
from onlooker.blocking.streams import EventStream
from onlooker.domain.moving import Moved
from onlooker.engine import memory as engine
from onlooker.wiring import migrate as migrate_async
from onlooker.wiring import open_memory as open_async_memory

__all__ = ["EventStream", "Memory", "Session", "Tools", "migrate", "open_memory"]


def open_memory(*args: Any, **options: Any) -> Memory:
    """As `onlooker.open_memory`, for use with `with`."""
    portal = Portal()

    async def make() -> engine.Memory:
        return open_async_memory(*args, **options)

    return Memory(portal.call(make()), portal)


def migrate(*args: Any, **options: Any) -> Moved:
    """As `onlooker.migrate`, returning when it is done."""
    portal = Portal()
    try:
        return portal.call(migrate_async(*args, **options))
    finally:
        portal.stop()
