"""A model that writes good-looking notes and loses what was exact in them: the prompt has it all the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import onlooker
from onlooker.policy.settings import DEFAULT
from onlooker.ports import ObserveRequest, Request
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

SYSTEM = "You are helpful."
# Sizes in tokens, so that what is noted here does not hang on the default shares.
SMALL = replace(
    DEFAULT,
    budget=3000,
    reflect_to=0.92,
    observe_at=300,
    keep_recent=40,
    chunk_tokens=150,
    precompute_at=200,
    memory_limit=700,
    reflect_at=500,
)

TALK = (
    ("user", "Order 88-1431 never came. It was €1,240.50, paid on 2026-01-30."),
    ("assistant", "The parcel for order 88-1431 was sent to Storgata 12 under tracking JD014600003GB."),
    ("user", "Then write to ben.ols@example.com, he handles order 88-1431 now."),
    ("assistant", "Done. The form is at https://post.example.com/claims/new?ref=7731 if he asks."),
    ("user", "Meanwhile the deploy failed again, DATABASE_URL was missing in /srv/app/fly.toml."),
    ("assistant", "I set DATABASE_URL in /srv/app/fly.toml and v2.3.1 is running since 14:05."),
    ("user", "Good. Keep the pool below 85% and page me at 06:45, not earlier."),
    ("assistant", "The alert is called pool_high_watermark, and it pages at 06:45."),
)
EXACT = (
    "88-1431", "€1,240.50", "JD014600003GB", "ben.ols@example.com",
    "https://post.example.com/claims/new?ref=7731", "DATABASE_URL", "/srv/app/fly.toml", "v2.3.1",
    "pool_high_watermark",
)  # fmt: skip
REUSED = ("88-1431", "DATABASE_URL", "/srv/app/fly.toml")
VAGUE = "The user and the assistant talked about an order, a deploy and a pool, and settled it all."
OF_SMALL_TALK = "The user and the assistant thought of sitting in the garden and of cooking."


def vague(request: Request) -> str:
    """A fair summary without a single value."""
    if isinstance(request, ObserveRequest):
        exact = any(value in message.text for message in request.messages for value in EXACT)
        return f"## 2026-02-16\nIMPORTANT {VAGUE if exact else OF_SMALL_TALK}"
    return "## 2026-02-16\nIMPORTANT The order and the deploy came up several times and were settled."


def small_talk(count: int) -> list[tuple[str, str]]:
    said = "We could sit in the garden if it stays dry, and cook something that the children like as well."
    return [("assistant" if i % 2 else "user", said) for i in range(count)]


def talk() -> list[tuple[str, str]]:
    """What was said, with small talk between: the ledger of a note is a small part of it."""
    return [turn for i in range(0, len(TALK), 2) for turn in (*TALK[i : i + 2], *small_talk(4))]


async def prompt_after(*said: tuple[str, str]) -> tuple[list[dict[str, Any]], int]:
    """What the provider gets after all that, and the highest generation of the notes in it."""
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    model = ScriptedModel(vague)
    async with onlooker.open_memory(":memory:", model=model, settings=SMALL, clock=clock) as memory:
        session = memory.session("telegram:42")
        for role, text in said:
            await session.record({"role": role, "content": text})
            await session.settle()
            clock.advance(60)
        notes = await session.notes()
        context = await session.context(system=SYSTEM)
    assert all(note.model == "scripted" and not note.degraded for note in notes)
    return context.openai(), max(note.generation for note in notes)


@pytest.mark.req(12, 98)
async def test_values_that_a_model_left_out_stand_in_the_prompt_word_for_word() -> None:
    prompt, _ = await prompt_after(*talk(), *small_talk(16))
    memory, *tail = (message["content"] for message in prompt)
    assert VAGUE in memory
    assert not any(value in text for text in tail for value in EXACT), "the values are no longer raw"
    assert [value for value in EXACT if value not in memory] == []


@pytest.mark.req(12, 26, 98)
async def test_those_used_again_are_carried_through_reflections_that_drop_them_as_well() -> None:
    prompt, generation = await prompt_after(*talk(), *small_talk(80))
    memory, *tail = (message["content"] for message in prompt)
    assert generation >= 1
    assert "came up several times" in memory
    assert not any(value in text for text in tail for value in EXACT)
    assert [value for value in REUSED if value not in memory] == []


async def test_what_the_model_wrote_is_not_altered_by_what_is_added() -> None:
    prompt, _ = await prompt_after(*talk(), *small_talk(16))
    observations = prompt[0]["content"].split("### Observations\n")[1].split("\n\n### ")[0]
    lines = observations.splitlines()
    own = [line for line in lines if not line.startswith("Values: ")]
    assert set(own) == {"## 2026-02-16", f"IMPORTANT {VAGUE}", f"IMPORTANT {OF_SMALL_TALK}"}
    assert sum(line.startswith("Values: ") for line in lines) >= 1
