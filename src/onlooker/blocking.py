"""The same memory without `await`: each call runs on one background event loop.

with onlooker.blocking.open_memory("agent.db") as memory:
    session = memory.session("telegram:42")
    session.record(onlooker.user("I moved to Oslo last week"))
    context = session.context(system="You are helpful.", budget=16_000)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta, tzinfo
from types import TracebackType
from typing import Any, Self, TypeVar

from onlooker.domain.events import Event
from onlooker.domain.extractions import Extraction, Extractor
from onlooker.domain.messages import DEFAULT_OWNER, Message, SessionId
from onlooker.domain.notes import Note, NoteKind, NoteStatus, SessionSummary, State, Usage
from onlooker.engine import memory as engine
from onlooker.engine import session as engine_session
from onlooker.engine.histories import Item
from onlooker.policy.context import Context
from onlooker.policy.settings import Settings
from onlooker.ports import Store
from onlooker.wiring import open_memory as open_async_memory

T = TypeVar("T")
E = TypeVar("E", bound=Extractor)


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


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run until stopped, and leave nothing behind."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def open_memory(*args: Any, **options: Any) -> Memory:
    """As `onlooker.open_memory`, for use with `with`."""
    portal = Portal()

    async def make() -> engine.Memory:
        return open_async_memory(*args, **options)

    return Memory(portal.call(make()), portal)


class Memory:
    """`onlooker.Memory`, each method returning when it is done."""

    def __init__(self, memory: engine.Memory, portal: Portal) -> None:
        self._memory = memory
        self._portal = portal

    @property
    def settings(self) -> Settings:
        return self._memory.settings

    @property
    def store(self) -> Store:
        return self._memory.store

    @property
    def pending(self) -> int:
        return self._memory.pending

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        self._portal.call(self._memory.open())

    def close(self) -> None:
        self._portal.call(self._memory.close())
        self._portal.stop()

    def session(self, key: str, *, owner: str = DEFAULT_OWNER, tz: tzinfo | None = None) -> Session:
        return Session(self._memory.session(key, owner=owner, tz=tz), self._portal)

    def current(self) -> Session | None:
        named = self._memory.current()
        return Session(named, self._portal) if named else None

    def sessions(
        self, *, owner: str | None = None, key: str | None = None, limit: int | None = None
    ) -> Sequence[SessionSummary]:
        return self._portal.call(self._memory.sessions(owner=owner, key=key, limit=limit))

    def record(self, *messages: Item) -> Sequence[Message]:
        session = self.current()
        return session.record(*messages) if session else ()

    def prepare(self, history: Sequence[Item], *, system: str = "", budget: int | None = None) -> Context:
        session = self.current()
        if session is None:
            return self._portal.call(self._memory.prepare(history, system=system, budget=budget))
        return session.prepare(history, system=system, budget=budget)

    def tick(self) -> int:
        return self._portal.call(self._memory.tick())

    def flush(self) -> None:
        self._portal.call(self._memory.flush())

    def settle(self) -> None:
        self._portal.call(self._memory.settle())

    def prune(self, *, older_than: timedelta | None = None) -> int:
        return self._portal.call(self._memory.prune(older_than=older_than))

    def usage(self) -> Sequence[Usage]:
        return self._portal.call(self._memory.usage())

    def calibrate(self, context: Context, *, input_tokens: int) -> None:
        self._portal.call(self._memory.calibrate(context, input_tokens=input_tokens))

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        return self._memory.subscribe(listener)

    def set_compactor(self, compactor: engine.Compactor | None) -> None:
        self._memory.set_compactor(compactor)


class Session:
    """`onlooker.Session`, each method returning when it is done."""

    def __init__(self, session: engine_session.Session, portal: Portal) -> None:
        self._session = session
        self._portal = portal

    @property
    def id(self) -> SessionId:
        return self._session.id

    @property
    def key(self) -> str:
        return self._session.key

    @property
    def owner(self) -> str:
        return self._session.owner

    def record(self, *messages: Item | Sequence[Item]) -> Sequence[Message]:
        return self._portal.call(self._session.record(*messages))

    def prepare(
        self,
        history: Sequence[Item],
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Mapping[str, str] | None = None,
        end: str = "",
        relative_time: bool = False,
    ) -> Context:
        return self._portal.call(
            self._session.prepare(
                history,
                system=system,
                budget=budget,
                knowledge=knowledge,
                end=end,
                relative_time=relative_time,
            )
        )

    def context(
        self,
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Mapping[str, str] | None = None,
        end: str = "",
        relative_time: bool = False,
    ) -> Context:
        return self._portal.call(
            self._session.context(
                system=system, budget=budget, knowledge=knowledge, end=end, relative_time=relative_time
            )
        )

    def settle(self) -> bool:
        return self._portal.call(self._session.settle())

    def end(self) -> None:
        self._portal.call(self._session.end())

    def notes(
        self,
        *,
        kind: NoteKind | None = None,
        recent: int | None = None,
        statuses: Sequence[NoteStatus] = ("active",),
    ) -> Sequence[Note]:
        return self._portal.call(self._session.notes(kind=kind, recent=recent, statuses=statuses))

    def extracted(self, type: type[E]) -> list[E]:
        return self._portal.call(self._session.extracted(type))

    def extractions(self, type: str | None = None) -> Sequence[Extraction]:
        return self._portal.call(self._session.extractions(type))

    def messages(self, *, archived: bool = False) -> Sequence[Message]:
        return self._portal.call(self._session.messages(archived=archived))

    def recall(self, note: str) -> Sequence[Message]:
        return self._portal.call(self._session.recall(note))

    def state(self) -> State | None:
        return self._portal.call(self._session.state())

    def pin(self, target: str, *, on: bool = True) -> None:
        self._portal.call(self._session.pin(target, on=on))

    def compact_messages(self, up_to: int, summary: str) -> None:
        self._portal.call(self._session.compact_messages(up_to, summary))

    def clear(self, kind: NoteKind | None = None) -> int:
        return self._portal.call(self._session.clear(kind))

    def delete(self) -> bool:
        return self._portal.call(self._session.delete())
