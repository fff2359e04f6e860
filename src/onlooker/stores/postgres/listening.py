"""How PgQueuer reaches the server: one connection to ask on, and one to listen on."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
from pgqueuer.ports.driver import NotifyCallback
from psycopg import AsyncConnection


class AskAndListen(PsycopgDriver):
    """PgQueuer's driver for psycopg, with a second connection for what it listens to.

    psycopg keeps a connection to itself while it listens. On one alone every question waits until a second
    without news is over: jobs are begun and ended late, and a stop takes as many seconds as it has questions.
    """

    def __init__(self, asking: AsyncConnection[Any], listening: AsyncConnection[Any]) -> None:
        super().__init__(asking)
        self._ear = PsycopgDriver(listening)
        self._listens = asyncio.Event()

    async def notify(self, channel: str, payload: str) -> None:
        # PgQueuer begins with a word to itself, to see whether it can hear. On the other connection that may
        # be faster than the request to listen, and would be lost.
        await self._listens.wait()
        await super().notify(channel, payload)

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        await self._ear.add_listener(channel, callback)
        self._listens.set()

    async def remove_listener(self, channel: str, callback: NotifyCallback) -> None:
        await self._ear.remove_listener(channel, callback)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._ear.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        listening = tuple(self._ear.tm.tasks)
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        await self._ear.__aexit__(*error)
        await super().__aexit__(*error)
