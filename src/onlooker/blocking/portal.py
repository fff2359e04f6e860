"""The event loop that blocking calls run on."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """An event loop in a thread of its own, started at first use."""

    def __init__(self) -> None:
        self._runner: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self._lock = threading.Lock()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and wait for the result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop()).result()

    def _loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._runner is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run, args=(loop,), name="onlooker", daemon=True)
                thread.start()
                self._runner = loop, thread
            return self._runner[0]

    def stop(self) -> None:
        with self._lock:
            if self._runner is not None:
                loop, thread = self._runner
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                self._runner = None


class Group:
    """A group of methods, such as `memory.items`, each returning when it is done."""

    def __init__(self, group: object, portal: Portal) -> None:
        self._group = group
        self._portal = portal

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._group, name)
        if not inspect.iscoroutinefunction(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            return self._portal.call(found(*args, **options))

        return call


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run until stopped, and leave nothing behind."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
