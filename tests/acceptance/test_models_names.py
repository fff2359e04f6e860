"""How a model is named, what happens without the extra or a key, and that nothing else is contacted."""

from __future__ import annotations

import subprocess
import sys

import pytest

import onlooker
from onlooker.domain.errors import SettingsError
from onlooker.models.llm import LanguageModel
from onlooker.testing.provider import LocalProvider

# Google's SDK, where it is compiled for the first time.
pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")

# What each provider needs before it can be named; nothing is sent.
GIVEN = {
    "openai": {"OPENAI_API_KEY": "x"},
    "openai-responses": {"OPENAI_API_KEY": "x"},
    "anthropic": {"ANTHROPIC_API_KEY": "x"},
    "google": {"GOOGLE_API_KEY": "x"},
    "bedrock": {"AWS_DEFAULT_REGION": "eu-north-1"},
    "ollama": {},
    "openrouter": {"OPENROUTER_API_KEY": "x"},
}
MODELS = {"openrouter": "openai/gpt-5-mini", "bedrock": "eu.amazon.nova-lite-v1:0"}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {name for given in GIVEN.values() for name in given} | {"GEMINI_API_KEY", "OPENAI_BASE_URL"}:
        monkeypatch.delenv(name, raising=False)


def test_importing_onlooker_brings_in_no_provider() -> None:
    script = (
        "import sys, onlooker, onlooker.models.llm, onlooker.models.calling, onlooker.testing.provider\n"
        "print([m for m in ('pydantic_ai', 'pydantic', 'openai', 'anthropic', 'opentelemetry') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("provider", GIVEN)
def test_each_provider_can_be_named(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in GIVEN[provider].items():
        monkeypatch.setenv(name, value)
    model = LanguageModel(f"{provider}:{MODELS.get(provider, 'some-model')}")
    assert model.name == f"{provider}:{MODELS.get(provider, 'some-model')}"
    assert 1_000 < model.window <= 100_000


def test_any_compatible_server_can_be_named() -> None:
    named = LanguageModel("openai:my/model:q4@http://localhost:8000/v1")
    given = LanguageModel("openai:my/model:q4", base_url="http://localhost:8000/v1")
    assert named.name == given.name == "openai:my/model:q4@http://localhost:8000/v1"


def test_a_name_is_kept_without_what_authenticates() -> None:
    model = LanguageModel("openai:m@https://ana:hunter22@host.example:8000/v1?token=hunter22")
    assert model.name == "openai:m@https://host.example:8000/v1"


def test_a_window_is_half_of_what_is_known_of_the_model_unless_it_is_given() -> None:
    assert LanguageModel("anthropic:claude-haiku-4-5", api_key="x").window == 100_000
    assert LanguageModel("openai:unheard-of@http://localhost:1/v1").window == 16_000
    assert LanguageModel("ollama:qwen3").window == 2_048
    assert LanguageModel("ollama:qwen3", window=30_000).window == 30_000


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("openai:gpt-5-mini", "needs a key: set OPENAI_API_KEY, or give api_key"),
        ("anthropic:claude-haiku-4-5", "needs a key: set ANTHROPIC_API_KEY, or give api_key"),
        ("google:gemini-flash", "needs a key: set GOOGLE_API_KEY, or give api_key"),
        ("openrouter:openai/gpt-5-mini", "needs a key: set OPENROUTER_API_KEY, or give api_key"),
        ("nobody:model", "cannot be used"),
        ("openai:", 'must be "PROVIDER:NAME", such as'),
        ("Ollama qwen3:8b", 'must be "PROVIDER:NAME", such as'),
        ("openrouter:a/b@http://localhost:1/v1", "cannot be used: openrouter does not take base_url"),
    ],
)
def test_a_name_that_cannot_work_says_what_to_do(name: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        LanguageModel(name)
    assert says in str(caught.value)


def test_a_memory_takes_a_name_and_says_what_is_wrong_with_it() -> None:
    with pytest.raises(SettingsError, match="set ANTHROPIC_API_KEY"):
        onlooker.open_memory(":memory:", model="anthropic:claude-haiku-4-5")
    with pytest.raises(SettingsError, match='must be "extractive" or "PROVIDER:NAME"'):
        onlooker.open_memory(":memory:", model="gpt")


@pytest.mark.parametrize(
    ("missing", "name", "extra"),
    [
        ("pydantic_ai", "openai:gpt-5-mini", "openai"),
        ("pydantic_ai", "ollama:qwen3", "openai"),
        ("anthropic", "anthropic:claude-haiku-4-5", "anthropic"),
        ("google.genai", "google:gemini-2.5-flash-lite", "google"),
        ("boto3", "bedrock:eu.amazon.nova-lite-v1:0", "bedrock"),
    ],
)
def test_without_the_extra_a_name_says_what_to_install(missing: str, name: str, extra: str) -> None:
    script = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import onlooker\n"
        f"try:\n    onlooker.open_memory(':memory:', model={name!r})\n"
        "except onlooker.errors.SettingsError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"""model = {name!r}: needs an extra: pip install "onlooker[{extra}]\""""


# Every address that the process connects to or looks up, by whatever library.
WATCHED = """
import asyncio, sys
seen = set()
def watch(event, args):
    if event == "socket.connect":
        seen.add(args[1])
    elif event == "socket.getaddrinfo":
        seen.add(args[:2])
sys.addaudithook(watch)
import onlooker
from onlooker.models.llm import LanguageModel
async def main():
    for name in sys.argv[2:]:
        model = LanguageModel(f"{name}@{sys.argv[1]}" + ("" if "anthropic" in name else "/v1"), api_key="x")
        async with onlooker.open_memory(":memory:", model=model, budget=2000) as memory:
            session = memory.session("s")
            for n in range(40):
                await session.record(onlooker.user(f"Parcel {n} weighs {n * 3 + 1} kg, in row {n % 7}."))
            await session.settle()
            assert await memory.usage()
asyncio.run(main())
print(sorted({address[1] for address in seen}), "opentelemetry.sdk" in sys.modules, "logfire" in sys.modules)
"""


@pytest.mark.long
def test_nothing_but_the_provider_is_contacted() -> None:
    names = ["openai:gpt-5-mini", "openai-responses:gpt-5-mini", "anthropic:claude-haiku-4-5"]
    with LocalProvider() as provider:
        done = subprocess.run(
            [sys.executable, "-c", WATCHED, provider.url, *names], capture_output=True, text=True, check=True
        )
        port = provider.url.rsplit(":", 1)[1]
    assert done.stdout.strip() == f"[{port}] False False"
