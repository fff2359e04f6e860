"""`export`, `import`, `backup`, `restore` and `migrate`: move a database, or a part of it."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onlooker.cli.screen import NOT_THERE, WRONG_USE, Json, Screen, Stop
from onlooker.cli.settings import ConfigFile
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Database,
    DryRun,
    Owner,
    SessionKey,
    Yes,
    chosen_key,
    chosen_settings,
    database_path,
    existing,
    find,
    key_for,
    new_key,
)
from onlooker.domain.errors import StoreError
from onlooker.domain.history_rows import Scope
from onlooker.domain.moving import Moved, MoveStep
from onlooker.engine.memory import Memory
from onlooker.files.export import lines_of
from onlooker.policy.settings import Settings
from onlooker.stores.sqlite.copying import put_back
from onlooker.stores.sqlite.key import Key
from onlooker.wiring import POSTGRES, open_memory
from onlooker.wiring import migrate as move

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
        elif owner is not None and not (await memory.sessions(owner=owner) or await memory.items.list(owner)):
            raise Stop(f"nothing is stored for the owner {owner!r}", NOT_THERE)
        if file != "-":
            return await memory.storage.export(file, owner=owner, session=key)
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
            counts, problems = await memory.storage.import_journal(journal, replace=replace)
            counts.pop("restart", None)
            return {"rows": counts, "problems": list(problems)}
        assert file is not None
        with _on_disk(file) as path:
            return {"rows": await memory.storage.import_file(path, replace=replace), "problems": []}


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


# ------------------------------------------------------------------------------------ backup


def backup(
    screen: Screen,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The new file.")],
    db: Database = DEFAULT_DATABASE,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Copy the database to a new file, as it is at one moment, while others use it."""
    asyncio.run(_backup(db, config, target))
    size = target.stat().st_size
    if as_json:
        screen.json({"file": str(target), "bytes": size})
    else:
        screen.say(f"{size:,} bytes in {target}.")


async def _backup(db: str, config: Path | None, target: Path) -> None:
    async with existing(db, chosen_settings(config)) as memory:
        await memory.storage.back_up(target)


def restore(
    screen: Screen,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="What `backup` wrote.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace the database that is there.")] = False,
    db: Database = DEFAULT_DATABASE,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Make the database what a backup holds. Nobody may have it open.

    A database that is there is only replaced with --replace, and after asking.
    """
    path = database_path(db, instead=f"`onlooker migrate {source} postgresql://…` copies a backup into one")
    if replace and path.exists() and not (yes or screen.confirm(f"This replaces {path}.\nReplace?")):
        raise Stop("nothing was restored", NOT_THERE)
    put_back(source, path, replace=replace, key=chosen_key())
    if as_json:
        screen.json({"database": str(path), "source": str(source)})
    else:
        screen.say(f"{path} is what {source} holds.")


# ------------------------------------------------------------------------------------ migrate


MOST_NAMED = 20
# Outside a terminal a line says how far it is, so often.
LINE_SECONDS = 5.0

SECOND_KEY = "the key of DST comes from --new-key-file FILE, or ONLOOKER_NEW_KEY or ONLOOKER_NEW_KEYRING"
REFUSED = (
    "to put those of SRC in their place, add --replace; to keep both, move one into a database of its own; "
    "`onlooker sessions --db DST` and `onlooker export` show what is there"
)


@dataclass(frozen=True, slots=True)
class _Wanted:
    src: str
    dst: str
    keys: tuple[Key | None, Key | None]
    options: dict[str, Any]

    async def run(self, heard: Callable[[MoveStep], None]) -> Moved:
        key, second = self.keys
        try:
            return await move(self.src, self.dst, key=key, new_key=second, progress=heard, **self.options)
        except StoreError as error:
            if str(error).startswith(f"{_plain(self.dst)}:") and "key" in str(error):
                raise Stop(f"{error}\n{SECOND_KEY}") from None
            raise


def migrate(
    screen: Screen,
    src: Annotated[str, typer.Argument(metavar="SRC", help="A database file, or postgresql://….")],
    dst: Annotated[str, typer.Argument(metavar="DST", help="Another; a file is created at need.")],
    new: Annotated[
        Path | None,
        typer.Option("--new-key-file", metavar="FILE", help="The key of DST (or ONLOOKER_NEW_KEY)."),
    ] = None,
    dry_run: DryRun = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Sessions that are something else in DST make way.")
    ] = False,
    no_index: Annotated[
        bool, typer.Option("--no-index", help="Make what came findable at the first search, and not now.")
    ] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, metavar="N", help="How many sessions are compared at a time.")
    ] = 500,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Copy everything that one database holds into another, and compare the two.

    SRC is only read, and may be in use; --key-file is its key. Interrupted and started again it goes on where
    it was; what changed in SRC since is copied anew. The exit code is 1 where DST does not hold all of it.
    """
    for place in (src, dst):
        if place == ":memory:":
            raise Stop(":memory: holds nothing to move, and keeps nothing: name a file", WRONG_USE)
    keys = key_for(src), _second_key(dst, new)
    if keys[0] and _is_file(dst) and not keys[1] and not dry_run:
        question = f"{src} is encrypted, and {dst} will not be: whoever can read it then reads what is in it."
        if not (yes or screen.confirm(f"{question}\nGo on?")):
            raise Stop(f"nothing was copied; {SECOND_KEY}", NOT_THERE)
    options = {"dry_run": dry_run, "replace": replace, "index": not no_index, "batch": batch}
    try:
        with _progress(screen) as heard:
            moved = asyncio.run(_Wanted(src, dst, keys, options).run(heard))
    except KeyboardInterrupt:
        raise Stop("stopped; run the same command again, and it goes on where it was", NOT_THERE) from None
    if as_json:
        screen.json(_migrate_view(moved))
    else:
        screen.say(_migrate_sentence(moved))
    _say_refused(screen, moved)


