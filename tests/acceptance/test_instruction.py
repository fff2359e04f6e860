"""A user's own words on what to note reach every call of a language model, inside our rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call, write_transcript
from tests.acceptance.bakery import SETTINGS, talk
from tests.acceptance.providers import START, model_at

import onlooker
from onlooker.demo import conversation
from onlooker.errors import SettingsError
from onlooker.policy.settings import MAX_INSTRUCTION_LENGTH
from onlooker.testing import FrozenClock
from onlooker.testing.provider import LocalProvider

pytestmark = pytest.mark.anyio

WORDS = "We are a bakery. Write down every price, and who asked for it."


@pytest.mark.req(17)
@pytest.mark.parametrize("protocol", ["chat", "anthropic"])
async def test_a_provider_receives_it_with_every_call_before_the_form(protocol: str) -> None:
    clock = FrozenClock(START)
    with LocalProvider() as provider:
        async with onlooker.open_memory(
            ":memory:", model=model_at(provider, protocol), settings=SETTINGS, instruction=WORDS, clock=clock
        ) as memory:
            session = memory.session("shop")
            await talk(session, clock, 1, 100)
            kinds = {note.kind for note in await session.notes()}
        asked = list(provider.received)
    assert kinds == {"observation", "reflection"}
    for request in asked:
        rules, fence, rest = request.system.partition("<<< INSTRUCTION ")
        assert fence
        assert "Copy names, numbers" in rules
        marker, words, _ = rest.split("\n", 2)
        assert words == WORDS
        assert rest.index(f">>> {marker}") < rest.index("Form:")
    # The rules are the same for each kind of call, so that a provider can cache them.
    assert len({request.system for request in asked}) == 2


@pytest.mark.req(17)
async def test_the_settings_file_says_it_and_an_argument_says_it_better(tmp_path: Path) -> None:
    file = tmp_path / "onlooker.toml"
    assert call("settings", "set", "instruction", WORDS, "--config", file).code == 0
    shown = {s["key"]: s for s in call("settings", "--config", file, "--json").json}
    assert (shown["instruction"]["value"], shown["instruction"]["source"]) == (WORDS, str(file))
    named = {s["key"]: s for s in call("settings", "--json", ONLOOKER_CONFIG=str(file)).json}
    assert named["instruction"]["value"] == WORDS
    settings = onlooker.from_mapping({"onlooker": {"instruction": WORDS}})
    assert onlooker.open_memory(":memory:", settings=settings).settings.instruction == WORDS
    other = onlooker.open_memory(":memory:", settings=settings, instruction="Names alone.")
    assert other.settings.instruction == "Names alone."


def test_a_replay_on_the_command_line_sends_it(tmp_path: Path) -> None:
    file = tmp_path / "onlooker.toml"
    with LocalProvider() as provider:
        model = f"openai:test@{provider.url}/v1"
        file.write_text(f'[onlooker]\ninstruction = "{WORDS}"\nmodel = "{model}"\n')
        transcript = write_transcript(tmp_path / "t.jsonl", conversation()[:60])
        done = call("replay", transcript, "--db", tmp_path / "a.db", "--budget", 1500, "--config", file)
    assert done.code == 0, done.err
    assert provider.received
    assert all(WORDS in request.system for request in provider.received)


def test_a_long_one_is_shown_in_part_and_whole_in_json(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    words = "Write down every price.\n" * 60
    file.write_text(f'[onlooker]\ninstruction = """{words}"""\n')
    (line,) = [x for x in call("settings", "--config", file).out.splitlines() if x.startswith("instruction")]
    assert "Write down every price. Write" in line
    assert len(line) < 300
    shown = {s["key"]: s for s in call("settings", "--config", file, "--json").json}
    assert shown["instruction"]["value"] == words


def test_one_that_is_too_long_is_refused_with_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"at most {MAX_INSTRUCTION_LENGTH} characters"):
        onlooker.open_memory(":memory:", instruction="x" * (MAX_INSTRUCTION_LENGTH + 1))
    file = tmp_path / "s.toml"
    done = call("settings", "set", "instruction", "x" * (MAX_INSTRUCTION_LENGTH + 1), "--config", file)
    assert (done.code, file.exists()) == (2, False)


async def test_the_built_in_model_ignores_it() -> None:
    texts: list[list[str]] = []
    for words in ("", WORDS):
        clock = FrozenClock(START)
        async with onlooker.open_memory(
            ":memory:", settings=SETTINGS, instruction=words, clock=clock
        ) as memory:
            session = memory.session("shop")
            await talk(session, clock, 1, 40)
            texts.append([note.text for note in await session.notes()])
    assert texts[0] == texts[1] != []
