"""`prune`: let go of what retention no longer keeps."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from onlooker.cli.naming import DryRun
from onlooker.cli.opening import chosen_settings, database_path, existing
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json
from onlooker.cli.screen import Column, Screen
from onlooker.cli.surface import WRONG_USE, Stop
from onlooker.domain.retention import RetainedIn
from onlooker.engine.memory import Memory
from onlooker.policy.settings import Settings
from onlooker.wiring import POSTGRES

# Settings that say how long messages are kept.
LIMITS = (
    "retention_archive_days",
    "retention_archive_messages",
    "retention_delete_days",
    "retention_delete_messages",
    "retention_owner_messages",
)
NOTHING_TO_DO = "say how old with --older-than DAYS, or set retention_days or another retention_… setting"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to do."""

    days: float | None  # of superseded notes; None: they stay
    dry_run: bool
    vacuum: bool


def prune(
    screen: Screen,
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", min=0, metavar="DAYS", help="How old; that of `retention_days`."),
    ] = None,
    vacuum: Annotated[bool, typer.Option("--vacuum", help="Make the file as small as it can be.")] = False,
    db: Database = DEFAULT_DATABASE,
    dry_run: DryRun = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Purge what is old enough: superseded notes, what hosts took back, and messages by the settings.

    What a live note leads back to stays, unless `retention_delete_…` says otherwise. Messages that no note
    stands for always stay.
    """
    settings = chosen_settings(config)
    days = older_than if older_than is not None else settings.retention_days or None
    if days is None and not vacuum and not any(getattr(settings, name) for name in LIMITS):
        raise Stop(NOTHING_TO_DO, WRONG_USE)
    size = _size(db)
    done = asyncio.run(_prune(db, settings, Wanted(days, dry_run, vacuum and not dry_run)))
    if vacuum and not dry_run and size is not None:
        done["freed_bytes"] = size - (_size(db) or 0)
    if as_json:
        screen.json(done)
        return
    if dry_run and done["sessions"]:
        screen.table(COLUMNS, [_row(session) for session in done["sessions"]])
    screen.say(_sentence(done))


async def _prune(db: str, settings: Settings, wanted: Wanted) -> dict[str, Any]:
    async with existing(db, settings) as memory:
        kept = await memory.retain(dry_run=wanted.dry_run)
        done: dict[str, Any] = {
            "rows": await _superseded(memory, wanted),
            "older_than_days": wanted.days,
            "archived_messages": kept.archived,
            "deleted_messages": kept.deleted,
            "sessions": [_view(session) for session in kept.sessions],
            "pruned": not wanted.dry_run,
        }
        if wanted.vacuum:
            await memory.store.erase()
        return done


async def _superseded(memory: Memory, wanted: Wanted) -> int:
    if wanted.days is None:
        return 0
    before = datetime.now(UTC) - timedelta(days=wanted.days)
    return await memory.store.prune(before=before, dry_run=wanted.dry_run)


def _view(kept: RetainedIn) -> dict[str, Any]:
    return {
        "session_key": kept.session.key,
        "owner": kept.session.owner,
        "archived_messages": kept.archived,
        "deleted_messages": kept.deleted,
    }


COLUMNS = (
    Column("session", text=True),
    Column("owner", text=True),
    Column("archive", right=True),
    Column("delete", right=True),
)


def _row(session: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{value:,}" if isinstance(value, int) else value for value in session.values())


def _size(db: str) -> int | None:
    """Of the file and its log. A server keeps the room that is free in its tables for what comes."""
    if db.startswith(POSTGRES):
        return None
    path = database_path(db)
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _sentence(done: dict[str, Any]) -> str:
    words = ("Purged", "deleted", "archived") if done["pruned"] else ("Would purge", "delete", "archive")
    text = f"{words[0]} {done['rows']:,} rows"
    if done["deleted_messages"]:
        text += f", {words[1]} {done['deleted_messages']:,} messages"
    if done["archived_messages"]:
        text += f", {words[2]} {done['archived_messages']:,} messages"
    if "freed_bytes" in done:
        text += f"; {done['freed_bytes']:,} bytes freed"
    return text + "."
