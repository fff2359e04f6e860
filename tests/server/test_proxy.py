"""The chat proxy: the official SDKs talk through it to a local provider that speaks their protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sqlite3
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputParam
from pydantic import TypeAdapter

import onlooker
from onlooker.server.auth import COOKIE
from onlooker.server.config import ServerConfig, Upstream
from onlooker.server.proxy import SESSION_HEADERS
from onlooker.testing.provider import Answer, LocalProvider, Received
from tests.marks import first
from tests.server.serving import BASE, app_of, serving

pytestmark = pytest.mark.anyio

KEY = "sk-test-0123456789abcdefghij"
Sdk = Literal["chat", "responses", "messages"]
SDKS: tuple[Sdk, ...] = ("chat", "responses", "messages")
PATHS = {
    "chat": "/openai/v1/chat/completions",
    "responses": "/openai/v1/responses",
    "messages": "/anthropic/v1/messages",
}
SYSTEM = "You are the clerk of a depot."
TOOL: dict[str, Any] = {"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]}
# One turn of a client: it sends its history, and gets back what to add to it.
Ask = Callable[[list[Any], bool], Awaitable[list[Any]]]


def config(provider: LocalProvider, **more: Any) -> ServerConfig:
    upstreams = (Upstream("openai", provider.url, "openai"), Upstream("anthropic", provider.url, "anthropic"))
    return ServerConfig(upstreams=upstreams, **more)


@asynccontextmanager
async def proxied(
    provider: LocalProvider, memory: onlooker.Memory | None = None, **more: Any
) -> AsyncGenerator[httpx2.AsyncClient]:
    async with serving(memory, config(provider, **more)) as client:
        yield client


def asking(sdk: Sdk, http: httpx2.AsyncClient) -> Ask:
    """A client of an SDK, as a program has it that knows nothing of memory."""
    if sdk == "messages":
        anthropic: Any = AsyncAnthropic(base_url=f"{BASE}/anthropic", api_key=KEY, http_client=http)
        tool: Any = {"name": "look", "description": "Look into a row.", "input_schema": TOOL}

        async def ask_anthropic(history: list[Any], stream: bool) -> list[Any]:
            asked: Any = {"model": "claude-haiku-4-5", "max_tokens": 200, "system": SYSTEM, "tools": [tool]}
            if stream:
                async with anthropic.messages.stream(messages=history, **asked) as events:
                    answer = await events.get_final_message()
            else:
                answer = await anthropic.messages.create(messages=history, **asked)
            return [
                {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in answer.content]}
            ]

        return ask_anthropic
    openai: Any = AsyncOpenAI(base_url=f"{BASE}/openai/v1", api_key=KEY, http_client=http)
    if sdk == "responses":
        function: Any = {"type": "function", "name": "look", "parameters": TOOL, "strict": False}

        async def ask_responses(history: list[Any], stream: bool) -> list[Any]:
            asked: Any = {"model": "gpt-5-mini", "instructions": SYSTEM, "tools": [function], "store": False}
            if not stream:
                made = await openai.responses.create(input=history, **asked)
                return [i.model_dump(exclude_none=True) for i in made.output]
            items = list[Any]()
            async for event in await openai.responses.create(input=history, stream=True, **asked):
                if event.type == "response.output_item.done":
                    items.append(event.item.model_dump(exclude_none=True))
            return items

        return ask_responses

    async def ask_chat(history: list[Any], stream: bool) -> list[Any]:
        said: Any = [{"role": "system", "content": SYSTEM}, *history]
        tools: Any = [{"type": "function", "function": {"name": "look", "parameters": TOOL}}]
        if not stream:
            answer = await openai.chat.completions.create(model="gpt-5-mini", messages=said, tools=tools)
            return [answer.choices[0].message.model_dump(exclude_none=True)]
        async with openai.chat.completions.stream(model="gpt-5-mini", messages=said, tools=tools) as events:
            final = await events.get_final_completion()
        return [final.choices[0].message.model_dump(exclude_none=True, exclude={"parsed"})]

    return ask_chat


def calls_in(answer: list[Any]) -> list[str]:
    """The ids of the calls in an answer."""
    found = [c["id"] for m in answer for c in m.get("tool_calls") or ()]
    found += [i["call_id"] for i in answer if i.get("type") == "function_call"]
    return found + [
        b["id"]
        for m in answer
        if isinstance(m.get("content"), list)
        for b in m["content"]
        if b.get("type") == "tool_use"
    ]


def results(sdk: Sdk, calls: list[str], text: str) -> list[Any]:
    if sdk == "chat":
        return [{"role": "tool", "tool_call_id": c, "content": text} for c in calls]
    if sdk == "responses":
        return [{"type": "function_call_output", "call_id": c, "output": text} for c in calls]
    return [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": c, "content": text} for c in calls],
        }
    ]


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def fact(turn: int) -> str:
    return f"ZQ{turn:03}K"


def question(turn: int) -> dict[str, str]:
    text = f"Parcel {fact(turn)} went from Oslo to hall {turn} in the morning, and Ana signed for it. "
    return {"role": "user", "content": text + f"The driver of van {turn} waits at the gate for papers."}


def answered(received: Received) -> Answer:
    """Calls a tool in every third turn, then answers."""
    said = received.body.get("input") or received.body["messages"]
    newest = next(
        m for m in reversed(said) if "Memory" not in str(m) and m.get("role") not in ("system", "developer")
    )
    if (
        newest.get("role") == "user"
        and "Parcel" in str(newest)
        and int(str(newest).split("van ")[1].split()[0]) % 3 == 0
    ):
        return Answer(calls={"look": {"row": 7}})
    return Answer("Noted: the papers are on the desk, and the parcel stands in its row.")


# -- What a provider would refuse

TYPES: dict[Sdk, TypeAdapter[Any]] = {
    "chat": TypeAdapter(list[ChatCompletionMessageParam]),
    "responses": TypeAdapter(ResponseInputParam),
    "messages": TypeAdapter(list[MessageParam]),
}


def check(sdk: Sdk, received: Received) -> None:
    """What was sent is valid by the SDK's own types, and no call lacks its result."""
    sent: list[Any] = received.body["input" if sdk == "responses" else "messages"]
    list(TYPES[sdk].validate_python(json.loads(json.dumps(sent))))
    if sdk == "messages":
        opened = set[Any]()
        for message in sent:
            blocks: list[Any] = message["content"] if isinstance(message["content"], list) else []
            answers = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
            assert answers == opened, sent
            opened = {b["id"] for b in blocks if b["type"] == "tool_use"}
        assert sent[0]["role"] == "user"
        return
    calls = calls_in(sent)
    answers = [
        m.get("tool_call_id") or m["call_id"]
        for m in sent
        if m.get("role") == "tool" or m.get("type") == "function_call_output"
    ]
    assert sorted(calls) == sorted(answers)


