"""A session: messages go in, and the context for the next turn comes out.

`record` stores a message (`recording.py`) and wakes the background (`background.py`), which takes
notes (`note_taker.py`). `context` reads both and lays them out (`policy/assemble.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, TypeVar, get_args

from onlooker.domain.context import Layer, Layers, RuntimeContext
from onlooker.domain.errors import ConflictError, NotFoundError, OnlookerError, SettingsError, StoreError
from onlooker.domain.events import ContextBuilt, Pinned, Waited
from onlooker.domain.frozen import frozen
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, MessageLike, SdkMessage, SessionId, last_question
from onlooker.domain.notes import NOTE_STATUSES, Extractor, Note, NoteKind, NoteStatus, Progress, State
from onlooker.domain.search import Hit, HitKind
from onlooker.engine.histories import RecordedHistory, with_originals
from onlooker.engine.indexing import index_batch
from onlooker.engine.knowledge import LayerCall
from onlooker.engine.recall import KINDS, Reminder, Search, messages_behind
from onlooker.engine.recording import Recording, load_newest
from onlooker.engine.runtime import Runtime
from onlooker.policy import pace
from onlooker.policy.align import Rewind
from onlooker.policy.assemble import (
    Layout,
    PromptRequest,
    assemble,
    assemble_without_memory,
    lay_out,
    relative_days,
)
from onlooker.policy.intake import as_chat, as_items, history_items, intake_all
from onlooker.policy.layers import in_order
from onlooker.policy.plan import (
    MIN_STEP_TOKENS,
    ON_THE_SPOT_TOKENS,
    Activate,
    Idle,
    Observe,
    condense,
    make_room,
    must_wait,
    plan,
)
from onlooker.policy.render import Context
from onlooker.ports import waiting_for_locks

if TYPE_CHECKING:
    from onlooker.domain.history import ForgetResult
    from onlooker.engine.corrections import History
    from onlooker.engine.tools import Tools

log = logging.getLogger("onlooker")

V = TypeVar("V", bound=Extractor)

# How long a context waits in total for another program's lock, to store items and notes. After that it
# continues without them.
LOCK_SECONDS = 0.8


@frozen
class Session:
    """One conversation in a memory. It is cheap to make and holds no state."""

    _runtime: Runtime = field(repr=False)
    id: SessionId
    _tz: tzinfo = field(repr=False)

    @property
    def key(self) -> str:
        return self.id.key

    @property
    def owner(self) -> str:
        return self.id.owner

    # -- recording

    async def record(
        self, *messages: MessageLike | SdkMessage | Sequence[MessageLike | SdkMessage]
    ) -> Sequence[Message]:
        """Record messages: ours, in OpenAI or Anthropic form, or as their SDKs return them, items of the
        Responses API included. They are durable on return.

        All are recorded in one transaction. Messages whose id is already recorded are skipped. Returns
        the new ones.

        Raises:
            MessageError: An argument is not a message; nothing was recorded.
            StoreError: The store cannot write; nothing was recorded.
        """
        await self._runtime.ready()
        with pace.turn():
            return await self._runtime.recorder.record(self.id, as_items(messages), self._tz)

    async def prepare(
        self,
        history: Sequence[MessageLike | SdkMessage],
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Layers | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
        rewind: Rewind = "auto",
    ) -> Context:
        """Record the new messages of a host's history, and return the context to send instead.

        The history is aligned with the recorded messages by id, or else by content and order. It may be
        whole, or a part of the conversation: what it lacks stays recorded. Messages are taken back only on
        proof that the host dropped them (an answer regenerated, a message edited, a branch); they are then
        retired, and the notes made from them rolled back. `rewind="never"` takes nothing back, and "refuse"
        raises `ConflictError` and records nothing where the history does not continue the record. System
        messages at the start belong to the base prompt. Anything else before the recorded messages, such as
        the host's own summary, is passed through.

        It records what came before this turn and the newest message. The answer is recorded with the next
        call; call `record` with it to have it recorded at once.
        """
        prepared = await self._prepare(
            history,
            system=system,
            budget=budget,
            knowledge=knowledge,
            end=end,
            relative_time=relative_time,
            question=question,
            rewind=rewind,
        )
        return await prepared.stored()

    async def _prepare(
        self,
        history: Sequence[MessageLike | SdkMessage],
        *,
        system: str = "",
        budget: int | None = None,
        knowledge: Layers | None = None,
        end: str = "",
        relative_time: bool = False,
        question: str = "",
        rewind: Rewind = "auto",
        is_own: bool = False,
    ) -> Prepared:
        """`is_own` is as in `Recorder.record_history`."""
        runtime, items, layers = self._runtime, history_items(history), self._layers(knowledge)
        if not runtime.settings.enabled:
            messages = intake_all(as_chat(items), at=runtime.clock.now(), tz=self._tz)
            request = await self._add_knowledge(PromptRequest(system, end=end), layers, messages)
            return Prepared(assemble_without_memory(request, messages, runtime.counting))
        await runtime.ready()
        if rewind not in get_args(Rewind):
            raise SettingsError("rewind", rewind, "must be auto, never or refuse")
        request = PromptRequest(system, end=end, budget=self._budget(budget), question=question)
        with pace.turn():
            recording = await runtime.recorder.record_history(
                self.id, items, self._tz, rewind, request.budget, is_own=is_own
            )

        async def make(recorded: RecordedHistory, storing: Recording | None) -> Context:
            asked = replace(
                request,
                lead=recorded.lead,
                preface=recorded.preface,
                newest=recorded.newest,
                retired=len(recorded.retired),
            )
            with waiting_for_locks(LOCK_SECONDS):
                context = await self._context(asked, layers, relative_time, recorded.state, storing)
            tail = with_originals(context.messages, recorded.items, at=runtime.clock.now(), tz=self._tz)
            prefill = bool(tail) and tail[-1].role == "assistant" and not tail[-1].calls
            return replace(context, messages=tail, prefill=prefill)

        try:
            return Prepared(await make(recording.expected, recording), recording, make)
        except _SupersededError:
            return Prepared(await make(await recording.stored(), None))
        except OnlookerError:
            await recording.stored()  # what was said is recorded, whether or not a prompt can be made
            raise
        except BaseException:
            recording.begin()
            raise
        finally:
            recording.end()

    # -- the context

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

        `budget` is the limit in tokens; later notes are planned for it too. `knowledge` are layers by name,
        placed after the base prompt: texts, functions to call, or a `Layer` of either. They add to those of
        `open_memory`, or replace them by name. `end` is text for the end of the prompt, the place for
        what changes each turn. `relative_time` adds today's date and how long ago the days in the notes
        are. `question` builds a context to answer that question: most of it is then earlier messages
        about it, word for word, at the end.

        Raises:
            BudgetError: The base prompt alone is larger than the budget.
            StoreError: The store cannot be read.
        """
        await self._runtime.ready()
        request = PromptRequest(system, end=end, budget=self._budget(budget), question=question)
        with waiting_for_locks(LOCK_SECONDS):
            return await self._context(request, self._layers(knowledge), relative_time)

    async def _context(
        self,
        request: PromptRequest,
        layers: Mapping[str, Layer],
        relative_time: bool,
        state: State | None = None,
        recording: Recording | None = None,
    ) -> Context:
        """`recording` is the write of the state's newest messages. Every other write waits for it."""
        runtime = self._runtime
        began = time.perf_counter()
        channel = RuntimeContext.of(self.key)
        if not runtime.settings.enabled:
            messages = await runtime.store.messages(self.id)
            request = await self._add_knowledge(request, layers, messages)
            return assemble_without_memory(request, messages, runtime.counting, channel)
        state = state.until(request.newest) if state else await self._load(request)
        is_dynamic = any(layer.is_dynamic for layer in layers.values())
        chooses_items = state.items is None and runtime.settings.shares_items(self.owner)
        if is_dynamic or chooses_items or not runtime.workers.takes_notes:
            await _until_stored(recording)
        if is_dynamic and recording:
            recording.end()  # others do not wait for the host's functions
        request = await self._add_knowledge(request, layers, state.messages)
        if is_dynamic:
            # Calling them takes time: messages and notes may have been added.
            state = await self._load(request, state)
        if relative_time:
            today = relative_days(state.active, self._now)
            request = replace(request, end="\n".join(t for t in (today, request.end) if t))
        reminder = self._reminder(request)
        room = runtime.counting.room(request, runtime.settings)
        state = (await self._with_items(state, room)).until(request.newest)
        new_budget = runtime.budgets.ask(self.id, room)
        if not runtime.workers.takes_notes:
            await self._tell_workers(state)
        state = await self._wait_if_far_behind(state, request, recording)
        state, layout = await self._make_room(state, request, recording)
        if new_budget and (state.missing or not isinstance(plan(state, runtime.budgets.limits(state)), Idle)):
            # `record` wakes the background when a note is due; a new budget may make one due as well.
            await _until_stored(recording)
            runtime.wake(state)
        with pace.turn():
            if reminder:
                request, layout = await reminder.remind(state, request, layout)
            context = assemble(state, request, runtime.settings, runtime.counting, channel, layout)
        context = replace(context, messages=runtime.originals.restore(self.id.sid, context.messages))
        if not request.question:
            context = runtime.with_changes(self.id.sid, context)
        built = ContextBuilt(self.id, context.stats, seconds=time.perf_counter() - began)
        if recording is None:
            runtime.emit(built)
        else:  # `Recorded` comes first, and the prompt does not wait for it
            recording.then(lambda: runtime.emit(built))
        return context

    async def _load(self, request: PromptRequest, before: State | None = None) -> State:
        """The stored state, or `before` if another caller took messages back since: the prompt continues this
        caller's conversation."""
        with pace.turn():
            state = await load_newest(self._runtime.store, self.id, request.budget)
        state = (state or State(Progress(self.id))).until(request.newest)
        if before and request.newest and before.progress.revision != state.progress.revision:
            return before
        return state

    async def _add_knowledge(
        self, request: PromptRequest, layers: Mapping[str, Layer], messages: Sequence[Message]
    ) -> PromptRequest:
        """The request with the texts of the knowledge layers."""
        if not layers:
            return request
        runtime = self._runtime
        call = LayerCall(
            self.id,
            RuntimeContext.of(self.key),
            runtime.settings,
            runtime.counting,
            runtime.emit,
            request.question or last_question(messages),
            runtime.timing.knowledge_deadline,
        )
        return await call.fill(request, layers)

    def _reminder(self, request: PromptRequest) -> Reminder | None:
        """What adds recalled messages to the prompt; None if this turn recalls nothing."""
        runtime = self._runtime
        if runtime.settings.recall == "off" and not request.question:
            return None
        return Reminder(
            runtime.store,
            self.id,
            runtime.settings,
            runtime.counting,
            self._now,
            runtime.query_vectors,
            runtime.timing.recall_deadline,
        )

    @property
    def _now(self) -> datetime:
        return self._runtime.clock.now().astimezone(self._tz)

    async def _with_items(self, state: State, room: int) -> State:
        """The state with the owner's items that this session shows."""
        runtime = self._runtime
        if not runtime.settings.shares_items(self.owner):
            return replace(state, items=()) if state.items else state
        if state.items is not None:
            return state
        if runtime.files:
            await runtime.files.pick_up(self.owner)
        return await runtime.shown_items.choose(state, room)

    async def _tell_workers(self, state: State) -> None:
        """Store the budget of this call for the workers of other processes, which take notes for it."""
        try:
            if state.progress.last_seq:
                await self._runtime.budgets.store(state.progress)
        except StoreError as error:
            log.warning("%s: workers do not know the budget yet: %s", self.key, error)

    async def _wait_if_far_behind(
        self, state: State, request: PromptRequest, recording: Recording | None
    ) -> State:
        """Wait for notes, with a deadline, if the setting `block_after` is set; a turn waits for nothing
        else."""
        runtime = self._runtime
        if not runtime.settings.block_after or not must_wait(state, runtime.budgets.limits(state)):
            return state
        await _until_stored(recording)
        if recording:
            recording.end()  # others do not wait for the model
        began, caught_up = time.perf_counter(), False
        try:
            async with asyncio.timeout(runtime.timing.block_deadline):
                caught_up = await runtime.note_taker.advance(self.id)
        except (TimeoutError, StoreError) as error:
            log.warning("%s: notes are behind and did not catch up: %r", self.key, error)
        runtime.emit(Waited(self.id, caught_up, seconds=time.perf_counter() - began))
        return await self._load(request, state)

    async def _make_room(
        self, state: State, request: PromptRequest, recording: Recording | None
    ) -> tuple[State, Layout]:
        """Take notes on the spot of messages that would otherwise be cut off without a note, and condense
        notes that would otherwise be left out.

        If that fails, or takes too long because a host hands over a long history at once, the turn
        continues with what fits. The rest is counted as left out, stays stored, and is noted later.
        """
        runtime = self._runtime
        deadline = 0.0  # set when the first step begins
        layout = lay_out(state, request, runtime.settings, runtime.counting, runtime.section)
        handed_over = runtime.recorder.long_history(self.id)
        made = noted = last = conflicts = 0
        is_behind = False  # whether messages are left out that workers are about to note
        is_recorded = True  # whether the record is still this caller's conversation
        try:
            while True:
                # The next step takes about as long as the last one.
                has_time = noted + last <= ON_THE_SPOT_TOKENS or time.monotonic() < deadline
                step = make_room(state, layout.limits, layout.room) if has_time else None
                if handed_over and isinstance(step, Observe):
                    step, is_behind = None, True
                if step is None and layout.memory.is_cut:
                    step = condense(state, runtime.budgets.limits(state))
                if step is None:
                    break
                await _until_stored(recording)
                deadline = deadline or time.monotonic() + runtime.timing.on_the_spot
                # Waiting for another worker's note takes as long as writing one. Showing notes is quick.
                last = max(MIN_STEP_TOKENS, 0 if isinstance(step, Activate) else step.tokens)
                try:
                    # Once time is up, it does not wait a second time for the background.
                    if is_recorded and (has_time or not conflicts):
                        state = await runtime.note_taker.do(state, step, fence=None, on_the_spot=True)
                        made += 1
                    else:
                        state = await runtime.note_taker.show(state, step)
                except ConflictError:
                    conflicts += 1
                    log.debug("%s: another worker took the note", self.key)
                    now = await self._load(request, state)
                    is_recorded, state = now is not state, now
                    last = last if is_recorded else MIN_STEP_TOKENS
                noted += last
                layout = lay_out(state, request, runtime.settings, runtime.counting, runtime.section)
        except OnlookerError as error:
            log.warning("%s: could not make room: %s", self.key, error)
        if made or conflicts or (is_behind and not (handed_over and handed_over.is_indexed)):
            await _until_stored(recording)
            # Recall finds what leaves the prompt now; the background indexes the rest of a long backlog.
            has_more = await index_batch(runtime.store, self.id)
            if handed_over and not has_more:
                handed_over.is_indexed = True
            # What that makes due, such as a reflection, is left to the background.
            runtime.wake(state)
        return state, layout

    def _budget(self, asked: int | None) -> int:
        budget = self._runtime.settings.budget if asked is None else asked
        if not isinstance(budget, int) or budget < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SettingsError("budget", budget, "must be an integer of at least 0; 0 means no budget")
        return budget

    def _layers(self, given: Layers | None) -> dict[str, Layer]:
        return in_order({**self._runtime.knowledge, **given}) if given else self._runtime.knowledge

    # -- notes

    async def settle(self) -> bool:
        """Take every note that is due before returning; False if a model failed, or another process is taking
        them."""
        await self._runtime.ready()
        return await self._runtime.note_taker.advance(self.id)

    async def end(self) -> Sequence[Item]:
        """End the conversation: take the notes that are due, and make items of what the owner's other
        sessions should know and do not know since a note was taken. Returns the items. Recording more opens
        the session again."""
        await self.settle()
        async with self._runtime.leases.alone(self.id):
            return await self._runtime.item_maker.end(self.id)

    async def refresh_items(self) -> Sequence[Item]:
        """Choose again which of its owner's items this session shows, as a new session would. This changes
        the prompt's prefix."""
        await self._runtime.ready()
        state = await self._runtime.store.load(self.id, newest=1) or State(Progress(self.id))
        budget = self._runtime.budgets.of(state.progress)
        return (await self._runtime.shown_items.refresh(state, budget)).items or ()

    def tools(self) -> Tools:
        """`memory_search`, `memory_save`, `memory_forget` and `recall` for this session's agent."""
        from onlooker.engine.tools import Tools

        runtime = self._runtime
        return Tools(
            self.id,
            runtime.store,
            runtime.settings,
            runtime.clock,
            runtime.items,
            search=runtime.search,
            ready=runtime.ready,
        )

    async def notes(
        self,
        *,
        kind: NoteKind | None = None,
        recent: int | None = None,
        statuses: Sequence[NoteStatus] = ("active",),
    ) -> Sequence[Note]:
        """The notes, oldest first; with `recent`, only the newest n."""
        await self._runtime.ready()
        return await self._runtime.store.notes(self.id, statuses=statuses, kind=kind, recent=recent)

    async def extracted(self, type: type[V]) -> list[V]:
        """Values of one of your own types (`extractors`), extracted from the messages, oldest first.

        Values that no longer fit the class, because it has changed, are left out with a warning.
        `history.extractions` still has them.
        """
        await self._runtime.ready()
        found: list[V] = []
        for extraction in await self._runtime.store.extractions(self.id, type=type.__name__):
            try:
                found.append(type.model_validate(extraction.value))
            except Exception as error:  # noqa: BLE001  a user's own class may raise anything
                log.warning("%s: a %s no longer fits its class: %s", self.key, extraction.type, error)
        return found

    async def messages(self, *, archived: bool = False) -> Sequence[Message]:
        """The messages, oldest first; with `archived`, also those that compaction archived."""
        await self._runtime.ready()
        return await self._runtime.store.messages(self.id, archived=archived)

    async def recall(
        self, target: str | int | Hit, *, neighbours: int = 0, page: int | None = None
    ) -> Sequence[Message]:
        """The messages behind a note (by id), a message (by seq) or a hit of `search`, word for word.

        `neighbours` adds that many messages before and after. `page` selects a page of 50, from 1.

        Raises:
            NotFoundError: There is no such note or message.
        """
        await self._runtime.ready()
        found = await messages_behind(self._runtime.store, self.id, target, neighbours, page)
        if not found and page in (None, 1) and not await self._is_note(target):
            raise NotFoundError("note or message", target.id if isinstance(target, Hit) else target)
        return found

    async def _is_note(self, target: str | int | Hit) -> bool:
        """Whether it is a note, of which retention may have deleted every message."""
        session = target.session if isinstance(target, Hit) else self.id
        ident = target.id if isinstance(target, Hit) else target
        return any(n.id == ident for n in await self._runtime.store.notes(session, statuses=NOTE_STATUSES))

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
        """Search this session's messages and notes, best hits first.

        `kinds` are "message" and "note"; `after` and `before` limit when it was said or noted. In each
        hit's snippet, `marks` are placed around the words that were found.
        """
        await self._runtime.ready()
        search = Search(self.owner, self.id, tuple(kinds), limit, after, before, marks)
        return await self._runtime.search(search, query)

    async def pin(self, target: str, *, on: bool = True) -> None:
        """Keep a note or message in every context of this session; `on=False` unpins it.

        Raises:
            NotFoundError: The session has no live note and no message with that id.
        """
        await self._runtime.ready()
        await self._runtime.store.pin(self.id, target, on=on)
        self._runtime.emit(Pinned(self.id, target, on))

    @property
    def history(self) -> History:
        """The notes over time: correct them, and look back."""
        from onlooker.engine.corrections import History

        runtime = self._runtime
        return History(
            self.id,
            runtime.store,
            runtime.settings,
            runtime.counting,
            runtime.clock,
            runtime.tz,
            runtime.emit,
            ready=runtime.ready,
            limits_of=runtime.budgets.limits,
            compaction=runtime.compaction,
        )

    async def forget(
        self, *targets: str, dry_run: bool = False, rewrite_later: bool | None = None, by: str = ""
    ) -> ForgetResult:
        """Forget messages, by id or by the id of a note made from them, with everything derived from them.

        Notes that mix them with other messages are written again without them, at once, and later by the
        model. Nothing of them stays in any table, index, journal or file. A host that hands over whole
        histories must remove them there as well.

        `dry_run` only counts. `rewrite_later` says whether a model writes those notes again; by default it
        does if one is configured. `by` names who asked for it; `memory.storage.forgotten` lists that.

        Raises:
            NotFoundError: There is no message or note with that id.
        """
        await self._runtime.ready()
        return await self._runtime.forgetter.messages(
            self.id, targets, dry_run=dry_run, rewrite_later=rewrite_later, by=by
        )

    async def delete(self, *, by: str = "") -> bool:
        """Delete the session with everything in it; False if there was none. What its notes cost still
        counts for its owner and the day. `by` names who asked for it; `memory.storage.forgotten` lists
        that."""
        await self._runtime.ready()
        return await self._runtime.forgetter.session(self.id, by=by)


