"""`consolidate`: old daily notes become items, and their files are archived."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.items import item_view
from onlooker.cli.keys import key_for
from onlooker.cli.naming import DryRun
from onlooker.cli.opening import chosen_settings, there
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json
from onlooker.cli.screen import Column, Screen
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.files import Consolidated
from onlooker.policy.settings import Settings
from onlooker.wiring import open_memory


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
    done = asyncio.run(_run(db, settings, owner, timedelta(days=older_than), dry_run))
    _show(screen, done, dry_run, as_json)
    if any(one.problem for one in done):
        raise typer.Exit(NOT_THERE)


async def _run(
    db: str, settings: Settings, owner: str | None, older_than: timedelta, dry_run: bool
) -> Sequence[Consolidated]:
    place = there(db)
    # Nothing else that is due is done along with it, but the reflector is the one of the settings.
    still = replace(settings, enabled=False, embedder="")
    async with open_memory(place, settings=still, key=key_for(place)) as memory:
        return await memory.consolidate(owner=owner, older_than=older_than, dry_run=dry_run)


def _show(screen: Screen, done: Sequence[Consolidated], dry_run: bool, as_json: bool) -> None:
    if as_json:
        screen.json([_view(one) for one in done])
        return
    if not done:
        screen.say("No daily notes that old.")
        return
    columns = (Column("owner"), Column("day"), Column("items", right=True), Column("file", text=True))
    screen.table(columns, [_row(one) for one in done])
    kept, items = sum(not one.problem for one in done), sum(len(one.items) for one in done)
    verb = "Would consolidate" if dry_run else "Consolidated"
    screen.say(f"{verb} {kept:,} files into {items:,} items.")


def _row(one: Consolidated) -> list[str]:
    where = f"{one.file}: {one.problem}" if one.problem else one.archived or one.file
    return [one.owner, one.day.isoformat(), f"{len(one.items):,}", where]


def _view(one: Consolidated) -> dict[str, Any]:
    return {
        "owner": one.owner,
        "day": one.day.isoformat(),
        "file": one.file,
        "archived": one.archived or None,
        "items": [item_view(item) for item in one.items],
        "problem": one.problem or None,
    }
