"""Recording: messages one by one, or a host's whole history. Budgets are here too.

    Recorder     store new messages; align a host's history with the recorded one
    Recording    a history that is being written, while a prompt is made from it
    Budgets      the budget of each session, and how many tokens make it due

What hosts passed before is in `histories.py`. What is stored may make a session due. `Runtime` then wakes
the background (`background.py`), and the notes are taken in `note_taker.py`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from weakref import WeakValueDictionary

from onlooker.domain.errors import ConflictError
from onlooker.domain.events import Event, Realigned, Recorded
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import (
    GENERATED_ID_PREFIX,
    Message,
    MessageLike,
    SessionId,
    extend_history_hash,
    new_id,
    tokens_of,
)
from onlooker.domain.notes import AppendResult, Progress, Realignment, State
from onlooker.engine.histories import (
    Histories,
    LastHistory,
    Originals,
    RecordedHistory,
    UnreadPart,
    read_on,
)
from onlooker.policy.align import (
    Alignment,
    Comparison,
    Rewind,
    SentRange,
    compare,
    decide,
    has_other_id,
    is_telling,
)
from onlooker.policy.assemble import limits_beside_items
from onlooker.policy.intake import intake_all
from onlooker.policy.pace import in_thread_if_many
from onlooker.policy.plan import HEAD_START, after_append, due_tokens, is_long_history
from onlooker.policy.settings import Limits, Settings, limits_for
from onlooker.policy.tokens import Estimator, margin
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

# A history is compared with this many more recorded messages than it has: it may not contain yet what was
# recorded separately (the last answer, tool results).
ALIGN_SLACK = 64
# How often a history is aligned again after a conflict with another writer.
MAX_TRIES = 20
# How many seconds a history waits for `begin`, and for prompts made from messages that it takes back.
MAX_HELD = 5.0
# The fewest messages of a long backlog that are read at once.
MIN_READ = 2_000


async def load_newest(store: Store, session: SessionId, budget: int) -> State | None:
    """The state that a context of this budget is made from: of a long backlog only the newest messages,
    enough to fill the budget twice."""
    most = MIN_READ if budget else None
    while (state := await store.load(session, newest=most)) is not None:
        if most is None or not state.missing or _fills(state.messages, budget):
            return state
        most *= 4
    return None


def _newest_part(state: State, budget: int) -> State:
    """The same part of a state that is loaded already."""
    most = MIN_READ if budget else len(state.messages)
    while most < len(state.messages) and not _fills(state.messages[-most:], budget):
        most *= 4
    return state.part(newest=most)


def _fills(messages: Sequence[Message], budget: int) -> bool:
    return tokens_of(messages) >= 2 * budget


@frozen
class Recording:
    """A history that is being written to the store. `expected` is what will be recorded, unless another
    writer comes first: a prompt can be made from it meanwhile. `begin` starts the write. `end` says that the
    prompt is made: until then, no other call takes messages back."""

    expected: RecordedHistory
    storing: asyncio.Task[RecordedHistory]
    begin: Callable[[], None]
    end: Callable[[], None]

    async def stored(self) -> RecordedHistory:
        """What was recorded, once it is on disk: `expected`, or something else if another writer came
        first. Cancelling the call does not stop it."""
        self.begin()
        return await asyncio.shield(self.storing)

    def then(self, action: Callable[[], None]) -> None:
        """Do something once it is stored as expected."""

        def act(task: asyncio.Task[RecordedHistory]) -> None:
            if not task.cancelled() and not task.exception() and task.result() is self.expected:
                action()

        self.storing.add_done_callback(act)


class _Callers:
    """The calls of `prepare` for one session at the same time. One records at a time. Before it takes
    messages back, it waits until the others have made their prompts, which need those messages and their
    notes."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._prompts: set[object] = set()
        self._ended = asyncio.Event()

    def begin(self, caller: object) -> None:
        self._prompts.add(caller)

    def end(self, caller: object) -> None:
        self._prompts.discard(caller)
        self._ended.set()

    async def wait_for_others(self, caller: object) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_HELD):
                while self._prompts - {caller}:
                    self._ended.clear()
                    await self._ended.wait()


