"""Errors a caller can act on. Anything else that escapes Onlooker is a bug.

OnlookerError
├── SettingsError     a setting, or an argument, has a value that cannot work
├── MessageError      what was handed to `record` or `prepare` is not a message
├── BudgetError       the budget cannot hold even what must be in the prompt
├── StoreError        the storage cannot read or write now; nothing is half written
│   └── ConflictError     another worker was first; what was read is stale
├── ModelError        the model that writes notes did not answer
│   └── SpendError        it was not asked: a spend limit is reached
└── ClosedError       this memory was closed
"""

from __future__ import annotations

from typing import Literal

# Whose spending a limit is on.
SpendScope = Literal["session", "owner", "day"]


class OnlookerError(Exception):
    """The root of everything Onlooker raises on purpose."""


class SettingsError(OnlookerError):
    """A setting that cannot work: which one, its value, and what is allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key = key
        self.value = value
        self.allowed = allowed
        super().__init__(f"{key} = {value!r}: {allowed}")


class MessageError(OnlookerError):
    """Something handed over as a message is not one; nothing was recorded."""


class BudgetError(OnlookerError):
    """The budget is smaller than the base prompt, so no context can fit it."""

    def __init__(self, budget: int, needed: int, what: str) -> None:
        self.budget = budget
        self.needed = needed
        super().__init__(
            f"a budget of {budget} tokens cannot hold {what} ({needed} tokens): "
            "raise the budget or shorten the prompt"
        )


class StoreError(OnlookerError):
    """The storage cannot read or write now. Nothing was half written; try again."""


class ConflictError(StoreError):
    """Another worker changed the session first. Load it again and decide anew."""


class ModelError(OnlookerError):
    """The model did not answer. Nothing was consumed; the work stays due."""


class SpendError(ModelError):
    """A spend limit is reached: the model is not called, and memory goes on without it."""

    def __init__(self, model: str, what: SpendScope, spent: float, limit: float) -> None:
        self.what: SpendScope = what
        self.spent = spent
        self.limit = limit
        whose = "today" if what == "day" else f"this {what}"
        super().__init__(f"{model} is not called: ${spent:.4f} spent for {whose}, the limit is ${limit:g}")


class ClosedError(OnlookerError):
    """The memory was closed, or is closing, and takes nothing new."""
