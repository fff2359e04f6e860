"""Retention: messages are live, then archived, then deleted. Notes are deleted some time after they were
superseded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from onlooker.domain.events import Event, Pruned
from onlooker.domain.history import RetentionLimits, RetentionResult
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import SessionSummary
from onlooker.engine.background import JobLease
from onlooker.policy.settings import Settings
from onlooker.ports import Clock, Store

INTERVAL = timedelta(hours=6)  # limits are in days
# The clock is checked this often per interval: a timer does not run while a machine sleeps.
SWEEPS = 12


class Retention:
    """Applies the `retention_…` settings, at opening and then periodically; `memory.retention`."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        emit: Callable[[Event], None],
        remove_from_files: Callable[[Sequence[SessionId]], Awaitable[None]],
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._remove_from_files = remove_from_files  # called after messages were deleted
        self._ready = ready
        self._lease = JobLease(store, clock, "retention", version=self._numbers)

    @property
    def is_wanted(self) -> bool:
        """Whether the settings limit anything."""
        return any(self._numbers)

    async def run(self) -> None:
        """Apply the settings, if due and no other process is doing it."""
        async with self._lease.claimed(INTERVAL) as ours:
            if ours:
                await self._round()

    async def _round(self) -> None:
        if self._settings.retention_days:
            await self._prune(timedelta(days=self._settings.retention_days))
        await self._apply()

    async def prune(self, *, older_than: timedelta | None = None) -> int:
        """Purge what retention no longer keeps: superseded notes, messages that hosts took back, and messages
        beyond the limits of `apply`. Returns how many rows were deleted.

        `older_than` is how old notes must be, by default the setting `retention_days`. This happens
        automatically if the settings ask for it.
        """
        await self._ready()
        days = self._settings.retention_days
        age = older_than if older_than is not None else timedelta(days=days) if days else None
        rows = await self._prune(age) if age is not None else 0
        return rows + (await self._apply()).deleted

    async def apply(self, *, dry_run: bool = False) -> RetentionResult:
        """Archive noted messages, and delete them, once they are past the limits of `retention_archive_…`,
        `retention_delete_…` and `retention_owner_messages`. Returns how many, or how many it would be.

        Messages that no note covers stay, and so do all notes.
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
        if not (self._limits().any or self._settings.retention_owner_messages):
            return done
        by_owner: dict[str, list[SessionSummary]] = defaultdict(list)
        for summary in reversed(await self._store.sessions()):  # least recently used first
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
            if gone.deleted and not dry_run:
                await self._remove_from_files([session])
            excess -= max(0, gone.deleted - (summary.messages - self._at_most(summary)))
            done += gone.of(session)
        return done

    def _excess(self, summaries: Sequence[SessionSummary]) -> int:
        """How many messages an owner has beyond the limit, after each session is within its own."""
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
    """Whether the messages of a session need to be checked."""
    counts = [c for c in (limits.archive_beyond, limits.delete_beyond) if c is not None]
    times = [t for t in (limits.archive_before, limits.delete_before) if t is not None]
    started = summary.started_at
    return any(summary.messages > c for c in counts) or any(started is None or started < t for t in times)
