"""`export` and `import`: a database, or a part of it, as one file of JSON lines."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.keys import key_for
from onlooker.cli.opening import chosen_settings, database_path, existing, find
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Screen
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.history_rows import Scope
from onlooker.engine.exporting import lines_of
from onlooker.engine.memory import Memory
from onlooker.policy.settings import Settings
from onlooker.wiring import POSTGRES, open_memory

MOST_PROBLEMS = 20


def export(
    screen: Screen,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to; - is standard output.")],
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Write a database to one file: everything, or one owner's, or one session.

    The file holds messages, notes of every status, versions, items and what calls cost. Imported
    anywhere and exported again it is the same, byte for byte.
    """
    rows = asyncio.run(_export(screen, db, config, (session, owner), file))
    if as_json and file != "-":
        screen.json({"file": file, "rows": rows})
    elif file != "-":
        screen.say(f"{rows:,} rows in {file}.")


async def _export(
    screen: Screen, db: str, config: Path | None, wanted: tuple[str | None, str | None], file: str
) -> int:
    key, owner = wanted
    async with existing(db, chosen_settings(config)) as memory:
        if key is not None:
            found, _ = await find(memory, key, owner)
            owner = found.owner
        elif owner is not None and not (await memory.sessions(owner=owner) or await memory.items(owner)):
            raise Stop(f"nothing is stored for the owner {owner!r}", NOT_THERE)
        if file != "-":
            return await memory.export(file, owner=owner, session=key)
        scope = (
            Scope(owner=owner) if key is None else Scope(session=memory.session(key, owner=owner or "").id)
        )
        count = 0
        async for line in lines_of(memory.store.dump(scope)):
            # As bytes: the file must not depend on the terminal's encoding.
            sys.stdout.buffer.write(f"{line}\n".encode())
            count += 1
        sys.stdout.buffer.flush()
        return count - 2


def import_(
    screen: Screen,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="What `export` wrote; - is standard input.")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option("--journal", metavar="FOLDER", help="A journal to build sessions from.")
    ] = None,
    replace_: Annotated[bool, typer.Option("--replace", help="Replace sessions that are there.")] = False,
    db: Database = DEFAULT_DATABASE,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Take in what `export` wrote, or build a database again from a journal.

    The file is checked before anything is written, and each session comes in whole or not at all.
    """
    if (file is None) == (journal is None):
        raise Stop("name a FILE, or a --journal FOLDER", WRONG_USE)
    done = asyncio.run(_import(db, chosen_settings(config), file, journal, replace_))
    for problem in done["problems"][:MOST_PROBLEMS]:
        screen.error(problem)
    if len(done["problems"]) > MOST_PROBLEMS:
        screen.error(f"… and {len(done['problems']) - MOST_PROBLEMS} lines more")
    if as_json:
        screen.json(done)
        return
    rows = done["rows"]
    sessions, messages, notes = (rows.get(kind, 0) for kind in ("session", "message", "note"))
    screen.say(f"Took in {sessions:,} sessions: {messages:,} messages and {notes:,} notes.")


async def _import(
    db: str, settings: Settings, file: str | None, journal: Path | None, replace: bool
) -> dict[str, Any]:
    async with _written(db, settings) as memory:
        if journal is not None:
            counts, problems = await memory.import_journal(journal, replace=replace)
            counts.pop("restart", None)
            return {"rows": counts, "problems": list(problems)}
        assert file is not None
        with _on_disk(file) as path:
            return {"rows": await memory.import_file(path, replace=replace), "problems": []}


@asynccontextmanager
async def _written(db: str, settings: Settings) -> AsyncGenerator[Memory]:
    """The memory of a database that is created at need; it takes no notes."""
    still = replace(settings, enabled=False, model="", reflector_model="")
    place = db if db.startswith(POSTGRES) else database_path(db)
    async with open_memory(place, settings=still, key=key_for(place)) as memory:
        yield memory


@contextmanager
def _on_disk(file: str) -> Generator[Path]:
    """The file, which is read twice: once to check it."""
    if file != "-":
        yield Path(file)
        return
    with tempfile.TemporaryDirectory(prefix="onlooker-") as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield path
