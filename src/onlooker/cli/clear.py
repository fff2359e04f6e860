"""`clear`: delete notes, or a whole session, after asking."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.listing import Kind
from onlooker.cli.naming import Yes
from onlooker.cli.opening import chosen_settings, existing, find
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Screen
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.notes import LIVE, SessionSummary
from onlooker.engine.session import Session


def clear(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    kind: Annotated[Kind | None, typer.Option("--kind", help="Only notes of this kind.")] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="The whole session, with everything that was said.")
    ] = False,
    yes: Yes = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Delete the notes of a session; the recent messages stay.

    It asks first and says what will go. Anything but yes, the end of input too, means no.
    """
    if messages and kind:
        raise Stop("--messages deletes the whole session: leave out --kind", WRONG_USE)
    done = asyncio.run(_clear(screen, db, config, (session, owner), kind, messages, yes))
    if as_json:
        screen.json(done)
    elif done["cleared"]:
        screen.say("Deleted." if messages or done["note_tokens"] else "There were no notes.")
    if not done["cleared"]:
        raise Stop("nothing was deleted", NOT_THERE)


async def _clear(
    screen: Screen,
    db: str,
    config: Path | None,
    wanted: tuple[str | None, str | None],
    kind: Kind | None,
    messages: bool,
    yes: bool,
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, summary = await find(memory, *wanted)
        going = await _going(session, summary, kind, messages)
        # Only what is in the list is deleted: with no notes there is nothing to ask about.
        agreed = yes or not (messages or going["observations"] or going["reflections"])
        if not agreed:
            agreed = screen.confirm(f"{_sentence(session, going, messages)}\nDelete?")
        if agreed and messages:
            await session.delete()
        elif agreed:
            await session.clear(kind.note if kind else None)
        return going | {"cleared": agreed}


async def _going(
    session: Session, summary: SessionSummary, kind: Kind | None, messages: bool
) -> dict[str, Any]:
    notes = await session.notes(statuses=LIVE, kind=kind.note if kind else None)
    return {
        "session_key": session.key,
        "owner": session.owner,
        "observations": sum(n.kind == "observation" for n in notes),
        "reflections": sum(n.kind == "reflection" for n in notes),
        "note_tokens": sum(n.tokens for n in notes),
        "messages": summary.messages if messages else 0,
        "message_tokens": summary.message_tokens if messages else 0,
    }


def _sentence(session: Session, going: dict[str, Any], messages: bool) -> str:
    notes = (
        f"{going['observations']} observations and {going['reflections']} reflections "
        f"({going['note_tokens']:,} tokens)"
    )
    whose = f"of session {session.key!r} (owner {session.owner!r})"
    if not messages:
        return f"This deletes {notes} {whose}. The recent messages stay."
    said = f"{going['messages']:,} messages ({going['message_tokens']:,} tokens)"
    return f"This deletes {said} and {notes} {whose}: everything, for good."
