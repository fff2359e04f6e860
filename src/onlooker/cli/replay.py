"""`replay`: a conversation of the past, remembered as a live session would have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onlooker.cli.fitting import Fitting
from onlooker.cli.keys import key_for
from onlooker.cli.opening import chosen_settings
from onlooker.cli.options import (
    DEFAULT_DATABASE,
    Budget,
    ConfigFile,
    Database,
    Json,
    Preset,
    SystemPrompt,
)
from onlooker.cli.replaying import Replay, ReplayClock
from onlooker.cli.screen import Screen
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.cli.transcript import read_transcript
from onlooker.domain.messages import DEFAULT_OWNER, Message
from onlooker.engine.memory import Memory
from onlooker.policy.context import Context
from onlooker.policy.frame import PromptRequest
from onlooker.policy.settings import Settings, check
from onlooker.wiring import open_memory


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a replay was asked for."""

    db: str
    key: str
    owner: str
    settings: Settings
    system: str
    model: str | None


def replay(
    screen: Screen,
    file: Annotated[str, typer.Argument(help="An OpenAI message per line; - is standard input.")],
    db: Database = DEFAULT_DATABASE,
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="KEY", help="The session to record into.")
    ] = "replay",
    owner: Annotated[str, typer.Option("--owner", metavar="NAME", help="Whose session.")] = DEFAULT_OWNER,
    budget: Budget = None,
    context: Annotated[
        Path | None, typer.Option("--context", "-o", metavar="OUT", help="Where the final context goes.")
    ] = None,
    system: SystemPrompt = "",
    preset: Preset = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="What writes the notes.")
    ] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Replay a conversation and print the context it ends with.

    Each line of the file is an OpenAI message with `id`, `name` and ISO `created_at`. They are
    recorded at their own times, notes are taken as a live session with that budget would have, and
    the final context is written as text, never longer than the budget. What is recorded already is
    not recorded twice.
    """
    settings = chosen_settings(config, preset)
    if not settings.enabled:
        raise Stop("memory is off in the settings file: turn it on, or name a --preset", WRONG_USE)
    if budget is not None:
        settings = check(replace(settings, budget=budget))
    if context is not None and not context.parent.is_dir():
        raise Stop(f"{context}: there is no folder {context.parent}", NOT_THERE)
    messages = read_transcript(file)
    wanted = Wanted(db, session, owner, settings, system, model)
    final, report = asyncio.run(_replay(screen, wanted, messages))
    text = final.text()
    if context is not None:
        _write(context, text)
    elif as_json:
        report["text"] = text
    else:
        screen.text(text)
    if as_json:
        screen.json(report)


async def _replay(screen: Screen, wanted: Wanted, messages: list[Message]) -> tuple[Context, dict[str, Any]]:
    started = time.perf_counter()
    clock = ReplayClock(messages)
    key = key_for(wanted.db)
    async with open_memory(
        wanted.db, settings=wanted.settings, model=wanted.model, clock=clock, key=key
    ) as memory:
        session = memory.session(wanted.key, owner=wanted.owner)
        before = await session.state()
        run = Replay(memory, session, clock, wanted.system)
        with _progress(screen, len(messages)) as progress:
            async for moment in run.moments(messages):
                progress.update(progress.task_ids[0], completed=moment.number)
        state = await session.state()
        if state is None:
            raise Stop("there is no message in it", NOT_THERE)
        fitting = Fitting(state, wanted.settings, session.core.counting)
        final = fitting.text_context(PromptRequest(wanted.system, budget=wanted.settings.budget))
        report = {
            "session_key": wanted.key,
            "owner": wanted.owner,
            "messages": len(messages),
            "recorded": state.progress.last_seq - (before.progress.last_seq if before else 0),
            **await _figures(memory, wanted, final),
            "seconds": round(time.perf_counter() - started, 2),
        }
    return final, report


async def _figures(memory: Memory, wanted: Wanted, final: Context) -> dict[str, Any]:
    summary = (await memory.sessions(owner=wanted.owner, key=wanted.key))[0]
    session = memory.session(wanted.key, owner=wanted.owner)
    tokens = session.core.counting.text(final.text())
    return {
        "raw_tokens": summary.message_tokens,
        "budget": wanted.settings.budget,
        "context_tokens": tokens,
        "compression": round(summary.message_tokens / tokens, 2) if tokens else 1.0,
        "observations": summary.observations,
        "observation_tokens": summary.observation_tokens,
        "reflections": summary.reflections,
        "reflection_tokens": summary.reflection_tokens,
        "tail_messages": len(final.messages),
        "left_out_messages": final.stats.left_out_messages,
        "left_out_notes": final.stats.left_out_notes,
    }


@contextmanager
def _progress(screen: Screen, total: int) -> Generator[Progress]:
    columns = (
        TextColumn("Replaying"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen.err, transient=True, disable=not screen.is_live) as progress:
        progress.add_task("", total=total)
        yield progress


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise Stop(f"{path}: cannot be written: {error.strerror or error}", NOT_THERE) from error
