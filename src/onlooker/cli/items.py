"""`items` and `consolidate`: the items of an owner, across sessions."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from onlooker.cli.corrections import user_name
from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError, View, count, iso, minute
from onlooker.cli.target import DryRun, Target, existing_database, find_owner, open_without_notes
from onlooker.domain.errors import NotFoundError, SettingsError
from onlooker.domain.events import Consolidated
from onlooker.domain.items import ITEM_STATUSES, Item
from onlooker.domain.messages import DEFAULT_OWNER
from onlooker.engine.memory import Memory

# ------------------------------------------------------------------------------------ items


class Action(StrEnum):
    """What to do with items."""

    list = "list"
    add = "add"
    forget = "forget"
    pin = "pin"
    unpin = "unpin"
    history = "history"


_DONE = {
    Action.add: "Saved.",
    Action.forget: "Forgotten.",
    Action.pin: "Pinned.",
    Action.unpin: "Unpinned.",
}


class Type(StrEnum):
    """The types of item."""

    knowledge = "knowledge"
    behavior = "behavior"
    event = "event"
    skill = "skill"
    profile = "profile"
    tool = "tool"


async def items(
    screen: Screen,
    target: Target,
    action: Annotated[
        Action, typer.Argument(metavar="[list|add|forget|pin|unpin|history]", help="What to do.")
    ] = Action.list,
    what: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT|ID]", help="For add: the fact; otherwise the id of the item."),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="NAME", help="The owner; optional if there is only one."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include ended and archived items.")] = False,
    type: Annotated[Type, typer.Option("--type", help="For add: the type of the item.")] = Type.knowledge,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="WORD", help="For add: a tag; may be repeated.")
    ] = None,
    supersedes: Annotated[
        str, typer.Option("--supersedes", metavar="ID", help="For add: the item that it replaces.")
    ] = "",
    expires: Annotated[
        datetime | None,
        typer.Option("--expires", metavar="DAY", formats=["%Y-%m-%d"], help="For add: its last day."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List or change what is known about an owner.

    A fact that repeats or contradicts a known one can only replace it (--supersedes). Forgetting archives
    an item, what it replaced and what was derived from it. No prompt shows them again.
    """
    if (action is Action.list) != (what is None):
        needs = "takes no TEXT or ID" if what else "needs TEXT" if action is Action.add else "needs ID"
        raise UsageError(f"items {action.value} {needs}")
    ident = what or ""
    async with target.open() as memory:
        owner = owner or await find_owner(memory, None, default=DEFAULT_OWNER)
        match action:
            case Action.list:
                statuses = ITEM_STATUSES if everything else ITEM_STATUSES[:1]
                found = await memory.items.list(owner, statuses=statuses)
            case Action.add:
                try:
                    item = await memory.items.save(
                        ident,
                        owner=owner,
                        type=type.value,
                        tags=tag or (),
                        supersedes=supersedes,
                        expires_at=_end_of(expires),
                    )
                except SettingsError as error:
                    raise UsageError(_refusal(error)) from error
                found = [item]
            case Action.forget:
                found = await _none_if_missing(memory.items.forget(ident, owner=owner, by=user_name()))
            case Action.history:
                found = await _none_if_missing(memory.items.history(ident, owner=owner))
            case Action.pin | Action.unpin:
                found = await _pin(memory, ident, owner, on=action is Action.pin)
    if what and not found:
        raise CommandError(f"no item {what!r} of owner {owner!r}; `onlooker items` lists them")
    screen.results([_item_view(i) for i in found], as_json, _ITEM_COLUMNS, _item_row, empty="No items.")
    if action in _DONE and not as_json:
        screen.say(_DONE[action])


def _refusal(error: SettingsError) -> str:
    """Why a fact was not saved. The error names Python's arguments, which are options here."""
    if error.key == "summary":
        return re.sub(r'supersedes="(\S+)"', r"--supersedes \1", error.allowed)
    return f"--{error.key} {error.value}: {error.allowed}"


def _end_of(day: datetime | None) -> datetime | None:
    return None if day is None else datetime.combine(day.date(), time(), UTC) + timedelta(days=1)


