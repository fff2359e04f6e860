"""All sessions of one store, without `await`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from onlooker.blocking.portal import Portal
from onlooker.blocking.session import Session
from onlooker.blocking.streams import EventStream
from onlooker.domain.events import BaseEvent, Consolidated, Event
from onlooker.domain.history import ForgetResult, RetentionResult
from onlooker.domain.items import Item as MemoryItem
from onlooker.domain.items import ItemStatus, ItemType, Origin
from onlooker.domain.messages import DEFAULT_OWNER, Message
from onlooker.domain.notes import SessionSummary, Usage
from onlooker.domain.search import EDGE_KINDS, Edge, EdgeKind, Hit, HitKind
from onlooker.engine import memory as engine
from onlooker.engine import streams as engine_streams
from onlooker.engine.histories import Item
from onlooker.engine.indexing import IndexingStatus
from onlooker.engine.searching import KINDS
from onlooker.engine.streams import MOST_HELD
from onlooker.policy.render import Context
from onlooker.policy.settings import Settings
from onlooker.ports import Store

H = TypeVar("H", bound=BaseEvent)


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

    def retain(self, *, dry_run: bool = False) -> RetentionResult:
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

    def forget(self, *, owner: str, session: str | None = None) -> ForgetResult:
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

    def events(self, *types: type[BaseEvent], most: int = MOST_HELD) -> EventStream[Any]:
        async def opened() -> engine_streams.EventStream[Any]:
            return self._memory.events(*types, most=most)

        return EventStream(self._portal.call(opened()), self._portal)

    def set_compactor(self, compactor: engine.Compactor | None) -> None:
        self._memory.set_compactor(compactor)
