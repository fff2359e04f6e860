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
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from onlooker.domain.events import Event, Happened
from onlooker.domain.extractions import Extraction, Extractor
from onlooker.domain.files import Consolidated
from onlooker.domain.graph import EDGE_KINDS, Edge, EdgeKind
from onlooker.domain.history import Forgot, NoteHistory
from onlooker.domain.items import Item as MemoryItem
from onlooker.domain.items import ItemStatus, ItemType, Origin
from onlooker.domain.knowledge import Layers
from onlooker.domain.messages import DEFAULT_OWNER, Message, SessionId
from onlooker.domain.moving import Moved
from onlooker.domain.notes import Note, NoteKind, NoteStatus, SessionSummary, State, Usage
from onlooker.domain.retention import Retained
from onlooker.domain.search import Hit, HitKind
from onlooker.engine import memory as engine
from onlooker.engine import session as engine_session
from onlooker.engine import streams as engine_streams
from onlooker.engine import tools as engine_tools
from onlooker.engine.histories import Item
from onlooker.engine.indexing import IndexingStatus
from onlooker.engine.searching import KINDS
from onlooker.engine.streams import MOST_HELD
from onlooker.policy.context import Context
from onlooker.policy.settings import Settings
from onlooker.ports import Store
from onlooker.wiring import migrate as migrate_async
from onlooker.wiring import open_memory as open_async_memory

if TYPE_CHECKING:
    from onlooker.engine.hand import Moment
    from onlooker.policy.diff import Diff

T = TypeVar("T")
E = TypeVar("E", bound=Extractor)
H = TypeVar("H", bound=Happened)


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


def migrate(*args: Any, **options: Any) -> Moved:
    """As `onlooker.migrate`, returning when it is done."""
    portal = Portal()
    try:
        return portal.call(migrate_async(*args, **options))
    finally:
        portal.stop()


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

    @property
    def indexing(self) -> IndexingStatus:
        return self._memory.indexing

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

    def search(
        self,
        query: str,
        *,
        owner: str = DEFAULT_OWNER,
        session: str | None = None,
        kinds: Sequence[HitKind] = KINDS,
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
        marks: tuple[str, str] = ("", ""),
    ) -> Sequence[Hit]:
        found = self._memory.search(
            query,
            owner=owner,
            session=session,
            kinds=kinds,
            limit=limit,
            after=after,
            before=before,
            marks=marks,
        )
        return self._portal.call(found)

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

    def retain(self, *, dry_run: bool = False) -> Retained:
        return self._portal.call(self._memory.retain(dry_run=dry_run))

    def items(
        self, owner: str = DEFAULT_OWNER, *, statuses: Sequence[ItemStatus] = ("live",)
    ) -> Sequence[MemoryItem]:
        return self._portal.call(self._memory.items(owner, statuses=statuses))

    def save_item(
        self,
        summary: str,
        *,
        owner: str = DEFAULT_OWNER,
        type: ItemType = "knowledge",
        tags: Sequence[str] = (),
        origin: Origin = "user",
        supersedes: str = "",
        expires_at: datetime | None = None,
        pinned: bool = False,
    ) -> MemoryItem:
        return self._portal.call(
            self._memory.save_item(
                summary,
                owner=owner,
                type=type,
                tags=tags,
                origin=origin,
                supersedes=supersedes,
                expires_at=expires_at,
                pinned=pinned,
            )
        )

    def forget_item(self, item: str, *, owner: str = DEFAULT_OWNER) -> Sequence[MemoryItem]:
        return self._portal.call(self._memory.forget_item(item, owner=owner))

    def pin_item(self, item: str, *, owner: str = DEFAULT_OWNER, on: bool = True) -> None:
        self._portal.call(self._memory.pin_item(item, owner=owner, on=on))

    def item_history(self, item: str, *, owner: str = DEFAULT_OWNER) -> Sequence[MemoryItem]:
        return self._portal.call(self._memory.item_history(item, owner=owner))

    def end_idle(self, *, idle: timedelta | None = None) -> int:
        return self._portal.call(self._memory.end_idle(idle=idle))

    def consolidate(
        self, *, owner: str | None = None, older_than: timedelta | None = None, dry_run: bool = False
    ) -> Sequence[Consolidated]:
        done = self._memory.consolidate(owner=owner, older_than=older_than, dry_run=dry_run)
        return self._portal.call(done)

    def sync_files(self, *, owner: str | None = None) -> None:
        self._portal.call(self._memory.sync_files(owner=owner))

    def forget(self, *, owner: str, session: str | None = None) -> Forgot:
        return self._portal.call(self._memory.forget(owner=owner, session=session))

    def export(self, target: str | Path, *, owner: str | None = None, session: str | None = None) -> int:
        return self._portal.call(self._memory.export(target, owner=owner, session=session))

    def import_file(self, source: str | Path, *, replace: bool = False) -> dict[str, int]:
        return self._portal.call(self._memory.import_file(source, replace=replace))

    def import_journal(
        self, folder: str | Path, *, replace: bool = False
    ) -> tuple[dict[str, int], Sequence[str]]:
        return self._portal.call(self._memory.import_journal(folder, replace=replace))

    def back_up(self, target: str | Path) -> None:
        self._portal.call(self._memory.back_up(target))

    def graph(
        self,
        owner: str = DEFAULT_OWNER,
        *,
        session: str | None = None,
        entity: str | None = None,
        kinds: Sequence[EdgeKind] = EDGE_KINDS,
        limit: int = 10_000,
    ) -> Sequence[Edge]:
        found = self._memory.graph(owner, session=session, entity=entity, kinds=kinds, limit=limit)
        return self._portal.call(found)

    def index(self) -> int:
        return self._portal.call(self._memory.index())

    def usage(self) -> Sequence[Usage]:
        return self._portal.call(self._memory.usage())

    def calibrate(self, context: Context, *, input_tokens: int) -> None:
        self._portal.call(self._memory.calibrate(context, input_tokens=input_tokens))

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        return self._memory.subscribe(listener)

    @overload
    def events(self, *, most: int = MOST_HELD) -> EventStream[Event]: ...

    @overload
    def events(self, *types: type[H], most: int = MOST_HELD) -> EventStream[H]: ...

    def events(self, *types: type[Happened], most: int = MOST_HELD) -> EventStream[Any]:
        async def opened() -> engine_streams.EventStream[Any]:
            return self._memory.events(*types, most=most)

        return EventStream(self._portal.call(opened()), self._portal)

    def set_compactor(self, compactor: engine.Compactor | None) -> None:
        self._memory.set_compactor(compactor)


