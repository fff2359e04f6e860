"""Migration: copy everything from one store into another of any kind, and compare the two.

A migration stores no progress: the target shows how far it is. A session is copied whole or not at all. A
session that the target already has is compared and skipped, or copied again if it has grown in the source. So
a migration can be stopped at any time and started again.

    migrate         open both sides, copy or preview, and report
    Comparison      which sessions are missing, older or different in the target
    StoreMigration  copy sessions, then items, usage and values; verify; index
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from onlooker.domain.errors import SettingsError, StoreError
from onlooker.domain.frozen import frozen
from onlooker.domain.history import (
    EVERYTHING,
    ChangeRow,
    ItemRow,
    MessageRow,
    Row,
    RowKind,
    Scope,
    SessionRow,
    UsageRow,
    kind_of,
    session_of,
)
from onlooker.domain.items import ITEM_STATUSES, Item
from onlooker.domain.messages import SessionId
from onlooker.engine.indexing import GraphIndex
from onlooker.engine.storage import missing_usage, usage_rows
from onlooker.policy.rows import digest_of, pages, to_line
from onlooker.ports import Reading, Store
from onlooker.stores.urls import file_of, is_file, is_postgres, make_store

if TYPE_CHECKING:
    from onlooker.stores.sqlite.key import Key

# A URL or file as `open_memory` takes it, or a store that is open.
Location = str | Path | Store

# comparing: a dry run; copying: sessions, and after the last of them the rest of the store; verifying: both
# sides are read again and compared; indexing: what was copied is made searchable.
MigrationPhase = Literal["comparing", "copying", "verifying", "indexing"]


@frozen
class MigrationProgress:
    """How many of the sessions a migration has processed."""

    phase: MigrationPhase
    done: int
    total: int


@frozen
class RefusedSession:
    """A session that was not changed in the target, and why."""

    session: SessionId
    why: str


@frozen
class MigrationReport:
    """What a migration did, or would do.

    `sessions` is how many the source has. Each of them was `copied`; `updated`, if the target had an earlier
    state of it; already the `same`; or `refused`.
    """

    source: str
    target: str
    sessions: int
    copied: int = 0
    updated: int = 0
    same: int = 0
    refused: tuple[RefusedSession, ...] = ()
    others: int = 0  # sessions that only the target has; they are not changed
    kept_items: int = 0  # items that were used or changed in the target; they are not changed
    forgotten_items: int = 0  # items deleted from the target because the source no longer has them
    rows: Mapping[str, int] = field(default_factory=dict[str, int])  # verified on both sides, by kind
    changed: bool = False  # the source changed meanwhile; migrate again to copy what is new
    dry_run: bool = False

    @property
    def complete(self) -> bool:
        """Whether the target has everything that the source had when the migration began."""
        return not self.refused and not self.dry_run


@frozen
class MigrateOptions:
    """Whether to replace sessions that differ in the target, about how many sessions to compare at a time,
    and a callback for the progress."""

    replace: bool = False
    batch: int = 500
    progress: Callable[[MigrationProgress], None] | None = None

    def scopes(self, sessions: int) -> list[Scope]:
        """Pages that are small enough to compare at once."""
        return [Scope(kinds=_OF_SESSION, between=edges) for edges in pages(sessions, self.batch)]

    def report(self, phase: MigrationPhase, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(MigrationProgress(phase, done, total))


async def migrate(
    src: Location,
    dst: Location,
    *,
    key: Key | str | bytes | None = None,
    new_key: Key | str | bytes | None = None,
    dry_run: bool = False,
    replace: bool = False,
    index: bool = True,
    batch: int = 500,
    progress: Callable[[MigrationProgress], None] | None = None,
) -> MigrationReport:
    """Copy everything from one store into another of any kind, and compare the two.

    It can be stopped at any time; started again, it continues. A session that has grown in `src` is copied
    again. One that is different in `dst` is refused, and named in the report.

    Args:
        src: What `open_memory` takes. It is only read, in one snapshot.
        dst: The same; it is created if missing.
        key: The key of `src`, if that is an encrypted file.
        new_key: The key of `dst`, if that is an encrypted file or is to become one.
        dry_run: Only report what would be done: nothing is written or created.
        replace: Replace sessions that are different in `dst`.
        index: Index what was copied now, not at the first search.
        batch: About how many sessions are compared at a time.
        progress: Called with the progress.

    Raises:
        StoreError: A side cannot be read or written, or `dst` does not hold what was copied.
    """
    if batch < 1:
        raise SettingsError("batch", batch, "must be 1 or more")
    _refuse_same(src, dst)
    options = MigrateOptions(replace, batch, progress)
    source, target = _reading(src, key), _reading(dst, new_key)
    try:
        if not await source.open():
            raise StoreError(f"{source.name}: nothing is stored there")
        if dry_run:
            return await preview(source, target if await target.open() else None, target.name, options)
        async with _opened(dst, new_key) as store:
            there = (await target.mark())[0] if await target.open() else 0
            await target.close()
            report = await StoreMigration(source, store, target.name, options).run(there=there, index=index)
        return dataclasses.replace(report, changed=await _has_changed(source, _reading(src, key)))
    finally:
        await source.close()
        await target.close()


async def preview(
    source: Reading, target: Reading | None, name: str, options: MigrateOptions
) -> MigrationReport:
    """What a migration would do; nothing is written. `target` is None if it does not exist yet."""
    comparison = Comparison(source, target.rows if target else _nothing, options.replace)
    total = (await source.mark())[0]
    there = (await target.mark())[0] if target else 0
    copied = updated = 0
    for scope in options.scopes(total + there):
        new, older = await comparison.page(scope)
        copied, updated = copied + len(new), updated + len(older)
        options.report("comparing", copied + updated + comparison.same + len(comparison.refused), total)
    found = (copied, updated, comparison.same, comparison.refused_sessions, comparison.others)
    return MigrationReport(source.name, name, total, *found, dry_run=True)


async def _nothing(scope: Scope) -> AsyncIterator[Row]:
    for row in ():
        yield row


# ------------------------------------------------------------------------------------ both sides


def _refuse_same(src: Location, dst: Location) -> None:
    same = src is dst or str(src) == str(dst)
    if is_file(src) and is_file(dst):
        files = file_of(src).resolve(), file_of(dst).resolve()
        # A hard link names the same file: opened under both names, it would have two logs.
        same = files[0] == files[1] or (all(f.exists() for f in files) and files[0].samefile(files[1]))
    if same:
        raise SettingsError("dst", str(dst).split("@")[-1], "must be a different store than the source")


def _reading(location: Location, key: Key | str | bytes | None) -> Reading:
    store = make_store(location, key)  # raises if that cannot be a store
    if store is location:
        return StoreReading(store)
    if str(location) == ":memory:":
        raise SettingsError("location", ":memory:", "must be a file: :memory: keeps nothing")
    if is_postgres(location):
        from onlooker.stores.postgres.connection import address
        from onlooker.stores.postgres.database import PostgresSnapshot

        return PostgresSnapshot(address(str(location)))
    from onlooker.stores.sqlite.connection import SqliteSnapshot
    from onlooker.stores.sqlite.key import key_of

    return SqliteSnapshot(file_of(location), key_of(key))


@asynccontextmanager
async def _opened(location: Location, key: Key | str | bytes | None) -> AsyncGenerator[Store]:
    """Open the store for the length of a block; one that was passed in stays open."""
    store = make_store(location, key)
    if store is location:
        yield store
        return
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _has_changed(before: Reading, now: Reading) -> bool:
    try:
        return not await now.open() or await now.mark() != await before.mark()
    finally:
        await now.close()


class StoreReading:
    """`Reading` of a store that is open. It reads whatever the store holds at the time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def name(self) -> str:
        return type(self._store).__name__

    async def open(self) -> bool:
        return True

    async def close(self) -> None:
        pass

    async def mark(self) -> tuple[int, ...]:
        found = [summary.progress for summary in await self._store.sessions()]
        return len(found), sum(p.last_seq for p in found), sum(p.prompt_version for p in found)

    def rows(self, scope: Scope = EVERYTHING) -> AsyncIterator[Row]:
        return self._store.dump(scope)


