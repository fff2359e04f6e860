"""Agents of OpenAI's SDK with memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent as SdkAgent
from agents import (
    Model,
    ModelResponse,
    Runner,
    SQLiteSession,
    TracingProcessor,
    Usage,
    function_tool,
    generation_span,
    set_trace_processors,
    set_tracing_disabled,
)
from agents.memory import OpenAIResponsesCompactionArgs, is_openai_responses_compaction_aware_session
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from onlooker.blocking import open_memory
from onlooker.integrations.framework import Host
from onlooker.integrations.openai_agents import OnlookerSession
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
from tests.integrations import examples


def items_of(items: Any) -> list[Item]:
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    messages: list[Item] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            if not (messages and messages[-1].get("tool_calls")):
                messages.append({"role": "assistant", "content": "", "tool_calls": []})
            messages[-1]["tool_calls"].append({"id": item["call_id"]})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        else:
            content = item["content"]
            text = content if isinstance(content, str) else "".join(b["text"] for b in content)
            messages.append({"role": item["role"], "content": text})
    return messages


class Fake(Model):
    """The SDK's side of the fake model."""

    def __init__(self, model: FakeModel) -> None:
        self.model = model

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        **options: Any,
    ) -> ModelResponse:
        # As the SDK's own models do.
        with generation_span([{"system": system_instructions}], disabled=tracing.is_disabled()):
            output, number = self.said(system_instructions, input)
        return ModelResponse(output=output, usage=Usage(), response_id=f"resp_{number}")

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        **options: Any,
    ) -> AsyncIterator[Any]:
        with generation_span([{"system": system_instructions}], disabled=tracing.is_disabled()):
            output, number = self.said(system_instructions, input)
        said = [part.text for item in output if item.type == "message" for part in item.content]
        for n, word in enumerate("".join(said).split(" ")):
            yield ResponseTextDeltaEvent(
                content_index=0,
                delta=f" {word}" if n else word,
                item_id=f"msg_{number}",
                logprobs=[],
                output_index=0,
                sequence_number=n,
                type="response.output_text.delta",
            )
        whole = Response(
            id=f"resp_{number}",
            created_at=0,
            model="fake",
            object="response",
            output=output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=whole, sequence_number=999, type="response.completed")

    def said(self, system: str | None, input: Any) -> tuple[list[Any], int]:
        said = self.model(ModelInput(system or "", items_of(input)))
        number = len(self.model.prompts)
        output: list[Any] = [
            ResponseFunctionToolCall(
                call_id=f"call_{number}_{n}", name=n, arguments=json.dumps(a), type="function_call"
            )
            for n, a in said.calls
        ]
        if not said.calls:
            part = ResponseOutputText(text=said.text, annotations=[], type="output_text")
            message = ResponseOutputMessage(
                id=f"msg_{number}", content=[part], role="assistant", status="completed", type="message"
            )
            output.append(message)
        return output, number


