"""Errors that a caller can act on. Any other exception from Onlooker is a bug.

OnlookerError
├── SettingsError     a setting or an argument has an invalid value
├── MessageError      `record` or `prepare` was given something that is not a message
├── BudgetError       the budget is too small for the base prompt
├── NotFoundError     there is no note, message or item with that id (also a KeyError)
├── StoreError        the storage cannot be read or written; nothing is half written
│   └── ConflictError     another worker committed first
├── ModelError        the model that writes notes did not answer
│   └── SpendError        the model was not called: a spend limit is reached
└── ClosedError       the memory is closed
"""

from __future__ import annotations

from typing import Literal

# What a spend limit applies to.
SpendScope = Literal["session", "owner", "day"]


class OnlookerError(Exception):
    """The base class of all errors that Onlooker raises on purpose."""


class SettingsError(OnlookerError):
    """A setting or an argument has an invalid value: its name, the value, and what is allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key = key
        self.value = value
        self.allowed = allowed
        super().__init__(f"{key} = {value!r}: {allowed}")


class MessageError(OnlookerError):
    """The input is not a valid message. Nothing was recorded."""


class BudgetError(OnlookerError):
    """The budget is smaller than the base prompt."""

    def __init__(
        self,
        budget: int,
        needed: int,
        what: str,
        advice: str = "raise the budget or shorten the prompt",
    ) -> None:
        self.budget = budget
        self.needed = needed
        super().__init__(f"a budget of {budget} tokens cannot hold {what} ({needed} tokens): {advice}")


class NotFoundError(OnlookerError, KeyError):
    """There is no note, message or item with that id. Nothing was changed."""

    def __init__(self, what: str, ident: object) -> None:
        self.what = what
        self.ident = ident
        super().__init__(ident)

    def __str__(self) -> str:
        return f"no {self.what} {self.ident!r}"


class StoreError(OnlookerError):
    """The storage cannot be read or written now. Nothing is half written; try again."""


class ConflictError(StoreError):
    """Another worker changed the session first. Load the session again and retry."""


class ModelError(OnlookerError):
    """The model did not answer. No message was consumed; the work stays due."""


class SpendError(ModelError):
    """A spend limit is reached, so the model was not called. Memory continues without it."""

    def __init__(self, model: str, scope: SpendScope, spent: float, limit: float) -> None:
        self.scope: SpendScope = scope
        self.spent = spent
        self.limit = limit
        whose = "today" if scope == "day" else f"this {scope}"
        super().__init__(f"{model} is not called: ${spent:.4f} spent for {whose}, the limit is ${limit:g}")


class ClosedError(OnlookerError):
    """The memory is closed or closing and accepts no new work."""
