"""The programs in `examples/` run as they are, with a provider on this machine."""

from __future__ import annotations

import io
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from onlooker.blocking import open_memory
from onlooker.testing.provider import Answer, LocalProvider, Received

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def start(name: str, *arguments: str) -> None:
    """Run a program of the folder as `python examples/NAME ARGUMENTS` does."""
    before = sys.argv
    sys.argv = [name, *arguments]
    try:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    finally:
        sys.argv = before


def test_every_example_has_a_test_here() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    assert all(f'"{path.name}"' in tested for path in EXAMPLES.glob("*.py"))


def test_the_chat_remembers_what_left_the_window_and_after_a_restart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["My locker code is 4711.", *(f"Parcel {n} weighs {n * 3 + 1} kg." for n in range(200))]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(told)))
    start("chat.py")
    monkeypatch.setattr(sys, "stdin", io.StringIO("Which locker code do I have?"))
    capsys.readouterr()
    start("chat.py")
    assert "4711" in capsys.readouterr().out


def test_the_openai_sdk_is_sent_what_was_said_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with LocalProvider(Answer("How nice."), Answer("In Oslo.")) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        start("openai_chat.py", "I moved to Oslo.")
        start("openai_chat.py", "Where do I live?")
    assert capsys.readouterr().out == "How nice.\nIn Oslo.\n"
    sent = [message["content"] for message in provider.received[-1].body["messages"]]
    assert sent[-3:] == ["I moved to Oslo.", "How nice.", "Where do I live?"]


def test_the_anthropic_agent_streams_its_answer_around_its_tools(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = {"weather": {"city": "Oslo"}, "memory_search": {"query": "umbrella"}}
    looks = Answer("Let me look. ", calls=calls)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    with LocalProvider(looks, Answer("Light rain, 4 °C.")) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        start("anthropic_tools.py", "What is the weather in Oslo?")
    assert capsys.readouterr().out == "Let me look. Light rain, 4 °C.\n"
    assert all(received.body["stream"] for received in provider.received)
    weather, found = provider.received[1].body["messages"][-1]["content"]
    assert weather["content"] == "Oslo: 4 °C, light rain"
    assert found["type"] == "tool_result"
    with open_memory("tools.db") as memory:
        recorded = memory.session("terminal", owner="me").messages()
    assert [m.role for m in recorded] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call.name for call in recorded[1].calls] == ["weather", "memory_search"]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_wrapped_client_remembers_what_a_program_does_not_send(
    provider: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = {"openai": "openai_memory.py", "anthropic": "anthropic_memory.py"}[provider]
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "x")
    with LocalProvider(Answer("How nice."), Answer("In Oslo.")) as local:
        url = f"{local.url}/v1" if provider == "openai" else local.url
        monkeypatch.setenv(f"{provider.upper()}_BASE_URL", url)
        start(program, "I moved to Oslo.", "Where do I live?")
    assert capsys.readouterr().out == "How nice.\nIn Oslo.\n"
    assert [m["content"] for m in local.received[1].body["messages"][:2]] == ["I moved to Oslo.", "How nice."]


def said(client: TestClient, user: str, chat: str, text: str) -> str:
    reply = client.post(f"/chats/{chat}", json={"text": text}, headers={"user": user})
    assert reply.status_code == 200, reply.text
    return reply.json()["text"]


def test_the_web_service_keeps_its_users_apart_and_remembers_after_a_restart() -> None:
    module: dict[str, Any] = runpy.run_path(str(EXAMPLES / "web.py"))
    with TestClient(module["app"]) as client:
        assert said(client, "ana", "1", "I moved to Oslo.") == "You said: I moved to Oslo."
        assert said(client, "ben", "1", "I stay in Rome.") == "You said: I stay in Rome."
    module = runpy.run_path(str(EXAMPLES / "web.py"))
    with TestClient(module["app"]) as client:
        assert said(client, "ana", "1", "And you?") == "You said: I moved to Oslo., And you?"
    with open_memory("web.db") as memory:
        prompt = memory.session("web:1", owner="ana").context().text()
    assert "Oslo" in prompt
    assert "Rome" not in prompt


# ------------------------------------------------------------------------------------ the provider


@pytest.mark.parametrize("stream", [True, False])
def test_the_provider_calls_tools_as_openai_does(stream: bool) -> None:
    from openai import OpenAI

    def answers(received: Received) -> Answer:
        return Answer("One moment.", calls={"weather": {"city": "Oslo"}})

    asked: Any = {"model": "test", "messages": [{"role": "user", "content": "Weather?"}]}
    with LocalProvider(answers) as provider, OpenAI(base_url=f"{provider.url}/v1", api_key="x") as opened:
        client: Any = opened
        if stream:
            with client.chat.completions.stream(**asked) as events:
                done = events.get_final_completion()
        else:
            done = client.chat.completions.create(**asked)
    (choice,) = done.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "One moment.")
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name, call.function.arguments) == (
        "function",
        "weather",
        '{"city": "Oslo"}',
    )
