"""`doctor`: is anything wrong with the installation, the settings or the database?"""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.text import Text

from onlooker.cli.checks import Finding, examine
from onlooker.cli.opening import database_path
from onlooker.cli.options import DEFAULT_DATABASE, ConfigFile, Database, Json
from onlooker.cli.screen import Screen, printable
from onlooker.cli.server_check import examine_server
from onlooker.cli.surface import NOT_THERE
from onlooker.wiring import POSTGRES


def doctor(
    screen: Screen, db: Database = DEFAULT_DATABASE, config: ConfigFile = None, as_json: Json = False
) -> None:
    """Look for what could be wrong, and say what to do about it.

    Nothing is changed. The exit code is 1 where something is wrong.
    """
    if db.startswith(POSTGRES):
        findings = list(examine_server(db, config))
    else:
        findings = list(examine(database_path(db), config))
    if as_json:
        screen.json([asdict(f) for f in findings])
    else:
        screen.show(*(_line(f, drawn=screen.can_draw) for f in findings))
    if not all(f.ok for f in findings):
        raise typer.Exit(NOT_THERE)


def _line(finding: Finding, *, drawn: bool) -> Text:
    good, bad = ("✓", "✗") if drawn else ("ok ", "BAD")
    line = Text(good if finding.ok else bad, style="green" if finding.ok else "bold red", overflow="fold")
    line.append(f" {finding.name}: {printable(finding.found)}", style="default")
    if not finding.ok:
        line.append(f"\n  -> {finding.advice}", style="default")
    return line