# ------------------------------------------------------------------------------------ comparing

_SESSION: frozenset[RowKind] = frozenset({"session"})
_OF_SESSION: frozenset[RowKind] = frozenset({"session", "message", "note", "extraction", "version", "change"})
_ITEMS: frozenset[RowKind] = frozenset({"item"})
_USAGE: frozenset[RowKind] = frozenset({"usage"})
_VALUES: frozenset[RowKind] = frozenset({"value"})


class Comparison:
    """Which sessions of the source are missing in the target, older there, the same, or different."""

    def __init__(
        self, source: Reading, target_rows: Callable[[Scope], AsyncIterator[Row]], replace: bool
    ) -> None:
        self._source = source
        self._target_rows = target_rows
        self._replace = replace
        self.same = 0
        self.others = 0
        self.refused: dict[SessionId, str] = {}

    @property
    def refused_sessions(self) -> tuple[RefusedSession, ...]:
        return tuple(RefusedSession(session, why) for session, why in self.refused.items())

    async def page(self, scope: Scope) -> tuple[set[SessionId], set[SessionId]]:
        """Sessions that the target does not have, and those of which it has an earlier state."""
        theirs = {d.session: d async for d in _session_digests(self._target_rows(scope), with_items=False)}
        new: set[SessionId] = set()
        if not theirs:  # nothing to compare with: the source's content need not be read
            tops = self._source.rows(replace(scope, kinds=_SESSION))
            return {row.session async for row in tops if isinstance(row, SessionRow)}, new
        differing: list[SessionId] = []
        async for ours in _session_digests(self._source.rows(scope), with_items=False):
            other = theirs.pop(ours.session, None)
            if other is None:
                new.add(ours.session)
            elif ours.difference(other):
                differing.append(ours.session)
            else:
                self.same += 1
        self.others += len(theirs)
        for session in differing:
            if not self._replace and (why := await self._refusal(session)):
                self.refused[session] = why
        return new, {session for session in differing if session not in self.refused}

    async def _refusal(self, session: SessionId) -> str:
        scope = Scope(between=(session.sid, session.sid))
        ours = await _content(self._source.rows(scope))
        theirs = await _content(self._target_rows(scope))
        return theirs.refuses(ours)