class Traced(TracingProcessor):
    """What the SDK's tracing is told of model calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_span_end(self, span: Any) -> None:
        if span.span_data.type == "generation":
            self.calls.append(str(span.span_data.input))

    def on_span_start(self, span: Any) -> None: ...
    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


class Agent(AdapterHost):
    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.model = model
        self.threads: dict[str, SQLiteSession] = {}
        self.hosts: list[Host] = []
        self.tracer = Traced()
        set_trace_processors([self.tracer])
        set_tracing_disabled(False)  # an example turns it off for its whole process
        self.restart(memory)

    def restart(self, memory: Any) -> None:
        self.hosts.append(Host(memory, budget=BUDGET))

    def run(self, thread: str) -> tuple[Any, Any]:
        store = self.threads.setdefault(thread, SQLiteSession(thread))
        session = OnlookerSession(thread, self.hosts[-1], owner=OWNER, store=store)
        tools: Any = [*map(function_tool, TOOLS.values()), *session.tools]
        return SdkAgent(name="a", instructions=SYSTEM, model=Fake(self.model), tools=tools), session

    def say(self, thread: str, text: str) -> str:
        agent, session = self.run(thread)
        return Runner.run_sync(agent, text, session=session, run_config=session.run_config).final_output

    async def say_async(self, thread: str, text: str) -> str:
        agent, session = self.run(thread)
        return (await Runner.run(agent, text, session=session, run_config=session.run_config)).final_output

    async def stream(self, thread: str, text: str) -> list[str]:
        agent, session = self.run(thread)
        run = Runner.run_streamed(agent, text, session=session, run_config=session.run_config)
        events = [event async for event in run.stream_events()]
        raw = [event.data for event in events if event.type == "raw_response_event"]
        return [data.delta for data in raw if isinstance(data, ResponseTextDeltaEvent)]

    def traced(self) -> list[str]:
        return self.tracer.calls

    def items(self, thread: str) -> list[Any]:
        return asyncio.run(self.threads[thread].get_items())

    def stored(self, thread: str) -> list[Item]:
        return items_of(self.items(thread))

    def trim(self, thread: str, keep: int) -> None:
        left = self.items(thread)[-keep:]
        asyncio.run(self.threads[thread].clear_session())
        asyncio.run(self.threads[thread].add_items(left))

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        for store in self.threads.values():
            store.close()


class TestOpenAIAgents(AdapterContract):
    def make_host(self, memory: Any, model: FakeModel) -> AdapterHost:
        return Agent(memory, model)


class Compacting(SQLiteSession):
    """A store that puts a summary in the place of all but the last items, as OpenAI's does."""

    def __init__(self) -> None:
        super().__init__("t1")
        self.asked: list[OpenAIResponsesCompactionArgs] = []

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        self.asked.append(args or {})
        items = await self.get_items()
        if len(items) > 20:
            await self.clear_session()
            summary: Any = {"type": "compaction", "encrypted_content": "c3VtbWFyeQ==", "id": "cmp_1"}
            await self.add_items([summary, *items[-4:]])


def test_the_sdk_asks_a_store_to_compact_and_memory_keeps_all(tmp_path: Path) -> None:
    model, store = FakeModel(), Compacting()
    with open_memory(tmp_path / "agent.db", budget=BUDGET, workers="external") as memory:
        session = OnlookerSession("t1", memory, owner=OWNER, store=store)
        as_sdk: Any = session
        assert is_openai_responses_compaction_aware_session(as_sdk)
        agent = SdkAgent(name="a", instructions=SYSTEM, model=Fake(model))
        for turn in range(1, 41):
            said = FACT if turn == 3 else f"Parcel {turn} weighs {turn} kg. " * 5
            Runner.run_sync(agent, said, session=session, run_config=session.run_config)
        assert [asked.get("response_id") for asked in store.asked] == [f"resp_{n}" for n in range(1, 41)]
        recorded = memory.session("t1", owner=OWNER).messages()
        assert [m.role for m in recorded] == ["user", "assistant"] * 40
        assert "4711-B" in model.prompts[-1].text


def test_compaction_that_a_program_forces_takes_the_notes_that_are_due(tmp_path: Path) -> None:
    with open_memory(tmp_path / "agent.db", budget=BUDGET, workers="external") as memory:
        session = OnlookerSession("t1", memory, owner=OWNER)
        agent = SdkAgent(name="a", instructions=SYSTEM, model=Fake(FakeModel()))
        for turn in range(1, 13):
            said = f"Turn {turn * 3 + 1}. {FACT} " * 3
            Runner.run_sync(agent, said, session=session, run_config=session.run_config)
        of_memory = memory.session("t1", owner=OWNER)
        assert not of_memory.notes()
        asyncio.run(session.run_compaction({"force": True}))
        assert any("4711-B" in note.text for note in of_memory.notes())


def test_the_example_runs(tmp_path: Path) -> None:
    assert examples.run("openai_agents", tmp_path) == list(examples.QUESTIONS)
