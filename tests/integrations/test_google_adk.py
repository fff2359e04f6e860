"""Agents of Google's Agent Development Kit with memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import (
    RunConfig,
    StreamingMode,  # pyright: ignore[reportPrivateImportUsage]  it is exported nowhere
)
from google.adk.apps import App
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.load_memory_tool import LoadMemoryTool
from google.genai import types

from onlooker.blocking import open_memory
from onlooker.integrations.google_adk import OnlookerMemoryService, OnlookerPlugin
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
    ModelAnswer,
    ModelInput,
)
from tests.integrations import examples, tracing


def items_of(contents: list[types.Content]) -> list[Item]:
    items: list[Item] = []
    for content in contents:
        parts = content.parts or []
        text = "".join(p.text or "" for p in parts)
        calls = [{"id": p.function_call.name} for p in parts if p.function_call]
        for part in parts:
            if answer := part.function_response:
                told = str((answer.response or {}).get("result"))
                items.append({"role": "tool", "content": told, "tool_call_id": answer.name})
        if text or calls:
            role = "assistant" if content.role == "model" else "user"
            items.append({"role": role, "content": text, **({"tool_calls": calls} if calls else {})})
    return items


class Fake(BaseLlm):
    """The kit's side of the fake model."""

    fake: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        system = str(llm_request.config.system_instruction or "")
        said = self.fake(ModelInput(system, items_of(llm_request.contents)))
        calls = [types.Part(function_call=types.FunctionCall(name=n, args=a)) for n, a in said.calls]
        parts = calls or [types.Part(text=said.text)]
        if stream and not calls:
            half = len(said.text) // 2
            for text in (said.text[:half], said.text[half:]):
                piece = types.Content(role="model", parts=[types.Part(text=text)])
                yield LlmResponse(content=piece, partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts))


class Agent(AdapterHost):
    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.model = model
        self.service = InMemorySessionService()
        self.plugins: list[OnlookerPlugin] = []
        tracing.start()
        self.restart(memory)

    def restart(self, memory: Any) -> None:
        self.plugins.append(OnlookerPlugin(memory, budget=BUDGET))
        agent = LlmAgent(
            name="counter",
            model=Fake(model="fake", fake=self.model),
            static_instruction=SYSTEM,
            tools=list(TOOLS.values()),
        )
        app = App(name="parcels", root_agent=agent, plugins=[self.plugins[-1]])
        self.runner = Runner(app=app, session_service=self.service, auto_create_session=True)

    def options(self, thread: str, text: str) -> Any:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        return {"user_id": OWNER, "session_id": thread, "new_message": message}

    def say(self, thread: str, text: str) -> str:
        return text_of(list(self.runner.run(**self.options(thread, text))))

    async def say_async(self, thread: str, text: str) -> str:
        return text_of([event async for event in self.runner.run_async(**self.options(thread, text))])

    async def stream(self, thread: str, text: str) -> list[str]:
        streaming = RunConfig(streaming_mode=StreamingMode.SSE)
        run = self.runner.run_async(**self.options(thread, text), run_config=streaming)
        return [text_of([event]) async for event in run if event.partial]

    def traced(self) -> list[str]:
        return tracing.model_calls()

    def events(self, thread: str) -> list[Any]:
        return self.service.sessions["parcels"][OWNER][thread].events

    def stored(self, thread: str) -> list[Item]:
        return items_of([event.content for event in self.events(thread) if event.content])

    def trim(self, thread: str, keep: int) -> None:
        del self.events(thread)[:-keep]

    def close(self) -> None:
        for plugin in self.plugins:
            asyncio.run(plugin.close())


def text_of(events: list[Any]) -> str:
    return "".join(part.text or "" for part in events[-1].content.parts)


class TestGoogleADK(AdapterContract):
    def make_host(self, memory: Any, model: FakeModel) -> AdapterHost:
        return Agent(memory, model)


def test_the_example_runs(tmp_path: Path) -> None:
    assert examples.run("google_adk", tmp_path) == list(examples.QUESTIONS)


def test_the_kits_memory_tool_finds_what_another_session_said(tmp_path: Path) -> None:
    model = FakeModel()
    with open_memory(tmp_path / "m.db") as memory:
        host = Agent(memory, model)
        host.say("t1", f"Turn 1. {FACT}")
        agent = LlmAgent(
            name="finder",
            model=Fake(model="fake", fake=model),
            static_instruction=SYSTEM,
            tools=[LoadMemoryTool()],
        )
        service = OnlookerMemoryService(host.plugins[-1].host)
        runner = Runner(
            app=App(name="other", root_agent=agent),
            session_service=host.service,
            memory_service=service,
            auto_create_session=True,
        )
        model.next = [
            ModelAnswer(calls=(("load_memory", {"query": "locker code"}),)),
            ModelAnswer("It is 4711-B."),
        ]
        asked = list(runner.run(**host.options("t2", "Turn 2. Which locker code do I have?")))
        answers = [answer for event in asked for answer in event.get_function_responses()]
        assert "4711-B" in str(answers[0].response)
        # Another user's sessions are not searched.
        found = asyncio.run(service.search_memory(app_name="other", user_id="ben", query="locker code"))
        assert found.memories == []


def test_a_session_that_is_added_is_recorded_once(tmp_path: Path) -> None:
    with open_memory(tmp_path / "m.db") as memory:
        host = Agent(memory, FakeModel())
        host.say("t1", "Turn 3. Look.")
        service = OnlookerMemoryService(memory)

        async def add() -> None:
            session = await host.service.get_session(app_name="parcels", user_id=OWNER, session_id="t1")
            assert session is not None
            await service.add_session_to_memory(session)
            # One that the plugin has not seen.
            session.id = "t9"
            await service.add_session_to_memory(session)
            await service.add_session_to_memory(session)
            entry = types.Content(parts=[types.Part(text="Ana likes to bike to work")])
            await service.add_memory(app_name="a", user_id=OWNER, memories=[MemoryEntry(content=entry)])

        asyncio.run(add())
        roles = ["user", "assistant", "tool", "assistant"]
        assert [m.role for m in memory.session("t1", owner=OWNER).messages()] == roles
        assert [m.role for m in memory.session("t9", owner=OWNER).messages()] == roles
        assert [i.summary for i in memory.items.list(owner=OWNER)] == ["Ana likes to bike to work"]
