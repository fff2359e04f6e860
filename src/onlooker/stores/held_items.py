"""Items held in memory, and which of them each session shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from onlooker.domain.errors import ConflictError
from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import SessionId
from onlooker.stores.held import Held

_LATE = datetime.max.replace(tzinfo=UTC)


class HeldItems:
    """All owners' items. Every method checks before it changes anything."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, Item]] = {}
        self._shown: dict[SessionId, tuple[str, ...]] = {}

    def read(
        self, owner: str, statuses: Sequence[ItemStatus], ids: Sequence[str] | None, limit: int | None
    ) -> list[Item]:
        wanted = [
            item
            for item in self._items.get(owner, {}).values()
            if item.status in statuses and (ids is None or item.id in ids)
        ]
        wanted.sort(key=lambda i: (not i.pinned, _LATE - (i.last_used_at or i.made_at), i.id))
        return wanted if limit is None else wanted[: max(limit, 0)]

    def change(self, change: ItemChange, sessions: dict[SessionId, Held]) -> None:
        ending = _ending(change, sessions)
        items = dict(self._items.get(change.owner, {}))
        for ident, by in change.end:
            old = items.get(ident)
            if old is None or old.status != "live":
                raise ConflictError(f"item {ident!r} is no longer live")
            items[ident] = replace(old, status="ended", ended_at=change.at, superseded_by=by)
        for item in change.add:
            if item.id in items:
                raise ConflictError(f"item {item.id!r} is there already")
            items[item.id] = replace(item, owner=change.owner)
        for ident in change.use:
            if item := items.get(ident):
                items[ident] = replace(item, uses=item.uses + 1, last_used_at=change.at)
        self._items[change.owner] = items
        if ending and change.mark:
            ending.progress = replace(ending.progress, ended=change.mark.up_to)

    def archive(
        self, owner: str, ids: Sequence[str], now: datetime, sessions: dict[SessionId, Held]
    ) -> list[Item]:
        items = self._items.get(owner, {})
        gone: list[Item] = []
        for ident in dict.fromkeys(ids):
            if (item := items.get(ident)) and item.status != "archived":
                ended = item.ended_at or now
                items[ident] = replace(item, status="archived", pinned=False, ended_at=ended)
                gone.append(items[ident])
        self._hide(owner, {item.id for item in gone}, sessions)
        return gone

    def delete(self, owner: str, ids: Iterable[str] | None, sessions: dict[SessionId, Held]) -> int:
        items = self._items.get(owner, {})
        gone = set(items if ids is None else ids) & items.keys()
        self._items[owner] = {i: _unlinked(item, gone) for i, item in items.items() if i not in gone}
        self._hide(owner, gone, sessions)
        return len(gone)

    def delete_of_session(self, session: SessionId, sessions: dict[SessionId, Held]) -> None:
        """What was made in a session goes with it, wherever it is shown."""
        items = self._items.get(session.owner, {})
        made = [item.id for item in items.values() if item.session == session.key]
        self.delete(session.owner, made, sessions)
        self._shown.pop(session, None)

    def _hide(self, owner: str, ids: set[str], sessions: dict[SessionId, Held]) -> None:
        """Take them out of every prompt that shows them."""
        for session, shown in self._shown.items():
            if session.owner == owner and ids & set(shown):
                self._shown[session] = tuple(i for i in shown if i not in ids)
                _grow_epoch(sessions[session])

    def pin(self, owner: str, ident: str, on: bool) -> None:
        item = self._items.get(owner, {}).get(ident)
        if item is None or item.status != "live":
            raise KeyError(ident)
        self._items[owner][ident] = replace(item, pinned=on)

    # -- sessions

    def shown(self, session: SessionId) -> tuple[Item, ...] | None:
        ids = self.chosen(session)
        return None if ids is None else tuple(self._items[session.owner][i] for i in ids)

    def show(self, session: SessionId, ids: Sequence[str], anew: bool, held: Held) -> None:
        before = self.chosen(session)
        if before is not None and not anew:
            return
        items = self._items.get(session.owner, {})
        there = (i for i in dict.fromkeys(ids) if i in items and items[i].status != "archived")
        self._shown[session] = tuple(there)
        if (before or ()) != self._shown[session]:
            _grow_epoch(held)

    # -- moving

    def every(self) -> list[Item]:
        """All items of all owners."""
        return [item for items in self._items.values() for item in items.values()]

    def put(self, item: Item) -> None:
        self._items.setdefault(item.owner, {})[item.id] = item

    def chosen(self, session: SessionId) -> tuple[str, ...] | None:
        """What the session shows, by id, as far as it is there; None while that was not chosen."""
        ids, there = self._shown.get(session), self._items.get(session.owner, {})
        return None if ids is None else tuple(i for i in ids if i in there)

    def choose(self, session: SessionId, ids: Iterable[str] | None) -> None:
        """What a session from elsewhere shows. Items come after the sessions that show them."""
        self._shown.pop(session, None)
        if ids is not None:
            self._shown[session] = tuple(ids)


def _ending(change: ItemChange, sessions: dict[SessionId, Held]) -> Held | None:
    """The session that the change ends, if any, as it was when the change was made."""
    mark = change.mark
    if mark is None:
        return None
    held = sessions.get(mark.session)
    if (
        held is None
        or held.progress.ended != mark.expected
        or mark.revision not in (None, held.progress.revision)
    ):
        raise ConflictError(f"session {mark.session.key!r} was ended by another worker, changed, or deleted")
    return held


def _grow_epoch(held: Held) -> None:
    held.progress = replace(held.progress, prompt_version=held.progress.prompt_version + 1)


def _unlinked(item: Item, gone: set[str]) -> Item:
    if item.superseded_by not in gone and not gone & {*item.replaces, *item.derived_from}:
        return item
    return replace(
        item,
        superseded_by="" if item.superseded_by in gone else item.superseded_by,
        replaces=tuple(i for i in item.replaces if i not in gone),
        derived_from=tuple(i for i in item.derived_from if i not in gone),
    )
