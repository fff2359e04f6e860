"""Settings as they stand in files, with the keys of the two founding systems."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from typing import Any

import pytest
from conversations import counting, message, note, numbered, state

from onlooker.domain.errors import SettingsError
from onlooker.policy.assemble import PromptRequest, assemble
from onlooker.policy.config import from_mapping
from onlooker.policy.model_names import complete
from onlooker.policy.plan import Idle, Observe, Reflect, Step, must_wait, plan
from onlooker.policy.settings import DEFAULT, LANGO, MAX_TOKENS, OFF, ZORA, Settings, check, limits_for

LANGO_JSON = """
{
  "observationalMemory": {
    "enabled": true,
    "provider": "",
    "model": "",
    "messageTokenThreshold": 1000,
    "observationTokenThreshold": 2000,
    "maxMessageTokenBudget": 8000,
    "maxReflectionsInContext": 5,
    "maxObservationsInContext": 20
  }
}
"""
ZORA_TOML = """
[memory.compression]
enabled = true
working_tier_max_tokens = 30_000
session_tier_max_tokens = 10_000
cross_session_tier_max_tokens = 5_000
chunk_size = 20
async_buffer = true
"""


def lango(**keys: Any) -> Settings:
    """As a JSON file with these keys would be read."""
    text = json.dumps({"observationalMemory": {"enabled": True, **keys}})
    return from_mapping(json.loads(text))


def zora(**keys: Any) -> Settings:
    """As a TOML file with these keys would be read."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return from_mapping(tomllib.loads("\n".join(["[memory.compression]", *lines])))


def next_step(settings: Settings, *sizes: int, notes: tuple[Any, ...] = ()) -> Step:
    return plan(state(numbered(*sizes), notes), limits_for(settings, 0))


def shown(settings: Settings, notes: list[Any], messages: tuple[Any, ...] = ()) -> str:
    return assemble(state(messages, notes), PromptRequest(), settings, counting("lango"), None).memory


# ------------------------------------------------------------------------------------ as written


@pytest.mark.req(61)
def test_langos_section_loads_as_documented() -> None:
    assert from_mapping(json.loads(LANGO_JSON)) == LANGO


@pytest.mark.req(63)
def test_zoras_section_loads_as_documented() -> None:
    assert from_mapping(tomllib.loads(ZORA_TOML)) == ZORA


@pytest.mark.req(61, 63)
def test_both_sections_load_from_json_and_from_toml_alike() -> None:
    toml = '[observationalMemory]\nenabled = true\nmessageTokenThreshold = 500\nprovider = "google"\n'
    assert from_mapping(tomllib.loads(toml)) == lango(messageTokenThreshold=500, provider="google")
    data = json.loads('{"memory": {"compression": {"chunk_size": 7, "block_after_tokens": 40000}}}')
    assert from_mapping(data) == zora(chunk_size=7, block_after_tokens=40_000)


@pytest.mark.req(62, 77)
@pytest.mark.parametrize("config", [{}, {"memory": {}}, {"memory": {"retention": 3}}, {"other": 1}])
def test_no_section_is_off(config: dict[str, Any]) -> None:
    assert not from_mapping(config).enabled


@pytest.mark.req(62)
def test_lango_is_off_unless_its_section_says_otherwise() -> None:
    assert not from_mapping({"observationalMemory": {}}).enabled
    assert not from_mapping({"observationalMemory": {"messageTokenThreshold": 500}}).enabled
    assert lango().enabled


@pytest.mark.req(63, 100)
def test_zora_is_on_unless_its_section_says_otherwise() -> None:
    assert zora().enabled
    assert next_step(zora(enabled=False), 50_000, 50_000) == Idle()


@pytest.mark.req(48)
def test_what_is_not_set_is_the_default() -> None:
    assert lango() == replace(LANGO, enabled=True)
    assert zora() == ZORA


# ------------------------------------------------------------------------------------ lango, key by key


@pytest.mark.req(61)
def test_message_token_threshold_says_when_an_observation_is_due() -> None:
    settings = lango(messageTokenThreshold=300)
    assert next_step(settings, 200, 99) == Idle()
    assert isinstance(next_step(settings, 200, 100), Observe)