def prompt_of(received: Received) -> str:
    return json.dumps(
        [
            received.body.get("system"),
            received.body.get("instructions"),
            received.body.get("input"),
            received.body.get("messages"),
        ]
    )


async def converse(sdk: Sdk, turns: int, http: httpx2.AsyncClient, provider: LocalProvider) -> list[Any]:
    """A client's conversation: it is restarted twice, and resends what it kept."""
    history = list[Any]()
    ask = asking(sdk, http)
    for turn in range(turns):
        if turn in (turns // 3, 2 * turns // 3):
            ask, history = asking(sdk, http), json.loads(json.dumps(history))
        history.append(question(turn))
        while True:
            answer = await ask(history, turn % 2 == 0)
            check(sdk, provider.received[-1])
            history += answer
            if not (calls := calls_in(answer)):
                break
            history += results(sdk, calls, f"Row 7 has 40 parcels; {fact(turn)} is on top.")
    return history


async def the_conversation_keeps_within_its_budget(sdk: Sdk, turns: int) -> None:
    memory = onlooker.open_memory(":memory:", budget=3_000)
    with LocalProvider(answered) as provider:
        async with proxied(provider, memory) as http:
            history = await converse(sdk, turns, http, provider)
            whole = len(json.dumps(history))
            sizes = [len(prompt_of(r)) for r in provider.received]
            assert max(sizes) < 18_000
            assert sizes[-1] < whole
            # The fact of turn 3 is in front of the model to the end, as a note, or recalled.
            await converse_on(sdk, history, http)
            assert fact(3) in prompt_of(provider.received[-1])
            # One session, and what the client has is what is recorded.
            (session,) = await memory.sessions()
            key = session.progress.session
            recorded = await memory.session(key.key, owner=key.owner).messages(archived=True)
            said = [m.text for m in recorded if m.role == "user"]
            assert said[:turns] == [question(n)["content"] for n in range(turns)]
            assert len([m for m in recorded if m.role == "assistant"]) == len(provider.received)
            # Between two changes of the notes, a prompt begins with all of the one before it but its end.
            pairs = [(prefix_of(sdk, a), prefix_of(sdk, b)) for a, b in pairwise(provider.received)]
            same = [(one, two) for one, two in pairs if one[0] == two[0]]
            assert len(same) > 0.6 * len(pairs)
            for (_, one), (_, two) in same:
                assert two[: len(one)] == one


def prefix_of(sdk: Sdk, received: Received) -> tuple[Any, list[Any]]:
    """What a prompt says of the past, and its messages without what changes with each turn, at the end."""
    sent: list[Any] = received.body["input" if sdk == "responses" else "messages"]
    system: list[Any] | str = received.body.get("system", "")
    if sdk == "messages":
        *before, last = sent
        blocks: list[Any] = last["content"] if isinstance(last["content"], list) else []
        if blocks and str(blocks[-1].get("text")).startswith("[system] "):
            text = blocks[0]["text"] if len(blocks) == 2 and blocks[0]["type"] == "text" else None
            last = {**last, "content": text or blocks[:-1]}
        memory: list[Any] = [block["text"] for block in system[1:]] if isinstance(system, list) else []
        return memory, [*before, last]
    injected = ("system", "developer")
    memory = [sent[0]] if sent[0].get("role") in injected else []
    return memory, [m for m in sent if m.get("role") not in injected]


async def converse_on(sdk: Sdk, history: list[Any], http: httpx2.AsyncClient) -> None:
    asked = {"role": "user", "content": f"Where did parcel {fact(3)} go, and who signed for it?"}
    await asking(sdk, http)([*history, asked], False)


@pytest.mark.parametrize("sdk", first(SDKS))
async def test_a_long_conversation_with_tools_streams_and_restarts_keeps_its_facts(sdk: Sdk) -> None:
    await the_conversation_keeps_within_its_budget(sdk, 36)


@pytest.mark.long
@pytest.mark.parametrize("sdk", SDKS)
async def test_two_hundred_turns_keep_their_facts(sdk: Sdk) -> None:
    await the_conversation_keeps_within_its_budget(sdk, 200)


# -- One request

HELLO: dict[Sdk, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hello there, depot."}]},
    "responses": {"model": "m", "input": "Hello there, depot."},
    "messages": {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hello there, depot."}],
    },
}


@pytest.mark.parametrize("sdk", SDKS)
async def test_the_first_request_goes_out_as_it_came_with_the_clients_key(sdk: Sdk) -> None:
    with LocalProvider(Answer("Good day.")) as provider:
        async with proxied(provider) as http:
            sent = HELLO[sdk] | {"x_unknown": {"a": 1}}
            headers = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "x-onlooker-session": "s1"}
            answer = await http.post(PATHS[sdk] + "?beta=true", json=sent, headers=headers)
            assert answer.status_code == 200
            (received,) = provider.received
            wanted = (
                sent if sdk != "responses" else sent | {"input": [{"role": "user", "content": sent["input"]}]}
            )
            assert received.body == wanted
            assert received.path.endswith("?beta=true")
            assert received.headers["authorization"] == f"Bearer {KEY}"
            assert not [h for h in received.headers if h.startswith("x-onlooker")]
            assert answer.headers["x-onlooker-session"] == "s1"
            assert answer.headers["x-onlooker-memory"] == "on"
            messages = (await http.get("/v1/sessions/s1/messages")).json()["messages"]
            assert [m["text"] for m in messages] == ["Hello there, depot.", "Good day."]
            exported = (await http.get("/v1/export")).text
            assert KEY not in exported


