"""Exporting, importing and backing up a store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace as changed
from pathlib import Path

from onlooker.domain.errors import ConflictError, SettingsError
from onlooker.domain.frozen import frozen
from onlooker.domain.history import ForgetRecord, ItemRow, MessageRow, Row, Scope, UsageRow, ValueRow
from onlooker.domain.items import ITEM_STATUSES, Item
from onlooker.domain.messages import DEFAULT_OWNER, SessionId
from onlooker.files.export import read_export, read_items, read_journal, write_export
from onlooker.policy.rows import KnownUsage
from onlooker.ports import Store


class Storage:
    """The store as a whole: export, import and backup; `memory.storage`."""

    def __init__(
        self,
        store: Store,
        *,
        owner: str,
        ready: Callable[[], Awaitable[None]],
        imported: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._owner = owner  # the owner if a call names none
        self._ready = ready
        self._imported = imported  # called after an import

    async def export(
        self, target: str | Path, *, owner: str | None = None, session: str | None = None
    ) -> int:
        """Write everything, or what belongs to one owner or session, to a new file of JSON lines. Returns the
        number of rows. The same content always makes the same file.

        Raises:
            StoreError: The file exists, or cannot be written.
        """
        await self._ready()
        return await write_export(Path(target), self._store.dump(_scope(owner, session)))

    async def import_file(
        self,
        source: str | Path,
        *,
        owner: str | None = None,
        all_owners: bool = False,
        replace: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, int]:
        """Import what `export` wrote. Returns the number of rows of each kind. The file is checked first, and
        each session is imported whole or not at all.

        With an `owner`, only what belongs to them is imported. With `all_owners` everything is; use this only
        for a file that you trust with the memory of everybody. With neither, the file may only hold what
        belongs to this memory's own owner.

        `progress` is called with the number of rows that are read. If the call is cancelled, the sessions
        that are imported by then stay.

        Raises:
            SettingsError: The file has rows of an owner that was not named; nothing is imported.
            ConflictError: A session exists already, or another item with the same id, and `replace` is off.
            StoreError: The file is not an export, is incomplete, or was changed; or the store cannot write.
        """
        await self._ready()
        named = self._named(owner, all_owners)
        if not replace:
            await self._check(read_items(Path(source)), named)
        rows = read_export(Path(source), named.check)
        return await self._import(named.only(_reported(rows, progress) if progress else rows), replace)

    async def import_journal(
        self,
        folder: str | Path,
        *,
        owner: str | None = None,
        all_owners: bool = False,
        replace: bool = False,
    ) -> tuple[dict[str, int], Sequence[str]]:
        """Rebuild sessions from a journal. Returns the number of rows of each kind, and the lines that were
        skipped, each with the reason. `owner` and `all_owners` are as for `import_file`.

        Raises:
            SettingsError: The journal has rows of an owner that was not named; nothing is imported.
            ConflictError: `replace` is off, and another item has the same id: nothing is imported.
                Or a session exists: those before it are imported.
            StoreError: There is no journal.
        """
        await self._ready()
        named = self._named(owner, all_owners)
        problems: list[str] = []
        await self._check(read_journal(Path(folder), lambda _: None), named, replace=replace)
        rows = named.only(read_journal(Path(folder), problems.append))
        return await self._import(rows, replace), problems

    def _named(self, owner: str | None, all_owners: bool) -> _Named:
        if all_owners and owner is not None:
            raise SettingsError("owner", owner, "cannot be named together with all owners")
        if all_owners:
            return _Named(None)
        return _Named(self._owner, refuses=True) if owner is None else _Named(owner)

    async def _check(self, rows: AsyncGenerator[Row], named: _Named, *, replace: bool = False) -> None:
        """Refuse rows of owners that were not named, and items that would overwrite others.

        This is done before anything is written: an in-memory store cannot be read within a transaction that
        writes.
        """
        known: dict[str, dict[str, Item]] = {}
        async with aclosing(rows):
            async for row in rows:
                named.check(row)
                if replace or not isinstance(row, ItemRow) or not named.covers(row):
                    continue
                item = row.item
                if item.owner not in known:
                    there = await self._store.items(item.owner, statuses=ITEM_STATUSES)
                    known[item.owner] = {each.id: each for each in there}
                before = known[item.owner].get(item.id, item)
                if changed(before, uses=item.uses, last_used_at=item.last_used_at) != item:
                    raise ConflictError(
                        f"item {item.id!r} of {item.owner!r} exists already and differs; `replace` "
                        "(--replace) replaces it"
                    )

    async def _import(self, rows: AsyncGenerator[Row], replace: bool) -> dict[str, int]:
        async with aclosing(rows):
            store, parts = self._store, _Parts(rows)
            counts = await store.restore(parts.before_usage(), replace=replace)
            if parts.has_usage:
                # Replaced sessions have been deleted with their usage, so what the store has is the usage of
                # others.
                more = await store.restore(missing_usage(store, parts.from_usage_on()))
                counts = dict(Counter(counts) + Counter(more))
        await self._imported()
        return counts

    async def forgotten(self, *, owner: str | None = None) -> Sequence[ForgetRecord]:
        """Records of who forgot what kind of thing, and when, oldest first: of one owner, or of all. They
        have no names and no content."""
        from onlooker.engine.forgetting import owner_hash, records

        await self._ready()
        of = None if owner is None else owner_hash(owner)
        return [each for each in await records(self._store) if of in (None, each.owner)]

    async def masked(self, *, owner: str | None = None, session: str | None = None) -> dict[str, int]:
        """Count the secrets in the stored messages by kind, of one session, of one owner, or of all. Wherever
        else they would be shown, they are masked as `[secret]`."""
        from onlooker.policy.secrets import find_secrets

        await self._ready()
        found: Counter[str] = Counter()
        async for row in self._store.dump(changed(_scope(owner, session), kinds=frozenset({"message"}))):
            if isinstance(row, MessageRow):
                for text in (row.message.text, *(call.arguments for call in row.message.calls)):
                    found.update(s.kind for s in await asyncio.to_thread(find_secrets, text))
        return dict(found)

    async def back_up(self, target: str | Path) -> None:
        """Copy the store to a new file while it is in use.

        Raises:
            StoreError: The store is not a file, or the target exists or cannot be written.
        """
        await self._ready()
        await self._store.back_up(Path(target))


async def _reported(rows: AsyncGenerator[Row], progress: Callable[[int], None]) -> AsyncGenerator[Row]:
    """Yield the rows, and report how many there were so far."""
    done = 0
    async with aclosing(rows):
        async for row in rows:
            done += 1
            progress(done)
            yield row


@frozen
class _Named:
    """The owner that an import is for, or all owners. Rows of others are left out or refused."""

    owner: str | None
    refuses: bool = False

    def check(self, row: Row) -> None:
        of = _owner_of(row)
        if self.refuses and of not in (None, self.owner):
            raise SettingsError(
                "owner",
                None,
                f"must be named: some rows belong to {of!r}; import one with `owner` (--owner), or "
                "all with `all_owners` (--all-owners)",
            )

    def covers(self, row: Row) -> bool:
        return self.owner is None or _owner_of(row) == self.owner

    async def only(self, rows: AsyncGenerator[Row]) -> AsyncGenerator[Row]:
        async with aclosing(rows):
            async for row in rows:
                if self.covers(row):
                    yield row


def _owner_of(row: Row) -> str | None:
    match row:
        case ItemRow(item):
            return item.owner
        case UsageRow():
            return row.owner
        case ValueRow():
            return None  # the store's own
        case _:
            return row.session.owner


def _scope(owner: str | None, session: str | None) -> Scope:
    if session is None:
        return Scope(owner=owner)
    return Scope(session=SessionId(DEFAULT_OWNER if owner is None else owner, session))


class _Parts:
    """Splits rows in two: everything before the usage of model calls, which follows all sessions, and the
    rest."""

    def __init__(self, rows: AsyncIterator[Row]) -> None:
        self._rows = rows
        self._first_usage: UsageRow | None = None

    @property
    def has_usage(self) -> bool:
        return self._first_usage is not None

    async def before_usage(self) -> AsyncIterator[Row]:
        async for row in self._rows:
            if isinstance(row, UsageRow):
                self._first_usage = row
                return
            yield row

    async def from_usage_on(self) -> AsyncIterator[Row]:
        if self._first_usage is not None:
            yield self._first_usage
        async for row in self._rows:
            yield row


async def missing_usage(target: Store, rows: AsyncIterator[Row]) -> AsyncIterator[Row]:
    """Yield the rows without the usage that the target already has.

    If the session was deleted since, the target has that usage under its owner only, or under no owner.
    """
    known = KnownUsage()
    async for row in usage_rows(target.dump(Scope(kinds=frozenset({"usage"})))):
        known.add(row)
    renamed: list[UsageRow] = []
    async for row in rows:
        if not isinstance(row, UsageRow):
            yield row
        elif not known.cross_off(row):
            if known.knows(row):
                renamed.append(row)
            else:
                yield row
    # Last, so that exact matches are removed first.
    for row in renamed:
        if not known.cross_off_renamed(row):
            yield row


async def usage_rows(rows: AsyncIterator[Row]) -> AsyncIterator[UsageRow]:
    async for row in rows:
        if isinstance(row, UsageRow):
            yield row
