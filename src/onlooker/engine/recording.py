"""Recording: messages one by one, or a host's whole history. Budgets and compaction are here too.

    Recorder     store new messages; align a host's history with the recorded one
    Histories    the history that each host passed last, so that only its new part is read
    Originals    recent messages as hosts gave them: images, thinking, provider fields
    Budgets      the budget of each session, and how many tokens make it due
    Compaction   replace messages that have a note by a summary

What is stored may make a session due. `Runtime` then wakes the background (`background.py`), and the notes
are taken in `note_taker.py`.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any, Generic, TypeVar, cast
from weakref import WeakValueDictionary

from onlooker.domain.errors import ConflictError
from onlooker.domain.events import Compacted, Event, Realigned, Recorded
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import (
    EMPTY_HISTORY_HASH,
    GENERATED_ID_PREFIX,
    Message,
    MessageLike,
    SessionId,
    extend_history_hash,
    new_id,
    tokens_of,
)
from onlooker.domain.notes import AppendResult, Note, Progress, Realignment, State
from onlooker.policy.align import Alignment, Rewind, SentRange, compare, decide, is_telling
from onlooker.policy.assemble import limits_beside_items
from onlooker.policy.intake import as_chat, intake, intake_all, is_all_of, parts_in, size_of
from onlooker.policy.plan import due_tokens
from onlooker.policy.settings import Limits, Settings, limits_for
from onlooker.policy.tokens import Estimator, margin
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

# A history is compared with this many more recorded messages than it has: it may not contain yet what was
# recorded separately (the last answer, tool results).
ALIGN_SLACK = 64
# How often a history is aligned again after a conflict with another writer.
MAX_TRIES = 20


# The fewest messages of a long backlog that are read at once.
MIN_READ = 2_000

K = TypeVar("K")
V = TypeVar("V")


async def load_newest(store: Store, session: SessionId, budget: int) -> State | None:
    """The state that a context of this budget is made from: of a long backlog only the newest messages, which
    fill the budget twice."""
    most = MIN_READ if budget else None
    while (state := await store.load(session, newest=most)) is not None:
        if most is None or not state.missing or _fills(state.messages, budget):
            return state
        most *= 4
    return None


def _newest(state: State, budget: int) -> State:
    """The same of a state that is known."""
    most = MIN_READ if budget else len(state.messages)
    while most < len(state.messages) and not _fills(state.messages[-most:], budget):
        most *= 4
    return state.part(newest=most)


def _fills(messages: Sequence[Message], budget: int) -> bool:
    return tokens_of(messages) >= 2 * budget


@frozen
class RecordedHistory:
    """A host's history, once it is recorded.

    `items` is the history as chat messages. `lead` and `preface` come before the conversation: system
    messages, then the host's own additions.
    `newest` is the history's newest message; the record may go on after it, if two programs speak at once.
    `retired` are the messages that the host took back. `state` is the session's, if it is known without
    loading it again. The rest is for the next call: `continues` is the last history, or the part of it that
    this one continues, and `earlier` are the lengths and hashes that `LastHistory` has.
    """

    items: list[MessageLike]
    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    history_hash: bytes
    state: State | None = None
    newest: Message | None = None
    retired: tuple[int, ...] = ()
    sent: SentRange | None = None
    continues: LastHistory | None = None
    earlier: Sequence[tuple[int, bytes]] = ()


class DivergedError(ConflictError):
    """A history went another way than the record, and `rewind` is "refuse"."""


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
        self._turns: WeakValueDictionary[SessionId, asyncio.Lock] = WeakValueDictionary()

    async def record(
        self, session: SessionId, items: Sequence[MessageLike], tz: tzinfo
    ) -> tuple[Message, ...]:
        """Record messages; return the new ones."""
        now = self._now(tz)
        given = await _beside(len(items), lambda: intake_all(items, at=now, tz=tz))
        _, messages = await self._append(session, given)
        return messages

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
    ) -> RecordedHistory:
        """Record what is new in a host's history, and take back what the host took back. The state that is
        returned is that for a context of this budget.

        The cost grows with what is new: a history that continues the last one is recognised by its hash.
        Only others are compared message by message. Of several calls at once, each follows the one before.
        """
        turn = self._turns.setdefault(session, asyncio.Lock())
        async with turn:
            for _ in range(MAX_TRIES):
                try:
                    done = await self._record_history(session, history, tz, rewind, budget)
                except DivergedError:
                    raise
                except ConflictError:
                    continue
                await self._histories.keep(session.sid, done)
                return replace(done, state=_newest(done.state, budget)) if done.state else done
        raise ConflictError("other writers keep changing this session; pass the history again")

    async def _record_history(
        self,
        session: SessionId,
        history: Sequence[object],
        tz: tzinfo,
        rewind: Rewind,
        budget: int,
    ) -> RecordedHistory:
        now = self._now(tz)
        state = await load_newest(self._store, session, budget)
        # Another process may have deleted the session.
        last = self._histories.last(session.sid) if state else None
        progress = state.progress if state else Progress(session)

        def read() -> tuple[UnreadPart, tuple[Message, ...] | None]:
            unread = read_on(history, last, at=now, tz=tz)
            return unread, unread.after(progress)

        unread, new = await _beside(len(history) - (len(last.items) if last else 0), read)
        if new == () and last and last.sent and last.sent.first > 1:
            # A window that looks as it did last time: short messages may have been said again.
            window = read_on(history, None, at=now, tz=tz).messages
            new = () if any(map(is_telling, window)) else window
        if new is not None:
            if (done := await self._continue(progress, state, unread, new)) is not None:
                return done
            state = await load_newest(self._store, session, budget)
        elif rewind == "refuse":
            raise DivergedError("the history does not continue what is recorded")
        if state is None:
            raise ConflictError("the session was deleted meanwhile")
        whole = await _beside(len(history), lambda: read_on(history, None, at=now, tz=tz))
        return await self._realign(state, whole, last, rewind, budget)

    async def _continue(
        self, progress: Progress, state: State | None, unread: UnreadPart, new: Sequence[Message]
    ) -> RecordedHistory | None:
        """Record the new messages; None if some of them were retired before and must be restored."""
        after, grown = progress, state
        if new:
            after, recorded = await self._append(progress.session, new, progress)
            if len(recorded) < len(new):
                return None
            grown = (state or State(progress)).grown(after, recorded)
        if unread.continues and unread.continues.sent:
            sent = replace(unread.continues.sent, last=after.last_seq)
        else:
            sent = SentRange(1, after.last_seq, opening=0 if progress.last_seq else len(new))
        said = unread.messages or (unread.continues.newest if unread.continues else ())
        newest = self._newest(said, after.last_seq, grown)
        return RecordedHistory(
            unread.items,
            unread.lead,
            unread.preface,
            after.history_hash,
            grown,
            newest,
            sent=sent,
            continues=unread.continues,
            earlier=unread.earlier(),
        )

    async def _realign(
        self, state: State, unread: UnreadPart, last: LastHistory | None, rewind: Rewind, budget: int
    ) -> RecordedHistory:
        session = state.progress.session
        sent = last.sent if last else None
        found = await self._align(session, unread, state.progress.last_seq, sent, rewind)
        preface = unread.messages[: found.preface]
        known, after = state, state.progress
        if (new := found.only_new) is None or await self._may_revive(session, new):
            after = (await self._change(session, after, found)).progress
            # As it is now, before another caller changes it again.
            known = await load_newest(self._store, session, budget)
        elif new:
            after, recorded = await self._append(session, new, after)
            known = state.grown(after, recorded)
        opening = sent.opening if sent else 0
        now_sent = SentRange(found.sent_from, found.newest or after.last_seq, opening, found.preface > 0)
        newest = self._newest(unread.messages, found.newest or after.last_seq, known)
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
        if not found.is_certain and not is_single:
            found = compare(unread.messages, await self._store.digests(session))
        unclear = found.unclear
        texts = await self._store.around(session, unclear, 0) if unclear else ()
        return decide(found, {m.seq: m for m in texts}, sent, rewind)

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
    ) -> tuple[Progress, tuple[Message, ...]]:
        """Record messages; with `after`, only if the session is still as it was then."""
        began = time.perf_counter()
        counted = await _beside(len(messages), lambda: [self._counted(m) for m in messages])
        appended = await self._store.append(
            session,
            counted,
            due_tokens=self._budgets.due_tokens(session),
            now=self._clock.now(),
            after=after,
        )
        if appended.messages:
            self._originals.keep(session.sid, appended.messages)
            self._emit(Recorded(session, appended.messages, seconds=time.perf_counter() - began))
        self._on_append(session, appended)
        return appended.progress, appended.messages

    def _newest(self, messages: Sequence[Message], seq: int, state: State | None) -> Message | None:
        """The newest message of a history as it is recorded; as the host gave it if a note covers it."""
        if not messages:
            return None
        recorded = (m for m in reversed(state.messages if state else ()) if m.seq == seq)
        return next(recorded, None) or self._counted(messages[-1]).with_seq(seq)

    def _counted(self, message: Message) -> Message:
        """The message with the id and the token count that it is stored with."""
        given = message.id or new_id(GENERATED_ID_PREFIX.rstrip("_"), self._clock.now())
        return replace(message, id=given, tokens=self._estimator.message(message))


# So many messages are read in a few milliseconds.
MAX_AT_ONCE = 200


async def _beside(messages: int, work: Callable[[], V]) -> V:
    """Do what takes its time for each of so many messages: for many in a thread, since a long past that is
    handed over at once must not hold up other sessions."""
    return await asyncio.to_thread(work) if messages > MAX_AT_ONCE else work()


# ------------------------------------------------------------------------------------ hosts' histories


# How many of its last items a history may change and still continue the last one.
MAX_CHANGED = 8


@frozen
class LastHistory:
    """The history that a host passed last: its items, the messages before the conversation, the record's
    hash after it, which part of the record it had, and its newest message. `earlier` are lengths of its
    beginnings, up to its last items, with the record's hash after each."""

    items: list[MessageLike]
    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    history_hash: bytes
    sent: SentRange | None = None
    newest: tuple[Message, ...] = ()
    size: int = 0  # in bytes, about
    earlier: tuple[tuple[int, bytes], ...] = ()

    def shared_with(self, items: Sequence[MessageLike]) -> LastHistory | None:
        """The longest part of this history that these items continue. Agents change their last messages, such
        as by moving the marks of a provider's cache to the new ones."""
        base = self.earlier[0][0] if self.earlier else len(self.items)
        if items[:base] != self.items[:base]:
            return None
        same = base
        while same < min(len(items), len(self.items)) and items[same] == self.items[same]:
            same += 1
        if same == len(self.items):
            return self
        reached = [i for i, (length, _) in enumerate(self.earlier) if length <= same]
        if not reached:
            return None
        length, history_hash = self.earlier[reached[-1]]
        size = self.size - sum(_copy(item)[1] for item in self.items[length:])
        return LastHistory(
            self.items[:length],
            self.lead,
            self.preface,
            history_hash,
            self.sent,
            size=size,
            earlier=self.earlier[: reached[-1]],
        )


