"""What the agent still knows of a conversation once its messages have left the prompt: with the built-in
model, in each preset, read from the prompt itself."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import onlooker
from onlooker import demo
from onlooker.policy.settings import LANGO, SECTION_TOKENS, ZORA, Settings
from onlooker.ports import ObserveRequest
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

# The presets, with numbers so small that a short conversation is noted.
PRESETS = {
    "default": Settings(budget=2500),
    "lango": replace(LANGO, observe_at=400, precompute_at=400, overlap=0),
    "zora": replace(
        ZORA, observe_at=600, precompute_at=480, message_limit=1200, block_after=1200, memory_limit=1500,
        reflect_at=1000,
    ),
}  # fmt: skip
INGREDIENTS = ("flour", "butter", "sugar", "yeast", "salt", "eggs", "milk", "cream", "rye", "oats") * 4
SOURCE = "\n".join(f"{n:>6}\t    total += basket.{what}" for n, what in enumerate(INGREDIENTS, 1))
CRASH = "Traceback (most recent call last):\n  File \"import_prices.py\", line 3\nKeyError: 'FLOUR_PRICE'"
PLACES = ("Oslo", "Lisbon", "Turin", "Ghent", "Split", "Cork", "Graz", "Porto", "Lyon", "Bonn", "Bari")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def used(n: int, name: str, arguments: dict[str, str], result: str) -> list[dict[str, Any]]:
    """A tool call and its result."""
    call = {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{n}", "content": result},
    ]


BAKERY = [
    user("Hi there! Good morning, how are you?"),
    assistant("Hello! I'm great, thanks for asking. How can I help you today?"),
    user("My goal is to open a bakery in Bergen by September."),
    assistant("That sounds wonderful!"),
    user("We decided to rent the shop in Strandgaten because the oven fits through its back door."),
    assistant("Good choice."),
    user("I prefer answers without tables."),
    assistant("Understood."),
    user("I live in Laksevåg and my partner is called Ingrid."),
    assistant("Nice to meet you both."),
    user("The loan application was approved yesterday, 450,000 kroner."),
    assistant("Congratulations!"),
    user("I have finished painting the front room."),
    assistant("Well done!"),
    *used(1, "read_file", {"path": "shop/prices.py"}, SOURCE),
    *used(2, "bash", {"command": "python import_prices.py"}, CRASH),
    assistant("The import failed because FLOUR_PRICE was missing, fixed by setting it in shop/.env."),
    *used(3, "bash", {"command": "python import_prices.py"}, "imported 212 prices, total 18,430 kroner"),
    user("Thanks a lot, you are amazing!"),
    assistant("You're welcome! Anything else?"),
]
GREETINGS = (
    "Hi", "Hello", "morning", "asking", "help you", "wonderful", "Good choice", "meet you", "Congratulations",
    "Well done", "Thanks", "amazing", "welcome", "nything else",
)  # fmt: skip
HARBOURS = [
    message
    for season in ("spring", "summer", "autumn")
    for place in PLACES
    for message in (
        user(f"Tell me about the harbour of {place} in the {season}."),
        assistant(f"The harbour of {place} is old, and ships came with salt and timber for many years."),
    )
]


async def remembered(settings: Settings, *said: dict[str, Any], model: Any = None) -> onlooker.Context:
    """The prompt of the next turn, after this was said and noted, message by message."""
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    async with onlooker.open_memory(":memory:", settings=settings, model=model, clock=clock) as memory:
        session = memory.session("a")
        for message in said:
            await session.record(message)
            await session.settle()
            clock.advance(60)
        return await session.context(system="Help.")


def paragraphs(context: onlooker.Context, heading: str) -> list[str]:
    """The notes under a heading of the memory section, in the prose format: one paragraph each."""
    _, _, after = context.memory.partition(f"### {heading}\n")
    return [line for line in after.partition("\n\n")[0].splitlines() if ": " in line]


def sentences(note: str) -> int:
    return len(re.findall(r"\.(?= |$)", note))


@pytest.mark.req(3, 4, 16)
@pytest.mark.parametrize("preset", PRESETS)
async def test_what_matters_stands_in_the_prompt_when_its_messages_have_left(preset: str) -> None:
    context = await remembered(PRESETS[preset], *BAKERY, *HARBOURS)
    assert not any("bakery" in message.text for message in context.messages)
    for what, kept in {
        "a goal": "My goal is to open a bakery in Bergen by September",
        "a decision": "We decided to rent the shop in Strandgaten",
        "its reason": "because the oven fits through its back door",
        "a preference": "I prefer answers without tables",
        "a fact": "I live in Laksevåg",
        "a person": "partner is called Ingrid",
        "an outcome": "approved yesterday (2026-02-15), 450,000 kroner",
        "progress": "I have finished painting the front room",
        "an error": "KeyError: 'FLOUR_PRICE'",
        "its fix": "FLOUR_PRICE was missing, fixed by setting it in shop/.env",
        "a tool's result": "imported 212 prices, total 18,430 kroner",
    }.items():
        assert kept in context.memory, f"{what}: {context.memory}"


@pytest.mark.req(5, 6)
@pytest.mark.parametrize("preset", PRESETS)
async def test_greetings_and_what_can_be_read_again_are_not_in_the_prompt(preset: str) -> None:
    memory = (await remembered(PRESETS[preset], *BAKERY, *HARBOURS)).memory
    assert "read_file(shop/prices.py): lines 1–40" in memory  # where it can be read again
    assert "total +=" not in memory
    for greeting in GREETINGS:
        assert greeting not in memory


# Two people who tell in turn what they did, each of other things.
TOLD = {"ana": "carried crates", "ben": "sold tulips"}
FAIR = [
    user(f"I {TOLD[name]} in {place} in {month}.") | {"name": name}
    for month in ("January", "February", "March", "April", "June", "July", "August", "October")
    for place in PLACES
    for name in TOLD
]
FAIRS = {"by two in turn": FAIR, "by one alone": [message for message in FAIR if message["name"] == "ana"]}


@pytest.mark.req(7)
@pytest.mark.parametrize("said", FAIRS)
async def test_an_observation_in_prose_has_two_to_five_sentences(said: str) -> None:
    context = await remembered(PRESETS["lango"], *FAIRS[said])
    notes = paragraphs(context, "Observations")
    assert notes
    for note in notes:
        assert 2 <= sentences(note) <= 5, note


@pytest.mark.req(22)
@pytest.mark.parametrize(("said", "reflect_at"), [("by two in turn", 220), ("by one alone", 150)])
async def test_a_reflection_in_prose_has_three_to_eight_sentences_each_with_its_speaker_and_day(
    said: str, reflect_at: int
) -> None:
    settings = replace(PRESETS["lango"], observe_at=200, precompute_at=200, reflect_at=reflect_at)
    context = await remembered(settings, *FAIRS[said])
    notes = paragraphs(context, "Reflections")
    assert notes
    for note in notes:
        assert 3 <= sentences(note) <= 8, note
        assert note.startswith("On 2026-02-16, ")
        for sentence in note.removeprefix("On 2026-02-16, ").rstrip(".").split(". "):
            name, _, told = sentence.partition(": ")
            assert all(piece.startswith(f"I {TOLD[name]}") for piece in told.split("; ")), sentence


@pytest.mark.req(22)
@pytest.mark.parametrize("preset", ["default", "zora"])
async def test_the_later_statement_stands_in_the_prompt_and_says_what_it_replaced(preset: str) -> None:
    settings = {
        "default": Settings(budget=1200, reflect_at=0.2),
        "zora": replace(PRESETS["zora"], reflect_at=150),
    }[preset]
    early, late = user("My budget is 42k."), user("My budget is 45k.")
    context = await remembered(settings, early, *HARBOURS[:20], late, *HARBOURS[20:])
    assert "### Reflections" in context.memory
    assert "My budget is 45k (was 42k)" in context.memory
    assert context.memory.count("42k") == 1


@pytest.mark.req(15)
async def test_a_pronoun_stands_in_the_prompt_beside_what_it_speaks_of() -> None:
    """A pronoun without its noun is on no topic."""
    said = (
        ("Ben", "Which harbour do you sail from?"), ("Ana", "Porto, with my sister Carla."),
        ("Ben", "I sold my kayak to the club in Turin."),
        ("Ana", "I bought a boat in Lisbon. It leaks at the bow."),
    )  # fmt: skip
    told = [user(text) | {"name": name} for name, text in said]
    kitchen = [
        user(f"I weighed the {one} with the {other} and wrote it on the board.") | {"name": "Ben"}
        for one in INGREDIENTS[:10]
        for other in INGREDIENTS[:10]
    ]
    context = await remembered(Settings(budget=4000, reflect_at=0.12), *told, *kitchen)
    assert "### Reflections" in context.memory
    assert "Ben: Which harbour do you sail from?\nAna: Porto, with my sister Carla." in context.memory
    assert "I bought a boat in Lisbon. It leaks at the bow." in context.memory


def kitchen() -> list[dict[str, Any]]:
    """Much talk, so that what was said before it leaves the prompt."""
    pairs = [(one, other) for one in INGREDIENTS[:10] for other in INGREDIENTS[:10]]
    return [
        user(f"I weighed the {one} with the {other} and wrote it on the board.") | {"name": "Ben"}
        for one, other in pairs
    ]


@pytest.mark.req(15)
async def test_the_thing_that_a_question_names_stands_in_the_prompt_beside_the_question() -> None:
    told = [
        user("The castle in your window looks like one from a storybook. What gave you the idea for it?")
        | {"name": "Ben"},
        user("I got the idea on a trip to Wales a few years ago, with my sister Carla and her camera.")
        | {"name": "Ana"},
    ]
    notes = (await remembered(Settings(budget=4000), *told, *kitchen())).memory
    assert "What gave you the idea for it?\nAna: I got the idea on a trip to Wales" in notes


async def test_a_price_stands_with_the_flight_that_it_is_of() -> None:
    """It would be read as that of the flight named before."""
    answer = (
        "There are not enough economy seats on flight HAT139 for both passengers. Let's consider the next "
        "option, flight HAT271, which has enough seats. The cost for two economy tickets on this flight is "
        "$174 each."
    )
    notes = (
        await remembered(
            Settings(budget=1500),
            user("Book two seats from Chicago to Boston."),
            assistant(answer),
            *HARBOURS,
        )
    ).memory
    line = next(line for line in notes.splitlines() if "$174 each" in line)
    assert "flight HAT271, which has enough seats. The cost" in line


@pytest.mark.req(11)
@pytest.mark.parametrize("preset", ["lango", "zora"])
async def test_notes_of_a_real_conversation_are_three_to_six_times_shorter(preset: str) -> None:
    """Without a language model. The default's notes are longer as long as there is room."""
    settings = {"lango": LANGO, "zora": replace(PRESETS["zora"], memory_limit=4000, reflect_at=3000)}[preset]
    async with onlooker.open_memory(":memory:", settings=settings) as memory:
        session = memory.session("a")
        for message in demo.conversation()[:150]:
            await session.record(message)
            await session.settle()
        notes = [n for n in await session.notes(statuses=("active", "superseded")) if not n.generation]
        context = await session.context()
        live = [note for note in notes if note.status == "active"]
        source = sum([m.tokens for note in notes for m in await session.recall(note.id)])
    assert len(notes) >= 5
    assert 3 <= source / sum(note.tokens for note in notes) <= 6
    # As they stand in the prompt, less what was asked for, which stands by itself.
    assert live
    assert context.stats.observations <= sum(note.tokens for note in live) + SECTION_TOKENS


@pytest.mark.req(11)
@pytest.mark.parametrize(
    ("preset", "least", "most"), [("default", 0.2, 0.35), ("lango", 0.25, 0.25), ("zora", 0.25, 0.25)]
)
async def test_a_language_model_is_asked_for_a_share_of_what_it_reads(
    preset: str, least: float, most: float
) -> None:
    """The default asks for more while memory has room."""
    model = ScriptedModel()
    await remembered(PRESETS[preset], *HARBOURS, model=model)
    asked = [request for request in model.requests if isinstance(request, ObserveRequest)]
    assert len(asked) >= 3
    for request in asked:
        source = sum(message.tokens for message in request.messages)
        assert source * least - 1 <= request.target_tokens <= source * most + 1
    shares = [request.target_tokens / sum(m.tokens for m in request.messages) for request in asked]
    assert shares[-1] == pytest.approx(least, abs=0.02) if least == most else shares[-1] < shares[0]
