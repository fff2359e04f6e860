"""Finding the note or message that a command names, in whichever session it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from onlooker.cli.opening import find
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.notes import Note, NoteStatus
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session

EVERY: tuple[NoteStatus, ...] = ("buffered", "active", "superseded", "retired")
# How many sessions are looked through for a note when no session is named.
MOST_SESSIONS = 1_000

NoteId = Annotated[str, typer.Argument(metavar="NOTE", help="The note's id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


async def find_note(memory: Memory, note: str, key: str | None, owner: str | None) -> tuple[Session, Note]:
    """The note with that id, in the session named, or in the one that has it."""
    if key is not None:
        session, _ = await find(memory, key, owner)
        candidates = [session]
    else:
        summaries = await memory.sessions(owner=owner, limit=MOST_SESSIONS)
        ids = [summary.progress.session for summary in summaries]
        candidates = [memory.session(s.key, owner=s.owner) for s in ids]
    for session in candidates:
        for found in await session.notes(statuses=EVERY):
            if found.id == note:
                return session, found
    raise no_note(note)


def point(text: str) -> int | datetime:
    """A message's number, or a time; a day means its end."""
    if text.isdecimal():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Stop(
            f"--as-of {text!r}: a message's number, or a time such as 2026-02-16T14:00", WRONG_USE
        ) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at + timedelta(days=1, microseconds=-1) if len(text) <= len("2026-02-16") else at


def no_note(note: str) -> Stop:
    return Stop(f"no note {note!r}: `onlooker list --all` shows them", NOT_THERE)
