"""Items: facts about an owner that outlive a session. `Items` saves and finds them, `ShownItems` chooses
those that a prompt shows."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from onlooker.domain.errors import ConflictError, NotFoundError, OnlookerError, SettingsError
from onlooker.domain.events import Event, ItemPinned, ItemsForgotten, ItemsMade
from onlooker.domain.frozen import frozen
from onlooker.domain.history import ForgetRecord
from onlooker.domain.items import (
    ITEM_STATUSES,
    ITEM_TYPES,
    TRUST,
    Item,
    ItemChange,
    ItemStatus,
    ItemType,
    Origin,
)
from onlooker.domain.messages import SessionId, new_id
from onlooker.domain.notes import Progress, State
from onlooker.policy.settings import Settings
from onlooker.ports import Clock, Store

if TYPE_CHECKING:
    from onlooker.policy.items.choose import RankedItem

log = logging.getLogger("onlooker")

# How many of an owner's items are read: pinned ones first, then the last used.
MAX_ITEMS = 2_000


class Items:
    """The items of a memory; `memory.items`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        emit: Callable[[Event], None],
        ready: Callable[[], Awaitable[None]],
        own_owner: str,
    ) -> None:
        self._store = store
        self._own_owner = own_owner  # the owner if a call names none
        self._clock = clock
        self._emit = emit
        self._ready = ready

    async def list(
        self, owner: str | None = None, *, statuses: Sequence[ItemStatus] = ("live",)
    ) -> Sequence[Item]:
        """An owner's items, pinned ones first, then the last used.

        Expired items count as live; `Item.holds` tells them apart.
        """
        await self._ready()
        owner = self._own_owner if owner is None else owner
        return await self._store.items(owner, statuses=statuses)

    async def save(
        self,
        summary: str,
        *,
        owner: str | None = None,
        type: ItemType = "knowledge",
        tags: Sequence[str] = (),
        origin: Origin = "user",
        supersedes: str = "",
        expires_at: datetime | None = None,
        pinned: bool = False,
        session: str = "",
        sources: Sequence[str] = (),
    ) -> Item:
        """Save a fact: one sentence that can be understood alone.

        `supersedes` is the id of the item that it replaces, which stays in its history; it is needed for a
        fact that repeats or contradicts another. `session` is the key of the session in which an agent saved
        it, and `sources` the ids of the messages there that it comes from: it is forgotten with them.

        Raises:
            SettingsError: The summary is too short or too long, another item says the same or the opposite,
                or there is no live item to supersede.
        """
        from onlooker.policy.items.extract import tags_of
        from onlooker.policy.items.statements import kind_of
        from onlooker.policy.items.tools import check_known, check_words
        from onlooker.policy.secrets import mask

        if type not in ITEM_TYPES:
            raise SettingsError("type", type, f"must be one of {', '.join(ITEM_TYPES)}")
        if origin not in TRUST:
            raise SettingsError("origin", origin, f"must be one of {', '.join(TRUST)}")
        await self._ready()
        owner = self._own_owner if owner is None else owner
        summary = mask(re.sub(r"\s+", " ", summary).strip())
        if refusal := check_words(summary):
            raise SettingsError("summary", summary[:80], refusal.advice)
        if supersedes and not await self._store.items(owner, ids=[supersedes]):
            raise SettingsError("supersedes", supersedes, f"must be a live item of {owner!r}")
        now = self._clock.now()
        live = [item for item in await self._store.items(owner, limit=MAX_ITEMS) if item.holds(now)]
        if refusal := await asyncio.to_thread(check_known, summary, live, supersedes):
            raise SettingsError("summary", summary[:80], refusal.advice)
        item = Item(
            owner=owner,
            id=new_id("itm", now),
            type=type,
            summary=summary,
            made_at=now,
            tags=tuple(dict.fromkeys((*map(mask, tags), *tags_of(summary, kind_of(summary))))),
            origin=origin,
            said_at=now,
            valid_from=now,
            expires_at=expires_at,
            pinned=pinned,
            session=session,
            sources=tuple(sources),
            replaces=(supersedes,) if supersedes else (),
        )
        ending = ((supersedes, item.id),) if supersedes else ()
        try:
            await self._store.change_items(ItemChange(owner, now, (item,), ending))
        except ConflictError as error:
            raise SettingsError("supersedes", supersedes, "must be a live item") from error
        self._emit(ItemsMade(owner, (item,), session))
        return item

    async def forget(self, item: str, *, owner: str | None = None, by: str = "") -> Sequence[Item]:
        """Archive an item by id, with those it replaced and those made from it. It leaves every prompt at
        once. Returns what was archived. `by` names who asked for it; `memory.storage.forgotten` lists that.

        Raises:
            NotFoundError: The owner has no such item, or it was forgotten before.
        """
        await self._ready()
        owner = self._own_owner if owner is None else owner
        gone = await self.archive(owner, item)
        if not gone:
            raise NotFoundError("item", item)
        from onlooker.engine.forgetting import owner_hash, record

        now = self._clock.now()
        await record(self._store, ForgetRecord(now, by, "items", len(gone), owner_hash(owner), ""))
        return gone

    async def archive(self, owner: str, item: str) -> Sequence[Item]:
        """Like `forget`, but also works while the memory is closing."""
        from onlooker.policy.items.choose import cascade

        everything = await self._store.items(owner, statuses=ITEM_STATUSES)
        going = [each.id for each in cascade(everything, item)]
        gone = await self._store.archive_items(owner, going, now=self._clock.now()) if going else ()
        if gone:
            self._emit(ItemsForgotten(owner, tuple(gone)))
        return gone

    async def pin(self, item: str, *, owner: str | None = None, on: bool = True) -> None:
        """Show an item first in every new session; `on=False` unpins it.

        Raises:
            NotFoundError: The owner has no live item with that id.
        """
        await self._ready()
        owner = self._own_owner if owner is None else owner
        await self._store.pin_item(owner, item, on=on)
        self._emit(ItemPinned(owner, item, on))

    async def history(self, item: str, *, owner: str | None = None) -> Sequence[Item]:
        """An item with those it replaced and those that replaced it, oldest first.

        Raises:
            NotFoundError: The owner has no such item.
        """
        from onlooker.policy.items.choose import item_history

        await self._ready()
        owner = self._own_owner if owner is None else owner
        found = item_history(await self._store.items(owner, statuses=ITEM_STATUSES), item)
        if not found:
            raise NotFoundError("item", item)
        return found

    async def search(self, query: str, *, owner: str | None = None, limit: int = 20) -> Sequence[RankedItem]:
        """The items that match a query, best first. Being found counts as a use."""
        from onlooker.policy.items.choose import rank_items

        await self._ready()
        owner = self._own_owner if owner is None else owner
        now = self._clock.now()
        live = [item for item in await self._store.items(owner, limit=MAX_ITEMS) if item.holds(now)]
        found = rank_items(live, query, now)[: max(0, limit)]
        if found:
            used = tuple(f.item.id for f in found)
            await self._store.change_items(ItemChange(owner, now, use=used))
        return found