IMAGE = "data:image/png;base64,iVBORw0KGgo="
# What a client sends last: an image, thinking, a call and its result, fields that nobody knows.
TAILS: dict[Sdk, list[Any]] = {
    "chat": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is on this label?"},
                {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "The label is small.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"row":  7}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Row 7 is full.", "x_unknown": 1},
    ],
    "responses": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is on this label?"},
                {"type": "input_image", "image_url": IMAGE, "detail": "low"},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"row":  7}', "id": "fc_1"},
        {"type": "function_call_output", "call_id": "c1", "output": "Row 7 is full.", "x_unknown": 1},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is on this label?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "The label is small.", "signature": "c2ln"},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"row": 7}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "Row 7 is full."},
                {"type": "text", "text": "And now?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ],
}


@pytest.mark.parametrize("sdk", SDKS)
async def test_images_thinking_and_unknown_fields_go_out_as_they_came_behind_memory(sdk: Sdk) -> None:
    talk: list[Any] = [
        m for n in range(120) for m in (question(n), {"role": "assistant", "content": "Noted."})
    ]
    memory = onlooker.open_memory(":memory:", budget=4_000)
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        async with proxied(provider, memory) as http:
            field = "input" if sdk == "responses" else "messages"
            body: dict[str, Any] = {**HELLO[sdk], field: [*talk, *TAILS[sdk]], "x_unknown": {"a": [1]}}
            if sdk == "messages":
                body["system"] = [{"type": "text", "text": "Hi.", "cache_control": {"type": "ephemeral"}}]
            answer = await http.post(PATHS[sdk], json=body, headers={"x-onlooker-session": "a"})
            assert answer.headers["x-onlooker-memory"] == "on"
            received = provider.received[-1]
            sent = received.body[field]
            check(sdk, received)
            assert received.body["x_unknown"] == {"a": [1]}
            assert len(sent) < len(talk)
            first = sent.index(TAILS[sdk][0])
            for given, went in zip(TAILS[sdk], sent[first:], strict=False):
                # Anthropic's last message may have what is recalled at its end.
                blocks = given["content"] if sdk == "messages" else None
                assert went == given or went == {**given, "content": [*(blocks or ()), went["content"][-1]]}
            assert 0 < int(answer.headers["x-onlooker-tokens-in"]) <= 4_000
            saved = int(answer.headers["x-onlooker-tokens-saved"])
            assert 0.3 < saved / (len(json.dumps(talk)) / 4) < 1.5
            if sdk == "messages":
                # Memory is in blocks of its own, with as many breakpoints as the client left of four.
                system = received.body["system"]
                assert system[0] == body["system"][0]
                assert system[-1]["cache_control"] == {"type": "ephemeral"}
                assert str(received.body).count("cache_control") <= 4


MARK = {"cache_control": {"type": "ephemeral"}}


def in_blocks(role: str, text: str, *, marked: bool = False) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} | (MARK if marked else {})]}


