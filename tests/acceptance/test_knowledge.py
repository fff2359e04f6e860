"""Knowledge layers in the final prompt: who is asked what, what stands where, and what cannot go wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import onlooker
from onlooker import Layer
from onlooker.domain.events import Event, LayerCut, LayerLeftOut
from onlooker.errors import SettingsError
from onlooker.policy.layers import CUT_MARK
from onlooker.policy.settings import DEFAULT, OFF, Settings
from onlooker.testing import ScriptedModel
from onlooker.types import LayerRequest, RuntimeContext, SessionId

pytestmark = pytest.mark.anyio

SMALL = replace(DEFAULT, budget=2000, recall="off")  # what a turn recalls is tested elsewhere
PATIENT = onlooker.Timing(knowledge_deadline=120.0)
SAID = "Ana said that order 88-1431 is late again, and asked what can be done about it. " * 4


@asynccontextmanager
async def opened(
    settings: Settings = SMALL, timing: onlooker.Timing = PATIENT, **options: Any
) -> AsyncGenerator[onlooker.Memory]:
    async with onlooker.open_memory(
        ":memory:", model=ScriptedModel(), settings=settings, timing=timing, **options
    ) as memory:
        yield memory


async def talk(session: onlooker.Session, turns: int) -> None:
    for i in range(turns):
        await session.record(onlooker.user(f"{i}: {SAID}"), onlooker.assistant(f"{i}: I will ask them."))


async def talk_long(memory: onlooker.Memory, session: onlooker.Session) -> None:
    """Until notes of both kinds stand in the prompt."""
    for _ in range(60):
        await talk(session, 4)
        await memory.settle()
        if {n.kind for n in await session.notes()} == {"observation", "reflection"}:
            return
    raise AssertionError("never both")


class Heard:
    """A layer that remembers what it was asked with."""

    def __init__(self, answer: str = "known") -> None:
        self.answer = answer
        self.requests: list[LayerRequest] = []

    async def __call__(self, request: LayerRequest) -> str:
        self.requests.append(request)
        return self.answer


def words(count: int) -> str:
    return "\n".join(f"Fact {i} of the house." for i in range(count))


# ------------------------------------------------------------------------------------ what stands where


@pytest.mark.req(44, 51, 102)
async def test_the_layers_stand_by_number_between_the_base_prompt_and_the_memory() -> None:
    knowledge = {
        "learnings": "LEARNED",
        "own": "OTHER",
        "external_knowledge": Heard("FOUND"),
        "skills": "SKILLS",
        "user_knowledge": Layer("ABOUT ANA"),
        "tools": Layer(Heard("TOOLS")),
        "runtime_context": "CHANNEL",
    }
    async with opened(knowledge=knowledge) as memory:
        session = memory.session("telegram:42")
        await talk_long(memory, session)
        context = await session.context(system="BASE")
    system = context.openai()[0]["content"]
    order = (
        "BASE",
        "CHANNEL",
        "TOOLS",
        "ABOUT ANA",
        "SKILLS",
        "FOUND",
        "LEARNED",
        "OTHER",
        "## Conversation",
    )
    places = [system.index(part) for part in order]
    assert places == sorted(places)
    assert system.startswith(
        "BASE\n\nCHANNEL\n\nTOOLS\n\nABOUT ANA\n\nSKILLS\n\nFOUND\n\nLEARNED\n\nOTHER\n\n## "
    )
    assert list(context.layers) == [
        "runtime_context",
        "tools",
        "user_knowledge",
        "skills",
        "external_knowledge",
        "learnings",
        "own",
        "observations",
        "reflections",
    ]
    assert context.stats.by_layer["skills"] > 0
    assert set(context.stats.by_layer) == set(context.layers)
    assert 0 < context.stats.by_layer["observations"] <= context.stats.observations


@pytest.mark.req(51)
async def test_observations_and_reflections_are_layers_7_and_8_of_this_session_alone() -> None:
    async with opened() as memory:
        session, other = memory.session("a", owner="ana"), memory.session("a", owner="ben")
        await talk_long(memory, session)
        await other.record(onlooker.user("hello"))
        notes = await session.notes()
        context = await session.context()
        layers = context.layers
        assert (await other.context()).layers == {}
    assert layers["observations"].startswith("### Observations\n")
    assert layers["reflections"].startswith("### Reflections\n")
    assert "Conversation Memory" not in "".join(layers.values())
    assert all(text in context.memory for text in layers.values())
    newest = [n for n in notes if n.kind == "observation"][-1]
    assert newest.text.splitlines()[-1] in layers["observations"]


async def test_with_no_layers_the_prompt_is_what_it_was() -> None:
    async with opened() as plain, opened(knowledge={}) as empty:
        for memory in (plain, empty):
            await memory.session("a").record(onlooker.user("hello"))
        first = await plain.session("a").context(system="BASE")
        second = await empty.session("a").context(system="BASE", knowledge={"tools": ""})
    assert first.openai() == second.openai()
    assert (first.stats.missing_layers, first.stats.cut_by_layer) == ((), {})


async def test_a_call_adds_layers_to_those_of_the_memory_and_replaces_them_by_name() -> None:
    async with opened(knowledge={"tools": "OLD TOOLS", "skills": "SKILLS"}) as memory:
        session = memory.session("a")
        await session.record(onlooker.user("hello"))
        context = await session.context(knowledge={"tools": "NEW TOOLS", "user_knowledge": "ANA"})
        assert context.system == "NEW TOOLS\n\nANA\n\nSKILLS"
        assert (await session.context()).system == "OLD TOOLS\n\nSKILLS"


async def test_whole_histories_get_the_layers_too() -> None:
    history = [{"role": "system", "content": "BASE"}, {"role": "user", "content": "hello"}]
    async with opened(knowledge={"skills": "SKILLS"}) as memory:
        prepared = await memory.session("a").prepare(history)
    assert [m["content"] for m in prepared.openai()] == ["BASE\n\nSKILLS", "hello"]


async def test_switched_off_the_layers_are_still_the_hosts() -> None:
    heard = Heard("TOOLS")
    async with opened(OFF, knowledge={"tools": heard}) as memory:
        prepared = await memory.session("a").prepare([{"role": "user", "content": "hello"}], system="BASE")
        assert prepared.system == "BASE\n\nTOOLS"
        assert prepared.stats.by_layer == {"tools": 2}
    assert [r.question for r in heard.requests] == ["hello"]


async def test_a_layer_that_cannot_be_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="observations"):
        onlooker.open_memory(tmp_path / "a.db", knowledge={"observations": "mine"})
    async with opened() as memory:
        session = memory.session("a")
        wrong: Any = {"tools": 3}
        with pytest.raises(SettingsError, match="tools"):
            await session.prepare([{"role": "user", "content": "hello"}], knowledge=wrong)
        assert await session.history.state() is None


# ------------------------------------------------------------------------------------ who is asked what


@pytest.mark.req(78, 79)
async def test_a_layer_is_asked_per_call_with_the_session_its_channel_and_the_question() -> None:
    heard = Heard()
    async with opened(knowledge={"external_knowledge": heard}) as memory:
        for key, owner in (("telegram:42", "ana"), ("slack:9", "ben")):
            session = memory.session(key, owner=owner)
            await session.record(onlooker.user(f"who is {owner}?"), onlooker.assistant("A person."))
            await session.context()
    first, second = heard.requests
    assert first.session == SessionId("ana", "telegram:42")
    assert first.runtime == RuntimeContext("telegram:42", "telegram")
    assert (first.layer, first.question) == ("external_knowledge", "who is ana?")
    assert second.session == SessionId("ben", "slack:9")
    assert (second.runtime.channel, second.question) == ("slack", "who is ben?")


@pytest.mark.req(79)
async def test_what_is_looked_up_for_one_owner_never_stands_in_the_prompt_of_another() -> None:
    shelves = {"ana": "Ana's flat is in Oslo.", "ben": "Ben's boat is in Bergen."}

    async def look(request: LayerRequest) -> str:
        await asyncio.sleep(0)
        return shelves[request.session.owner]

    async with opened(knowledge={"user_knowledge": look}) as memory:
        sessions = {owner: memory.session("chat", owner=owner) for owner in shelves}
        for session in sessions.values():
            await session.record(onlooker.user("where?"))
        built = await asyncio.gather(*(sessions[o].context() for o in ("ana", "ben", "ana", "ben")))
    assert [c.system for c in built] == [shelves[o] for o in ("ana", "ben", "ana", "ben")]


async def test_layers_are_asked_at_the_same_time() -> None:
    names = ("runtime_context", "tools", "user_knowledge", "skills", "external_knowledge", "learnings")
    asked = asyncio.Barrier(len(names))

    async def slow(request: LayerRequest) -> str:
        await asked.wait()  # until the others are asked as well
        return request.layer

    async with opened(
        timing=onlooker.Timing(knowledge_deadline=60.0), knowledge=dict.fromkeys(names, slow)
    ) as memory:
        context = await memory.session("a").context()
    assert context.system == "\n\n".join(names)


async def test_a_plain_function_and_one_that_has_nothing_to_say_are_layers_too() -> None:
    def plain(request: LayerRequest) -> str:
        return f"tokens: {request.tokens > 0}"

    def nothing(request: LayerRequest) -> Any:
        return None

    async with opened(knowledge={"tools": plain, "skills": nothing}) as memory:
        context = await memory.session("a").context()
    assert context.system == "tokens: True"
    assert context.stats.by_layer["skills"] == 0
    assert context.stats.missing_layers == ()


# ------------------------------------------------------------------------------------ shares


async def test_a_layer_over_its_share_is_cut_at_a_line_and_the_statistics_say_so() -> None:
    events: list[Event] = []
    async with opened(knowledge={"tools": "TOOLS", "external_knowledge": Heard(words(1000))}) as memory:
        memory.subscribe(lambda e: events.append(e) if isinstance(e, LayerCut) else None)
        session = memory.session("a")
        await session.record(onlooker.user("hello"))
        context = await session.context(system="BASE")
    stats = context.stats
    shown = context.layers["external_knowledge"]
    assert shown.startswith("Fact 0 of the house.\n")
    assert shown.endswith(" of the house." + CUT_MARK)
    assert list(stats.cut_by_layer) == ["external_knowledge"]
    assert stats.cut_by_layer["external_knowledge"] > 4 * stats.by_layer["external_knowledge"] > 0
    # Two fifths of the budget, less its margin; what the small layer does not need is the large one's.
    assert 0.38 * 1920 < stats.knowledge <= 0.4 * 1920 + 2
    assert events == [
        LayerCut(
            session.id,
            "external_knowledge",
            stats.by_layer["external_knowledge"],
            stats.cut_by_layer["external_knowledge"],
        )
    ]
    assert stats.total <= 2000


async def test_a_layer_is_told_its_share_and_what_keeps_to_it_is_never_cut() -> None:
    async def exactly(request: LayerRequest) -> str:
        return "a " * request.tokens if request.layer == "skills" else ""

    heard = Heard("short")
    layers = {"tools": heard, "skills": exactly, "learnings": words(1000)}
    settings = replace(SMALL, estimator="lango")
    async with opened(settings, knowledge=layers) as memory:
        context = await memory.session("a").context()
    assert heard.requests[0].tokens in (266, 267)  # a third of two fifths
    assert list(context.stats.cut_by_layer) == ["learnings"]
    # What the first did not use went to the others.
    assert context.stats.by_layer["learnings"] > 400


async def test_a_layer_can_have_a_limit_of_its_own() -> None:
    heard = Heard(words(100))
    async with opened(knowledge={"skills": Layer(heard, tokens=30), "tools": words(10)}) as memory:
        context = await memory.session("a").context()
    assert heard.requests[0].tokens == 30
    assert context.stats.by_layer["skills"] <= 30
    assert list(context.stats.cut_by_layer) == ["skills"]


async def test_with_no_limit_the_layers_are_taken_whole() -> None:
    heard = Heard(words(300))
    async with opened(replace(SMALL, knowledge_limit=0, budget=0), knowledge={"skills": heard}) as memory:
        context = await memory.session("a").context()
    assert heard.requests[0].tokens == 0
    assert context.system == words(300)


async def test_unused_shares_go_to_memory_and_messages() -> None:
    # There must be more than fits beside a large layer: so it is just before notes are condensed.
    found = [await sizes_beside_layers(turns) for turns in range(160, 190, 5)]
    for without, small, large in found:
        assert without - small < 200
        assert small >= large > 0
    assert any(small > large for _, small, large in found)


async def sizes_beside_layers(turns: int) -> list[int]:
    """What memory takes in a new session without a layer, with a small one and with a large one."""
    async with opened() as memory:
        session = memory.session("a")
        await talk(session, turns)
        await memory.settle()
        without = await session.context()
        small = await session.context(knowledge={"skills": "S"})
        large = await session.context(knowledge={"skills": words(1000)})
    contexts = (without, small, large)
    assert [c.stats.total <= 1920 for c in contexts] == [True, True, True]
    return [c.stats.observations + c.stats.reflections for c in contexts]


# ------------------------------------------------------------------------------------ what changes each call


@pytest.mark.req(53)
async def test_a_volatile_layer_stands_at_the_end_and_the_prefix_stays_the_same() -> None:
    clock = iter(range(1000))

    async def now(request: LayerRequest) -> str:
        return f"It is second {next(clock)}. " * (1 + next(clock) % 40)

    layers = {"runtime_context": Layer(now, volatile=True), "skills": words(1000)}
    async with opened(knowledge=layers) as memory:
        session = memory.session("a")
        await talk(session, 60)
        # The first call says how much room there is; notes are taken accordingly.
        await session.context(system="BASE", end="Answer briefly.")
        await memory.settle()
        built = [await session.context(system="BASE", end="Answer briefly.") for _ in range(6)]
    assert len({c.end for c in built}) == 6
    assert len({c.system for c in built}) == 1
    assert "It is second" not in built[0].system
    for context in built:
        last = context.openai()[-1]
        assert last["role"] == "system"
        assert last["content"].startswith("It is second ")
        assert last["content"].endswith("\n\nAnswer briefly.")
        assert context.stats.by_layer["runtime_context"] > 0
        assert context.stats.total <= 1920
    blocks = [c.anthropic().get("system", "") for c in built]
    assert all(b == blocks[0] for b in blocks)


async def test_room_is_kept_for_a_volatile_layer_whether_it_speaks_or_not() -> None:
    said: list[str] = []

    async def sometimes(request: LayerRequest) -> str:
        return said[-1]

    async with opened(knowledge={"external_knowledge": Layer(sometimes, volatile=True)}) as memory:
        session = memory.session("a")
        said.append("")
        await session.context()
        await talk(session, 60)
        await memory.settle()
        silent = await session.context()
        said.append(words(1000))
        loud = await session.context()
    assert silent.memory == loud.memory
    assert silent.messages[-1] == loud.messages[-1]
    assert loud.stats.end > 300
    assert loud.stats.total <= 1920
    assert loud.stats.left_out_messages == 0


# ------------------------------------------------------------------------------------ what cannot go wrong


async def fails(request: LayerRequest) -> str:
    raise RuntimeError("no such index")


async def hangs(request: LayerRequest) -> str:
    await asyncio.sleep(3600)
    return "too late"


async def never_ends(request: LayerRequest) -> str:
    for _ in range(200):
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue
    return "too late"


async def gives_up(request: LayerRequest) -> str:
    raise asyncio.CancelledError


async def gives_a_number(request: LayerRequest) -> Any:
    return 7


@pytest.mark.parametrize(
    ("broken", "reason", "detail"),
    [
        (fails, "failed", "RuntimeError: no such index"),
        (hangs, "late", "it did not answer within 0.5 s"),
        (never_ends, "late", "it did not answer within 0.5 s"),
        (gives_up, "failed", "RuntimeError: it was cancelled"),
        (gives_a_number, "failed", "TypeError: it returned int, not text"),
    ],
)
async def test_a_layer_that_fails_or_is_slow_is_left_out_and_the_turn_goes_on(
    broken: Any, reason: str, detail: str
) -> None:
    events: list[LayerLeftOut] = []
    timing = onlooker.Timing(knowledge_deadline=0.5)
    async with opened(
        timing=timing, knowledge={"tools": "TOOLS", "skills": broken, "learnings": Heard("LEARNED")}
    ) as memory:
        memory.subscribe(lambda e: events.append(e) if isinstance(e, LayerLeftOut) else None)
        session = memory.session("a")
        await session.record(onlooker.user("hello"))
        began = time.perf_counter()
        context = await session.context(system="BASE")
        took = time.perf_counter() - began
    assert context.system == "BASE\n\nTOOLS\n\nLEARNED"
    assert context.messages[-1].text == "hello"
    assert context.stats.missing_layers == ("skills",)
    assert [(e.layer, e.reason, e.detail) for e in events] == [("skills", reason, detail)]
    assert events[0].seconds <= took


async def test_a_turn_that_is_cancelled_takes_its_layers_with_it() -> None:
    ended: list[str] = []

    async def waits(request: LayerRequest) -> str:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(request.layer)
        return ""

    async with opened(timing=onlooker.Timing(), knowledge={"skills": waits}) as memory:
        turn = asyncio.ensure_future(memory.session("a").context())
        await asyncio.sleep(0.05)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await asyncio.sleep(0)
    assert ended == ["skills"]


def test_layers_work_without_async_too() -> None:
    heard = Heard("TOOLS")
    with onlooker.blocking.open_memory(":memory:", knowledge={"tools": heard}) as memory:
        session = memory.session("a")
        session.record(onlooker.user("hello"))
        context = session.context(system="BASE", knowledge={"skills": "SKILLS"})
    assert context.system == "BASE\n\nTOOLS\n\nSKILLS"
    assert context.layers == {"tools": "TOOLS", "skills": "SKILLS"}