class EventStream(Generic[H]):
    """Events for `for`, each of which waits for the next one."""

    def __init__(self, stream: engine_streams.EventStream[H], portal: Portal) -> None:
        self._stream = stream
        self._portal = portal

    @property
    def dropped(self) -> int:
        return self._stream.dropped

    def close(self) -> None:
        """Hear no more; whoever waits for the next event waits no longer."""

        async def closed() -> None:
            self._stream.close()

        if not self._stream.closed:
            self._portal.call(closed())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> H:
        # Once closed there may be no loop to ask any more.
        if self._stream.closed:
            event = self._stream.take()
            if event is None:
                raise StopIteration
            return event
        try:
            return self._portal.call(self._next())
        except StopAsyncIteration:
            raise StopIteration from None

    async def _next(self) -> H:
        return await self._stream.__anext__()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Tools:
    """The tools of a session, each call returning when it is done."""

    def __init__(self, tools: engine_tools.Tools, portal: Portal) -> None:
        self._tools = tools
        self._portal = portal

    def openai(self) -> list[dict[str, Any]]:
        return self._tools.openai()

    def anthropic(self) -> list[dict[str, Any]]:
        return self._tools.anthropic()

    def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> str:
        return self._portal.call(self._tools.call(name, arguments))


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
        knowledge: Layers | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
    ) -> Context:
        return self._portal.call(
            self._session.prepare(
                history,
                system=system,
                budget=budget,
                knowledge=knowledge,
                end=end,
                relative_time=relative_time,
                question=question,
            )
        )

    def context(
        self,
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Layers | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
    ) -> Context:
        return self._portal.call(
            self._session.context(
                system=system,
                budget=budget,
                knowledge=knowledge,
                end=end,
                relative_time=relative_time,
                question=question,
            )
        )

    def settle(self) -> bool:
        return self._portal.call(self._session.settle())

    def end(self) -> Sequence[MemoryItem]:
        return self._portal.call(self._session.end())

    def refresh_items(self) -> Sequence[MemoryItem]:
        return self._portal.call(self._session.refresh_items())

    def tools(self) -> Tools:
        return Tools(self._session.tools(), self._portal)

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

    def recall(
        self, target: str | int | Hit, *, neighbours: int = 0, page: int | None = None
    ) -> Sequence[Message]:
        return self._portal.call(self._session.recall(target, neighbours=neighbours, page=page))

    def search(
        self,
        query: str,
        *,
        kinds: Sequence[HitKind] = KINDS,
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
        marks: tuple[str, str] = ("", ""),
    ) -> Sequence[Hit]:
        found = self._session.search(query, kinds=kinds, limit=limit, after=after, before=before, marks=marks)
        return self._portal.call(found)

    def state(self) -> State | None:
        return self._portal.call(self._session.state())

    def pin(self, target: str, *, on: bool = True) -> None:
        self._portal.call(self._session.pin(target, on=on))

    def edit(self, note: str, text: str, *, by: str = "", was: str | None = None) -> Note:
        return self._portal.call(self._session.edit(note, text, by=by, was=was))

    def undo(self, note: str | None = None) -> Sequence[Note]:
        return self._portal.call(self._session.undo(note))

    def forget(self, *targets: str, dry_run: bool = False, rewrite_later: bool | None = None) -> Forgot:
        return self._portal.call(self._session.forget(*targets, dry_run=dry_run, rewrite_later=rewrite_later))

    def neighbours(self, note: str) -> Sequence[Note]:
        return self._portal.call(self._session.neighbours(note))

    def history(self, note: str) -> NoteHistory:
        return self._portal.call(self._session.history(note))

    def as_of(self, point: int | datetime) -> Moment:
        return self._portal.call(self._session.as_of(point))

    def diff(self, note: str, other: str | None = None) -> Diff:
        return self._portal.call(self._session.diff(note, other))

    def compact_messages(self, up_to: int, summary: str) -> None:
        self._portal.call(self._session.compact_messages(up_to, summary))

    def clear(self, kind: NoteKind | None = None) -> int:
        return self._portal.call(self._session.clear(kind))

    def delete(self) -> bool:
        return self._portal.call(self._session.delete())
