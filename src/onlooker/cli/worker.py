"""`worker`: take notes for processes that only record. Also `status --workers`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.screen import Column, CommandError, Screen, UsageError, View, count, minute
from onlooker.cli.target import Target, database_path, existing_database, is_server, key_for
from onlooker.domain.messages import SessionId
from onlooker.engine.memory import Memory
from onlooker.policy.settings import TIMING, Timing
from onlooker.wiring import WorkerMode, open_memory

# How long a worker may take to exit after the second signal.
EXIT_SECONDS = 2.0
# How many failing sessions are listed.
MAX_FAILING = 20


async def worker(
    screen: Screen,
    target: Target,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", min=1, max=256, metavar="N", help="How many sessions at a time."),
    ] = None,
    deadline: Annotated[
        float,
        typer.Option(
            "--deadline", min=0, max=600, metavar="SECONDS", help="How long a stop waits for running work."
        ),
    ] = TIMING.stop_deadline,
    lease: Annotated[
        float,
        typer.Option(
            "--lease",
            min=1,
            max=600,
            metavar="SECONDS",
            help="Seconds without a heartbeat before another worker takes over.",
        ),
    ] = TIMING.lease_seconds,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="PROVIDER:NAME", help="The model that writes the notes."),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the file if it does not exist.")] = False,
) -> None:
    """Take notes for every process that records, until stopped.

    Any number of workers may run, with PostgreSQL on any number of machines. SIGTERM or Ctrl-C lets running
    work complete; a second one ends it.
    """
    settings = target.settings()
    if not settings.enabled:
        raise UsageError("memory is off in the settings (enabled = false)")
    changes: View = {"concurrency": concurrency, "model": model}
    settings = replace(settings, **{name: value for name, value in changes.items() if value is not None})
    timing = Timing(stop_deadline=deadline, lease_seconds=lease)
    place = _place(target.db, create)
    mode: WorkerMode = "queue" if is_server(target.db) else "embedded"
    key = key_for(place)
    _log_warnings()
    try:
        memory = open_memory(place, settings=settings, timing=timing, workers=mode, key=key)
        await _work(screen, memory, timing.stop_deadline)
    except asyncio.CancelledError:
        raise typer.Exit(CommandError.exit_code) from None


def _place(db: str, create: bool) -> str | Path:
    # A missing file is usually a typing error, and a worker that waits for it would print nothing.
    if create and not is_server(db):
        return database_path(db)
    try:
        return existing_database(db)
    except UsageError:
        raise
    except CommandError as error:
        raise CommandError(f"{error}; start an agent that records into it first, or add --create") from None


def _log_warnings() -> None:
    """Log warnings without -v, because nobody watches a service; only ours, not those of libraries."""
    ours = logging.getLogger("onlooker")
    ours.setLevel(min(ours.level, logging.WARNING))
    for name in ("psycopg", "pgqueuer"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


async def _work(screen: Screen, opened: Memory, deadline: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def on_signal() -> None:
        if stop.is_set():
            screen.say("stopping now; unfinished work stays due")
            task.cancel()
            _exit_within(EXIT_SECONDS)
        stop.set()

    with suppress(NotImplementedError):  # Windows, where Ctrl-C ends the process at once
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
    async with opened as memory:
        sessions = count(memory.settings.concurrency, "session")
        screen.say(f"taking notes, {sessions} at a time; Ctrl-C stops")
        await stop.wait()
        if memory.background.pending:
            limit = f"{deadline:g} s"
            screen.say(
                f"stopping: waiting up to {limit} for {memory.background.pending} running; Ctrl-C stops now"
            )


def _exit_within(seconds: float) -> None:
    """Exit by force if a thread still waits for a server. Due work is in the database."""
    timer = threading.Timer(seconds, os._exit, (CommandError.exit_code,))
    timer.daemon = True
    timer.start()


# ------------------------------------------------------------------------------------ status --workers


async def show_workers(screen: Screen, target: Target, as_json: bool) -> None:
    """Print the backlog, the failing sessions and the workers."""
    view = await _workers_view(target)
    if as_json:
        screen.json(view)
        return
    screen.text(_backlog_sentence(view))
    if view["failing"]:
        screen.text("")
        screen.table(_FAILING_COLUMNS, [_failing_row(f) for f in view["failing_sessions"]])
        if view["failing"] > len(view["failing_sessions"]):
            screen.text(f"… and {view['failing'] - len(view['failing_sessions']):,} more")
    workers: list[View] | None = view["workers"]
    screen.text("")
    if workers is None:
        screen.text("A database file does not list its workers.")
    elif not workers:
        screen.text("No workers: start one with `onlooker worker`.")
    else:
        screen.table(_WORKER_COLUMNS, [_worker_row(w) for w in workers])
        if all(w["state"] == "lost" for w in workers):
            screen.text("All of them are lost: start one with `onlooker worker`.")


async def _workers_view(target: Target) -> View:
    async with target.open() as memory:
        now = datetime.now(UTC)
        read_workforce: Any = getattr(memory.store, "workforce", None)
        if read_workforce is None:
            return await _file_backlog(memory, now)
        force = await read_workforce(now)
    failures: tuple[tuple[SessionId, int, datetime], ...] = force.failures
    return {
        "backlog": force.backlog,
        "lag_seconds": force.lag,
        "failing": force.failing,
        "failing_sessions": [_failing_view(*failure, now) for failure in failures],
        "workers": [_worker_view(w) for w in force.workers],
    }


async def _file_backlog(memory: Memory, now: datetime) -> View:
    """The same for a database file, which does not list its workers."""
    waiting = [s.progress for s in await memory.sessions() if s.progress.due_at is not None]
    since = [p.due_at for p in waiting if p.due_at is not None and p.due_at <= now]
    failing = sorted((p for p in waiting if p.failures), key=lambda p: -p.failures)
    views = [_failing_view(p.session, p.failures, p.due_at, now) for p in failing[:MAX_FAILING] if p.due_at]
    return {
        "backlog": len(since),
        "lag_seconds": (now - min(since)).total_seconds() if since else 0.0,
        "failing": len(failing),
        "failing_sessions": views,
        "workers": None,
    }


def _failing_view(session: SessionId, failures: int, due_at: datetime, now: datetime) -> View:
    return {
        "owner": session.owner,
        "session_key": session.key,
        "failures": failures,
        "next_try_at": due_at.isoformat(),
        "next_try_seconds": max(0.0, (due_at - now).total_seconds()),
    }


def _worker_view(worker: Any) -> View:
    view = asdict(worker)
    times = {name: view[name].isoformat() for name in ("started_at", "seen_at")}
    return view | times | {"state": worker.state}


def _backlog_sentence(view: View) -> str:
    due: int = view["backlog"]
    text = "No session is due"
    if due:
        verb = "is" if due == 1 else "are"
        text = f"{count(due, 'session')} {verb} due, the oldest for {_span(view['lag_seconds'])}"
    return f"{text}; {view['failing']:,} failed the last time." if view["failing"] else f"{text}."


_WORKER_COLUMNS = (
    Column("worker"),
    Column("state"),
    Column("running", right=True),
    Column("done", right=True),
    Column("failed", right=True),
    Column("started (UTC)"),
    Column("seen", right=True),
)


def _worker_row(view: View) -> list[str]:
    running = f"{view['running']} of {view['concurrency']}"
    seen = f"{_span(view['unseen_seconds'])} ago"
    counts = [running, f"{view['done']:,}", f"{view['failed']:,}"]
    return [view["id"], view["state"], *counts, minute(view["started_at"]), seen]


_FAILING_COLUMNS = (
    Column("session"),
    Column("owner"),
    Column("failures", right=True),
    Column("next try", right=True),
)


def _failing_row(view: View) -> list[str]:
    wait: float = view["next_try_seconds"]
    again = f"in {_span(wait)}" if wait else "now"
    return [view["session_key"], view["owner"], f"{view['failures']:,}", again]


def _span(seconds: float) -> str:
    """Format a time span in its largest sensible unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
