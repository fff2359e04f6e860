"""The command `onlooker`. Only this package reads the environment, or a settings file that is not named."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import fields
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from onlooker import __version__
from onlooker.cli.context import context
from onlooker.cli.corrections import clear, diff, edit, forget, history, prune, undo
from onlooker.cli.demo import demo
from onlooker.cli.doctor import doctor
from onlooker.cli.encryption import decrypt, encrypt, rekey
from onlooker.cli.items import consolidate, items
from onlooker.cli.replay import replay
from onlooker.cli.screen import CommandError, Screen, UsageError
from onlooker.cli.search import recall, search
from onlooker.cli.sessions import extracted, list_notes, list_sessions, status
from onlooker.cli.settings import settings
from onlooker.cli.target import KEY_FILE, Target, use_key_file
from onlooker.cli.transfer import backup, export, import_, migrate, restore
from onlooker.cli.worker import worker
from onlooker.domain.errors import BudgetError, OnlookerError, SettingsError

COMMANDS: dict[str, Callable[..., Awaitable[None] | None]] = {
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
}

app = typer.Typer(
    name="onlooker",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Help as plain text: the same on a terminal, in a pipe and at 60 columns.
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # A conversation may hold characters that the terminal's encoding lacks: a question mark is better
        # than a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


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


# ------------------------------------------------------------------------------------ commands


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_SHARED_OPTIONS = (
    _option(
        "key_file",
        Annotated[
            Path | None,
            typer.Option(
                "--key-file", envvar=KEY_FILE, metavar="FILE", help="The key of an encrypted database."
            ),
        ],
        None,
    ),
    _option("quiet", Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")], False),
    _option(
        "no_color", Annotated[bool, typer.Option("--no-color", help="No colour (also NO_COLOR).")], False
    ),
    _option(
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


def _as_command(function: Callable[..., Awaitable[None] | None]) -> Callable[..., None]:
    """Turn a function into a command.

    The function's first argument is the screen. A parameter of a Target class becomes the options of that
    class. Every command gets the shared options. An error that a caller can act on becomes a line on stderr
    and an exit code.
    """
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())[1:]
    targets = {p.name: p.annotation for p in own if _is_target(p.annotation)}

    @functools.wraps(function)
    def run(*, key_file: Path | None, quiet: bool, no_color: bool, verbose: int, **given: Any) -> None:
        screen = Screen.of_process(quiet=quiet, no_color=no_color)
        for name, target in targets.items():
            given[name] = target(**{field.name: given.pop(field.name) for field in fields(target)})
        try:
            with _logging(verbose), use_key_file(key_file):
                done = function(screen, **given)
                if inspect.iscoroutine(done):
                    asyncio.run(done)
        except CommandError as error:
            screen.error(str(error))
            raise typer.Exit(error.exit_code) from None
        except OnlookerError as error:
            screen.error(str(error))
            invalid = isinstance(error, SettingsError | BudgetError)
            raise typer.Exit((UsageError if invalid else CommandError).exit_code) from None

    # Typer builds the options from the signature.
    # The options of a target come after the command's own, and --json after those.
    own.sort(key=lambda p: (p.name == "as_json", p.name in targets))
    options = [option for p in own for option in _options_of(p)] + list(_SHARED_OPTIONS)
    run.__signature__ = inspect.Signature(options)  # pyright: ignore[reportAttributeAccessIssue]
    return run


def _is_target(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Target)


def _options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    if not _is_target(parameter.annotation):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    hints = get_type_hints(parameter.annotation, include_extras=True)
    return [_option(field.name, hints[field.name], field.default) for field in fields(parameter.annotation)]


@contextmanager
def _logging(verbose: int) -> Generator[None]:
    """Log to stderr while the command runs; without -v only errors."""
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


for _name, _function in COMMANDS.items():
    app.command(_name)(_as_command(_function))
