"""Agents and chat engines of LlamaIndex with memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.tools import FunctionTool

from onlooker.blocking import open_memory
from onlooker.integrations.framework import Host
from onlooker.integrations.llama_index import OnlookerMemory
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
from tests.integrations import examples

# What an agent adds to what it reads: its system prompt, and the calls of the turn.
ADDED = 300


def item(message: ChatMessage) -> Item:
    calls = [{"id": b.tool_call_id} for b in message.blocks if isinstance(b, ToolCallBlock)]
    answers = message.additional_kwargs.get("tool_call_id")
    more: Item = {"tool_calls": calls} if calls else {"tool_call_id": answers} if answers else {}
    return {"role": message.role.value, "content": message.content or "", **more}


def fake(model: FakeModel, **options: Any) -> MockFunctionCallingLLM:
    """LlamaIndex's side of the fake model."""

    def answer(messages: Sequence[ChatMessage], **more: Any) -> ChatMessage:
        lead = next((n for n, m in enumerate(messages) if m.role != MessageRole.SYSTEM), len(messages))
        system = "\n\n".join(m.content or "" for m in messages[:lead])
        said = model(ModelInput(system, [item(m) for m in messages[lead:]]))
        number = len(model.prompts)
        calls = [
            ToolCallBlock(tool_call_id=f"call_{number}_{n}", tool_name=n, tool_kwargs=a)
            for n, a in said.calls
        ]
        if calls:
            return ChatMessage(role="assistant", blocks=calls)
        return ChatMessage(said.text, role="assistant")

    return MockFunctionCallingLLM(response_generator=answer, **options)


class Agent(AdapterHost):
    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.tracer = LlamaDebugHandler(print_trace_on_end=False)
        self.llm = fake(model, callback_manager=CallbackManager([self.tracer]))
        self.threads: dict[str, SQLAlchemyChatStore] = {}
        self.hosts: list[Host] = []
        self.restart(memory)

    def restart(self, memory: Any) -> None:
        self.hosts.append(Host(memory, budget=BUDGET - ADDED))

    def memory(self, thread: str) -> OnlookerMemory:
        store = self.threads.setdefault(thread, SQLAlchemyChatStore(table_name="messages"))
        return OnlookerMemory(
            self.hosts[-1], session_id=thread, owner=OWNER, llm=self.llm, store=store, token_limit=100_000
        )

    def say(self, thread: str, text: str) -> str:
        return asyncio.run(self.say_async(thread, text))

    async def say_async(self, thread: str, text: str) -> str:
        return str(await self.run(thread, text))

    async def stream(self, thread: str, text: str) -> list[str]:
        run = self.run(thread, text)
        return [event.delta async for event in run.stream_events() if isinstance(event, AgentStream)]

    def run(self, thread: str, text: str) -> Any:
        memory = self.memory(thread)
        tools: Any = [*map(FunctionTool.from_defaults, TOOLS.values()), *memory.tools]
        agent: Any = FunctionAgent(llm=self.llm, system_prompt=SYSTEM, tools=tools)
        return agent.run(user_msg=text, memory=memory)

    def traced(self) -> list[str]:
        return [str(start.payload) for start, _ in self.tracer.get_llm_inputs_outputs()]

    def stored(self, thread: str) -> list[Item]:
        return [item(m) for m in self.memory(thread).get_all()]

    def trim(self, thread: str, keep: int) -> None:
        memory = self.memory(thread)
        memory.set(memory.get_all()[-keep:])

    def close(self) -> None:
        for host in self.hosts:
            host.close()


class TestLlamaIndex(AdapterContract):
    def make_host(self, memory: Any, model: FakeModel) -> AdapterHost:
        return Agent(memory, model)


def test_the_example_runs(tmp_path: Path) -> None:
    assert examples.run("llama_index", tmp_path) == list(examples.QUESTIONS)


def test_a_chat_engine_has_memory_too() -> None:
    model = FakeModel()
    with open_memory(":memory:", workers="external") as opened:
        memory = OnlookerMemory(opened, session_id="t1", owner=OWNER, budget=BUDGET)
        engine = SimpleChatEngine.from_defaults(llm=fake(model), memory=memory, system_prompt=SYSTEM)
        for turn in range(1, 41):
            engine.chat(f"Turn {200 + turn}. Parcel {turn} " + "is heavy and brown. " * 20)
            opened.session("t1", owner=OWNER).settle()
        assert "## Conversation Memory" in model.prompts[-1].system
        assert len(model.prompts[-1].messages) < 30
        assert len(opened.session("t1", owner=OWNER).messages()) == 80
