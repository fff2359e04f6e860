"""What a value of a user's own type may say: only what was said."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from onlooker.domain.messages import Message, ToolCall
from onlooker.policy.reply.extraction import Said, came_from, masked, schema_of

AT = datetime(2026, 2, 16, 14, 2, tzinfo=UTC)  # a Monday


def message(text: str, seq: int = 1, **fields: Any) -> Message:
    return Message("user", text, id=f"m{seq}", at=AT, seq=seq, **fields)


def unsaid(text: str, **value: Any) -> list[str]:
    return Said((message(text),)).unsaid(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3 cakes for €1,240.50", {"count": 3, "price": 1240.5}),
        ("1.240,50 Euro bitte", {"price": 1240.5}),
        ("10 000 kr in all", {"price": 10000}),
        ("three cakes, no sugar", {"count": 3, "sugar": 0}),
        ("a cake", {"count": 1, "vegan": True, "note": None}),
        ("25% off, 12k views, 3 million in all, 5万円", {"x": [0.25, 12000, 3_000_000, 50000]}),
        ("it was -4 outside", {"degrees": -4}),
        ("order 88-1431 in /srv/app/fly.toml", {"id": "88-1431", "path": "/srv/app/fly.toml"}),
        ("see you last Friday, I mean tomorrow at 3pm", {"on": "2026-02-17", "at": "2026-02-17T15:00:00"}),
        ("on 2026-05-01 at 09:30", {"at": "2026-05-01T09:30", "day": "2026-05-01"}),
        ("today", {"on": "2026-02-16"}),
        ("the weekend, last weekend", {"on": "2026-02-15"}),
        ("a birthday cake with candles", {"item": "Birthday cake", "tags": ["candles", "party"]}),
    ],
)
def test_what_was_said_or_follows_from_it_may_stand(text: str, value: dict[str, Any]) -> None:
    assert unsaid(text, **value) == []


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("3 cakes", {"count": 4}, "4"),
        ("€1,240.50", {"price": 1240.05}, "1240.05"),
        ("€1,240.50", {"price": 240}, "240"),
        ("order 88-1431", {"id": "88-1432"}, "88-1432"),
        ("order 88-1431", {"order": {"lines": [{"id": "AB-9000"}]}}, "AB-9000"),
        ("see you tomorrow", {"on": "2026-02-18"}, "2026-02-18"),
        ("see you tomorrow at 3pm", {"at": "2026-02-17T16:00:00"}, "2026-02-17T16:00:00"),
        ("mail me", {"mail": "ana@example.org"}, "ana@example.org"),
    ],
)
def test_what_nobody_said_is_found(text: str, value: dict[str, Any], found: str) -> None:
    assert unsaid(text, **value) == [found]


def test_what_a_tool_was_asked_counts_as_said() -> None:
    call = message("", calls=(ToolCall("c", "order", '{"sku": "CAKE-77"}'),))
    assert Said((call,)).unsaid({"sku": "CAKE-77"}) == []


def test_secrets_are_masked_wherever_they_stand() -> None:
    value = {"item": "cake", "notes": ["key sk-live-0123456789abcdefghij"], "password": "hunter2!x", "n": 3}
    assert masked(value) == {"item": "cake", "notes": ["key [secret]"], "password": "[secret]", "n": 3}
    assert masked({"card": 4111111111111111, "on": True}) == {"card": "[secret]", "on": True}


def test_a_value_leads_back_to_the_messages_that_hold_its_words() -> None:
    messages = [message("Hello", 1), message("Order 88-1431: a Sachertorte", 2), message("Fine", 3)]
    assert [m.seq for m in came_from({"item": "sachertorte"}, messages)] == [2]
    assert [m.seq for m in came_from({"item": "cake", "ok": True}, messages)] == [1, 2, 3]


def test_a_schema_is_told_without_the_titles_that_only_repeat_names() -> None:
    class Line(BaseModel):
        title: str
        count: int = 1

    class Order(BaseModel):
        """What a customer orders."""

        lines: list[Line]

    schema = schema_of(Order)
    told = json.loads(schema.text)
    assert schema.name == "Order"
    assert told["description"] == "What a customer orders."
    assert set(told["$defs"]["Line"]["properties"]) == {"title", "count"}
    assert '"title":"' not in schema.text
