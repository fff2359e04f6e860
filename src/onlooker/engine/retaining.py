"""Keeping messages no longer than the settings say: live, then archived, then gone."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from onlooker.domain.errors import OnlookerError
from onlooker.domain.events import Event, Pruned
from onlooker.domain.notes import SessionSummary
from onlooker.domain.retention import Retained, Retention
from onlooker.policy.settings import Settings
from onlooker.ports import Clock, Store

if TYPE_CHECKING:
    from onlooker.engine.journal import Journal

log = logging.getLogger(__name__)

EVERY = 6 * 3600.0  # seconds; limits are in days


class Retaining:
    """Applies the `retention_…` settings to messages, at opening and then from time to time."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        emit: Callable[[Event], None],
        journal: Journal | None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._journal = journal
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None and (self._limits().limits or self._settings.retention_owner_messages):
            self._task = asyncio.create_task(self._repeat(), name="onlooker retention")

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _repeat(self) -> None:
        while True:
            try:
                await self.run()
            except OnlookerError as error:
                log.warning("messages are kept for longer than they should be: %s", error)
            await asyncio.sleep(EVERY)

    async def run(self, *, dry_run: bool = False) -> Retained:
        """Go through all sessions, each in one transaction; what was done, or would be."""
        done = Retained()
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

    async def _of_owner(self, summaries: Sequence[SessionSummary], dry_run: bool) -> Retained:
        done = Retained()
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

    def _limits(self) -> Retention:
        s = self._settings
        return Retention(
            archive_before=self._ago(s.retention_archive_days),
            archive_beyond=s.retention_archive_messages or None,
            delete_before=self._ago(s.retention_delete_days),
            delete_beyond=s.retention_delete_messages or None,
        )

    def _ago(self, days: int) -> datetime | None:
        return self._clock.now() - timedelta(days=days) if days else None


def _may_be_past(summary: SessionSummary, limits: Retention) -> bool:
    """Whether it is worth looking at the messages of a session."""
    counts = [c for c in (limits.archive_beyond, limits.delete_beyond) if c is not None]
    times = [t for t in (limits.archive_before, limits.delete_before) if t is not None]
    started = summary.started_at
    return any(summary.messages > c for c in counts) or any(started is None or started < t for t in times)
