"""`extracted`: values of users' own types, with where they came from."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.listing import minute
from onlooker.cli.opening import chosen_settings, existing, find
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Column, Screen
from onlooker.cli.views import extraction_view


def extracted(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="NAME", help="Only values of this type.")
    ] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List what was filled in of your own types, oldest first.

    Each with the note it was written with and the messages that it came from.
    """
    found = asyncio.run(_extracted(db, config, session, owner, type))
    if as_json:
        screen.json(found)
    elif not found:
        screen.say("Nothing extracted.")
    else:
        screen.table(_COLUMNS, [_row(view) for view in found])


async def _extracted(
    db: str, config: Path | None, key: str | None, owner: str | None, type: str | None
) -> list[dict[str, Any]]:
    async with existing(db, chosen_settings(config)) as memory:
        session, _ = await find(memory, key, owner)
        return [extraction_view(extraction) for extraction in await session.extractions(type)]


_COLUMNS = (
    Column("type"),
    Column("said at"),
    Column("messages"),
    Column("note"),
    Column("value", text=True),
)


def _row(view: dict[str, Any]) -> list[str]:
    return [
        view["type"],
        minute(view["said_at"]),
        ", ".join(map(str, view["source_seqs"])),
        view["note_id"],
        json.dumps(view["value"], ensure_ascii=False),
    ]