@dataclass(slots=True, eq=False)
class _Request:
    """One call of `record_history`: a host's history, how to record it, and what the caller waits for.
    `budget` is that of the prompt, which needs so much of the state."""

    session: SessionId
    history: Sequence[object]
    tz: tzinfo
    rewind: Rewind
    budget: int
    is_own: bool
    callers: _Callers
    expected: asyncio.Future[RecordedHistory]  # what will be recorded
    begun: asyncio.Event = field(default_factory=asyncio.Event)  # set when it may be written

    async def announce(self, recorded: RecordedHistory) -> None:
        """Tell the caller what will be recorded, and wait until it may be written."""
        if not self.expected.done():
            self.expected.set_result(recorded)
        if self.is_own and not self.begun.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_HELD):
                    await self.begun.wait()

    def ended(self, storing: asyncio.Task[RecordedHistory]) -> None:
        """Tell the caller how it ended, if nothing was announced."""
        if storing.cancelled():
            self.expected.cancel()
        elif error := storing.exception():
            if not self.expected.done():
                self.expected.set_exception(error)
        elif not self.expected.done():
            self.expected.set_result(storing.result())


@frozen
class _Append:
    """Messages to append to a session."""

    session: SessionId
    messages: Sequence[Message]
    due_tokens: int
    now: datetime

    def placed(self, progress: Progress) -> tuple[Progress, list[Message]]:
        """The progress and the messages after the append, if all messages are new."""
        history_hash, placed = progress.history_hash, list[Message]()
        for seq, message in enumerate(self.messages, progress.last_seq + 1):
            placed.append(message.with_seq(seq))
            history_hash = extend_history_hash(history_hash, message.digest)
        return after_append(progress, placed, history_hash, self.due_tokens, self.now), placed


@dataclass(slots=True)
class LongHistory:
    """A long history that a host handed over at once. Turns leave its notes to the background for a while."""

    until: float  # by the monotonic clock
    is_indexed: bool = False


class DivergedError(ConflictError):
    """The history does not continue the record, and `rewind` is "refuse"."""


