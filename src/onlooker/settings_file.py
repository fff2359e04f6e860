"""The settings file: find it, read it, and change a setting in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import tomlkit
from tomlkit.exceptions import TOMLKitError

from onlooker import atomic
from onlooker.domain.errors import SettingsError
from onlooker.policy.config import LANGO_SECTION, ZORA_SECTION, from_mapping, is_flat
from onlooker.policy.settings import KEYS, Settings, preset, unknown
from onlooker.policy.text import regex
from onlooker.wiring import parse_settings, read_settings

DEFAULT_FILE = Path("onlooker.toml")
OWN_SECTION = ("onlooker",)
OTHER_SECTIONS = {section.path: section for section in (LANGO_SECTION, ZORA_SECTION)}


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
    found = read_trusted(config)
    return from_mapping(found) if found else preset("default")


def read_trusted(config: Path | None) -> Mapping[str, Any]:
    """Read the file that was named, or onlooker.toml if it exists.

    Raises:
        SettingsError: It is not a settings file; or it was not named, and would send texts to an address
        outside
            this machine.
    """
    path = settings_path(config)
    if path is None:
        return {}
    found = read_settings(path)
    if config is None:
        for key, value in _texts_in(found):
            address = _ADDRESS.search(value) if key == "url" else _OWN_ADDRESS.search(value)
            if address and urlsplit(address[0]).hostname not in _THIS_MACHINE:
                what = f"sends texts to another machine, so the file must be named: add --config {path}"
                raise SettingsError(key, value, what)
    return found


_ADDRESS = regex(r"https?://\S+")
_OWN_ADDRESS = regex(r"(?<=@)https?://\S+")  # of a model: PROVIDER:NAME@URL
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def _texts_in(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every text in a settings file, with its key."""
    for key, value in found.items():
        for each in cast("list[object]", value) if isinstance(value, list) else (value,):
            if isinstance(each, Mapping):
                yield from _texts_in(cast("Mapping[str, Any]", each))
            elif isinstance(each, str):
                yield key, each


def read_file(path: Path) -> Mapping[str, Any]:
    """Read the file that is going to be changed, if it exists."""
    return read_settings(path) if path.exists() else dict[str, Any]()


def is_written(path: Path, key: str) -> bool:
    config = read_file(path)
    section = section_of(config)
    other = OTHER_SECTIONS.get(section)
    known = [*other.keys, *other.model_keys] if other else KEYS
    if key not in known:
        raise SettingsError(key, "", unknown(key, known))
    return key in (written_in(config, section) or {})


def change_file(path: Path, values: Mapping[str, object], *, remove: str = "") -> None:
    """Write these values into the file's section, or remove one. Comments and everything else stay.

    Raises:
        SettingsError: The resulting settings are invalid; nothing was written.
    """
    before = read_file(path)
    document = _parse_editable(path)
    section: Any = document
    for name in section_of(before):
        if name not in section:
            section[name] = {} if _is_json(path) else tomlkit.table()
        section = section[name]
    section.update(values)
    section.pop(remove, None)
    if _is_json(path):
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    else:
        text = tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]
    from_mapping(parse_settings(path, text))
    _replace(path, text)


def sources(path: Path | None, settings: Settings) -> dict[str, str]:
    """Return where each value comes from: the file, a preset, or the default."""
    if path is None:
        return dict.fromkeys(KEYS, "default")
    config = read_settings(path)
    section = section_of(config)
    written: Mapping[str, Any] = written_in(config, section) or {}
    if other := OTHER_SECTIONS.get(section):
        # The keys have other names there, so a value that differs from the preset comes from the file.
        base = other.preset
        in_file = {k for k in KEYS if getattr(settings, k) != getattr(base, k)}
    else:
        base = preset(written.get("preset", "default"))
        in_file = set(written) if written else {"enabled"}
    otherwise = "default" if base.preset == "default" else f"preset {base.preset}"
    return {key: str(path) if key in in_file else otherwise for key in KEYS}


def section_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the section that is read: a founding system's only if there is none of ours. A file of nothing
    but settings has none."""
    if OWN_SECTION[0] not in config:
        for path in OTHER_SECTIONS:
            if written_in(config, path) is not None:
                return path
        if is_flat(config):
            return ()
    return OWN_SECTION


def written_in(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return what a file has in this section; None if it has no such section."""
    found: Any = config
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = cast("Mapping[str, Any]", found).get(name)
    return found


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _parse_editable(path: Path) -> MutableMapping[str, Any]:
    """Parse into a document that keeps comments and layout."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    try:
        return json.loads(text or "{}") if _is_json(path) else tomlkit.parse(text)
    except TOMLKitError as error:
        raise SettingsError("settings", str(path), f"cannot be changed: {error}") from error


def _replace(path: Path, text: str) -> None:
    real = path.resolve()
    try:
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o644
        atomic.write(real, text.encode(), mode=mode)
    except OSError as error:
        raise SettingsError("settings", str(path), f"cannot be written: {error.strerror or error}") from error