@pytest.mark.parametrize("header", [{"x-onlooker-session": "a"}, {}])
async def test_marks_of_a_cache_that_move_along_change_nothing(header: dict[str, str]) -> None:
    """Agents mark their newest messages for the provider's cache, and unmark them with the next request."""
    memory = onlooker.open_memory(":memory:", budget=4_000)
    said = list[tuple[str, str]]()
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        async with proxied(provider, memory) as http:
            keys = set[str]()
            for n in range(12):
                said.append(("user", f"Parcel ZQ{n:05}K is in hall {n}."))
                last = len(said) - 1
                messages = [
                    in_blocks(role, text, marked=i in (last, last - 2)) for i, (role, text) in enumerate(said)
                ]
                answer = await http.post(
                    PATHS["messages"], json={**HELLO["messages"], "messages": messages}, headers=header
                )
                assert answer.headers["x-onlooker-memory"] == "on"
                keys.add(answer.headers["x-onlooker-session"])
                check("messages", provider.received[-1])
                said.append(("assistant", "Good day."))
            (key,) = keys
            recorded = await memory.store.messages(memory.session(key).id)
            assert [(m.role, m.text) for m in recorded] == said
            assert not await memory.store.retired(memory.session(key).id)


async def test_marks_of_messages_that_are_not_sent_take_no_breakpoint_from_memory() -> None:
    memory = onlooker.open_memory(":memory:", budget=4_000)
    talk = [m for n in range(120) for m in (question(n), {"role": "assistant", "content": "Noted."})]
    marked = [in_blocks("user", f"Row {n}.", marked=True) for n in range(4)]
    noted = [in_blocks("assistant", "Noted.") for _ in range(4)]
    history = [*(m for pair in zip(marked, noted, strict=True) for m in pair), *talk, question(120)]
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        async with proxied(provider, memory) as http:
            body = {**HELLO["messages"], "messages": history}
            answer = await http.post(PATHS["messages"], json=body, headers={"x-onlooker-session": "a"})
            assert answer.headers["x-onlooker-memory"] == "on"
            received = provider.received[-1].body
            assert "Row 0." not in json.dumps(received["messages"])
            assert received["system"][-1]["cache_control"] == {"type": "ephemeral"}
            assert str(received).count("cache_control") <= 4


LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("headers", "body", "key"),
    [
        *(({name: "a-1"}, {"tools": [LOOK]}, "a-1") for name in SESSION_HEADERS),
        ({"x-onlooker-session": "a", "session-id": "b"}, {"user": "c"}, "a"),
        ({}, {"conversation": "conv_1"}, "conv_1"),
        ({}, {"conversation": {"id": "conv_2"}, "user": "c"}, "conv_2"),
        ({}, {"metadata": {"session_id": "m-1"}}, "m-1"),
        ({}, {"metadata": {"user_id": json.dumps({"session_id": "j-1"})}}, "j-1"),
        (
            {},
            {"metadata": {"user_id": "user_x_account__session_0a1b2c3d-0000-4000-8000-000000000000"}},
            "0a1b2c3d-0000-4000-8000-000000000000",
        ),
        ({}, {"user": "ana-7"}, "ana-7"),
    ],
)
async def test_a_session_is_named_in_headers_or_in_the_body(
    headers: dict[str, str], body: dict[str, Any], key: str
) -> None:
    with LocalProvider(Answer("Good day.")) as provider:
        async with proxied(provider) as http:
            answer = await http.post(PATHS["chat"], json=HELLO["chat"] | body, headers=headers)
            assert answer.headers["x-onlooker-session"] == key


async def test_conversations_that_begin_alike_are_kept_apart() -> None:
    with LocalProvider(lambda _: Answer("Good day to you.")) as provider:
        memory = onlooker.open_memory(":memory:")
        async with proxied(provider, memory) as http:

            async def ask(*said: str) -> str:
                messages = [
                    {"role": "assistant" if n % 2 else "user", "content": t} for n, t in enumerate(said)
                ]
                answer = await http.post(PATHS["chat"], json={"model": "m", "messages": messages})
                return answer.headers["x-onlooker-session"]

            hello = ("Hello there.", "Good day to you.")
            one, two = await ask(hello[0]), await ask(hello[0])
            assert one != two
            first = await ask(*hello, "My code is 7718.")
            second = await ask(*hello, "My code is 9924.")
            assert {first, second} == {one, two}
            again = await ask(*hello, "My code is 7718.", "Good day to you.", "What is my code?")
            assert again == first
            sent = prompt_of(provider.received[-1])
            assert "9924" not in sent
            # A client that goes back and says something else begins a conversation of its own.
            other = await ask(*hello, "My code is 5555.")
            assert other not in (first, second)


async def test_a_conversation_is_known_again_by_another_process(tmp_path: Any) -> None:
    hello = [{"role": "user", "content": "Hello there."}, {"role": "assistant", "content": "Good day."}]
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        keys = list[str]()
        for messages in (hello[:1], [*hello, {"role": "user", "content": "It is me again."}]):
            async with proxied(provider, onlooker.open_memory(tmp_path / "a.db")) as http:
                answer = await http.post(PATHS["chat"], json={"model": "m", "messages": messages})
                keys.append(answer.headers["x-onlooker-session"])
        assert keys[0] == keys[1]


