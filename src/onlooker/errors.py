"""The errors that a program can act on. All derive from `OnlookerError`."""

from onlooker.domain.errors import (
    BudgetError,
    ClosedError,
    ConflictError,
    MessageError,
    ModelError,
    NotFoundError,
    OnlookerError,
    SettingsError,
    StoreError,
)

__all__ = [
    "BudgetError",
    "ClosedError",
    "ConflictError",
    "MessageError",
    "ModelError",
    "NotFoundError",
    "OnlookerError",
    "SettingsError",
    "StoreError",
]
