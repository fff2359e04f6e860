"""Thresholds, limits and dates as the provider gets to see them: each test reads the final prompt."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import onlooker
from onlooker import assistant, user
from onlooker.policy.settings import LANGO, Settings
from onlooker.ports import ObserveRequest, Request
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

# The lango preset with notes of about a hundred tokens, so that a test needs few words.
SHORT = replace(LANGO, observe_at=100, precompute_at=100)
NOON = datetime(2026, 2, 16, 12, tzinfo=UTC)
SYSTEM = "You are helpful."


def word(i: int) -> str:
    """A number as a made-up word: an exact value would be brought back into a note that drops it."""
    return "".join("bcdfghklmn"[int(digit)] + "aeiouaeiou"[int(digit)] for digit in f"{i:03}")


def said(i: int, tokens: int = 100) -> onlooker.Message:
    """A message of about so many tokens, by the estimate of the lango preset: four characters each."""
    text = f"There was {word(i)}, and there were others"
    return assistant(text + " and others" * ((4 * tokens - len(text)) // 11) + ".")


def noted(request: Request) -> str:
    """A note that names the first messages that it stands for."""
    if isinstance(request, ObserveRequest):
        first, last = request.messages[0].seq, request.messages[-1].seq
        return f"There was {word(first)} and others. They went on to {word(last)}."
    first, last = request.notes[0].first, request.notes[-1].last
    return f"All from {word(first)} on was said. Then came {word(last)}. It went on and on."


def named(text: str) -> list[int]:
    """The numbers of the notes in a section of the prompt, by their first message, in order."""
    numbers = {word(i): i for i in range(1000)}
    return [numbers[found] for found in re.findall(r"(?:There was|All from) (\w+)", text)]


@asynccontextmanager
async def opened(settings: Settings, model: Any = None) -> AsyncGenerator[onlooker.Session]:
    model = model or ScriptedModel(noted)
    clock = FrozenClock(NOON)
    async with onlooker.open_memory(":memory:", settings=settings, model=model, clock=clock) as memory:
        yield memory.session("telegram:42", owner="ana")


async def tell(session: onlooker.Session, *messages: onlooker.Message) -> onlooker.Context:
    for message in messages:
        await session.record(message)
        await session.settle()
    return await session.context(system=SYSTEM)


def prompt(context: onlooker.Context) -> str:
    return str(context.openai()[0]["content"])


@pytest.mark.req(1)
async def test_a_note_is_in_the_prompt_once_a_thousand_tokens_are_said() -> None:
    model = ScriptedModel(noted)
    async with opened(LANGO, model) as session:
        before = await tell(session, *(said(i) for i in range(1, 10)))
        assert before.stats.messages < 1000
        assert (model.calls, prompt(before)) == (0, SYSTEM)
        after = await tell(session, said(10), said(11))
        assert after.stats.pending_tokens < 1000
        assert model.calls == 1
        assert f"There was {word(1)} and others." in prompt(after)


@pytest.mark.req(18)
async def test_a_reflection_is_in_the_prompt_once_notes_reach_the_threshold() -> None:
    async with opened(replace(SHORT, reflect_at=120)) as session:
        tokens = 0
        for i in range(1, 40):
            context = await tell(session, said(i))
            if "### Reflections" in prompt(context):
                break
            tokens = sum(n.tokens for n in await session.notes() if n.generation == 0)
            assert tokens < 120
        else:
            pytest.fail("nothing was condensed")
        condensed = [n for n in await session.notes() if n.generation == 1]
        assert tokens > 60
        assert named(prompt(context))[0] == condensed[0].first == 1


@pytest.mark.req(26)
async def test_a_critical_line_that_a_reflection_drops_is_in_the_prompt_word_for_word() -> None:
    line = "CRITICAL Never deploy on a Friday, whatever the customer says"

    def write(request: Request) -> str:
        if isinstance(request, ObserveRequest):
            first = request.messages[0].seq
            rest = f"[12:00] There was {word(first)} and others"
            return "## 2026-02-16\n" + (f"[12:00] {line}\n" if first == 1 else "") + rest
        return f"## 2026-02-16\n[12:00] All from {word(request.notes[0].first)} on was said"

    settings = replace(SHORT, format="lines", reflect_at=80)
    async with opened(settings, ScriptedModel(write)) as session:
        rule = user("Never deploy on a Friday, whatever the customer says!" + " And so on" * 40 + ".")
        context = await tell(session, rule, *(said(i) for i in range(2, 15)))
        assert "### Reflections" in prompt(context)
        assert line in prompt(context).partition("### Observations")[0]


@pytest.mark.long
@pytest.mark.req(26)
async def test_failures_do_not_fill_the_memory_however_many_there_are() -> None:
    async with onlooker.open_memory(":memory:", budget=4_000) as memory:
        session = memory.session("a")
        for n in range(1_500):
            failed = f"The deploy of build {n} failed because the variable {n} was missing in file {n * 3}."
            await session.record(user(failed), assistant(f"I moved file {n} to shelf {n % 9} and told Ana."))
            await session.settle()
        context = await session.context()
        notes = await session.notes()
    assert "CRITICAL user: The deploy of build 14" in context.system
    assert (context.stats.left_out_notes, context.stats.shortened_notes) == (0, 0)
    # They are condensed when they are full, and not with every note.
    assert max(note.generation for note in notes) < 20


@pytest.mark.req(14)
async def test_the_prompt_has_when_it_was_said_what_it_refers_to_and_how_long_ago() -> None:
    clock = FrozenClock(NOON)
    settings = replace(onlooker.preset("default"), budget=1_000)
    async with onlooker.open_memory(":memory:", settings=settings, clock=clock) as memory:
        session = memory.session("telegram:42", owner="ana")
        await session.record(user("My sister Ida moved to Oslo yesterday.", name="Ana"))
        for n in range(30):
            await session.record(assistant(f"Fine, {n}."), user(f"We saw {n} boats at the pier.", name="Ana"))
            await session.settle()
        clock.advance(timedelta(days=12).total_seconds())
        context = await session.context(system=SYSTEM, relative_time=True)
    sent = "\n".join(str(m["content"]) for m in context.openai())
    day, _, rest = prompt(context).partition("## 2026-02-16\n")[2].partition("\n")
    assert "moved to Oslo yesterday (2026-02-15)" in day + rest
    assert "2026-02-16 12 days ago" in sent


@pytest.mark.req(47, 48)
async def test_the_prompt_has_the_newest_twenty_observations_unless_the_limit_is_another() -> None:
    many = replace(SHORT, reflect_at=1_000_000, memory_limit=100_000)
    messages = [said(i) for i in range(1, 31)]
    for most, expected in ((LANGO.max_observations, 20), (0, 30), (7, 7)):
        async with opened(replace(many, max_observations=most)) as session:
            shown = named(prompt(await tell(session, *messages)))
            assert shown == [n.first for n in await session.notes()][-expected:]
            assert len(shown) == min(expected, len(await session.notes())) > 6


@pytest.mark.req(48)
async def test_the_prompt_has_at_most_five_reflections_and_they_stand_for_everything() -> None:
    most = 0
    async with opened(replace(SHORT, reflect_at=40)) as session:
        for i in range(1, 61):
            section = prompt(await tell(session, said(i))).partition("### Reflections")[2]
            shown = named(section.partition("### Observations")[0])
            most = max(most, len(shown))
            assert not shown or shown[0] == 1
    assert 3 <= most <= LANGO.max_reflections == 5


@pytest.mark.req(50)
async def test_reflections_stand_before_observations_and_both_stay_within_their_limit() -> None:
    fullest, reflections = 0, ""
    async with opened(replace(SHORT, reflect_at=80, memory_limit=110)) as session:
        for i in range(1, 60):
            context = await tell(session, said(i))
            reflections, observations = prompt(context).partition("### Observations")[::2]
            used = context.stats.reflections + context.stats.observations
            fullest = max(fullest, used)
            assert used <= 110
            # What would exceed it is condensed, so that nothing is left out.
            shown = named(reflections) + named(observations)
            assert shown == sorted(shown)
            assert [n.first for n in await session.notes()][: len(shown)] == shown[: len(shown)]
            assert context.stats.left_out_notes == 0
    assert "### Reflections" in reflections
    assert fullest > 60


@pytest.mark.req(54)
async def test_the_prompt_has_the_newest_messages_within_their_own_limit() -> None:
    settings = replace(SHORT, message_limit=450, overlap=400)
    shown: list[object] = []
    async with opened(settings) as session:
        for i in range(1, 20):
            context = await tell(session, said(i))
            shown = [m["content"] for m in context.openai()[1:]]
            everything = [m.text for m in await session.messages()]
            assert context.stats.messages <= 450
            assert shown == everything[len(everything) - len(shown) :]
        assert 3 <= len(shown) <= 4


@pytest.mark.req(55)
async def test_however_many_messages_fit_are_all_in_the_prompt() -> None:
    async with opened(LANGO) as session:
        await session.record(*(user(f"Yes, {word(i)}.") for i in range(600)))
        await session.settle()
        shown = [str(m["content"]) for m in (await session.context(system=SYSTEM)).openai()[1:]]
        assert shown == [f"Yes, {word(i)}." for i in range(600)]


@pytest.mark.req(91)
async def test_an_item_has_a_type_and_tags_and_its_summary_is_in_the_prompt() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        first = memory.session("one", owner="ana")
        await first.record(
            user("I live in Oslo, and my dog is called Waldi.", name="Ana"), assistant("Nice.")
        )
        await first.end()
        await memory.items.save("Ana prefers tea to coffee", owner="ana", type="profile", tags=["drinks"])
        items = {i.summary: i for i in await memory.items.list("ana")}
        tea = items["Ana prefers tea to coffee"]
        assert tea.type == "profile"
        assert "drinks" in tea.tags
        (oslo,) = [i for i in items.values() if "Oslo" in i.summary]
        assert oslo.type == "profile"
        assert oslo.tags
        second = memory.session("two", owner="ana")
        await second.record(user("Hello"))
        shown = prompt(await second.context(system=SYSTEM))
        assert "- Ana prefers tea to coffee" in shown
        assert f"- {oslo.summary}" in shown


@pytest.mark.req(105)
@pytest.mark.parametrize(
    ("told", "fill", "kept"),
    [
        (
            "Mein Hund heißt Waldi und frisst keine Trauben.",
            "Dann gingen wir wieder am Hafen spazieren.",
            "Waldi",
        ),
        ("我是四川人，最喜欢火锅，但是我对花生过敏。", "然后我们又在公园里散步。", "火锅"),
        ("Мою собаку зовут Шарик, и она боится грозы.", "Потом мы снова гуляли в парке у реки.", "Шарик"),
    ],
)
async def test_the_notes_in_the_prompt_are_in_the_language_of_the_conversation(
    told: str, fill: str, kept: str
) -> None:
    settings = replace(onlooker.preset("default"), budget=2_000, recall="off")
    async with onlooker.open_memory(":memory:", settings=settings) as memory:
        session = memory.session("telegram:42", owner="ana")
        await session.record(user(told))
        for _ in range(80):
            await session.record(user(fill))
            await session.settle()
        context = await session.context(system=SYSTEM)
    lines = [line for section in prompt(context).split("### ")[1:] for line in section.splitlines()[1:]]
    quoted = [line.partition("user: ")[2] for line in lines if "user: " in line]
    sources = told + fill
    unknown = [w for line in quoted for w in re.findall(r"\w+", line) if w not in sources and not w.isdigit()]
    assert kept in "".join(quoted)
    assert unknown == []
