"""Running the command: as a real process where its surface matters, in this one where it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer
import typer.testing

from onlooker.cli.app import app
from onlooker.demo import conversation

# A runner makes all commands anew for each call, which takes longer than most of them do.
setattr(typer.testing, "_get_command", cache(typer.main.get_command))  # noqa: B010


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(**more: str) -> dict[str, str]:
    """This process's environment without what would steer the command."""
    steering = ("ONLOOKER_DB", "ONLOOKER_CONFIG", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING")
    return {k: v for k, v in os.environ.items() if k not in steering} | more


def call(*arguments: object, input: str | None = None, **environ: str) -> Done:
    """Run the command in this process."""
    runner = typer.testing.CliRunner(
        env={"ONLOOKER_DB": None, "ONLOOKER_CONFIG": None, "COLUMNS": None, **environ}
    )
    result = runner.invoke(app(), [str(a) for a in arguments], input=input)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def run(*arguments: object, cwd: Path, input: str | None = "", **environ: str) -> Done:
    """Run the command as a process of its own, in a pipe; `input=None` closes its standard input."""
    command = [sys.executable, "-m", "onlooker", *map(str, arguments)]
    if input is None:
        command = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    result = subprocess.run(
        command,
        cwd=cwd,
        input=input or "",
        env=environment(PYTHONIOENCODING="utf-8") | environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    return Done(result.returncode, result.stdout, result.stderr)


def write_transcript(path: Path, messages: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(m) + "\n" for m in messages), encoding="utf-8")
    return path


def make_database(folder: Path, *keys: str, messages: int = 120, budget: int = 2000) -> Path:
    """A database with the begin of the demo's conversation under each key."""
    transcript = write_transcript(folder / "begin.jsonl", conversation()[:messages])
    for key in keys:
        done = call(
            "replay", transcript, "--db", folder / "agent.db", "--session", key, "--budget", budget, "--json"
        )
        assert done.code == 0, done.err
    return folder / "agent.db"
