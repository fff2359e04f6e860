"""`context`: what an agent would receive now."""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from onlooker.cli.fitting import Fitting
from onlooker.cli.naming import point
from onlooker.cli.opening import chosen_settings, existing, find
from onlooker.cli.options import (
    DEFAULT_DATABASE,
    Budget,
    ConfigFile,
    Database,
    Json,
    Owner,
    SessionKey,
    SystemPrompt,
)
from onlooker.cli.screen import Column, Screen
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.context import Stats
from onlooker.domain.notes import State
from onlooker.engine.reminding import Reminder
from onlooker.engine.session import Session
from onlooker.policy.context import Context
from onlooker.policy.frame import Counting, PromptRequest
from onlooker.policy.items.shown import remembers
from onlooker.policy.settings import Settings


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
        state = await session.state()
        if state is None:
            raise Stop(f"no session {session.key!r}", NOT_THERE)
        if as_of is not None:
            state = replace((await session.as_of(point(as_of))).state, items=())
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
    items = replace(session.core.items, settings=settings)
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
