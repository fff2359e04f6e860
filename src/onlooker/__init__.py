"""Observational memory for LLM agents: dated notes taken in the background, a context that always
fits, nothing lost.

Here are the names that most programs use. The other public ones are in `onlooker.errors`, `onlooker.events`
and `onlooker.types`, the same without `await` in `onlooker.blocking`, and fakes in `onlooker.testing`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onlooker.client import connect
    from onlooker.domain.context import Layer, use_session
    from onlooker.domain.errors import OnlookerError, StoreError
    from onlooker.domain.items import Item
    from onlooker.domain.messages import Message
    from onlooker.domain.notes import Note
    from onlooker.engine.memory import Memory
    from onlooker.engine.session import Session
    from onlooker.migration import migrate
    from onlooker.policy.config import from_mapping
    from onlooker.policy.intake import assistant, system, tool, user
    from onlooker.policy.render import Context
    from onlooker.policy.settings import Settings, Timing, preset
    from onlooker.stores.sqlite.key import Key
    from onlooker.wiring import open_memory

__version__ = "0.1.0"

__all__ = [
    "Context",
    "Item",
    "Key",
    "Layer",
    "Memory",
    "Message",
    "Note",
    "OnlookerError",
    "Session",
    "Settings",
    "StoreError",
    "Timing",
    "assistant",
    "connect",
    "from_mapping",
    "migrate",
    "open_memory",
    "preset",
    "system",
    "tool",
    "use_session",
    "user",
]

# The module of each name. It is loaded at first use, so that a program that might not need a memory
# starts as fast as without.
_HOMES = {
    "onlooker.client": ("connect",),
    "onlooker.domain.context": ("Layer", "use_session"),
    "onlooker.domain.errors": ("OnlookerError", "StoreError"),
    "onlooker.domain.items": ("Item",),
    "onlooker.domain.messages": ("Message",),
    "onlooker.domain.notes": ("Note",),
    "onlooker.engine.memory": ("Memory",),
    "onlooker.engine.session": ("Session",),
    "onlooker.migration": ("migrate",),
    "onlooker.policy.config": ("from_mapping",),
    "onlooker.policy.intake": ("assistant", "system", "tool", "user"),
    "onlooker.policy.render": ("Context",),
    "onlooker.policy.settings": ("Settings", "Timing", "preset"),
    "onlooker.stores.sqlite.key": ("Key",),
    "onlooker.wiring": ("open_memory",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("blocking", "errors", "events", "telemetry", "testing", "types")


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"onlooker.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'onlooker' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
