"""`settings`: show the settings, set or unset one, or fill in a form."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError, View
from onlooker.domain.errors import SettingsError
from onlooker.policy.config import Section, from_mapping
from onlooker.policy.settings import DEFAULT, KEYS, allowed, possible, preset
from onlooker.settings_file import (
    DEFAULT_FILE,
    OTHER_SECTIONS,
    change_file,
    is_written,
    load_settings,
    parse_value,
    read_file,
    section_of,
    settings_path,
    sources,
    written_in,
)

MEMORY_IS_OFF = "memory is off in the settings file: no notes are taken"
MAX_SHOWN_LENGTH = 60  # characters of a value in the table

# The settings that the form asks for, with a description of each. In the section of a founding system it asks
# for the keys of that section, with the description of ours.
FORM = {
    "enabled": "memory on or off",
    "preset": "the defaults of the other settings",
    "budget": "tokens for a whole context",
    "model": "what writes the notes, as PROVIDER:NAME; empty for the agent's own or the built-in model",
    "instruction": "what to note, in your own words, for a language model",
    "spend_per_day": "limit in dollars for a language model per day; 0 for no limit",
    "observe_at": "size of the raw messages at which notes replace them",
    "keep_recent": "size of the raw messages kept after that",
    "message_limit": "size limit of the raw messages in the prompt",
    "memory_limit": "size limit of the notes",
    "max_observations": "how many observations the prompt may hold; 0 for no limit",
    "max_reflections": "how many reflections the prompt may hold; 0 for no limit",
    "reflect_at": "size of the notes at which they are condensed",
    "consolidate_at": "how many reflections are condensed into one",
    "precompute": "write notes before they are needed",
    "compact": "remove noted messages from the live session",
    "retention_days": "days to keep superseded notes; 0 for no limit",
}
_OTHERS = {
    "provider": "whose model writes the notes; empty for the agent's own",
    "cross_session_limit": "size limit of the facts of other sessions",
    "chunk_messages": "how many messages one observation covers",
    "block_after": "size of the raw messages at which a turn waits; 0 for never",
}

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="ONLOOKER_CONFIG",
        metavar="FILE",
        help="Settings, TOML or JSON; ./onlooker.toml if it exists.",
    ),
]


class Action(StrEnum):
    """What to do with the settings."""

    show = "show"
    set = "set"
    unset = "unset"
    edit = "edit"


def settings(
    screen: Screen,
    action: Annotated[
        Action,
        typer.Argument(
            metavar="[show|set|unset|edit]", help="Show all, set or unset one, or fill in a form."
        ),
    ] = Action.show,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="For set and unset: the setting.")
    ] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="For set: its new value.")] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the settings, set or unset one, or fill in a form.

    Each setting is shown with its default and the source of its value. A size is a share of the budget
    (0.25) or a number of tokens (4000). A program reads the file with open_memory(settings="onlooker.toml").
    """
    if _ARGUMENTS[action] != (key is not None, value is not None):
        raise UsageError("use `settings`, `settings set KEY VALUE`, `settings unset KEY` or `settings edit`")
    path = config or DEFAULT_FILE
    if action is Action.edit:
        _fill_in_form(screen, path)
    elif value is not None:
        change_file(path, {key or "": parse_value(value)})
        screen.say(f"{path}: {key} = {_shown(parse_value(value))}")
    elif key is not None:
        removed = is_written(path, key)
        if removed:
            change_file(path, {}, remove=key)
        screen.say(f"{path}: {key} is {'no longer' if removed else 'not'} set")
    if as_json or action is Action.show:
        _show(screen, config, as_json)


# Whether an action takes a key, and a value.
_ARGUMENTS = {
    Action.show: (False, False),
    Action.set: (True, True),
    Action.unset: (True, False),
    Action.edit: (False, False),
}


def _show(screen: Screen, config: Path | None, as_json: bool) -> None:
    chosen = load_settings(config)
    source = sources(settings_path(config), chosen)
    views: list[View] = [
        {
            "key": key,
            "value": getattr(chosen, key),
            "default": getattr(DEFAULT, key),
            "source": source[key],
            "allowed": allowed(key),
        }
        for key in KEYS
    ]
    columns = (Column("key"), Column("value"), Column("default"), Column("source", text=True))
    screen.results(views, as_json, columns, _row, empty="")


def _row(view: View) -> list[str]:
    return [view["key"], _shown(view["value"]), _shown(view["default"]), view["source"]]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # A long text would push the other columns off the screen; --json prints all of it.
    text = " ".join(str(value).split())
    return (
        '""' if value == "" else text if len(text) <= MAX_SHOWN_LENGTH else text[: MAX_SHOWN_LENGTH - 1] + "…"
    )


# ------------------------------------------------------------------------------------ the form


def _fill_in_form(screen: Screen, path: Path) -> None:
    """Ask for each setting. Nothing is written before the last question is answered with yes."""
    config = read_file(path)
    from_mapping(config)
    section = section_of(config)
    other = OTHER_SECTIONS.get(section)
    written: dict[str, Any] = dict(written_in(config, section) or {})
    screen.say(f"Settings in {path}. Press Enter to keep the value in brackets.\n")
    changes: dict[str, Any] = {}
    for key, description in _questions(other).items():
        current = _current(other, written | changes, key)
        answer = _ask(screen, key, description, current, other)
        if answer != current:
            changes[key] = answer
    if not changes:
        screen.say("Nothing to change.")
        return
    from_mapping(_nested(section, written | changes))
    listed = ", ".join(f"{key} = {_shown(value)}" for key, value in changes.items())
    if not screen.confirm(f"\nWrite {listed} to {path}?"):
        raise CommandError("nothing was changed")
    change_file(path, changes)
    screen.say("Written.")


def _questions(other: Section | None) -> dict[str, str]:
    """Return the settings that the form asks for, with a description of each."""
    if other is None:
        return FORM
    described = FORM | _OTHERS
    keys = {**other.keys, **{key: key for key in other.model_keys}}
    return {key: described[ours] for key, ours in keys.items()}


def _current(other: Section | None, written: dict[str, Any], key: str) -> Any:
    if key in written:
        return written[key]
    if other and key in other.model_keys:
        return ""
    if other:
        # The default of a key may depend on another key.
        return getattr(from_mapping(_nested(other.path, written)), other.keys[key])
    return getattr(preset(written.get("preset", "default")), key)


def _nested(section: tuple[str, ...], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Nest the values under the names of their section, as a file has them."""
    for name in reversed(section):
        values = {name: values}
    return values


def _ask(screen: Screen, key: str, description: str, current: Any, other: Section | None) -> Any:
    while True:
        answer = screen.ask(f"{key} ({description}) [{_shown(current)}]: ")
        if answer is None:
            raise CommandError("the input ended; nothing was changed")
        if not answer:
            return current
        value = parse_value(answer)
        try:
            if other:
                other.check_value(key, value)
            elif not possible(key, value):
                raise SettingsError(key, value, allowed(key))
        except SettingsError as error:
            screen.error(str(error))
        else:
            return value
