"""`onlooker worker` on a database file: one that is there, and one that is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.acceptance.command_line import call, environment

from onlooker import blocking


def started(folder: Path, *options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "onlooker", "worker", *map(str, options)]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment())


def stopped(worker: subprocess.Popen[str]) -> int:
    """End it as a supervisor does."""
    worker.send_signal(signal.SIGTERM)
    try:
        worker.communicate(timeout=120)
    finally:
        worker.kill()
    return worker.returncode


@pytest.mark.parametrize("name", ["typo.db", "sqlite:///typo.db"])
def test_a_file_that_is_not_there_is_an_error_and_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("worker", "--db", name)
    assert done.code == call("sessions", "--db", name).code == 1
    assert done.err.startswith("onlooker: typo.db: no such database (set --db PATH or ONLOOKER_DB)")
    assert "start an agent that records into it first, or add --create" in done.err
    assert os.listdir(tmp_path) == []


def test_a_worker_on_what_keeps_nothing_is_refused() -> None:
    for options in ([], ["--create"]):
        done = call("worker", "--db", ":memory:", *options)
        assert (done.code, "name a file" in done.err) == (2, True)


def test_a_worker_that_is_started_first_makes_the_file_where_it_is_told_to(tmp_path: Path) -> None:
    worker = started(tmp_path, "--db", "agent.db", "--create")
    assert worker.stderr is not None
    assert "taking notes" in worker.stderr.readline()
    assert (tmp_path / "agent.db").is_file()
    with blocking.open_memory(tmp_path / "agent.db", workers="external", budget=1_000) as memory:
        session = memory.session("a")
        for n in range(60):
            session.record(
                {"role": "user", "content": f"On day {n} order {n}-1431 went to Oslo by rail. " * 8}
            )
        deadline = time.monotonic() + 120
        while not session.notes(statuses=("active", "buffered")):
            assert time.monotonic() < deadline, "no notes were taken"
            time.sleep(0.05)
    assert stopped(worker) == 0


def test_a_file_that_is_there_needs_no_option(tmp_path: Path) -> None:
    with blocking.open_memory(tmp_path / "agent.db") as memory:
        memory.session("a").record({"role": "user", "content": "hello"})
    worker = started(tmp_path, "--db", "agent.db")
    assert worker.stderr is not None
    assert "taking notes" in worker.stderr.readline()
    assert stopped(worker) == 0
