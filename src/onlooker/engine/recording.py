"""Into the store: messages one by one, or a host's whole history."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from onlooker.domain.errors import ConflictError
from onlooker.domain.events import Compacted, Realigned, Recorded
from onlooker.domain.messages import EMPTY_HISTORY_HASH, GENERATED_ID_PREFIX, Message, MessageLike, SessionId
from onlooker.domain.notes import Progress, Realignment
from onlooker.engine.core import Core
from onlooker.engine.histories import Unread
from onlooker.engine.worker import note_id
from onlooker.policy.align import CERTAIN_RUN, Alignment, align
from onlooker.policy.intake import intake_all
from onlooker.policy.plan import due_tokens
from onlooker.policy.settings import limits

# A history is aligned with so many more recorded messages than it has, since messages recorded
# beside it (the last answer, tool results) may not be in it yet.
ALIGN_SLACK = 64
# How often a history is aligned anew when another writer was faster.
MOST_TRIES = 20


@dataclass(frozen=True, slots=True)
class Opening:
    """What a history has before the recorded conversation: its system messages, and what it put in
    front itself."""

    lead: tuple[Message, ...]
    preface: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records into one session."""

    core: Core
    session: SessionId
    tz: tzinfo

    async def record(self, items: Sequence[MessageLike]) -> tuple[Message, ...]:
        """Record these; return the ones that were new."""
        said = intake_all(items, at=self.core.clock.now(), tz=self.tz)
        _, messages = await self._append(said)
        return messages

    async def compact(self, up_to: int, summary: str, *, revision: int | None = None) -> None:
        """Replace every message up to and including seq `up_to` by a summary, in one transaction;
        with `revision`, only while no message was taken back."""
        now = self.core.clock.now()
        said = self._counted(Message("system", summary, note_id("sum", now), now, "summary"))
        archive = self.core.settings.archive
        await self.core.store.compact(
            self.session, up_to=up_to, summary=said, archive=archive, now=now, revision=revision
        )
        self.core.emit(Compacted(self.session, up_to))

    async def follow(self, history: Sequence[MessageLike]) -> Opening:
        """Make the record the conversation that the host now has.

        Cost grows with what is new: a history that goes on from the one before is recognised by its
        hash, and only one that went another way is compared message by message.
        """
        for _ in range(MOST_TRIES):
            try:
                return await self._follow(history)
            except ConflictError:
                self.core.histories.drop(self.session.sid)
        raise ConflictError("other writers keep changing this session; hand the history over again")

    async def _follow(self, history: Sequence[MessageLike]) -> Opening:
        unread = self._unread(history)
        state = await self.core.store.load(self.session)
        progress = state.progress if state else None
        new = unread.after(progress)
        if new is not None and (history_hash := await self._go_on(progress, new)) is not None:
            opening = Opening(unread.lead, unread.preface)
        else:
            self.core.histories.drop(self.session.sid)
            opening, history_hash = await self._realign(self._unread(history))
        self.core.histories.keep(self.session.sid, history, opening.lead, opening.preface, history_hash)
        return opening

    async def _go_on(self, progress: Progress | None, new: Sequence[Message]) -> bytes | None:
        """Record what follows; None where some of it had been taken back and must be revived."""
        if not new:
            return progress.history_hash if progress else EMPTY_HISTORY_HASH
        after, recorded = await self._append(new)
        return after.history_hash if len(recorded) == len(new) else None

    async def _realign(self, unread: Unread) -> tuple[Opening, bytes]:
        state = await self.core.store.load(self.session)
        if state is None:
            raise ConflictError("the session was deleted meanwhile")
        progress = state.progress
        found = await self._aligned(unread)
        opening = Opening(unread.lead, unread.messages[: found.preface])
        if not found.follow and not found.retires:
            return opening, progress.history_hash
        follow = tuple(f if isinstance(f, int) else self._counted(f) for f in found.follow)
        change = Realignment(found.keep, follow, progress.last_seq, progress.revision)
        began = time.perf_counter()
        done = await self.core.store.realign(
            self.session, change, due_tokens=self._due_tokens(), now=self.core.clock.now()
        )
        took = time.perf_counter() - began
        if found.diverges:
            self.core.emit(Realigned(self.session, found.keep, len(done.messages), seconds=took))
        else:
            self.core.emit(Recorded(self.session, done.messages, seconds=took))
        self.core.wake(self.session, done)
        return opening, done.progress.history_hash

    async def _aligned(self, unread: Unread) -> Alignment:
        """Compare with the end of the record first, where a host that trims its past goes on; with
        all of it where that tells nothing, as when a host went back to an early point."""
        newest = len(unread.messages) + ALIGN_SLACK
        recorded = await self.core.store.digests(self.session, newest=newest)
        whole = len(recorded) < newest
        found = align(unread.messages, recorded, whole=whole)
        if whole or found.matched - found.preface >= CERTAIN_RUN:
            return found
        return align(unread.messages, await self.core.store.digests(self.session))

    async def _append(self, messages: Sequence[Message]) -> tuple[Progress, tuple[Message, ...]]:
        began = time.perf_counter()
        appended = await self.core.store.append(
            self.session,
            [self._counted(m) for m in messages],
            due_tokens=self._due_tokens(),
            now=self.core.clock.now(),
        )
        if appended.messages:
            took = time.perf_counter() - began
            self.core.emit(Recorded(self.session, appended.messages, seconds=took))
        self.core.wake(self.session, appended)
        return appended.progress, appended.messages

    def _unread(self, history: Sequence[MessageLike]) -> Unread:
        return self.core.histories.unread(self.session.sid, history, at=self.core.clock.now(), tz=self.tz)

    def _counted(self, message: Message) -> Message:
        """The message with the id and the count that it is stored with."""
        given = message.id or note_id(GENERATED_ID_PREFIX.rstrip("_"), self.core.clock.now())
        return replace(message, id=given, tokens=self.core.estimator.message(message))

    def _due_tokens(self) -> int:
        if not self.core.settings.enabled:
            return 1 << 62
        return due_tokens(limits(self.core.settings, self.core.worker.budgets.get(self.session.sid, 0)))