async def test_servers_on_one_database_keep_apart_what_begins_alike(tmp_path: Any) -> None:
    db = tmp_path / "a.db"
    with LocalProvider(lambda _: Answer("Good day to you.")) as provider:
        async with (
            proxied(provider, onlooker.open_memory(db)) as one,
            proxied(provider, onlooker.open_memory(db)) as other,
        ):

            async def ask(http: httpx2.AsyncClient, *said: str) -> str:
                messages = [
                    {"role": "assistant" if n % 2 else "user", "content": t} for n, t in enumerate(said)
                ]
                answer = await http.post(PATHS["chat"], json={"model": "m", "messages": messages})
                return answer.headers["x-onlooker-session"]

            hello = ("Hello there.", "Good day to you.")
            began = {await ask(one, hello[0]) for _ in range(4)}
            assert len(began) == 4
            # Two of them go on at the other server. What the first one knows of those is old.
            asked = [(other, 7718), (other, 9924), (one, 5501), (one, 6602)]
            keys = [await ask(http, *hello, f"My code is {code}.") for http, code in asked]
            assert set(keys) == began
            for (http, code), key in zip(asked, keys, strict=True):
                elsewhere = one if http is other else other
                said = (*hello, f"My code is {code}.", "Good day to you.", "What is my code?")
                assert await ask(elsewhere, *said) == key
                sent = prompt_of(provider.received[-1])
                assert [str(c) in sent for _, c in asked] == [c == code for _, c in asked]


async def test_servers_that_are_asked_at_once_keep_apart_what_begins_alike(tmp_path: Any) -> None:
    db = tmp_path / "a.db"
    with LocalProvider(lambda _: Answer("Good day to you.")) as provider:
        one, other = onlooker.open_memory(db), onlooker.open_memory(db)
        async with proxied(provider, one) as here, proxied(provider, other) as there:

            async def ask(http: httpx2.AsyncClient, *said: str) -> str:
                messages = [
                    {"role": "assistant" if n % 2 else "user", "content": t} for n, t in enumerate(said)
                ]
                answer = await http.post(PATHS["chat"], json={"model": "m", "messages": messages})
                assert answer.headers["x-onlooker-memory"] == "on"
                return answer.headers["x-onlooker-session"]

            for n in range(5):
                hello = (f"Hello number {n}.", "Good day to you.")
                began = await ask(here, hello[0])
                await ask(there, "Who knows me?", f"Nobody {n}.", "Good.")  # it reads what there is
                # One goes on where the conversation began, the other with a conversation of its own.
                codes = (f"My code is {n}7718.", f"My code is {n}9924.")
                keys = await asyncio.gather(ask(here, *hello, codes[0]), ask(there, *hello, codes[1]))
                assert began in keys
                assert len(set(keys)) == 2
                for key, code in zip(keys, codes, strict=True):
                    session = one.session(key).id
                    recorded = [m.text for m in await one.store.messages(session)]
                    assert recorded == [*hello, code, "Good day to you."]
                    assert not await one.store.retired(session)


