"""Recording: messages one by one, or a host's whole history; and taking noted messages out again."""

from __future__ import annotations

import copy
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from onlooker.domain.errors import ConflictError
from onlooker.domain.events import Compacted, Event, Realigned, Recorded
from onlooker.domain.messages import (
    EMPTY_HISTORY_HASH,
    GENERATED_ID_PREFIX,
    Message,
    MessageLike,
    SessionId,
    extend_history_hash,
)
from onlooker.domain.notes import Appended, Note, Progress, Realignment, State
from onlooker.policy.align import CERTAIN_RUN, Alignment, align
from onlooker.policy.assemble import limits_beside_items
from onlooker.policy.ids import new_id
from onlooker.policy.intake import intake, intake_all
from onlooker.policy.plan import due_tokens
from onlooker.policy.settings import Limits, Settings, limits
from onlooker.policy.tokens import Estimator, margin
from onlooker.ports import Clock, Store

log = logging.getLogger("onlooker")

# A history is compared with this many more recorded messages than it has: messages recorded beside it (the
# last answer, tool results) may not be in it yet.
ALIGN_SLACK = 64
# How often a history is aligned again when another writer was faster.
MOST_TRIES = 20


@dataclass(frozen=True, slots=True)
class Followed:
    """A history that is recorded: what it has before the conversation (its system messages, and what the host
    put in front), and the session's state, if that needs no second look."""

    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    history_hash: bytes
    state: State | None = None