@pytest.mark.req(61)
def test_observation_token_threshold_says_when_a_reflection_is_due() -> None:
    settings = lango(observationTokenThreshold=500)
    assert next_step(settings, notes=(note(1, 2, 499),)) == Idle()
    assert isinstance(next_step(settings, notes=(note(1, 2, 500),)), Reflect)


@pytest.mark.req(54, 61)
@pytest.mark.parametrize("window", [500, 3000, 12_000])
def test_max_message_token_budget_bounds_the_recent_messages(window: int) -> None:
    messages = tuple(message(i, 100, text="x" * 384) for i in range(1, 201))
    found = assemble(
        state(messages), PromptRequest(), lango(maxMessageTokenBudget=window), counting("lango"), None
    )
    assert found.stats.messages == window
    assert found.messages[-1].seq == 200


@pytest.mark.req(48, 61)
def test_a_message_budget_of_zero_is_no_limit() -> None:
    messages = tuple(message(i, 1000) for i in range(1, 101))
    found = assemble(
        state(messages), PromptRequest(), lango(maxMessageTokenBudget=0), counting("lango"), None
    )
    assert len(found.messages) == 100


@pytest.mark.req(48, 61)
@pytest.mark.parametrize(("most", "first"), [(3, 8), (0, 1), (None, 6)])
def test_max_reflections_in_context(most: int | None, first: int) -> None:
    notes = [note(i, i, 5, generation=1, text=f"reflection {i}.") for i in range(1, 11)]
    keys = {} if most is None else {"maxReflectionsInContext": most}
    text = shown(lango(**keys, reflectionConsolidationThreshold=1000), notes)
    assert [i for i in range(1, 11) if f"reflection {i}." in text] == list(range(first, 11))


@pytest.mark.req(48, 61)
@pytest.mark.parametrize(("most", "first"), [(10, 21), (0, 1), (None, 11)])
def test_max_observations_in_context(most: int | None, first: int) -> None:
    notes = [note(i, i, 5, text=f"observation {i}.") for i in range(1, 31)]
    text = shown(lango(**({} if most is None else {"maxObservationsInContext": most})), notes)
    assert [i for i in range(1, 31) if f"observation {i}." in text] == list(range(first, 31))


@pytest.mark.req(49, 61)
def test_memory_token_budget_bounds_the_memory_section() -> None:
    notes = [note(i, i, 100, text=f"n{i} " + "x" * 396) for i in range(1, 11)]
    small = assemble(
        state(notes=notes), PromptRequest(), lango(memoryTokenBudget=350), counting("lango"), None
    )
    assert 200 < small.stats.reflections + small.stats.observations <= 350
    large = assemble(state(notes=notes), PromptRequest(), lango(), counting("lango"), None)
    assert large.stats.left_out_notes == 0


@pytest.mark.req(23, 61)
def test_reflection_consolidation_threshold() -> None:
    reflections = tuple(note(i, i, generation=1) for i in range(1, 4))
    assert next_step(lango(), notes=reflections) == Idle()
    assert isinstance(next_step(lango(reflectionConsolidationThreshold=3), notes=reflections), Reflect)


@pytest.mark.req(8, 61)
def test_provider_and_model_name_the_model() -> None:
    assert lango(provider="openai", model="gpt-5.2").model == "openai:gpt-5.2"
    assert lango(provider="gemini", model="gemini-2.0-flash").model == "google:gemini-2.0-flash"
    assert lango(provider="", model="").model == ""


@pytest.mark.req(8, 61)
def test_a_provider_or_a_model_alone_is_completed_by_the_agents_own_model() -> None:
    assert lango(model="gemini-flash").model == "google:gemini-flash-latest"
    assert lango(model="gpt-5.2").model == "openai:gpt-5.2"
    assert complete(lango(model="llama3").model, "ollama:qwen3") == "ollama:llama3"
    assert complete(lango(provider="gemini").model, "openai:gpt-5.2") == "google:gemini-flash-lite-latest"
    assert complete(lango(provider="openai").model, "openai:gpt-5.2") == "openai:gpt-5.2"
    assert complete(lango().model, "openai:gpt-5.2") == "openai:gpt-5.2"
    own = "openai:served@http://localhost:8000/v1"
    assert complete(lango(model="other").model, own) == "openai:other@http://localhost:8000/v1"