@contextmanager
def locked(db: Path) -> Generator[None]:
    """Nobody can write to the database meanwhile."""
    with closing(sqlite3.connect(db, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def has_come(provider: LocalProvider, requests: int) -> None:
    while provider.count < requests:  # noqa: ASYNC110  it is a thread
        await asyncio.sleep(0.01)


async def test_servers_that_write_at_the_same_moment_keep_apart_what_begins_alike(tmp_path: Path) -> None:
    hello = [*chat("Hello there."), {"role": "assistant", "content": "Good day."}]
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        one, other = onlooker.open_memory(tmp_path / "a.db"), onlooker.open_memory(tmp_path / "a.db")
        async with proxied(provider, one) as here, proxied(provider, other) as there:

            def ask(http: httpx2.AsyncClient, messages: list[Any]) -> asyncio.Future[httpx2.Response]:
                body = {"model": "m", "messages": messages}
                return asyncio.ensure_future(http.post(PATHS["chat"], json=body))

            began = await ask(here, hello[:1])
            await ask(there, [*chat("Who knows me?"), *hello[1:], *chat("Good.")])  # it reads what there is
            codes = [chat(f"My code is {code}.") for code in (7718, 9924)]
            with locked(tmp_path / "a.db"):
                # Both see that the conversation is as the client knows it, and both providers are asked.
                asked = [ask(http, [*hello, *code]) for http, code in zip((here, there), codes, strict=True)]
                await has_come(provider, 4)
            answers = await asyncio.gather(*asked)
            keys = [answer.headers["x-onlooker-session"] for answer in answers]
            assert began.headers["x-onlooker-session"] in keys
            assert len(set(keys)) == 2
            for key, code, http in zip(keys, codes, (there, here), strict=True):
                recorded = [m.text for m in await one.session(key).messages()]
                assert recorded == ["Hello there.", "Good day.", code[0]["content"], "Good day."]
                went_on = await ask(http, [*hello, *code, hello[1], *chat("What is my code?")])
                assert went_on.headers["x-onlooker-session"] == key


async def test_the_provider_reads_a_request_while_it_is_written_to_disk_and_the_client_waits(
    tmp_path: Path,
) -> None:
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        async with proxied(provider, onlooker.open_memory(tmp_path / "a.db")) as http:
            memory: onlooker.Memory = app_of(http).state.memory
            said = chat("Hello there.")
            named = {"x-onlooker-session": "a"}
            await http.post(PATHS["chat"], json={"model": "m", "messages": said}, headers=named)
            said += [{"role": "assistant", "content": "Good day."}, *chat("My code is 7718.")]
            with locked(tmp_path / "a.db"):
                body = {"model": "m", "messages": said}
                asking = asyncio.ensure_future(http.post(PATHS["chat"], json=body, headers=named))
                await has_come(provider, 2)
                assert provider.received[-1].body["messages"] == said
                await asyncio.sleep(0.2)  # the provider answers at once
                assert not asking.done()
                assert [m.text for m in await memory.session("a").messages()] == ["Hello there.", "Good day."]
            answer = await asking
            assert answer.headers["x-onlooker-memory"] == "on"
            recorded = [m.text for m in await memory.session("a").messages()]
            assert recorded == ["Hello there.", "Good day.", "My code is 7718.", "Good day."]


async def test_an_answer_says_so_if_what_was_asked_is_not_on_disk_and_the_next_request_brings_it(
    tmp_path: Path,
) -> None:
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        async with proxied(provider, onlooker.open_memory(tmp_path / "a.db"), memory_deadline=0.5) as http:
            memory: onlooker.Memory = app_of(http).state.memory
            said = chat("Hello there.")

            async def ask() -> str:
                body, named = {"model": "m", "messages": said}, {"x-onlooker-session": "a"}
                answer = await http.post(PATHS["chat"], json=body, headers=named)
                assert answer.json()["choices"][0]["message"]["content"] == "Good day."
                return answer.headers["x-onlooker-memory"]

            async def is_remembered() -> None:
                while await ask() != "on":  # a busy machine may take longer
                    pass
                said.append({"role": "assistant", "content": "Good day."})

            await is_remembered()
            said += chat("My code is 7718.")
            with locked(tmp_path / "a.db"):
                assert await ask() == "failed: it took too long"
            said += [{"role": "assistant", "content": "Good day."}, *chat("And my hall is 12.")]
            await is_remembered()
            recorded = [m.text for m in await memory.session("a").messages()]
            assert recorded == [m["content"] for m in said]


async def test_a_response_continues_the_one_before_it_at_any_server(tmp_path: Any) -> None:
    numbers = iter(range(9))
    db = tmp_path / "a.db"
    with LocalProvider(lambda _: Answer(f"Good day {next(numbers)}.")) as provider:
        async with (
            proxied(provider, onlooker.open_memory(db)) as one,
            proxied(provider, onlooker.open_memory(db)) as other,
        ):
            first = await one.post(PATHS["responses"], json={"model": "m", "input": "My code is 7718."})
            asked = {"model": "m", "input": "What is it?", "previous_response_id": first.json()["id"]}
            for http in (other, one):
                again = await http.post(PATHS["responses"], json=asked)
                assert again.headers["x-onlooker-session"] == first.headers["x-onlooker-session"]
                assert "previous_response_id" not in provider.received[-1].body
                assert "7718" in prompt_of(provider.received[-1])
                asked["previous_response_id"] = again.json()["id"]
            unknown = await one.post(PATHS["responses"], json=asked | {"previous_response_id": "resp_other"})
            assert unknown.headers["x-onlooker-memory"].startswith("off")
            assert provider.received[-1].body["previous_response_id"] == "resp_other"
            ana = {"x-onlooker-owner": "ana"}
            hers = await one.post(PATHS["responses"], json=asked, headers=ana)
            assert hers.headers["x-onlooker-memory"].startswith("off")


async def test_what_an_agent_injects_is_passed_on_and_not_remembered() -> None:
    reminder = "<system-reminder>\nProject rules: use tabs.\n</system-reminder>"
    environment = "<environment_context>\n<cwd>/srv/app</cwd>\n</environment_context>"
    with LocalProvider(lambda _: Answer("Done, the file is written and the tests pass.")) as provider:
        memory = onlooker.open_memory(":memory:", budget=1_000)
        async with proxied(provider, memory) as http:
            history: list[Any] = [
                {"role": "user", "content": environment},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": reminder},
                        {"type": "text", "text": "Fix the build of hall 7."},
                    ],
                },
            ]
            for turn in range(40):
                body = {"model": "m", "max_tokens": 9, "system": "You code.", "messages": history}
                answer = await http.post(PATHS["messages"], json=body, headers={"x-session-id": "cc"})
                history.append({"role": "assistant", "content": answer.json()["content"]})
                text = question(turn)["content"] + (
                    "\n" + reminder.replace("tabs", "spaces") if turn == 39 else ""
                )
                history.append({"role": "user", "content": text})
            body = {"model": "m", "max_tokens": 9, "system": "You code.", "messages": history}
            await http.post(PATHS["messages"], json=body, headers={"x-session-id": "cc"})
            sent = provider.received[-1].body["messages"]
            assert len(sent) < 30
            # What was said before anything else stays in front, and what came last goes out as it came.
            assert sent[0]["content"] == environment
            assert "use tabs" in str(sent[1])
            assert "use spaces" in str(sent[-1])
            recorded = await memory.session("cc").messages(archived=True)
            assert [m.text for m in recorded if "use " in m.text or "/srv/app" in m.text] == []
            assert recorded[0].text == "Fix the build of hall 7."


