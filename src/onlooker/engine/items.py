"""Items as people, agents and sessions use them: saved, found, forgotten, and chosen for a prompt."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from onlooker.domain.errors import ConflictError, OnlookerError, SettingsError
from onlooker.domain.events import Event, ItemsForgotten, ItemsMade
from onlooker.domain.items import Item, ItemChange, ItemStatus, ItemType, Origin
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Progress, State
from onlooker.engine.worker import note_id
from onlooker.policy.items.choose import remembers
from onlooker.policy.settings import Settings
from onlooker.ports import Clock, Store

if TYPE_CHECKING:
    from onlooker.policy.items.choose import RankedItem

log = logging.getLogger("onlooker")

# The most of an owner's items that are looked at together: pinned ones, and those used last.
MOST_ITEMS = 2_000
EVERY: tuple[ItemStatus, ...] = ("live", "ended", "archived")


@dataclass(frozen=True, slots=True)
class Items:
    """The items of one memory."""

    store: Store
    settings: Settings
    count: Callable[[str], int]
    clock: Clock
    emit: Callable[[Event], None]

    # -- by hand

    async def save(
        self,
        owner: str,
        summary: str,
        *,
        type: ItemType = "knowledge",
        tags: Sequence[str] = (),
        origin: Origin = "user",
        supersedes: str = "",
        expires_at: datetime | None = None,
        pinned: bool = False,
        session: str = "",
    ) -> Item:
        """Keep a fact, in the place of another where one is named.

        Raises:
            SettingsError: It is too short or too long to be one, or there is no live item to supersede.
        """
        from onlooker.policy.items.extract import tags_of
        from onlooker.policy.items.statements import kind_of
        from onlooker.policy.items.tools import check_words
        from onlooker.policy.values import mask

        summary = re.sub(r"\s+", " ", summary).strip()
        if refusal := check_words(summary):
            raise SettingsError("summary", summary[:80], refusal.advice)
        if supersedes:
            await self._live(owner, supersedes)
        now = self.clock.now()
        item = Item(
            owner=owner,
            id=note_id("itm", now),
            type=type,
            summary=mask(summary),
            made_at=now,
            tags=tuple(dict.fromkeys((*tags, *tags_of(summary, kind_of(summary))))),
            origin=origin,
            said_at=now,
            valid_from=now,
            expires_at=expires_at,
            pinned=pinned,
            session=session,
            replaces=(supersedes,) if supersedes else (),
        )
        ending = ((supersedes, item.id),) if supersedes else ()
        try:
            await self.store.change_items(ItemChange(owner, now, (item,), ending))
        except ConflictError as error:
            raise SettingsError("supersedes", supersedes, "must be an item that still holds") from error
        self.emit(ItemsMade(owner, (item,), session))
        return item

    async def _live(self, owner: str, ident: str) -> Item:
        found = await self.store.items(owner, ids=[ident])
        if not found:
            raise SettingsError("supersedes", ident, f"must be an item of {owner!r} that still holds")
        return found[0]

    async def forget(self, owner: str, ident: str) -> Sequence[Item]:
        """Put an item out of sight, with what it replaced and what was made of it; empty where there is
        none."""
        from onlooker.policy.items.choose import cascade

        everything = await self.store.items(owner, statuses=EVERY)
        going = [item.id for item in cascade(everything, ident)]
        gone = await self.store.archive_items(owner, going, now=self.clock.now()) if going else ()
        if gone:
            self.emit(ItemsForgotten(owner, tuple(gone)))
        return gone

    async def history(self, owner: str, ident: str) -> Sequence[Item]:
        """The item with what it replaced and what replaced it, oldest first."""
        from onlooker.policy.items.choose import history

        return history(await self.store.items(owner, statuses=EVERY), ident)

    # -- found

    async def search(self, owner: str, query: str, *, limit: int) -> Sequence[RankedItem]:
        """The items that answer a query best. Being found counts as a use."""
        from onlooker.policy.items.choose import ranked

        now = self.clock.now()
        live = [item for item in await self.store.items(owner, limit=MOST_ITEMS) if item.holds(now)]
        found = ranked(live, query, now)[: max(0, limit)]
        if found:
            used = tuple(f.item.id for f in found)
            await self.store.change_items(ItemChange(owner, now, use=used))
        return found

    # -- in a prompt

    async def shown(self, state: State, budget: int) -> State:
        """The state with the items that its session shows, chosen now where that was not done before.

        A failure is logged: the turn goes on without items, and the next one tries again.
        """
        session = state.progress.session
        if not remembers(self.settings, session.owner):
            return replace(state, items=())
        if state.items is not None:
            return state
        try:
            return await self._choose(state, budget, anew=False)
        except OnlookerError as error:
            log.warning("%s: no items chosen now: %s", session.key, error)
            return state

    async def refresh(self, state: State, budget: int) -> State:
        """The state with items chosen anew."""
        if not remembers(self.settings, state.progress.session.owner):
            return state
        return await self._choose(state, budget, anew=True)

    async def choice(self, session: SessionId, budget: int) -> Sequence[Item]:
        """What the session would show if it were chosen now."""
        from onlooker.policy.items.choose import chosen
        from onlooker.policy.settings import limits

        items = await self.store.items(session.owner, limit=MOST_ITEMS)
        most = limits(self.settings, budget).cross_session_limit
        return chosen(items, session, most, self.clock.now(), self.count)

    async def _choose(self, state: State, budget: int, *, anew: bool) -> State:
        session = state.progress.session
        items = await self.choice(session, budget)
        # Asking for a context of a session that does not exist does not make one, unless it has to.
        if not items and state == State(Progress(session)):
            return replace(state, items=())
        ids = [item.id for item in items]
        await self.store.show_items(session, ids, now=self.clock.now(), anew=anew)
        return await self.store.load(session) or state
