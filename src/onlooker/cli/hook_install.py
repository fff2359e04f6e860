"""`hook`: the command, and its installation into the settings of Claude Code and Codex."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import shutil
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from onlooker import atomic
from onlooker.cli.hook import AGENTS, DEADLINE, EVENTS, Options, run
from onlooker.cli.screen import CommandError, Screen, UsageError
from onlooker.cli.target import DryRun


class Agent(StrEnum):
    """A coding agent."""

    claude = "claude"
    codex = "codex"


class Scope(StrEnum):
    """Whose settings."""

    project = "project"
    user = "user"


# Matches our hooks, however the program is called.
_OURS = re.compile(r"""\bonlooker(?:\.exe)?["']?\s+hook\s+[A-Z]""")


def hook(
    screen: Screen,
    action: Annotated[
        str,
        typer.Argument(metavar="EVENT|install|uninstall|notes", help="The event, or the action."),
    ],
    agent: Annotated[
        Agent | None, typer.Option("--agent", help="The coding agent; install and uninstall default to both.")
    ] = None,
    scope: Annotated[
        Scope, typer.Option("--scope", help="For install and uninstall: whose settings.")
    ] = Scope.project,
    db: Annotated[
        str,
        typer.Option(
            "--db",
            envvar="ONLOOKER_DB",
            metavar="PATH",
            help="The database file, or a postgresql:// address; ~/.onlooker/memory.db by default.",
        ),
    ] = "",
    owner: Annotated[
        str, typer.Option("--owner", metavar="NAME", help="Whose memory; the project folder by default.")
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            envvar="ONLOOKER_CONFIG",
            metavar="FILE",
            help="Settings, TOML or JSON; ~/.onlooker/onlooker.toml if it exists.",
        ),
    ] = None,
    deadline: Annotated[
        float,
        typer.Option("--deadline", min=0.1, metavar="SECONDS", help="How long the agent waits at most."),
    ] = DEADLINE,
    dry_run: DryRun = False,
    debug: Annotated[bool, typer.Option("--debug", help="Also print failures to stderr.")] = False,
) -> None:
    """Memory for Claude Code and Codex: `onlooker hook install`.

    The agents call it with an event's name, and the event as JSON on stdin. SessionStart and UserPromptSubmit
    return a context; Stop, PreCompact and SessionEnd record the session and take notes. The exit code of an
    event is always 0.
    """
    given = Options(agent or Agent.claude, db, owner, str(config or ""), deadline=deadline, debug=debug)
    if action not in ("install", "uninstall"):
        if action != "notes" and not action[:1].isupper():
            raise UsageError(f"{action!r} must be install, uninstall, notes or one of {', '.join(EVENTS)}")
        screen.text(run(action, given, sys.stdin))
        return
    given = given._replace(db=_absolute(db), config=_absolute(str(config or "")))
    for name in [agent] if agent else [Agent(each) for each in AGENTS]:
        path = settings_file(name, scope)
        before = _read(path)
        after = without_hooks(before)
        if action == "install":
            after = with_hooks(after, given._replace(agent=name))
        _write(screen, path, before, after, f"{action}ed", dry_run)
        if action == "install" and name is Agent.codex and after != before:
            screen.say("Codex runs hooks only after you have reviewed them: type /hooks in Codex.")


def _absolute(place: str) -> str:
    return place if not place or "://" in place else str(Path(place).expanduser().absolute())


def settings_file(agent: Agent, scope: Scope) -> Path:
    """Return the settings file of an agent. In a project it is the one that is not shared with others: hooks
    contain a path on this machine."""
    if agent is Agent.claude:
        if scope is Scope.project:
            return Path(".claude", "settings.local.json")
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude", "settings.json")
    if scope is Scope.project:
        return Path(".codex", "hooks.json")
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex", "hooks.json")


# ------------------------------------------------------------------------------------ the settings


def with_hooks(settings: dict[str, Any], options: Options) -> dict[str, Any]:
    """Return the settings with our hooks, one for each event."""
    changed = copy.deepcopy(settings)
    hooks = changed.setdefault("hooks", {})
    for event in EVENTS:
        command = shlex.join([*program(), "hook", event, *options.arguments()])
        ours = {"type": "command", "command": command, "timeout": int(2 * options.deadline) + 1}
        hooks.setdefault(event, []).append({"hooks": [ours]})
    return changed


def without_hooks(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without our hooks. Other hooks stay in their groups."""
    changed = copy.deepcopy(settings)
    hooks = changed.get("hooks")
    if not isinstance(hooks, dict):
        return changed
    events = cast("dict[str, Any]", hooks)
    for event, groups in list(events.items()):
        if not isinstance(groups, list):
            continue
        kept = [group for group in map(_without_ours, cast("list[Any]", groups)) if group is not None]
        if kept:
            events[event] = kept
        elif groups:
            del events[event]
    if not events:
        del changed["hooks"]
    return changed


def _without_ours(group: Any) -> Any:
    """Return a group of hooks without ours; None if nothing is left."""
    about = cast("dict[str, Any]", group if isinstance(group, dict) else {})
    hooks: list[Any] = about["hooks"] if isinstance(about.get("hooks"), list) else []
    kept = [entry for entry in hooks if not _is_ours(entry)]
    if len(kept) == len(hooks):
        return cast("Any", group)
    return {**about, "hooks": kept} if kept else None


def _is_ours(entry: Any) -> bool:
    command: Any = cast("dict[str, Any]", entry).get("command") if isinstance(entry, dict) else None
    return isinstance(command, str) and bool(_OURS.search(command))


def program() -> list[str]:
    """Return the command that starts this program from any folder."""
    found = Path(sys.argv[0])
    if found.stem == "onlooker" and found.is_file():
        return [str(found.absolute())]
    found = Path(sys.executable).with_name("onlooker")
    if found.is_file():
        return [str(found)]
    return [sys.executable, "-m", "onlooker"]


# ------------------------------------------------------------------------------------ the file


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: cannot be read: {error}") from error
    try:
        found: object = json.loads(text or "{}")
    except ValueError as error:
        raise CommandError(f"{path}: not valid JSON, so it was not changed: {error}") from error
    settings = cast("dict[str, Any]", found) if isinstance(found, dict) else None
    if settings is None or not isinstance(settings.get("hooks", {}), dict):
        raise CommandError(f'{path}: "hooks" is not an object, so the file was not changed')
    return settings


def _write(
    screen: Screen, path: Path, before: dict[str, Any], after: dict[str, Any], done: str, dry_run: bool
) -> None:
    if after == before:
        screen.say(f"{path}: nothing to change")
        return
    text = json.dumps(after, indent=_indent(path), ensure_ascii=False) + "\n"
    is_empty = not after and not path.is_symlink()  # it had nothing but our hooks
    if dry_run:
        screen.say(f"{path} would be removed" if is_empty else f"{path} would be:")
        screen.text("" if is_empty else text)
        return
    real = path.resolve()
    try:
        if is_empty:
            real.unlink()
            screen.say(f"{path}: {done}, and removed: it had nothing else")
            return
        real.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600
        if real.exists():
            mode = real.stat().st_mode & 0o777
            copied = real.with_name(f"{real.name}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}.bak")
            shutil.copy2(real, copied)
            screen.say(f"{path}: backed up to {copied.name}")
        atomic.write(real, text.encode(), mode=mode)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error.strerror or error}") from error
    screen.say(f"{path}: {done}")


def _indent(path: Path) -> int | str:
    """Return the indentation of the file."""
    if path.exists() and (found := re.search(r"\n([ \t]+)\S", path.read_text(encoding="utf-8"))):
        return found[1]
    return 2