class SessionDigest:
    """A session as one hash over the lines of its export, and how many rows of each kind it has.

    Which items it shows can be compared only once the items are copied: `with_items` says whether to.
    """

    def __init__(self, session: SessionId, *, with_items: bool) -> None:
        self.session = session
        self.counts: Counter[str] = Counter()
        self._with_items = with_items
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, row: Row) -> None:
        self.counts[kind_of(row)] += 1
        if isinstance(row, SessionRow):
            # A store continues the revisions of an earlier session with the same key.
            items = row.shown_items if self._with_items else None
            row = replace(row, progress=replace(row.progress, revision=0), shown_items=items)
        self._hash.update(to_line(row).encode() + b"\n")

    def difference(self, other: SessionDigest | None) -> str:
        """What differs in the other one; empty if nothing does."""
        if other is None:
            return "it is missing"
        if self.counts != other.counts:
            kinds = sorted(k for k in self.counts | other.counts if self.counts[k] != other.counts[k])
            return ", ".join(f"{other.counts[k]} of {self.counts[k]} {k} rows" for k in kinds)
        return (
            "" if self._hash.digest() == other._hash.digest() else "as many rows, but with different content"
        )


async def _session_digests(rows: AsyncIterator[Row], *, with_items: bool) -> AsyncIterator[SessionDigest]:
    current: SessionDigest | None = None
    async for row in rows:
        session = session_of(row)
        if session is None:
            continue
        if current is not None and current.session != session:
            yield current
            current = None
        current = current or SessionDigest(session, with_items=with_items)
        current.add(row)
    if current is not None:
        yield current


class SessionContent:
    """The content that distinguishes an earlier state of a session from a different session."""

    def __init__(self) -> None:
        self._top: SessionRow | None = None
        self._messages: dict[str, bytes] = {}
        self._live: dict[int, str] = {}
        self._changes: dict[int, bytes] = {}

    def add(self, row: Row) -> None:
        match row:
            case SessionRow():
                self._top = row
            case MessageRow(_, message, place, summary) if not summary:
                self._messages[message.id] = digest_of(replace(row, place="live"))
                if place == "live":
                    self._live[message.seq] = message.id
            case ChangeRow():
                self._changes[row.change.number] = digest_of(row)
            case _:
                pass

    def refuses(self, ours: SessionContent) -> str:
        """Why `ours` must not replace this one; empty if this one is an earlier state of it.

        What `ours` no longer has was deleted there: by a person, by retention or by compaction.
        """
        if self._is_ahead_of(ours):
            return "it was used in the target, or deleted in the source and started again"
        for ident, digest in self._messages.items():
            if ours._messages.get(ident, digest) != digest:
                return f"message {ident!r} is different in the target"
        if any(number in ours._changes and ours._changes[number] != c for number, c in self._changes.items()):
            return "its notes were changed in the target"
        for seq, ident in self._live.items():
            if ident not in ours._messages and ours._live.get(seq, ident) != ident:
                return f"message {ident!r} is in the target but not in the source"
        common = self._messages.keys() & ours._messages.keys() or self._changes.keys() & ours._changes.keys()
        if self._messages and not common:
            return "it is a different conversation in the target"
        return ""

    def _is_ahead_of(self, ours: SessionContent) -> bool:
        if self._top is None or ours._top is None:
            return False
        return any(a > b for a, b in zip(_marks(self._top), _marks(ours._top), strict=True))


