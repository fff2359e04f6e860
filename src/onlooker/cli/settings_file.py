"""The settings file: which one, what it says, and a change to it that keeps everything else."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from onlooker.cli.surface import NOT_THERE, WRONG_USE, Stop
from onlooker.policy.config import from_mapping
from onlooker.policy.settings import KEYS, PRESETS, Settings, preset

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
            if _at(config, path) is not None:
                return path
    return (OWN_SECTION,)


def sources(path: Path | None, settings: Settings) -> dict[str, str]:
    """Where each setting's value comes from: the file, a preset, or the default."""
    if path is None:
        return dict.fromkeys(KEYS, "default")
    config = read(path)
    section = section_of(config)
    written: Mapping[str, Any] = _at(config, section) or {}
    if section in _OTHER_SECTIONS:
        # Its keys have other names there, so what differs from the preset is what it says.
        base = PRESETS[_OTHER_SECTIONS[section]]
        said = {k for k in KEYS if getattr(settings, k) != getattr(base, k)}
    else:
        base = preset(written.get("preset", "default"))
        said = set(written) if written else {"enabled"}
    behind = "default" if base.preset == "default" else f"preset {base.preset}"
    return {key: str(path) if key in said else behind for key in KEYS}


def change(path: Path, values: Mapping[str, object]) -> Settings:
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
    _replace(path, changed)
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


def _at(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = config
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = cast("Mapping[str, Any]", found).get(name)
    return found


def _replace(path: Path, text: str) -> None:
    """Write the whole file or nothing of it."""
    try:
        folder = path.resolve().parent
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
            os.replace(name, path.resolve())
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise Stop(f"{path}: cannot be written: {error.strerror or error}", NOT_THERE) from error
