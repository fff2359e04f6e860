"""LangChain's agents with memory."""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent  # pyright: ignore[reportDeprecated]

from onlooker.blocking import open_memory
from onlooker.integrations.langchain import OnlookerMiddleware
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
    check_pairs,
)
from tests.integrations import examples


class FakeChat(BaseChatModel):
    """LangChain's side of the fake model."""

    model: Any

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        lead = isinstance(messages[0], SystemMessage)
        said = self.model(ModelInput(messages[0].text if lead else "", [item(m) for m in messages[lead:]]))
        number = len(self.model.prompts)
        calls: Any = [{"name": n, "args": a, "id": f"call_{number}_{n}"} for n, a in said.calls]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said.text, tool_calls=calls))])


def item(message: BaseMessage) -> Item:
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    if isinstance(message, ToolMessage):
        return {"role": role, "content": message.text, "tool_call_id": message.tool_call_id}
    calls = [{"id": c["id"]} for c in message.tool_calls] if isinstance(message, AIMessage) else []
    return {"role": role, "content": message.text, **({"tool_calls": calls} if calls else {})}


class Traced(BaseCallbackHandler):
    """What a tracer of the run is told."""

    def __init__(self) -> None:
        self.systems: list[str] = []

    def on_chat_model_start(self, serialized: Any, messages: list[list[BaseMessage]], **more: Any) -> None:
        self.systems.append(messages[0][0].text)


class Agent(AdapterHost):
    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.model = model
        self.saver = InMemorySaver()
        self.tracer = Traced()
        self.memories: list[OnlookerMiddleware] = []
        self.restart(memory)

    def restart(self, memory: Any) -> None:
        self.memories.append(OnlookerMiddleware(memory, budget=BUDGET))
        self.agent: Any = create_agent(
            FakeChat(model=self.model),
            tools=list(TOOLS.values()),
            system_prompt=SYSTEM,
            middleware=[self.memories[-1]],
            checkpointer=self.saver,
        )

    def config(self, thread: str) -> Any:
        named = {"thread_id": thread, "user_id": OWNER}
        return {"configurable": named, "recursion_limit": 50, "callbacks": [self.tracer]}

    def say(self, thread: str, text: str) -> str:
        given = {"messages": [{"role": "user", "content": text}]}
        return self.agent.invoke(given, self.config(thread))["messages"][-1].text

    async def say_async(self, thread: str, text: str) -> str:
        given = {"messages": [{"role": "user", "content": text}]}
        return (await self.agent.ainvoke(given, self.config(thread)))["messages"][-1].text

    async def stream(self, thread: str, text: str) -> list[str]:
        given = {"messages": [{"role": "user", "content": text}]}
        pieces = self.agent.astream(given, self.config(thread), stream_mode="messages")
        return [piece.text async for piece, _ in pieces if isinstance(piece, AIMessage)]

    def traced(self) -> list[str]:
        return self.tracer.systems

    def messages(self, thread: str) -> list[BaseMessage]:
        return self.agent.get_state(self.config(thread)).values["messages"]

    def stored(self, thread: str) -> list[Item]:
        return [item(m) for m in self.messages(thread)]

    def trim(self, thread: str, keep: int) -> None:
        gone = [RemoveMessage(id=str(m.id)) for m in self.messages(thread)[:-keep]]
        self.agent.update_state(self.config(thread), {"messages": gone})

    def close(self) -> None:
        for memory in self.memories:
            memory.close()


class TestLangChain(AdapterContract):
    def make_host(self, memory: Any, model: FakeModel) -> AdapterHost:
        return Agent(memory, model)


class TestSearchTool(ToolsUnitTests):
    """LangChain's own tests of a tool."""

    @property
    def tool_constructor(self) -> type[BaseTool] | BaseTool:
        return OnlookerMiddleware(open_memory(":memory:")).tools[0]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"query": "parcels"}


@pytest.mark.parametrize("name", ["langchain", "deepagents", "pre_model_hook"])
def test_the_example_runs(tmp_path: Path, name: str) -> None:
    assert examples.run(name, tmp_path) == list(examples.QUESTIONS)


def test_a_hook_before_the_model_hides_nothing_of_a_long_conversation(tmp_path: Path) -> None:
    """The recipe for `create_react_agent`, with tools."""
    recipe = runpy.run_path(str(examples.EXAMPLES / "pre_model_hook_agent.py"))
    model = FakeModel()
    with open_memory(tmp_path / "m.db", budget=BUDGET, workers="external") as memory:
        hooks = recipe["Remembering"](memory)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agent: Any = create_react_agent(  # pyright: ignore[reportDeprecated]
                FakeChat(model=model),
                list(TOOLS.values()),
                prompt=SYSTEM,
                pre_model_hook=hooks.before,
                post_model_hook=hooks.after,
                checkpointer=InMemorySaver(),
            )
        config: Any = {"configurable": {"thread_id": "t1", "user_id": OWNER}}
        for turn in range(1, 41):
            said = f"Turn {turn}. {FACT if turn == 3 else 'Parcel ' * 30}"
            agent.invoke({"messages": [{"role": "user", "content": said}]}, config)
            memory.session("t1", owner=OWNER).settle()
        for seen in model.prompts:
            check_pairs([m for m in seen.messages if m["role"] != "system"])
        assert "4711-B" in model.prompts[-1].text
        assert len(model.prompts[-1].messages) < 40
        assert len(agent.get_state(config).values["messages"]) > 100