# ------------------------------------------------------------------------------------ before it is stored


@frozen
class Prepared:
    """A context whose newest messages are on their way into the store."""

    context: Context
    _recording: Recording | None = None
    _make: Callable[[RecordedHistory, None], Awaitable[Context]] | None = None

    def begin(self) -> None:
        """Begin to write its messages to disk, if that has not begun."""
        if self._recording:
            self._recording.begin()

    async def stored(self) -> Context:
        """The context, once its messages are on disk. It is another one if another writer came first.

        Raises:
            ConflictError: `rewind` was "refuse", and another writer changed the conversation meanwhile.
            StoreError: The store cannot write; nothing was recorded.
        """
        if self._recording is None or self._make is None:
            return self.context
        recorded = await self._recording.stored()
        if recorded is self._recording.expected:
            return self.context
        return await self._make(recorded, None)


async def prepare_ahead(
    session: Session, history: Sequence[MessageLike], *, budget: int | None, rewind: Rewind
) -> Prepared:
    """`Session.prepare` for a caller that sends the context before its messages are on disk, and then waits
    for them: a model reads the prompt meanwhile. The write starts with `begin`, so that it does not delay the
    prompt. The caller must not change the items of the history."""
    return await session._prepare(  # pyright: ignore[reportPrivateUsage]
        history, budget=budget, rewind=rewind, is_own=True
    )


class _SupersededError(Exception):
    """Another writer came first, so the state that the context is made from is out of date."""


async def _until_stored(recording: Recording | None) -> None:
    if recording is not None and await recording.stored() is not recording.expected:
        raise _SupersededError