@pytest.mark.parametrize("name", [":llama3", "bedrock:"])
def test_half_a_name_that_nobody_completes_is_refused(name: str) -> None:
    assert check(replace(DEFAULT, model=name)).model == name
    with pytest.raises(SettingsError, match="unless the agent's own model is given"):
        complete(name, "")


# ------------------------------------------------------------------------------------ zora, key by key


@pytest.mark.req(63, 81)
def test_working_tier_max_tokens_says_when_the_oldest_are_noted() -> None:
    settings = zora(working_tier_max_tokens=1000, async_buffer=False)
    assert next_step(settings, 500, 499) == Idle()
    assert isinstance(next_step(settings, 500, 501), Observe)


@pytest.mark.req(63, 81)
def test_session_tier_max_tokens_says_when_notes_are_condensed() -> None:
    settings = zora(session_tier_max_tokens=700)
    assert next_step(settings, notes=(note(1, 2, 350), note(3, 4, 349))) == Idle()
    assert isinstance(next_step(settings, notes=(note(1, 2, 350), note(3, 4, 351))), Reflect)


@pytest.mark.req(63, 81)
def test_tiers_have_the_room_in_the_prompt_that_their_keys_give_them() -> None:
    notes = [note(i, i, 100, text="x" * 400) for i in range(1, 41)]
    settings = zora(session_tier_max_tokens=1000, cross_session_tier_max_tokens=500)
    found = assemble(state(notes=notes), PromptRequest(), settings, counting("lango"), None)
    assert 1300 < found.stats.reflections + found.stats.observations <= 1500


@pytest.mark.req(63, 82)
def test_chunk_size_is_how_many_messages_are_noted_at_once() -> None:
    step = next_step(zora(chunk_size=7, working_tier_max_tokens=100), *[10] * 30)
    assert isinstance(step, Observe)
    assert [m.seq for m in step.messages] == list(range(1, 8))


@pytest.mark.req(31, 63, 65)
def test_async_buffer_writes_notes_ahead_or_does_not() -> None:
    ahead = next_step(zora(working_tier_max_tokens=1000), *[100] * 9)
    assert isinstance(ahead, Observe)
    assert ahead.buffered
    assert next_step(zora(working_tier_max_tokens=1000, async_buffer=False), *[100] * 9) == Idle()


@pytest.mark.req(32, 63)
def test_block_after_tokens_is_when_the_turn_waits() -> None:
    def waits(settings: Settings, tokens: int) -> bool:
        return must_wait(state(numbered(tokens)), limits_for(settings, 0))

    late = zora(block_after_tokens=45_000)
    assert (waits(late, 44_999), waits(late, 45_000)) == (False, True)
    # Unset, it is twice the working tier; 0 is never.
    assert waits(zora(working_tier_max_tokens=1000), 2000)
    assert not waits(zora(working_tier_max_tokens=1000), 1999)
    assert not waits(zora(block_after_tokens=0), 10**6)


@pytest.mark.req(63)
def test_a_zora_model_is_the_one_named() -> None:
    assert zora(model="gemini-flash").model == "google:gemini-flash-latest"
    assert zora(model="gemini").model == "google:"
    assert zora(model="anthropic:claude-haiku-4-5").model == "anthropic:claude-haiku-4-5"


# ------------------------------------------------------------------------------------ no section


def test_a_file_of_nothing_but_settings_needs_no_section() -> None:
    assert from_mapping({"budget": 999}) == replace(DEFAULT, budget=999)
    with pytest.raises(SettingsError, match="did you mean keep_recent"):
        from_mapping({"budget": 999, "keep_recnt": 0.1})


def test_a_typing_error_does_not_turn_memory_off() -> None:
    with pytest.raises(SettingsError, match="did you mean budget"):
        from_mapping({"budgt": 999})
    with pytest.raises(SettingsError, match=r"onloker = .*: is not a section; did you mean onlooker\?"):
        from_mapping({"onloker": {"budget": 999}})


