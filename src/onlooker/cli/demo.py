"""`demo`: nine days of a conversation, remembered while you watch."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker import demo as bundled
from onlooker.cli.demo_screen import CODE, LiveView, print_result
from onlooker.cli.figures import Figures, kept, lost
from onlooker.cli.opening import database_path
from onlooker.cli.options import Json
from onlooker.cli.replaying import Replay, ReplayClock
from onlooker.cli.screen import Screen
from onlooker.cli.surface import WRONG_USE, Stop
from onlooker.domain.events import Event, Noted, Reflected
from onlooker.domain.notes import Progress, State
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.models.times import SystemClock
from onlooker.policy.context import Context
from onlooker.policy.intake import intake_all
from onlooker.wiring import open_memory

SESSION = "demo"
OWNER = "ana"
SYSTEM = "You are Ana's assistant. Be brief and exact."
BUDGET = 8000


@dataclass(frozen=True, slots=True)
class Result:
    """How it ended."""

    figures: Figures
    final: Context
    report: dict[str, Any]


def demo(
    screen: Screen,
    budget: Annotated[
        int, typer.Option("--budget", "-b", min=1000, metavar="TOKENS", help="The most a context may cost.")
    ] = BUDGET,
    full: Annotated[bool, typer.Option("--full", help="Show the whole memory, not a screenful.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="PATH", help="Keep the database there to look at.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay a long conversation and watch it shrink into dated notes. No key, no network.

    Nine days of Ana's, who moves house and runs a web service: what was said, what the agent would
    have received at each turn, and what is still there at the end.
    """
    if keep is not None and database_path(str(keep)).exists():
        raise Stop(f"{keep} is there already: name a file that is not", WRONG_USE)
    with _database(keep) as path:
        result = asyncio.run(_run(Screen(screen.out, screen.err, screen.quiet or as_json), path, budget))
    if as_json:
        screen.json(result.report)
        return
    print_result(screen, result.figures, result.final, result.report, full=full)
    if keep is not None:
        screen.text(f"\nThe database is {keep}: try `onlooker list --db {keep}`.")
    screen.text(f"\nYour own, in three lines:\n\n{CODE}")


@contextmanager
def _database(keep: Path | None) -> Generator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="onlooker-demo-") as folder:
        yield Path(folder) / "demo.db"


async def _run(screen: Screen, path: Path, budget: int) -> Result:
    started = time.perf_counter()
    messages = intake_all(bundled.conversation(), at=SystemClock().now(), tz=UTC)
    clock = ReplayClock(messages)
    async with open_memory(path, budget=budget, clock=clock) as memory:
        session = memory.session(SESSION, owner=OWNER)
        figures = Figures(session.core.estimator)
        async with _watched(screen, memory, figures, len(messages)) as view:
            async for moment in Replay(memory, session, clock, SYSTEM).moments(messages):
                figures.said(moment.message)
                if moment.context:
                    figures.built(moment.context, clock.now())
                view.moment(moment.number, clock.now())
        final = await session.context(system=SYSTEM)
        figures.built(final, clock.now())
        report = await _report(session, figures, final)
    return Result(figures, final, report | {"seconds": round(time.perf_counter() - started, 2)})


async def _report(session: Session, figures: Figures, final: Context) -> dict[str, Any]:
    state = await session.state() or State(Progress(session.id))
    said = await session.messages(archived=True)
    values = bundled.facts().values
    return {
        "messages": len(said),
        "messages_lost": lost(said, state) + final.stats.left_out_messages,
        "contexts": len(figures.points),
        "budget": final.stats.budget,
        "raw_tokens": figures.raw,
        "context_tokens": figures.context,
        "most_context_tokens": max(p.context for p in figures.points),
        "compression": round(figures.compression, 2),
        "prefix_reuse": round(figures.prefix_reuse, 3),
        "values": len(values),
        "values_kept": kept(values, final.text()),
        "observations": len(state.observations),
        "reflections": len(state.reflections),
    }


@asynccontextmanager
async def _watched(screen: Screen, memory: Memory, figures: Figures, total: int) -> AsyncGenerator[LiveView]:
    """A view of the replay that hears of every note."""
    view = LiveView(screen, figures, total)

    def hear(event: Event) -> None:
        if isinstance(event, Noted | Reflected):
            view.noted(event.note)

    leave = memory.subscribe(hear)
    try:
        with view:
            yield view
    finally:
        leave()