async def _none_if_missing(items: Awaitable[Sequence[Item]]) -> Sequence[Item]:
    """Return the items, or none if there is no such item: the command has its own message for that."""
    try:
        return await items
    except NotFoundError:
        return ()


async def _pin(memory: Memory, ident: str, owner: str, *, on: bool) -> Sequence[Item]:
    if all(item.id != ident for item in await memory.items.list(owner)):
        return ()
    await memory.items.pin(ident, owner=owner, on=on)
    return [item for item in await memory.items.list(owner) if item.id == ident]


def _item_view(item: Item) -> View:
    return {
        "id": item.id,
        "owner": item.owner,
        "tier": "cross-session",
        "type": item.type,
        "summary": item.summary,
        "tags": list(item.tags),
        "origin": item.origin,
        "trust": item.trust,
        "status": item.status,
        "pinned": item.pinned,
        "uses": item.uses,
        "created_at": item.made_at.isoformat(),
        "said_at": iso(item.said_at),
        "valid_from": iso(item.valid_from),
        "ended_at": iso(item.ended_at),
        "expires_at": iso(item.expires_at),
        "last_used_at": iso(item.last_used_at),
        "session_key": item.session or None,
        "source_ids": list(item.sources),
        "replaces": list(item.replaces),
        "superseded_by": item.superseded_by or None,
        "derived_from": list(item.derived_from),
    }


_ITEM_COLUMNS = (
    Column("id"),
    Column("type"),
    Column("status"),
    Column("since"),
    Column("uses", right=True),
    Column("fact", text=True),
)


def _item_row(view: View) -> list[str]:
    status = "pinned" if view["pinned"] else view["status"]
    since = minute(view["valid_from"])[:10]
    return [view["id"], view["type"], status, since, f"{view['uses']:,}", view["summary"]]


# ------------------------------------------------------------------------------------ consolidate


async def consolidate(
    screen: Screen,
    target: Target,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Only the daily notes of this owner.")
    ] = None,
    older_than: Annotated[
        float, typer.Option("--older-than", min=0, metavar="DAYS", help="The minimum age of a file.")
    ] = 7,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="The folder; by default `notes_folder`."),
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Turn old daily notes into items and archive their files.

    The reflector chooses the items; if none is configured, the built-in model does. A file is archived after
    its items are saved, and is consolidated only once. The exit code is 1 if a file was skipped.
    """
    settings = target.settings()
    if folder is not None:
        settings = replace(settings, notes_folder=str(folder))
    _check_folder(settings.notes_folder)
    age = timedelta(days=older_than)
    async with open_without_notes(existing_database(target.db), settings, models=True) as memory:
        done = await memory.files.consolidate(owner=owner, older_than=age, dry_run=dry_run)
    columns = (Column("owner"), Column("day"), Column("items", right=True), Column("file", text=True))
    views = [_file_view(one) for one in done]
    screen.results(views, as_json, columns, _file_row, empty="No daily notes are old enough.")
    if done and not as_json:
        verb = "Would consolidate" if dry_run else "Consolidated"
        files = count(sum(not one.problem for one in done), "file")
        screen.say(f"{verb} {files} into {count(sum(len(one.items) for one in done), 'item')}.")
    if any(one.problem for one in done):
        raise typer.Exit(CommandError.exit_code)


def _check_folder(folder: str) -> None:
    if not folder:
        raise UsageError("no folder: set --folder FOLDER or the setting notes_folder")
    if not Path(folder).expanduser().is_dir():
        raise CommandError(f"{folder}: no such folder")


def _file_view(one: Consolidated) -> View:
    return {
        "owner": one.owner,
        "day": one.day.isoformat(),
        "file": one.file,
        "archived": one.archived or None,
        "items": [_item_view(item) for item in one.items],
        "problem": one.problem or None,
    }


def _file_row(view: View) -> list[str]:
    place = f"{view['file']}: {view['problem']}" if view["problem"] else view["archived"] or view["file"]
    return [view["owner"], view["day"], f"{len(view['items']):,}", place]
