"""`search` and `recall`: find what was said, and show it word for word."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.screen import NOT_THERE, WRONG_USE, Column, Json, Screen, Stop, iso
from onlooker.cli.sessions import minute
from onlooker.cli.settings import ConfigFile
from onlooker.cli.target import DEFAULT_DATABASE, Database, Owner, SessionKey, chosen_settings, existing, find
from onlooker.domain.messages import Message
from onlooker.domain.search import Hit
from onlooker.engine.memory import Memory
from onlooker.engine.searching import PAGE
from onlooker.policy.render import text_lines

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
        screen.table(_HIT_COLUMNS, [_hit_row(hit) for hit in hits])


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


_HIT_COLUMNS = (Column("session"), Column("what"), Column("at"), Column("text", text=True))


def _hit_row(hit: Hit) -> list[str]:
    what = str(hit.seq) if hit.kind == "message" else hit.id
    said = f"{hit.speaker}: {hit.snippet}" if hit.speaker else hit.snippet
    return [hit.session.key, what, minute(iso(hit.at)), " ".join(said.split())]


# ------------------------------------------------------------------------------------ recall


Target = Annotated[str, typer.Argument(metavar="NOTE|SEQ", help="A note's id, or a message's number.")]
Neighbours = Annotated[
    int, typer.Option("--neighbours", "-n", min=0, metavar="N", help="Messages before and after.")
]


def recall(
    screen: Screen,
    target: Target,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    neighbours: Neighbours = 0,
    page: Annotated[int, typer.Option("--page", min=1, help=f"Which {PAGE} messages of many.")] = 1,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the messages that a note stands for, word for word, or one message.

    The numbers and ids are those of `onlooker search` and `onlooker list`.
    """
    found = asyncio.run(_recall(db, config, (session, owner), target, neighbours))
    pages = -(-len(found) // PAGE)
    if page > pages:
        raise Stop(f"{target}: there are {pages} pages", NOT_THERE)
    shown = found[(page - 1) * PAGE : page * PAGE]
    if as_json:
        screen.json({"page": page, "pages": pages, "messages": [_message_view(m) for m in shown]})
        return
    screen.text(text_lines(shown))
    if pages > 1:
        screen.say(f"Page {page} of {pages}.")


async def _recall(
    db: str, config: Path | None, wanted: tuple[str | None, str | None], target: str, neighbours: int
) -> list[Message]:
    async with existing(db, chosen_settings(config)) as memory:
        session, _ = await find(memory, *wanted)
        found = await session.recall(int(target) if target.isdecimal() else target, neighbours=neighbours)
        if not found:
            raise Stop(f"no note and no message {target!r} in session {session.key!r}", NOT_THERE)
        return list(found)


def _message_view(message: Message) -> dict[str, Any]:
    return {
        "seq": message.seq,
        "id": message.id,
        "role": message.role,
        "name": message.name,
        "at": iso(message.at),
        "content": message.body,
        "tool_calls": [{"name": c.name, "arguments": c.arguments} for c in message.calls],
    }
