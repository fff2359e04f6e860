"""Everything that happens to a memory is an event, with its session, its time and how long it took."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

import onlooker
from onlooker import events
from onlooker.domain.events import BaseEvent, Event, SessionEvent
from onlooker.policy.settings import DEFAULT, LANGO, Settings
from onlooker.testing import FaultyModel, FrozenClock, ScriptedModel
from onlooker.types import SessionId

pytestmark = pytest.mark.anyio

# Notes are written well before they are shown, so that each step is taken.
SMALL = replace(DEFAULT, budget=1000, observe_at=0.3, precompute_at=0.2, chunk_tokens=0.1, memory_limit=0.7)
NOON = datetime(2026, 2, 16, 12, 0, tzinfo=UTC)
PAGE = Path(__file__).parents[2] / "docs" / "events.md"


@asynccontextmanager
async def listened(
    settings: Settings = SMALL, model: Any = None, **options: Any
) -> AsyncGenerator[tuple[onlooker.Memory, list[Any]]]:
    heard: list[Event] = []
    clock = FrozenClock(NOON)
    async with onlooker.open_memory(
        ":memory:", model=model, settings=settings, clock=clock, **options
    ) as memory:
        memory.subscribe(heard.append)
        yield memory, heard


async def talk(session: onlooker.Session, turns: int) -> None:
    for i in range(turns):
        await session.record(onlooker.user(f"Fact {i}: parcel {i} weighs {i + 100} grams and goes to Oslo."))


def names(heard: list[Any]) -> list[str]:
    return [type(e).__name__ for e in heard]


def of(kind: type[Any], heard: list[Any]) -> list[Any]:
    return [e for e in heard if isinstance(e, kind)]


# ------------------------------------------------------------------------------------ each operation


@pytest.mark.req(84)
async def test_recording_and_building_a_context_are_events() -> None:
    async with listened() as (memory, heard):
        session = memory.session("a", owner="ana")
        said = await session.record(onlooker.user("hello"))
        context = await session.context()
        assert heard == [
            events.Recorded(session.id, tuple(said)),
            events.ContextBuilt(session.id, context.stats),
        ]
        await session.record(replace(said[0], seq=0))  # known already: nothing happened
        assert len(heard) == 2
        assert [(e.owner, e.at) for e in heard] == [("ana", NOON)] * 2
        assert all(e.seconds > 0 for e in heard)


async def test_a_history_that_went_another_way_is_an_event() -> None:
    async with listened() as (memory, heard):
        session = memory.session("a")
        texts = ("one", "two", "three", "four", "five")
        roles = ("user", "assistant")
        history = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
        await session.prepare(history)
        await session.prepare([*history[:2], {"role": "user", "content": "THREE"}])
    assert names(heard) == ["Recorded", "ContextBuilt", "Realigned", "ContextBuilt"]
    assert (heard[2].keep, heard[2].added) == (2, 1)


async def test_each_step_towards_a_note_is_an_event() -> None:
    async with listened(model=ScriptedModel()) as (memory, heard):
        session = memory.session("a")
        for _ in range(300):
            await talk(session, 1)
            await session.record(onlooker.assistant("Noted."))
            await memory.background.flush()
        await memory.settle()
        kinds = set(names(heard))
        notes = await session.notes(statuses=("active", "buffered", "superseded"))
        usage = await memory.usage()
    assert {"Planned", "Noted", "Activated", "Reflected", "ModelReplied"} <= kinds
    assert {e.step for e in of(events.Planned, heard)} == {"observe", "activate", "reflect"}
    assert all(e.tokens > 0 for e in of(events.Planned, heard))
    written = [e for e in heard if isinstance(e, events.Noted | events.Reflected)]
    assert {e.note.id for e in written} == {n.id for n in notes}
    assert all(e.calls and e.seconds > 0 for e in written)
    assert [e.usage for e in of(events.ModelReplied, heard)] == list(usage)
    assert sum(c.input_tokens for e in written for c in e.calls) == sum(u.input_tokens for u in usage)
    planned = names([e for e in heard if isinstance(e, events.Planned | events.Noted | events.Reflected)])
    assert planned[0] == "Planned"


async def test_the_built_in_model_makes_no_calls() -> None:
    async with listened() as (memory, heard):
        await talk(memory.session("a"), 60)
        await memory.settle()
    noted = of(events.Noted, heard)
    assert noted
    assert all(e.calls == () and e.seconds > 0 for e in noted)
    assert not of(events.ModelReplied, heard)


async def test_a_refused_reply_a_failure_and_what_they_cost_are_events() -> None:
    async with listened(model=FaultyModel("empty")) as (memory, heard):
        session = memory.session("a")
        await talk(session, 40)
        await memory.background.flush()
    refused, failed = of(events.ReplyRejected, heard), of(events.StepFailed, heard)
    assert {e.reason for e in refused} == {"empty"}
    assert {e.step for e in failed} == {"observe"}
    assert all(e.retry_in > 0 and e.seconds > 0 for e in failed)
    assert {e.usage.verdict for e in of(events.ModelReplied, heard)} == {"empty"}


async def test_what_a_person_does_is_an_event() -> None:
    async with listened() as (memory, heard):
        session = memory.session("a")
        await talk(session, 60)
        await memory.settle()
        notes = await session.notes()
        heard.clear()
        await session.pin(notes[0].id)
        await session.pin(notes[0].id, on=False)
        await session.history.compact(2, "They spoke of parcels.")
        cleared = await session.history.clear()
        await memory.retention.prune(older_than=timedelta(0))
        context = await session.context(system="You are helpful. " * 60)
        for _ in range(3):
            await memory.calibrate(context, input_tokens=int(context.stats.total * 1.4))
        assert await session.delete()
        assert not await session.delete()
    # The context may make the session due, and then the background plans beside this.
    background = (events.ContextBuilt, events.Planned, events.Noted, events.ModelReplied, events.Activated)
    assert [e for e in heard if not isinstance(e, background)] == [
        events.Pinned(session.id, notes[0].id, True),
        events.Pinned(session.id, notes[0].id, False),
        events.Compacted(session.id, 2),
        events.Cleared(session.id, None, cleared),
        events.Pruned(0),
        *of(events.Calibrated, heard),
        events.Deleted(session.id),
    ]
    assert cleared >= len(notes) > 0
    ratios = [e.ratio for e in of(events.Calibrated, heard)]
    assert ratios
    assert all(1 < ratio <= 1.4 for ratio in ratios)


async def test_a_search_is_an_event_with_where_it_looked() -> None:
    async with listened() as (memory, heard):
        session = memory.session("a", owner="ana")
        await session.record(onlooker.user("The parcel goes to Oslo."), onlooker.user("It rains."))
        heard.clear()
        await session.search("parcel")
        await memory.search("Oslo", owner="ana")
        await memory.search("Oslo", owner="ben")
    assert heard == [
        events.Searched("ana", "parcel", 1, "a"),
        events.Searched("ana", "Oslo", 1),
        events.Searched("ben", "Oslo", 0),
    ]
    assert all(e.seconds > 0 and e.at == NOON for e in heard)


async def test_compaction_after_a_note_is_an_event_whoever_does_it() -> None:
    async with listened(replace(LANGO, compact=True, overlap=0)) as (memory, heard):
        await talk(memory.session("a"), 120)
        await memory.settle()
        own = len(of(events.Compacted, heard))

        async def compact(session: SessionId, up_to: int, summary: str) -> None: ...

        memory.background.set_compactor(compact)
        await talk(memory.session("b"), 120)
        await memory.settle()
        compacted = of(events.Compacted, heard)
    assert own > 0
    assert {e.session.key for e in compacted[own:]} == {"b"}


@pytest.mark.req(32)
async def test_waiting_for_a_model_that_is_far_behind_is_an_event() -> None:
    settings = replace(SMALL, observe_at=200, block_after=300)
    async with listened(
        settings, model=FaultyModel("hang"), timing=onlooker.Timing(block_deadline=0.2, stop_deadline=0.2)
    ) as (memory, heard):
        session = memory.session("a")
        await talk(session, 40)
        await session.context()
    waited = of(events.Waited, heard)
    assert [e.caught_up for e in waited] == [False]
    assert waited[0].seconds > 0.1


# ------------------------------------------------------------------------------------ listeners


async def test_a_listener_that_raises_disturbs_neither_memory_nor_other_listeners(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(event: Event) -> None:
        raise RuntimeError("not my day")

    async with onlooker.open_memory(":memory:") as memory:
        heard: list[Event] = []
        memory.subscribe(fails)
        memory.subscribe(heard.append)
        session = memory.session("a")
        await session.record(onlooker.user("hello"))
        assert (await session.context()).messages[-1].text == "hello"
    assert names(heard) == ["Recorded", "ContextBuilt"]
    assert "a subscriber failed" in caplog.text


async def test_a_listener_may_leave_while_it_is_called_and_leaving_twice_is_harmless() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        heard: list[Event] = []

        def once(event: Event) -> None:
            heard.append(event)
            leave()

        leave = memory.subscribe(once)
        others: list[Event] = []
        memory.subscribe(others.append)
        await talk(memory.session("a"), 3)
        leave()
    assert (len(heard), len(others)) == (1, 3)


async def test_a_stream_gives_what_happened_while_it_was_not_read_and_ends_with_the_memory() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        stream = memory.events(events.Recorded, limit=5)
        everything = memory.events()
        await talk(memory.session("a"), 12)
        await memory.session("a").context()
    texts = [e.messages[0].text async for e in stream]
    assert [t.split(":")[0] for t in texts] == [f"Fact {i}" for i in range(7, 12)]
    assert stream.dropped == 7
    assert {type(e) async for e in everything} >= {events.Recorded, events.ContextBuilt}
    assert everything.dropped == 0


async def test_a_stream_is_read_while_things_happen() -> None:
    seen: list[str] = []

    async def read(stream: Any) -> None:
        async for event in stream:
            seen.append(event.messages[0].text)

    async with onlooker.open_memory(":memory:") as memory:
        reader = asyncio.ensure_future(read(memory.events(events.Recorded)))
        for i in range(3):
            await memory.session("a").record(onlooker.user(f"message {i}"))
            await asyncio.sleep(0)
        assert seen[:2] == ["message 0", "message 1"]
    await reader
    assert seen == ["message 0", "message 1", "message 2"]


def test_without_async_a_stream_is_for_a_plain_for() -> None:
    seen: list[str] = []
    with onlooker.blocking.open_memory(":memory:") as memory:
        stream = memory.events(events.Recorded)
        reader = threading.Thread(target=lambda: seen.extend(e.messages[0].text for e in stream))
        reader.start()
        left = memory.events(limit=1)
        for i in range(3):
            memory.session("a").record(onlooker.user(f"message {i}"))
        with memory.events() as closed:
            memory.session("a").context()
        assert names(list(closed)) == ["ContextBuilt"]
    reader.join(timeout=120)
    assert not reader.is_alive()
    assert seen == ["message 0", "message 1", "message 2"]
    assert names(list(left)) == ["ContextBuilt"]
    assert left.dropped >= 3
    left.close()


# ------------------------------------------------------------------------------------ the page


def rows() -> dict[str, list[str]]:
    table = PAGE.read_text(encoding="utf-8").split("## All events")[1].split("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \|([^|]*)\| \S[^|]* \|$", table, re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", besides) for name, besides in found}


def test_the_page_has_every_event_with_what_it_holds() -> None:
    classes: tuple[type[BaseEvent], ...] = get_args(Event)
    assert rows() == {c.__name__: besides(c) for c in classes}


def besides(kind: type[BaseEvent]) -> list[str]:
    """The fields that not every event, or not every event of a session, has."""
    common = {f.name for f in fields(SessionEvent if issubclass(kind, SessionEvent) else BaseEvent)}
    return [f.name for f in fields(kind) if f.name not in common]


def test_every_class_of_events_is_one_of_them() -> None:
    named = {c for c in vars(events).values() if isinstance(c, type) and issubclass(c, BaseEvent)}
    assert named - {BaseEvent, SessionEvent} == set(get_args(Event))
