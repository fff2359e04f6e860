"""A bakery's conversation, and a model that notes it and fills in the orders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, Field

import onlooker
from onlooker.ports import ObserveRequest, Reply, Request
from onlooker.testing import FrozenClock, ScriptedModel
from onlooker.testing.models import good_note

# Without recall: what a turn finds depends on how far the index is, and prompts are compared here.
SETTINGS = onlooker.Settings(
    budget=2_000,
    observe_at=0.25,
    keep_recent=0.08,
    chunk_tokens=0.13,
    memory_limit=0.70,
    reflect_at=0.60,
    recall="off",
)
LOAVES = ("rye", "spelt", "wheat", "barley", "oat")
_ORDER = re.compile(r"order (\d\d-\d{4}): (\d+) loaves of (\w+) for €([\d.]+)")


class Order(BaseModel):
    """What a customer has ordered."""

    number: str
    item: str
    count: int = Field(ge=1)
    price: float


class Preference(BaseModel):
    """What a customer likes or dislikes."""

    who: str
    likes: str


def said(n: int) -> onlooker.Message:
    if n % 2:
        return onlooker.user(
            f"Customer number {n} rang from the harbour and wants order 88-{1000 + n}: {n + 2} loaves of "
            f"{LOAVES[n // 2 % 5]} for €{n * 3}.50, to be fetched before the shop closes in the evening."
        )
    return onlooker.assistant(
        f"It is written down on page {n} of the book; the oven by the window is free for it at once, and "
        f"somebody will ring back when the bread of customer {n - 1} has cooled down."
    )


def orders_in(text: str) -> list[dict[str, Any]]:
    return [
        {"number": number, "item": item, "count": int(count), "price": float(price)}
        for number, count, item, price in _ORDER.findall(text)
    ]


def block(**values: Any) -> str:
    return f"\n\n```json\n{json.dumps(values)}\n```"


def clerk(after_note: Callable[[str], str] | None = None) -> ScriptedModel:
    """A model that writes a correct note and, where types are asked for, the orders, or something else."""

    def answer(request: Request) -> Reply:
        text = good_note(request)
        if isinstance(request, ObserveRequest) and request.schemas:
            told = "\n".join(message.text for message in request.messages)
            text += after_note(told) if after_note else block(Order=orders_in(told), Preference=[])
        return Reply(text, input_tokens=1000, output_tokens=100, cost=0.01)

    return ScriptedModel(answer, name="test:clerk")


async def talk(session: onlooker.Session, clock: FrozenClock, first: int, last: int) -> onlooker.Context:
    """Say the messages one by one, each with the context of a turn and with notes settled after it."""
    context = await session.context()
    for n in range(first, last + 1):
        await session.record(said(n))
        context = await session.context()
        assert context.stats.total <= context.stats.budget
        await session.settle()
        clock.advance(60)
    return context
