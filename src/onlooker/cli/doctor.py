"""`doctor`: check the installation, the settings and the database. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer
from rich.text import Text

from onlooker.checkup import Finding, check
from onlooker.cli.hook import LOG, failures, home
from onlooker.cli.screen import CommandError, Json, Screen, printable
from onlooker.cli.target import Target, database_path, is_server, key_for
from onlooker.policy.text import count


def doctor(screen: Screen, target: Target, as_json: Json = False) -> None:
    """Check the installation, the settings and the database.

    Nothing is changed. Each problem is printed with advice, and the exit code is then 1.
    """
    db = target.db if is_server(target.db) else database_path(target.db)
    findings = [*check(db, target.config, key_for), *_check_hooks()]
    if as_json:
        screen.json([asdict(f) for f in findings])
    else:
        screen.show(*(_line(f, drawn=screen.can_draw) for f in findings))
    if not all(f.ok for f in findings):
        raise typer.Exit(CommandError.exit_code)


def _check_hooks() -> Iterator[Finding]:
    """Report failures of coding agents' hooks, which print nothing themselves."""
    if not (lines := failures()):
        return
    since = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    recent = [line for line in lines if line >= since]
    found = f"{count(len(recent), 'failure')} in the last day" + (f"; {recent[-1]}" if recent else "")
    yield Finding("hooks", not recent, found, f"see {Path(home(), LOG)}; the agents continue without memory")


def _line(finding: Finding, *, drawn: bool) -> Text:
    good, bad = ("✓", "✗") if drawn else ("ok ", "BAD")
    line = Text(good if finding.ok else bad, style="green" if finding.ok else "bold red", overflow="fold")
    line.append(f" {finding.name}: {printable(finding.found)}", style="default")
    if not finding.ok:
        line.append(f"\n  -> {finding.advice}", style="default")
    return line
