"""The same memory without `await`: each call runs on one background event loop.

with onlooker.blocking.open_memory("agent.db") as memory:
    session = memory.session("telegram:42")
    session.record(onlooker.user("I moved to Oslo last week"))
    context = session.context(system="You are helpful.", budget=16_000)

A proxy takes every public method and property from the async class, and waits for what that one awaits. Type
checkers and editors read `blocking.pyi`, which `make stubs` writes from the same classes.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from onlooker import client, migration, wiring
from onlooker.domain.errors import SettingsError
from onlooker.engine import events, memory, session, tools

__all__ = ["EventStream", "Memory", "RemoteMemory", "Session", "Tools", "connect", "migrate", "open_memory"]

T = TypeVar("T")
P = TypeVar("P", bound="Proxy")


class Portal:
    """An event loop in its own thread, started at first use."""

    def __init__(self) -> None:
        self._runner: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self._lock = threading.Lock()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop, in the caller's context variables, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop()).result()

    async def call_async(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for a caller that has its own event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop()))

    def _loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._runner is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run, args=(loop,), name="onlooker", daemon=True)
                thread.start()
                self._runner = loop, thread
            return self._runner[0]

    def stop(self) -> None:
        """Stop the loop and its thread. A later call starts new ones."""
        with self._lock:
            if self._runner is not None:
                loop, thread = self._runner
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                self._runner = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


class Proxy:
    """An object of an async class, used from threads that have no event loop."""

    def __init__(self, inner: Any, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    def _wrap(self, result: Any) -> Any:
        """Return a proxy if the result has async methods, otherwise the result itself."""
        if isinstance(result, events.EventStream):
            return EventStream(result, self._portal)
        kind = cast("type[Any]", type(result))
        return proxy_of(kind)(result, self._portal) if kind.__name__ in PROXIED else result


# The async classes that a memory and its sessions return.
PROXIED = frozenset(
    [
        "Background",
        "History",
        "Index",
        "Items",
        "NotesFolder",
        "RemoteSession",
        "Retention",
        "Session",
        "Storage",
        "Tools",
    ]
)


@functools.cache
def proxy_of(kind: type[Any]) -> type[Proxy]:
    """The blocking class of an async one."""
    return _fill(type(kind.__name__, (Proxy,), {"__doc__": kind.__doc__, "__module__": __name__}), kind)


def _fill(proxy: type[P], kind: type[Any]) -> type[P]:
    """Give a proxy the public methods and properties of the async class, except those it already has."""
    for name in dir(kind):
        if not name.startswith("_") and not hasattr(proxy, name):
            setattr(proxy, name, _member(name, inspect.getattr_static(kind, name)))
    return proxy


def _member(name: str, member: Any) -> Any:
    if not inspect.isfunction(member):
        return property(lambda self: self._wrap(getattr(self._inner, name)), doc=member.__doc__)

    @functools.wraps(member)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        result = getattr(self._inner, name)(*args, **options)
        return self._wrap(self._portal.call(result) if inspect.iscoroutine(result) else result)

    return call


class _Opened(Proxy):
    """A proxy that is opened and closed with its event loop."""

    def __init__(self, inner: Any, portal: Portal | None = None) -> None:
        if portal is None:  # the first thing that someone tries without reading the documentation
            raise SettingsError("Memory", inner, "must be made by onlooker.blocking.open_memory(…)")
        super().__init__(inner, portal)

    def close(self) -> None:
        """Close the memory, then stop the event loop."""
        self._portal.call(self._inner.close())
        self._portal.stop()

    def __enter__(self) -> Self:
        self._portal.call(self._inner.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Memory(_Opened):
    """`onlooker.Memory`; use it with `with`. Each method returns when it is done."""


class RemoteMemory(_Opened):
    """The memory of a server; use it with `with`."""


class EventStream(Proxy):
    """Events for `for`: each step waits for the next event."""

    def close(self) -> None:
        """Receive no more events, and end any wait for the next one."""

        async def close() -> None:
            self._inner.close()

        if not self._inner.closed:
            self._portal.call(close())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        # After it is closed, its loop may have stopped.
        if self._inner.closed:
            event = self._inner.take()
            if event is None:
                raise StopIteration
            return event
        try:
            return self._portal.call(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_fill(RemoteMemory, client.RemoteMemory)
_fill(Memory, memory.Memory)
_fill(EventStream, events.EventStream)
Session = proxy_of(session.Session)
Tools = proxy_of(tools.Tools)


@functools.wraps(wiring.open_memory)
def open_memory(*args: Any, **options: Any) -> Memory:
    portal = Portal()

    async def make() -> memory.Memory:
        return wiring.open_memory(*args, **options)

    return Memory(portal.call(make()), portal)


@functools.wraps(client.connect)
def connect(*args: Any, **options: Any) -> RemoteMemory:
    portal = Portal()

    async def make() -> client.RemoteMemory:
        return client.connect(*args, **options)

    return RemoteMemory(portal.call(make()), portal)


@functools.wraps(migration.migrate)
def migrate(*args: Any, **options: Any) -> Any:
    portal = Portal()
    try:
        return portal.call(migration.migrate(*args, **options))
    finally:
        portal.stop()
