"""The commands, their help, and what they share."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import fields
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from onlooker import __version__
from onlooker.cli.chat import chat
from onlooker.cli.context import context
from onlooker.cli.corrections import clear, diff, edit, forget, forgotten, history, pin, prune, undo
from onlooker.cli.demo import demo
from onlooker.cli.doctor import doctor
from onlooker.cli.encryption import decrypt, encrypt, rekey
from onlooker.cli.hook_install import hook
from onlooker.cli.items import consolidate, items
from onlooker.cli.replay import replay
from onlooker.cli.screen import CommandError, Screen, UsageError
from onlooker.cli.search import recall, search
from onlooker.cli.serve import mcp, serve, token
from onlooker.cli.sessions import extracted, list_notes, list_sessions, status
from onlooker.cli.settings import settings
from onlooker.cli.target import KEY_FILE, Target, use_key_file
from onlooker.cli.transfer import backup, export, import_, migrate, restore
from onlooker.cli.worker import worker
from onlooker.domain.errors import BudgetError, OnlookerError, SettingsError

Command = Callable[..., Awaitable[None] | None]

# The commands by what they are for, as the help lists them.
GROUPS: dict[str, dict[str, Command]] = {
    "Try": {"demo": demo, "chat": chat, "replay": replay},
    "Look": {
        "sessions": list_sessions,
        "list": list_notes,
        "status": status,
        "context": context,
        "search": search,
        "recall": recall,
        "items": items,
        "extracted": extracted,
        "history": history,
        "diff": diff,
        "forgotten": forgotten,
    },
    "Correct": {"edit": edit, "pin": pin, "undo": undo, "forget": forget, "clear": clear},
    "Move": {
        "export": export,
        "import": import_,
        "backup": backup,
        "restore": restore,
        "migrate": migrate,
        "encrypt": encrypt,
        "decrypt": decrypt,
        "rekey": rekey,
    },
    "Run": {
        "settings": settings,
        "doctor": doctor,
        "serve": serve,
        "mcp": mcp,
        "hook": hook,
        "token": token,
        "worker": worker,
        "prune": prune,
        "consolidate": consolidate,
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


# Typer has click beside it or inside it, depending on its version.
_WrongUsage: Any = typer.BadParameter.__bases__[0]


class _Command(TyperCommand):
    """Shows arguments as `FILE` or `[FILE]`, and options without the words of Python's types."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _WrongUsage as error:
            if "extra argument" in error.message and any(p.name == "session" for p in self.params):
                error.message += "; a session is named by --session KEY"
            raise

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        arguments = [_shown(p) for p in self.params if p.param_type_name == "argument"]
        formatter.write_usage(ctx.command_path, " ".join(["[OPTIONS]", *arguments]))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            name, about = parameter.get_help_record(ctx) or ("", "")
            if parameter.param_type_name == "argument":
                rows["Arguments"].append((_bare(parameter), about.replace("  [required]", "")))
            elif name:
                rows["Options"].append((re.sub(r"<list\[(.*)\]>", r"<\1>", name), about))
        for title, shown in rows.items():
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)


def _bare(argument: Any) -> str:
    metavar: str = argument.metavar or argument.name.upper()
    return metavar.removeprefix("[").removesuffix("]")


def _shown(argument: Any) -> str:
    name = _bare(argument) if argument.required else f"[{_bare(argument)}]"
    return name if argument.nargs == 1 else f"{name}..."


app = typer.Typer(
    name="onlooker",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Help as plain text: the same on a terminal, in a pipe and at 60 columns.
    rich_markup_mode=None,
)


def run() -> None:
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


for _commands in GROUPS.values():
    for _name, _function in _commands.items():
        app.command(_name, cls=_Command)(_as_command(_function))