async def test_what_an_agent_asks_for_itself_is_passed_on_and_not_remembered() -> None:
    headers = {"x-claude-code-session-id": "cc"}
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        memory = onlooker.open_memory(":memory:")
        async with proxied(provider, memory) as http:
            title = {"role": "user", "content": "Write a title for: Fix the build of hall 7."}
            asked = {"role": "user", "content": "Fix the build of hall 7."}
            answered = {"role": "assistant", "content": "Good day."}
            more = {"role": "user", "content": "Summarize this conversation."}
            started = {"x-claude-code-agent-id": "a50"}
            for messages, own, agent in (
                ([title], {}, {}),
                ([asked], {"tools": tools}, {}),
                ([asked, answered, more], {}, {}),
                # Agents that it starts have tools, and its session.
                ([{"role": "user", "content": "Count the parcels."}], {"tools": tools}, started),
                ([{"role": "user", "content": "Review."}], {"tools": tools}, {"x-openai-subagent": "review"}),
            ):
                body = {"model": "m", "max_tokens": 9, "messages": messages, **own}
                answer = await http.post(PATHS["messages"], json=body, headers={**headers, **agent})
                is_on = bool(own) and not agent
                assert answer.headers["x-onlooker-memory"].partition(":")[0] == ("on" if is_on else "off")
                assert provider.received[-1].body["messages"] == messages
            recorded = await memory.session("cc").messages()
            assert [m.text for m in recorded] == ["Fix the build of hall 7.", "Good day."]


async def test_when_memory_fails_the_request_goes_through_unchanged() -> None:
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        async with proxied(provider) as http:
            store = app_of(http).state.memory.store
            await store.close()
            answer = await http.post(PATHS["chat"], json=HELLO["chat"])
            await store.open()
            assert answer.json()["choices"][0]["message"]["content"] == "Good day."
            assert answer.headers["x-onlooker-memory"].startswith("failed: ")
            assert provider.received[-1].body == HELLO["chat"]


async def test_when_memory_takes_too_long_the_request_goes_through_unchanged() -> None:
    with LocalProvider(Answer("Good day.")) as provider:
        async with proxied(provider, memory_deadline=1e-9) as http:
            answer = await http.post(PATHS["chat"], json=HELLO["chat"], headers={"x-onlooker-session": "a"})
            assert answer.json()["choices"][0]["message"]["content"] == "Good day."
            assert answer.headers["x-onlooker-memory"] == "failed: it took too long"
            assert provider.received[-1].body == HELLO["chat"]


@pytest.mark.parametrize("sdk", SDKS)
async def test_what_a_provider_refuses_is_passed_on(sdk: Sdk) -> None:
    with LocalProvider(Answer(status=429, retry_after="7"), Answer("Good day.")) as provider:
        async with proxied(provider) as http:
            refused = await http.post(PATHS[sdk], json=HELLO[sdk], headers={"x-onlooker-session": "a"})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
            assert refused.json()["error"]["type"] == "rate_limit_error"
            await http.post(PATHS[sdk], json=HELLO[sdk], headers={"x-onlooker-session": "a"})
            messages = (await http.get("/v1/sessions/a/messages")).json()["messages"]
            assert [m["text"] for m in messages] == ["Hello there, depot.", "Good day."]
        provider.stop()
        async with proxied(provider) as http:
            down = await http.post(PATHS[sdk], json=HELLO[sdk])
            assert down.status_code == 502
            assert "cannot be reached" in down.json()["error"]["message"]


async def test_redirects_are_not_followed_and_no_key_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    asked = list[bytes]()

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 307 Moved\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    caplog.set_level(logging.DEBUG)
    headers = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "x-onlooker-session": "a"}
    async with await asyncio.start_server(redirect, "127.0.0.1", 0) as provider:
        url = f"http://127.0.0.1:{provider.sockets[0].getsockname()[1]}"
        async with serving(config=ServerConfig(upstreams=(Upstream("openai", url, "openai"),))) as http:
            answer = await http.post(PATHS["chat"], json=HELLO["chat"], headers=headers)
            assert (answer.status_code, answer.headers["location"]) == (307, "/elsewhere")
            assert len(asked) == 1
            provider.close()
            down = await http.post(PATHS["chat"], json=HELLO["chat"], headers=headers)
            assert down.status_code == 502
            await app_of(http).state.memory.store.close()
            failed = await http.post(PATHS["chat"], json=HELLO["chat"], headers=headers)
            assert failed.headers["x-onlooker-memory"].startswith("failed")
            await app_of(http).state.memory.store.open()
    assert "without memory" in caplog.text
    assert KEY not in caplog.text