class Recorder:
    """Records messages into the sessions of a memory."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        estimator: Estimator,
        emit: Callable[[Event], None],
        *,
        budgets: Budgets,
        histories: Histories,
        originals: Originals,
        on_append: Callable[[SessionId, AppendResult], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._estimator = estimator
        self._emit = emit
        self._budgets = budgets
        self._histories = histories
        self._originals = originals
        self._on_append = on_append  # called with what was stored, which may have made the session due
        self._callers: WeakValueDictionary[SessionId, _Callers] = WeakValueDictionary()
        self._long_histories: dict[str, LongHistory] = {}

    async def record(
        self, session: SessionId, items: Sequence[MessageLike], tz: tzinfo
    ) -> tuple[Message, ...]:
        """Record messages; return the new ones."""
        now = self._now(tz)
        given = await in_thread_if_many(len(items), lambda: intake_all(items, at=now, tz=tz))
        return (await self._append(session, given)).messages

    def _now(self, tz: tzinfo) -> datetime:
        """The time in the session's zone: "yesterday" in a message depends on the day there."""
        return self._clock.now().astimezone(tz)

    async def record_history(
        self,
        session: SessionId,
        history: Sequence[object],
        tz: tzinfo,
        rewind: Rewind = "auto",
        budget: int = 0,
        *,
        is_own: bool = False,
    ) -> Recording:
        """Record what is new in a host's history, and take back what the host took back. The state in the
        result is enough for a context of this budget. With `is_own`, the caller never changes the items, so
        they are kept without a copy, and nothing is written before the caller calls `begin`.

        It returns as soon as it is clear what will be recorded; `stored` waits until it is on disk. The cost
        grows with what is new: a history that continues the last one is recognised by its hash, and only
        others are compared message by message. Concurrent calls follow one another. The caller must call
        `end` on the result.
        """
        callers = self._callers.setdefault(session, _Callers())
        expected: asyncio.Future[RecordedHistory] = asyncio.get_running_loop().create_future()
        request = _Request(session, history, tz, rewind, budget, is_own, callers, expected)
        storing = asyncio.create_task(self._record_after_others(request))
        storing.add_done_callback(request.ended)
        try:
            return Recording(await expected, storing, request.begun.set, lambda: callers.end(request))
        except asyncio.CancelledError:
            storing.cancel()
            callers.end(request)
            raise

    async def _record_after_others(self, request: _Request) -> RecordedHistory:
        async with request.callers.lock:
            request.callers.begin(request)
            try:
                for _ in range(MAX_TRIES):
                    try:
                        done = await self._record_history(request)
                    except DivergedError:
                        raise
                    except ConflictError:
                        continue
                    await self._histories.keep(request.session.sid, done, is_own=request.is_own)
                    return done
                raise ConflictError("other writers keep changing this session; pass the history again")
            except BaseException:
                request.callers.end(request)
                raise

    async def _record_history(self, request: _Request) -> RecordedHistory:
        session, history, tz = request.session, request.history, request.tz
        now = self._now(tz)
        state = await load_newest(self._store, session, request.budget)
        # Another process may have deleted the session.
        last = self._histories.last(session.sid) if state else None
        progress = state.progress if state else Progress(session)

        def read() -> tuple[UnreadPart, tuple[Message, ...] | None]:
            unread = read_on(history, last, at=now, tz=tz)
            return unread, unread.after(progress)

        unread, new = await in_thread_if_many(len(history) - (len(last.items) if last else 0), read)
        if new == () and last and last.sent and last.sent.first > 1:
            # A window that looks as it did last time: short messages may have been said again.
            window = read_on(history, None, at=now, tz=tz).messages
            new = () if any(map(is_telling, window)) else window
        if new == () and state and progress.last_seq == len(unread.messages) == 1:
            # The same word under another id of the host was said again.
            short = (m for m in unread.messages if not is_telling(m))
            new = tuple(m for m in short if any(has_other_id(m, known) for known in state.messages))
        if new is not None:
            done = await self._continue(request, state or State(progress), unread, new)
            if done is not None:
                return done
            state = await load_newest(self._store, session, request.budget)
        elif request.rewind == "refuse":
            raise DivergedError("the history does not continue what is recorded")
        if state is None:
            raise ConflictError("the session was deleted meanwhile")
        whole = await in_thread_if_many(len(history), lambda: read_on(history, None, at=now, tz=tz))
        return await self._realign(request, state, whole, last)

    async def _continue(
        self, request: _Request, state: State, unread: UnreadPart, new: Sequence[Message]
    ) -> RecordedHistory | None:
        """Record the new messages; None if some of them were retired before and must be restored. The result
        is known before it is stored; if another writer comes first, nothing is stored."""
        progress = after = state.progress
        append = await self._to_append(progress.session, new)
        if new:
            after, placed = await in_thread_if_many(len(new), lambda: append.placed(progress))
            state = _newest_part(
                replace(state, progress=after, messages=(*state.messages, *placed)), request.budget
            )
        if unread.continues and unread.continues.sent:
            sent = replace(unread.continues.sent, last=after.last_seq)
        else:
            sent = SentRange(1, after.last_seq, opening=0 if progress.last_seq else len(new))
        said = unread.messages or (unread.continues.newest if unread.continues else ())
        done = RecordedHistory(
            unread.items,
            unread.lead,
            unread.preface,
            after.history_hash,
            state,
            self._newest_message(said, after.last_seq, state),
            sent=sent,
            continues=unread.continues,
            earlier=unread.earlier(),
        )
        await request.announce(done)
        if new and len((await self._store_append(append, progress)).messages) < len(new):
            return None
        return done

    async def _realign(
        self, request: _Request, state: State, unread: UnreadPart, last: LastHistory | None
    ) -> RecordedHistory:
        session = request.session
        sent = last.sent if last else None
        found = await self._align(session, unread, state.progress.last_seq, sent, request.rewind)
        preface = unread.messages[: found.preface]
        known, after = state, state.progress
        if (new := found.only_new) is None or await self._may_revive(session, new):
            await request.callers.wait_for_others(request)
            after = (await self._change(session, after, found)).progress
            # Loaded now, before another call changes it again.
            known = await load_newest(self._store, session, request.budget)
        elif new:
            appended = await self._append(session, new, after)
            after, known = appended.progress, state.grown(appended.progress, appended.messages)
            known = _newest_part(known, request.budget) if known else None
        opening = sent.opening if sent else 0
        now_sent = SentRange(found.sent_from, found.newest or after.last_seq, opening, found.preface > 0)
        newest = self._newest_message(unread.messages, found.newest or after.last_seq, known)
        return RecordedHistory(
            unread.items, unread.lead, preface, after.history_hash, known, newest, found.retired, now_sent
        )

    async def _align(
        self, session: SessionId, unread: UnreadPart, last_seq: int, sent: SentRange | None, rewind: Rewind
    ) -> Alignment:
        """Compare with the newest recorded messages first: a host that trims its history continues there.
        Compare with all if that is inconclusive, as after a return to an early point."""
        newest = len(unread.messages) + ALIGN_SLACK
        if sent:
            newest = max(newest, last_seq + 1 - sent.first)
        recorded = await self._store.digests(session, newest=newest)
        found = compare(unread.messages, recorded, whole=len(recorded) < newest)
        # A single message is new, whether or not the same was said long before the host's last call.
        is_single = sent is not None and len(unread.messages) == 1 and not unread.messages[0].id
        if not is_single and not (found.is_certain and await self._is_apart(session, found)):
            found = compare(unread.messages, await self._store.digests(session))
        unclear = found.unclear
        texts = await self._store.around(session, unclear, 0) if unclear else ()
        contents = {m.seq: m for m in texts}
        decided = decide(found, contents, sent, rewind)
        if decided.is_doubtful:
            retired = await self._store.retired(session)
            known = {r.id for r in retired} | {r.digest for r in retired}
            if not any(m.id in known or (is_telling(m) and m.digest in known) for m in unread.messages):
                return decide(found, contents, sent, "never")
        return decided

    async def _is_apart(self, session: SessionId, found: Comparison) -> bool:
        """Whether the history does not begin with the record's first message, which some hosts keep when they
        drop those after it."""
        if found.whole or 0 in found.found:
            return True
        first = await self._store.messages(session, limit=1, archived=True)
        return [m.digest for m in first] != [found.history[0].digest]

    async def _may_revive(self, session: SessionId, new: Sequence[Message]) -> bool:
        """Whether some of these messages may have been taken back before: then they come back as they were,
        with their notes."""
        retired = await self._store.retired(session) if new else ()
        known = {r.digest for r in retired} | {r.id for r in retired}
        return any(m.digest in known or m.id in known for m in new)

    async def _change(self, session: SessionId, progress: Progress, found: Alignment) -> AppendResult:
        follow = tuple(f if isinstance(f, int) else self._counted(f) for f in found.follow)
        change = Realignment(found.keep, follow, progress.last_seq, progress.revision)
        began = time.perf_counter()
        done = await self._store.realign(
            session, change, due_tokens=self._budgets.due_tokens(session), now=self._clock.now()
        )
        took = time.perf_counter() - began
        if found.retired:
            log.info("%s: the host took back %d messages", session.key, len(found.retired))
        if found.diverges:
            self._emit(Realigned(session, found.keep, len(done.messages), seconds=took))
        else:
            self._emit(Recorded(session, done.messages, seconds=took))
        self._originals.keep(session.sid, done.messages)
        self._on_append(session, done)
        return done

    async def _append(
        self, session: SessionId, messages: Sequence[Message], after: Progress | None = None
    ) -> AppendResult:
        """Record messages; with `after`, only if the session is still as it was then."""
        return await self._store_append(await self._to_append(session, messages), after)

    async def _to_append(self, session: SessionId, messages: Sequence[Message]) -> _Append:
        counted = await in_thread_if_many(len(messages), lambda: [self._counted(m) for m in messages])
        if is_long_history(counted):
            now = time.monotonic()
            recent = {sid: history for sid, history in self._long_histories.items() if now < history.until}
            self._long_histories = recent | {session.sid: LongHistory(now + HEAD_START)}
        return _Append(session, counted, self._budgets.due_tokens(session), self._clock.now())

    def long_history(self, session: SessionId) -> LongHistory | None:
        """The long history that was handed over a moment ago, if any."""
        history = self._long_histories.get(session.sid)
        return history if history and time.monotonic() < history.until else None

    async def _store_append(self, append: _Append, after: Progress | None) -> AppendResult:
        began, session = time.perf_counter(), append.session
        appended = await self._store.append(
            session, append.messages, due_tokens=append.due_tokens, now=append.now, after=after
        )
        if appended.messages:
            self._originals.keep(session.sid, appended.messages)
            self._emit(Recorded(session, appended.messages, seconds=time.perf_counter() - began))
        self._on_append(session, appended)
        return appended

    def _newest_message(self, messages: Sequence[Message], seq: int, state: State | None) -> Message | None:
        """The newest message of a history as it is recorded; as the host gave it if a note covers it."""
        if not messages:
            return None
        recorded = (m for m in reversed(state.messages if state else ()) if m.seq == seq)
        return next(recorded, None) or self._counted(messages[-1]).with_seq(seq)

    def _counted(self, message: Message) -> Message:
        """The message with the id and the token count that it is stored with."""
        given = message.id or new_id(GENERATED_ID_PREFIX.rstrip("_"), self._clock.now())
        return replace(message, id=given, tokens=self._estimator.message(message))


