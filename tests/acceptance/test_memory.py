"""A memory as its user sees it: what happens to a conversation, and what stands in the prompt."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

import onlooker
from onlooker.domain.events import (
    Activated,
    ContextBuilt,
    Event,
    Noted,
    Planned,
    Recorded,
    Reflected,
    ReplyRejected,
    StepFailed,
)
from onlooker.errors import BudgetError, ClosedError, MessageError
from onlooker.policy.settings import LANGO, OFF, ZORA, Settings, Timing
from onlooker.ports import ObserveRequest, Request
from onlooker.testing import FaultyModel, FrozenClock, ScriptedModel
from onlooker.types import RuntimeContext, SessionId

pytestmark = pytest.mark.anyio

SMALL = Settings(budget=1000)
# Closing waits for work that will end; only a model that hangs is given up on soon.
PATIENT = Timing(retry_seconds=1.0, stop_deadline=120.0)
QUICK = replace(PATIENT, stop_deadline=0.3)


@asynccontextmanager
async def opened(
    path: Path | str = ":memory:",
    model: Any = None,
    settings: Settings = SMALL,
    clock: FrozenClock | None = None,
    timing: Timing = PATIENT,
) -> AsyncGenerator[onlooker.Memory]:
    clock = clock or FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    async with onlooker.open_memory(
        path, model=model, settings=settings, clock=clock, timing=timing
    ) as memory:
        yield memory


async def talk(session: onlooker.Session, turns: int, first: int = 1) -> None:
    for i in range(first, first + turns):
        await session.record(
            onlooker.user(f"Fact {i}: the parcel {i} weighs {i + 100} grams and goes to Oslo.")
        )
        await session.record(onlooker.assistant(f"Noted, parcel {i}."))


async def talk_long(memory: onlooker.Memory, session: onlooker.Session) -> None:
    """Long enough that observations are condensed, with time for notes between the turns."""
    for turn in range(1, 500):
        await talk(session, 1, first=turn)
        await memory.background.flush()


# ------------------------------------------------------------------------------------ the turn never waits


@pytest.mark.req(28, 52)
async def test_a_model_that_hangs_holds_up_neither_recording_nor_the_context() -> None:
    settings = replace(SMALL, budget=1500, model_deadline=60.0)
    async with opened(model=FaultyModel("hang"), settings=settings, timing=QUICK) as memory:
        session = memory.session("a")
        async with asyncio.timeout(120):
            await talk(session, 60)
            context = await session.context(system="Help.")
    assert context.stats.total <= 1500
    assert context.stats.left_out_messages == 0
    # What no longer fits was noted on the spot by the built-in model.
    assert "parcel 1 " in context.memory


@pytest.mark.req(9, 96)
async def test_a_model_that_is_down_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    model = FaultyModel("error", first=1)
    async with opened(model=model, clock=clock) as memory:
        session = memory.session("a")
        with caplog.at_level(logging.WARNING, "onlooker"):
            await talk(session, 12)
            await memory.background.flush()
        assert "retrying notes" in caplog.text
        state = await session.history.state()
        assert state is not None
        assert not state.notes
        assert len(state.unshown) == 24
        clock.advance(600)
        await memory.settle()
        assert await session.notes(statuses=("active", "buffered"))


async def test_what_was_noted_in_a_models_place_is_written_again_by_it() -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    model = FaultyModel("error", first=3)
    async with opened(model=model, clock=clock) as memory:
        session = memory.session("a")
        await talk(session, 60)
        context = await session.context(system="Help.")
        assert any(n.degraded and n.model == "extractive" for n in await session.notes())
        for _ in range(6):
            clock.advance(600)
            await memory.settle()
        notes = await session.notes()
        assert notes
        assert not any(n.degraded for n in notes)
        assert {n.model for n in notes} == {model.name}
        after = await session.context(system="Help.")
    assert context.memory != after.memory
    assert re.search(r"^m\d+–m\d+", after.memory, re.M)  # so the scripted model names what it notes
    # It is shown the notes before the messages, and none of what came later.
    asked = [r for r in model.requests if isinstance(r, ObserveRequest)]
    assert any(r.notes for r in asked)
    assert all(note.last < r.messages[0].seq for r in asked for note in r.notes)


@pytest.mark.req(24)
async def test_a_reflection_that_fails_is_logged_and_never_fatal(caplog: pytest.LogCaptureFixture) -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    failed: list[Event] = []

    def observe_only(request: Any) -> str | None:
        if isinstance(request, ObserveRequest):
            return None
        raise RuntimeError("the reflector is out")

    async with opened(model=ScriptedModel(observe_only), clock=clock) as memory:
        memory.subscribe(lambda e: failed.append(e) if isinstance(e, StepFailed) else None)
        session = memory.session("a")
        with caplog.at_level(logging.WARNING, "onlooker"):
            for round_ in range(12):
                await talk(session, 30, first=1 + 30 * round_)
                clock.advance(600)
                await memory.settle()
        # After a few failures the built-in model condenses, so that the notes still fit.
        assert any(note.generation and note.degraded for note in await session.notes())
        context = await session.context(system="Help.")
    assert failed
    assert "the reflector is out" in caplog.text
    assert context.stats.total <= 1000
    assert context.stats.left_out_notes == 0


@pytest.mark.req(32, 97)
async def test_zora_waits_at_twice_the_working_tier_and_only_until_the_deadline() -> None:
    settings = replace(
        ZORA, observe_at=200, precompute_at=160, block_after=400, message_limit=5000, memory_limit=4000,
        reflect_at=2000, model_deadline=60.0,
    )  # fmt: skip
    timing = Timing(block_deadline=0.3, stop_deadline=0.1)
    async with opened(model=FaultyModel("hang"), settings=settings, timing=timing) as memory:
        session = memory.session("a")
        await talk(session, 30)
        loop = asyncio.get_running_loop()
        before = loop.time()
        context = await session.context(system="Help.")
        assert loop.time() - before >= 0.25
    assert len(context.messages) == 60


# ------------------------------------------------------------------------------------ life


@pytest.mark.req(29, 30)
async def test_closing_lets_work_in_progress_complete_and_takes_nothing_new(tmp_path: Path) -> None:
    began, finish = asyncio.Event(), asyncio.Event()

    async def slowly(request: Any) -> None:
        began.set()
        await finish.wait()

    async with opened(tmp_path / "a.db", ScriptedModel(slowly), SMALL) as memory:
        session = memory.session("a")
        await talk(session, 12)
        await began.wait()
        closing = asyncio.create_task(memory.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        with pytest.raises(ClosedError):
            await session.record(onlooker.user("too late"))
        finish.set()
        await closing
    async with opened(tmp_path / "a.db", ScriptedModel(), SMALL) as memory:
        assert await memory.session("a").notes(statuses=("active", "buffered"))


@pytest.mark.req(30)
async def test_work_that_outlasts_the_deadline_is_left_for_the_next_process(tmp_path: Path) -> None:
    settings = replace(SMALL, model_deadline=60.0)
    async with opened(tmp_path / "a.db", FaultyModel("hang"), settings, timing=QUICK) as memory:
        await talk(memory.session("a"), 12)
    async with opened(tmp_path / "a.db", ScriptedModel(), timing=Timing(lease_seconds=1.0)) as memory:
        session = memory.session("a")
        assert len(await session.messages()) == 24
        state = await session.history.state()
        assert state is not None
        assert state.progress.due_at is not None


@pytest.mark.req(33, 65, 31)
async def test_tick_starts_what_is_due_and_flush_waits_for_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db", FaultyModel("error"), SMALL) as memory:
        await talk(memory.session("a"), 12)
    clock = FrozenClock(datetime(2026, 2, 17, 9, 0, tzinfo=UTC))
    async with opened(tmp_path / "a.db", ScriptedModel(), SMALL, clock) as memory:
        await memory.background.tick()
        await memory.background.flush()
        assert memory.background.pending == 0
        assert await memory.session("a").notes(statuses=("active", "buffered"))


@pytest.mark.req(62, 100)
async def test_off_means_that_what_goes_in_comes_out() -> None:
    history = [{"role": "user", "content": f"number {i}"} for i in range(50)]
    async with opened(settings=OFF) as memory:
        session = memory.session("a")
        prepared = await session.prepare(history)
        assert prepared.openai() == history
        assert await memory.sessions() == []
        await session.record(*history)
        assert (await session.context()).openai() == history


@pytest.mark.req(38, 100)
async def test_switched_off_the_tables_stay_and_are_ignored_until_it_is_on_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    history = [{"role": "user", "content": f"Fact {i}: parcel {i} weighs {i + 100} g."} for i in range(80)]
    async with opened(path) as memory:
        await memory.session("a").prepare(history)
        await memory.settle()
        noted = await memory.session("a").context(system="Help.")
    assert noted.memory

    async with opened(path, settings=replace(SMALL, enabled=False)) as memory:
        session = memory.session("a")
        asked = [*history, {"role": "user", "content": "Which parcel is the heaviest?"}]
        assert (await session.prepare(asked, system="Help.")).openai() == [
            {"role": "system", "content": "Help."},
            *asked,
        ]
        await memory.settle()

    async with opened(path) as memory:
        session = memory.session("a")
        assert (await session.context(system="Help.")).openai() == noted.openai()


# ------------------------------------------------------------------------------------ events


@pytest.mark.req(84, 101)
async def test_everything_that_happens_is_an_event_and_nothing_happens_while_the_agent_answers() -> None:
    events: list[Event] = []
    async with opened(model=ScriptedModel(), settings=Settings(budget=1100)) as memory:
        stop = memory.subscribe(events.append)
        session = memory.session("a")
        await talk_long(memory, session)
        context = await session.context(system="Help.")
        kinds = {type(e) for e in events}
        assert {Recorded, Noted, Activated, Reflected, ContextBuilt} <= kinds
        # The agent now generates: a context is a value, and no later note reaches into it.
        sent = context.openai()
        await talk(session, 50, first=501)
        await memory.settle()
        assert context.openai() == sent
        stop()
        events.clear()
        await talk(session, 1, first=600)
        assert events == []


async def test_a_subscriber_that_fails_breaks_nothing() -> None:
    def fails(event: Event) -> None:
        raise RuntimeError("not my day")

    async with opened() as memory:
        memory.subscribe(fails)
        session = memory.session("a")
        await talk(session, 2)
        assert len(await session.messages()) == 4


async def test_a_refused_reply_is_an_event_with_its_reason() -> None:
    refused: list[ReplyRejected] = []
    async with opened(model=FaultyModel("empty")) as memory:
        memory.subscribe(lambda e: refused.append(e) if isinstance(e, ReplyRejected) else None)
        await talk(memory.session("a"), 12)
        await memory.background.flush()
    assert {r.reason for r in refused} == {"empty"}


# ------------------------------------------------------------------------------------ compaction


COMPACTING = replace(
    LANGO,
    observe_at=100,
    precompute_at=100,
    reflect_at=4000,
    overlap=100,
    message_limit=200,
    memory_limit=4000,
)


@pytest.mark.req(70, 72, 73)
async def test_noted_messages_are_compacted_but_never_the_newest_and_recall_finds_the_originals() -> None:
    async with opened(model=ScriptedModel(), settings=replace(COMPACTING, compact=True)) as memory:
        session = memory.session("a")
        await talk(session, 40)
        await memory.settle()
        live, everything = await session.messages(), await session.messages(archived=True)
        said = [m for m in everything if m.name != "summary"]
        assert len(said) == 80
        assert len(live) < 40
        assert live[0].name == "summary"
        context = await session.context()
        assert context.messages[-1].text == "Noted, parcel 40."
        first = (await session.notes())[0]
        assert (await session.recall(first.id))[0].text.startswith("Fact 1:")


@pytest.mark.req(71)
async def test_without_a_compactor_every_message_is_retained() -> None:
    async with opened(model=ScriptedModel(), settings=COMPACTING) as memory:
        session = memory.session("a")
        await talk(session, 40)
        await memory.settle()
        assert len(await session.messages()) == 80


@pytest.mark.req(70, 73)
async def test_a_compactor_can_be_set_at_run_time() -> None:
    called: list[tuple[SessionId, int, str]] = []

    async def compactor(session: SessionId, up_to: int, summary: str) -> None:
        called.append((session, up_to, summary))

    async with opened(model=ScriptedModel(), settings=COMPACTING) as memory:
        memory.background.set_compactor(compactor)
        session = memory.session("a", owner="ana")
        await talk(session, 20)
        await memory.settle()
        assert called
        assert {(of.owner, of.key) for of, _, _ in called} == {("ana", "a")}
        assert all(summary for _, _, summary in called)
        count = len(called)
        memory.background.set_compactor(None)
        await talk(session, 20, first=21)
        await memory.settle()
        assert len(called) == count


@pytest.mark.req(74, 75)
async def test_compacting_by_hand_puts_the_summary_before_the_rest() -> None:
    async with opened() as memory:
        session = memory.session("a")
        await talk(session, 3)
        await session.history.compact(4, "They talked about two parcels.")
        context = await session.context()
        assert [m.text for m in context.messages] == [
            "They talked about two parcels.",
            "Fact 3: the parcel 3 weighs 103 grams and goes to Oslo.",
            "Noted, parcel 3.",
        ]
        await session.history.compact(0, "It began well.")
        assert (await session.messages())[0].text == "It began well."


# ------------------------------------------------------------------------------------ what the prompt holds


async def test_pins_stay_in_the_prompt_whatever_happens_to_the_rest() -> None:
    async with opened(model=ScriptedModel()) as memory:
        session = memory.session("a")
        pinned = (await session.record(onlooker.user("My allergy: hazelnuts. Never forget it.")))[0]
        await session.pin(pinned.id)
        await talk(session, 200)
        await memory.settle()
        context = await session.context(system="Help.")
        assert "My allergy: hazelnuts. Never forget it." in context.memory
        await session.pin(pinned.id, on=False)
        assert "### Pinned" not in (await session.context(system="Help.")).memory
        with pytest.raises(KeyError):
            await session.pin("nothing")


async def test_a_history_keeps_its_images_and_provider_fields_while_they_are_recent() -> None:
    picture = {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ],
    }
    async with opened(settings=replace(SMALL, budget=8000)) as memory:
        session = memory.session("a")
        context = await session.prepare([{"role": "system", "content": "Help."}, picture])
        assert context.openai() == [{"role": "system", "content": "Help."}, picture]
        (stored,) = await session.messages()
        assert stored.body.startswith("What is this?\n[image ")


async def test_what_changes_each_turn_stands_at_the_end() -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    async with opened(clock=clock) as memory:
        session = memory.session("a")
        await talk(session, 60)
        # From a call on, notes go by the room that it leaves them, and what that makes due is taken first.
        await session.context(system="Help.", relative_time=True)
        await memory.settle()
        monday = await session.context(system="Help.", relative_time=True)
        clock.advance(timedelta(days=2).total_seconds())
        wednesday = await session.context(system="Help.", relative_time=True)
    assert monday.system == wednesday.system
    assert "2026-02-16 2 days ago" in wednesday.openai()[-1]["content"]
    assert wednesday.openai()[:-1] == monday.openai()[:-1]


async def test_statistics_say_how_often_the_prefix_changes_and_where() -> None:
    """Notes come behind those that stand, for many turns; then they are condensed, from the front."""
    async with onlooker.open_memory(":memory:", budget=2_100) as memory:
        session = memory.session("s", owner="ana")
        prompts: list[onlooker.Context] = []
        for i in range(160):
            at = datetime(2026, 2, 16, 9, tzinfo=UTC) + timedelta(minutes=i)
            told = f"Parcel {i} for customer {i * 7919} weighs {i * 3 + 1} kg and left quay {i * 31} today."
            await session.record(replace(onlooker.user(told), at=at))
            await session.settle()
            prompts.append(await session.context(system="You are an assistant."))
    for before, after in pairwise(prompts):
        old, new = before.sections, after.sections
        same = before.memory == after.memory and before.messages == after.messages[: len(before.messages)]
        assert same == (not after.stats.changed)
        if after.stats.changed == "messages":
            assert old.reflections == new.reflections[: len(old.reflections)]
            assert old.observations == new.observations[: len(old.observations)]
    counts = Counter(prompt.stats.changed for prompt in prompts)
    assert 0 < counts["reflections"] < counts["messages"] / 3
    assert counts["base"] == counts["observations"] == 0
    expected = {part: 100 * counts[part] / 160 for part in ("reflections", "messages")}
    assert prompts[-1].stats.changes_per_100 == pytest.approx(expected)


async def test_the_count_learns_from_what_providers_report() -> None:
    async with opened() as memory:
        session = memory.session("a")
        await talk(session, 30)
        before = await session.context(system="Help.")
        for _ in range(50):
            await memory.calibrate(before, input_tokens=int(before.stats.total * 1.5))
        await talk(session, 60, first=31)
        await memory.settle()
        after = await session.context(system="Help.")
    # The provider counts half as much again, so by our count there is a third less room.
    assert after.stats.total <= 1000 / 1.4


async def test_a_budget_too_small_for_the_base_prompt_says_what_to_do() -> None:
    async with opened() as memory:
        session = memory.session("a")
        await talk(session, 1)
        with pytest.raises(BudgetError, match="raise the budget or shorten the prompt"):
            await session.context(system="word " * 600, budget=500)


@pytest.mark.req(76, 77, 78)
async def test_the_session_comes_from_the_requests_context_and_none_means_no_memory() -> None:
    history = [{"role": "user", "content": "hello"}]
    async with opened() as memory:
        untouched = await memory.prepare(history)
        assert untouched.openai() == history
        assert untouched.runtime is None
        assert await memory.record(onlooker.user("to nobody")) == ()
        assert await memory.sessions() == []
        with onlooker.use_session("telegram:42", owner="ana"):
            context = await memory.prepare(history)
        assert context.runtime == RuntimeContext("telegram:42", "telegram")
        assert [s.progress.session for s in await memory.sessions()] == [("ana", "telegram:42")]


@pytest.mark.req(13, 82)
async def test_the_observer_is_shown_the_notes_so_far_and_the_oldest_messages() -> None:
    model = ScriptedModel()
    settings = replace(ZORA, observe_at=300, precompute_at=300, block_after=4000, message_limit=5000)
    async with opened(model=model, settings=settings) as memory:
        await talk(memory.session("a"), 40)
        await memory.settle()
    requests = [r for r in model.requests if isinstance(r, ObserveRequest)]
    assert [m.seq for m in requests[0].messages] == list(range(1, 21))
    assert [m.seq for m in requests[1].messages] == list(range(21, 41))
    assert not requests[0].notes
    assert [n.first for n in requests[1].notes] == [1]


@pytest.mark.req(8)
async def test_observer_and_reflector_may_be_two_models() -> None:
    observer, reflector = ScriptedModel(name="small"), ScriptedModel(name="large")
    memory = onlooker.open_memory(
        ":memory:", model=observer, reflector=reflector, settings=SMALL, timing=PATIENT
    )
    async with memory:
        session = memory.session("a")
        await talk_long(memory, session)
        kinds = {(n.kind, n.model) for n in await session.notes()}
    assert kinds == {("observation", "small"), ("reflection", "large")}


async def test_ids_and_times_that_a_history_has_for_us_do_not_go_to_the_provider() -> None:
    history = [
        {"role": "user", "content": "hello", "id": "m1", "created_at": "2026-02-16T09:00:00+01:00"},
        {"role": "assistant", "content": "hi", "id": "m2"},
    ]
    async with opened() as memory:
        session = memory.session("a")
        context = await session.prepare(history)
        assert context.openai() == [{"role": m["role"], "content": m["content"]} for m in history]
        said = await session.messages()
    assert [m.id for m in said] == ["m1", "m2"]
    assert said[0].at == datetime.fromisoformat("2026-02-16T09:00:00+01:00")


@pytest.mark.req(95)
async def test_a_model_is_asked_once_for_a_chunk_and_never_for_a_message() -> None:
    model = ScriptedModel()
    async with opened(model=model, settings=replace(SMALL, budget=16_000)) as memory:
        session = memory.session("a")
        for turn in range(1, 400):
            await talk(session, 1, first=turn)
            await memory.background.flush()
        said = await session.messages()
    asked = [r for r in model.requests if isinstance(r, ObserveRequest)]
    chunk = Settings().chunk_tokens * 16_000 * 0.94
    assert len(asked) <= sum(m.tokens for m in said) / chunk
    assert sum(len(r.messages) for r in asked) <= len(said)


@pytest.mark.req(4, 3)
async def test_next_steps_and_decisions_stand_in_the_prompt_long_after() -> None:
    async with opened(settings=Settings(budget=1200)) as memory:
        session = memory.session("a")
        await session.record(
            onlooker.user("We decided to use PostgreSQL 16 for the ledger."),
            onlooker.user("Next step: I have to call the notary on 3 March about the deed."),
            onlooker.assistant("Understood. I will remind you of the notary."),
        )
        for i in range(60):
            await session.record(onlooker.user(f"What is the weather like today? {i}"))
            await session.record(onlooker.assistant("It is cloudy, as it often is."))
        await memory.settle()
        context = await session.context(system="Help.")
    assert "PostgreSQL 16" in context.memory
    assert "notary on 3 March" in context.memory


# ------------------------------------------------------------------------------------ exact values


async def _noted_by(reply: str, *said: str) -> tuple[str, list[str]]:
    """The memory section after a model answered so, and why it was refused, if it was."""
    refused: list[str] = []
    async with opened(model=ScriptedModel(lambda request: reply)) as memory:
        memory.subscribe(lambda e: refused.append(e.reason) if isinstance(e, ReplyRejected) else None)
        session = memory.session("a")
        await session.record(*(onlooker.user(text) for text in said))
        for i in range(8):
            await session.record(onlooker.assistant(f"I see, and I shall keep it in mind, point {'i' * i}."))
            await session.record(onlooker.user("Good. Tell me more about the harbour and the weather there."))
        await memory.background.flush()
        await memory.settle()
        notes = await session.notes(statuses=("active", "buffered"))
    return "\n".join(n.text for n in notes), refused


@pytest.mark.req(12, 98)
async def test_exact_values_that_a_model_drops_are_brought_back() -> None:
    text, refused = await _noted_by(
        "## 2026-02-16\nIMPORTANT Ana placed an order, found the file and asked about the harbour",
        "My order is 88-1431, it cost €1,240.50 and the file is /srv/app/fly.toml, version v2.3.1.",
    )
    assert not refused
    for value in ("88-1431", "€1,240.50", "/srv/app/fly.toml", "v2.3.1"):
        assert value in text


async def test_what_a_model_invents_again_is_struck_out_and_the_note_stays() -> None:
    asked: list[str] = []

    def reply(request: Request) -> str:
        asked.append(request.correction)
        return (
            "## 2026-02-16\nIMPORTANT the harbour is new (1985-05-05)\nThe user wants to hear of the weather"
        )

    async with opened(model=ScriptedModel(reply)) as memory:
        session = memory.session("a")
        for i in range(12):
            await session.record(onlooker.assistant(f"The harbour is new, and it rains there, point {i}."))
            await session.record(onlooker.user("Good. Tell me more about the harbour and the weather there."))
        await memory.settle()
        prompt = (await session.context()).text()
    assert asked[0] == ""
    assert '"1985-05-05"' in asked[1]
    assert "IMPORTANT the harbour is new\n" in prompt
    assert "1985" not in prompt


async def test_a_value_that_nobody_said_is_refused() -> None:
    text, refused = await _noted_by(
        "## 2026-02-16\nIMPORTANT Ana placed order 99-7777 for €12,000.00",
        "My order is 88-1431 and it cost €1,240.50, which I find rather a lot for a lamp.",
    )
    assert set(refused) == {"invented values"}
    assert "99-7777" not in text


async def test_secrets_do_not_get_into_notes() -> None:
    key = "sk-proj-9fQ2mXv7Lw0sRt4Yb8Nc3Kd6Hj1Pz5Ae"
    text, refused = await _noted_by(
        f"## 2026-02-16\nIMPORTANT The user's key is {key}; the user likes sailing",
        f"Here is my key: {key}. I like sailing, and I want to go out every week in summer.",
    )
    assert not refused
    assert "likes sailing" in text
    assert key not in text


async def test_memory_that_a_host_hands_back_is_not_taken_for_its_own_prompt() -> None:
    async with opened(model=ScriptedModel()) as memory:
        session = memory.session("a")
        await talk(session, 40)
        await memory.settle()
        first = await session.context(system="Help.")
        again = await session.prepare([*first.openai()[:1], {"role": "user", "content": "And now?"}])
        third = await session.context(system=first.system)
        said = await session.messages()
    assert first.memory
    assert again.system == first.system
    assert third.system == first.system
    assert not any("Conversation Memory" in m.text for m in said)


@pytest.mark.req(49, 96)
@pytest.mark.parametrize("fault", ["error", None])
@pytest.mark.parametrize("budget", [1000, 2000])
async def test_no_note_is_left_out_while_a_model_is_down_or_turns_come_fast(
    fault: Literal["error"] | None, budget: int
) -> None:
    model = FaultyModel(fault) if fault else None
    async with opened(model=model, settings=Settings(budget=budget)) as memory:
        session = memory.session("a")
        for turn in range(1, 120):
            await talk(session, 1, first=turn)
            stats = (await session.context(system="Help.")).stats
            assert (stats.left_out_notes, stats.left_out_messages) == (0, 0)
            assert stats.total <= budget


async def test_a_turn_and_the_background_do_not_write_the_same_note_twice(tmp_path: Path) -> None:
    happened: list[Event] = []
    prompt = ""
    async with opened(tmp_path / "notes.db", settings=Settings(budget=2000)) as memory:
        memory.subscribe(happened.append)
        session = memory.session("s1")
        for first in range(1, 400, 20):
            said = [f"Fact {i}: the parcel {i} weighs {i + 100} grams." for i in range(first, first + 20)]
            await session.record([onlooker.user(text) for text in said])
            prompt = (await session.context()).text()
        await memory.background.flush()
    begun = [e for e in happened if isinstance(e, Planned) and e.step in ("observe", "reflect")]
    done = [e for e in happened if isinstance(e, Noted | Reflected)]
    assert len(begun) == len(done) > 10
    assert "Fact 400" in prompt


async def test_superseded_notes_are_kept_for_provenance_until_retention_purges_them(tmp_path: Path) -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    async with opened(tmp_path / "a.db", ScriptedModel(), clock=clock) as memory:
        session = memory.session("a")
        await talk_long(memory, session)
        # Live reflections lead back through what they superseded, so that stays in any case.
        assert await session.notes(statuses=("superseded",))
        history = [{"role": m.role, "content": m.text} for m in await session.messages()]
        await session.prepare(history)
        await session.prepare([*history[:200], {"role": "user", "content": "Back to an earlier point."}])
        retired = await session.notes(statuses=("retired",))
        assert retired
    clock.advance(timedelta(days=10).total_seconds())
    settings = replace(SMALL, retention_days=5)
    async with opened(tmp_path / "a.db", ScriptedModel(), settings, clock) as memory:
        session = memory.session("a")
        async with asyncio.timeout(120), memory.events(onlooker.events.Pruned) as pruned:
            if await session.notes(statuses=("retired",)):
                await anext(pruned)
        assert await session.notes(statuses=("retired",)) == []
        for note in await session.notes():
            assert await session.recall(note.id)


async def test_a_host_that_goes_back_to_an_early_point_of_a_long_conversation_is_recognised() -> None:
    roles = ("user", "assistant")
    history = [{"role": roles[i % 2], "content": f"message number {i} of many"} for i in range(600)]
    early = [*history[:20], {"role": "user", "content": "Let us take another way from here."}]
    async with opened() as memory:
        session = memory.session("a")
        await session.prepare(history)
        context = await session.prepare(early)
        said = [m.text for m in await session.messages()]
    assert said == [m["content"] for m in early]
    assert "number 300 " not in context.text()


async def test_what_is_not_a_message_is_named_by_its_place_and_nothing_is_recorded() -> None:
    history: list[Any] = [{"role": "user", "content": "hello"}]
    async with opened() as memory:
        session = memory.session("a")
        await session.prepare(history)
        with pytest.raises(MessageError, match=r"messages\[1\]"):
            await session.prepare([*history, {"content": "nobody said this"}])
        assert [m.text for m in await session.messages()] == ["hello"]


async def test_in_the_prompt_what_people_said_is_in_order_and_under_their_names() -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    async with onlooker.open_memory(":memory:", clock=clock, budget=1_200) as memory:
        session = memory.session("chat")
        for n in range(200):
            name = "Ana" if n % 2 else "Ben"
            told = f"I carried crate {n * 137} to warehouse {n} for the museum in Bergen."
            await session.record(onlooker.user(told, name=name))
            await session.settle()
        prompt = (await session.context()).text()
    memory_section = prompt.split("## Recent messages")[0]
    reflected = memory_section.split("### Reflections")[1].split("###")[0]
    noted = [
        (line.partition(": ")[0], int(n))
        for line in reflected.splitlines()
        for n in re.findall(r"warehouse (\d+)", line)
    ]
    assert len(noted) > 5
    assert [n for _, n in noted] == sorted(n for _, n in noted)
    assert all(name == ("Ana" if n % 2 else "Ben") for name, n in noted), reflected
