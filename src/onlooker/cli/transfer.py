"""`export`, `import`, `backup`, `restore` and `migrate`: move a database, or a part of it."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onlooker.cli.encryption import NewKeyFile
from onlooker.cli.screen import CommandError, Json, Screen, UsageError, View, count
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Database,
    DryRun,
    PartTarget,
    Target,
    Yes,
    check_owner,
    database_path,
    given_key,
    given_new_key,
    is_server,
    key_for,
    open_without_notes,
)
from onlooker.domain.errors import StoreError
from onlooker.domain.history import Scope
from onlooker.engine.memory import Memory
from onlooker.files.export import lines_of
from onlooker.migration import MigrationProgress, MigrationReport
from onlooker.migration import migrate as run_migration
from onlooker.stores.sqlite.backup import remove_if_empty, restore_file
from onlooker.stores.sqlite.key import Key

# How many problems are printed.
MAX_LISTED = 20

# ------------------------------------------------------------------------------------ export


async def export(
    screen: Screen,
    target: PartTarget,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The new file; - writes standard output.")],
    as_json: Json = False,
) -> None:
    """Export a database, an owner or a session to one file.

    The file holds messages, all notes and their versions, items and costs, as JSON lines. Importing and
    exporting it again gives the same bytes.
    """
    key, owner = target.session, target.owner
    async with target.open() as memory:
        if key is not None:
            owner = (await target.find(memory))[0].owner
        elif owner is not None:
            await check_owner(memory, owner)
        if file == "-":
            await _write_lines(memory, owner, key)
            return
        rows = await memory.storage.export(file, owner=owner, session=key)
    screen.result({"file": file, "rows": rows}, as_json, f"Wrote {count(rows, 'row')} to {file}.")


async def _write_lines(memory: Memory, owner: str | None, key: str | None) -> None:
    scope = Scope(owner=owner) if key is None else Scope(session=memory.session(key, owner=owner or "").id)
    async for line in lines_of(memory.store.dump(scope)):
        # As bytes: the export must not depend on the terminal's encoding.
        sys.stdout.buffer.write(f"{line}\n".encode())
    sys.stdout.buffer.flush()


# ------------------------------------------------------------------------------------ import


async def import_(
    screen: Screen,
    target: Target,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="An export; - reads standard input.")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option("--journal", metavar="FOLDER", help="Rebuild sessions from a journal.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Import only what belongs to this owner.")
    ] = None,
    all_owners: Annotated[
        bool, typer.Option("--all-owners", help="Import the data of all owners; only from a file you trust.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace sessions and items that exist.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Import an export, or rebuild a database from a journal.

    Data is imported only for the owner that you name, or with --all-owners. The file is checked before
    anything is written. Each session is imported whole or not at all.
    """
    if (file is None) == (journal is None):
        raise UsageError("name a FILE, or a --journal FOLDER")
    place = target.db if is_server(target.db) else database_path(target.db)
    problems: Sequence[str] = ()
    with _nothing_if_it_fails(place):
        async with open_without_notes(place, target.settings()) as memory:
            if journal is not None:
                rows, problems = await memory.storage.import_journal(
                    journal, owner=owner, all_owners=all_owners, replace=replace
                )
                rows.pop("restart", None)
            else:
                with _as_file(file or "") as path:
                    rows = await memory.storage.import_file(
                        path, owner=owner, all_owners=all_owners, replace=replace
                    )
    for problem in problems[:MAX_LISTED]:
        screen.error(problem)
    if len(problems) > MAX_LISTED:
        screen.error(f"… and {len(problems) - MAX_LISTED:,} more")
    sessions, messages, notes = (count(rows.get(kind, 0), kind) for kind in ("session", "message", "note"))
    view = {"rows": rows, "problems": list(problems)}
    screen.result(view, as_json, f"Imported {sessions}: {messages} and {notes}.")


@contextmanager
def _nothing_if_it_fails(place: str | Path) -> Generator[None]:
    """Remove the database again if it was made for an import that brought nothing."""
    made = isinstance(place, Path) and not place.exists()
    try:
        yield
    except Exception:
        if made:
            remove_if_empty(Path(place), given_key())
        raise


@contextmanager
def _as_file(file: str) -> Generator[Path]:
    """Copy standard input to a file, because an import is read twice."""
    if file != "-":
        yield Path(file)
        return
    with tempfile.TemporaryDirectory(prefix="onlooker-") as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield path


# ------------------------------------------------------------------------------------ backup


async def backup(
    screen: Screen,
    target: Target,
    copy: Annotated[Path, typer.Argument(metavar="TARGET", help="The new file.")],
    as_json: Json = False,
) -> None:
    """Back up a database to a new file, also while it is in use."""
    async with target.open() as memory:
        await memory.storage.back_up(copy)
    size = copy.stat().st_size
    screen.result({"file": str(copy), "bytes": size}, as_json, f"Wrote {count(size, 'byte')} to {copy}.")