async def test_a_password_in_an_upstreams_address_is_sent_to_it_and_shown_to_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    sent = {"authorization": f"Bearer {KEY}", "x-onlooker-session": "a"}
    with LocalProvider(Answer("Good day.")) as provider:
        address = provider.url
        url = address.replace("://", "://ana:open%2Fs3same-9@")
        known = ServerConfig(upstreams=(Upstream("openai", f"{url}/v1/", "openai"),))
        async with serving(config=known) as http:
            answer = await http.post(PATHS["chat"], json=HELLO["chat"], headers=sent)
            assert answer.status_code == 200
            login = base64.b64encode(b"ana:open/s3same-9").decode()
            assert provider.received[0].headers["authorization"] == f"Basic {login}"
            provider.stop()
            down = await http.post(PATHS["chat"], json=HELLO["chat"], headers=sent)
            assert f"openai at {address}/v1 cannot be reached" in down.json()["error"]["message"]
            shown = [(await http.get(path)).text for path in ("/v1/settings", "/metrics", "/readyz", "/")]
    for text in (repr(known), down.text, str(down.headers), caplog.text, *shown):
        assert "s3same" not in text
        assert login not in text


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_slow_provider_is_waited_for_and_holds_up_nobody_else(sdk: Sdk) -> None:
    go_on = threading.Event()

    def answer(received: Received) -> Answer:
        if received.headers.get("x-pace") == "slow":
            assert go_on.wait(60)
        return Answer("Good day.")

    with LocalProvider(answer) as provider:
        async with proxied(provider) as http:
            headers = {"x-onlooker-session": "a", "x-pace": "slow"}
            slow = asyncio.create_task(http.post(PATHS[sdk], json=HELLO[sdk], headers=headers))
            quick = await http.post(PATHS[sdk], json=HELLO[sdk], headers={"x-onlooker-session": "b"})
            assert quick.status_code == 200
            assert not slow.done()
            # A client that waits no longer sees its own timeout, and what it said is recorded once.
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await http.post(
                        PATHS[sdk], json=HELLO[sdk], headers={**headers, "x-onlooker-session": "c"}
                    )
            go_on.set()
            assert (await slow).status_code == 200
            messages = (await http.get("/v1/sessions/a/messages")).json()["messages"]
            assert [m["text"] for m in messages] == ["Hello there, depot.", "Good day."]
            again = await http.post(PATHS[sdk], json=HELLO[sdk], headers={"x-onlooker-session": "c"})
            assert again.status_code == 200
            messages = (await http.get("/v1/sessions/c/messages")).json()["messages"]
            assert [m["text"] for m in messages] == ["Hello there, depot.", "Good day."]


async def test_a_model_name_chooses_the_provider_and_other_addresses_pass() -> None:
    with LocalProvider(lambda _: Answer("One.")) as one, LocalProvider(lambda _: Answer("Two.")) as two:
        upstreams = (
            Upstream("openai", one.url + "/v1", "openai"),
            Upstream("own", two.url, "openai", ("llama*",)),
        )
        async with serving(config=ServerConfig(upstreams=upstreams)) as http:
            for path, model, wanted in (
                ("openai", "gpt", "One."),
                ("openai", "llama3", "Two."),
                ("own", "x", "Two."),
            ):
                answer = await http.post(
                    f"/{path}/v1/chat/completions", json=HELLO["chat"] | {"model": model}
                )
                assert answer.json()["choices"][0]["message"]["content"] == wanted
            embedded = await http.post("/openai/v1/embeddings", json={"model": "e", "input": ["a"]})
            assert len(embedded.json()["data"]) == 1
            assert embedded.headers["x-onlooker-memory"] == "off"
            assert (await http.post("/elsewhere/v1/chat/completions", json=HELLO["chat"])).status_code == 404


async def test_an_owner_cannot_reach_anothers_session_through_the_proxy() -> None:
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        upstreams = (Upstream("openai", provider.url, "openai"),)
        async with serving(config=ServerConfig(host="0.0.0.0", upstreams=upstreams)) as http:
            tokens = app_of(http).state.tokens
            for owner in ("ana", "ben"):
                token, _ = await tokens.make(owner)
                said = {
                    "model": "m",
                    "messages": [{"role": "user", "content": f"I am {owner}, and my code is {owner}77."}],
                }
                headers = {"x-onlooker-token": token, "x-onlooker-session": "same"}
                await http.post(PATHS["chat"], json=said, headers=headers)
                headers["x-onlooker-owner"] = "ana"
                status = (await http.post(PATHS["chat"], json=said, headers=headers)).status_code
                assert status == (200 if owner == "ana" else 404)
            assert "ana77" not in prompt_of(provider.received[-1])
            assert (await http.post(PATHS["chat"], json=HELLO["chat"])).status_code == 401


async def test_our_own_tokens_and_cookies_do_not_reach_a_provider() -> None:
    with LocalProvider(lambda _: Answer("Good day.")) as provider:
        upstreams = (Upstream("openai", provider.url, "openai"),)
        async with serving(config=ServerConfig(host="0.0.0.0", upstreams=upstreams)) as http:
            token, _ = await app_of(http).state.tokens.make("ana")
            # Where the provider wants no key, as Ollama, an SDK has this one.
            ours = {"authorization": f"Bearer {token}", "cookie": f"{COOKIE}={token}"}
            theirs = {"x-onlooker-token": token, "authorization": f"Bearer {KEY}", "cookie": "theirs=1"}
            for headers in (ours, theirs):
                answer = await http.post(PATHS["chat"], json=HELLO["chat"], headers=headers)
                assert answer.status_code == 200
    first, second = (received.headers for received in provider.received)
    assert token not in str(first)
    assert (second["authorization"], second["cookie"]) == (f"Bearer {KEY}", "theirs=1")
    assert token not in str(second)
