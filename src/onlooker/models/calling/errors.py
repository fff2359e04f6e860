"""Why a call to a model failed, as facts that a retry, a breaker or a fallback can go by."""

from __future__ import annotations

from typing import Literal

from onlooker.domain.errors import ModelError, SpendError

# rate: too many requests; server: the provider's own fault; connection, timeout: no whole answer came;
# unreadable: an answer came and is none; rejected: this request will never be taken; denied: the key;
# quota: the account; resting: a breaker is open; spent: a spend limit; other: anything else.
Kind = Literal[
    "rate",
    "server",
    "connection",
    "timeout",
    "unreadable",
    "rejected",
    "denied",
    "quota",
    "resting",
    "spent",
    "other",
]
_WORTH_ANOTHER_TRY: frozenset[Kind] = frozenset(("rate", "server", "connection", "timeout", "unreadable"))


class CallError(ModelError):
    """A call that failed: what kind of failure, and how long the provider asks to be left alone."""

    def __init__(self, message: str, kind: Kind = "other", *, retry_after: float | None = None) -> None:
        self.kind: Kind = kind
        self.retry_after = retry_after
        super().__init__(message)


def kind_of(error: Exception) -> Kind:
    """The kind of any failure of a model, one of somebody else's making included."""
    if isinstance(error, CallError):
        return error.kind
    if isinstance(error, SpendError):
        return "spent"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, OSError):
        return "connection"
    # A model that only says that it failed may well answer the next time.
    return "server" if isinstance(error, ModelError) else "other"


def worth_another_try(error: Exception) -> bool:
    """Whether the same request may be answered when it is sent again."""
    return kind_of(error) in _WORTH_ANOTHER_TRY


def foreign(name: str, error: Exception) -> CallError:
    """A failure outside the tree of errors that the port names, as one of it."""
    return CallError(f"{name}: {type(error).__name__}: {error}".rstrip(": "), kind_of(error))
