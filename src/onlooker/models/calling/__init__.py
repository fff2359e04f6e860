"""Models made of models: each of these wraps one or several and is a model itself, so they compose.

Fallback([guarded(LanguageModel("openai:gpt-5-mini")), guarded(LanguageModel("ollama:qwen3"))])
"""

from __future__ import annotations

from onlooker.models.calling.breaker import Breaker
from onlooker.models.calling.choosing import BySize, Fallback
from onlooker.models.calling.errors import CallError, Kind
from onlooker.models.calling.limits import Limited
from onlooker.models.calling.spending import Ledger, Price, Priced, Prices, Spend, SpendLimit, cost
from onlooker.models.calling.waiting import Deadline, Retries
from onlooker.ports import Clock, Model

__all__ = [
    "Breaker",
    "BySize",
    "CallError",
    "Deadline",
    "Fallback",
    "Kind",
    "Ledger",
    "Limited",
    "Price",
    "Priced",
    "Prices",
    "Retries",
    "Spend",
    "SpendLimit",
    "cost",
    "guarded",
]


def guarded(model: Model, *, clock: Clock | None = None) -> Model:
    """The model as one named by a string is used: asked again where that may help, and left alone while
    it keeps failing."""
    return Breaker(Retries(model), clock=clock)
