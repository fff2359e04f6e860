"""Items: adding, ending, archiving, and which of them a session shows. All inside a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from onlooker.domain.errors import ConflictError
from onlooker.domain.items import Item, ItemChange, ItemStatus
from onlooker.domain.messages import SessionId
from onlooker.stores.sqlite.rows import ids_json, instant, pack, sid_of, to_session, unpack
from onlooker.stores.sqlite.statements import sql

NO_LIMIT = -1


def read(
    db: sqlite3.Connection,
    owner: str,
    statuses: Sequence[ItemStatus],
    ids: Sequence[str] | None,
    limit: int | None,
) -> Sequence[Item]:
    values = {
        "owner": pack(owner),
        "statuses": json.dumps(list(statuses)),
        "ids": None if ids is None else ids_json(ids),
        "limit": NO_LIMIT if limit is None else max(limit, 0),
    }
    return [to_item(row) for row in db.execute(sql("items"), values)]


def change(db: sqlite3.Connection, change: ItemChange) -> None:
    if mark := change.mark:
        values = {
            "sid": sid_of(mark.session),
            "expected": mark.expected,
            "up_to": mark.up_to,
            "revision": mark.revision,
        }
        if not db.execute(sql("mark_ended"), values).rowcount:
            raise ConflictError(
                f"session {mark.session.key!r} was ended by another worker, changed, or deleted"
            )
    where = {"owner": pack(change.owner), "at": change.at.isoformat(), "instant": instant(change.at)}
    for ident, by in change.end:
        if not db.execute(sql("end_item"), where | {"id": pack(ident), "by": pack(by)}).rowcount:
            raise ConflictError(f"item {ident!r} is no longer live")
    db.executemany(sql("add_item"), [item_row(change.owner, item) for item in change.add])
    db.executemany(sql("use_item"), [where | {"id": pack(ident)} for ident in change.use])


def archive(db: sqlite3.Connection, owner: str, ids: Sequence[str], now: datetime) -> Sequence[Item]:
    gone: list[str] = []
    for ident in dict.fromkeys(ids):
        values = {"owner": pack(owner), "id": pack(ident), "at": now.isoformat()}
        if db.execute(sql("archive_item"), values).rowcount:
            gone.append(ident)
            _hide(db, pack(owner), pack(ident))
    found = {item.id: item for item in read(db, owner, ("archived",), gone, None)}
    return [found[ident] for ident in gone]


def delete(db: sqlite3.Connection, owner: str, ids: Sequence[str] | None) -> int:
    packed = pack(owner)
    wanted = [row[0] for row in db.execute(sql("item_ids"), (packed,))] if ids is None else map(pack, ids)
    return sum(_delete(db, packed, ident) for ident in dict.fromkeys(wanted))


def delete_of_session(db: sqlite3.Connection, sid: bytes) -> None:
    """What was made in a session goes with it, wherever it is shown."""
    for owner, ident in db.execute(sql("items_made_in"), (sid,)).fetchall():
        _delete(db, owner, ident)
    db.execute(sql("hide_items_of_session"), (sid,))


def _delete(db: sqlite3.Connection, owner: str, ident: str) -> int:
    gone = db.execute(sql("delete_item"), (owner, ident)).rowcount
    if gone:
        _hide(db, owner, ident)
        for row in db.execute(sql("items_naming"), {"owner": owner, "id": ident}).fetchall():
            _unlink(db, row, ident)
    return gone


def _unlink(db: sqlite3.Connection, row: sqlite3.Row, ident: str) -> None:
    by = "" if row["superseded_by"] == ident else row["superseded_by"]
    links = [[i for i in json.loads(row[column]) if i != ident] for column in ("replaces", "derived_from")]
    replaces, derived = (json.dumps(ids, ensure_ascii=False) for ids in links)
    db.execute(sql("relink_item"), (by, replaces, derived, row["owner"], row["id"]))


def _hide(db: sqlite3.Connection, owner: str, ident: str) -> None:
    """Take it out of every prompt that shows it."""
    for (sid,) in db.execute(sql("sessions_showing"), (owner, ident)).fetchall():
        db.execute(sql("grow_epoch"), (sid,))
    db.execute(sql("hide_item"), (owner, ident))


def pin(db: sqlite3.Connection, owner: str, ident: str, on: bool) -> None:
    if not db.execute(sql("pin_item"), (int(on), pack(owner), pack(ident))).rowcount:
        raise KeyError(ident)


# ------------------------------------------------------------------------------------ sessions


def shown(db: sqlite3.Connection, sid: bytes) -> tuple[Item, ...] | None:
    """What the session shows; None while that was not chosen."""
    if not db.execute(sql("items_chosen"), (sid,)).fetchone()[0]:
        return None
    return tuple(to_item(row) for row in db.execute(sql("shown_items"), (sid,)))


def show(db: sqlite3.Connection, session: SessionId, ids: Sequence[str], anew: bool) -> None:
    """Keep what a session that is there shows."""
    sid = sid_of(session)
    before = shown(db, sid)
    if before is not None and not anew:
        return
    db.execute(sql("hide_items_of_session"), (sid,))
    places = enumerate(dict.fromkeys(ids))
    owner = pack(session.owner)
    db.executemany(sql("show_item"), [(sid, place, owner, pack(ident)) for place, ident in places])
    db.execute(sql("set_items_chosen"), (sid,))
    after = shown(db, sid) or ()
    if [item.id for item in before or ()] != [item.id for item in after]:
        db.execute(sql("grow_epoch"), (sid,))


def idle(db: sqlite3.Connection, before: datetime, limit: int) -> Sequence[SessionId]:
    return [to_session(row) for row in db.execute(sql("idle"), (instant(before), max(limit, 0)))]


# ------------------------------------------------------------------------------------ rows


def item_row(owner: str, item: Item) -> tuple[Any, ...]:
    """The parameters of `add_item`. An item belongs to whoever's change it is in."""
    item = replace(item, owner=owner)
    return (
        pack(item.owner),
        pack(item.id),
        item.status,
        int(item.pinned),
        item.uses,
        instant(item.last_used_at or item.made_at),
        item.type,
        item.origin,
        item.made_at.isoformat(),
        _text(item.said_at),
        _text(item.valid_from),
        _text(item.ended_at),
        _text(item.expires_at),
        _text(item.last_used_at),
        pack(item.superseded_by),
        sid_of(SessionId(item.owner, item.session)) if item.session else b"",
        pack(item.session),
        ids_json(item.tags),
        ids_json(item.sources),
        ids_json(item.replaces),
        ids_json(item.derived_from),
        pack(item.summary),
    )


def to_item(row: sqlite3.Row) -> Item:
    return Item(
        owner=unpack(row["owner"]),
        id=unpack(row["id"]),
        type=row["type"],
        summary=unpack(row["summary"]),
        made_at=datetime.fromisoformat(row["made_at"]),
        tags=_texts(row["tags"]),
        origin=row["origin"],
        said_at=_time(row["said_at"]),
        valid_from=_time(row["valid_from"]),
        ended_at=_time(row["ended_at"]),
        superseded_by=unpack(row["superseded_by"]),
        expires_at=_time(row["expires_at"]),
        uses=row["uses"],
        last_used_at=_time(row["last_used_at"]),
        pinned=bool(row["pinned"]),
        session=unpack(row["session"]),
        sources=_texts(row["sources"]),
        replaces=_texts(row["replaces"]),
        derived_from=_texts(row["derived_from"]),
        status=row["status"],
    )


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _time(at: str | None) -> datetime | None:
    return None if at is None else datetime.fromisoformat(at)


def _texts(values: str) -> tuple[str, ...]:
    return tuple(unpack(value) for value in json.loads(values))