@frozen
class UnreadPart:
    """The part of a history that was not read yet, and the record's hash before it. `items` is the whole
    history as chat messages; `continues` is the last one, or the part of it that this one continues."""

    items: list[MessageLike]
    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    messages: tuple[Message, ...]
    history_hash: bytes
    continues: LastHistory | None = None

    def after(self, progress: Progress) -> tuple[Message, ...] | None:
        """The messages after the recorded ones; None if the history does not continue from them."""
        history_hash = self.history_hash
        for i, message in enumerate(self.messages):
            if history_hash == progress.history_hash:
                return self.messages[i:]
            history_hash = extend_history_hash(history_hash, message.digest)
        return () if history_hash == progress.history_hash else None

    def earlier(self) -> list[tuple[int, bytes]]:
        """The lengths of the history before each of its last items, as far as they are read here, with the
        record's hash there."""
        hashes = [self.history_hash]
        for message in self.messages:
            hashes.append(extend_history_hash(hashes[-1], message.digest))
        known = len(self.continues.items) if self.continues else 0
        found: list[tuple[int, bytes]] = []
        left = len(self.messages)
        for length in range(len(self.items) - 1, max(known, len(self.items) - MAX_CHANGED) - 1, -1):
            item = self.items[length]
            left -= 1 if isinstance(item, Message) else parts_in(item)
            if left < (0 if self.continues else 1):
                break  # what stands before the conversation is told by its first message
            found.append((length, hashes[left]))
        return found[::-1]


