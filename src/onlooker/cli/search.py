"""`search`: what was said and noted about something."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.listing import minute
from onlooker.cli.opening import chosen_settings, existing
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner
from onlooker.cli.screen import Column, Screen
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.cli.views import iso
from onlooker.domain.search import Hit
from onlooker.engine.memory import Memory

# How many sessions are looked at for whose they are, where no owner is named.
MOST_SESSIONS = 10_000


class Kind(StrEnum):
    """What is looked for."""

    message = "message"
    note = "note"


Query = Annotated[str, typer.Argument(metavar="QUERY", help="Words, in any language.")]
Session = Annotated[str | None, typer.Option("--session", "-s", metavar="KEY", help="Only in this session.")]
Kinds = Annotated[list[Kind] | None, typer.Option("--kind", help="Only these; may be given twice.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="The most hits.")]


def search(
    screen: Screen,
    query: Query,
    db: Database = DEFAULT_DATABASE,
    session: Session = None,
    owner: Owner = None,
    kind: Kinds = None,
    after: Annotated[str | None, typer.Option("--after", metavar="TIME", help="Said then or later.")] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="TIME", help="Said before then.")] = None,
    limit: Limit = 10,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Find what was said and noted about something, best first.

    In all sessions of the owner, who need not be named where there is only one. `onlooker recall` shows a
    hit in full.
    """
    times = _time("--after", after), _time("--before", before)
    hits = asyncio.run(_search(db, config, query, (session, owner), kind, times, limit))
    if as_json:
        screen.json([hit_view(hit) for hit in hits])
    elif not hits:
        screen.say("Nothing found.")
    else:
        screen.table(_COLUMNS, [_row(hit) for hit in hits])


async def _search(
    db: str,
    config: Path | None,
    query: str,
    where: tuple[str | None, str | None],
    kinds: list[Kind] | None,
    times: tuple[datetime | None, datetime | None],
    limit: int,
) -> list[Hit]:
    async with existing(db, chosen_settings(config), by_meaning=True) as memory:
        session, owner = where
        found = await memory.search(
            query,
            owner=await _owner(memory, session, owner),
            session=session,
            kinds=[k.value for k in kinds or Kind],
            limit=limit,
            after=times[0],
            before=times[1],
        )
        return list(found)


async def _owner(memory: Memory, session: str | None, owner: str | None) -> str:
    """Whose sessions are meant: the owner named, or the only one there is."""
    if owner is not None and session is None:
        return owner
    there = await memory.sessions(owner=owner, key=session, limit=MOST_SESSIONS)
    owners = sorted({summary.progress.session.owner for summary in there})
    if not owners:
        raise Stop("no session" if session is None else f"no session {session!r}", NOT_THERE)
    if len(owners) > 1:
        names = ", ".join(owners[:20])
        raise Stop(f"several owners; say whose sessions with --owner NAME: {names}", WRONG_USE)
    return owners[0]


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Stop(f"{option} {text}: not a time such as 2026-02-16 or 2026-02-16T14:00", WRONG_USE) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def hit_view(hit: Hit) -> dict[str, Any]:
    """A hit as `--json` prints it."""
    return {
        "kind": hit.kind,
        "session_key": hit.session.key,
        "owner": hit.session.owner,
        "id": hit.id,
        "seq": hit.seq,
        "at": iso(hit.at),
        "speaker": hit.speaker,
        "score": round(hit.score, 6),
        "snippet": hit.snippet,
        "content": hit.text,
    }


_COLUMNS = (Column("session"), Column("what"), Column("at"), Column("text", text=True))


def _row(hit: Hit) -> list[str]:
    what = str(hit.seq) if hit.kind == "message" else hit.id
    said = f"{hit.speaker}: {hit.snippet}" if hit.speaker else hit.snippet
    return [hit.session.key, what, minute(iso(hit.at)), " ".join(said.split())]
