"""`sessions`, `list`, `status`, `extracted` and `context`: what is stored and what an agent receives."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.replay import Fitting
from onlooker.cli.screen import (
    NOT_THERE,
    WRONG_USE,
    Column,
    Json,
    Screen,
    Stop,
    extraction_view,
    note_view,
    positions,
    session_view,
    status_view,
)
from onlooker.cli.settings import ConfigFile
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Budget,
    Database,
    Owner,
    SessionKey,
    SystemPrompt,
    chosen_settings,
    existing,
    find,
    point,
)
from onlooker.domain.context import Stats
from onlooker.domain.notes import LIVE, NoteKind, NoteStatus, State
from onlooker.engine.reminding import Reminder
from onlooker.engine.session import Session
from onlooker.policy.assemble import Counting, PromptRequest
from onlooker.policy.items.choose import remembers
from onlooker.policy.render import Context
from onlooker.policy.settings import Settings


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


# ------------------------------------------------------------------------------------ extracted


def extracted(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="NAME", help="Only values of this type.")
    ] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List what was filled in of your own types, oldest first.

    Each with the note it was written with and the messages that it came from.
    """
    found = asyncio.run(_extracted(db, config, session, owner, type))
    if as_json:
        screen.json(found)
    elif not found:
        screen.say("Nothing extracted.")
    else:
        screen.table(_EXTRACTED_COLUMNS, [_extracted_row(view) for view in found])


async def _extracted(
    db: str, config: Path | None, key: str | None, owner: str | None, type: str | None
) -> list[dict[str, Any]]:
    async with existing(db, chosen_settings(config)) as memory:
        session, _ = await find(memory, key, owner)
        return [extraction_view(extraction) for extraction in await session.history.extractions(type)]


_EXTRACTED_COLUMNS = (
    Column("type"),
    Column("said at"),
    Column("messages"),
    Column("note"),
    Column("value", text=True),
)


def _extracted_row(view: dict[str, Any]) -> list[str]:
    return [
        view["type"],
        minute(view["said_at"]),
        ", ".join(map(str, view["source_seqs"])),
        view["note_id"],
        json.dumps(view["value"], ensure_ascii=False),
    ]


# ------------------------------------------------------------------------------------ context


class Form(StrEnum):
    """Who is to read it."""

    text = "text"
    openai = "openai"
    anthropic = "anthropic"


def context(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    system: SystemPrompt = "",
    budget: Budget = None,
    form: Annotated[
        Form, typer.Option("--format", help="A text, or a prompt as a provider takes it.")
    ] = Form.text,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="WHEN", help="As it was: a message's number, or a time.")
    ] = None,
    question: Annotated[
        str, typer.Option("--question", metavar="TEXT", help="For answering this: with what bears on it.")
    ] = "",
    stats: Annotated[bool, typer.Option("--stats", help="What it is made of, in tokens, on stderr.")] = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Print the context that an agent would receive now.

    Without --budget it is the one that the session's agent last asked for, or else the one of the
    settings. Looking changes nothing and takes no notes. --as-of shows it as it was when that message
    was the newest, or at that time (2026-02-16T14:00, or a day, which means its end).
    """
    if question and as_of is not None:
        raise Stop("--question looks through all that was said: leave out --as-of", WRONG_USE)
    settings = chosen_settings(config)
    built, named = asyncio.run(_built(db, settings, (session, owner), system, budget, form, as_of, question))
    shown: Any = {Form.text: built.text, Form.openai: built.openai, Form.anthropic: built.anthropic}[form]()
    if as_json:
        screen.json(named | {"format": form.value, "context": shown, "stats": asdict(built.stats)})
        return
    if form is Form.text:
        screen.text(shown)
    else:
        screen.json(shown)
    if stats:
        _print_stats(screen, built.stats)


async def _built(
    db: str,
    settings: Settings,
    wanted: tuple[str | None, str | None],
    system: str,
    budget: int | None,
    form: Form,
    as_of: str | None = None,
    question: str = "",
) -> tuple[Context, dict[str, Any]]:
    async with existing(db, settings) as memory:
        session, _ = await find(memory, *wanted)
        state = await session.history.state()
        if state is None:
            raise Stop(f"no session {session.key!r}", NOT_THERE)
        if as_of is not None:
            state = replace((await session.history.as_of(point(as_of))).state, items=())
        counting = session.core.counting
        asked = (
            budget if budget is not None else _last_budget(state.progress.budget, system, counting, settings)
        )
        frame = PromptRequest(system, budget=asked, question=question)
        state = await _with_items(session, state, settings, counting.room(frame, settings))
        fitting = Fitting(state, settings, counting)
        if question:
            remind = Reminder(
                session.core.store, session.id, settings, counting, session.core.clock.now()
            ).remind
            built = await fitting.answering(frame, remind, as_text=form is Form.text)
        else:
            built = fitting.text_context(frame) if form is Form.text else fitting.context(frame)
        return built, {"session_key": session.key, "owner": session.owner}


async def _with_items(session: Session, state: State, settings: Settings, room: int) -> State:
    """The state with the items that the session shows, or would show if it were asked for now."""
    if not remembers(settings, session.owner):
        return replace(state, items=())
    if state.items is not None:
        return state
    items = replace(session.core.shown_items, settings=settings)
    return replace(state, items=tuple(await items.choice(session.id, room)))


def _last_budget(room: int, system: str, counting: Counting, settings: Settings) -> int:
    """The budget at which `room` tokens are left for memory and messages; the settings' without one."""
    if not room:
        return settings.budget
    tokens = room + counting.frame(PromptRequest(system))
    return math.ceil(tokens * counting.calibration.ratio / (1 - settings.margin))


def _print_stats(screen: Screen, stats: Stats) -> None:
    rows = [
        [name.replace("_", " "), f"{value:.3f}" if isinstance(value, float) else f"{value:,}"]
        for name, value in asdict(stats).items()
        if isinstance(value, int | float)
    ]
    aside = Screen(screen.err, screen.err, screen.quiet)
    aside.table([Column("part"), Column("tokens", right=True)], rows)