def read_on(given: Sequence[object], last: LastHistory | None, *, at: datetime, tz: tzinfo) -> UnreadPart:
    """Read the messages of a history that the last one did not have; all of them if it does not continue the
    last one, or all but a few items of it. Comparing the two costs about 50 ns a message, and is all that is
    done for those before."""
    known = len(last.items) if last else 0
    items = cast("list[MessageLike]", list(islice(given, known)))
    if last is not None and items == last.items:
        # What equals chat messages is chat messages. The list is made once: of a long history, copying it
        # takes as long as comparing it.
        items += as_chat(given[known:], first=known)
    else:
        items = as_chat(given)
        last = last and last.shared_with(items)
    if last:
        known = len(last.items)
        new = intake_all(items[known:], at=at, tz=tz, first=known)
        return UnreadPart(items, last.lead, last.preface, new, last.history_hash, last)
    messages = intake_all(items, at=at, tz=tz)
    lead = 0
    while lead < len(messages) and messages[lead].role == "system":
        lead += 1
    return UnreadPart(items, messages[:lead], (), messages[lead:], EMPTY_HISTORY_HASH)


class Recent(Generic[K, V]):
    """The values that were used last, within a number of bytes. The newest stays, whatever its size."""

    def __init__(self, max_bytes: int) -> None:
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._max_bytes = max_bytes

    def get(self, key: K) -> V | None:
        """The value; it now counts as used."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value of about `size` bytes."""
        self.pop(key)
        self._values[key] = value, size
        self._bytes += size
        while self._bytes > self._max_bytes and len(self._values) > 1:
            self.pop(next(iter(self._values)))

    def pop(self, key: K) -> V | None:
        """Remove a value, and return it."""
        value, size = self._values.pop(key, (None, 0))
        self._bytes -= size
        return value

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


