"""Agents of Pydantic AI with memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from onlooker.integrations.pydantic_ai import OnlookerMemory
from onlooker.testing import AdapterContract
from onlooker.testing.adapter_contract import (
    BUDGET,
    OWNER,
    SYSTEM,
    TOOLS,
    AdapterHost,
    FakeModel,
    Item,
    Seen,
)
from tests.integrations import examples


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


@dataclass
class User:
    user_id: str


class Agent(AdapterHost):
    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.model = model
        self.threads: dict[str, list[ModelMessage]] = {}
        self.memories: list[OnlookerMemory] = []
        self.restart(memory)

    def restart(self, memory: Any) -> None:
        self.memories.append(OnlookerMemory(memory, budget=BUDGET))
        self.agent: Any = PydanticAgent(
            FunctionModel(self.answer),
            instructions=SYSTEM,
            deps_type=User,
            tools=list(TOOLS.values()),
            capabilities=[self.memories[-1]],
        )

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = self.model(Seen(info.instructions or "", items_of(messages)))
        number = len(self.model.prompts)
        calls = [ToolCallPart(n, a, tool_call_id=f"call_{number}_{n}") for n, a in said.calls]
        return ModelResponse(parts=[*calls] if calls else [TextPart(said.text)])

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


def test_the_example_runs(tmp_path: Path) -> None:
    assert examples.run("pydantic_ai", tmp_path) == list(examples.QUESTIONS)
