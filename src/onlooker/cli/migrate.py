"""`migrate`: everything that one database holds, into another of any kind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onlooker.cli.keys import key_for, new_key
from onlooker.cli.naming import DryRun, Yes
from onlooker.cli.options import Json
from onlooker.cli.screen import Screen
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.errors import StoreError
from onlooker.domain.moving import Moved, MoveStep
from onlooker.stores.sqlite.key import Key
from onlooker.wiring import migrate as move

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
        screen.json(_view(moved))
    else:
        screen.say(_sentence(moved))
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


def _sentence(moved: Moved) -> str:
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


def _view(moved: Moved) -> dict[str, Any]:
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