# Bytes of histories in all: a hundred conversations of some 80 messages. One that was dropped is read again.
MAX_HISTORY_BYTES = 8_000_000


class Histories:
    """The last history of each session, kept as copies so that changes in place are noticed.

    Beyond `max_bytes` in all, the least recently used sessions are dropped: their next history is read whole,
    once.
    """

    def __init__(self, max_bytes: int = MAX_HISTORY_BYTES) -> None:
        self._by_sid: Recent[str, LastHistory] = Recent(max_bytes)

    def last(self, sid: str) -> LastHistory | None:
        """The history that was passed last."""
        return self._by_sid.get(sid)

    async def keep(self, sid: str, recorded: RecordedHistory) -> None:
        """Remember a history that is now recorded."""
        before = recorded.continues
        copies, size = (before.items, before.size) if before else ([], 0)
        earlier = (*(before.earlier if before else ()), *recorded.earlier)[-MAX_CHANGED:]
        rest = recorded.items[len(copies) :]
        for copied, its_size in await _beside(len(rest), lambda: [_copy(item) for item in rest]):
            copies.append(copied)
            size += its_size
        newest = (recorded.newest,) if recorded.newest else ()
        seen = LastHistory(
            copies,
            recorded.lead,
            recorded.preface,
            recorded.history_hash,
            recorded.sent,
            newest,
            size,
            earlier,
        )
        self._by_sid.put(sid, seen, size)

    def drop(self, sid: str) -> LastHistory | None:
        """Drop the history of a session, and return it."""
        return self._by_sid.pop(sid)


# Keys of a message that are for Onlooker; a provider's API does not accept them.
OWN_KEYS = ("id", "created_at", "timestamp")


def with_originals(
    tail: Sequence[Message], items: Sequence[MessageLike], *, at: datetime, tz: tzinfo
) -> tuple[Message, ...]:
    """The tail with the host's original messages, images and provider fields included, matched from the
    end. Those that are a role and a text have no other original."""
    out = list(tail)
    left = len(out)
    for item in reversed(items):
        if not left:
            break
        if is_all_of(item, out[left - 1]):
            left -= 1
            continue
        given = intake(_for_provider(item), at=at, tz=tz)
        shown = out[max(0, left - len(given)) : left]
        if [_content(m) for m in shown] != [_content(m) for m in given]:
            break
        pairs = zip(shown, given, strict=True)
        out[left - len(given) : left] = [message.with_original(its.original) for message, its in pairs]
        left -= len(given)
    return tuple(out)


def _content(message: Message) -> tuple[object, ...]:
    """The fields that a message's digest covers."""
    return (message.role, message.text, message.calls, message.answers, message.attachments)


def _for_provider(item: MessageLike) -> MessageLike:
    if isinstance(item, Message):
        return item
    return {k: v for k, v in item.items() if k not in OWN_KEYS}


# What a message takes beside its text.
MESSAGE_BYTES = 300


