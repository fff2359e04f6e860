"""All sessions of one store, without `await`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from onlooker.blocking.portal import Group, Portal
from onlooker.blocking.session import Session
from onlooker.blocking.streams import EventStream
from onlooker.domain.events import BaseEvent, Event
from onlooker.domain.history import ForgetResult
from onlooker.domain.messages import DEFAULT_OWNER, Message
from onlooker.domain.notes import SessionSummary, Usage
from onlooker.domain.search import Hit, HitKind
from onlooker.engine import events as engine_events
from onlooker.engine import memory as engine
from onlooker.engine.events import MOST_HELD
from onlooker.engine.histories import Item
from onlooker.engine.searching import KINDS
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
    def items(self) -> Any:
        return Group(self._memory.items, self._portal)

    @property
    def files(self) -> Any:
        return Group(self._memory.files, self._portal)

    @property
    def index(self) -> Any:
        return Group(self._memory.index, self._portal)

    @property
    def storage(self) -> Any:
        return Group(self._memory.storage, self._portal)

    @property
    def retention(self) -> Any:
        return Group(self._memory.retention, self._portal)

    @property
    def background(self) -> Any:
        return Group(self._memory.background, self._portal)

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

    def settle(self) -> None:
        self._portal.call(self._memory.settle())

    def forget(self, *, owner: str, session: str | None = None) -> ForgetResult:
        return self._portal.call(self._memory.forget(owner=owner, session=session))

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
        async def opened() -> engine_events.EventStream[Any]:
            return self._memory.events(*types, most=most)

        return EventStream(self._portal.call(opened()), self._portal)
