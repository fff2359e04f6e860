"""The command `onlooker`. The only place that reads the environment and settings files."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker import __version__
from onlooker.cli.corrections import clear, diff, edit, forget, history, prune, undo
from onlooker.cli.demo import demo
from onlooker.cli.doctor import doctor
from onlooker.cli.encryption import decrypt, encrypt, rekey
from onlooker.cli.items import consolidate, items
from onlooker.cli.replay import replay
from onlooker.cli.screen import NOT_THERE, WRONG_USE, Screen, Stop
from onlooker.cli.search import recall, search
from onlooker.cli.sessions import context, extracted, list_notes, list_sessions
from onlooker.cli.settings import settings
from onlooker.cli.target import KEY_FILE, key_file
from onlooker.cli.transfer import backup, export, import_, migrate, restore
from onlooker.cli.worker import status, worker
from onlooker.domain.errors import BudgetError, OnlookerError, SettingsError

app = typer.Typer(
    name="onlooker",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Help as plain text: the same on a terminal, in a pipe and at 60 columns.
    rich_markup_mode=None,
)


def _last(name: str, kind: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


_LAST_OPTIONS = (
    _last(
        "keys",
        Annotated[
            Path | None,
            typer.Option(
                "--key-file", envvar=KEY_FILE, metavar="FILE", help="The key of an encrypted database."
            ),
        ],
        None,
    ),
    _last("quiet", Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")], False),
    _last("no_color", Annotated[bool, typer.Option("--no-color", help="No colour (also NO_COLOR).")], False),
    _last(
        "verbose",
        Annotated[
            int,
            typer.Option(
                "--verbose",
                "-v",
                count=True,
                help="Log to stderr; -vv logs more.",
                show_default=False,
                metavar="",
            ),
        ],
        0,
    ),
)


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """The function as a command.

    Its first argument is the screen, made here; to its own options come those that every command
    has; an error that a caller can act on becomes a line on stderr and an exit code.
    """
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())[1:]

    @functools.wraps(function)
    def run(*, keys: Path | None, quiet: bool, no_color: bool, verbose: int, **given: Any) -> None:
        screen = Screen.of_process(quiet=quiet, no_color=no_color)
        try:
            with _logging(verbose), key_file(keys):
                function(screen, **given)
        except Stop as stop:
            screen.error(str(stop))
            raise typer.Exit(stop.code) from None
        except OnlookerError as error:
            screen.error(str(error))
            wrong_use = isinstance(error, SettingsError | BudgetError)
            raise typer.Exit(WRONG_USE if wrong_use else NOT_THERE) from None

    run.__signature__ = signature.replace(parameters=[*own, *_LAST_OPTIONS])  # pyright: ignore[reportAttributeAccessIssue]
    return run


@contextmanager
def _logging(verbose: int) -> Generator[None]:
    """Log to stderr while the command runs; without -v only what the command cannot say itself."""
    level = (logging.ERROR, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    log = logging.getLogger("onlooker")
    before = log.level
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


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