def _copy(item: MessageLike) -> tuple[MessageLike, int]:
    """A copy that is safe from changes by the host, as cheap as the content allows, and its size."""
    if isinstance(item, Message):
        return item, MESSAGE_BYTES + len(item.text)
    if all(isinstance(v, str | int | float | None) for v in item.values()):
        return dict(item), MESSAGE_BYTES + sum(len(v) for v in item.values() if isinstance(v, str))
    copied = copy.deepcopy(dict(item))
    return copied, size_of(copied)


# How many of the last messages of an append may have an original: a tail has few more.
RECENT = 64
# Bytes of originals in all: some dozen images.
MAX_ORIGINAL_BYTES = 32_000_000


class Originals:
    """Recent messages as hosts gave them, if they have attachments or tool calls: what is stored of those
    lacks images, thinking and fields of a provider. Kept in this process alone, so that `context` sends them
    as they came, as `prepare` does.

    Beyond `max_bytes` those used longest ago are dropped; their messages go out as they are stored.
    """

    def __init__(self, max_bytes: int = MAX_ORIGINAL_BYTES) -> None:
        self._kept: Recent[tuple[str, str], tuple[Mapping[str, Any], int]] = Recent(max_bytes)

    def keep(self, sid: str, messages: Sequence[Message]) -> None:
        """Keep what is worth it. The parts of one message of the host's are kept together."""
        recent = [m for m in messages[-RECENT:] if m.original is not None]
        worth = {id(m.original): m.original for m in recent if m.attachments or m.calls}
        copies = {i: c for i, given in worth.items() if given and (c := _original(given))}
        for m in recent:
            if found := copies.get(id(m.original)):
                given, size = found
                self._kept.put((sid, m.id), (given, m.tokens), size)

    def restore(self, sid: str, tail: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages with their originals. One that was shortened to fit the budget stays short."""
        if not len(self._kept):
            return tail
        found = [self._kept.get((sid, m.id)) for m in tail]
        return tuple(
            replace(m, original=f[0]) if f and f[1] == m.tokens else m
            for m, f in zip(tail, found, strict=True)
        )

    def drop(self, sid: str) -> None:
        """Drop the messages of a session."""
        for key in [key for key in self._kept if key[0] == sid]:
            self._kept.pop(key)


def _original(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], int] | None:
    """A copy for the provider, and about how many bytes it takes."""
    try:
        copied = copy.deepcopy({k: v for k, v in given.items() if k not in OWN_KEYS})
    except Exception:  # noqa: BLE001  a host's message may contain anything
        return None
    return copied, size_of(copied)


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


# ------------------------------------------------------------------------------------ compaction

# (session, seq of the last message to replace, summary of the replaced messages)
Compactor = Callable[[SessionId, int, str], Awaitable[None]]


class Compaction:
    """Replaces messages by a summary: on request, and after a note if `compact` or a host asks for it."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        estimator: Estimator,
        emit: Callable[[Event], None],
    ) -> None:
        self._store = store
        self._archive = settings.archive
        self._clock = clock
        self._estimator = estimator
        self._emit = emit
        self._after_notes = settings.compact
        self._compactor: Compactor | None = None

    def use(self, compactor: Compactor | None) -> None:
        """Compact with a host's own function after each note; None turns compaction off."""
        self._compactor, self._after_notes = compactor, compactor is not None

    async def compact(
        self, session: SessionId, up_to: int, summary: str, *, revision: int | None = None
    ) -> None:
        """Replace every message up to and including seq `up_to` by a summary, in one transaction; with
        `revision`, only if no message was retired since."""
        now = self._clock.now()
        message = Message("system", summary, new_id("sum", now), now, "summary")
        message = replace(message, tokens=self._estimator.message(message))
        await self._store.compact(
            session, up_to=up_to, summary=message, archive=self._archive, now=now, revision=revision
        )
        self._emit(Compacted(session, up_to))

    async def after_note(self, progress: Progress, note: Note) -> None:
        """Replace the messages that a note was made from. A failure is only logged: the note is committed,
        and the messages are still there."""
        # Messages that the prompt shows raw stay, with or without a note.
        up_to = min(note.last, progress.tail_start - 1)
        if not self._after_notes or up_to < 1:
            return
        session = progress.session
        try:
            if self._compactor is None:
                await self.compact(session, up_to, note.text, revision=progress.revision)
            else:
                await self._compactor(session, up_to, note.text)
                self._emit(Compacted(session, up_to))
        except ConflictError:
            log.debug("%s: messages were retired before they were compacted", session.key)
        except Exception:
            log.exception("%s: compaction failed", session.key)
