"""The command `onlooker`. The only place that reads the environment and settings files."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from onlooker import __version__
from onlooker.cli.backup import backup, restore
from onlooker.cli.clear import clear
from onlooker.cli.consolidate import consolidate
from onlooker.cli.context import context
from onlooker.cli.demo import demo
from onlooker.cli.doctor import doctor
from onlooker.cli.edit import edit
from onlooker.cli.encrypt import decrypt, encrypt, rekey
from onlooker.cli.export import export, import_
from onlooker.cli.extracted import extracted
from onlooker.cli.forget import forget
from onlooker.cli.history import diff, history
from onlooker.cli.items import items
from onlooker.cli.listing import list_notes, list_sessions
from onlooker.cli.migrate import migrate
from onlooker.cli.prune import prune
from onlooker.cli.recall import recall
from onlooker.cli.replay import replay
from onlooker.cli.search import search
from onlooker.cli.settings import settings
from onlooker.cli.surface import as_command
from onlooker.cli.undo import undo
from onlooker.cli.worker import status, worker

app = typer.Typer(
    name="onlooker",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Help as plain text: the same on a terminal, in a pipe and at 60 columns.
    rich_markup_mode=None,
)

for name, function in {
    "demo": demo,
    "replay": replay,
    "sessions": list_sessions,
    "list": list_notes,
    "status": status,
    "extracted": extracted,
    "items": items,
    "consolidate": consolidate,
    "context": context,
    "search": search,
    "recall": recall,
    "edit": edit,
    "history": history,
    "diff": diff,
    "undo": undo,
    "forget": forget,
    "clear": clear,
    "prune": prune,
    "export": export,
    "import": import_,
    "backup": backup,
    "restore": restore,
    "migrate": migrate,
    "encrypt": encrypt,
    "decrypt": decrypt,
    "rekey": rekey,
    "settings": settings,
    "doctor": doctor,
    "worker": worker,
}.items():
    app.command(name)(as_command(function))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onlooker {__version__}")
        raise typer.Exit


@app.callback()
def onlooker(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Memory for LLM agents: dated notes of a conversation, and a context that always fits.

    Try `onlooker demo`.
    """


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # What a conversation holds may not be sayable in the terminal's encoding: better a question
        # mark than a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()
