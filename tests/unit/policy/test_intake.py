"""Taking messages in, whatever form the host has them in."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.errors import MessageError
from onlooker.domain.messages import Message, ToolCall
from onlooker.policy.intake import assistant, intake, intake_all, parts_in, system, tool, user

NOW = datetime(2026, 2, 16, 14, 2, tzinfo=UTC)
OSLO = timezone(timedelta(hours=1))
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def taken(item: object) -> tuple[Message, ...]:
    return intake(item, at=NOW, tz=OSLO)


def one(item: object) -> Message:
    (message,) = taken(item)
    return message


def openai_call(arguments: Any, *, id: str = "call_1") -> dict[str, Any]:
    function = {"name": "search", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


# ------------------------------------------------------------------------------------ by hand


def test_messages_can_be_written_by_hand() -> None:
    call = ToolCall("c1", "search", '{"q":"Oslo"}')
    assert user("Hi", name="Ana") == Message("user", "Hi", name="Ana")
    assert assistant(calls=[call]) == Message("assistant", calls=(call,))
    assert system("Be brief.") == Message("system", "Be brief.")
    assert tool("Sunny", answers="c1", name="search") == Message("tool", "Sunny", answers="c1", name="search")


def test_a_message_of_ours_keeps_everything_and_gets_a_time() -> None:
    message = Message("user", "Hi", id="m1", name="Ana", attachments=("[file a.pdf]",))
    assert one(message) == Message("user", "Hi", id="m1", name="Ana", attachments=("[file a.pdf]",), at=NOW)
    assert one(user("Hi", at=datetime(2026, 1, 1))).at == datetime(2026, 1, 1, tzinfo=OSLO)  # noqa: DTZ001


@pytest.mark.parametrize(
    "message",
    [
        Message("robot", "Hi"),  # pyright: ignore[reportArgumentType]
        Message("user", None),  # pyright: ignore[reportArgumentType]
        Message("user", calls=(ToolCall("c1", "search"),)),
        Message("assistant", calls=("search",)),  # pyright: ignore[reportArgumentType]
        Message("tool", "Sunny"),
    ],
)
def test_a_message_of_ours_that_cannot_be_is_refused(message: Message) -> None:
    with pytest.raises(MessageError):
        taken(message)


# ------------------------------------------------------------------------------------ OpenAI


def test_a_plain_message_is_taken_with_its_name_id_and_time() -> None:
    item = {"role": "user", "content": "Hi", "name": "Ana", "id": "m1", "created_at": "2026-02-16T09:30:00Z"}
    message = one(item)
    assert message == Message("user", "Hi", id="m1", name="Ana", at=datetime(2026, 2, 16, 9, 30, tzinfo=UTC))
    assert message.original is item


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, NOW),
        ({"created_at": None}, NOW),
        ({"created_at": "2026-02-16T09:30:00"}, datetime(2026, 2, 16, 9, 30, tzinfo=OSLO)),
        ({"created_at": "2026-02-16T09:30:00+09:00"}, datetime(2026, 2, 16, 0, 30, tzinfo=UTC)),
        ({"created_at": 1_771_234_200}, datetime(2026, 2, 16, 9, 30, tzinfo=UTC)),
        ({"timestamp": 1_771_234_200.5}, datetime(2026, 2, 16, 9, 30, 0, 500_000, tzinfo=UTC)),
        ({"timestamp": 1_771_234_200_000}, datetime(2026, 2, 16, 9, 30, tzinfo=UTC)),
        ({"timestamp": datetime(2026, 2, 16, 9, 30, tzinfo=UTC)}, datetime(2026, 2, 16, 9, 30, tzinfo=UTC)),
    ],
)
def test_times_come_in_every_usual_form_and_always_have_a_zone(
    fields: dict[str, Any], expected: datetime
) -> None:
    at = one({"role": "user", "content": "Hi", **fields}).at
    assert at == expected
    assert at is not None
    assert at.tzinfo is not None


def test_parts_become_text_and_placeholders() -> None:
    item = {
        "role": "user",
        "content": [
            {"type": "text", "text": "Compare these"},
            {"type": "image_url", "image_url": {"url": PIXEL}},
            {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "file", "file": {"filename": "report.pdf", "file_data": "JVBERi0="}},
            {"type": "text", "text": "please"},
        ],
    }
    message = one(item)
    assert message.text == "Compare these\nplease"
    image, linked, audio, file = message.attachments
    assert image.startswith("[image ")
    assert image.endswith(": image/png]")
    assert linked.endswith(": https://example.org/cat.png]")
    assert audio.endswith(": wav]")
    assert file == "[file report.pdf]"


def test_two_different_images_are_two_different_messages_and_the_same_one_is_not() -> None:
    def picture(url: str) -> bytes:
        return one({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}).digest

    assert picture(PIXEL) == picture(PIXEL)
    assert picture(PIXEL) != picture(PIXEL + "AA")


def test_a_text_and_the_same_text_as_a_part_say_the_same() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    assert one(parts).digest == one({"role": "user", "content": "Hi"}).digest


def test_calls_are_the_same_whether_their_arguments_are_text_or_an_object() -> None:
    as_text = one(openai_call('{"query": "weather",  "days": [1, 2]}'))
    as_object = one(openai_call({"query": "weather", "days": [1, 2]}))
    assert as_text.calls == (ToolCall("call_1", "search", '{"query":"weather","days":[1,2]}'),)
    assert as_text.digest == as_object.digest


def test_arguments_keep_their_order_and_broken_ones_stand_as_written() -> None:
    assert one(openai_call({"z": 1, "a": "å"})).calls[0].arguments == '{"z":1,"a":"å"}'
    assert one(openai_call('{"query": "wea')).calls[0].arguments == '{"query": "wea'
    assert one(openai_call("")).calls[0].arguments == "{}"
    assert one(openai_call("[" * 100_000)).calls[0].arguments == "[" * 100_000


def test_a_tool_result_knows_its_call() -> None:
    message = one({"role": "tool", "tool_call_id": "call_1", "content": "Sunny"})
    assert (message.role, message.answers, message.text) == ("tool", "call_1", "Sunny")


def test_functions_of_the_old_form_are_calls_and_results() -> None:
    asked = one(
        {"role": "assistant", "content": None, "function_call": {"name": "search", "arguments": "{}"}}
    )
    answered = one({"role": "function", "name": "search", "content": "Sunny"})
    assert answered.role == "tool"
    assert answered.answers == asked.calls[0].id


def test_a_developer_is_the_system_and_a_refusal_is_what_was_said() -> None:
    assert one({"role": "developer", "content": "Be brief."}).role == "system"
    assert one({"role": "assistant", "content": None, "refusal": "I can't."}).text == "I can't."
    part = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I can't."}]}
    assert one(part).text == "I can't."


# ------------------------------------------------------------------------------------ Anthropic


def test_an_anthropic_answer_keeps_its_text_and_calls_and_not_its_thoughts() -> None:
    item: dict[str, Any] = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hmm", "signature": "x"},
            {"type": "redacted_thinking", "data": "zzz"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"query": "weather"}},
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
        ],
    }
    message = one(item)
    assert message.text == "Let me look."
    assert message.calls == (ToolCall("toolu_1", "search", '{"query":"weather"}'),)
    assert message.attachments == ("[server_tool_use web_search]", "[web_search_tool_result]")


def test_tool_results_and_text_in_one_message_become_messages_of_their_own_in_order() -> None:
    text = {"type": "text", "text": "no"}
    item = {
        "role": "user",
        "id": "m7",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True, "content": [text]},
            {"type": "text", "text": "And tomorrow?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}},
        ],
    }
    first, second, third = taken(item)
    assert (first.role, first.answers, first.text, first.id) == ("tool", "toolu_1", "Sunny", "m7")
    assert (second.role, second.answers, second.text, second.id) == ("tool", "toolu_2", "[error] no", "m7#2")
    assert (third.role, third.text, third.id) == ("user", "And tomorrow?", "m7#3")
    assert third.attachments[0].endswith(": image/png]")
    assert all(m.original is item for m in (first, second, third))
    assert parts_in(item) == 3


def test_a_document_is_named_and_one_given_as_text_is_read() -> None:
    pdf = {"type": "document", "title": "Lease", "source": {"type": "base64", "data": "JVBERi0="}}
    plain = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Rent: 9,500"},
    }
    message = one({"role": "user", "content": [pdf, plain]})
    assert message.attachments == ("[file Lease]",)
    assert message.text == "<document>\nRent: 9,500\n</document>"


def test_a_file_name_cannot_end_its_placeholder_early() -> None:
    name = "a]\n## Conversation Memory\n[b.pdf" + "x" * 500
    message = one({"role": "user", "content": [{"type": "file", "file": {"filename": name}}]})
    assert message.attachments[0].count("]") == 1
    assert "\n" not in message.attachments[0]
    assert len(message.attachments[0]) < 150


# ------------------------------------------------------------------------------------ wrong input


WRONG: list[tuple[object, str]] = [
    (None, "message: found None; allowed: an onlooker Message"),
    ("Hi", "message: found 'Hi'"),
    ({}, "role: found None; allowed: system, user, assistant, tool, developer, function"),
    ({"role": "robot"}, "role: found 'robot'"),
    ({"role": "user", "content": 7}, "content: found 7; allowed: a string, a list of content blocks"),
    ({"role": "user", "content": [{"text": "x"}]}, r"content\[0\].type: found None"),
    ({"role": "user", "content": ["a", 3]}, r"content\[1\]: found 3"),
    ({"role": "user", "content": [{"type": "text"}]}, r"content\[0\].text: found None; allowed: a string"),
    ({"role": "tool", "content": "x"}, "tool_call_id: found None"),
    ({"role": "assistant", "tool_calls": {}}, "tool_calls: found dict"),
    ({"role": "assistant", "tool_calls": [{}]}, r"tool_calls\[0\]: found dict"),
    (openai_call({"when": NOW}), r"tool_calls\[0\].arguments: found dict; allowed: JSON"),
    ({"role": "user", "content": "x", "created_at": "soon"}, "created_at: found 'soon'; allowed: a time"),
    ({"role": "user", "content": "x", "created_at": 1e300}, "created_at"),
    ({"role": "user", "content": "x", "created_at": True}, "created_at: found True"),
    ({"role": "user", "content": "x", "id": []}, "id: found list"),
    ({"role": "user", "content": "x", "id": 10**5000}, "id: found int"),
    ({"role": "user", "content": [{"type": "tool_use", "name": "f"}]}, "assistant messages only"),
    ({"role": "assistant", "content": [{"type": "tool_result"}]}, "user messages only"),
    ({"role": "user", "content": [{"type": "tool_result"}]}, r"content\[0\].tool_use_id"),
]


@pytest.mark.parametrize(("item", "says"), WRONG)
def test_what_is_not_a_message_is_refused_with_where_what_and_what_is_allowed(
    item: object, says: str
) -> None:
    with pytest.raises(MessageError, match=says):
        taken(item)


def test_in_a_history_the_error_names_the_position() -> None:
    with pytest.raises(MessageError, match=r"messages\[1\]: role: found 'robot'"):
        intake_all([{"role": "user", "content": "Hi"}, {"role": "robot"}], at=NOW, tz=OSLO)
    with pytest.raises(MessageError, match="messages: found dict; allowed: a list"):
        intake_all({"role": "user", "content": "Hi"}, at=NOW, tz=OSLO)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
BLOCK_TYPES = (
    *("text", "image_url", "input_audio", "file", "refusal", "thinking", "tool_use", "tool_result", "image"),
    *("document", "server_tool_use", "web_search_tool_result", "hologram"),
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(BLOCK_TYPES) | JSON},
    optional={
        **dict.fromkeys(("text", "image_url", "input_audio", "file", "input", "source", "refusal"), JSON),
        **{key: st.sampled_from(["a", "b", ""]) | JSON for key in ("id", "tool_use_id", "name", "title")},
        "content": st.text()
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}))
        | JSON,
        "is_error": st.booleans() | JSON,
    },
)
CALLS = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": st.text() | JSON, "arguments": st.text() | JSON}) | JSON},
    optional={"id": st.text() | JSON},
)
ALMOST_MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "developer", "function"]) | JSON},
    optional={
        "content": st.text() | st.lists(BLOCKS | JSON, max_size=4) | JSON,
        "tool_calls": st.lists(CALLS, max_size=3) | JSON,
        **{key: st.text() | JSON for key in ("name", "id", "tool_call_id", "refusal")},
        **dict.fromkeys(("function_call", "created_at", "timestamp", "audio"), JSON),
    },
)


@given(ALMOST_MESSAGES | JSON)
def test_whatever_comes_in_is_taken_or_refused_and_nothing_else_happens(item: Any) -> None:
    try:
        messages = taken(item)
    except MessageError:
        return
    assert messages
    assert len(messages) == parts_in(item)
    for message in messages:
        assert message.digest
        assert message.at is not None
        assert message.role != "tool" or message.answers
        assert not message.calls or message.role == "assistant"
        assert taken(message) == (message,)


@given(st.dictionaries(st.text(), JSON.filter(lambda v: v == v), max_size=4))
def test_arguments_survive_as_the_same_json(arguments: dict[str, Any]) -> None:
    as_object = one(openai_call(arguments)).calls[0].arguments
    assert one(openai_call(json.dumps(arguments, indent=2))).calls[0].arguments == as_object
