"""Agents of Google's Agent Development Kit with memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from onlooker.integrations.google_adk import OnlookerPlugin
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


def items_of(contents: list[types.Content]) -> list[Item]:
    items: list[Item] = []
    for content in contents:
        parts = content.parts or []
        text = "".join(p.text or "" for p in parts)
        calls = [{"id": p.function_call.name} for p in parts if p.function_call]
        for part in parts:
            if answer := part.function_response:
                told = (answer.response or {})["result"]
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
        said = self.fake(Seen(system, items_of(llm_request.contents)))
        calls = [types.Part(function_call=types.FunctionCall(name=n, args=a)) for n, a in said.calls]
        parts = calls or [types.Part(text=said.text)]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


class Agent(AdapterHost):
    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.model = model
        self.service = InMemorySessionService()
        self.plugins: list[OnlookerPlugin] = []
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
