"""`worker`: take notes for processes that only record; and `status --workers`, how that is going."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli import listing
from onlooker.cli.keys import key_for
from onlooker.cli.opening import chosen_settings, existing
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json, Owner, SessionKey
from onlooker.cli.screen import Column, Screen
from onlooker.cli.surface import WRONG_USE, Stop
from onlooker.wiring import POSTGRES, Staff, open_memory

# A worker that was not seen for so long is gone.
AWAY_SECONDS = 30.0


def worker(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, max=256, metavar="N", help="Sessions at a time.")
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            min=0,
            max=600,
            metavar="SECONDS",
            help="How long a stop waits for work in progress.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="PROVIDER:NAME", help="What writes the notes.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Take notes for every process that records into a database, until stopped.

    Any number of workers may run, on PostgreSQL on any number of machines. SIGTERM or Ctrl-C lets work in
    progress complete; a second one ends it.
    """
    settings = chosen_settings(config)
    if not settings.enabled:
        raise Stop("memory is switched off in the settings (enabled = false)", WRONG_USE)
    changes: dict[str, Any] = {"concurrency": concurrency, "stop_deadline": deadline, "model": model}
    settings = replace(settings, **{name: value for name, value in changes.items() if value is not None})
    served = db.startswith(POSTGRES)
    staff: Staff = "queue" if served else "embedded"
    key = None if served else key_for(Path(db.removeprefix("sqlite:///")))
    asyncio.run(_work(screen, lambda: open_memory(db, settings=settings, workers=staff, key=key)))


async def _work(screen: Screen, opened: Any) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def asked() -> None:
        if stop.is_set() and task:
            task.cancel()
        stop.set()

    with suppress(NotImplementedError):  # Windows, where Ctrl-C ends it at once
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked)
    async with opened() as memory:
        screen.say(f"taking notes, {memory.settings.concurrency} sessions at a time; Ctrl-C stops")
        await stop.wait()
        screen.say("stopping: work in progress completes")


# ------------------------------------------------------------------------------------ status


def status(
    screen: Screen,
    db: Database = DEFAULT_DATABASE,
    session: SessionKey = None,
    owner: Owner = None,
    workers: Annotated[
        bool, typer.Option("--workers", help="Workers, what waits for them, and what failed.")
    ] = False,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Count what each session holds, in messages, notes and tokens.

    Compression is what was said over what now stands for it: notes and raw messages.
    """
    if not workers:
        listing.status(screen, db, session, owner, config, as_json)
        return
    found = asyncio.run(_workforce(db, config))
    if as_json:
        screen.json(found)
        return
    screen.text(
        f"{found['backlog']:,} sessions due, the longest for {found['lag_seconds']:.0f} s; "
        f"{found['failing']:,} failed last time"
    )
    if not found["workers"]:
        screen.text("No workers: `onlooker worker` starts one.")
    else:
        screen.table(_COLUMNS, [_row(w) for w in found["workers"]])


async def _workforce(db: str, config: Path | None) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        now = datetime.now(UTC)
        count: Any = getattr(memory.store, "workforce", None)
        if count is None:
            raise Stop("--workers needs a PostgreSQL database: others keep no list of workers", WRONG_USE)
        force = await count(now)
    return {
        "backlog": force.backlog,
        "lag_seconds": force.lag,
        "failing": force.failing,
        "workers": [_view(w, now) for w in force.workers],
    }


def _view(worker: Any, now: datetime) -> dict[str, Any]:
    view = asdict(worker)
    away = (now - worker.seen_at).total_seconds() > AWAY_SECONDS
    times = {name: view[name].isoformat() for name in ("started_at", "seen_at")}
    return view | times | {"state": "away" if away else "there"}


_COLUMNS = (
    Column("worker"),
    Column("state"),
    Column("at a time", right=True),
    Column("running", right=True),
    Column("done", right=True),
    Column("failed", right=True),
    Column("since"),
    Column("seen"),
)


def _row(view: dict[str, Any]) -> list[str]:
    counts = [f"{view[name]:,}" for name in ("concurrency", "running", "done", "failed")]
    times = [listing.minute(view["started_at"]), listing.minute(view["seen_at"])]
    return [view["id"], view["state"], *counts, *times]
