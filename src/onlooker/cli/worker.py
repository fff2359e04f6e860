"""`worker`: take notes for processes that only record; and `status --workers`, how that is going."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli import sessions
from onlooker.cli.screen import NOT_THERE, WRONG_USE, Column, Json, Screen, Stop
from onlooker.cli.settings import ConfigFile
from onlooker.cli.target import (
    DEFAULT_DATABASE,
    Database,
    Owner,
    SessionKey,
    chosen_settings,
    database_path,
    existing,
    key_for,
    there,
)
from onlooker.domain.messages import SessionId
from onlooker.engine.memory import Memory
from onlooker.wiring import POSTGRES, WorkerMode, open_memory

# How long a worker that is told twice to stop takes at the most.
AT_ONCE_SECONDS = 2.0
# A worker that was not seen for so long is gone.
AWAY_SECONDS = 30.0
# Sessions that are named whose notes failed.
MOST_FAILING = 20
NOT_YET = "start an agent that records into it first, or add --create"


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
    create: Annotated[
        bool, typer.Option("--create", help="Make the file where there is none: the worker may start first.")
    ] = False,
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
    place = _place(db, create)
    staff: WorkerMode = "queue" if db.startswith(POSTGRES) else "embedded"
    key = key_for(place)
    _log_as_a_service()
    try:
        asyncio.run(_work(screen, lambda: open_memory(place, settings=settings, workers=staff, key=key)))
    except asyncio.CancelledError:
        raise typer.Exit(NOT_THERE) from None


def _place(db: str, create: bool) -> str | Path:
    """What `--db` names. A file that is not there is more often a wrong name than one to come, and a worker
    that waits at it for ever says nothing of that."""
    if create and not db.startswith(POSTGRES):
        return database_path(db)
    try:
        return there(db)
    except Stop as stop:
        if stop.code != NOT_THERE:
            raise
        raise Stop(f"{stop}; {NOT_YET}") from None


def _log_as_a_service() -> None:
    """Nobody watches, so what goes wrong is said without -v; by us alone, and not by each library as well."""
    ours = logging.getLogger("onlooker")
    ours.setLevel(min(ours.level, logging.WARNING))
    for name in ("psycopg", "pgqueuer"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


async def _work(screen: Screen, opened: Callable[[], Memory]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def asked() -> None:
        if stop.is_set():
            screen.say("stopping now: what was in progress stays due")
            task.cancel()
            _end_within(AT_ONCE_SECONDS)
        stop.set()

    with suppress(NotImplementedError):  # Windows, where Ctrl-C ends it at once
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked)
    async with opened() as memory:
        screen.say(f"taking notes, {memory.settings.concurrency} sessions at a time; Ctrl-C stops")
        await stop.wait()
        if memory.background.pending:
            limit = f"{memory.settings.stop_deadline:g} s"
            screen.say(
                f"stopping: {memory.background.pending} in progress, for at most {limit}; Ctrl-C stops now"
            )


def _end_within(seconds: float) -> None:
    """End the process by force where it does not by itself: a thread may wait for a server that is away.
    What is due is in the database."""
    last = threading.Timer(seconds, os._exit, (NOT_THERE,))
    last.daemon = True
    last.start()


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
        sessions.status(screen, db, session, owner, config, as_json)
        return
    found = asyncio.run(_workforce(db, config))
    if as_json:
        screen.json(found)
    else:
        _show(screen, found)


def _show(screen: Screen, found: dict[str, Any]) -> None:
    screen.text(_backlog(found))
    if found["failing"]:
        screen.text("")
        screen.table(_FAILING, [_failing_row(f) for f in found["failing_sessions"]])
        if found["failing"] > len(found["failing_sessions"]):
            screen.text(f"… and {found['failing'] - len(found['failing_sessions']):,} more")
    workers: list[dict[str, Any]] | None = found["workers"]
    screen.text("")
    if workers is None:
        screen.text("A file keeps no list of the processes that take notes.")
    elif not workers:
        screen.text("No workers: `onlooker worker` starts one.")
    else:
        screen.table(_WORKERS, [_worker_row(w) for w in workers])
        if all(w["state"] == "away" for w in workers):
            screen.text("All of them are away: `onlooker worker` starts one.")


def _backlog(found: dict[str, Any]) -> str:
    due: int = found["backlog"]
    if not due:
        told = "No session is due"
    else:
        sessions = "1 session is due" if due == 1 else f"{due:,} sessions are due"
        told = f"{sessions}, the first for {_span(found['lag_seconds'])}"
    failing: int = found["failing"]
    return f"{told}; {failing:,} failed the last time." if failing else f"{told}."


async def _workforce(db: str, config: Path | None) -> dict[str, Any]:
    async with existing(db, chosen_settings(config)) as memory:
        now = datetime.now(UTC)
        count: Any = getattr(memory.store, "workforce", None)
        if count is None:
            return await _of_file(memory, now)
        force = await count(now)
    failures: tuple[tuple[SessionId, int, datetime], ...] = force.failures
    return {
        "backlog": force.backlog,
        "lag_seconds": force.lag,
        "failing": force.failing,
        "failing_sessions": [_failing_view(*failure, now) for failure in failures],
        "workers": [_worker_view(w) for w in force.workers],
    }


async def _of_file(memory: Memory, now: datetime) -> dict[str, Any]:
    """The same of a database that does not know its workers."""
    waiting = [s.progress for s in await memory.sessions() if s.progress.due_at is not None]
    since = [p.due_at for p in waiting if p.due_at is not None and p.due_at <= now]
    failing = sorted((p for p in waiting if p.failures), key=lambda p: -p.failures)
    views = [_failing_view(p.session, p.failures, p.due_at, now) for p in failing[:MOST_FAILING] if p.due_at]
    return {
        "backlog": len(since),
        "lag_seconds": (now - min(since)).total_seconds() if since else 0.0,
        "failing": len(failing),
        "failing_sessions": views,
        "workers": None,
    }


def _failing_view(session: SessionId, failures: int, due_at: datetime, now: datetime) -> dict[str, Any]:
    return {
        "owner": session.owner,
        "session_key": session.key,
        "failures": failures,
        "next_try_at": due_at.isoformat(),
        "next_try_seconds": max(0.0, (due_at - now).total_seconds()),
    }


def _worker_view(worker: Any) -> dict[str, Any]:
    view = asdict(worker)
    times = {name: view[name].isoformat() for name in ("started_at", "seen_at")}
    return view | times | {"state": "away" if worker.unseen_seconds > AWAY_SECONDS else "there"}


_WORKERS = (
    Column("worker"),
    Column("state"),
    Column("running", right=True),
    Column("done", right=True),
    Column("failed", right=True),
    Column("started (UTC)"),
    Column("seen", right=True),
)
_FAILING = (
    Column("session"),
    Column("owner"),
    Column("failures", right=True),
    Column("tried again", right=True),
)


def _worker_row(view: dict[str, Any]) -> list[str]:
    running = f"{view['running']} of {view['concurrency']}"
    seen = f"{_span(view['unseen_seconds'])} ago"
    counts = [running, f"{view['done']:,}", f"{view['failed']:,}"]
    return [view["id"], view["state"], *counts, sessions.minute(view["started_at"]), seen]


def _failing_row(view: dict[str, Any]) -> list[str]:
    wait: float = view["next_try_seconds"]
    again = f"in {_span(wait)}" if wait else "now"
    return [view["session_key"], view["owner"], f"{view['failures']:,}", again]


def _span(seconds: float) -> str:
    """A length of time in its largest unit that says enough."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
