"""`settings`: show the settings, set one, or fill in a form. Also reads and changes the settings file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import tomlkit
import typer
from tomlkit.exceptions import TOMLKitError

from onlooker import atomic
from onlooker.cli.screen import Column, CommandError, Json, Screen, UsageError, View
from onlooker.domain.errors import SettingsError
from onlooker.policy.config import from_mapping
from onlooker.policy.settings import DEFAULT, KEYS, PRESETS, Settings, allowed, check, possible, preset

DEFAULT_FILE = Path("onlooker.toml")
OWN_SECTION = "onlooker"
# The section of each founding system, as a path of keys, and the preset it starts from.
_OTHER_SECTIONS: dict[tuple[str, ...], str] = {
    ("observationalMemory",): "lango",
    ("memory", "compression"): "zora",
}
MAX_SHOWN_LENGTH = 60  # characters of a value in the table

# The settings that the form asks for, with a description of each.
FORM = {
    "preset": "the defaults of the other settings",
    "budget": "tokens for a whole context",
    "model": "what writes the notes; empty for the built-in model",
    "instruction": "what to note, in your own words, for a language model",
    "spend_per_day": "limit in dollars for a language model per day; 0 for no limit",
    "observe_at": "size of the raw messages at which notes replace them",
    "keep_recent": "size of the raw messages kept after that",
    "memory_limit": "size limit of the notes",
    "reflect_at": "size of the notes at which they are condensed",
    "precompute": "write notes before they are needed",
    "compact": "remove noted messages from the live session",
    "retention_days": "days to keep superseded notes; 0 for ever",
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
    edit = "edit"


def settings(
    screen: Screen,
    action: Annotated[
        Action, typer.Argument(metavar="[show|set|edit]", help="Show all, set one, or fill in a form.")
    ] = Action.show,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="For set: the setting.")] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="For set: its new value.")] = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the settings, set one, or fill in a form.

    Each setting is shown with its default and the source of its value. A size is a share of the budget
    (0.25) or a number of tokens (4000).
    """
    if (action is Action.set) != (key is not None) or (key is None) != (value is None):
        raise UsageError("use `settings`, `settings set KEY VALUE` or `settings edit`")
    path = config or DEFAULT_FILE
    if action is Action.edit:
        _fill_in_form(screen, path)
    elif key is not None and value is not None:
        change_file(path, {key: parse_value(value)})
        screen.say(f"{path}: {key} = {_shown(parse_value(value))}")
    if as_json or action is Action.show:
        _show(screen, config, as_json)


def _show(screen: Screen, config: Path | None, as_json: bool) -> None:
    chosen = load_settings(config)
    source = _sources(settings_path(config), chosen)
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