class Recorder:
    """Records into any session of a memory."""

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
        appended: Callable[[SessionId, Appended], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._estimator = estimator
        self._emit = emit
        self._budgets = budgets
        self._histories = histories
        self._appended = appended  # called with what was stored, which may have made the session due

    async def record(
        self, session: SessionId, items: Sequence[MessageLike], tz: tzinfo
    ) -> tuple[Message, ...]:
        """Record messages; return the ones that were new."""
        _, messages = await self._append(session, intake_all(items, at=self._clock.now(), tz=tz))
        return messages

    async def follow(self, session: SessionId, history: Sequence[MessageLike], tz: tzinfo) -> Followed:
        """Make the record the conversation that the host now has.

        The cost grows with what is new: a history that continues the one before is recognised by its hash.
        Only one that went another way is compared message by message.
        """
        for _ in range(MOST_TRIES):
            try:
                done = await self._follow(session, history, tz)
            except ConflictError:
                self._histories.drop(session.sid)
                continue
            self._histories.keep(session.sid, history, done.lead, done.preface, done.history_hash)
            return done
        raise ConflictError("other writers keep changing this session; hand the history over again")

    async def _follow(self, session: SessionId, history: Sequence[MessageLike], tz: tzinfo) -> Followed:
        unread = self._unread(session, history, tz)
        state = await self._store.load(session)
        new = unread.after(state.progress if state else None)
        if new is not None and (done := await self._continue(session, state, unread, new)) is not None:
            return done
        self._histories.drop(session.sid)
        return await self._realign(session, self._unread(session, history, tz))

    async def _continue(
        self, session: SessionId, state: State | None, unread: Unread, new: Sequence[Message]
    ) -> Followed | None:
        """Record what follows; None when some of it had been taken back and must be revived."""
        if not new:
            known = state.progress.history_hash if state else EMPTY_HISTORY_HASH
            return Followed(unread.lead, unread.preface, known, state)
        after, recorded = await self._append(session, new)
        if len(recorded) < len(new):
            return None
        grown = state.grown(after, recorded) if state else None
        return Followed(unread.lead, unread.preface, after.history_hash, grown)

    async def _realign(self, session: SessionId, unread: Unread) -> Followed:
        state = await self._store.load(session)
        if state is None:
            raise ConflictError("the session was deleted meanwhile")
        progress = state.progress
        found = await self._aligned(session, unread)
        preface = unread.messages[: found.preface]
        if not found.follow and not found.retires:
            return Followed(unread.lead, preface, progress.history_hash, state)
        follow = tuple(f if isinstance(f, int) else self._counted(f) for f in found.follow)
        change = Realignment(found.keep, follow, progress.last_seq, progress.revision)
        began = time.perf_counter()
        done = await self._store.realign(
            session, change, due_tokens=self._budgets.due_tokens(session), now=self._clock.now()
        )
        took = time.perf_counter() - began
        if found.diverges:
            self._emit(Realigned(session, found.keep, len(done.messages), seconds=took))
        else:
            self._emit(Recorded(session, done.messages, seconds=took))
        self._appended(session, done)
        return Followed(unread.lead, preface, done.progress.history_hash)

    async def _aligned(self, session: SessionId, unread: Unread) -> Alignment:
        """Compare with the end of the record first, where a host that trims its past continues. Compare with
        all of it when that is inconclusive, as when a host went back to an early point."""
        newest = len(unread.messages) + ALIGN_SLACK
        recorded = await self._store.digests(session, newest=newest)
        whole = len(recorded) < newest
        found = align(unread.messages, recorded, whole=whole)
        if whole or found.matched - found.preface >= CERTAIN_RUN:
            return found
        return align(unread.messages, await self._store.digests(session))

    async def _append(
        self, session: SessionId, messages: Sequence[Message]
    ) -> tuple[Progress, tuple[Message, ...]]:
        began = time.perf_counter()
        appended = await self._store.append(
            session,
            [self._counted(m) for m in messages],
            due_tokens=self._budgets.due_tokens(session),
            now=self._clock.now(),
        )
        if appended.messages:
            self._emit(Recorded(session, appended.messages, seconds=time.perf_counter() - began))
        self._appended(session, appended)
        return appended.progress, appended.messages

    def _unread(self, session: SessionId, history: Sequence[MessageLike], tz: tzinfo) -> Unread:
        return self._histories.unread(session.sid, history, at=self._clock.now(), tz=tz)

    def _counted(self, message: Message) -> Message:
        """The message with the id and the token count that it is stored with."""
        given = message.id or new_id(GENERATED_ID_PREFIX.rstrip("_"), self._clock.now())
        return replace(message, id=given, tokens=self._estimator.message(message))


# ------------------------------------------------------------------------------------ budgets

# Sessions whose budget is cached; the budgets of others are read from the store.
MOST_BUDGETS = 10_000


class Budgets:
    """The budgets that hosts ask for: what this process heard last, or else what the store has."""

    def __init__(self, store: Store, settings: Settings, count: Callable[[str], int]) -> None:
        self._store = store
        self._settings = settings
        self._count = count
        self._asked: dict[str, int] = {}

    def ask(self, session: SessionId, budget: int) -> bool:
        """Note the budget of a call; True when it differs from the one before."""
        before = self._asked.pop(session.sid, None)
        self._asked[session.sid] = budget
        if len(self._asked) > MOST_BUDGETS:
            del self._asked[next(iter(self._asked))]
        return before != budget

    def of(self, progress: Progress) -> int:
        """The budget of a session; 0 when no call has named one."""
        return self._asked.get(progress.sid) or progress.budget

    def limits(self, state: State) -> Limits:
        """The settings in tokens for a session's budget."""
        usable = int(self._settings.budget * (1 - margin(self._settings.estimator)))
        return limits_beside_items(
            limits(self._settings, self.of(state.progress) or usable), state, self._count
        )

    def due_tokens(self, session: SessionId) -> int:
        """How many un-noted tokens make a session due."""
        return due_tokens(self._settings, self._asked.get(session.sid, 0))

    async def store(self, progress: Progress) -> None:
        """Store the budget that was asked for, when it differs enough to matter."""
        asked = self._asked.get(progress.sid, 0)
        if asked and abs(asked - progress.budget) * 20 > asked:
            await self._store.set_budget(progress.session, asked)


# ------------------------------------------------------------------------------------ compaction

# (session key, last message to take out, summary of what is taken out)
Compactor = Callable[[str, int, str], Awaitable[None]]


class Compaction:
    """Replaces messages by a summary: on request, and after a note where `compact` or a host asks for it."""

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
        """Compact with a host's own function after each note; None: not at all."""
        self._compactor, self._after_notes = compactor, compactor is not None

    async def compact(
        self, session: SessionId, up_to: int, summary: str, *, revision: int | None = None
    ) -> None:
        """Replace every message up to and including seq `up_to` by a summary, in one transaction; with
        `revision`, only while no message was taken back."""
        now = self._clock.now()
        said = Message("system", summary, new_id("sum", now), now, "summary")
        said = replace(said, tokens=self._estimator.message(said))
        await self._store.compact(
            session, up_to=up_to, summary=said, archive=self._archive, now=now, revision=revision
        )
        self._emit(Compacted(session, up_to))

    async def after_note(self, progress: Progress, note: Note) -> None:
        """Take the messages out that a note stands for. A failure is logged: the note is committed and the
        messages are still there."""
        # Raw messages are never taken out, noted or not.
        up_to = min(note.last, progress.tail_start - 1)
        if not self._after_notes or up_to < 1:
            return
        session = progress.session
        try:
            if self._compactor is None:
                await self.compact(session, up_to, note.text, revision=progress.revision)
            else:
                await self._compactor(session.key, up_to, note.text)
                self._emit(Compacted(session, up_to))
        except ConflictError:
            log.debug("%s: messages were taken back before they were compacted", session.key)
        except Exception:
            log.exception("%s: messages were not compacted", session.key)


# -------------------------------------------------------------------------------- what hosts handed over last


@dataclass(frozen=True, slots=True)
class Seen:
    """A history as it was: its items, how many of them stand before the record, and the history hash of
    the conversation that it was then."""

    items: list[MessageLike]
    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    history_hash: bytes


@dataclass(frozen=True, slots=True)
class Unread:
    """The part of a history that has to be looked at, and the history hash of what lies before it."""

    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    messages: tuple[Message, ...]
    history_hash: bytes

    def after(self, progress: Progress | None) -> tuple[Message, ...] | None:
        """What follows the recorded conversation, where the history simply goes on from it; else None."""
        recorded = progress.history_hash if progress else EMPTY_HISTORY_HASH
        history_hash = self.history_hash
        for i, message in enumerate(self.messages):
            if history_hash == recorded:
                return self.messages[i:]
            history_hash = extend_history_hash(history_hash, message.digest)
        return () if history_hash == recorded else None


class Histories:
    """The latest history of each session, kept as copies so that a change in place is noticed.

    Comparing a history with the one before costs some 50 ns a message; reading, hashing and storing
    is done for what is new. Sessions used longest ago are dropped beyond `most` messages in all: the
    next history of such a session is read whole, once.
    """

    def __init__(self, most: int = 200_000) -> None:
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._count = 0
        self._most = most

    def unread(self, sid: str, items: Sequence[MessageLike], *, at: datetime, tz: tzinfo) -> Unread:
        """The history's messages that the last one did not have."""
        seen = self._seen.get(sid)
        if seen and list(items[: len(seen.items)]) == seen.items:
            known = len(seen.items)
            new = intake_all(list(items[known:]), at=at, tz=tz, first=known)
            return Unread(seen.lead, seen.preface, new, seen.history_hash)
        self.drop(sid)
        messages = intake_all(list(items), at=at, tz=tz)
        lead = 0
        while lead < len(messages) and messages[lead].role == "system":
            lead += 1
        return Unread(messages[:lead], (), messages[lead:], EMPTY_HISTORY_HASH)

    def keep(
        self,
        sid: str,
        items: Sequence[MessageLike],
        lead: tuple[Message, ...],
        preface: tuple[Message, ...],
        history_hash: bytes,
    ) -> None:
        """Remember the history that now is the recorded conversation."""
        old = self._seen.pop(sid, None)
        # Another call for the same session may have kept another history meanwhile.
        copies = old.items if old and list(items[: len(old.items)]) == old.items else []
        self._count += len(items) - (len(old.items) if old else 0)
        copies.extend(_copied(i) for i in items[len(copies) :])
        self._seen[sid] = Seen(copies, lead, preface, history_hash)
        while self._count > self._most and len(self._seen) > 1:
            self.drop(next(iter(self._seen)))

    def drop(self, sid: str) -> None:
        """Forget what was seen of a session."""
        seen = self._seen.pop(sid, None)
        if seen:
            self._count -= len(seen.items)


# What a host may tell us of a message and a provider's API does not know.
OURS = ("id", "created_at", "timestamp")


def with_originals(
    tail: Sequence[Message], items: Sequence[MessageLike], *, at: datetime, tz: tzinfo
) -> tuple[Message, ...]:
    """The tail as the host gave it, images and provider fields included, matched from its end."""
    given: list[Message] = []
    for item in reversed(items):
        given[:0] = intake(_for_provider(item), at=at, tz=tz)
        if len(given) >= len(tail):
            break
    out = list(tail)
    for back in range(1, min(len(tail), len(given)) + 1):
        if _content(tail[-back]) != _content(given[-back]):
            break
        out[-back] = replace(tail[-back], original=given[-back].original)
    return tuple(out)


def _content(message: Message) -> tuple[object, ...]:
    """What the digest of a message is made of."""
    return (message.role, message.text, message.calls, message.answers, message.attachments)


def _for_provider(item: MessageLike) -> MessageLike:
    if isinstance(item, Message):
        return item
    return {k: v for k, v in item.items() if k not in OURS}


def _copied(item: MessageLike) -> MessageLike:
    """A copy that does not change when the host changes its own, as cheap as its content allows."""
    if isinstance(item, Message):
        return item
    if all(isinstance(v, str | int | float | None) for v in item.values()):
        return dict(item)
    return copy.deepcopy(dict(item))
