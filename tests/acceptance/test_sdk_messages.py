"""What the official SDKs return is recorded and prepared as it is, object or dict."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import TextBlock, ToolUseBlock
from anthropic.types import Usage as AnthropicUsage
from openai.types.chat import ChatCompletion, ChatCompletionMessage, ChatCompletionMessageFunctionToolCall
from openai.types.chat.chat_completion_message_function_tool_call import Function
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

import onlooker
from onlooker.domain.messages import Message, ToolCall
from onlooker.errors import MessageError
from onlooker.testing import FrozenClock

pytestmark = pytest.mark.anyio

CALL = ToolCall("call_1", "look_up", '{"city":"Oslo"}')
OTHER = ToolCall("call_2", "look_up", '{"city":"Bergen"}')

CHAT = ChatCompletionMessage(
    role="assistant",
    content="One moment.",
    annotations=[],
    tool_calls=[
        ChatCompletionMessageFunctionToolCall(
            id=call.id, type="function", function=Function(name=call.name, arguments=call.arguments)
        )
        for call in (CALL, OTHER)
    ],
)
ANTHROPIC = AnthropicMessage(
    id="msg_1",
    type="message",
    role="assistant",
    model="claude",
    content=[
        TextBlock(type="text", text="One moment."),
        *(
            ToolUseBlock(type="tool_use", id=call.id, name=call.name, input={"city": city})
            for call, city in ((CALL, "Oslo"), (OTHER, "Bergen"))
        ),
    ],
    stop_reason="tool_use",
    usage=AnthropicUsage(input_tokens=3, output_tokens=5),
)
RESPONSE = [
    ResponseReasoningItem(id="rs_1", type="reasoning", summary=[]),
    ResponseOutputMessage(
        id="msg_1",
        type="message",
        role="assistant",
        status="completed",
        content=[ResponseOutputText(type="output_text", text="One moment.", annotations=[])],
    ),
    *(
        ResponseFunctionToolCall(
            type="function_call",
            id=f"fc_{call.id}",
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
        )
        for call in (CALL, OTHER)
    ),
]


def as_object(value: Any) -> Any:
    return value


def as_dict(value: Any) -> Any:
    items: list[Any] = value
    return [item.to_dict() for item in items] if isinstance(value, list) else value.to_dict()


def content(messages: Any) -> list[tuple[Any, ...]]:
    return [(m.role, m.text, m.calls, m.answers) for m in messages]


@pytest.mark.parametrize("form", [as_object, as_dict])
@pytest.mark.parametrize("reply", [CHAT, ANTHROPIC, RESPONSE], ids=["chat", "anthropic", "responses"])
async def test_an_answer_is_recorded_as_the_sdk_returns_it(reply: Any, form: Callable[[Any], Any]) -> None:
    async with onlooker.open_memory(":memory:", clock=FrozenClock()) as memory:
        recorded = await memory.session("a").record(form(reply))
        assert content(recorded) == [("assistant", "One moment.", (CALL, OTHER), "")]


RESULTS = {
    "chat": [{"role": "tool", "tool_call_id": c, "content": "Sunny"} for c in (CALL.id, OTHER.id)],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": c, "content": "Sunny"} for c in (CALL.id, OTHER.id)
            ],
        }
    ],
    "responses": [
        {"type": "function_call_output", "call_id": c, "output": "Sunny"} for c in (CALL.id, OTHER.id)
    ],
}
REPLIES: dict[str, list[Any]] = {"chat": [CHAT], "anthropic": [ANTHROPIC], "responses": RESPONSE}


@pytest.mark.parametrize("form", [as_object, as_dict])
@pytest.mark.parametrize("sdk", RESULTS)
async def test_a_loop_that_appends_what_came_back_is_prepared(sdk: str, form: Callable[[Any], Any]) -> None:
    async with onlooker.open_memory(":memory:", clock=FrozenClock()) as memory:
        session = memory.session("a")
        history: list[Any] = [{"role": "user", "content": "Weather?"}]
        await session.prepare(history)
        await session.record(form(REPLIES[sdk]))
        history += form(REPLIES[sdk])
        history += RESULTS[sdk]
        context = await session.prepare(history)
        expected = [
            ("user", "Weather?", (), ""),
            ("assistant", "One moment.", (CALL, OTHER), ""),
            ("tool", "Sunny", (), CALL.id),
            ("tool", "Sunny", (), OTHER.id),
        ]
        assert content(await session.messages()) == expected
        sent = context.openai()
        assert [c["id"] for c in sent[1]["tool_calls"]] == [CALL.id, OTHER.id]
        assert [m["tool_call_id"] for m in sent[2:]] == [CALL.id, OTHER.id]
        blocks = context.anthropic()["messages"][1]["content"]
        assert [b["id"] for b in blocks if b["type"] == "tool_use"] == [CALL.id, OTHER.id]
        for message in [*sent, *context.anthropic()["messages"]]:
            assert not {"id", "usage", "status", "stop_reason"} & message.keys()
            assert "annotations" not in message or form is as_dict  # a host's own dict goes out as it came


async def test_blocks_and_calls_may_be_objects_in_a_message_of_the_hosts_own() -> None:
    async with onlooker.open_memory(":memory:", clock=FrozenClock()) as memory:
        for i, item in enumerate(
            (
                {"role": "assistant", "content": ANTHROPIC.content},
                {"role": "assistant", "content": CHAT.content, "tool_calls": CHAT.tool_calls},
            )
        ):
            session = memory.session(f"a{i}")
            context = await session.prepare([{"role": "user", "content": "Weather?"}, item])
            assert content(await session.messages())[1] == ("assistant", "One moment.", (CALL, OTHER), "")
            assert context.openai()
            assert context.anthropic()


async def test_input_of_the_responses_api_goes_out_as_a_chat_message() -> None:
    async with onlooker.open_memory(":memory:", clock=FrozenClock()) as memory:
        given = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is it?"}]},
            {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]},
        ]
        context = await memory.session("a").prepare(given)
        assert [m["content"] for m in context.openai()] == [
            [{"type": "text", "text": "What is it?"}],
            [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}],
        ]


async def test_a_tool_of_the_providers_is_noted_by_its_name() -> None:
    search = ResponseFunctionWebSearch.construct(id="ws_1", type="web_search_call", status="completed")
    async with onlooker.open_memory(":memory:", clock=FrozenClock()) as memory:
        recorded = await memory.session("a").record([search, RESPONSE[1]])
        assert content(recorded) == [("assistant", "[web_search_call]\nOne moment.", (), "")]


async def test_reasoning_alone_is_nothing_said() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        assert not await memory.session("a").record(RESPONSE[0])


async def test_a_wrong_argument_gets_an_error_that_shows_the_right_call() -> None:
    completion = ChatCompletion.construct(id="c", choices=[], created=1, model="m", object="chat.completion")
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("a")
        wrong: list[Any] = ["Hi", b"Hi", 5, None, ["Hi"], [["Hi"]], [[onlooker.user("Hi")]]]
        for argument in wrong:
            with pytest.raises(MessageError, match=r'record\(onlooker.user\("Hi"\)\)'):
                await session.record(argument)
        histories: list[Any] = ["Hi", onlooker.user("Hi"), {"role": "user", "content": "Hi"}, CHAT, 5, None]
        histories += [["Hi"], [[onlooker.user("Hi")]]]
        for history in histories:
            with pytest.raises(MessageError, match=r'prepare\(\[\{"role": "user", "content": "Hi"\}\]\)'):
                await session.prepare(history)
        with pytest.raises(MessageError, match=r"reply\.choices\[0\]\.message"):
            await session.record(completion)
        with pytest.raises(MessageError, match=r"response\.output"):
            await session.record({"id": "r", "object": "response", "output": []})
        assert not await session.messages()
        assert isinstance((await session.record(onlooker.user("Hi")))[0], Message)


# ------------------------------------------------------------------------------------ as they came

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 50}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 50}}
THINKING = {"type": "thinking", "thinking": "I should look it up", "signature": "EqQB"}
LOOKING = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"city": "Oslo"}}
FOUND = {
    "type": "tool_result",
    "tool_use_id": "toolu_1",
    "content": [{"type": "text", "text": "12 °C"}, PICTURE],
}
OPENAI_TURNS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Let me see.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "look_up", "arguments": '{"city": "Oslo"}'},
                "extra_content": {"google": {"thought_signature": "Cg=="}},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "12 °C"},
]
ANTHROPIC_TURNS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, PICTURE]},
    {"role": "assistant", "content": [THINKING, LOOKING]},
    {"role": "user", "content": [FOUND, {"type": "text", "text": "And now?"}]},
]


def sent(context: onlooker.Context, form: str) -> list[Any]:
    """What is sent, without the cache breakpoint at the end of a long conversation."""
    if form == "openai":
        return context.openai()
    messages = copy.deepcopy(context.anthropic()["messages"])
    messages[-1]["content"][-1].pop("cache_control", None)
    return messages


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_images_and_thinking_go_out_as_they_came_from_record(form: str, one_by_one: bool) -> None:
    turns = copy.deepcopy(OPENAI_TURNS if form == "openai" else ANTHROPIC_TURNS)
    async with onlooker.open_memory(":memory:") as memory:
        session, other = memory.session("a"), memory.session("b")
        for some in [[turn] for turn in turns] if one_by_one else [turns]:
            await session.record(some)
        whole = copy.deepcopy(turns)
        turns[0]["content"].clear()  # what the host does with its own list is its own affair
        assert sent(await session.context(), form) == whole
        assert sent(await other.prepare(whole), form) == whole
        await session.delete()
        assert (await session.context()).messages == ()


async def test_originals_beyond_their_bytes_go_out_as_they_are_stored() -> None:
    async with onlooker.open_memory(":memory:", budget=1_000_000) as memory:
        session = memory.session("a")
        for i in range(40):
            image = {
                "type": "image_url",
                "image_url": {"url": f"data:image/png;base64,{i:06}" + "x" * 1_000_000},
            }
            await session.record({"role": "user", "content": [{"type": "text", "text": f"photo {i}"}, image]})
        contents = [m["content"] for m in (await session.context()).openai()]
        whole = [i for i, content in enumerate(contents) if isinstance(content, list)]
        assert len(contents) == 40
        assert 25 < len(whole) < 35
        assert whole == list(range(40 - len(whole), 40))
        assert contents[0].startswith("photo 0\n[image ")


@pytest.mark.parametrize("again", ["same", "new"])
async def test_a_session_that_another_process_deleted_begins_again(tmp_path: Path, again: str) -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": f"Parcel {i} is late."} for i in range(5)]
    async with (
        onlooker.open_memory(tmp_path / "a.db") as ours,
        onlooker.open_memory(tmp_path / "a.db") as theirs,
    ):
        await ours.session("a").prepare(history)
        assert await theirs.session("a").delete()
        more = history if again == "same" else [*history, {"role": "user", "content": "And this one?"}]
        context = await ours.session("a").prepare(more)
        assert [m.text for m in context.messages] == [m["content"] for m in more]
        assert len(await ours.session("a").messages()) == len(more)