def test_the_settings_of_another_program_leave_memory_off() -> None:
    assert from_mapping({"outlook": {"folder": "inbox"}}) == OFF
    assert from_mapping({}) == OFF
    assert from_mapping({"model": "gpt-5.2", "temperature": 0.2}) == OFF
    assert from_mapping({"model": "gpt-5.2", "tools": {}}) == OFF


# ------------------------------------------------------------------------------------ our own section


def test_our_own_section_starts_from_its_preset() -> None:
    found = from_mapping({"onlooker": {"preset": "lango", "observe_at": 500, "precompute_at": 500}})
    assert found == replace(LANGO, observe_at=500, precompute_at=500)
    assert from_mapping({"onlooker": {}}) == DEFAULT
    assert from_mapping(tomllib.loads("[onlooker]\nbudget = 32_000")) == replace(DEFAULT, budget=32_000)


def test_our_own_section_comes_before_the_others() -> None:
    both = {"onlooker": {"budget": 4000}, "observationalMemory": {"enabled": True}}
    assert from_mapping(both).preset == "default"


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("config", "key", "words"),
    [
        ({"onlooker": {"budgets": 1}}, "onlooker.budgets", "is not a setting; did you mean budget"),
        ({"onlooker": {"colour": 1}}, "onlooker.colour", "is not a setting; the settings are enabled"),
        ({"onlooker": {"budget": "1"}}, "budget", "an integer"),
        ({"onlooker": {"preset": "x"}}, "preset", "default, lango, zora"),
        ({"onlooker": {"preset": ["x"]}}, "preset", "default, lango, zora"),
        ({"onlooker": []}, "onlooker", "section"),
        ({"observationalMemory": True}, "observationalMemory", "section"),
        ({"memory": {"compression": 3}}, "memory.compression", "section"),
    ],
)
def test_a_section_that_cannot_work_is_refused(config: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        from_mapping(config)
    assert caught.value.key == key


_TOKENS = (0, -1, 1.5, 0.5, "1000", None, True, MAX_TOKENS + 1, [1000])
_WRONG: dict[str, tuple[Any, ...]] = {
    "enabled": (1, 0, "true", None),
    "provider": (1, None, ["a"]),
    "model": (1, None, ["a"]),
    "messageTokenThreshold": _TOKENS,
    "observationTokenThreshold": _TOKENS,
    "maxMessageTokenBudget": _TOKENS[1:],
    "memoryTokenBudget": _TOKENS,
    "maxReflectionsInContext": (-1, 1.5, "5", None, True),
    "maxObservationsInContext": (-1, 1.5, "5", None, True),
    "reflectionConsolidationThreshold": (0, 1, -1, 2.5, "5", None, True),
    "working_tier_max_tokens": _TOKENS,
    "session_tier_max_tokens": _TOKENS,
    "cross_session_tier_max_tokens": _TOKENS[1:],
    "chunk_size": (-1, 1.5, "20", None, True),
    "async_buffer": (1, "yes", None),
    "block_after_tokens": _TOKENS[1:],
}
_CASES = [(key, value) for key, values in _WRONG.items() for value in values]


@pytest.mark.parametrize(("key", "value"), _CASES)
def test_an_impossible_value_is_named_as_it_stands_in_the_file(key: str, value: Any) -> None:
    lango_key = key == key.lower() and "_" in key
    section = "memory.compression" if lango_key else "observationalMemory"
    inner = {key: value}
    config = {"memory": {"compression": inner}} if lango_key else {"observationalMemory": inner}
    with pytest.raises(SettingsError) as caught:
        from_mapping(config)
    assert caught.value.key == f"{section}.{key}"
    assert caught.value.value == value
    assert "must be " in caught.value.allowed


@pytest.mark.parametrize("section", ["observationalMemory", "compression"])
def test_an_unknown_key_names_those_there_are(section: str) -> None:
    inner = {section: {"maxTokens": 5}}
    with pytest.raises(SettingsError, match=r"the settings are .*enabled") as caught:
        from_mapping({"memory": inner} if section == "compression" else inner)
    assert caught.value.key.endswith(f"{section}.maxTokens")


def test_a_wait_below_the_working_tier_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        zora(working_tier_max_tokens=1000, block_after_tokens=900)
    assert caught.value.key == "memory.compression.block_after_tokens"
    assert caught.value.allowed == "must be above working_tier_max_tokens (1000)"
