"""History, items, and what belongs to the store itself, as fields of a line and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from onlooker.domain.history import Change, Version
from onlooker.domain.history_rows import ChangeRow, ItemRow, RestartRow, UsageRow, ValueRow, VersionRow
from onlooker.domain.items import ITEM_TYPES, TRUST, Item
from onlooker.domain.notes import Usage
from onlooker.policy.lines.fields import (
    Fields,
    iso,
    moment,
    named,
    number,
    one_of,
    session_in,
    text,
    texts,
    time_or_none,
)

# ------------------------------------------------------------------------------------ history


def from_version(row: VersionRow) -> Fields:
    v = row.version
    values = {f.name: getattr(v, f.name) for f in fields(Version)}
    return named("version", row.session) | values | {"at": iso(v.at)}


def to_version(line: Fields) -> VersionRow:
    version = Version(
        note=text(line["note"]),
        number=number(line["number"]),
        change=number(line["change"]),
        text=text(line["text"]),
        tokens=number(line["tokens"]),
        by=text(line["by"]),
        at=moment(line["at"]),
    )
    return VersionRow(session_in(line), version)


def from_change(row: ChangeRow) -> Fields:
    c = row.change
    values = {f.name: getattr(c, f.name) for f in fields(Change)}
    taken = None if c.taken is None else list(c.taken)
    statuses = [list(pair) for pair in c.statuses]
    return named("change", row.session) | values | {"at": iso(c.at), "statuses": statuses, "taken": taken}


def to_change(line: Fields) -> ChangeRow:
    taken = line["taken"]
    statuses = tuple(
        (text(note), one_of(status, "buffered", "active", "superseded", "retired"))
        for note, status in line["statuses"]
    )
    change = Change(
        number=number(line["number"]),
        at=moment(line["at"]),
        last_seq=number(line["last_seq"]),
        frontier=number(line["frontier"]),
        watermark=number(line["watermark"]),
        tail_start=number(line["tail_start"]),
        statuses=statuses,
        taken=None if taken is None else (number(taken[0]), number(taken[1])),
    )
    return ChangeRow(session_in(line), change)


def from_restart(row: RestartRow) -> Fields:
    return named("restart", row.session)


def to_restart(line: Fields) -> RestartRow:
    return RestartRow(session_in(line))


# ------------------------------------------------------------------------------------ items

_ITEM_TIMES = ("said_at", "valid_from", "ended_at", "expires_at", "last_used_at")
_ITEM_LISTS = ("tags", "sources", "replaces", "derived_from")


def from_item(row: ItemRow) -> Fields:
    item = row.item
    values = {f.name: getattr(item, f.name) for f in fields(Item)}
    times = {name: iso(values[name]) for name in ("made_at", *_ITEM_TIMES)}
    lists = {name: list(values[name]) for name in _ITEM_LISTS}
    return {"kind": "item", "tier": "cross-session", **values, **times, **lists}


def to_item(line: Fields) -> ItemRow:
    times: dict[str, Any] = {name: time_or_none(line[name]) for name in _ITEM_TIMES}
    lists: dict[str, Any] = {name: texts(line[name]) for name in _ITEM_LISTS}
    item = Item(
        owner=text(line["owner"]),
        id=text(line["id"]),
        type=one_of(line["type"], *ITEM_TYPES),
        summary=text(line["summary"]),
        made_at=moment(line["made_at"]),
        origin=one_of(line["origin"], *TRUST),
        superseded_by=text(line["superseded_by"]),
        uses=number(line["uses"]),
        pinned=bool(line["pinned"]),
        session=text(line["session"]),
        status=one_of(line["status"], "live", "ended", "archived"),
        **times,
        **lists,
    )
    return ItemRow(item)


# ------------------------------------------------------------------------------------ the store


def from_usage(row: UsageRow) -> Fields:
    values = {f.name: getattr(row.usage, f.name) for f in fields(Usage)}
    return {"kind": "usage", "owner": row.owner, "session": row.key, **values, "at": iso(row.usage.at)}


def to_usage(line: Fields) -> UsageRow:
    usage = Usage(
        model=text(line["model"]),
        purpose=line["purpose"],
        input_tokens=number(line["input_tokens"]),
        output_tokens=number(line["output_tokens"]),
        verdict=text(line["verdict"]),
        at=moment(line["at"]),
        cost=None if line["cost"] is None else float(line["cost"]),
    )
    return UsageRow(text(line["owner"]), None if line["session"] is None else text(line["session"]), usage)


def from_value(row: ValueRow) -> Fields:
    return {"kind": "value", "name": row.name, "value": row.value}


def to_value(line: Fields) -> ValueRow:
    return ValueRow(text(line["name"]), text(line["value"]))
