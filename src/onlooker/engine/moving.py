"""Moving: one store into another, session by session, and both compared at the end.

It keeps no record of its own. What the target holds says how far it is: a session comes in whole or not at
all, one that is there already is compared and passed over, and one that went on in the source since is copied
anew. So it can be stopped at any moment, and started again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from onlooker.domain.errors import StoreError
from onlooker.domain.history import (
    EVERYTHING,
    ItemRow,
    Row,
    RowKind,
    Scope,
    SessionRow,
    UsageRow,
    session_of,
)
from onlooker.domain.items import Item, ItemStatus
from onlooker.domain.messages import SessionId
from onlooker.domain.moving import Moved, MovePhase, MoveStep, Refused
from onlooker.engine.meaning import GraphIndex
from onlooker.policy.moving import Calls, Holding, Print, digest_of, pages, session_of_usage, went_on
from onlooker.ports import Reading, Store

TOP: frozenset[RowKind] = frozenset({"session"})
OF_SESSION: frozenset[RowKind] = frozenset({"session", "message", "note", "extraction", "version", "change"})
USAGE: frozenset[RowKind] = frozenset({"usage"})
STATUSES: tuple[ItemStatus, ...] = ("live", "ended", "archived")
INDEX_BATCH = 500
MOST_NAMED = 20

Heard = Callable[[MoveStep], None]


class Comparing:
    """A look at both sides: which sessions are to be copied, and which must not be."""

    def __init__(self, source: Reading, there: Callable[[Scope], AsyncIterator[Row]], replace: bool) -> None:
        self.source = source
        self.there = there
        self._replace = replace
        self.same = 0
        self.others = 0
        self.refused: dict[SessionId, str] = {}

    async def page(self, scope: Scope) -> tuple[set[SessionId], set[SessionId]]:
        """Sessions that are not there, and those that are there as they were before."""
        theirs = {p.session: p async for p in prints(self.there(scope), shown=False)}
        new: set[SessionId] = set()
        if not theirs:  # nothing to compare with, so that the source need not be read for it
            tops = self.source.rows(replace(scope, kinds=TOP))
            return {row.session async for row in tops if isinstance(row, SessionRow)}, new
        differing: list[SessionId] = []
        async for ours in prints(self.source.rows(scope), shown=False):
            other = theirs.pop(ours.session, None)
            if other is None:
                new.add(ours.session)
            elif ours.unlike(other):
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
        ours = await _holding(self.source.rows(scope))
        theirs = await _holding(self.there(scope))
        return theirs.refuses(ours)


@dataclass(frozen=True, slots=True)
class MigrateOptions:
    """How to move.

    Args:
        replace: Sessions that are something else in the target make way.
        batch: About how many sessions are compared at a time.
        heard: Is told how far it is.
    """

    replace: bool = False
    batch: int = 500
    heard: Heard | None = None

    def scopes(self, sessions: int) -> list[Scope]:
        """Pages of both sides, small enough that what they hold of one can be compared."""
        return [Scope(kinds=OF_SESSION, between=edges) for edges in pages(sessions, self.batch)]

    def say(self, phase: MovePhase, done: int, total: int) -> None:
        if self.heard is not None:
            self.heard(MoveStep(phase, done, total))


class Move:
    """One move of everything that the source holds into the target."""

    def __init__(self, source: Reading, target: Store, name: str, manner: MigrateOptions) -> None:
        self._source = source
        self._target = target
        self._name = name
        self._manner = manner
        self._comparing = Comparing(source, target.dump, manner.replace)
        self._copied: Counter[str] = Counter()
        self._kept: set[tuple[str, str]] = set()
        self._forgotten = 0
        self._rows: Counter[str] = Counter()

    async def run(self, *, there: int, index: bool) -> Moved:
        """Copy, compare both sides, and make findable what came. So many sessions are `there` already.

        Raises:
            StoreError: A side failed, or does not hold what was copied; which sessions, and what to do.
        """
        total = (await self._source.mark())[0]
        scopes = self._manner.scopes(total + there)
        for scope in scopes:
            new, renewed = await self._comparing.page(scope)
            if new:
                await self._target.restore(self._only(new, scope))
            if renewed:
                await self._target.restore(self._only(renewed, scope), renew=True)
            self._copied.update(copied=len(new), renewed=len(renewed))
            done = self._copied.total() + self._comparing.same + len(self._comparing.refused)
            self._manner.say("copying", done, total)
        await self._forget_items()
        await self._target.restore(self._lacking())
        await self._verify(scopes, total)
        if index:
            await self._index(total)
        return self._moved(total)

    async def _only(self, wanted: set[SessionId], scope: Scope) -> AsyncIterator[Row]:
        async for row in self._source.rows(scope):
            if session_of(row) in wanted:
                yield row

    def _moved(self, total: int) -> Moved:
        seen = self._comparing
        return Moved(
            self._source.name,
            self._name,
            total,
            self._copied["copied"],
            self._copied["renewed"],
            seen.same,
            tuple(Refused(session, why) for session, why in seen.refused.items()),
            seen.others,
            len(self._kept),
            self._forgotten,
            dict(self._rows),
        )

    # -- what belongs to no session

    async def _forget_items(self) -> None:
        """Take out items that were forgotten in the source: made of what a session says that both sides
        have, and not there. What was saved by hand may have been saved in the target."""
        items = Scope(kinds=frozenset({"item"}))
        ours = {(r.item.owner, r.item.id) async for r in self._source.rows(items) if isinstance(r, ItemRow)}
        gone: defaultdict[str, list[str]] = defaultdict(list)
        async for row in self._target.dump(items):
            if not isinstance(row, ItemRow) or not row.item.sources:
                continue
            owner, ident = row.item.owner, row.item.id
            if (owner, ident) not in ours and await self._is_ours(SessionId(owner, row.item.session)):
                gone[owner].append(ident)
        for owner, ids in gone.items():
            self._forgotten += await self._target.delete_items(owner, ids)

    async def _is_ours(self, session: SessionId) -> bool:
        """Whether the source has the session, and it was not refused."""
        if session in self._comparing.refused:
            return False
        scope = Scope(kinds=TOP, between=(session.sid, session.sid))
        return bool([row async for row in self._source.rows(scope)])

    async def _lacking(self) -> AsyncIterator[Row]:
        """Items, costs and values that the target does not have, or has as they were before."""
        async for row in self._lacking_items():
            yield row
        async for row in self._lacking_usage():
            yield row
        async for row in self._source.rows(Scope(kinds=frozenset({"value"}))):
            # A store that has sessions of its own has its own ways as well.
            if not self._comparing.others and not self._comparing.refused:
                yield row

    async def _lacking_items(self) -> AsyncIterator[Row]:
        async for owner, items in _by_owner(self._source.rows(Scope(kinds=frozenset({"item"})))):
            theirs = {item.id: item for item in await self._target.items(owner, statuses=STATUSES)}
            for item in items:
                if SessionId(owner, item.session) in self._comparing.refused:
                    continue
                there = theirs.get(item.id)
                if there is not None and not self._manner.replace and went_on(there, item):
                    self._kept.add((owner, item.id))
                elif there != item:
                    yield ItemRow(item)

    async def _lacking_usage(self) -> AsyncIterator[Row]:
        calls = _usage(self._source.rows(Scope(kinds=USAGE)))
        ours = (row async for row in calls if session_of_usage(row) not in self._comparing.refused)
        async for row in lacking_calls(self._target, ours):
            yield row

    # -- verifying

    async def _verify(self, scopes: list[Scope], total: int) -> None:
        """Read both sides again, and compare."""
        wrong: list[str] = []
        done = len(self._comparing.refused)
        for scope in scopes:
            theirs = {p.session: p async for p in prints(self._target.dump(scope), shown=True)}
            async for ours in prints(self._source.rows(scope), shown=True):
                if ours.session in self._comparing.refused:
                    continue
                if why := ours.unlike(theirs.get(ours.session)):
                    wrong.append(f"session {ours.session.key!r} of {ours.session.owner!r}: {why}")
                self._rows.update(ours.counts)
                done += 1
            self._manner.say("verifying", done, total)
        lacking = Counter([type(row).__name__ async for row in self._lacking()])
        for kind, name in (("ItemRow", "items"), ("UsageRow", "costs of calls")):
            if lacking[kind]:
                wrong.append(f"{lacking[kind]} {name} are not there, or not the same")
        if doubled := await self._doubled_usage():
            wrong.append(f"{doubled} costs of calls are there more than once")
        if wrong:
            raise self._not_the_same(wrong)
        await self._count_rest()

    async def _doubled_usage(self) -> int:
        scope = Scope(kinds=USAGE)
        known = Counter([digest_of(row) async for row in self._target.dump(scope)])
        known.subtract([digest_of(row) async for row in self._source.rows(scope)])
        return len([None async for row in self._source.rows(scope) if known[digest_of(row)] > 0])

    async def _count_rest(self) -> None:
        for kind in ("item", "usage"):
            rows = self._source.rows(Scope(kinds=frozenset[RowKind]({kind})))
            if count := len([None async for _ in rows]):
                self._rows[kind] = count

    def _not_the_same(self, wrong: list[str]) -> StoreError:
        named = "\n  ".join(wrong[:MOST_NAMED])
        more = f"\n  … and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
        return StoreError(
            f"{self._name} does not hold what {self._source.name} does:\n  {named}{more}\n"
            "Let nobody use it until it is complete, and start again: what is there is not copied twice"
        )

    # -- indexing

    async def _index(self, total: int) -> None:
        """Let the target find what came, and know what notes mention. Vectors are its embedder's to make."""
        done = 0
        while behind := await self._target.behind(limit=100):
            for session in behind:
                while await self._target.index(session, limit=INDEX_BATCH) >= INDEX_BATCH:
                    pass
            done += len(behind)
            self._manner.say("indexing", min(done, total), total)
        graph = GraphIndex(self._target)
        while (missing := await graph.missing(INDEX_BATCH)) and await graph.take(missing):
            pass


