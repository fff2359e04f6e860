"""Observational memory for LLM agents: dated notes taken in the background, a context that always
fits, nothing lost."""

from onlooker.domain.context import RuntimeContext, Stats, use_session
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
from onlooker.domain.messages import Message, SessionId, ToolCall
from onlooker.domain.notes import Note
from onlooker.engine.memory import Memory
from onlooker.engine.session import Session
from onlooker.policy.config import from_mapping
from onlooker.policy.context import Context
from onlooker.policy.intake import assistant, system, tool, user
from onlooker.policy.settings import Settings, preset
from onlooker.wiring import open_memory

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "ClosedError",
    "ConflictError",
    "Context",
    "Memory",
    "Message",
    "MessageError",
    "ModelError",
    "Note",
    "OnlookerError",
    "RuntimeContext",
    "Session",
    "SessionId",
    "Settings",
    "SettingsError",
    "Stats",
    "StoreError",
    "ToolCall",
    "assistant",
    "from_mapping",
    "open_memory",
    "preset",
    "system",
    "tool",
    "use_session",
    "user",
]
