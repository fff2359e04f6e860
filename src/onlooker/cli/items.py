"""`items` and `consolidate`: what is known about an owner across sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from onlooker.cli.screen import NOT_THERE, WRONG_USE, Column, Json, Screen, Stop, iso
from onlooker.cli.sessions import minute
from onlooker.cli.settings import ConfigFile
from onlooker.cli.target import DEFAULT_DATABASE, Database, DryRun, chosen_settings, existing, key_for, there
from onlooker.domain.events import Consolidated
from onlooker.domain.items import Item, ItemStatus
from onlooker.domain.messages import DEFAULT_OWNER
from onlooker.engine.memory import Memory
from onlooker.policy.settings import Settings
from onlooker.wiring import open_memory

# How many sessions are looked at to see whose items are meant.
MOST_SESSIONS = 1_000


class Action(StrEnum):
    """What to do with items."""

    list = "list"
    add = "add"
    forget = "forget"
    pin = "pin"
    unpin = "unpin"
    history = "history"


class Type(StrEnum):
    """The types of item, as they are asked for."""

    knowledge = "knowledge"
    behavior = "behavior"
    event = "event"
    skill = "skill"
    profile = "profile"
    tool = "tool"


def items(
    screen: Screen,
    action: Annotated[
        Action,
        typer.Argument(metavar="[list|add|forget|pin|unpin|history]", help="What to do; list them."),
    ] = Action.list,
    what: Annotated[
        str | None, typer.Argument(metavar="[TEXT|ID]", help="For add: the fact; else the item's id.")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="NAME", help="Whose; not needed where there is only one owner."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Ended and archived ones too.")] = False,
    type: Annotated[Type, typer.Option("--type", help="For add: what kind of fact.")] = Type.knowledge,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="WORD", help="For add: a word to find it by.")
    ] = None,
    supersedes: Annotated[
        str, typer.Option("--supersedes", metavar="ID", help="For add: the item whose place it takes.")
    ] = "",
    expires: Annotated[
        datetime | None,
        typer.Option("--expires", metavar="DAY", formats=["%Y-%m-%d"], help="For add: its last day."),
    ] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List what is known about an owner across sessions, or change it.

    Forgetting archives an item with what it replaced and what was made of it; it leaves every prompt.
    """
    _refuse_misuse(action, what)

    async def run() -> Sequence[Item]:
        async with existing(db, chosen_settings(config)) as memory:
            whose = owner or await _only_owner(memory)
            match action:
                case Action.list:
                    return await memory.items.list(whose, statuses=_statuses(everything))
                case Action.add:
                    return [
                        await memory.items.save(
                            what or "",
                            owner=whose,
                            type=type.value,
                            tags=tag or (),
                            supersedes=supersedes,
                            expires_at=_end_of(expires),
                        )
                    ]
                case Action.forget:
                    return _found(await memory.items.forget(what or "", owner=whose), what, whose)
                case Action.history:
                    return _found(await memory.items.history(what or "", owner=whose), what, whose)
                case Action.pin | Action.unpin:
                    return [await _pinned(memory, what or "", whose, on=action is Action.pin)]

    _show_items(screen, action, asyncio.run(run()), as_json)


def _refuse_misuse(action: Action, what: str | None) -> None:
    if (action is Action.list) != (what is None):
        wanted = "TEXT" if action is Action.add else "ID"
        raise Stop(f"items {action.value} {'takes no TEXT or ID' if what else 'needs ' + wanted}", WRONG_USE)


def _statuses(everything: bool) -> tuple[ItemStatus, ...]:
    return ("live", "ended", "archived") if everything else ("live",)


def _end_of(day: datetime | None) -> datetime | None:
    return None if day is None else datetime.combine(day.date(), time(), UTC) + timedelta(days=1)


def _found(found: Sequence[Item], ident: str | None, owner: str) -> Sequence[Item]:
    if not found:
        raise Stop(f"no item {ident!r} of the owner {owner!r}; `onlooker items` lists them", NOT_THERE)
    return found


async def _pinned(memory: Memory, ident: str, owner: str, *, on: bool) -> Item:
    live = _found([i for i in await memory.items.list(owner) if i.id == ident], ident, owner)
    await memory.items.pin(ident, owner=owner, on=on)
    return next((i for i in await memory.items.list(owner) if i.id == ident), live[0])


