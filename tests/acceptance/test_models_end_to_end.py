"""A whole conversation with real SDKs: noted, reflected, in the final prompt; and with a provider that
goes down in the middle of it."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest
from tests.acceptance.providers import START, model_at
from tests.marks import first
from tests.promises.checks import check_coverage

import onlooker
from onlooker.domain.events import Event, Noted, Reflected, StepFailed
from onlooker.models.calling import Breaker, Fallback, Price, Spend
from onlooker.policy.tokens import estimate
from onlooker.testing import FrozenClock
from onlooker.testing.provider import Answer, LocalProvider, Received

pytestmark = pytest.mark.anyio

SYSTEM = "You count parcels."
# Small, so that sixty messages are noted and reflected.
SETTINGS = onlooker.Settings(
    budget=2_000, observe_at=0.25, keep_recent=0.08, chunk_tokens=0.13, memory_limit=0.70, reflect_at=0.35
)


CITIES = ("Oslo", "Lisbon", "Turin", "Ghent", "Split", "Cork", "Graz")
GOODS = ("cheese", "tulips", "yeast", "mussels", "berries")


def said(n: int) -> onlooker.Message:
    city, goods = CITIES[n // 2 % 7], GOODS[n // 2 % 5]
    if n % 2:
        return onlooker.user(
            f"Parcel {n} of Ana's weighs {n * 3 + 1} kg and came from {city} by lorry. It stands in row "
            f"{n % 9} and has to leave before {8 + n % 9} o'clock, since the {goods} inside do not keep."
        )
    return onlooker.assistant(
        f"Lorry number {n + 400} will take the {goods} on to {city}; the driver asks for the papers of "
        f"parcel {n - 1} at gate {n % 11} and for somebody who helps with loading it."
    )


async def talk(session: onlooker.Session, clock: FrozenClock, first: int, last: int) -> onlooker.Context:
    """Say the messages one by one, each with the context of a turn and with notes settled after it."""
    context = await session.context(system=SYSTEM)
    for n in range(first, last + 1):
        await session.record(said(n))
        context = await session.context(system=SYSTEM)
        assert context.stats.total <= context.stats.budget
        await session.settle()
        clock.advance(60)
    return context


async def check_nothing_lost(session: onlooker.Session, count: int) -> None:
    await check_coverage(session)
    recorded = await session.messages(archived=True)
    assert [m.text for m in recorded] == [said(n).text for n in range(1, count + 1)]


@pytest.mark.req(92, 94)
@pytest.mark.parametrize("protocol", ["chat", "responses", "anthropic"])
async def test_a_conversation_is_noted_reflected_and_in_the_final_prompt(
    protocol: str, tmp_path: Path
) -> None:
    clock = FrozenClock(START)
    events: list[Event] = []
    with LocalProvider() as provider:
        model = model_at(provider, protocol)
        async with onlooker.open_memory(
            tmp_path / "a.db", model=model, settings=SETTINGS, clock=clock
        ) as memory:
            memory.subscribe(events.append)
            session = memory.session("telegram:42")  # without an owner, who would get items as well
            await talk(session, clock, 1, 60)
            context = await session.context(system=SYSTEM)
            notes = await session.notes()
            usage = await memory.usage()
            await check_nothing_lost(session, 60)
            asked = list(provider.received)

    assert not [event for event in events if isinstance(event, StepFailed)]
    assert {type(event) for event in events} >= {Noted, Reflected}
    assert all(note.model == model.name and not note.degraded for note in notes)
    # What the provider wrote stands in the prompt, word for word, and then what no note covers.
    prompt = context.openai()
    system = prompt[0]["content"]
    assert system.startswith(f"{SYSTEM}\n\n## Conversation Memory\n")
    assert "### Reflections\n## 2026-02-16\n" in system
    assert "### Observations\n## 2026-02-16\n" in system
    for line in "\n".join(note.text for note in notes).splitlines():
        assert line in system
    tail = [m["content"] for m in prompt[1:] if m["role"] != "system"]
    assert tail == [said(n).text for n in range(61 - len(tail), 61)]
    # Each call is accounted for, and what it asked was ours.
    assert len(usage) == len(asked)
    assert all(call.verdict == "accepted" and call.model == model.name for call in usage)
    assert all(call.cost is not None and call.cost > 0 for call in usage)
    read = sorted(estimate(request.system) + estimate(request.user) for request in asked)  # as it says itself
    assert sorted(call.input_tokens for call in usage) == read
    assert all("the memory of a conversation" in request.system.splitlines()[0] for request in asked)


@pytest.mark.req(9, 96)
@pytest.mark.parametrize("protocol", first(["chat", "anthropic"]))
async def test_a_provider_that_dies_and_comes_back_costs_nothing_that_was_said(
    protocol: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="onlooker")
    clock = FrozenClock(START)
    provider = LocalProvider()
    provider.start()
    try:
        model = model_at(provider, protocol)
        path = tmp_path / "a.db"
        async with onlooker.open_memory(path, model=model, settings=SETTINGS, clock=clock) as memory:
            session = memory.session("telegram:42")
            await talk(session, clock, 1, 24)
            provider.stop()
            await talk(session, clock, 25, 60)  # turns go on, within their budget
            down = await session.notes()
            await check_nothing_lost(session, 60)
        assert any(note.degraded for note in down)
        assert {note.model for note in down if note.degraded} == {"extractive"}

        provider.start()
        async with onlooker.open_memory(path, model=model, settings=SETTINGS, clock=clock) as memory:
            session = memory.session("telegram:42")
            clock.advance(3600)
            assert await session.settle()
            back = await session.notes()
            await check_nothing_lost(session, 60)
        assert not any(note.degraded for note in back)
        assert {note.model for note in back} == {model.name}
    finally:
        provider.stop()


FAULTS = (
    Answer(status=500),
    Answer(status=429, retry_after="1"),
    Answer(fault="reset"),
    Answer(fault="garbage"),
    Answer(""),
    Answer("I cannot help with that", finish="refused"),
    Answer("## 2026-02-16\nAna moved", finish="length"),
    Answer("The user said the same thing again.\n" * 300),
)


@pytest.mark.req(9)
async def test_no_fault_of_a_provider_costs_a_message_or_a_turn(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="onlooker")
    clock = FrozenClock(START)
    count = 0

    def unsteady(received: Received) -> Answer:
        nonlocal count
        count += 1
        return FAULTS[count // 2 % len(FAULTS)] if count % 2 else Answer()

    with LocalProvider(unsteady) as provider:
        model = model_at(provider)
        async with onlooker.open_memory(":memory:", model=model, settings=SETTINGS, clock=clock) as memory:
            session = memory.session("telegram:42")
            await talk(session, clock, 1, 60)
            clock.advance(3600)
            await session.settle()
            await check_nothing_lost(session, 60)
            assert len(await session.notes()) >= 3
    assert count > 2 * len(FAULTS), "each fault has come up"


async def test_a_fallback_writes_the_notes_while_the_first_model_is_down() -> None:
    clock = FrozenClock(START)
    with LocalProvider(lambda _: Answer(status=500)) as broken, LocalProvider() as spare:
        first, second = model_at(broken), model_at(spare, "anthropic")
        model = Fallback([Breaker(first, failures=2, rest=86_400, clock=clock), second])
        async with onlooker.open_memory(":memory:", model=model, settings=SETTINGS, clock=clock) as memory:
            session = memory.session("telegram:42")
            await talk(session, clock, 1, 60)
            assert not any(note.degraded for note in await session.notes())
            assert {call.model for call in await memory.usage()} == {second.name}
        assert len(broken.received) == 2


@pytest.mark.req(8)
async def test_observer_and_reflector_may_be_different_models() -> None:
    clock = FrozenClock(START)
    with LocalProvider() as small, LocalProvider() as large:
        observer, reflector = model_at(small), model_at(large, "anthropic")
        async with onlooker.open_memory(
            ":memory:", model=observer, reflector=reflector, settings=SETTINGS, clock=clock
        ) as memory:
            session = memory.session("telegram:42")
            await talk(session, clock, 1, 60)
            made = {(note.kind, note.model) for note in await session.notes()}
    assert made == {("observation", observer.name), ("reflection", reflector.name)}


@pytest.mark.req(95)
async def test_a_spend_limit_stops_calls_and_not_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="onlooker")
    clock = FrozenClock(START)
    with LocalProvider() as provider:
        model = model_at(provider, price=Price(1_000.0, 0.0))  # a thousandth of a dollar for each token
        limit = Spend(per_day=3.0)

        def opened() -> onlooker.Memory:
            return onlooker.open_memory(
                tmp_path / "a.db", model=model, settings=SETTINGS, spend=limit, clock=clock
            )

        async with opened() as memory:
            session = memory.session("telegram:42")
            await talk(session, clock, 1, 60)
            calls = len(provider.received)
            assert sum(call.cost or 0 for call in await memory.usage()) >= 3.0
            await check_nothing_lost(session, 60)
        async with opened() as memory:  # a restart does not forget what was spent
            session = memory.session("telegram:42")
            await talk(session, clock, 61, 80)
            assert len(provider.received) == calls
            assert any(note.degraded for note in await session.notes())
            clock.advance(timedelta(days=1).total_seconds())
            await session.settle()
            assert len(provider.received) > calls
            await check_nothing_lost(session, 80)


async def test_a_model_named_by_a_string_is_asked_again_when_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FrozenClock(START)
    with LocalProvider(Answer(status=429, retry_after="0.01")) as provider:
        name = f"openai:test@{provider.url}/v1"
        async with onlooker.open_memory(":memory:", model=name, settings=SETTINGS, clock=clock) as memory:
            events: list[Event] = []
            memory.subscribe(events.append)
            session = memory.session("telegram:42")
            await talk(session, clock, 1, 30)
        assert not [event for event in events if isinstance(event, StepFailed)]
        assert any(isinstance(event, Noted) for event in events)
