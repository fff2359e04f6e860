"""`settings`: show them, set one, or be asked for those that matter."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.options import ConfigFile, Json
from onlooker.cli.screen import Column, Screen
from onlooker.cli.settings_file import (
    DEFAULT_FILE,
    OWN_SECTION,
    change,
    load_settings,
    read,
    section_of,
    settings_path,
    sources,
)
from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.domain.errors import SettingsError
from onlooker.policy.settings import DEFAULT, KEYS, Settings, allowed, check, possible, preset

MOST_SHOWN = 60  # characters of a value in the table

# The ones worth asking for, and what each is about.
FORM = {
    "preset": "where the other settings start from",
    "budget": "tokens for a whole context",
    "model": "what writes the notes; empty for the built-in one",
    "instruction": "your own words on what to note, for a language model",
    "spend_per_day": "dollars that a language model may cost a day; 0 for any amount",
    "observe_at": "how much may stand raw before notes replace it",
    "keep_recent": "how much stays raw after that",
    "memory_limit": "how much the notes may take",
    "reflect_at": "when notes are condensed",
    "precompute": "write notes ahead of need",
    "compact": "take noted messages out of the live session",
    "retention_days": "days that superseded notes are kept; 0 for ever",
}


class Action(StrEnum):
    """What to do with the settings."""

    show = "show"
    set = "set"
    edit = "edit"


def settings(
    screen: Screen,
    action: Annotated[
        Action, typer.Argument(metavar="[show|set|edit]", help="Show them, set one, or fill in a form.")
    ] = Action.show,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="For set: which one.")] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="For set: to what.")] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the settings, set one, or fill in a form.

    Each is shown with its default and where its value comes from.
    A size is a share of the budget (0.25) or a number of tokens (4000).
    """
    if (action is Action.set) != (key is not None) or (key is None) != (value is None):
        raise Stop("say `settings`, `settings set KEY VALUE` or `settings edit`", WRONG_USE)
    if action is Action.edit:
        _edit(screen, config or DEFAULT_FILE)
    elif key is not None and value is not None:
        _set(screen, config or DEFAULT_FILE, key, value)
    if as_json or action is Action.show:
        _show(screen, config, as_json)


# ------------------------------------------------------------------------------------ show


def _show(screen: Screen, config: Path | None, as_json: bool) -> None:
    path = settings_path(config)
    chosen = load_settings(config)
    origin = sources(path, chosen)
    views: list[dict[str, Any]] = [
        {
            "key": key,
            "value": getattr(chosen, key),
            "default": getattr(DEFAULT, key),
            "source": origin[key],
            "allowed": allowed(key),
        }
        for key in KEYS
    ]
    if as_json:
        screen.json(views)
        return
    columns = [Column("key"), Column("value"), Column("default"), Column("from", text=True)]
    screen.table(columns, [[v["key"], _shown(v["value"]), _shown(v["default"]), v["source"]] for v in views])


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # A long text would push the other columns off the screen; --json has all of it.
    text = " ".join(str(value).split())
    return '""' if value == "" else text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


# ------------------------------------------------------------------------------------ set


def _set(screen: Screen, path: Path, key: str, text: str) -> None:
    change(path, {key: parsed(text)})
    screen.say(f"{path}: {key} = {_shown(parsed(text))}")


def parsed(text: str) -> bool | int | float | str:
    """The value that a word stands for: a switch, a number, or the word itself."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for number in (int, float):
        try:
            return number(word.replace("_", ""))
        except ValueError:
            continue
    return "" if word in ('""', "''") else word


# ------------------------------------------------------------------------------------ edit


def _edit(screen: Screen, path: Path) -> None:
    """Ask key by key. Nothing is written before the last question is answered with yes."""
    written: dict[str, Any] = {}
    if path.exists():
        config = read(path)
        if section_of(config) != (OWN_SECTION,):
            section = ".".join(section_of(config))
            raise Stop(f"{path} has the section {section}: change its keys with `settings set`", WRONG_USE)
        load_settings(path)
        written = dict(config.get(OWN_SECTION, {}))
    screen.say(f"Settings in {path}. Enter keeps what stands in brackets.\n")
    changes: dict[str, Any] = {}
    for key, about in FORM.items():
        current = getattr(_in_effect(written | changes), key)
        answer = _ask(screen, key, about, current)
        if answer != current:
            changes[key] = answer
    if not changes:
        screen.say("Nothing to change.")
        return
    check(_in_effect(written | changes))
    listed = ", ".join(f"{key} = {_shown(value)}" for key, value in changes.items())
    if not screen.confirm(f"\nWrite {listed} to {path}?"):
        raise Stop("nothing was changed", NOT_THERE)
    change(path, changes)
    screen.say("Written.")


def _in_effect(written: dict[str, Any]) -> Settings:
    return replace(preset(written.get("preset", "default")), **written)


def _ask(screen: Screen, key: str, about: str, current: Any) -> Any:
    while True:
        answer = screen.ask(f"{key} ({about}) [{_shown(current)}]: ")
        if answer is None:
            raise Stop("the input ended; nothing was changed", NOT_THERE)
        if not answer:
            return current
        value = parsed(answer)
        if possible(key, value):
            return value
        screen.error(str(SettingsError(key, value, allowed(key))))
