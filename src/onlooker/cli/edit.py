"""`edit`: give a note another text, and keep the old one."""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.naming import NoteId, find_note
from onlooker.cli.opening import chosen_settings, existing
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Screen
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.notes import LIVE


def edit(
    screen: Screen,
    note: NoteId,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Its new text; - is standard input.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who edits it; you.")] = None,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Give a note another text; without --text, in your editor ($VISUAL or $EDITOR).

    The prompt shows the new text, and reflections go by it. The old one is kept: see `history`.
    """
    given = sys.stdin.read() if text == "-" else text
    done = asyncio.run(_edit(db, config, (session, owner), note, given, by or _me()))
    if as_json:
        screen.json(done)
    else:
        screen.say(f"Version {done['version']} of {note}.")


def _me() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a process without a user, as in some containers
        return ""


def _in_editor(text: str) -> str:
    """What the person makes of the text."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="onlooker-") as folder:
        path = Path(folder) / "note.md"
        path.write_text(text + "\n", encoding="utf-8", errors="surrogatepass")
        try:
            done = subprocess.run([*shlex.split(command), str(path)], check=False)
        except (OSError, ValueError) as error:
            raise Stop(
                f"the editor {command!r} cannot be run ({error}): set EDITOR, or give --text"
            ) from None
        if done.returncode:
            raise Stop(f"the editor {command!r} ended with code {done.returncode}; nothing was changed")
        return path.read_text(encoding="utf-8", errors="surrogatepass")


async def _edit(
    db: str,
    config: Path | None,
    wanted: tuple[str | None, str | None],
    ident: str,
    given: str | None,
    by: str,
) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        session, note = await find_note(memory, ident, *wanted)
        if note.status not in LIVE:
            raise Stop(f"note {ident!r} is {note.status}: only a note that is shown can be edited", WRONG_USE)
        text = given if given is not None else _in_editor(note.text)
        if text.strip("\n") == note.text.strip("\n"):
            raise Stop("nothing was changed", NOT_THERE)
        # Someone may have changed it while the editor was open.
        after = await session.edit(ident, text, by=by, was=note.text)
        versions = (await session.history(ident)).versions
        return {
            "id": after.id,
            "session_key": session.key,
            "owner": session.owner,
            "version": versions[-1].number,
            "by": by,
            "content": after.text,
            "token_count": after.tokens,
        }
