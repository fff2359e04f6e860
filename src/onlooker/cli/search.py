"""`search` and `recall`: find messages and notes, and show messages word for word."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError, View, count, iso, minute
from onlooker.cli.target import SessionTarget, Target, check_owner, find_owner, parse_time
from onlooker.domain.messages import Message
from onlooker.domain.search import Hit
from onlooker.engine.recall import PAGE
from onlooker.policy.render import text_lines


class Kind(StrEnum):
    """What is searched."""

    message = "message"
    note = "note"


async def search(
    screen: Screen,
    target: Target,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words, in any language.")],
    session: Annotated[
        str | None, typer.Option("--session", "-s", metavar="KEY", help="Only in this session.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="NAME", help="The owner; optional if there is only one."),
    ] = None,
    kind: Annotated[
        list[Kind] | None, typer.Option("--kind", help="Only this kind; may be repeated.")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="TIME", help="Only at this time or later.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="TIME", help="Only before this time.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="The maximum number of hits.")
    ] = 10,
    as_json: Json = False,
) -> None:
    """Search messages and notes, best match first.

    All sessions of the owner are searched. `onlooker recall` shows a hit in full. Messages that the host
    took back are marked.
    """
    if not query.strip():
        raise UsageError("QUERY is empty: give the words to search for")
    earliest = parse_time("--after", after) if after else None
    latest = parse_time("--before", before) if before else None
    async with target.open(embedder=True) as memory:
        owner = await find_owner(memory, owner, session)
        await check_owner(memory, owner)
        hits = await memory.search(
            query,
            owner=owner,
            session=session,
            kinds=[k.value for k in kind or Kind],
            limit=limit,
            after=earliest,
            before=latest,
        )
    columns = (Column("session"), Column("id"), Column("at"), Column("text", text=True))
    screen.results([_hit_view(hit) for hit in hits], as_json, columns, _hit_row, empty="Nothing found.")


def _hit_view(hit: Hit) -> View:
    return {
        "kind": hit.kind,
        "session_key": hit.session.key,
        "owner": hit.session.owner,
        "id": hit.id,
        "seq": hit.seq,
        "at": iso(hit.at),
        "speaker": hit.speaker,
        "taken_back": hit.taken_back,
        "why": hit.why,
        "score": round(hit.score, 6),
        "snippet": hit.snippet,
        "content": hit.text,
    }


def _hit_row(view: View) -> list[str]:
    ident = str(view["seq"]) if view["kind"] == "message" else view["id"]
    text = f"{view['speaker']}: {view['snippet']}" if view["speaker"] else view["snippet"]
    mark = "(taken back) " if view["taken_back"] else ""
    if view["why"] != "words":
        mark += "(by meaning) "
    return [view["session_key"], ident, minute(view["at"]), mark + " ".join(text.split())]


async def recall(
    screen: Screen,
    target: SessionTarget,
    ident: Annotated[
        str, typer.Argument(metavar="NOTE|SEQ", help="The id of a note, or the number of a message.")
    ],
    neighbours: Annotated[
        int, typer.Option("--neighbours", "-n", min=0, metavar="N", help="Messages before and after.")
    ] = 0,
    page: Annotated[
        int, typer.Option("--page", min=1, metavar="N", help=f"Which page, of {PAGE} messages each.")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Show the messages that a note covers, or one message.

    `onlooker search` and `onlooker list` print the numbers and ids.
    """
    async with target.open() as memory:
        session, _ = await target.find(memory)
        found = await session.recall(int(ident) if ident.isdecimal() else ident, neighbours=neighbours)
    pages = max(1, -(-len(found) // PAGE))
    if page > pages:
        raise CommandError(f"{ident} has only {count(pages, 'page')}")
    shown = found[(page - 1) * PAGE : page * PAGE]
    if as_json:
        screen.json({"page": page, "pages": pages, "messages": [_message_view(m) for m in shown]})
        return
    screen.text(text_lines(shown))
    if pages > 1:
        screen.say(f"Page {page} of {pages}.")


def _message_view(message: Message) -> View:
    return {
        "seq": message.seq,
        "id": message.id,
        "role": message.role,
        "name": message.name,
        "at": iso(message.at),
        "content": message.body,
        "tool_calls": [{"name": c.name, "arguments": c.arguments} for c in message.calls],
    }
