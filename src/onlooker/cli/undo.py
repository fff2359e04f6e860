"""`undo`: a reflection gives way to the notes that it was made from."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.naming import DryRun, Yes, find_note
from onlooker.cli.opening import chosen_settings, existing, find
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Screen
from onlooker.cli.surface import NOT_THERE, Stop
from onlooker.domain.notes import Note
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session


def undo(
    screen: Screen,
    note: Annotated[
        str | None, typer.Argument(metavar="[NOTE]", help="The reflection's id; the last one.")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Undo a reflection: the notes that it was made from are shown again.

    It is refused where there is no room for them, since they would be condensed again at once.
    """
    done = asyncio.run(_undo(screen, db, config, (session, owner), note, dry_run, yes))
    if as_json:
        screen.json(done)
    elif done["undone"] or dry_run:
        verb = "Would undo" if dry_run else "Undid"
        screen.say(f"{verb} {done['id']}: {len(done['notes'])} notes are shown again.")
    if not done["undone"] and not dry_run:
        raise Stop("nothing was undone", NOT_THERE)


async def _undo(
    screen: Screen,
    db: str,
    config: Path | None,
    wanted: tuple[str | None, str | None],
    ident: str | None,
    dry_run: bool,
    yes: bool,
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, note = await _reflection(memory, ident, wanted)
        view: dict[str, Any] = {
            "id": note.id,
            "session_key": session.key,
            "owner": session.owner,
            "generation": note.generation,
            "notes": list(note.sources),
        }
        question = f"This undoes {note.id}, made from {len(note.sources)} notes.\nUndo?"
        if dry_run or not (yes or screen.confirm(question)):
            return view | {"undone": False}
        try:
            back = await session.undo(note.id)
        except KeyError:
            raise Stop(f"note {note.id!r} is no reflection that is shown", NOT_THERE) from None
        return view | {"notes": [n.id for n in back], "undone": True}


async def _reflection(
    memory: Memory, ident: str | None, wanted: tuple[str | None, str | None]
) -> tuple[Session, Note]:
    if ident is not None:
        return await find_note(memory, ident, *wanted)
    session, _ = await find(memory, *wanted)
    reflections = await session.notes(kind="reflection")
    if not reflections:
        raise Stop(f"session {session.key!r} has no reflection", NOT_THERE)
    return session, max(reflections, key=lambda n: n.made_at)
