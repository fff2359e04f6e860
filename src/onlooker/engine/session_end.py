"""The end of a session: on request, after some time without a message, when the process stops, or in a later
sweep. What other sessions of the same owner should know then becomes items, once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING

from onlooker.domain.errors import ConflictError, ModelError, OnlookerError
from onlooker.domain.events import Event, ItemsMade
from onlooker.domain.items import EndMark, Item, ItemChange
from onlooker.domain.messages import Message, SessionId, new_id, tokens_of
from onlooker.domain.notes import Note, Progress, State
from onlooker.engine.items import MAX_ITEMS
from onlooker.engine.leases import Leases
from onlooker.engine.writer import Writer
from onlooker.policy.settings import Settings
from onlooker.ports import Clock, ItemsRequest, Store

if TYPE_CHECKING:
    from onlooker.policy.items.extract import Candidate

log = logging.getLogger("onlooker")

# Sessions of this process that are ended when it stops; more are left to the sweep.
MAX_USED_SESSIONS = 1_000
# How many idle sessions one sweep ends.
MAX_AT_ONCE = 100
# How long a model's whole answer should be.
ANSWER_TOKENS = 800
# Known items that a model is told of, so that it does not repeat them.
MAX_KNOWN_ITEMS = 60
# How often a change is tried if another worker changes the items at the same time.
MAX_TRIES = 3


class SessionEnd:
    """Ends sessions, and makes items of them."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        tz: tzinfo,
        emit: Callable[[Event], None],
        *,
        leases: Leases,
        reflector: Writer,
        asks_model: bool,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._tz = tz
        self._emit = emit
        self._leases = leases
        self._reflector = reflector
        self._asks_model = asks_model  # else the built-in choice is made
        self._used: dict[SessionId, None] = {}

    # -- when

    def mark_used(self, session: SessionId) -> None:
        """Remember that this process recorded something in the session."""
        if self.is_automatic:
            self._used.pop(session, None)
            self._used[session] = None
            if len(self._used) > MAX_USED_SESSIONS:
                del self._used[next(iter(self._used))]

    def drop_cached(self, session: SessionId) -> None:
        self._used.pop(session, None)

    @property
    def is_automatic(self) -> bool:
        """Whether sessions end by themselves after a time without a message."""
        settings = self._settings
        on = settings.cross_session != "off" and bool(settings.cross_session_limit)
        return settings.enabled and on and settings.idle_minutes > 0

    async def stop(self, deadline: float) -> None:
        """End the sessions that this process used, within the deadline; the rest is left to a later sweep."""
        try:
            async with asyncio.timeout(max(0.0, deadline)):
                for session in tuple(self._used):
                    await self._end_quietly(session)
        except TimeoutError:
            log.info("%d sessions end later: the process stops now", len(self._used))
        self._used.clear()

    async def end_idle(self, idle: timedelta | None = None) -> int:
        """End sessions without a message for that long, by default `idle_minutes`; return how many."""
        if idle is None:
            idle = timedelta(minutes=self._settings.idle_minutes)
        found = await self._store.idle(self._clock.now() - idle, limit=MAX_AT_ONCE)
        for session in found:
            await self._end_quietly(session)
        return len(found)

    async def _end_quietly(self, session: SessionId) -> None:
        """End a session unless another worker holds it. A failure is only logged."""
        try:
            async with self._leases.alone(session) as ours:
                if ours:
                    await self.end(session)
        except OnlookerError as error:
            log.warning("%s: not ended now: %s", session.key, error)
        else:
            self._used.pop(session, None)

    # -- what

    async def end(self, session: SessionId) -> Sequence[Item]:
        """Make items of what was said since the session last ended; none if another worker did so first.

        Raises:
            StoreError: The store cannot write; the session stays open.
        """
        for _ in range(MAX_TRIES):
            state = await self._store.load(session)
            if state is None or state.progress.ended >= state.progress.last_seq:
                return ()
            progress = state.progress
            mark = EndMark(session, progress.ended, progress.last_seq, progress.revision)
            began = time.perf_counter()
            made = await self._choose(state) if self._settings.shares_items(session.owner) else []
            kept = await self._keep(session, made, mark, began)
            if kept is not None:
                return kept
        return ()

    async def keep_condensed(self, progress: Progress, notes: Sequence[Note]) -> None:
        """Make items of notes that were just condensed: the reflection leaves out some of their content."""
        session = progress.session
        if not self._settings.shares_items(session.owner):
            return
        try:
            # The mark stays where it is and only guards the revision. Reflections are skipped: items were
            # made of them when they were observations.
            mark = EndMark(session, progress.ended, progress.ended, progress.revision)
            began = time.perf_counter()
            fresh = [note for note in notes if not note.generation]
            await self._keep(session, await self._pick_in_thread(session, fresh, ()), mark, began)
        except OnlookerError as error:
            log.warning("%s: no items made of condensed notes: %s", session.key, error)

    async def _keep(
        self, session: SessionId, made: Sequence[Item], mark: EndMark, began: float
    ) -> Sequence[Item] | None:
        """Store the items that are new, and return them; None if the session changed since they were made:
        they may contain what was forgotten."""
        from onlooker.policy.items.match import reconcile

        now = self._clock.now()
        for _ in range(MAX_TRIES):
            existing = await self._store.items(session.owner, limit=MAX_ITEMS) if made else ()
            done = await asyncio.to_thread(reconcile, made, existing)
            # An item that this session made earlier does not count as used.
            own = {item.id for item in existing if item.session == session.key}
            use = tuple(dict.fromkeys(i for i in done.use if i not in own))
            change = ItemChange(session.owner, now, tuple(done.add), tuple(done.end.items()), use, mark)
            if not (change.add or change.use or mark.up_to > mark.expected):
                return ()
            try:
                await self._store.change_items(change)
            except ConflictError:
                progress = await self._progress_of(mark)
                if progress is None or progress.ended != mark.expected:
                    return ()
                if progress.revision != mark.revision:
                    return None
                continue
            if change.add:
                took = time.perf_counter() - began
                self._emit(ItemsMade(session.owner, change.add, session.key, seconds=took))
            return change.add
        raise ConflictError(f"{session.key}: other workers keep changing the items of this owner")

    async def _progress_of(self, mark: EndMark) -> Progress | None:
        state = await self._store.load(mark.session)
        return state.progress if state else None

    # -- who chooses

    async def choose_items(self, session: SessionId, notes: Sequence[Note]) -> list[Item]:
        """The items that the end of a session would make of these notes, before known ones are left out."""
        return await self._choose(State(Progress(session), tuple(notes)))

    async def _choose(self, state: State) -> list[Item]:
        notes = [note for note in state.notes if note.last > state.progress.ended]
        messages = [message for message in state.unnoted if message.seq > state.progress.ended]
        session = state.progress.session
        if self._asks_model:
            try:
                asked = await self._ask_model(session, notes, messages)
            except ModelError as error:
                log.warning("%s: choosing items without the model: %s", session.key, error)
                asked = None
            if asked is not None:
                return asked
        return await self._pick_in_thread(session, notes, messages)

    async def _pick_in_thread(
        self, session: SessionId, notes: Sequence[Note], messages: Sequence[Message]
    ) -> list[Item]:
        """Choose items without a language model: statements from the notes, and from what people said since.
        In a thread, since a turn must not wait for it."""
        return await asyncio.to_thread(self._pick, session, notes, messages)

    def _pick(self, session: SessionId, notes: Sequence[Note], messages: Sequence[Message]) -> list[Item]:
        from onlooker.policy.items.extract import choose_candidates, user_statements
        from onlooker.policy.items.statements import statements

        format = self._settings.format
        found = [
            s
            for note in notes
            for s in statements(note.text, source=note.id, format=format, day=note.made_at.date())
        ]
        found += user_statements(messages)
        return self._as_items(session, choose_candidates(found, self._tz), (), ())

    async def _ask_model(
        self, session: SessionId, notes: Sequence[Note], messages: Sequence[Message]
    ) -> list[Item] | None:
        """Let the language model choose items; None if its answer is not usable, or its window is too small.

        Raises:
            ModelError: It did not answer.
        """
        from onlooker.policy.items.extract import read_items
        from onlooker.policy.render import text_lines
        from onlooker.policy.values import invented

        writer = self._reflector
        known = tuple(i.summary for i in await self._store.items(session.owner, limit=MAX_KNOWN_ITEMS))
        if sum(n.tokens for n in notes) + tokens_of(messages) > writer.model.window:
            return None
        request = ItemsRequest(session, tuple(notes), 1, ANSWER_TOKENS, messages=tuple(messages), known=known)
        source = "\n".join((*(n.text for n in notes), text_lines(messages), *known))
        day = (messages[-1].at if messages else None) or (notes[-1].made_at if notes else self._clock.now())
        candidates = await writer.ask(
            request,
            lambda text: read_items(text, source=source, day=day.date(), tz=self._tz, invented=invented),
        )
        return None if candidates is None else self._as_items(session, candidates, notes, messages)

    def _as_items(
        self,
        session: SessionId,
        candidates: Sequence[Candidate],
        notes: Sequence[Note],
        messages: Sequence[Message],
    ) -> list[Item]:
        from onlooker.policy.items.extract import find_source

        # The most valuable come first and get the latest time: of two items, the newer one counts for more.
        now = self._clock.now()
        made = [now - timedelta(microseconds=place) for place in range(len(candidates))]
        texts = [*((n.id, n.text) for n in notes), *((m.id, m.body) for m in messages)]
        return [
            Item(
                owner=session.owner,
                id=new_id("itm", at),
                type=c.type,
                summary=c.summary,
                made_at=at,
                tags=c.tags,
                origin=c.origin,
                # A note has only the day: take its end, but no time in the future.
                said_at=min(c.said_on, at - timedelta(days=1)) + timedelta(days=1) if c.said_on else None,
                valid_from=c.valid_from,
                expires_at=c.expires_at,
                session=session.key,
                sources=c.sources or find_source(c.summary, texts),
            )
            for c, at in zip(candidates, made, strict=True)
        ]
