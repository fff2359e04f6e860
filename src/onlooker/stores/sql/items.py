"""Items: adding, ending, archiving, and which of them a session shows. All inside a transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from onlooker.domain.errors import ConflictError, NotFoundError
from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import SessionId
from onlooker.stores.sql import sessions
from onlooker.stores.sql.database import (
    Database,
    instant,
    item_values,
    limit_of,
    pack,
    pack_ids,
    sid_of,
    to_item,
)


def read(
    db: Database,
    owner: str,
    *,
    statuses: Sequence[ItemStatus] = ("live",),
    ids: Sequence[str] | None = None,
    limit: int | None = None,
) -> Sequence[Item]:
    wanted: dict[str, Any] = {"owner": pack(owner), "statuses": json.dumps(list(statuses))}
    if ids is None:
        rows = db.run("items", **wanted, limit=limit_of(limit))
    else:
        rows = db.run("items_by_id", **wanted, ids=pack_ids(ids), limit=limit_of(limit))
    return [to_item(row) for row in rows]


def change(db: Database, change: ItemChange) -> None:
    db.lock_owner(change.owner)
    if mark := change.mark:
        ended = db.run(
            "mark_ended",
            sid=sid_of(mark.session),
            expected_seq=mark.expected,
            up_to=mark.up_to,
            revision=mark.revision,
        )
        if not ended.rowcount:
            raise ConflictError(
                f"session {mark.session.key!r} was ended by another worker, changed, or deleted"
            )
    owner, at = pack(change.owner), change.at.isoformat()
    for ident, by in change.end:
        if not db.run("end_item", owner=owner, at=at, id=pack(ident), by=pack(by)).rowcount:
            raise ConflictError(f"item {ident!r} is no longer live")
    db.run_many("add_item", [item_values(change.owner, item) for item in change.add])
    used: dict[str, Any] = {"owner": owner, "at": at, "instant": instant(change.at)}
    db.run_many("use_item", [used | {"id": pack(ident)} for ident in change.use])


def archive(db: Database, owner: str, ids: Sequence[str], *, now: datetime) -> Sequence[Item]:
    db.lock_owner(owner)
    archived: list[str] = []
    for ident in dict.fromkeys(ids):
        where = {"owner": pack(owner), "id": pack(ident)}
        if db.run("archive_item", at=now.isoformat(), **where).rowcount:
            archived.append(ident)
            _hide(db, **where)
    found = {item.id: item for item in read(db, owner, statuses=("archived",), ids=archived)}
    return [found[ident] for ident in archived]


def delete(db: Database, owner: str, ids: Sequence[str] | None = None) -> int:
    db.lock_owner(owner)
    packed = pack(owner)
    wanted = [row[0] for row in db.run("item_ids", owner=packed)] if ids is None else map(pack, ids)
    return sum(_delete(db, packed, ident) for ident in dict.fromkeys(wanted))


def delete_of_session(db: Database, sid: bytes) -> None:
    """Delete the items made in a session, wherever they are shown, and what it shows itself."""
    for owner, ident in db.run("items_made_in", sid=sid).fetchall():
        _delete(db, owner, ident)
    db.run("hide_items_of_session", sid=sid)


def _delete(db: Database, owner: str, ident: str) -> int:
    deleted = db.run("delete_item", owner=owner, id=ident).rowcount
    if deleted:
        _hide(db, owner, ident)
        for row in db.run("items_naming", owner=owner, id=ident).fetchall():
            _unlink(db, row, ident)
    return deleted


def _unlink(db: Database, row: Any, ident: str) -> None:
    by = "" if row["superseded_by"] == ident else row["superseded_by"]
    lists = {
        column: json.dumps([i for i in json.loads(row[column]) if i != ident], ensure_ascii=False)
        for column in ("replaces", "derived_from")
    }
    db.run("relink_item", owner=row["owner"], id=row["id"], superseded_by=by, **lists)


def _hide(db: Database, owner: str, id: str) -> None:
    """Remove an item from every prompt that shows it."""
    for (sid,) in db.run("sessions_showing", owner=owner, id=id).fetchall():
        db.run("bump_prompt_version", sid=sid)
    db.run("hide_item", owner=owner, id=id)


def pin(db: Database, owner: str, item: str, *, on: bool) -> None:
    if not db.run("pin_item", owner=pack(owner), id=pack(item), pinned=int(on)).rowcount:
        raise NotFoundError("item", item)


def show(
    db: Database, session: SessionId, ids: Sequence[str], *, now: datetime, replacing: bool = False
) -> None:
    db.lock_owner(session.owner)
    stored = sessions.find_or_create(db, session, now)
    sid, before = stored.sid, sessions.shown_items(db, stored)
    if before is not None and not replacing:
        return
    sessions.show_items(db, stored, ids)
    after = sessions.shown_items(db, replace(stored, items_chosen=True)) or ()
    if [item.id for item in before or ()] != [item.id for item in after]:
        db.run("bump_prompt_version", sid=sid)
