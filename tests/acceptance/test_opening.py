"""What `open_memory` is given: settings by name or file, a model of the agent's own, and mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import onlooker
import onlooker.blocking
from onlooker.errors import SettingsError
from onlooker.testing import ScriptedModel
from onlooker.testing.provider import LocalProvider

pytestmark = pytest.mark.anyio


# ------------------------------------------------------------------------------------ settings


def test_a_memory_is_opened_with_a_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "onlooker.toml").write_text("[onlooker]\nbudget = 9000\n")
    (tmp_path / "lango.json").write_text('{"observationalMemory": {"enabled": true}}')
    assert onlooker.open_memory(":memory:", settings="onlooker.toml").settings.budget == 9000
    assert onlooker.open_memory(":memory:", settings=tmp_path / "lango.json").settings.observe_at == 1000
    assert onlooker.open_memory(":memory:").settings.budget == 16_000  # nothing is read that is not named


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("nowhere.toml", "settings = 'nowhere.toml': no such settings file"),
        ("defualt", 'must be Settings, a preset ("default", "lango", "zora") or a file'),
        ({"budget": 3}, 'a mapping is read by onlooker.from_mapping({"onlooker": {…}})'),
        (3, "settings = 3: must be Settings"),
    ],
)
def test_settings_of_another_kind_are_refused_by_name(settings: Any, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        onlooker.open_memory(":memory:", settings=settings)
    assert says in str(caught.value)


def test_an_unknown_way_to_take_notes_is_refused_by_name() -> None:
    says = "workers = 'extern': must be one of embedded, beside, external, queue"
    with pytest.raises(SettingsError, match=says):
        onlooker.open_memory(":memory:", workers=cast("Any", "extern"))


def test_a_memory_that_is_made_by_hand_says_how_it_is_opened() -> None:
    with pytest.raises(SettingsError, match=r"'a.db': must be made by onlooker.open_memory"):
        onlooker.Memory(cast("Any", "a.db"))
    with pytest.raises(SettingsError, match=r"'a.db': must be made by onlooker.blocking.open_memory"):
        cast("Any", onlooker.blocking.Memory)("a.db")


# ------------------------------------------------------------------------------------ the model


SMALL = replace(onlooker.preset("default"), budget=2_000)


async def writer_of(**given: Any) -> str:
    """The model that a memory asks for its notes, as the notes have it."""
    async with onlooker.open_memory(":memory:", **given) as memory:
        session = memory.session("s")
        for n in range(40):
            await session.record(onlooker.user(f"Parcel {n} weighs {n * 3 + 1} kg, in row {n % 7}."))
        await session.settle()
        return (await session.notes())[0].model


@pytest.mark.req(8)
async def test_the_agents_own_model_takes_the_notes_where_the_settings_name_none() -> None:
    assert await writer_of(model=ScriptedModel(), settings=SMALL) == ScriptedModel().name
    assert await writer_of(settings=SMALL) == "extractive"


@pytest.mark.req(8)
async def test_the_model_of_the_settings_takes_the_notes_and_not_the_agents_own() -> None:
    configured = replace(SMALL, model="extractive")
    assert await writer_of(model=ScriptedModel(), settings=configured) == "extractive"


@pytest.mark.req(8, 61)
@pytest.mark.parametrize(
    ("section", "own", "asked"),
    [
        ({"provider": "ollama"}, None, "ollama:qwen3"),
        ({"provider": "ollama"}, "ollama:llama3", "ollama:llama3"),
        ({"model": "llama3"}, "ollama:qwen3", "ollama:llama3"),
        ({"provider": "ollama", "model": "gemma3"}, "openai:gpt-5.2", "ollama:gemma3"),
        ({}, "ollama:qwen3", "ollama:qwen3"),
    ],
)
async def test_langos_provider_and_model_are_asked_as_written(
    section: dict[str, str], own: str | None, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"enabled": True, "messageTokenThreshold": 200, **section}
    settings = onlooker.from_mapping({"observationalMemory": keys})
    with LocalProvider() as provider:
        monkeypatch.setenv("OLLAMA_BASE_URL", f"{provider.url}/v1")
        assert await writer_of(settings=settings, model=own) == asked
        assert provider.received[0].body["model"] == asked.removeprefix("ollama:")


@pytest.mark.req(61, 63)
@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@pytest.mark.parametrize(
    "config",
    [
        {"observationalMemory": {"enabled": True, "provider": "gemini"}},
        {"observationalMemory": {"enabled": True, "provider": "gemini", "model": "gemini-2.0-flash"}},
        {"observationalMemory": {"enabled": True, "model": "gemini-flash"}},
        {"memory": {"compression": {"model": "gemini-flash"}}},
        {"memory": {"compression": {"model": "gemini"}}},
    ],
)
def test_gemini_opens_as_the_founding_systems_write_it(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    settings = onlooker.from_mapping(config)
    with pytest.raises(SettingsError, match=r"google:gemini-.*needs a key: set GOOGLE_API_KEY"):
        onlooker.open_memory(":memory:", settings=settings)
    monkeypatch.setenv("GOOGLE_API_KEY", "x")
    onlooker.open_memory(":memory:", settings=settings)


def test_a_model_alone_without_an_agents_own_says_what_is_missing() -> None:
    settings = onlooker.from_mapping({"observationalMemory": {"enabled": True, "model": "llama3"}})
    with pytest.raises(SettingsError, match="unless the agent's own model is given"):
        onlooker.open_memory(":memory:", settings=settings)


# ------------------------------------------------------------------------------------ workers


async def test_a_worker_takes_notes_for_the_budget_that_a_host_asked_for(tmp_path: Path) -> None:
    url = tmp_path / "agent.db"
    async with onlooker.open_memory(url, workers="external") as host:
        session = host.session("s")
        for n in range(40):
            await session.record(onlooker.user(f"Parcel {n} weighs {n * 3 + 1} kg, in row {n % 7}."))
            await session.context(budget=1_000)
    async with onlooker.open_memory(url) as worker:  # as `onlooker worker` opens it, with 16,000
        await worker.settle()
        assert await worker.session("s").notes()


def test_a_memory_opened_in_the_wrong_way_says_which_is_right() -> None:
    memory: Any = onlooker.open_memory(":memory:")
    with pytest.raises(TypeError, match=r"in a program without them, use `with onlooker\.blocking\."), memory:
        pass
    nothing: Any = None  # an environment variable that is not set
    with pytest.raises(SettingsError, match="url = None: must be a file"):
        onlooker.open_memory(nothing)
    with pytest.raises(SettingsError, match="url = None: must be a file"):
        onlooker.blocking.open_memory(nothing)
