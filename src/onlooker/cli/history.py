"""`history` and `diff`: what became of a note, and what a note made of others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.listing import minute
from onlooker.cli.naming import NoteId, find_note, no_note
from onlooker.cli.opening import chosen_settings, existing
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Column, Screen


def history(
    screen: Screen,
    note: NoteId,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show what became of a note: its texts, who wrote them and when, and its status over time."""
    found = asyncio.run(_history(db, config, (session, owner), note))
    if as_json:
        screen.json(found)
        return
    columns = [Column("version", right=True), Column("at"), Column("by"), Column("text", text=True)]
    rows = [[str(v["version"]), minute(v["at"]), v["by"] or "-", v["content"]] for v in found["versions"]]
    screen.table(columns, rows)
    steps = [f"{s['status']} since {minute(s['at'])}" for s in found["statuses"]]
    steps += [f"made into {ident}" for ident in found["made_into"]]
    if steps:
        screen.say("; ".join(steps) + ".")


async def _history(
    db: str, config: Path | None, wanted: tuple[str | None, str | None], ident: str
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, _ = await find_note(memory, ident, *wanted)
        found = await session.history(ident)
        return {
            "id": ident,
            "session_key": session.key,
            "owner": session.owner,
            "versions": [
                {
                    "version": v.number,
                    "at": v.at.isoformat(),
                    "by": v.by,
                    "content": v.text,
                    "token_count": v.tokens,
                }
                for v in found.versions
            ],
            "statuses": [{"at": at.isoformat(), "status": status} for at, status in found.statuses],
            "made_into": list(found.made_into),
        }


def diff(
    screen: Screen,
    note: NoteId,
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="A note to compare it with.")] = None,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show what a note kept, dropped and added: a reflection against what it was made from, an edited
    note against its text before, or one note against another."""
    found = asyncio.run(_diff(db, config, (session, owner), note, other))
    if as_json:
        screen.json(found)
        return
    if found["patch"]:
        screen.text(found["patch"])
    kept, dropped, added = (len(found[name]) for name in ("kept", "dropped", "added"))
    screen.say(f"{kept} lines kept, {dropped} dropped, {added} added.")


async def _diff(
    db: str, config: Path | None, wanted: tuple[str | None, str | None], ident: str, other: str | None
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, note = await find_note(memory, ident, *wanted)
        try:
            found = await session.diff(ident, other)
        except KeyError as error:
            raise no_note(error.args[0]) from None
        before = ident if other else "what it was made from" if note.generation else "before"
        return {
            "id": ident,
            "other": other,
            "session_key": session.key,
            "owner": session.owner,
            "kept": list(found.kept),
            "dropped": list(found.dropped),
            "added": list(found.added),
            "patch": found.unified(before, other or ident),
        }
