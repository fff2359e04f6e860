"""`settings`: show the settings, set one, or fill in a form; and the settings file."""

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
from onlooker.cli.screen import NOT_THERE, WRONG_USE, Column, Json, Screen, Stop
from onlooker.domain.errors import SettingsError
from onlooker.policy.config import from_mapping
from onlooker.policy.settings import DEFAULT, KEYS, PRESETS, Settings, allowed, check, possible, preset

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="ONLOOKER_CONFIG",
        metavar="FILE",
        help="Settings, TOML or JSON; ./onlooker.toml where there is one.",
    ),
]


DEFAULT_FILE = Path("onlooker.toml")
OWN_SECTION = "onlooker"
# The section of each founding system, as a path of keys, and the preset that it starts from.
_OTHER_SECTIONS: dict[tuple[str, ...], str] = {
    ("observationalMemory",): "lango",
    ("memory", "compression"): "zora",
}


def settings_path(config: Path | None) -> Path | None:
    """The file to read: the one named, or onlooker.toml where there is one."""
    if config is not None:
        return config
    return DEFAULT_FILE if DEFAULT_FILE.is_file() else None


def load_settings(config: Path | None) -> Settings:
    """The settings of the file; the default preset where there is none.

    Raises:
        SettingsError: A value in it cannot work.
    """
    path = settings_path(config)
    return preset("default") if path is None else from_mapping(read(path))


def read(path: Path) -> Mapping[str, Any]:
    """What the file says."""
    text = _text(path)
    try:
        return _mapping(path, json.loads(text)) if _is_json(path) else tomllib.loads(text)
    except ValueError as error:  # both parsers' errors, with line and column
        kind = "JSON" if _is_json(path) else "TOML"
        raise Stop(f"{path}: not {kind}: {error}", WRONG_USE) from error


def section_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The section that is read: ours where it is there, or where none is."""
    if OWN_SECTION not in config:
        for path in _OTHER_SECTIONS:
            if _section_at(config, path) is not None:
                return path
    return (OWN_SECTION,)


def sources(path: Path | None, settings: Settings) -> dict[str, str]:
    """Where each setting's value comes from: the file, a preset, or the default."""
    if path is None:
        return dict.fromkeys(KEYS, "default")
    config = read(path)
    section = section_of(config)
    written: Mapping[str, Any] = _section_at(config, section) or {}
    if section in _OTHER_SECTIONS:
        # Its keys have other names there, so what differs from the preset is what it says.
        base = PRESETS[_OTHER_SECTIONS[section]]
        said = {k for k in KEYS if getattr(settings, k) != getattr(base, k)}
    else:
        base = preset(written.get("preset", "default"))
        said = set(written) if written else {"enabled"}
    behind = "default" if base.preset == "default" else f"preset {base.preset}"
    return {key: str(path) if key in said else behind for key in KEYS}


def change_file(path: Path, values: Mapping[str, object]) -> Settings:
    """Write these values into the file's section, creating what is missing.

    Raises:
        SettingsError: The settings would not work; nothing was written.
    """
    text = _text(path) if path.exists() else ""
    document = _parsed(path, text)
    target: Any = document
    for name in section_of(document):
        if name not in target:
            target[name] = {} if _is_json(path) else tomlkit.table()
        target = target[name]
    target.update(values)
    changed = json.dumps(document, indent=2, ensure_ascii=False) + "\n" if _is_json(path) else None
    if changed is None:
        changed = tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]
    settings = from_mapping(json.loads(changed) if _is_json(path) else tomllib.loads(changed))
    _replace_file(path, changed)
    return settings


# ------------------------------------------------------------------------------------ files


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Stop(f"{path}: no such settings file", WRONG_USE) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(f"{path}: cannot be read: {error}", NOT_THERE) from error


def _parsed(path: Path, text: str) -> MutableMapping[str, Any]:
    """The document in a form that keeps what a person wrote around the values."""
    try:
        if _is_json(path):
            return cast("MutableMapping[str, Any]", _mapping(path, json.loads(text or "{}")))
        return tomlkit.parse(text)
    except (ValueError, TOMLKitError) as error:
        raise Stop(f"{path}: cannot be changed: {error}", WRONG_USE) from error


def _mapping(path: Path, document: object) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise Stop(f"{path}: must hold an object with sections", WRONG_USE)
    return cast("Mapping[str, Any]", document)


def _section_at(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = config
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = cast("Mapping[str, Any]", found).get(name)
    return found


def _replace_file(path: Path, text: str) -> None:
    """Write the whole file or nothing of it. A link stays one, and the permissions stay as they are."""
    target = path.resolve()
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        atomic.write(target, text.encode(), mode=mode)
    except OSError as error:
        raise Stop(f"{path}: cannot be written: {error.strerror or error}", NOT_THERE) from error


# ------------------------------------------------------------------------------------ settings


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
    change_file(path, {key: parsed(text)})
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
    change_file(path, changes)
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
