"""Settings from a file: our own section, or that of one of the two founding systems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from onlooker.domain.errors import SettingsError
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
    possible,
    preset,
)

# The documented keys of the two founding systems, and our names for them.
_LANGO_KEYS = {
    "enabled": "enabled",
    "messageTokenThreshold": "observe_at",
    "observationTokenThreshold": "reflect_at",
    "maxMessageTokenBudget": "message_limit",
    "maxReflectionsInContext": "max_reflections",
    "maxObservationsInContext": "max_observations",
    "memoryTokenBudget": "memory_limit",
    "reflectionConsolidationThreshold": "consolidate_at",
}
# For these sizes 0 means no limit, which a size of ours cannot express. Counts take 0 as it is.
_ZERO_IS_NO_LIMIT = ("maxMessageTokenBudget",)
_ZORA_KEYS = {
    "enabled": "enabled",
    "working_tier_max_tokens": "observe_at",
    "session_tier_max_tokens": "reflect_at",
    "cross_session_tier_max_tokens": "cross_session_limit",
    "chunk_size": "chunk_messages",
    "model": "model",
    "async_buffer": "precompute",
    "block_after_tokens": "block_after",
}


def from_mapping(config: Mapping[str, Any]) -> Settings:
    """Read settings from a parsed JSON or TOML file.

    Reads the first of the sections `onlooker`, `observationalMemory` (the keys of lango) and
    `memory.compression` (the keys of zora). Without any of them memory is off.
    """
    if "onlooker" in config:
        return _own(_section("onlooker", config["onlooker"]))
    if "observationalMemory" in config:
        return _lango(_section("observationalMemory", config["observationalMemory"]))
    memory = config.get("memory")
    if isinstance(memory, Mapping) and "compression" in memory:
        return _zora(_section("memory.compression", memory["compression"]))  # pyright: ignore[reportUnknownArgumentType]
    return OFF


def _section(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(name, value, "must be a section with keys and values")
    return value  # pyright: ignore[reportUnknownVariableType]


def _own(section: Mapping[str, Any]) -> Settings:
    for key, value in section.items():
        if key not in KEYS:
            raise SettingsError(
                f"onlooker.{key}", value, f"is not a setting; the settings are {', '.join(KEYS)}"
            )
    base = preset(section.get("preset", "default"))
    return check(replace(base, **section))


def _lango(section: Mapping[str, Any]) -> Settings:
    known = _renamed("observationalMemory", section, _LANGO_KEYS, extra=("provider", "model"))
    provider, model = section.get("provider", ""), section.get("model", "")
    for key, value in (("provider", provider), ("model", model)):
        if not isinstance(value, str):
            raise SettingsError(f"observationalMemory.{key}", value, "must be text")
    known["model"] = f"{provider}:{model}" if provider and model else str(model)
    # Lango documents that its memory is off by default.
    known.setdefault("enabled", False)
    # Messages that do not fit the window must have been noted, so the threshold is at most the window.
    window = int(known.get("message_limit", LANGO.message_limit))
    known["observe_at"] = min(int(known.get("observe_at", LANGO.observe_at)), window)
    known["precompute_at"] = known["observe_at"]
    # New messages up to one observation must still fit the window, so the overlap leaves that much free.
    known["overlap"] = window - known["observe_at"]
    return _checked("observationalMemory", _LANGO_KEYS, replace(LANGO, **known))


def _zora(section: Mapping[str, Any]) -> Settings:
    known = _renamed("memory.compression", section, _ZORA_KEYS)
    working = int(known.get("observe_at", ZORA.observe_at))
    known["precompute_at"] = max(1, working * 4 // 5)
    known.setdefault("block_after", 2 * working)
    known["message_limit"] = max(int(known["block_after"]), working)
    session = int(known.get("reflect_at", ZORA.reflect_at))
    known["memory_limit"] = max(1, session + int(known.get("cross_session_limit", ZORA.cross_session_limit)))
    return _checked("memory.compression", _ZORA_KEYS, replace(ZORA, **known))


def _checked(section: str, names: Mapping[str, str], settings: Settings) -> Settings:
    """Return the settings if they can work; an error names the keys of the file."""
    theirs = {ours: key for key, ours in names.items()}
    try:
        return check(settings)
    except SettingsError as error:
        words = re.sub(r"\w+", lambda word: theirs.get(word[0], word[0]), error.allowed)
        raise SettingsError(f"{section}.{theirs.get(error.key, error.key)}", error.value, words) from error


def _renamed(
    section: str, given: Mapping[str, Any], names: Mapping[str, str], extra: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the section with our names for its keys; an error names the keys of the file."""
    known: dict[str, Any] = {}
    for key, value in given.items():
        if key in extra:
            continue
        if key not in names:
            there = ", ".join(sorted({*names, *extra}))
            raise SettingsError(
                f"{section}.{key}", value, f"is not a setting there; the settings are {there}"
            )
        ours = names[key]
        if key in _ZERO_IS_NO_LIMIT and type(value) is int and value == 0:
            known[ours] = MAX_TOKENS
            continue
        whole = ours not in SIZES or (isinstance(value, int) and not isinstance(value, bool))
        if not whole or not possible(ours, value):
            tokens = f"must be an integer of tokens up to {MAX_TOKENS}"
            raise SettingsError(f"{section}.{key}", value, tokens if ours in SIZES else allowed(ours))
        known[ours] = value
    return known
