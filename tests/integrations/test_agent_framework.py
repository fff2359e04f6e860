"""Agents of Microsoft's Agent Framework with memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agent_framework import Agent as FrameworkAgent
from agent_framework import (
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
)
from agent_framework.observability import ChatTelemetryLayer, enable_instrumentation

from onlooker.blocking import open_memory
from onlooker.integrations.agent_framework import OnlookerProvider
from onlooker.testing import AdapterContract
from onlooker.testing.adapter_contract import (
    BUDGET,
    OWNER,
    SYSTEM,
    TOOLS,
    AdapterHost,
    FakeModel,
    Item,
    ModelInput,
)
from tests.integrations import examples, tracing


def items_of(messages: list[Message]) -> list[Item]:
    items: list[Item] = []
    for message in messages:
        text = "".join(c.text or "" for c in message.contents if c.type == "text")
        calls = [{"id": c.call_id} for c in message.contents if c.type == "function_call"]
        for content in message.contents:
            if content.type == "function_result":
                items.append({"role": "tool", "content": content.result, "tool_call_id": content.call_id})
        if text or calls:
            items.append({"role": message.role, "content": text, **({"tool_calls": calls} if calls else {})})
    return items


class Fake(
    FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], ChatTelemetryLayer[Any], BaseChatClient[Any]
):
    """The framework's side of the fake model."""

    def __init__(self, model: FakeModel) -> None:
        super().__init__()
        self.model = model

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        said = self.model(ModelInput(options.get("instructions") or "", items_of(messages)))
        number = len(self.model.prompts)
        calls = [Content.from_function_call(f"call_{number}_{n}", n, arguments=a) for n, a in said.calls]
        contents = calls or [Content.from_text(said.text)]

        async def whole() -> ChatResponse[Any]:
            return ChatResponse(messages=[Message("assistant", contents)])

        async def pieces() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(role="assistant", contents=contents)

        return self._build_response_stream(pieces()) if stream else whole()


class Agent(AdapterHost):
    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.model = model
        self.threads: dict[str, AgentSession] = {}
        self.memories: list[OnlookerProvider] = []
        enable_instrumentation(enable_sensitive_data=True)
        tracing.start()
        self.restart(memory)

    def restart(self, memory: Any, **options: Any) -> None:
        self.memories.append(OnlookerProvider(memory, budget=BUDGET))
        self.agent: Any = FrameworkAgent(
            Fake(self.model),
            SYSTEM,
            tools=list(TOOLS.values()),
            context_providers=[self.memories[-1]],
            **options,
        )

    def say(self, thread: str, text: str) -> str:
        return asyncio.run(self.say_async(thread, text))

    async def say_async(self, thread: str, text: str) -> str:
        return (await self.agent.run(text, **self.options(thread))).text

    async def stream(self, thread: str, text: str) -> list[str]:
        return [u.text async for u in self.agent.run(text, stream=True, **self.options(thread))]

    def traced(self) -> list[str]:
        return tracing.model_calls()

    def options(self, thread: str) -> Any:
        session = self.threads.setdefault(thread, AgentSession(session_id=thread))
        return {"session": session, "options": {"user": OWNER}}

    def state(self, thread: str) -> dict[str, Any]:
        return self.threads[thread].state[InMemoryHistoryProvider.DEFAULT_SOURCE_ID]

    def stored(self, thread: str) -> list[Item]:
        return items_of(self.state(thread)["messages"])

    def trim(self, thread: str, keep: int) -> None:
        self.state(thread)["messages"] = self.state(thread)["messages"][-keep:]

    def close(self) -> None:
        for memory in self.memories:
            memory.close()


class TestAgentFramework(AdapterContract):
    def make_host(self, memory: Any, model: FakeModel) -> AdapterHost:
        return Agent(memory, model)


def test_the_example_runs(tmp_path: Path) -> None:
    assert examples.run("agent_framework", tmp_path) == list(examples.QUESTIONS)


def test_history_that_is_loaded_for_each_call_is_sent_once() -> None:
    model = FakeModel()
    with open_memory(":memory:") as memory:
        host = Agent(memory, model)
        host.restart(memory, require_per_service_call_history_persistence=True)
        for turn in range(1, 5):
            host.say("t1", f"Turn {turn}. Hello.")
        asked = [m["content"] for m in model.prompts[-1].messages if m["role"] == "user"]
        assert asked == [f"Turn {turn}. Hello." for turn in range(1, 5)]
        recorded = memory.session("t1", owner=OWNER).messages()
        assert [m.text for m in recorded if m.role == "user"] == asked
