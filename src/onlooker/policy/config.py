"""Settings from a file: our own section, or that of one of the two founding systems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from onlooker.domain.errors import SettingsError
from onlooker.domain.frozen import frozen
from onlooker.policy.model_names import from_parts
from onlooker.policy.settings import (
    KEYS,
    LANGO,
    MAX_TOKENS,
    OFF,
    SIZES,
    ZORA,
    Settings,
    allowed,
    check,
    nearest,
    possible,
    preset,
    unknown,
)


@frozen
class Section:
    """The section of a founding system: where it is in a file, its preset, and its documented
    keys with our names for them."""

    path: tuple[str, ...]
    preset: Settings
    keys: Mapping[str, str]
    # The keys that name the model: provider and model, or only the model.
    model_keys: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path)

    def check_value(self, key: str, value: object) -> None:
        """Raise SettingsError if the key is unknown there, or can never have this value."""
        if key in self.model_keys:
            if not isinstance(value, str):
                raise SettingsError(f"{self}.{key}", value, "must be text")
            return
        if key not in self.keys:
            raise SettingsError(f"{self}.{key}", value, unknown(key, sorted({*self.keys, *self.model_keys})))
        ours = self.keys[key]
        whole = ours not in SIZES or (isinstance(value, int) and not isinstance(value, bool))
        if _is_no_limit(key, value) or (whole and possible(ours, value)):
            return
        tokens = f"must be an integer of tokens up to {MAX_TOKENS}"
        raise SettingsError(f"{self}.{key}", value, tokens if ours in SIZES else allowed(ours))

    def renamed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is given there by our names; an error names the keys of the file."""
        for key, value in given.items():
            self.check_value(key, value)
        known = {
            self.keys[key]: MAX_TOKENS if _is_no_limit(key, value) else value
            for key, value in given.items()
            if key in self.keys
        }
        return known | {"model": from_parts(str(given.get("provider", "")), str(given.get("model", "")))}

    def check(self, settings: Settings) -> Settings:
        """Return the settings if they can work; an error names the keys of the file."""
        theirs = {ours: key for key, ours in self.keys.items()}
        try:
            return check(settings)
        except SettingsError as error:
            words = re.sub(r"\w+", lambda word: theirs.get(word[0], word[0]), error.allowed)
            raise SettingsError(f"{self}.{theirs.get(error.key, error.key)}", error.value, words) from error


def _is_no_limit(key: str, value: object) -> bool:
    """Whether this size is 0 for no limit, which our sizes cannot express. In counts, 0 is kept."""
    return key == "maxMessageTokenBudget" and type(value) is int and value == 0


LANGO_SECTION = Section(
    ("observationalMemory",),
    LANGO,
    {
        "enabled": "enabled",
        "messageTokenThreshold": "observe_at",
        "observationTokenThreshold": "reflect_at",
        "maxMessageTokenBudget": "message_limit",
        "maxReflectionsInContext": "max_reflections",
        "maxObservationsInContext": "max_observations",
        "memoryTokenBudget": "memory_limit",
        "reflectionConsolidationThreshold": "consolidate_at",
    },
    ("provider", "model"),
)
ZORA_SECTION = Section(
    ("memory", "compression"),
    ZORA,
    {
        "enabled": "enabled",
        "working_tier_max_tokens": "observe_at",
        "session_tier_max_tokens": "reflect_at",
        "cross_session_tier_max_tokens": "cross_session_limit",
        "chunk_size": "chunk_messages",
        "async_buffer": "precompute",
        "block_after_tokens": "block_after",
    },
    ("model",),
)


def from_mapping(config: Mapping[str, Any]) -> Settings:
    """Read settings from a parsed JSON or TOML file.

    Reads the first of the sections `onlooker`, `observationalMemory` (the keys of lango) and
    `memory.compression` (the keys of zora). A file of nothing but settings needs no section. Without any of
    them memory is off.

    Raises:
        SettingsError: A key or a value is wrong, or the name of our section is misspelt.
    """
    if "onlooker" in config:
        return _own(_section("onlooker", config["onlooker"]))
    if "observationalMemory" in config:
        return _lango(_section("observationalMemory", config["observationalMemory"]))
    memory = config.get("memory")
    if isinstance(memory, Mapping) and "compression" in memory:
        return _zora(_section("memory.compression", memory["compression"]))  # pyright: ignore[reportUnknownArgumentType]
    if is_flat(config):
        return _own(config)
    for name in config:
        if nearest(name, ["onlooker"], alike=0.8):
            raise SettingsError(name, config[name], "is not a section; did you mean onlooker?")
    return OFF


def is_flat(config: Mapping[str, Any]) -> bool:
    """Return whether a file has our settings without a section: it contains nothing else, except typing
    errors.

    The configuration of another program may also have a key such as `model`, among other things. Where no key
    is ours, only an obvious typing error counts.
    """
    alike = 0.6 if any(key in KEYS for key in config) else 0.8
    return bool(config) and all(key in KEYS or nearest(key, alike=alike) for key in config)


def _section(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(name, value, "must be a section with keys and values")
    return value  # pyright: ignore[reportUnknownVariableType]


def _own(section: Mapping[str, Any]) -> Settings:
    for key, value in section.items():
        if key not in KEYS:
            raise SettingsError(f"onlooker.{key}", value, unknown(key))
    base = preset(section.get("preset", "default"))
    return check(replace(base, **section))


def _lango(section: Mapping[str, Any]) -> Settings:
    known = LANGO_SECTION.renamed(section)
    # Lango documents that its memory is off by default.
    known.setdefault("enabled", False)
    # Messages that do not fit the window must have been noted, so the threshold is at most the window.
    window = int(known.get("message_limit", LANGO.message_limit))
    known["observe_at"] = min(int(known.get("observe_at", LANGO.observe_at)), window)
    known["precompute_at"] = known["observe_at"]
    # New messages up to one observation must still fit the window, so the overlap leaves that much free.
    known["overlap"] = window - known["observe_at"]
    return LANGO_SECTION.check(replace(LANGO, **known))


def _zora(section: Mapping[str, Any]) -> Settings:
    known = ZORA_SECTION.renamed(section)
    working = int(known.get("observe_at", ZORA.observe_at))
    known["precompute_at"] = max(1, working * 4 // 5)
    known.setdefault("block_after", 2 * working)
    known["message_limit"] = max(int(known["block_after"]), working)
    session = int(known.get("reflect_at", ZORA.reflect_at))
    known["memory_limit"] = max(1, session + int(known.get("cross_session_limit", ZORA.cross_session_limit)))
    return ZORA_SECTION.check(replace(ZORA, **known))
