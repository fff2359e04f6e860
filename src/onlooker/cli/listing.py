"""`sessions`, `list` and `status`: what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.opening import chosen_settings, existing, find
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Column, Screen
from onlooker.cli.views import note_view, positions, session_view, status_view
from onlooker.domain.notes import LIVE, NoteKind, NoteStatus


class Kind(StrEnum):
    """The two kinds of note, as they are asked for."""

    observations = "observations"
    reflections = "reflections"

    @property
    def note(self) -> NoteKind:
        return "observation" if self is Kind.observations else "reflection"


# ------------------------------------------------------------------------------------ sessions


def list_sessions(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    owner: Owner = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only the N used last.")
    ] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the sessions of a database, the one used last first."""
    found = asyncio.run(_sessions(db, config, owner, limit))
    if as_json:
        screen.json(found)
    elif not found:
        screen.say("No sessions.")
    else:
        screen.table(_SESSION_COLUMNS, [_session_row(s) for s in found])


async def _sessions(
    db: str, config: Path | None, owner: str | None, limit: int | None
) -> list[dict[str, Any]]:
    async with existing(db, chosen_settings(config)) as memory:
        return [session_view(s) for s in await memory.sessions(owner=owner, limit=limit)]


_SESSION_COLUMNS = (
    Column("session"),
    Column("owner"),
    Column("messages", right=True),
    Column("tokens", right=True),
    Column("observations", right=True),
    Column("reflections", right=True),
    Column("first message"),
    Column("last message"),
)


def _session_row(view: dict[str, Any]) -> list[str]:
    return [
        view["session_key"],
        view["owner"],
        f"{view['messages']:,}",
        f"{view['message_tokens']:,}",
        f"{view['observations']:,}",
        f"{view['reflections']:,}",
        minute(view["started_at"]),
        minute(view["last_at"]),
    ]


def minute(at: str | None) -> str:
    """A time to the minute, as it is read in a table."""
    return at[:16].replace("T", " ") if at else "-"


# ------------------------------------------------------------------------------------ notes


def list_notes(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    kind: Annotated[Kind | None, typer.Option("--kind", help="Only notes of this kind.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Superseded notes, and those of messages taken back, as well.")
    ] = False,
    recent: Annotated[
        int | None, typer.Option("--recent", min=1, metavar="N", help="Only the N newest.")
    ] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the notes of a session, oldest first."""
    statuses: tuple[NoteStatus, ...] = (*LIVE, "superseded", "retired") if everything else LIVE
    wanted = kind.note if kind else None
    found = asyncio.run(_notes(db, config, session, owner, wanted, statuses, recent))
    if as_json:
        screen.json(found)
    elif not found:
        screen.say("No notes.")
    else:
        screen.table(*_note_table(found))


async def _notes(
    db: str,
    config: Path | None,
    key: str | None,
    owner: str | None,
    kind: NoteKind | None,
    statuses: Sequence[NoteStatus],
    recent: int | None,
) -> list[dict[str, Any]]:
    async with existing(db, chosen_settings(config)) as memory:
        session, summary = await find(memory, key, owner)
        notes = await session.notes(kind=kind, recent=recent, statuses=statuses)
        places = await positions(session, summary)
        return [note_view(note, session, places) for note in notes]


def _note_table(views: Sequence[dict[str, Any]]) -> tuple[list[Column], list[list[str]]]:
    # Most listings hold active notes only, and then the column says nothing.
    with_status = any(v["status"] != "active" for v in views)
    columns = [
        Column("id"),
        Column("kind"),
        Column("gen", right=True),
        *([Column("status")] if with_status else []),
        Column("messages"),
        Column("tokens", right=True),
        Column("made at"),
        Column("model"),
        Column("text", text=True),
    ]
    return columns, [_note_row(v, with_status) for v in views]


def _note_row(view: dict[str, Any], with_status: bool) -> list[str]:
    start, end = view["source_message_range"]
    return [
        view["id"],
        view["kind"],
        str(view["generation"]),
        *([view["status"]] if with_status else []),
        f"{start + 1}-{end}",
        f"{view['token_count']:,}",
        minute(view["created_at"]),
        view["model"] + (" (degraded)" if view["degraded"] else ""),
        view["content"],
    ]


# ------------------------------------------------------------------------------------ status


def status(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Count what each session holds, in messages, notes and tokens.

    Compression is what was said over what now stands for it: notes and raw messages.
    """
    found = asyncio.run(_status(db, config, session, owner))
    if as_json:
        screen.json(found)
    elif not found:
        screen.say("No sessions.")
    else:
        # Where nothing was paid for, and nothing limits it, the column says nothing.
        paid = any(s["spent"] or s["spend_limit"] for s in found)
        columns = (*_STATUS_COLUMNS, Column("spent", right=True)) if paid else _STATUS_COLUMNS
        screen.table(columns, [[*_status_row(s), *([_spent(s)] if paid else [])] for s in found])


async def _status(db: str, config: Path | None, key: str | None, owner: str | None) -> list[dict[str, Any]]:
    settings = chosen_settings(config)
    async with existing(db, settings) as memory:
        named = key is not None
        summaries = [(await find(memory, key, owner))[1]] if named else await memory.sessions(owner=owner)
        views: list[dict[str, Any]] = []
        for summary in summaries:
            session = summary.progress.session
            spent = await memory.store.spent(session=session)
            if state := await memory.store.load(session):
                views.append(status_view(summary, state, spent, settings.spend_per_session))
        return views


_STATUS_COLUMNS = (
    Column("session"),
    Column("owner"),
    Column("messages", right=True),
    Column("raw tokens", right=True),
    Column("observations", right=True),
    Column("reflections", right=True),
    Column("un-noted", right=True),
    Column("buffered", right=True),
    Column("budget", right=True),
    Column("compression", right=True),
)


def _status_row(view: dict[str, Any]) -> list[str]:
    return [
        view["session_key"],
        view["owner"],
        f"{view['messages']:,}",
        f"{view['message_tokens']:,}",
        f"{view['observations']:,} ({view['observation_tokens']:,} t)",
        f"{view['reflections']:,} ({view['reflection_tokens']:,} t)",
        f"{view['unnoted_tokens']:,} t",
        f"{view['buffered']:,} ({view['buffered_tokens']:,} t)",
        f"{view['budget']:,} t" if view["budget"] else "-",
        f"{view['compression']:.1f}x",
    ]


def _spent(view: dict[str, Any]) -> str:
    limit = view["spend_limit"]
    return f"${view['spent']:.4f}" + (f" of ${limit:g}" if limit else "")
