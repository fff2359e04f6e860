"""Agents of Pydantic AI with memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from onlooker.blocking import open_memory
from onlooker.integrations.pydantic_ai import OnlookerMemory
from onlooker.policy.tokens import estimate
from onlooker.testing import AdapterContract
from onlooker.testing.adapter_contract import (
    BUDGET,
    FACT,
    OWNER,
    SYSTEM,
    TOOLS,
    AdapterHost,
    FakeModel,
    Item,
    ModelInput,
)
from onlooker.testing.provider import Answer, LocalProvider
from tests.integrations import examples, tracing


def items_of(messages: list[ModelMessage]) -> list[Item]:
    items: list[Item] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            text = "".join(p.content for p in message.parts if isinstance(p, TextPart))
            calls = [{"id": p.tool_call_id} for p in message.parts if isinstance(p, ToolCallPart)]
            items.append({"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})})
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                text = part.model_response_str()
                items.append({"role": "tool", "content": text, "tool_call_id": part.tool_call_id})
            elif isinstance(part, UserPromptPart):
                items.append({"role": "user", "content": part.content})
    return items


def memory_in(messages: list[ModelMessage]) -> str:
    parts = [part for message in messages for part in message.parts if isinstance(part, CompactionPart)]
    return "".join(part.content or "" for part in parts)


@dataclass
class User:
    user_id: str


class Agent(AdapterHost):
    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.model = model
        self.threads: dict[str, list[ModelMessage]] = {}
        self.memories: list[OnlookerMemory] = []
        tracing.start()
        self.restart(memory)

    def restart(self, memory: Any) -> None:
        self.memories.append(OnlookerMemory(memory, budget=BUDGET))
        self.agent: Any = PydanticAgent(
            FunctionModel(self.answer, stream_function=self.pieces),
            instructions=SYSTEM,
            deps_type=User,
            tools=list(TOOLS.values()),
            capabilities=[self.memories[-1], Instrumentation()],
        )

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = self.model(ModelInput(f"{info.instructions}\n{memory_in(messages)}", items_of(messages)))
        number = len(self.model.prompts)
        calls = [ToolCallPart(n, a, tool_call_id=f"call_{number}_{n}") for n, a in said.calls]
        return ModelResponse(parts=[*calls] if calls else [TextPart(said.text)])

    async def pieces(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for n, part in enumerate(self.answer(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {
                    n: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)
                }
            elif isinstance(part, TextPart):
                for word in part.content.split(" "):
                    yield word if part.content.startswith(word) else f" {word}"

    async def stream(self, thread: str, text: str) -> list[str]:
        async with self.agent.run_stream(text, **self.options(thread)) as run:
            pieces = [piece async for piece in run.stream_text(delta=True)]
            self.threads[thread] = run.all_messages()
        return pieces

    def traced(self) -> list[str]:
        return tracing.model_calls()

    def options(self, thread: str) -> Any:
        history = self.threads.get(thread, [])
        return {"message_history": history, "conversation_id": thread, "deps": User(OWNER)}

    def say(self, thread: str, text: str) -> str:
        done = self.agent.run_sync(text, **self.options(thread))
        self.threads[thread] = done.all_messages()
        return done.output

    async def say_async(self, thread: str, text: str) -> str:
        done = await self.agent.run(text, **self.options(thread))
        self.threads[thread] = done.all_messages()
        return done.output

    def stored(self, thread: str) -> list[Item]:
        return items_of(self.threads[thread])

    def trim(self, thread: str, keep: int) -> None:
        self.threads[thread] = self.threads[thread][-keep:]

    def close(self) -> None:
        for memory in self.memories:
            memory.close()


class TestPydanticAI(AdapterContract):
    def make_host(self, memory: Any, model: FakeModel) -> AdapterHost:
        return Agent(memory, model)


def model_of(provider: str, url: str) -> Model:
    if provider == "anthropic":
        return AnthropicModel("m", provider=AnthropicProvider(base_url=url, api_key="k"))
    kind = OpenAIChatModel if provider == "chat" else OpenAIResponsesModel
    return kind("m", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="k"))


@pytest.mark.parametrize("provider", ["chat", "responses", "anthropic"])
def test_a_provider_gets_memory_as_a_summary_and_not_as_instructions(tmp_path: Path, provider: str) -> None:
    with (
        LocalProvider(lambda _: Answer("I have put it on the list. " * 20)) as server,
        open_memory(tmp_path / "agent.db", budget=BUDGET) as memory,
    ):
        agent = PydanticAgent(
            model_of(provider, server.url),
            instructions=SYSTEM,
            capabilities=[OnlookerMemory(memory, tools=False)],
        )
        history: list[ModelMessage] = []
        for turn in range(30):
            said = FACT if turn == 3 else f"Parcel {turn} weighs {turn + 1} kg. " * 10
            history = agent.run_sync(said, message_history=history, conversation_id="t1").all_messages()
            memory.session("t1").settle()
        sent = server.received[-1]
    first = sent.user.partition("</conversation_summary>")[0]
    assert sent.system.endswith(SYSTEM)
    assert "Conversation Memory" not in sent.system
    assert first.startswith("<conversation_summary>")
    assert "## Conversation Memory" in first
    assert "4711-B" in first
    assert all(estimate(json.dumps(r.body, ensure_ascii=False)) <= BUDGET for r in server.received)
    assert memory_in(history) == ""


def test_a_summary_that_the_application_stored_is_recorded(tmp_path: Path) -> None:
    with open_memory(tmp_path / "agent.db") as memory:
        agent = PydanticAgent(
            FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("Yes.")])),
            capabilities=[OnlookerMemory(memory, owner=OWNER)],
        )
        history: list[ModelMessage] = [ModelRequest(parts=[CompactionPart(f"The user said: {FACT}")])]
        agent.run_sync("Do you know my locker code?", message_history=history, conversation_id="t1")
        recorded = memory.session("t1", owner=OWNER).messages()
    assert [m.role for m in recorded] == ["assistant", "user", "assistant"]
    assert "4711-B" in recorded[0].text


def test_the_example_runs(tmp_path: Path) -> None:
    assert examples.run("pydantic_ai", tmp_path) == list(examples.QUESTIONS)