def _marks(row: SessionRow) -> tuple[float, ...]:
    p = row.progress
    return p.last_seq, p.prompt_version, p.ended, row.changes, row.used_at.timestamp()


async def _content(rows: AsyncIterator[Row]) -> SessionContent:
    content = SessionContent()
    async for row in rows:
        content.add(row)
    return content


# ------------------------------------------------------------------------------------ migrating

INDEX_BATCH = 500
MAX_NAMED = 20
_NEVER = datetime.min.replace(tzinfo=UTC)


class StoreMigration:
    """One migration from the source into the target."""

    def __init__(self, source: Reading, target: Store, name: str, options: MigrateOptions) -> None:
        self._source = source
        self._target = target
        self._name = name
        self._options = options
        self._comparison = Comparison(source, target.dump, options.replace)
        self._copied = 0
        self._updated = 0
        self._kept_items: set[tuple[str, str]] = set()
        self._forgotten_items = 0
        self._rows: Counter[str] = Counter()

    async def run(self, *, there: int, index: bool) -> MigrationReport:
        """Copy, compare both sides, and index what was copied. The target has `there` sessions already.

        Raises:
            StoreError: A side failed, or the target does not hold what was copied.
        """
        total = (await self._source.mark())[0]
        scopes = self._options.scopes(total + there)
        for scope in scopes:
            await self._copy_page(scope, total)
        await self._forget_items()
        await self._target.restore(self._missing())
        await self._verify(scopes, total)
        if index:
            await self._index(total)
        return MigrationReport(
            self._source.name,
            self._name,
            total,
            self._copied,
            self._updated,
            self._comparison.same,
            self._comparison.refused_sessions,
            self._comparison.others,
            len(self._kept_items),
            self._forgotten_items,
            dict(self._rows),
        )

    # -- sessions

    async def _copy_page(self, scope: Scope, total: int) -> None:
        comparison = self._comparison
        new, older = await comparison.page(scope)
        if new:
            await self._target.restore(self._only(new, scope))
        if older:
            await self._target.restore(self._only(older, scope), update=True)
        self._copied += len(new)
        self._updated += len(older)
        done = self._copied + self._updated + comparison.same + len(comparison.refused)
        self._options.report("copying", done, total)

    async def _only(self, wanted: set[SessionId], scope: Scope) -> AsyncIterator[Row]:
        async for row in self._source.rows(scope):
            if session_of(row) in wanted:
                yield row

    # -- items, usage and values

    async def _forget_items(self) -> None:
        """Delete items that were forgotten in the source: the target has them, made from a session that both
        have, and the source does not. An item without sources may have been saved in the target."""
        items = Scope(kinds=_ITEMS)
        ours = {(r.item.owner, r.item.id) async for r in self._source.rows(items) if isinstance(r, ItemRow)}
        gone: defaultdict[str, list[str]] = defaultdict(list)
        async for row in self._target.dump(items):
            if not isinstance(row, ItemRow) or not row.item.sources:
                continue
            owner, ident = row.item.owner, row.item.id
            if (owner, ident) not in ours and await self._is_copied(SessionId(owner, row.item.session)):
                gone[owner].append(ident)
        for owner, ids in gone.items():
            self._forgotten_items += await self._target.delete_items(owner, ids)

    async def _is_copied(self, session: SessionId) -> bool:
        """Whether the source has the session, and it was not refused."""
        if session in self._comparison.refused:
            return False
        scope = Scope(kinds=_SESSION, between=(session.sid, session.sid))
        return bool([row async for row in self._source.rows(scope)])

    async def _missing(self) -> AsyncIterator[Row]:
        """Items, usage and values that the target does not have, or has in an earlier state."""
        async for row in self._missing_items():
            yield row
        async for row in self._missing_usage():
            yield row
        async for row in self._source.rows(Scope(kinds=_VALUES)):
            # A target with other sessions keeps its values.
            if not self._comparison.others and not self._comparison.refused:
                yield row

    async def _missing_items(self) -> AsyncIterator[Row]:
        async for owner, items in _by_owner(self._source.rows(Scope(kinds=_ITEMS))):
            theirs = {item.id: item for item in await self._target.items(owner, statuses=ITEM_STATUSES)}
            for item in items:
                if SessionId(owner, item.session) in self._comparison.refused:
                    continue
                there = theirs.get(item.id)
                if there is not None and not self._options.replace and is_ahead_of(there, item):
                    self._kept_items.add((owner, item.id))
                elif there != item:
                    yield ItemRow(item)

    async def _missing_usage(self) -> AsyncIterator[Row]:
        usage = usage_rows(self._source.rows(Scope(kinds=_USAGE)))
        ours = (row async for row in usage if _session_of_usage(row) not in self._comparison.refused)
        async for row in missing_usage(self._target, ours):
            yield row

    # -- verifying

    async def _verify(self, scopes: list[Scope], total: int) -> None:
        """Read both sides again, and compare."""
        wrong: list[str] = []
        done = len(self._comparison.refused)
        for scope in scopes:
            copies = _session_digests(self._target.dump(scope), with_items=True)
            theirs = {digest.session: digest async for digest in copies}
            async for ours in _session_digests(self._source.rows(scope), with_items=True):
                if ours.session in self._comparison.refused:
                    continue
                if why := ours.difference(theirs.get(ours.session)):
                    wrong.append(f"session {ours.session.key!r} of {ours.session.owner!r}: {why}")
                self._rows.update(ours.counts)
                done += 1
            self._options.report("verifying", done, total)
        missing = Counter([kind_of(row) async for row in self._missing()])
        for kind, name in (("item", "items"), ("usage", "usage")):
            if missing[kind]:
                wrong.append(f"{name}: {missing[kind]} missing or different")
        if doubled := await self._doubled_usage():
            wrong.append(f"usage: {doubled} stored more than once")
        if wrong:
            raise self._not_the_same(wrong)
        await self._count_rest()

    async def _doubled_usage(self) -> int:
        scope = Scope(kinds=_USAGE)
        known = Counter([digest_of(row) async for row in self._target.dump(scope)])
        known.subtract([digest_of(row) async for row in self._source.rows(scope)])
        return len([None async for row in self._source.rows(scope) if known[digest_of(row)] > 0])

    async def _count_rest(self) -> None:
        for kinds in (_ITEMS, _USAGE):
            self._rows.update([kind_of(row) async for row in self._source.rows(Scope(kinds=kinds))])

    def _not_the_same(self, wrong: list[str]) -> StoreError:
        named = "\n  ".join(wrong[:MAX_NAMED])
        more = f"\n  … and {len(wrong) - MAX_NAMED} more" if len(wrong) > MAX_NAMED else ""
        return StoreError(
            f"{self._name} does not hold what {self._source.name} does:\n  {named}{more}\n"
            "Do not use it before it is complete. Run the migration again: nothing is copied twice"
        )

    # -- indexing

    async def _index(self, total: int) -> None:
        """Index what was copied, for search and the graph. The target's embedder makes the vectors later."""
        done = 0
        while behind := await self._target.unindexed_anywhere(limit=100):
            for session in behind:
                while await self._target.index(session, limit=INDEX_BATCH) >= INDEX_BATCH:
                    pass
            done += len(behind)
            self._options.report("indexing", min(done, total), total)
        graph = GraphIndex(self._target)
        while (missing := await graph.missing(INDEX_BATCH)) and await graph.take(missing):
            pass


async def _by_owner(rows: AsyncIterator[Row]) -> AsyncIterator[tuple[str, list[Item]]]:
    items: list[Item] = []
    async for row in rows:
        if not isinstance(row, ItemRow):
            continue
        if items and items[-1].owner != row.item.owner:
            yield items[-1].owner, items
            items = []
        items.append(row.item)
    if items:
        yield items[-1].owner, items


def _session_of_usage(row: UsageRow) -> SessionId | None:
    return None if row.key is None else SessionId(row.owner, row.key)


def is_ahead_of(there: Item, here: Item) -> bool:
    """Whether an item was used, ended or archived there but not here."""
    return (
        there.uses > here.uses
        or (there.last_used_at or _NEVER) > (here.last_used_at or _NEVER)
        or ITEM_STATUSES.index(there.status) > ITEM_STATUSES.index(here.status)
    )
