"""What every command has in common: its screen, its last options, and how errors end it."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.keys import KEY_FILE, key_file
from onlooker.cli.screen import Screen
from onlooker.domain.errors import BudgetError, OnlookerError, SettingsError

# Exit codes: 0 is done.
NOT_THERE = 1  # what was asked for is not there, was declined, or failed
WRONG_USE = 2  # an argument or a setting cannot work


class Stop(Exception):
    """End the command with one clear line for the person, and an exit code for the script."""

    def __init__(self, message: str, code: int = NOT_THERE) -> None:
        self.code = code
        super().__init__(message)


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