async def preview(source: Reading, target: Reading | None, name: str, manner: MigrateOptions) -> Moved:
    """What a move would do; nothing is written. No target: there is none yet."""
    comparing = Comparing(source, target.rows if target else _nothing, manner.replace)
    total = (await source.mark())[0]
    there = (await target.mark())[0] if target else 0
    copied = renewed = 0
    for scope in manner.scopes(total + there):
        new, again = await comparing.page(scope)
        copied, renewed = copied + len(new), renewed + len(again)
        manner.say("comparing", copied + renewed + comparing.same + len(comparing.refused), total)
    refused = tuple(Refused(session, why) for session, why in comparing.refused.items())
    seen = (copied, renewed, comparing.same, refused, comparing.others)
    return Moved(source.name, name, total, *seen, dry_run=True)


async def _nothing(scope: Scope) -> AsyncIterator[Row]:
    for row in ():
        yield row


async def prints(rows: AsyncIterator[Row], *, shown: bool) -> AsyncIterator[Print]:
    """Sessions one after the other, each as its print; with the items that they show, or without."""
    current: Print | None = None
    async for row in rows:
        session = session_of(row)
        if session is None:
            continue
        if current is not None and current.session != session:
            yield current
            current = None
        current = current or Print(session, shown=shown)
        current.add(row)
    if current is not None:
        yield current


async def lacking_calls(target: Store, rows: AsyncIterator[Row]) -> AsyncIterator[Row]:
    """Those of the rows that the target lacks, where they say what a call cost; and all others.

    It may know a call for its owner alone, or for nobody, where the session was deleted since.
    """
    known = Calls()
    async for row in _usage(target.dump(Scope(kinds=USAGE))):
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
    # Last, so that each finds its own first.
    for row in renamed:
        if not known.cross_off_renamed(row):
            yield row


async def _holding(rows: AsyncIterator[Row]) -> Holding:
    holding = Holding()
    async for row in rows:
        holding.add(row)
    return holding


async def _usage(rows: AsyncIterator[Row]) -> AsyncIterator[UsageRow]:
    async for row in rows:
        if isinstance(row, UsageRow):
            yield row


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


class StoreReading:
    """`Reading` of a store that is open, by whatever it says at the time."""

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
