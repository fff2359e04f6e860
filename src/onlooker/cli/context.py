"""`context`: the context that an agent would receive now, within a budget."""

from __future__ import annotations

from dataclasses import asdict, replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError
from onlooker.cli.target import Budget, SessionTarget, SystemPrompt, parse_point
from onlooker.domain.context import Stats
from onlooker.engine.preview import ContextBuilder, last_budget, with_items
from onlooker.engine.recall import Reminder
from onlooker.policy.assemble import PromptRequest
from onlooker.ports import SystemClock


class Format(StrEnum):
    """Who reads the context."""

    text = "text"
    openai = "openai"
    anthropic = "anthropic"


async def context(
    screen: Screen,
    target: SessionTarget,
    system: SystemPrompt = "",
    budget: Budget = None,
    format: Annotated[
        Format, typer.Option("--format", help="A text, or the messages for a provider.")
    ] = Format.text,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="WHEN", help="As it was: the number of a message, or a time."),
    ] = None,
    question: Annotated[
        str, typer.Option("--question", metavar="TEXT", help="Include messages that help to answer this.")
    ] = "",
    stats: Annotated[
        bool, typer.Option("--stats", help="Print the size of each part, in tokens, to stderr.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the context that an agent would receive now.

    The budget is the one the agent last asked for, or that of the settings. Nothing is changed, and no
    notes are taken. --as-of shows the context when that message was the newest, or at that time
    (2026-02-16T14:00, or a day, which means its end).
    """
    if question and as_of is not None:
        raise UsageError("--question searches all messages: it cannot be combined with --as-of")
    settings = target.settings()
    async with target.open() as memory:
        session, _ = await target.find(memory)
        state = await session.history.state()
        if state is None:
            raise CommandError(f"no session {session.key!r}")
        if as_of is not None:
            state = replace((await session.history.as_of(parse_point("--as-of", as_of))).state, items=())
        counting = memory.counting
        if budget is None:
            budget = last_budget(state.progress.budget, system, counting, settings)
        request = PromptRequest(system, budget=budget, question=question)
        state = await with_items(memory.store, state, settings, counting, counting.room(request, settings))
        builder = ContextBuilder(state, settings, counting)
        as_text = format is Format.text
        if question or (settings.recall != "off" and as_of is None):
            reminder = Reminder(memory.store, session.id, settings, counting, SystemClock().now())
            built = await builder.build_with_recall(request, reminder.remind, as_text=as_text)
        else:
            built = builder.build_text(request) if as_text else builder.build(request)
    shown: Any = {
        Format.text: built.text,
        Format.openai: built.openai,
        Format.anthropic: built.anthropic,
    }[format]()
    if as_json:
        named = {"session_key": session.key, "owner": session.owner, "format": format.value}
        screen.json(named | {"context": shown, "stats": asdict(built.stats)})
        return
    if as_text:
        screen.text(shown)
    else:
        screen.json(shown)
    if stats:
        _print_stats(screen, built.stats)


def _print_stats(screen: Screen, stats: Stats) -> None:
    rows = [
        [name.replace("_", " "), f"{value:.3f}" if isinstance(value, float) else f"{value:,}"]
        for name, value in asdict(stats).items()
        if isinstance(value, int | float)
    ]
    aside = Screen(screen.err, screen.err, screen.quiet)
    aside.table([Column("part"), Column("tokens", right=True)], rows)
