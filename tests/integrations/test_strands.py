"""Agents of Strands' with memory."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from strands import Agent as StrandsAgent
from strands import tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model
from strands.session import FileSessionManager
from strands.types.streaming import StreamEvent

from onlooker.blocking import open_memory
from onlooker.integrations.strands import OnlookerPlugin
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


def items_of(messages: Any) -> list[Item]:
    items: list[Item] = []
    for message in messages:
        blocks = message["content"]
        for block in blocks:
            if answer := block.get("toolResult"):
                told = "".join(c["text"] for c in answer["content"])
                items.append({"role": "tool", "content": told, "tool_call_id": answer["toolUseId"]})
        text = "\n".join(b["text"] for b in blocks if "text" in b)
        calls = [{"id": b["toolUse"]["toolUseId"]} for b in blocks if "toolUse" in b]
        if text or calls:
            more = {"tool_calls": calls} if calls else {}
            items.append({"role": message["role"], "content": text, **more})
    return items


class Fake(Model):
    """Strands' side of the fake model."""

    def __init__(self, model: FakeModel) -> None:
        self.model = model

    def get_config(self) -> Any:
        return {}

    def update_config(self, **config: Any) -> None:
        pass

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: str | None = None, **options: Any
    ) -> AsyncGenerator[StreamEvent, None]:
        roles = [message["role"] for message in messages]
        assert roles == [("user", "assistant")[n % 2] for n in range(len(roles))], "as Bedrock takes them"
        said = self.model(ModelInput(system_prompt or "", items_of(messages)))
        yield {"messageStart": {"role": "assistant"}}
        number = len(self.model.prompts)
        for name, given in said.calls:
            yield {
                "contentBlockStart": {"start": {"toolUse": {"toolUseId": f"c{number}_{name}", "name": name}}}
            }
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}}
            yield {"contentBlockStop": {}}
        if not said.calls:
            half = len(said.text) // 2
            for text in (said.text[:half], said.text[half:]):
                yield {"contentBlockDelta": {"delta": {"text": text}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if said.calls else "end_turn"}}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


class Agent(AdapterHost):
    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.model = model
        self.folder = TemporaryDirectory()
        self.memories: list[OnlookerPlugin] = []
        tracing.start()
        self.restart(memory)

    def restart(self, memory: Any) -> None:
        self.memories.append(OnlookerPlugin(memory, budget=BUDGET))
        self.threads: dict[str, StrandsAgent] = {}

    def agent(self, thread: str, **options: Any) -> StrandsAgent:
        if thread not in self.threads:
            given: Any = {"conversation_manager": NullConversationManager(), **options}
            self.threads[thread] = StrandsAgent(
                Fake(self.model),
                system_prompt=SYSTEM,
                tools=[*map(tool, TOOLS.values())],
                plugins=[self.memories[-1]],
                session_manager=FileSessionManager(thread, storage_dir=self.folder.name),
                callback_handler=None,
                **given,
            )
        return self.threads[thread]

    def say(self, thread: str, text: str) -> str:
        return str(self.agent(thread)(text, invocation_state={"user_id": OWNER})).rstrip("\n")

    async def say_async(self, thread: str, text: str) -> str:
        answer = await self.agent(thread).invoke_async(text, invocation_state={"user_id": OWNER})
        return str(answer).rstrip("\n")

    async def stream(self, thread: str, text: str) -> list[str]:
        run = self.agent(thread).stream_async(text, invocation_state={"user_id": OWNER})
        return [event["data"] async for event in run if "data" in event]

    def traced(self) -> list[str]:
        return tracing.model_calls()

    def stored(self, thread: str) -> list[Item]:
        return items_of(self.agent(thread).messages)

    def trim(self, thread: str, keep: int) -> None:
        del self.agent(thread).messages[:-keep]

    def close(self) -> None:
        for memory in self.memories:
            memory.close()
        self.folder.cleanup()


class TestStrands(AdapterContract):
    def make_host(self, memory: Any, model: FakeModel) -> AdapterHost:
        return Agent(memory, model)


def test_the_example_runs(tmp_path: Path) -> None:
    assert examples.run("strands", tmp_path) == list(examples.QUESTIONS)


def test_what_the_sliding_window_drops_is_remembered() -> None:
    model = FakeModel()
    with open_memory(":memory:", budget=BUDGET, workers="external") as memory:
        host = Agent(memory, model)
        # The conversation manager that an agent has by default.
        agent = host.agent("t1", conversation_manager=None)
        host.say("t1", f"Turn 1. {FACT}")
        for turn in range(31, 61):
            model.next = [ModelAnswer("Noted. " + "The list of parcels is long, and it grows. " * 8)]
            host.say("t1", f"Turn {turn}. Parcel {turn} goes to dock {turn % 7}.")
            memory.session("t1", owner=OWNER).settle()
        assert FACT not in json.dumps(agent.messages)
        assert "4711-B" in model.prompts[-1].text
        host.close()


def test_the_agents_of_a_session_have_memories_of_their_own() -> None:
    with open_memory(":memory:") as memory:
        host = Agent(memory, FakeModel())
        host.say("t1", "Turn 1. Hello.")
        host.threads.clear()
        host.agent("t1", agent_id="second")("Turn 1. Hi.", invocation_state={"user_id": OWNER})
        for key, said in (("t1", "Turn 1. Hello."), ("t1:second", "Turn 1. Hi.")):
            assert memory.session(key, owner=OWNER).messages()[0].text == said
        host.close()
