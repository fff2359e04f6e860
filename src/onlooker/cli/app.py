"""The commands, their help, and what they share."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from onlooker import __version__
from onlooker.cli.screen import CommandError, Screen, UsageError
from onlooker.cli.target import KEY_FILE, Target, use_key_file
from onlooker.domain.errors import BudgetError, OnlookerError, SettingsError
from onlooker.policy.text import plain_problem

Command = Callable[..., Awaitable[None] | None]

# The commands by what they are for, as the help lists them, and where their functions are.
GROUPS: dict[str, dict[str, str]] = {
    "Try": {"demo": "demo.demo", "chat": "chat.chat", "replay": "replay.replay"},
    "Look": {
        "sessions": "sessions.list_sessions",
        "list": "sessions.list_notes",
        "status": "sessions.status",
        "context": "context.context",
        "search": "search.search",
        "recall": "search.recall",
        "items": "items.items",
        "extracted": "sessions.extracted",
        "history": "corrections.history",
        "diff": "corrections.diff",
        "forgotten": "corrections.forgotten",
    },
    "Correct": {
        "edit": "corrections.edit",
        "pin": "corrections.pin",
        "undo": "corrections.undo",
        "forget": "corrections.forget",
        "clear": "corrections.clear",
    },
    "Move": {
        "export": "transfer.export",
        "import": "transfer.import_",
        "backup": "transfer.backup",
        "restore": "transfer.restore",
        "migrate": "transfer.migrate",
        "encrypt": "encryption.encrypt",
        "decrypt": "encryption.decrypt",
        "rekey": "encryption.rekey",
    },
    "Run": {
        "settings": "settings.settings",
        "doctor": "doctor.doctor",
        "serve": "serve.serve",
        "mcp": "serve.mcp",
        "hook": "hook_install.hook",
        "token": "serve.token",
        "worker": "worker.worker",
        "prune": "corrections.prune",
        "consolidate": "items.consolidate",
    },
}


# ------------------------------------------------------------------------------------ help


class _Group(TyperGroup):
    """Lists the commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = formatter.width - max(map(len, self.commands)) - 6
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(n, self.commands[n].get_short_help_str(width)) for n in names])


# Depending on its version, Typer bundles click or depends on it.
_ClickUsageError: Any = typer.BadParameter.__bases__[0]


class _Command(TyperCommand):
    """Shows arguments as `FILE` or `[FILE]`, and options without Python type names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _ClickUsageError as error:
            error.message = plain_problem(error.message)
            if "extra argument" in error.message and any(p.name == "session" for p in self.params):
                error.message += "; name a session with --session KEY"
            raise

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        arguments = [_usage(p) for p in self.params if p.param_type_name == "argument"]
        formatter.write_usage(ctx.command_path, " ".join(["[OPTIONS]", *arguments]))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            name, about = parameter.get_help_record(ctx) or ("", "")
            if parameter.param_type_name == "argument":
                rows["Arguments"].append((_argument_name(parameter), about.replace("  [required]", "")))
            elif name:
                rows["Options"].append((re.sub(r"<list\[(.*)\]>", r"<\1>", name), about))
        for title, lines in rows.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


def _argument_name(argument: Any) -> str:
    metavar: str = argument.metavar or argument.name.upper()
    return metavar.removeprefix("[").removesuffix("]")


def _usage(argument: Any) -> str:
    name = _argument_name(argument) if argument.required else f"[{_argument_name(argument)}]"
    return name if argument.nargs == 1 else f"{name}..."


def make(names: Collection[str]) -> typer.Typer:
    """The command line with these commands."""
    made = typer.Typer(
        name="onlooker",
        cls=_Group,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        # Help as plain text: the same on a terminal, in a pipe and at 60 columns.
        rich_markup_mode=None,
    )
    made.callback()(onlooker)
    for commands in GROUPS.values():
        for name, place in commands.items():
            if name in names:
                module, _, function = place.partition(".")
                found: Command = getattr(import_module(f"onlooker.cli.{module}"), function)
                made.command(name, cls=_Command)(_as_command(found))
    return made


@functools.cache
def app() -> typer.Typer:
    """The whole command line."""
    return make([name for commands in GROUPS.values() for name in commands])


def run() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # A conversation may hold characters that the terminal's encoding lacks: a question mark is better
        # than a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    asked = sys.argv[1:2]
    is_known = any(name in commands for commands in GROUPS.values() for name in asked)
    # To load all of them takes as long as many a command does.
    command_line = make(asked) if is_known else app()
    command_line()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onlooker {__version__}")
        raise typer.Exit


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


def _as_command(function: Command) -> Callable[..., None]:
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
            names_db = isinstance(error, SettingsError) and error.key == "url"
            screen.error(f"--db {str(error).removeprefix('url = ')}" if names_db else str(error))
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
