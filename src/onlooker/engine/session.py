"""One conversation: what is said goes in, the context for the next turn comes out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, TypeVar

from onlooker.domain.context import Layer, Layers, RuntimeContext
from onlooker.domain.errors import ConflictError, OnlookerError, SettingsError, StoreError
from onlooker.domain.events import ContextBuilt, Deleted, Pinned, Waited
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, MessageLike, SessionId
from onlooker.domain.notes import Extractor, Note, NoteKind, NoteStatus, Progress, State
from onlooker.domain.search import Hit, HitKind
from onlooker.engine.core import Core
from onlooker.engine.histories import with_originals
from onlooker.engine.layers import Asking, last_question
from onlooker.engine.recording import Recorder
from onlooker.engine.reminding import Reminder
from onlooker.engine.searching import KINDS, Search, expanded
from onlooker.policy.assemble import (
    Layout,
    PromptRequest,
    assemble,
    assemble_without_memory,
    lay_out,
    relative_days,
)
from onlooker.policy.intake import intake_all
from onlooker.policy.layers import in_order
from onlooker.policy.plan import Idle, make_room, must_wait, plan
from onlooker.policy.render import Context

if TYPE_CHECKING:
    from onlooker.domain.history import ForgetResult
    from onlooker.engine.corrections import History
    from onlooker.engine.tools import Tools

log = logging.getLogger("onlooker")

V = TypeVar("V", bound=Extractor)

# The longest that a turn may spend on notes written on the spot.
ON_THE_SPOT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation in a memory. Cheap to make; it holds nothing itself."""

    core: Core
    id: SessionId
    tz: tzinfo

    @property
    def key(self) -> str:
        return self.id.key

    @property
    def owner(self) -> str:
        return self.id.owner

    # -- what was said

    async def record(self, *messages: MessageLike | Sequence[MessageLike]) -> Sequence[Message]:
        """Record messages, ours or in OpenAI or Anthropic form; durable when this returns.

        Returns those that were new: one whose id is recorded already is passed over. However many,
        it is one transaction.

        Raises:
            MessageError: Something is not a message; nothing was recorded.
            StoreError: The storage cannot write now; nothing was recorded.
        """
        await self.core.ready()
        items = [i for m in messages for i in ([m] if isinstance(m, Message | Mapping) else m)]
        return await self._recorder.record(items)

    async def prepare(
        self,
        history: Sequence[MessageLike],
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Layers | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
    ) -> Context:
        """Record what is new in a host's whole history, and return the context to send instead.

        The history is aligned with what is recorded, by id or else by content and position. Where it
        went another way (an answer regenerated, a message edited, a branch), recorded messages that
        it no longer has are retired, and the notes that stand for them rolled back. A host that
        trimmed its own past takes nothing back. System messages at its head belong to the base
        prompt; anything else before what is recorded (a summary of the host's own) is passed on.
        """
        layers = self._layers(knowledge)
        if not self.core.settings.enabled:
            messages = intake_all(list(history), at=self.core.clock.now(), tz=self.tz)
            frame = await self._told(PromptRequest(system, end=end), layers, messages)
            return assemble_without_memory(frame, messages, self.core.counting)
        await self.core.ready()
        opening = await self._recorder.follow(history)
        frame = PromptRequest(
            system, {}, opening.lead, opening.preface, end, self._budget(budget), question=question
        )
        context = await self._context(frame, layers, relative_time)
        tail = with_originals(context.messages, history, at=self.core.clock.now(), tz=self.tz)
        return replace(context, messages=tail)

    @property
    def _recorder(self) -> Recorder:
        return Recorder(self.core, self.id, self.tz)

    # -- what the agent receives

    async def context(
        self,
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Layers | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
    ) -> Context:
        """The prompt for the next turn: base prompt, knowledge, memory, recent messages.

        `budget` is the most it may cost, in tokens, and is remembered for the notes to come.
        `knowledge` are layers by name, put after the base prompt: texts, functions that are asked, or
        a `Layer` of either; they stand beside or replace those of `open_memory`. `end` is text for the
        end of the prompt, where what changes each turn belongs; `relative_time` adds today's date and
        how long ago the days in the notes are. `question` builds the context to answer that: most of
        it are then earlier messages that bear on it, word for word, at the end.

        Raises:
            BudgetError: The base prompt alone is larger than the budget.
            StoreError: The storage cannot be read now.
        """
        await self.core.ready()
        frame = PromptRequest(system, end=end, budget=self._budget(budget), question=question)
        return await self._context(frame, self._layers(knowledge), relative_time)

    def _budget(self, asked: int | None) -> int:
        budget = self.core.settings.budget if asked is None else asked
        if not isinstance(budget, int) or budget < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SettingsError("budget", budget, "must be a whole number of tokens, or 0 for none")
        return budget

    def _layers(self, given: Layers | None) -> dict[str, Layer]:
        return in_order({**self.core.knowledge, **given}) if given else self.core.knowledge

    async def _told(
        self, frame: PromptRequest, layers: Mapping[str, Layer], messages: Sequence[Message]
    ) -> PromptRequest:
        """The frame with what the knowledge layers say."""
        if not layers:
            return frame
        core, runtime = self.core, RuntimeContext.of(self.key)
        question = frame.question or last_question(messages)
        asking = Asking(
            self.id,
            runtime,
            core.settings,
            core.counting,
            core.emit,
            question,
            core.timing.knowledge_deadline,
        )
        return await asking.fill(frame, layers)

    async def _context(
        self, frame: PromptRequest, layers: Mapping[str, Layer], relative_time: bool
    ) -> Context:
        core = self.core
        began = time.perf_counter()
        runtime = RuntimeContext.of(self.key)
        if not core.settings.enabled:
            messages = await core.store.messages(self.id)
            return assemble_without_memory(
                await self._told(frame, layers, messages), messages, core.counting, runtime
            )
        state = await core.store.load(self.id) or State(Progress(self.id))
        frame = await self._told(frame, layers, state.messages)
        if any(layer.is_dynamic for layer in layers.values()):
            # That may have taken a while, in which more was said or noted.
            state = await core.store.load(self.id) or state
        if relative_time:
            today = relative_days(state.active, self._now)
            frame = replace(frame, end="\n".join(t for t in (today, frame.end) if t))
        reminder = Reminder(core.store, self.id, core.settings, core.counting, self._now, core.meaning)
        frame = reminder.reserve(frame)
        room = core.counting.room(frame, core.settings)
        if state.items is None and core.files:
            await core.files.pick_up(self.owner)
        state = await core.shown_items.shown(state, room)
        new_budget = core.worker.asked(self.id, room)
        state = await self._wait_if_far_behind(state)
        state, layout = await self._make_room(state, frame)
        if new_budget and not isinstance(plan(state, core.worker.bounds(state)), Idle):
            # Recording wakes the buffer when something is due; a new budget may make it due as well.
            core.wake_unless_put_off(state)
        frame, layout = await reminder.remind(state, frame, layout)
        context = assemble(state, frame, core.settings, core.counting, runtime, layout)
        core.emit(ContextBuilt(self.id, context.stats, seconds=time.perf_counter() - began))
        return context

    @property
    def _now(self) -> datetime:
        return self.core.clock.now().astimezone(self.tz)

    async def _make_room(self, state: State, frame: PromptRequest) -> tuple[State, Layout]:
        """Note on the spot what would otherwise be cut off unseen.

        Should even that fail, or take too long because a host hands over a long past at once, the
        turn goes on with what fits; what does not is counted, stays stored, and is noted later.
        """
        core = self.core
        enough = time.monotonic() + ON_THE_SPOT_SECONDS
        layout = lay_out(state, frame, core.settings, core.counting, core.section)
        made = False
        try:
            while time.monotonic() < enough:
                step = make_room(state, layout.bounds, layout.room)
                if step is None:
                    break
                made = True
                try:
                    state = await core.worker.do(state, step, fence=None, on_the_spot=True)
                except ConflictError:
                    log.debug("%s: noted elsewhere meanwhile", self.key)
                    state = await core.store.load(self.id) or state
                layout = lay_out(state, frame, core.settings, core.counting, core.section)
        except OnlookerError as error:
            log.warning("%s: could not make room: %s", self.key, error)
        if made:
            # What is due after it, such as condensing, is for the background.
            core.wake_unless_put_off(state)
        return state, layout

    async def _wait_if_far_behind(self, state: State) -> State:
        """The one wait, for those who ask for it (`block_after`), and with a deadline."""
        core = self.core
        if not must_wait(state, core.worker.bounds(state)):
            return state
        began, caught_up = time.perf_counter(), False
        try:
            async with asyncio.timeout(core.timing.block_deadline):
                caught_up = await core.worker.advance(self.id)
        except (TimeoutError, StoreError) as error:
            log.warning("%s: notes are behind and did not catch up: %r", self.key, error)
        core.emit(Waited(self.id, caught_up, seconds=time.perf_counter() - began))
        return await core.store.load(self.id) or state

    # -- notes

    async def settle(self) -> bool:
        """Take every note that is due before returning; False when a model failed, or another process is at
        them just now."""
        await self.core.ready()
        return await self.core.worker.advance(self.id)

    async def end(self) -> Sequence[Item]:
        """The conversation is over: take the notes that are due, and make items of what other sessions of
        this owner should know; return those. What is said later opens it again."""
        await self.settle()
        async with self.core.worker.alone(self.id):
            return await self.core.ending.end(self.id)

    async def refresh_items(self) -> Sequence[Item]:
        """Choose anew which of its owner's items this session shows, as a session that begins now would;
        the prompt's prefix changes with them."""
        await self.core.ready()
        state = await self.core.store.load(self.id) or State(Progress(self.id))
        budget = self.core.worker.budgets.get(self.id.sid) or state.progress.budget
        return (await self.core.shown_items.refresh(state, budget)).items or ()

    def tools(self) -> Tools:
        """`memory_search`, `memory_save`, `memory_forget` and `recall` for the agent of this session."""
        from onlooker.engine.tools import Tools

        return Tools(self)

    async def notes(
        self,
        *,
        kind: NoteKind | None = None,
        recent: int | None = None,
        statuses: Sequence[NoteStatus] = ("active",),
    ) -> Sequence[Note]:
        """Notes, oldest first; with `recent`, the newest n."""
        await self.core.ready()
        return await self.core.store.notes(self.id, statuses=statuses, kind=kind, recent=recent)

    async def extracted(self, type: type[V]) -> list[V]:
        """Values of one of your own types, filled in from what was said (`extractors`), oldest first.

        One that the class no longer takes, since it has changed, is left out with a warning;
        `history.extractions` still has it.
        """
        await self.core.ready()
        found: list[V] = []
        for extraction in await self.core.store.extractions(self.id, type=type.__name__):
            try:
                found.append(type.model_validate(extraction.value))
            except Exception as error:  # noqa: BLE001  a user's own class may raise anything
                log.warning("%s: a %s no longer fits its class: %s", self.key, extraction.type, error)
        return found

    async def messages(self, *, archived: bool = False) -> Sequence[Message]:
        """What was said, oldest first; with `archived`, what compaction set aside as well."""
        await self.core.ready()
        return await self.core.store.messages(self.id, archived=archived)

    async def recall(
        self, target: str | int | Hit, *, neighbours: int = 0, page: int | None = None
    ) -> Sequence[Message]:
        """The messages that a note, named by its id, stands for, word for word; or the message with that seq,
        or what a hit of `search` stands for.

        `neighbours` adds so many messages before and after, and `page` gives one page of 50, from 1 on.
        """
        await self.core.ready()
        return await expanded(self.core.store, self.id, target, neighbours, page)

    async def search(
        self,
        query: str,
        *,
        kinds: Sequence[HitKind] = KINDS,
        limit: int = 20,
        after: datetime | None = None,
        before: datetime | None = None,
        marks: tuple[str, str] = ("", ""),
    ) -> Sequence[Hit]:
        """What was said and noted in this session that speaks of something, best first.

        `kinds` are "message" and "note"; `after` and `before` bound when it was said or noted. In each
        hit's snippet the words that were found stand between `marks`.
        """
        await self.core.ready()
        search = Search(self.owner, self.id, tuple(kinds), limit, after, before, marks)
        return await self.core.search(search, query)

    async def pin(self, target: str, *, on: bool = True) -> None:
        """Keep a note or message in every context of this session; `on=False` lets it go again."""
        await self.core.ready()
        await self.core.store.pin(self.id, target, on=on)
        self.core.emit(Pinned(self.id, target, on))

    @property
    def history(self) -> History:
        """The notes over time: correcting them, and looking back."""
        core = self.core
        from onlooker.engine.corrections import History

        return History(
            self.id,
            core.store,
            core.settings,
            core.counting,
            core.clock,
            core.tz,
            core.emit,
            ready=core.ready,
            limits_of=core.worker.bounds,
            compact=self._recorder.compact,
        )

    async def forget(
        self, *targets: str, dry_run: bool = False, rewrite_later: bool | None = None
    ) -> ForgetResult:
        """Forget messages by id, and what notes stand for, with everything derived from them.

        Notes that mix them with other messages are written again without them (on the spot, and by the model
        when it is due). Nothing of them stays in any table, index, journal or file. A host that hands over
        whole histories must remove them there as well.

        `dry_run` only counts. `rewrite_later` says whether a model writes those notes again; by default it
        does if one is configured.

        Raises:
            KeyError: There is no message or note with that id.
        """
        from onlooker.engine.forgetting import Forgetter

        await self.core.ready()
        forgetter = Forgetter(self.core, self.id)
        return await forgetter.forget(targets, dry_run=dry_run, rewrite_later=rewrite_later)

    async def delete(self) -> bool:
        """Delete the session with everything in it; False when there was none. What its notes cost stays
        counted for its owner and the day."""
        await self.core.ready()
        self.core.forget(self.id)
        was_there = await self.core.store.delete_session(self.id)
        if was_there:
            self.core.emit(Deleted(self.id))
        if self.core.journal:
            await self.core.journal.renew([self.id], [self.owner])
        if self.core.files:
            await self.core.files.renew([self.id], [self.owner])
        return was_there