async def _only_owner(memory: Memory) -> str:
    """The owner of the sessions that there are, where they have one owner."""
    found = await memory.sessions(limit=MOST_SESSIONS)
    owners = sorted({summary.progress.session.owner for summary in found})
    if len(owners) > 1:
        lines = ["several owners; say which:", *(f"  --owner {quote(name)}" for name in owners[:20])]
        raise Stop("\n".join(lines), WRONG_USE)
    return owners[0] if owners else DEFAULT_OWNER


# ------------------------------------------------------------------------------------ shown


def _show_items(screen: Screen, action: Action, found: Sequence[Item], as_json: bool) -> None:
    if as_json:
        screen.json([item_view(item) for item in found])
        return
    if not found:
        screen.say("No items.")
        return
    screen.table(_ITEM_COLUMNS, [_item_row(item) for item in found])
    done = {
        Action.add: "Saved.",
        Action.forget: "Forgotten.",
        Action.pin: "Pinned.",
        Action.unpin: "Unpinned.",
    }
    if action in done:
        screen.say(done[action])


_ITEM_COLUMNS = (
    Column("id"),
    Column("type"),
    Column("status"),
    Column("since"),
    Column("uses", right=True),
    Column("fact", text=True),
)


def _item_row(item: Item) -> list[str]:
    status = "pinned" if item.pinned else item.status
    return [item.id, item.type, status, minute(iso(item.valid_from))[:10], f"{item.uses:,}", item.summary]


def item_view(item: Item) -> dict[str, Any]:
    """An item as `--json` prints it."""
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


# ------------------------------------------------------------------------------------ consolidate


def consolidate(
    screen: Screen,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Whose daily notes; everybody's.")
    ] = None,
    older_than: Annotated[
        float, typer.Option("--older-than", min=0, metavar="DAYS", help="How old a day must be.")
    ] = 7,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="The folder; `notes_folder`.")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    dry_run: DryRun = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Make items of old daily notes, and archive their files.

    A file is archived after its items are kept, and counts once. The reflector chooses, or the built-in
    model where none is configured. The exit code is 1 where a file had to be left alone.
    """
    settings = chosen_settings(config)
    if folder is not None:
        settings = replace(settings, notes_folder=str(folder))
    if not settings.notes_folder:
        raise Stop("no folder: name one with --folder FOLDER, or set notes_folder", WRONG_USE)
    if not Path(settings.notes_folder).expanduser().is_dir():
        raise Stop(f"{settings.notes_folder}: no such folder", NOT_THERE)
    done = asyncio.run(_consolidate(db, settings, owner, timedelta(days=older_than), dry_run))
    _show_files(screen, done, dry_run, as_json)
    if any(one.problem for one in done):
        raise typer.Exit(NOT_THERE)


async def _consolidate(
    db: str, settings: Settings, owner: str | None, older_than: timedelta, dry_run: bool
) -> Sequence[Consolidated]:
    place = there(db)
    # Nothing else that is due is done along with it, but the reflector is the one of the settings.
    still = replace(settings, enabled=False, embedder="")
    async with open_memory(place, settings=still, key=key_for(place)) as memory:
        return await memory.files.consolidate(owner=owner, older_than=older_than, dry_run=dry_run)


def _show_files(screen: Screen, done: Sequence[Consolidated], dry_run: bool, as_json: bool) -> None:
    if as_json:
        screen.json([_file_view(one) for one in done])
        return
    if not done:
        screen.say("No daily notes that old.")
        return
    columns = (Column("owner"), Column("day"), Column("items", right=True), Column("file", text=True))
    screen.table(columns, [_file_row(one) for one in done])
    kept, items = sum(not one.problem for one in done), sum(len(one.items) for one in done)
    verb = "Would consolidate" if dry_run else "Consolidated"
    screen.say(f"{verb} {kept:,} files into {items:,} items.")


def _file_row(one: Consolidated) -> list[str]:
    where = f"{one.file}: {one.problem}" if one.problem else one.archived or one.file
    return [one.owner, one.day.isoformat(), f"{len(one.items):,}", where]


def _file_view(one: Consolidated) -> dict[str, Any]:
    return {
        "owner": one.owner,
        "day": one.day.isoformat(),
        "file": one.file,
        "archived": one.archived or None,
        "items": [item_view(item) for item in one.items],
        "problem": one.problem or None,
    }
