"""Observational memory for LLM agents: dated notes taken in the background, a context that always
fits, nothing lost."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onlooker.domain import events as events
    from onlooker.domain.context import Knowledge, Layer, LayerRequest, RuntimeContext, Stats, use_session
    from onlooker.domain.errors import (
        BudgetError,
        ClosedError,
        ConflictError,
        MessageError,
        ModelError,
        OnlookerError,
        SettingsError,
        StoreError,
    )
    from onlooker.domain.events import Consolidated
    from onlooker.domain.history import ForgetResult, NoteHistory, Version
    from onlooker.domain.items import Item
    from onlooker.domain.messages import Message, SessionId, ToolCall
    from onlooker.domain.notes import Extraction, Note
    from onlooker.domain.search import Edge, Hit, Node
    from onlooker.engine.corrections import Moment
    from onlooker.engine.memory import Memory
    from onlooker.engine.session import Session
    from onlooker.engine.tools import Tool, Tools
    from onlooker.migration import MigrationProgress, MigrationReport, RefusedSession, migrate
    from onlooker.policy.config import from_mapping
    from onlooker.policy.history import Diff
    from onlooker.policy.intake import assistant, system, tool, user
    from onlooker.policy.render import Context
    from onlooker.policy.settings import Settings, Timing, preset
    from onlooker.stores.sqlite.key import Key
    from onlooker.wiring import open_memory

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "ClosedError",
    "ConflictError",
    "Consolidated",
    "Context",
    "Diff",
    "Edge",
    "Extraction",
    "ForgetResult",
    "Hit",
    "Item",
    "Key",
    "Knowledge",
    "Layer",
    "LayerRequest",
    "Memory",
    "Message",
    "MessageError",
    "MigrationProgress",
    "MigrationReport",
    "ModelError",
    "Moment",
    "Node",
    "Note",
    "NoteHistory",
    "OnlookerError",
    "RefusedSession",
    "RuntimeContext",
    "Session",
    "SessionId",
    "Settings",
    "SettingsError",
    "Stats",
    "StoreError",
    "Timing",
    "Tool",
    "ToolCall",
    "Tools",
    "Version",
    "assistant",
    "from_mapping",
    "migrate",
    "open_memory",
    "preset",
    "system",
    "tool",
    "use_session",
    "user",
]

# Where each name lives. It is loaded when it is first used, so that a program which only might need
# a memory starts as fast as without.
_HOMES = {
    "onlooker.domain.context": (
        "Knowledge",
        "Layer",
        "LayerRequest",
        "RuntimeContext",
        "Stats",
        "use_session",
    ),
    "onlooker.domain.errors": tuple(name for name in __all__ if name.endswith("Error")),
    "onlooker.domain.notes": ("Extraction", "Note"),
    "onlooker.domain.events": ("Consolidated",),
    "onlooker.domain.history": ("ForgetResult", "NoteHistory", "Version"),
    "onlooker.domain.search": ("Edge", "Hit", "Node"),
    "onlooker.domain.items": ("Item",),
    "onlooker.domain.messages": ("Message", "SessionId", "ToolCall"),
    "onlooker.migration": ("MigrationProgress", "MigrationReport", "RefusedSession", "migrate"),
    "onlooker.engine.corrections": ("Moment",),
    "onlooker.engine.memory": ("Memory",),
    "onlooker.engine.session": ("Session",),
    "onlooker.engine.tools": ("Tool", "Tools"),
    "onlooker.policy.config": ("from_mapping",),
    "onlooker.policy.render": ("Context",),
    "onlooker.policy.history": ("Diff",),
    "onlooker.policy.intake": ("assistant", "system", "tool", "user"),
    "onlooker.policy.settings": ("Settings", "Timing", "preset"),
    "onlooker.stores.sqlite.key": ("Key",),
    "onlooker.wiring": ("open_memory",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("blocking", "events", "telemetry", "testing")


def __getattr__(name: str) -> Any:
    import importlib

    if name == "events":
        return importlib.import_module("onlooker.domain.events")
    if name in _MODULES:
        return importlib.import_module(f"onlooker.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'onlooker' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