def parse_value(text: str) -> bool | int | float | str:
    """Parse a boolean or a number. Anything else is a string."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for number in (int, float):
        try:
            return number(word.replace("_", ""))
        except ValueError:
            continue
    return "" if word in ('""', "''") else word


# ------------------------------------------------------------------------------------ the form


def _fill_in_form(screen: Screen, path: Path) -> None:
    """Ask for each setting. Nothing is written before the last question is answered with yes."""
    written: dict[str, Any] = {}
    if path.exists():
        config = _read(path)
        if _section_of(config) != (OWN_SECTION,):
            section = ".".join(_section_of(config))
            raise UsageError(f"{path} has the section {section}: change its keys with `settings set`")
        load_settings(path)
        written = dict(config.get(OWN_SECTION, {}))
    screen.say(f"Settings in {path}. Press Enter to keep the value in brackets.\n")
    changes: dict[str, Any] = {}
    for key, description in FORM.items():
        current = getattr(_in_effect(written | changes), key)
        answer = _ask(screen, key, description, current)
        if answer != current:
            changes[key] = answer
    if not changes:
        screen.say("Nothing to change.")
        return
    check(_in_effect(written | changes))
    listed = ", ".join(f"{key} = {_shown(value)}" for key, value in changes.items())
    if not screen.confirm(f"\nWrite {listed} to {path}?"):
        raise CommandError("nothing was changed")
    change_file(path, changes)
    screen.say("Written.")


def _in_effect(written: dict[str, Any]) -> Settings:
    return replace(preset(written.get("preset", "default")), **written)


def _ask(screen: Screen, key: str, description: str, current: Any) -> Any:
    while True:
        answer = screen.ask(f"{key} ({description}) [{_shown(current)}]: ")
        if answer is None:
            raise CommandError("the input ended; nothing was changed")
        if not answer:
            return current
        value = parse_value(answer)
        if possible(key, value):
            return value
        screen.error(str(SettingsError(key, value, allowed(key))))


# ------------------------------------------------------------------------------------ the file


def settings_path(config: Path | None) -> Path | None:
    """Return the file to read: the one named, or onlooker.toml if it exists."""
    if config is not None:
        return config
    return DEFAULT_FILE if DEFAULT_FILE.is_file() else None


def load_settings(config: Path | None) -> Settings:
    """Load the settings file, or the default preset if there is none.

    Raises:
        SettingsError: A value in it is invalid.
    """
    path = settings_path(config)
    return preset("default") if path is None else from_mapping(_read(path))


def change_file(path: Path, values: Mapping[str, object]) -> None:
    """Write these values into the file's section. Comments and everything else stay.

    Raises:
        SettingsError: The resulting settings are invalid; nothing was written.
    """
    document = _parse_editable(path, _read_text(path) if path.exists() else "")
    section: Any = document
    for name in _section_of(document):
        if name not in section:
            section[name] = {} if _is_json(path) else tomlkit.table()
        section = section[name]
    section.update(values)
    if _is_json(path):
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    else:
        text = tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]
    from_mapping(_parse(path, text))
    _replace(path, text)


def _sources(path: Path | None, settings: Settings) -> dict[str, str]:
    """Return where each value comes from: the file, a preset, or the default."""
    if path is None:
        return dict.fromkeys(KEYS, "default")
    config = _read(path)
    section = _section_of(config)
    written: Mapping[str, Any] = _get(config, section) or {}
    if section in _OTHER_SECTIONS:
        # The keys have other names there, so a value that differs from the preset comes from the file.
        base = PRESETS[_OTHER_SECTIONS[section]]
        in_file = {k for k in KEYS if getattr(settings, k) != getattr(base, k)}
    else:
        base = preset(written.get("preset", "default"))
        in_file = set(written) if written else {"enabled"}
    otherwise = "default" if base.preset == "default" else f"preset {base.preset}"
    return {key: str(path) if key in in_file else otherwise for key in KEYS}


def _section_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the section that is read: a founding system's only if there is none of ours."""
    if OWN_SECTION not in config:
        for path in _OTHER_SECTIONS:
            if _get(config, path) is not None:
                return path
    return (OWN_SECTION,)


def _get(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = config
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = cast("Mapping[str, Any]", found).get(name)
    return found


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _read(path: Path) -> Mapping[str, Any]:
    return _parse(path, _read_text(path))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such settings file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: cannot be read: {error}") from error


def _parse(path: Path, text: str) -> Mapping[str, Any]:
    try:
        return _mapping(path, json.loads(text)) if _is_json(path) else tomllib.loads(text)
    except ValueError as error:  # both parsers' errors, with line and column
        kind = "JSON" if _is_json(path) else "TOML"
        raise UsageError(f"{path}: not {kind}: {error}") from error


def _parse_editable(path: Path, text: str) -> MutableMapping[str, Any]:
    """Parse into a document that keeps comments and layout."""
    try:
        if _is_json(path):
            return cast("MutableMapping[str, Any]", _mapping(path, json.loads(text or "{}")))
        return tomlkit.parse(text)
    except (ValueError, TOMLKitError) as error:
        raise UsageError(f"{path}: cannot be changed: {error}") from error


def _mapping(path: Path, document: object) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise UsageError(f"{path}: must be an object with sections")
    return cast("Mapping[str, Any]", document)


def _replace(path: Path, text: str) -> None:
    real = path.resolve()
    try:
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o644
        atomic.write(real, text.encode(), mode=mode)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error.strerror or error}") from error
