"""OpenAI's and Anthropic's own SDKs with memory, against a provider on this machine."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

import pytest

import onlooker
from onlooker.blocking import open_memory
from onlooker.errors import SettingsError
from onlooker.integrations.sdk import with_memory
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
from onlooker.testing.provider import Answer, LocalProvider, Received

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}}


class Program(AdapterHost):
    """A program that holds its conversations itself, and sends each whole with every request."""

    def __init__(self, memory: Any, model: FakeModel) -> None:
        self.model = model
        self.provider = LocalProvider(self.answers)
        self.provider.start()
        self.threads: dict[str, list[Any]] = {}
        self.clients: list[Any] = []
        self.awaited: Any = None
        self.restart(memory)

    def answers(self, received: Received) -> Answer:
        said = self.model(self.seen(received.body))
        return Answer(said.text, calls=dict(said.calls)) if said.calls else Answer(said.text)

    def say(self, thread: str, text: str) -> str:
        history = self.threads.setdefault(thread, [])
        history.append({"role": "user", "content": text})
        while True:
            with onlooker.use_session(thread, owner=OWNER):
                answer, calls = self.read(self.create(self.client, history), history)
            if not calls:
                return answer
            self.results(history, [(i, TOOLS[name](given["place"])) for i, name, given in calls])

    async def say_async(self, thread: str, text: str) -> str:
        history = self.threads.setdefault(thread, [])
        history.append({"role": "user", "content": text})
        self.awaited = self.awaited or self.waiting()
        while True:
            with onlooker.use_session(thread, owner=OWNER):
                answer, calls = self.read(await self.create(self.awaited, history), history)
            if not calls:
                return answer
            self.results(history, [(i, TOOLS[name](given["place"])) for i, name, given in calls])

    async def stream(self, thread: str, text: str) -> list[str]:
        history = self.threads.setdefault(thread, [])
        history.append({"role": "user", "content": text})
        self.awaited = self.awaited or self.waiting()
        pieces: list[str] = []
        while True:
            with onlooker.use_session(thread, owner=OWNER):
                reply = await self.create_streamed(self.awaited, history, pieces)
            _, calls = self.read(reply, history)
            if not calls:
                return pieces
            self.results(history, [(i, TOOLS[name](given["place"])) for i, name, given in calls])

    async def close_async(self) -> None:
        await self.awaited.close()

    def stored(self, thread: str) -> list[Item]:
        return list(self.seen(self.body(self.threads[thread])).messages)

    def trim(self, thread: str, keep: int) -> None:
        self.threads[thread] = self.threads[thread][-keep:]

    def restart(self, memory: Any) -> None:
        self.memory = memory
        self.client = self.blocking()
        self.clients.append(self.client)

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.provider.stop()

    def body(self, history: Sequence[Any]) -> Item:
        return {"messages": history}

    blocking: Callable[[], Any]
    waiting: Callable[[], Any]
    seen: Callable[[Item], ModelInput]
    create: Callable[..., Any]
    create_streamed: Callable[[Any, Sequence[Any], list[str]], Awaitable[Any]]
    read: Callable[[Any, list[Any]], tuple[str, list[tuple[str, str, Item]]]]
    results: Callable[[list[Any], list[tuple[str, str]]], None]


def text_of(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(block["text"] for block in content if "text" in block)


class _OpenAI(Program):
    def blocking(self) -> Any:
        from openai import OpenAI

        client = OpenAI(base_url=f"{self.provider.url}/v1", api_key="x", max_retries=0)
        return with_memory(client, self.memory, session="t1", owner=OWNER, budget=BUDGET)

    def waiting(self) -> Any:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=f"{self.provider.url}/v1", api_key="x", max_retries=0)
        return with_memory(client, self.memory, session="t1", owner=OWNER, budget=BUDGET)


class Chat(_OpenAI):
    def create(self, client: Any, history: Sequence[Any], **more: Any) -> Any:
        tools = [{"type": "function", "function": {"name": n, "parameters": PLACE}} for n in TOOLS]
        said = [{"role": "system", "content": SYSTEM}, *history]
        return client.chat.completions.create(model="test", messages=said, tools=tools, **more)

    async def create_streamed(self, client: Any, history: Sequence[Any], pieces: list[str]) -> Any:
        from openai.lib.streaming.chat import ChatCompletionStreamState

        state: Any = ChatCompletionStreamState()
        async for chunk in await self.create(client, history, stream=True):
            state.handle_chunk(chunk)
            pieces += [choice.delta.content or "" for choice in chunk.choices]
        return state.get_final_completion()

    def read(self, reply: Any, history: list[Any]) -> tuple[str, list[tuple[str, str, Item]]]:
        message = reply.choices[0].message
        history.append(message.model_dump(exclude_none=True))
        calls = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()]
        return message.content or "", calls

    def results(self, history: list[Any], results: list[tuple[str, str]]) -> None:
        history += [{"role": "tool", "tool_call_id": i, "content": text} for i, text in results]

    def seen(self, body: Item) -> ModelInput:
        items = body["messages"]
        lead = items[0]["role"] == "system" if items else False
        messages = [{**m, "content": text_of(m.get("content"))} for m in items[lead:]]
        return ModelInput(text_of(items[0]["content"]) if lead else "", messages)


class Responses(_OpenAI):
    def body(self, history: Sequence[Any]) -> Item:
        return {"input": history}

    def create(self, client: Any, history: Sequence[Any], **more: Any) -> Any:
        tools = [{"type": "function", "name": n, "parameters": PLACE} for n in TOOLS]
        said = [{"role": "developer", "content": SYSTEM}, *history]
        return client.responses.create(model="test", input=said, tools=tools, store=False, **more)

    async def create_streamed(self, client: Any, history: Sequence[Any], pieces: list[str]) -> Any:
        events = [event async for event in await self.create(client, history, stream=True)]
        pieces += [event.delta for event in events if event.type == "response.output_text.delta"]
        return events[-1].response

    def read(self, reply: Any, history: list[Any]) -> tuple[str, list[tuple[str, str, Item]]]:
        history += [item.model_dump(exclude_none=True) for item in reply.output]
        calls = [
            (i.call_id, i.name, json.loads(i.arguments)) for i in reply.output if i.type == "function_call"
        ]
        return reply.output_text, calls

    def results(self, history: list[Any], results: list[tuple[str, str]]) -> None:
        history += [{"type": "function_call_output", "call_id": i, "output": text} for i, text in results]

    def seen(self, body: Item) -> ModelInput:
        if isinstance(body["input"], str):  # a question of the memory's own
            return ModelInput(body["instructions"], [{"role": "user", "content": body["input"]}])
        system: list[str] = []
        messages: list[Item] = []
        for item in body["input"]:
            kind = item.get("type", "message")
            if kind == "message" and item["role"] == "developer" and not messages:
                system.append(text_of(item["content"]))
            elif kind == "message":
                role = {"developer": "system"}.get(item["role"], item["role"])
                messages.append({"role": role, "content": text_of(item["content"])})
            elif kind == "function_call":
                call = {"id": item["call_id"], "name": item["name"]}
                if messages and messages[-1].get("tool_calls"):
                    messages[-1]["tool_calls"].append(call)
                else:
                    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            else:
                messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        return ModelInput("\n\n".join(system), messages)


class Anthropics(Program):
    def blocking(self) -> Any:
        from anthropic import Anthropic

        client = Anthropic(base_url=self.provider.url, api_key="x", max_retries=0)
        return with_memory(client, self.memory, session="t1", owner=OWNER, budget=BUDGET)

    def waiting(self) -> Any:
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(base_url=self.provider.url, api_key="x", max_retries=0)
        return with_memory(client, self.memory, session="t1", owner=OWNER, budget=BUDGET)

    def asked(self, history: Sequence[Any]) -> dict[str, Any]:
        tools = [{"name": n, "input_schema": PLACE} for n in TOOLS]
        return {"model": "test", "max_tokens": 500, "system": SYSTEM, "messages": history, "tools": tools}

    def create(self, client: Any, history: Sequence[Any]) -> Any:
        return client.messages.create(**self.asked(history))

    async def create_streamed(self, client: Any, history: Sequence[Any], pieces: list[str]) -> Any:
        async with client.messages.stream(**self.asked(history)) as stream:
            pieces += [text async for text in stream.text_stream]
            return await stream.get_final_message()

    def read(self, reply: Any, history: list[Any]) -> tuple[str, list[tuple[str, str, Item]]]:
        history.append({"role": "assistant", "content": [b.model_dump() for b in reply.content]})
        calls = [(b.id, b.name, b.input) for b in reply.content if b.type == "tool_use"]
        return "".join(b.text for b in reply.content if b.type == "text"), calls

    def results(self, history: list[Any], results: list[tuple[str, str]]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": i, "content": text} for i, text in results]
        history.append({"role": "user", "content": blocks})

    def seen(self, body: Item) -> ModelInput:
        messages: list[Item] = []
        for message in body["messages"]:
            blocks = message["content"]
            blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
            results = [b for b in blocks if b["type"] == "tool_result"]
            messages += [
                {"role": "tool", "tool_call_id": b["tool_use_id"], "content": text_of(b["content"])}
                for b in results
            ]
            calls = [{"id": b["id"], "name": b["name"]} for b in blocks if b["type"] == "tool_use"]
            text = text_of([b for b in blocks if b["type"] == "text"])
            if text or calls:
                said = {"role": message["role"], "content": text}
                messages.append(said | ({"tool_calls": calls} if calls else {}))
        return ModelInput(text_of(body.get("system")), messages)


class _Contract(AdapterContract):
    has_tools: ClassVar[bool] = False  # a program passes them itself, as it passes its own
    has_trace: ClassVar[bool] = False  # neither SDK has one
    kind: ClassVar[Callable[[Any, FakeModel], Program]]

    def make_host(self, memory: Any, model: FakeModel) -> AdapterHost:
        return type(self).kind(memory, model)


class TestChatCompletions(_Contract):
    kind = Chat


@pytest.mark.long
class TestResponses(_Contract):
    kind = Responses


@pytest.mark.long
class TestAnthropicMessages(_Contract):
    kind = Anthropics


# ------------------------------------------------------------------------------------ beside the contract


def recorded(memory: Any) -> list[tuple[str, str]]:
    return [(m.role, m.text) for m in memory.session("s", owner="ana").messages()]


SPOKEN = [("user", "I moved to Oslo."), ("assistant", "How nice, Oslo is a fine place to live.")]


@pytest.mark.parametrize("provider", ["chat", "responses", "anthropic"])
def test_a_streamed_answer_comes_as_it_is_and_is_recorded(provider: str) -> None:
    from anthropic import Anthropic
    from openai import OpenAI

    with LocalProvider(Answer(SPOKEN[1][1])) as local, open_memory(":memory:") as memory:
        options: Any = {"session": "s", "owner": "ana"}
        said: Any = [{"role": "user", "content": SPOKEN[0][1]}]
        client: Any
        if provider == "anthropic":
            client = with_memory(Anthropic(base_url=local.url, api_key="x"), memory, **options)
            with client.messages.stream(model="test", max_tokens=99, messages=said) as stream:
                text = "".join(stream.text_stream)
        else:
            bare = OpenAI(base_url=f"{local.url}/v1", api_key="x")
            client = with_memory(bare, memory, **options)
            if provider == "chat":
                chunks = client.chat.completions.create(model="test", messages=said, stream=True)
                text = "".join(c.choices[0].delta.content or "" for c in chunks)
            else:
                events = client.responses.create(model="test", input=said, stream=True)
                text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        client.close()
        assert text == SPOKEN[1][1]
        assert recorded(memory) == SPOKEN


def test_a_header_names_the_session_and_goes_no_further() -> None:
    from openai import OpenAI

    with LocalProvider(Answer(SPOKEN[1][1])) as local, open_memory(":memory:") as memory:
        bare = OpenAI(base_url=f"{local.url}/v1", api_key="x")
        with with_memory(bare, memory) as client:
            client.chat.completions.create(
                model="test",
                messages=[{"role": "user", "content": SPOKEN[0][1]}],
                extra_headers={"x-onlooker-session": "s", "x-onlooker-owner": "ana"},
            )
        assert recorded(memory) == SPOKEN
    assert not [name for name in local.received[0].headers if name.startswith("x-onlooker")]


def test_a_request_of_no_session_goes_out_as_it_is() -> None:
    from openai import OpenAI

    with LocalProvider(Answer("Hello.")) as local, open_memory(":memory:") as memory:
        bare = OpenAI(base_url=f"{local.url}/v1", api_key="x")
        with with_memory(bare, memory) as client:
            client.chat.completions.create(model="test", messages=[{"role": "user", "content": "Hi"}])
        assert not memory.sessions()
    assert local.received[0].body["messages"] == [{"role": "user", "content": "Hi"}]


def test_what_is_no_client_is_refused_with_what_would_be_one() -> None:
    with pytest.raises(SettingsError, match="must be a client of OpenAI's or Anthropic's SDK"):
        with_memory("gpt", ":memory:")
