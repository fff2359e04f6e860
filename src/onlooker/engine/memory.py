"""Memory: the file to read first.

`session.record` stores a message (`session.py`, `recording.py`) and wakes the background loop if a note is
due (`background.py`). There the planner decides, a model writes and the store commits (`note_taker.py`,
`writer.py`). `session.context` reads what is stored and assembles the prompt (`session.py` again). Nothing on
the way waits for a model, with one exception that has a deadline (`block_after`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from onlooker.domain.context import current_session
from onlooker.domain.errors import SettingsError
from onlooker.domain.events import BaseEvent, Event
from onlooker.domain.messages import Message, MessageLike, SdkMessage, SessionId
from onlooker.domain.notes import SessionSummary, Usage
from onlooker.domain.search import Hit, HitKind
from onlooker.engine.background import Background
from onlooker.engine.events import MAX_HELD, EventStream
from onlooker.engine.indexing import Index
from onlooker.engine.items import Items
from onlooker.engine.recall import KINDS, Search
from onlooker.engine.retention import Retention
from onlooker.engine.runtime import Runtime
from onlooker.engine.session import Session
from onlooker.policy.assemble import Counting, PromptRequest, assemble_without_memory
from onlooker.policy.intake import as_history, intake_all
from onlooker.policy.render import Context
from onlooker.policy.settings import Settings, time_zone
from onlooker.ports import Store

if TYPE_CHECKING:
    from onlooker.domain.history import ForgetResult
    from onlooker.engine.storage import Storage
    from onlooker.files.notes_folder import NotesFolder

H = TypeVar("H", bound=BaseEvent)

SETTLE_PAUSE = 0.02


class Memory:
    """All sessions of one store. Made by `open_memory`; use it with `async with`."""

    def __init__(self, runtime: Runtime) -> None:
        # The first thing that someone tries without reading the documentation.
        if not isinstance(runtime, Runtime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SettingsError("Memory", runtime, "must be made by onlooker.open_memory(…)")
        self._runtime = runtime

    @property
    def settings(self) -> Settings:
        return self._runtime.settings

    @property
    def counting(self) -> Counting:
        """How this memory counts tokens, with what it learned from providers."""
        return self._runtime.counting

    @property
    def store(self) -> Store:
        return self._runtime.store

    # -- groups

    @property
    def items(self) -> Items:
        """Facts about owners that outlive their sessions."""
        return self._runtime.items

    @property
    def files(self) -> NotesFolder:
        """MEMORY.md and daily notes.

        Raises:
            SettingsError: There is no `notes_folder`.
        """
        if self._runtime.files is None:
            raise SettingsError("notes_folder", "", "must name a folder for MEMORY.md and daily notes")
        return self._runtime.files

    @property
    def index(self) -> Index:
        """The graph of notes, and the indexes that search uses."""
        return self._runtime.index

    @property
    def storage(self) -> Storage:
        """Export, import and backup."""
        from onlooker.engine.storage import Storage

        runtime = self._runtime
        own = runtime.settings.own_owner
        return Storage(runtime.store, owner=own, ready=runtime.ready, imported=runtime.imported)

    @property
    def retention(self) -> Retention:
        """Deleting what is old."""
        return self._runtime.retention

    @property
    def background(self) -> Background:
        """Work in the background."""
        return self._runtime.background

    # -- opening and closing

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    if not TYPE_CHECKING:  # a type checker refuses it by itself

        def __enter__(self):
            raise TypeError(
                "this memory needs `async with` and `await`; in a program without them, use "
                "`with onlooker.blocking.open_memory(…)`"
            )

        def __exit__(self, *_):
            """Only so that `with` gets as far as the error."""

    async def open(self) -> None:
        """Open the store and continue what an earlier process left due. Opening twice is harmless."""
        await self._runtime.open()

    async def close(self) -> None:
        """Start nothing new, let work in progress complete within `stop_deadline`, and close the store."""
        await self._runtime.close()

    # -- sessions

    def session(self, key: str, *, owner: str | None = None, tz: str | tzinfo | None = None) -> Session:
        """One conversation. Without an `owner` it is the memory's own, if that has one. `tz` is the time zone
        of messages that come without one, by name or as a `tzinfo`; by default the memory's own."""
        owner = self.settings.own_owner if owner is None else owner
        for name, value in (("key", key), ("owner", owner)):
            if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise SettingsError(f"session {name}", value, "must be text that is not empty")
        zone = self._runtime.tz if tz is None else time_zone(tz)
        if tz is not None and self._runtime.files:
            self._runtime.files.set_zone(SessionId(owner, key), zone)
        return Session(self._runtime, SessionId(owner, key), zone)

    def current(self) -> Session | None:
        """The session named by `use_session`, if any."""
        named = current_session()
        return Session(self._runtime, named, self._runtime.tz) if named else None

    async def sessions(
        self,
        *,
        owner: str | None = None,
        key: str | None = None,
        limit: int | None = None,
        after: SessionSummary | None = None,
        matching: str = "",
    ) -> Sequence[SessionSummary]:
        """The stored sessions, most recently used first. `after` continues a list after this session;
        `matching` selects those whose key or owner contains this text."""
        await self._runtime.ready()
        behind = after and (after.used_at, after.progress.sid)
        return await self.store.sessions(owner=owner, key=key, limit=limit, after=behind, matching=matching)

    async def search(
        self,
        query: str,
        *,
        owner: str | None = None,
        session: str | None = None,
        kinds: Sequence[HitKind] = KINDS,
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
        marks: tuple[str, str] = ("", ""),
    ) -> Sequence[Hit]:
        """Search the messages and notes of an owner's sessions, or of the one with that key, as
        `Session.search` does."""
        await self._runtime.ready()
        owner = self.settings.own_owner if owner is None else owner
        where = None if session is None else SessionId(owner, session)
        search = Search(owner, where, tuple(kinds), limit, after, before, marks)
        return await self._runtime.search(search, query)

    async def record(self, *messages: MessageLike | SdkMessage) -> Sequence[Message]:
        """Record into the session named by `use_session`; do nothing without one."""
        session = self.current()
        return await session.record(*messages) if session else ()

    async def prepare(
        self, history: Sequence[MessageLike | SdkMessage], *, system: str = "", budget: int | None = None
    ) -> Context:
        """`Session.prepare` for the session named by `use_session`; without one, the context is the unchanged
        history."""
        session = self.current()
        if session is None:
            messages = intake_all(as_history(history), at=self._runtime.clock.now(), tz=self._runtime.tz)
            return assemble_without_memory(PromptRequest(system=system), messages, self._runtime.counting)
        return await session.prepare(history, system=system, budget=budget)

    # -- work

    async def settle(self) -> None:
        """Take every note that is due, in every session, before returning."""
        await self._runtime.ready()
        while await self._runtime.workers.tick():
            await self._runtime.workers.flush()
            # A session may be leased to another process, which takes its notes: check again soon.
            await asyncio.sleep(SETTLE_PAUSE)

    async def forget(self, *, owner: str, session: str | None = None, by: str = "") -> ForgetResult:
        """Forget a session of an owner, or everything of that owner: messages, notes, items, indexes and
        journals, down to the bytes in the files. What model calls cost stays counted for the day. `by` names
        who asked for it; `memory.storage.forgotten` lists that."""
        await self._runtime.ready()
        return await self._runtime.forgetter.owner(owner, session, by=by)

    async def usage(self) -> Sequence[Usage]:
        """What model calls cost so far, including those of deleted sessions."""
        await self._runtime.ready()
        return await self.store.usage()

    async def calibrate(self, context: Context, *, input_tokens: int) -> None:
        """Learn from the input tokens that a provider reported for a context."""
        await self._runtime.ready()
        await self._runtime.calibrate(context.stats.total, input_tokens)

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event. Returns a function that unsubscribes it."""
        return self._runtime.events.subscribe(listener)

    @overload
    def events(self, *, limit: int = MAX_HELD) -> EventStream[Event]: ...

    @overload
    def events(self, *types: type[H], limit: int = MAX_HELD) -> EventStream[H]: ...

    def events(self, *types: type[BaseEvent], limit: int = MAX_HELD) -> EventStream[Any]:
        """Events from now on, of these types or of all, for `async for`. The stream ends when the memory is
        closed.

        At most `limit` unread events are held; the stream counts those that it drops.
        """
        return self._runtime.events.stream(types, limit)
