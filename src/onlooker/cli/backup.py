"""`backup` and `restore`: the database file as a whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from onlooker.cli.keys import chosen_key
from onlooker.cli.naming import Yes
from onlooker.cli.opening import chosen_settings, database_path, existing
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json
from onlooker.cli.screen import Screen
from onlooker.cli.surface import NOT_THERE, Stop
from onlooker.stores.sqlite.copying import put_back


def backup(
    screen: Screen,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The new file.")],
    db: Database = DEFAULT_DATABASE,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Copy the database to a new file, as it is at one moment, while others use it."""
    asyncio.run(_backup(db, config, target))
    size = target.stat().st_size
    if as_json:
        screen.json({"file": str(target), "bytes": size})
    else:
        screen.say(f"{size:,} bytes in {target}.")


async def _backup(db: str, config: Path | None, target: Path) -> None:
    async with existing(db, chosen_settings(config)) as memory:
        await memory.back_up(target)


def restore(
    screen: Screen,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="What `backup` wrote.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace the database that is there.")] = False,
    db: Database = DEFAULT_DATABASE,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Make the database what a backup holds. Nobody may have it open.

    A database that is there is only replaced with --replace, and after asking.
    """
    path = database_path(db, instead=f"`onlooker migrate {source} postgresql://…` copies a backup into one")
    if replace and path.exists() and not (yes or screen.confirm(f"This replaces {path}.\nReplace?")):
        raise Stop("nothing was restored", NOT_THERE)
    put_back(source, path, replace=replace, key=chosen_key())
    if as_json:
        screen.json({"database": str(path), "source": str(source)})
    else:
        screen.say(f"{path} is what {source} holds.")
