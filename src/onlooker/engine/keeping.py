"""A memory as a whole: forgetting an owner, moving it, and keeping it safe."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from onlooker.domain.events import Deleted, OwnerForgotten
from onlooker.domain.history import ForgetResult, RetentionResult
from onlooker.domain.history_rows import Row, Scope, UsageRow
from onlooker.domain.messages import DEFAULT_OWNER, SessionId
from onlooker.engine.core import Core
from onlooker.ports import RowFiles


class Keeping:
    """The part of `Memory` that is about all of it."""

    _core: Core
    _row_files: Callable[[], RowFiles]

    # -- forgetting

    async def forget(self, *, owner: str, session: str | None = None) -> ForgetResult:
        """Forget a session of an owner, or everything of that owner: messages, notes, items, indexes and
        journals, down to the bytes in the files. What calls cost stays counted for the day."""
        await self._core.ready()
        store, began = self._core.store, time.perf_counter()
        found = [s.progress.session for s in await store.sessions(owner=owner, key=session)]
        messages = sum(s.messages for s in await store.sessions(owner=owner, key=session))
        statuses = ("live", "ended", "archived")
        before = await store.items(owner, statuses=statuses)
        for each in found:
            self._core.forget(each)
        if session is None:
            await store.forget_owner(owner)
        else:
            await store.delete_session(SessionId(owner, session))
        after = await store.items(owner, statuses=statuses)
        erased = await self._core.erase(found or _named(owner, session), owners=[owner])
        done = ForgetResult(
            messages=messages, items=len(before) - len(after), sessions=len(found), erased=erased
        )
        if session is None:
            self._core.emit(OwnerForgotten(owner, done, seconds=time.perf_counter() - began))
        for each in found:
            self._core.emit(Deleted(each))
        return done

    # -- moving

    async def export(
        self, target: str | Path, *, owner: str | None = None, session: str | None = None
    ) -> int:
        """Write everything, or what belongs to one owner or session, to a new file of JSON lines; how many
        rows. The same content always makes the same file.

        Raises:
            StoreError: The file exists, or cannot be written.
        """
        await self._core.ready()
        rows = self._core.store.dump(_scope(owner, session))
        return await self._row_files().write_export(Path(target), rows)

    async def import_file(self, source: str | Path, *, replace: bool = False) -> dict[str, int]:
        """Take in what `export` wrote; how many rows of each kind. The file is checked first, and each
        session comes in whole or not at all.

        Raises:
            ConflictError: A session is there already, and was not to be replaced.
            StoreError: The file is no export, not whole, or changed; or it cannot be written.
        """
        await self._core.ready()
        return await self._taken_in(self._row_files().read_export(Path(source)), replace)

    async def import_journal(
        self, folder: str | Path, *, replace: bool = False
    ) -> tuple[dict[str, int], Sequence[str]]:
        """Build sessions again from a journal; how many rows of each kind were taken in, and which lines
        were not, with why.

        Raises:
            ConflictError: A session is there already, and was not to be replaced.
            StoreError: There is no journal.
        """
        await self._core.ready()
        problems: list[str] = []
        rows = self._row_files().read_journal(Path(folder), problems.append)
        return await self._taken_in(rows, replace), problems

    async def _taken_in(self, rows: AsyncIterator[Row], replace: bool) -> dict[str, int]:
        from onlooker.engine.moving import lacking_calls

        store, parts = self._core.store, _Parts(rows)
        counts = await store.restore(parts.before_calls(), replace=replace)
        if parts.calls_follow:
            # Sessions that made way have taken along what they cost, so that what is there now is others'.
            more = await store.restore(lacking_calls(store, parts.from_calls_on()))
            counts = dict(Counter(counts) + Counter(more))
        if self._core.journal and self._core.settings.enabled:
            await self._core.journal.catch_up()
        return counts

    # -- keeping

    async def retain(self, *, dry_run: bool = False) -> RetentionResult:
        """Put noted messages into the archive, and delete them, once they are past the limits of
        `retention_archive_…`, `retention_delete_…` and `retention_owner_messages`; how many, or how many it
        would be. What no note stands for stays, and so do all notes."""
        await self._core.ready()
        return await self._core.retaining.run(dry_run=dry_run)

    async def back_up(self, target: str | Path) -> None:
        """Copy the store to a new file while it is in use.

        Raises:
            StoreError: The store is no file, or the target exists or cannot be written.
        """
        await self._core.ready()
        await self._core.store.back_up(Path(target))


def _named(owner: str, session: str | None) -> list[SessionId]:
    return [] if session is None else [SessionId(owner, session)]


def _scope(owner: str | None, session: str | None) -> Scope:
    if session is None:
        return Scope(owner=owner)
    return Scope(session=SessionId(DEFAULT_OWNER if owner is None else owner, session))


class _Parts:
    """Rows in two parts: up to what calls cost, which comes after all sessions, and from there on."""

    def __init__(self, rows: AsyncIterator[Row]) -> None:
        self._rows = rows
        self._call: UsageRow | None = None

    @property
    def calls_follow(self) -> bool:
        return self._call is not None

    async def before_calls(self) -> AsyncIterator[Row]:
        async for row in self._rows:
            if isinstance(row, UsageRow):
                self._call = row
                return
            yield row

    async def from_calls_on(self) -> AsyncIterator[Row]:
        if self._call is not None:
            yield self._call
        async for row in self._rows:
            yield row