# ------------------------------------------------------------------------------------ in a prompt


@frozen
class ShownItems:
    """Chooses the items that a session shows: when it begins, and again when its notes change the prompt, so
    that the prompt's prefix never changes only for items."""

    store: Store
    settings: Settings
    count: Callable[[str], int]
    clock: Clock
    # Makes items of the latest messages of the owner's other sessions.
    read_others: Callable[[SessionId], Awaitable[None]] | None = None

    async def choose(self, state: State, budget: int) -> State:
        """Add the items that the session shows from now on.

        A failure is logged: the turn continues with what could be read, and the next one chooses again.
        """
        session, items = state.progress.session, ()
        try:
            if self.read_others:
                await self.read_others(session)
            items = await self.choice(session, budget)
            return await self._show(state, items, replacing=False)
        except OnlookerError as error:
            log.warning("%s: could not choose items: %s", session.key, error)
            return replace(state, items=tuple(items))

    async def choose_replacement(self, state: State, budget: int) -> tuple[Item, ...] | None:
        """The items to show instead of the present ones; None if they are the same. A
        failure is logged."""
        session = state.progress.session
        if not self.settings.shares_items(session.owner):
            return None
        try:
            if self.read_others:
                await self.read_others(session)
            items = tuple(await self.choice(session, budget))
        except OnlookerError as error:
            log.warning("%s: could not choose items: %s", session.key, error)
            return None
        return None if {i.id for i in items} == {i.id for i in state.items or ()} else items

    async def refresh(self, state: State, budget: int) -> State:
        """Choose the items again."""
        if not self.settings.shares_items(state.progress.session.owner):
            return state
        items = await self.choice(state.progress.session, budget)
        return await self._show(state, items, replacing=True)

    async def choice(self, session: SessionId, budget: int) -> Sequence[Item]:
        """The items that a new session would show now."""
        from onlooker.policy.items.choose import choose_items
        from onlooker.policy.settings import limits_for

        items = await self.store.items(session.owner, limit=MAX_ITEMS)
        limit = limits_for(self.settings, budget).cross_session_limit
        return choose_items(items, session, limit, self.clock.now(), self.count)

    async def _show(self, state: State, items: Sequence[Item], *, replacing: bool) -> State:
        session = state.progress.session
        # The context of a session that does not exist does not create it, unless there are items.
        if not items and state == State(Progress(session)):
            return replace(state, items=())
        ids = [item.id for item in items]
        await self.store.show_items(session, ids, now=self.clock.now(), replacing=replacing)
        stored = await self.store.load(session, newest=1)
        return replace(state, items=stored.items) if stored else state
