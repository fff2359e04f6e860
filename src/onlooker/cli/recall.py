"""`recall`: what a note stands for, or what was said around a message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.opening import chosen_settings, existing, find
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Screen
from onlooker.cli.surface import NOT_THERE, Stop
from onlooker.cli.views import iso
from onlooker.domain.messages import Message
from onlooker.engine.searching import PAGE
from onlooker.policy.render import text_lines

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
        screen.json({"page": page, "pages": pages, "messages": [_view(m) for m in shown]})
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


def _view(message: Message) -> dict[str, Any]:
    return {
        "seq": message.seq,
        "id": message.id,
        "role": message.role,
        "name": message.name,
        "at": iso(message.at),
        "content": message.body,
        "tool_calls": [{"name": c.name, "arguments": c.arguments} for c in message.calls],
    }