# ------------------------------------------------------------------------------------ budgets

# Sessions whose budget is cached; the budgets of others are read from the store.
MAX_BUDGETS = 10_000


class Budgets:
    """The budgets that hosts ask for: the last one in this process, or else the stored one."""

    def __init__(self, store: Store, settings: Settings, count: Callable[[str], int]) -> None:
        self._store = store
        self._settings = settings
        self._count = count
        self._asked: dict[str, int] = {}

    def ask(self, session: SessionId, budget: int) -> bool:
        """Remember the budget of a call; True if it differs from the last one."""
        before = self._asked.pop(session.sid, None)
        self._asked[session.sid] = budget
        if len(self._asked) > MAX_BUDGETS:
            del self._asked[next(iter(self._asked))]
        return before != budget

    def of(self, progress: Progress) -> int:
        """The budget of a session; 0 if no call has set one."""
        return self._asked.get(progress.sid) or progress.budget

    def limits(self, state: State) -> Limits:
        """The settings in tokens for a session's budget."""
        usable = int(self._settings.budget * (1 - margin(self._settings.estimator)))
        return limits_beside_items(
            limits_for(self._settings, self.of(state.progress) or usable), state, self._count
        )

    def due_tokens(self, session: SessionId) -> int:
        """How many un-noted tokens make a session due."""
        return due_tokens(self._settings, self._asked.get(session.sid, 0))

    async def store(self, progress: Progress) -> None:
        """Store the budget if it differs enough from the stored one to matter."""
        asked = self._asked.get(progress.sid, 0)
        if asked and abs(asked - progress.budget) * 20 > asked:
            await self._store.set_budget(progress.session, asked)