def restore(
    screen: Screen,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A backup.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace a database that exists.")] = False,
    db: Database = DEFAULT_DATABASE,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Restore a database from a backup. No process may have it open.

    An existing database is replaced only with --replace, after confirmation.
    """
    path = database_path(db, advice=f"use `onlooker migrate {source} postgresql://…`")
    if not source.is_file():
        raise CommandError(f"{source}: {'is a folder' if source.is_dir() else 'no such file'}; name a backup")
    if path.exists() and not replace:
        raise CommandError(f"{path} exists already: add --replace to replace it, or name another with --db")
    if replace and path.exists() and not (yes or screen.confirm(f"This replaces {path}.\nReplace?")):
        raise CommandError("nothing was restored")
    restore_file(source, path, replace=replace, key=given_key())
    view = {"database": str(path), "source": str(source)}
    screen.result(view, as_json, f"Restored {path} from {source}.")


# ------------------------------------------------------------------------------------ migrate

# Without a terminal, a line of progress is printed this often.
LINE_SECONDS = 5.0

SECOND_KEY = "for the key of DST use --new-key-file FILE, or set ONLOOKER_NEW_KEY or ONLOOKER_NEW_KEYRING"
REFUSED = (
    "to replace them with those of SRC, add --replace; to keep both, migrate to another database; "
    "`onlooker sessions --db DST` and `onlooker export` show what DST holds"
)


def migrate(
    screen: Screen,
    src: Annotated[str, typer.Argument(metavar="SRC", help="A database file, or a postgresql:// address.")],
    dst: Annotated[str, typer.Argument(metavar="DST", help="Another; a file is created if missing.")],
    new: NewKeyFile = None,
    dry_run: DryRun = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace sessions of DST that differ.")] = False,
    no_index: Annotated[
        bool, typer.Option("--no-index", help="Build the search index later, at the first search.")
    ] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, metavar="N", help="How many sessions to compare at a time.")
    ] = 500,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Copy a whole database into another, and compare the two.

    SRC is only read, and may be in use. --key-file is its key, --new-key-file that of DST. If interrupted,
    run it again: it continues where it stopped and copies what has changed. The exit code is 1 if DST does
    not hold everything.
    """
    if ":memory:" in (src, dst):
        raise UsageError(":memory: stores nothing: name a file")
    key, new_key = key_for(src), _target_key(dst, new)
    if key and not new_key and not is_server(dst) and not dry_run:
        question = f"{src} is encrypted, but {dst} will not be: everyone with access to it can read it."
        if not (yes or screen.confirm(f"{question}\nContinue?")):
            raise CommandError(f"nothing was copied; {SECOND_KEY}")
    try:
        with _migration_progress(screen) as progress:
            report = asyncio.run(
                run_migration(
                    src,
                    dst,
                    key=key,
                    new_key=new_key,
                    dry_run=dry_run,
                    replace=replace,
                    index=not no_index,
                    batch=batch,
                    progress=progress,
                )
            )
    except KeyboardInterrupt:
        raise CommandError("stopped; run the same command again to continue") from None
    except StoreError as error:
        if str(error).startswith(f"{dst.removeprefix('sqlite:///')}:") and "key" in str(error):
            raise CommandError(f"{error}\n{SECOND_KEY}") from None
        raise
    screen.result(_migration_view(report), as_json, _migration_sentence(report))
    if report.refused:
        for one in report.refused[:MAX_LISTED]:
            screen.error(f"session {one.session.key!r} of {one.session.owner!r} not copied: {one.why}")
        more = len(report.refused) - MAX_LISTED
        raise CommandError((f"… and {more:,} more; " if more > 0 else "") + REFUSED)


def _target_key(dst: str, file: Path | None) -> Key | None:
    if not is_server(dst):
        return given_new_key(file)
    if file is not None:
        raise UsageError("--new-key-file encrypts a file, but DST is a server")
    return None


@contextmanager
def _migration_progress(screen: Screen) -> Generator[Callable[[MigrationProgress], None]]:
    """Show a bar on a terminal, and a line now and then elsewhere."""
    if not screen.is_live:
        yield _ProgressLines(screen)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen.err, transient=True) as progress:
        task = progress.add_task("copying", total=None)

        def report(step: MigrationProgress) -> None:
            progress.update(task, description=step.phase, completed=step.done, total=step.total)

        yield report


class _ProgressLines:
    """Prints a line at the end of each phase, and every few seconds in between."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._printed_at = time.monotonic()

    def __call__(self, step: MigrationProgress) -> None:
        now = time.monotonic()
        if step.done >= step.total or now - self._printed_at >= LINE_SECONDS:
            self._printed_at = now
            self._screen.say(f"{step.phase}: {step.done:,} of {count(step.total, 'session')}")


def _migration_sentence(report: MigrationReport) -> str:
    verbs = ("Would copy", "update") if report.dry_run else ("Copied", "updated")
    text = f"{verbs[0]} {report.copied:,} of {count(report.sessions, 'session')}"
    if report.updated:
        text += f", {verbs[1]} {report.updated:,}"
    if report.same:
        text += f"; {report.same:,} already the same"
    text += "."
    if not report.dry_run:
        kinds = [count(report.rows.get(kind, 0), kind) for kind in ("message", "note", "item")]
        text += f" Both sides hold the same {', '.join(kinds)}."
    if report.others:
        text += f" Left {count(report.others, 'other session')} of {report.target} unchanged."
    if report.kept_items:
        text += f" Left {count(report.kept_items, 'item')} that changed in {report.target} unchanged."
    if report.forgotten_items:
        text += f" Removed {count(report.forgotten_items, 'item')} that {report.source} no longer has."
    if report.changed:
        text += f"\n{report.source} was used meanwhile: run this again to copy what is new."
    return text


def _migration_view(report: MigrationReport) -> View:
    refused = [
        {"session": one.session.key, "owner": one.session.owner, "why": one.why} for one in report.refused
    ]
    return {
        "source": report.source,
        "target": report.target,
        "sessions": report.sessions,
        "copied": report.copied,
        "updated": report.updated,
        "same": report.same,
        "refused": refused,
        "others": report.others,
        "kept_items": report.kept_items,
        "forgotten_items": report.forgotten_items,
        "rows": dict(report.rows),
        "changed": report.changed,
        "dry_run": report.dry_run,
    }
