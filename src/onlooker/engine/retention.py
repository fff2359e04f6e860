"""Keeping things no longer than the settings say: messages live, then archived, then gone; and notes until so
long after others took their place."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from onlooker.domain.errors import OnlookerError
from onlooker.domain.events import Event, Pruned
from onlooker.domain.history import Retention as RetentionLimits
from onlooker.domain.history import RetentionResult
from onlooker.domain.notes import SessionSummary
from onlooker.policy.settings import TIMING, Settings
from onlooker.ports import Clock, Mirror, Store

log = logging.getLogger(__name__)

EVERY = timedelta(hours=6)  # limits are in days
# Looks at the clock are so many sweeps apart. By the clock, since a machine that slept has not counted.
SWEEPS = 12
# Whoever began and did not say that it has ended is gone after this.
AT_MOST = timedelta(minutes=10)
STOP_SECONDS = 1.0
CLAIM_SECONDS = 0.1  # longer than it takes to look, and to say so
NEVER = datetime.min.replace(tzinfo=UTC)


class Rounds:
    """Which of several processes goes round: one at a time, and each time one for all that have the same
    limits. By the store's word alone, and without a lock: that two go round at once costs their time."""

    NAME = "retention"

    def __init__(self, store: Store, clock: Clock, limits: Sequence[int]) -> None:
        self._store = store
        self._clock = clock
        self._limits = list(limits)
        self._us = secrets.token_hex(8)
        self._due = clock.now()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[bool]:
        """Whether it is time, and our turn."""
        now = self._clock.now()
        if now < self._due:
            self._due = min(self._due, now + EVERY)  # a clock that was set back must not put it off
            yield False
            return
        said = await self._store.get_value(self.NAME)
        if said is not None and not self._is_free(said, now):
            yield False
            return
        try:
            # In a store where nobody ever went round there is little to go round for.
            ours = await self._claim(now, wait=0.0 if said is None else CLAIM_SECONDS)
            yield ours
        except BaseException:
            # Cut off, or failed: it counts for nothing, and whoever comes next need not wait.
            self._due = now
            with suppress(OnlookerError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._say(NEVER, NEVER)
            raise
        if ours:
            await self._say(now, now)

    def _is_free(self, said: str, now: datetime) -> bool:
        _, limits, *times = json.loads(said)
        began, until = map(datetime.fromisoformat, times)
        if now < until < now + 2 * AT_MOST:
            return False  # another is at it
        if limits == self._limits and self._due <= began < now + EVERY:
            self._due = began + EVERY  # another did since
            return False
        return True

    async def _claim(self, now: datetime, wait: float) -> bool:
        """Say that it is our turn. Several may, since those that were started together look together; so it
        belongs to the one who said so last."""
        due, self._due = self._due, now + EVERY
        await self._say(now, now + AT_MOST)
        await asyncio.sleep(wait)
        who, *_ = json.loads(await self._store.get_value(self.NAME) or "[null]")
        if who != self._us:
            self._due = due  # it may have other limits
        return who == self._us

    async def _say(self, began: datetime, until: datetime) -> None:
        times = began.isoformat(), until.isoformat()
        await self._store.set_value(self.NAME, json.dumps([self._us, self._limits, *times]))


class Retention:
    """Applies the `retention_…` settings, at opening and then periodically; `memory.retention`."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        emit: Callable[[Event], None],
        journal: Mirror | None,
        ready: Callable[[], Awaitable[None]],
        sweep_seconds: float = TIMING.sweep_seconds,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._journal = journal
        self._ready = ready
        self._sweep_seconds = sweep_seconds
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()  # whether the round at opening is over

    def start(self) -> None:
        if self._task is None and any(self._numbers):
            self._looked.clear()
            self._task = asyncio.create_task(self._repeat(), name="onlooker retention")

    async def stop(self) -> None:
        if self._task:
            # What a memory is opened for may be over in no time, and again and again.
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._looked.wait()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _repeat(self) -> None:
        rounds = Rounds(self._store, self._clock, self._numbers)
        while True:
            try:
                async with rounds.turn() as ours:
                    if ours:
                        await self._round()
            except OnlookerError as error:
                log.warning("what is old is kept for longer than it should be: %s", error)
            except Exception:
                log.exception("what is old is kept for longer than it should be: this is a bug in Onlooker")
            self._looked.set()
            await asyncio.sleep(SWEEPS * self._sweep_seconds)

    async def _round(self) -> None:
        if self._settings.retention_days:
            await self._prune(timedelta(days=self._settings.retention_days))
        await self._apply()

    async def prune(self, *, older_than: timedelta | None = None) -> int:
        """Purge what retention no longer keeps: superseded notes, messages that hosts took back, and messages
        beyond the limits of `apply`. Returns how many rows were deleted.

        `older_than` is how old notes must be, by default the setting `retention_days`. It runs by itself
        where the settings ask for it.
        """
        await self._ready()
        days = self._settings.retention_days
        age = older_than if older_than is not None else timedelta(days=days) if days else None
        rows = await self._prune(age) if age is not None else 0
        return rows + (await self._apply()).deleted

    async def apply(self, *, dry_run: bool = False) -> RetentionResult:
        """Archive noted messages, and delete them, once they are past the limits of `retention_archive_…`,
        `retention_delete_…` and `retention_owner_messages`. Returns how many, or how many it would be.

        Messages that no note stands for stay, and so do all notes.
        """
        await self._ready()
        return await self._apply(dry_run=dry_run)

    async def _prune(self, age: timedelta) -> int:
        rows = await self._store.prune(before=self._clock.now() - age)
        self._emit(Pruned(rows))
        return rows

    async def _apply(self, *, dry_run: bool = False) -> RetentionResult:
        """Go through all sessions, each in one transaction."""
        done = RetentionResult()
        if not (self._limits().limits or self._settings.retention_owner_messages):
            return done
        by_owner: dict[str, list[SessionSummary]] = defaultdict(list)
        for summary in reversed(await self._store.sessions()):  # those used longest ago first
            by_owner[summary.progress.session.owner].append(summary)
        for summaries in by_owner.values():
            done += await self._of_owner(summaries, dry_run)
        if done.deleted and not dry_run:
            self._emit(Pruned(done.deleted))
        return done

    async def _of_owner(self, summaries: Sequence[SessionSummary], dry_run: bool) -> RetentionResult:
        done = RetentionResult()
        excess = self._excess(summaries)
        for summary in summaries:
            limits = self._limits()
            if excess > 0:
                keep = max(0, self._at_most(summary) - excess)
                limits = replace(limits, delete_beyond=keep)
            if not _may_be_past(summary, limits):
                continue
            session = summary.progress.session
            gone = await self._store.retain(session, limits, dry_run=dry_run)
            if gone.deleted and self._journal and not dry_run:
                await self._journal.renew([session])
            excess -= max(0, gone.deleted - (summary.messages - self._at_most(summary)))
            done += gone.of(session)
        return done

    def _excess(self, summaries: Sequence[SessionSummary]) -> int:
        """How many more messages an owner has than are kept, once each session has no more than it may."""
        most = self._settings.retention_owner_messages
        return sum(map(self._at_most, summaries)) - most if most else 0

    def _at_most(self, summary: SessionSummary) -> int:
        return min(summary.messages, self._settings.retention_delete_messages or summary.messages)

    @property
    def _numbers(self) -> tuple[int, ...]:
        s = self._settings
        days = s.retention_days, s.retention_archive_days, s.retention_delete_days
        counts = s.retention_archive_messages, s.retention_delete_messages, s.retention_owner_messages
        return days + counts

    def _limits(self) -> RetentionLimits:
        s = self._settings
        return RetentionLimits(
            archive_before=self._ago(s.retention_archive_days),
            archive_beyond=s.retention_archive_messages or None,
            delete_before=self._ago(s.retention_delete_days),
            delete_beyond=s.retention_delete_messages or None,
        )

    def _ago(self, days: int) -> datetime | None:
        return self._clock.now() - timedelta(days=days) if days else None


def _may_be_past(summary: SessionSummary, limits: RetentionLimits) -> bool:
    """Whether it is worth looking at the messages of a session."""
    counts = [c for c in (limits.archive_beyond, limits.delete_beyond) if c is not None]
    times = [t for t in (limits.archive_before, limits.delete_before) if t is not None]
    started = summary.started_at
    return any(summary.messages > c for c in counts) or any(started is None or started < t for t in times)