def _second_key(dst: str, file: Path | None) -> Key | None:
    if _is_file(dst):
        return new_key(file)
    if file is not None:
        raise Stop("--new-key-file encrypts a file: DST must be one", WRONG_USE)
    return None


def _is_file(place: str) -> bool:
    return "://" not in place.removeprefix("sqlite:///")


def _plain(place: str) -> str:
    return place.removeprefix("sqlite:///")


# ------------------------------------------------------------------------------------ on the way


@contextmanager
def _progress(screen: Screen) -> Generator[Callable[[MoveStep], None]]:
    """A bar on a terminal, a line now and then elsewhere."""
    if not screen.is_live:
        yield _Lines(screen)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen.err, transient=True) as progress:
        task = progress.add_task("copying", total=None)

        def heard(step: MoveStep) -> None:
            progress.update(task, description=step.phase, completed=step.done, total=step.total)

        yield heard


class _Lines:
    """Says a phase at its end, and in between every few seconds."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._said_at = time.monotonic()

    def __call__(self, step: MoveStep) -> None:
        now = time.monotonic()
        if step.done >= step.total or now - self._said_at >= LINE_SECONDS:
            self._said_at = now
            self._screen.say(f"{step.phase}: {step.done:,} of {step.total:,} sessions")


# ------------------------------------------------------------------------------------ at the end


def _migrate_sentence(moved: Moved) -> str:
    verb = ("Would copy", "copy anew") if moved.dry_run else ("Copied", "copied anew")
    text = f"{verb[0]} {moved.copied:,} sessions of {moved.sessions:,}"
    if moved.renewed:
        text += f", {verb[1]} {moved.renewed:,} that were there as they had been"
    if moved.same:
        text += f"; {moved.same:,} were there already"
    text += "."
    if not moved.dry_run:
        kinds = [f"{moved.rows.get(kind, 0):,} {kind}s" for kind in ("message", "note", "item")]
        text += f" The same on both sides: {', '.join(kinds)}."
    if moved.others:
        text += f" {moved.others:,} other sessions of {moved.target} were left as they are."
    if moved.kept_items:
        text += f" {moved.kept_items:,} items that went on in {moved.target} were left as they are."
    if moved.forgotten_items:
        text += f" {moved.forgotten_items:,} items that {moved.source} has no more were taken out."
    if moved.changed:
        text += f"\n{moved.source} was used meanwhile: run this again, and only what is new is copied."
    return text


def _say_refused(screen: Screen, moved: Moved) -> None:
    if not moved.refused:
        return
    for one in moved.refused[:MOST_NAMED]:
        screen.error(f"session {one.session.key!r} of {one.session.owner!r} not copied: {one.why}")
    more = len(moved.refused) - MOST_NAMED
    raise Stop((f"… and {more:,} more; " if more > 0 else "") + REFUSED)


def _migrate_view(moved: Moved) -> dict[str, Any]:
    refused = [
        {"session": one.session.key, "owner": one.session.owner, "why": one.why} for one in moved.refused
    ]
    return {
        "source": moved.source,
        "target": moved.target,
        "sessions": moved.sessions,
        "copied": moved.copied,
        "renewed": moved.renewed,
        "same": moved.same,
        "refused": refused,
        "others": moved.others,
        "kept_items": moved.kept_items,
        "forgotten_items": moved.forgotten_items,
        "rows": dict(moved.rows),
        "changed": moved.changed,
        "dry_run": moved.dry_run,
    }
