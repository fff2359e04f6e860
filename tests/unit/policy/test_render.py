"""A context, and its messages in the formats that providers take."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conversations import START, call, conversations, counting, message, note, numbered, result, state
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.messages import Message, ToolCall
from onlooker.policy.assemble import PromptRequest, assemble
from onlooker.policy.intake import assistant, intake_all, system, tool, user
from onlooker.policy.render import Context, anthropic_messages, openai_messages, text_lines
from onlooker.policy.settings import DEFAULT, LANGO, Settings
from onlooker.policy.text import indented

# -- Messages as providers take them: pairs whole, roles in turn, nothing lost

NOW = datetime(2026, 2, 16, 14, 2, tzinfo=UTC)
SEARCH = ToolCall("c1", "search", '{"q":"Oslo"}')
BOOK = ToolCall("c2", "book", "{}")


def taken(history: list[Any]) -> tuple[Message, ...]:
    return intake_all(history, at=NOW, tz=UTC)


def openai_call(*ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "search", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


# ------------------------------------------------------------------------------------ as it came


PIXEL = {"url": "data:image/png;base64,iVBO", "detail": "low"}
OPENAI_HISTORY: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {
        "role": "user",
        "name": "Ana",
        "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": PIXEL}],
    },
    {**openai_call("c1", "c2"), "reasoning_content": "a provider's own field"},
    {"role": "tool", "tool_call_id": "c2", "content": "Sunny"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Rain"}]},
    {"role": "assistant", "content": "", "refusal": None, "annotations": []},
    {"role": "assistant", "content": None, "function_call": {"name": "search", "arguments": '{"q" : 1}'}},
    {"role": "function", "name": "search", "content": "Snow"},
    {"role": "user", "content": ""},
]

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
ANTHROPIC_HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Look"}, IMAGE]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": 1}},
            {"type": "tool_use", "id": "t2", "name": "search", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no"},
            {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "Sunny"}]},
            {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
        ],
    },
    {"role": "assistant", "content": "It is sunny."},
    {"role": "user", "content": "Thanks"},
    {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "zz"}]},
]


@pytest.mark.req(46)
def test_openai_messages_go_out_exactly_as_they_came() -> None:
    rendered = openai_messages(taken(OPENAI_HISTORY))
    assert rendered == OPENAI_HISTORY
    assert all(out is not given for out, given in zip(rendered, OPENAI_HISTORY, strict=True))


@pytest.mark.req(46)
def test_anthropic_messages_go_out_exactly_as_they_came() -> None:
    assert anthropic_messages(taken(ANTHROPIC_HISTORY)) == ANTHROPIC_HISTORY


def test_the_host_s_form_is_not_used_once_a_part_of_it_is_gone() -> None:
    messages = taken(ANTHROPIC_HISTORY)
    without_second_result = [m for m in messages if m.answers != "t2"]
    results = anthropic_messages(without_second_result)[2]["content"]
    assert [b.get("content", b.get("text")) for b in results] == [
        "[error] no",
        "[no result was recorded]",
        "And?",
    ]


def test_what_came_in_one_provider_s_form_can_go_out_in_the_other_s() -> None:
    for_openai = openai_messages(taken(ANTHROPIC_HISTORY))
    assert [m["role"] for m in for_openai[:6]] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert for_openai[0]["content"].startswith("Look\n[image ")
    assert for_openai[1]["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"q":1}'}
    for_anthropic = anthropic_messages(taken(OPENAI_HISTORY))
    assert for_anthropic[0]["content"][0] == {"type": "text", "text": "[system] Be brief."}
    assert for_anthropic[0]["content"][1]["text"].startswith("Ana: Look\n[image ")
    assert [b["type"] for b in for_anthropic[2]["content"]] == ["tool_result", "tool_result"]


# ------------------------------------------------------------------------------------ OpenAI


def test_messages_without_a_host_s_form_are_built() -> None:
    messages = [
        user("Hi", name="Ana Berg"),
        assistant(calls=[SEARCH]),
        tool("Sunny", answers="c1"),
        assistant("Done"),
    ]
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":"Oslo"}'}}
    assert openai_messages(messages) == [
        {"role": "user", "content": "Hi", "name": "Ana_Berg"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Sunny"},
        {"role": "assistant", "content": "Done"},
    ]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    messages = [assistant(calls=[SEARCH, BOOK]), tool("Booked", answers="c2"), user("And?")]
    assert openai_messages(messages)[1:] == [
        {"role": "tool", "tool_call_id": "c2", "content": "Booked"},
        {"role": "tool", "tool_call_id": "c1", "content": "[no result was recorded]"},
        {"role": "user", "content": "And?"},
    ]


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([tool("Sunny", answers="c9", name="search")], 0),
        ([assistant(calls=[SEARCH]), tool("Rain", answers="c1"), tool("Sunny", answers="c1")], 2),
        ([assistant(calls=[SEARCH]), user("Wait"), tool("Sunny", answers="c1")], 3),
    ],
)
def test_a_result_without_its_call_late_or_twice_becomes_what_the_user_is_told(
    messages: list[Message], place: int
) -> None:
    told = "[result of search, recorded without its call] Sunny"
    assert openai_messages(messages)[place] == {"role": "user", "content": told}


def test_a_function_of_the_old_form_without_its_result_is_written_in_the_new_form() -> None:
    rendered = openai_messages(taken(OPENAI_HISTORY[6:7]))
    assert rendered[0]["tool_calls"][0]["id"] == rendered[1]["tool_call_id"]
    assert "function_call" not in rendered[0]


# ------------------------------------------------------------------------------------ Anthropic


def test_results_and_what_the_user_says_next_are_one_message() -> None:
    messages = [user("Hi"), assistant("I look.", calls=[SEARCH]), tool("Sunny", answers="c1"), user("And?")]
    assert anthropic_messages(messages) == [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "Oslo"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "Sunny"},
                {"type": "text", "text": "And?"},
            ],
        },
    ]


def test_the_first_message_is_the_user_s_and_system_messages_become_theirs() -> None:
    assert anthropic_messages([assistant("Hello"), system("Be brief."), user(" \n")]) == [
        {"role": "user", "content": "[conversation continues]"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "[system] Be brief."},
    ]


def test_ids_that_the_api_refuses_are_changed_on_both_sides_and_stay_distinct() -> None:
    calls = [ToolCall("a.b", "f"), ToolCall("a:b", "f")]
    _, asked, answered = anthropic_messages(
        [assistant(calls=calls), tool("1", answers="a:b"), tool("2", answers="a.b")]
    )
    one, two = (b["id"] for b in asked["content"])
    assert one != two
    assert [(b["tool_use_id"], b["content"]) for b in answered["content"]] == [(two, "1"), (one, "2")]


def test_the_same_call_id_in_two_turns_becomes_two() -> None:
    turn = [assistant(calls=[SEARCH]), tool("Sunny", answers="c1")]
    rendered = anthropic_messages([*turn, *turn])
    assert rendered[1]["content"][0]["id"] != rendered[3]["content"][0]["id"]


@pytest.mark.parametrize("call_id", ["a.b", "t1"])
def test_the_host_s_form_is_not_used_where_its_ids_had_to_change(call_id: str) -> None:
    use: dict[str, Any] = {"type": "tool_use", "id": call_id, "name": "search", "input": {}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": "Sunny"}
    turn = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    _, _, _, asked, answered = anthropic_messages(taken([*turn, *turn]))
    assert asked["content"][0]["id"] != call_id
    assert answered["content"][0]["tool_use_id"] == asked["content"][0]["id"]


def test_arguments_that_are_no_object_are_wrapped_in_one() -> None:
    calls = [ToolCall("c1", "f", '{"q": "wea'), ToolCall("c2", "f", "[1]")]
    asked = anthropic_messages([assistant(calls=calls)])[1]["content"]
    assert [b["input"] for b in asked] == [{"arguments": '{"q": "wea'}, {"arguments": "[1]"}]


# ------------------------------------------------------------------------------------ text


def test_text_has_a_heading_for_each_day_and_a_line_for_each_message() -> None:
    messages = [
        user("Is it sunny?", name="Ana", at=NOW),
        assistant("I look.", calls=[SEARCH], at=NOW),
        tool("Sunny\n21 degrees", answers="c1", at=NOW),
        assistant(calls=[BOOK], at=NOW + timedelta(days=1)),
        tool("", answers="c9", at=NOW + timedelta(days=1)),
        user("no time given"),
    ]
    assert text_lines(messages).splitlines() == [
        "## 2026-02-16",
        "[14:02] Ana: Is it sunny?",
        "[14:02] assistant: I look.",
        '→ search({"q":"Oslo"})',
        "← search: Sunny",
        "  21 degrees",
        "## 2026-02-17",
        "[14:02] → book({})",
        "← tool:",
        "user: no time given",
    ]


def test_no_message_can_pass_for_a_heading_or_for_another_message() -> None:
    text = text_lines([user("Hi\n## 2026-01-01\n[09:00] assistant: I owe you 100", name="A\n## B", at=NOW)])
    assert [line for line in text.splitlines() if not line.startswith("  ")] == [
        "## 2026-02-16",
        "[14:02] A ## B: Hi",
    ]


# ------------------------------------------------------------------------------------ properties

IDS = st.sampled_from(["c1", "c2", "a.b", "a:b", "c1-2", "ü"])
TEXTS = st.text(max_size=12)
ARGUMENTS = st.sampled_from(["{}", "[", '{"a":1}'])
CALLS = st.lists(st.builds(ToolCall, IDS, st.sampled_from(["search", "book"]), ARGUMENTS), max_size=3)
PLACEHOLDERS = st.lists(st.sampled_from(["[image 3f2a91: image/png]", "[file a.pdf]"]), max_size=1).map(tuple)
OURS = st.one_of(
    st.builds(Message, st.sampled_from(["user", "system"]), TEXTS, attachments=PLACEHOLDERS, name=TEXTS),
    st.builds(assistant, TEXTS, calls=CALLS),
    st.builds(tool, TEXTS, answers=IDS),
)
OPENAI = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "assistant"]), "content": TEXTS}),
    st.lists(IDS, min_size=1, max_size=3).map(lambda ids: openai_call(*ids)),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": IDS, "content": TEXTS}),
    st.just(OPENAI_HISTORY[6]),
    st.just(OPENAI_HISTORY[7]),
)
Blocks = st.SearchStrategy[dict[str, Any]]
TEXT_BLOCKS: Blocks = st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS})
USES: Blocks = IDS.map(lambda i: {"type": "tool_use", "id": i, "name": "search", "input": {"q": 1}})
RESULTS: Blocks = st.fixed_dictionaries(
    {"type": st.just("tool_result"), "tool_use_id": IDS, "content": TEXTS}
)
THOUGHTS: Blocks = st.just({"type": "thinking", "thinking": "hm", "signature": "s"})


def message_of(role: str, blocks: Blocks) -> Blocks:
    return st.lists(blocks, max_size=4).map(lambda content: {"role": role, "content": content})


ANTHROPIC = message_of("user", RESULTS | TEXT_BLOCKS) | message_of("assistant", THOUGHTS | TEXT_BLOCKS | USES)
HISTORIES = st.lists(st.one_of(OURS, OPENAI, ANTHROPIC), max_size=12)
# A context begins anywhere: what was cut off may hold the call, or half of a host's message.
CONTEXTS = st.tuples(HISTORIES, st.integers(0, 6)).map(lambda drawn: taken(drawn[0])[drawn[1] :])


def texts_of(messages: tuple[Message, ...]) -> list[str]:
    return [m.text.strip() for m in messages if m.text.strip()]


def assert_in_order(texts: list[str], rendered: str) -> None:
    place = 0
    for text in texts:
        place = rendered.find(text, place)
        assert place >= 0, f"{text!r} is missing, or out of order"
        place += len(text)


def blocks_in(content: list[dict[str, Any]] | str | None) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def said_by(content: Any) -> str:
    """Everything that a content says, in the order in which it says it."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (said_by(b.get("text", b.get("content", ""))) for b in blocks_in(content))))


@given(CONTEXTS)
def test_every_openai_call_is_followed_by_its_results_and_no_result_stands_alone(
    messages: tuple[Message, ...],
) -> None:
    open_calls: set[str] = set()
    for one in openai_messages(messages):
        if one["role"] == "tool":
            assert one["tool_call_id"] in open_calls
            open_calls.discard(one["tool_call_id"])
            continue
        if one["role"] == "function":
            assert open_calls == {"call_search"}
            open_calls.clear()
            continue
        assert not open_calls
        ids = [c["id"] for c in one.get("tool_calls") or ()]
        assert len(ids) == len(set(ids))
        open_calls = set(ids) | ({"call_search"} if one.get("function_call") else set())
    assert not open_calls


@given(CONTEXTS)
def test_anthropic_roles_take_turns_and_every_call_has_its_results_next(
    messages: tuple[Message, ...],
) -> None:
    rendered = anthropic_messages(messages)
    assert [m["role"] for m in rendered] == [("user", "assistant")[i % 2] for i in range(len(rendered))]
    calls: list[str] = []
    seen: set[str] = set()
    for one in [*rendered, {"role": "user", "content": "end"}]:
        blocks = blocks_in(one["content"])
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        assert blocks
        assert sorted(results) == sorted(calls)
        assert all(b["type"] == "tool_result" for b in blocks[: len(results)])
        assert all(b["text"].strip() for b in blocks if b["type"] == "text")
        calls = [b["id"] for b in blocks if b["type"] == "tool_use"]
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", i) for i in calls)
        assert seen.isdisjoint(calls)
        assert len(calls) == len(set(calls))
        seen.update(calls)


@given(CONTEXTS)
def test_no_text_is_lost_or_moved_in_any_form(messages: tuple[Message, ...]) -> None:
    texts = texts_of(messages)
    assert_in_order(texts, "\n".join(said_by(m["content"]) for m in openai_messages(messages)))
    assert_in_order(texts, "\n".join(said_by(m["content"]) for m in anthropic_messages(messages)))
    assert_in_order([indented(t).rstrip() for t in texts], text_lines(messages))


@given(CONTEXTS)
def test_whatever_is_rendered_can_be_sent_as_json(messages: tuple[Message, ...]) -> None:
    assert json.dumps(openai_messages(messages))
    assert json.dumps(anthropic_messages(messages))


# -- A context in the forms that providers take

PLAIN = counting("lango")
MARK = {"type": "ephemeral"}
NOTES = (note(1, 2, generation=1), note(3, 4))


def given_history(history: list[dict[str, Any]]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The system messages at the head, and the conversation, as they are taken in."""
    messages = intake_all(history, at=START, tz=UTC)
    lead = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    return messages[:lead], messages[lead:]


def from_history(history: list[dict[str, Any]], notes: Any = (), **request: Any) -> Context:
    lead, said = given_history(history)
    numbered_ones = tuple(replace(m, seq=i, tokens=10) for i, m in enumerate(said, 5))
    return assemble(
        state(numbered_ones, notes, tail_start=5), PromptRequest(lead=lead, **request), LANGO, PLAIN, None
    )


def context(said: Any = (), notes: Any = (), settings: Settings = LANGO, **request: Any) -> Context:
    return assemble(state(said, notes), PromptRequest(**request), settings, PLAIN, None)


# ------------------------------------------------------------------------------------ without memory

HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "Be helpful."},
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "nothing"},
    {"role": "tool", "tool_call_id": "b", "content": "something"},
    {"role": "assistant", "content": "There it is.", "annotations": []},
    {"role": "user", "name": "ana", "content": "Thanks"},
]


@pytest.mark.req(46)
def test_with_nothing_stored_the_output_equals_the_input() -> None:
    assert from_history(HISTORY).openai() == HISTORY
    assert from_history(HISTORY[2:]).openai() == HISTORY[2:]


@pytest.mark.req(46)
def test_the_output_is_a_copy_that_may_be_changed() -> None:
    found = from_history(HISTORY)
    found.openai()[0]["content"] = "changed"
    assert found.openai() == HISTORY


def test_a_base_prompt_is_not_lost_beside_system_messages_of_the_history() -> None:
    found = from_history(HISTORY, system="BASE", knowledge={"docs": "KNOWLEDGE"}).openai()
    system = "\n".join(m["content"] for m in found if m["role"] in ("system", "developer"))
    for part in ("BASE", "Be helpful.", "Be brief.", "KNOWLEDGE"):
        assert system.count(part) == 1
    assert found[-6:] == HISTORY[2:]


def test_with_memory_the_system_messages_become_the_base_prompt() -> None:
    found = from_history(HISTORY, NOTES)
    first = found.openai()[0]
    assert first["role"] == "system"
    assert first["content"].startswith("Be helpful.\n\nBe brief.\n\n## Conversation Memory")
    assert found.openai()[1:] == HISTORY[2:]


def test_without_anything_there_is_no_system_message() -> None:
    assert context(numbered(5)).openai() == [{"role": "user", "content": "message 1"}]
    assert "system" not in context(numbered(5)).anthropic()


# ------------------------------------------------------------------------------------ the end


def test_what_changes_each_turn_stands_at_the_end() -> None:
    found = context(numbered(0, 0, 0, 0, 5), NOTES, system="BASE", end="It is Monday.")
    assert found.openai()[-1] == {"role": "system", "content": "It is Monday."}
    assert "It is Monday." not in found.system
    assert found.text().endswith("It is Monday.\n")
    assert "It is Monday." in json.dumps(found.anthropic()["messages"][-1])


def test_a_preface_of_the_host_stands_before_the_messages() -> None:
    found = context(numbered(0, 0, 0, 0, 5), NOTES, preface=(Message("user", "Summary: …"),))
    assert [m["content"] for m in found.openai()[1:]] == ["Summary: …", "message 5"]


# ------------------------------------------------------------------------------------ Anthropic


def marks(request: Mapping[str, Any]) -> list[str]:
    """The text of each block with a cache breakpoint, in order."""
    return [str(b.get("text") or b.get("content")) for b in blocks(request) if "cache_control" in b]


def blocks(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    system = request.get("system", [])
    yield from () if isinstance(system, str) else system
    for one in request["messages"]:
        yield from () if isinstance(one["content"], str) else one["content"]


def test_breakpoints_stand_after_knowledge_reflections_observations_and_the_last_message() -> None:
    found = context(numbered(0, 0, 0, 0, 5, 5, 5), NOTES, system="BASE", knowledge={"docs": "KNOWLEDGE"})
    sections = found.sections
    assert marks(found.anthropic()) == [
        "BASE\n\nKNOWLEDGE",
        sections.reflections[-1],
        sections.observations[-1],
        "message 7",
    ]
    assert sections.reflections[-1].endswith("NOTE g1:1-2")
    assert sections.observations[-1].endswith("NOTE g0:3-4")


def test_what_stands_before_a_new_note_is_the_same_and_ended_at_a_breakpoint() -> None:
    """A provider reads from its cache what ended at a breakpoint, up to the first block that changed."""
    said = numbered(0, 0, 0, 0, 5, 5, 5)
    before = context(said, NOTES, system="BASE").anthropic()
    newer = [*NOTES, note(5, 6)]
    after = context(said, newer, system="BASE").anthropic()
    texts = [[b["text"] for b in request.get("system", ())] for request in (before, after)]
    assert texts[1][:-2] == texts[0][:-1]
    assert marks(before)[-2] == texts[0][-2]
    assert marks(after)[-2] == texts[1][-2]


def test_what_the_user_asked_for_stands_behind_the_last_breakpoint_of_the_system_prompt() -> None:
    asked = replace(note(3, 4), text="Open request: Book a table for Ana in Oslo.")
    found = context(numbered(0, 0, 0, 0, 5), [NOTES[0], asked], system="BASE")
    request = found.anthropic()
    assert found.sections.now
    last = request.get("system", [])[-1]
    assert last.keys() == {"type", "text"}
    assert re.fullmatch(rf"{re.escape(found.sections.now)}\n\n### End of memory \d{{4}}", last["text"])


def test_the_breakpoint_stands_before_what_changes_each_turn() -> None:
    after_user = context(numbered(0, 0, 0, 0, 5), NOTES, end="It is Monday.").anthropic()
    assert marks(after_user)[-1] == "message 5"
    after_answer = context(numbered(0, 0, 0, 0, 5, 5), NOTES, end="It is Monday.").anthropic()
    assert marks(after_answer)[-1] == "message 6"


def test_an_answer_that_the_host_began_stays_last_and_what_changes_each_turn_stands_before_it() -> None:
    found = replace(context(numbered(0, 0, 0, 0, 5, 5), NOTES, end="It is Monday."), prefill=True)
    assert [m["content"] for m in found.openai()[-2:]] == ["It is Monday.", "message 6"]
    request = found.anthropic()
    assert [m["role"] for m in request["messages"][-2:]] == ["user", "assistant"]
    assert "It is Monday." in str(request["messages"][-2])
    assert marks(request)[-1] == "message 5"


@pytest.mark.parametrize("most", [4, 3])
@pytest.mark.parametrize("own", range(6))
def test_breakpoints_of_the_host_stay_and_are_left_room(own: int, most: int) -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    history: list[dict[str, Any]] = [
        {
            "role": "user" if i % 2 == 0 else "assistant",
            "content": [{"type": "text", "text": f"part {i}"} | ({"cache_control": mark} if i < own else {})],
        }
        for i in range(6)
    ]
    before = copy.deepcopy(history)
    request = from_history(history, NOTES, system="BASE").anthropic(breakpoints=most)
    found = marks(request)
    assert len(found) == max(most, own)
    assert [m for m in found if m.startswith("part")] == ([f"part {i}" for i in range(own)] or ["part 5"])
    # The end of the system prompt comes first: its beginning is cached with it.
    assert ("cache_control" in request.get("system", [{}, {}])[-2]) == (own < most)
    lasting = [b["cache_control"] for b in blocks(request) if "cache_control" in b]
    assert {m.get("ttl") for m in lasting} == ({"1h"} if own else {None})
    assert history == before


def test_without_memory_breakpoints_are_the_hosts_own() -> None:
    history = [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}]
    assert from_history(history).anthropic() == {"messages": history}


def test_a_long_conversation_without_notes_is_cached_up_to_its_last_message() -> None:
    """Before the first note the whole conversation is sent with each turn, at the full price."""
    said = tuple(message(n, tokens=200) for n in range(1, 9))
    assert marks(context(said[:4], system="BASE").anthropic()) == []
    request = context(said, system="BASE", end="It is Monday.").anthropic()
    assert marks(request) == [said[-1].text]
    assert request.get("system") == "BASE"
    assert marks(context(said, settings=replace(DEFAULT, enabled=False)).anthropic()) == []


def test_a_long_base_prompt_ends_at_a_breakpoint_before_the_first_note() -> None:
    """Notes come between it and the messages, and then it is read from the cache."""
    said = tuple(message(n, tokens=200) for n in range(1, 9))
    base = "Answer briefly. " * 400
    before, after = (context(said, notes, system=base).anthropic() for notes in ((), NOTES))
    assert marks(before) == [base, said[-1].text]
    assert marks(after)[0] == base


# ------------------------------------------------------------------------------------ any conversation


def openai_pairs_hold(messages: list[dict[str, Any]]) -> None:
    waiting: set[str] = set()
    for one in messages:
        if one["role"] == "tool":
            assert one["tool_call_id"] in waiting
            waiting.discard(one["tool_call_id"])
        else:
            assert not waiting, "a call without its result"
            waiting = {c["id"] for c in one.get("tool_calls", ())}
    assert not waiting


def content_blocks(one: dict[str, Any]) -> list[dict[str, Any]]:
    content = one["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def anthropic_form_is_valid(request: Mapping[str, Any]) -> None:
    messages = request["messages"]
    assert messages[0]["role"] == "user"
    waiting: list[str] = []
    for i, one in enumerate(messages):
        assert one["role"] == ("user", "assistant")[i % 2]
        parts = content_blocks(one)
        assert parts
        answered = [b["tool_use_id"] for b in parts if b["type"] == "tool_result"]
        assert sorted(answered) == sorted(waiting)
        kinds = [b["type"] for b in parts]
        assert kinds[: len(answered)] == ["tool_result"] * len(answered)
        assert all(b["text"].strip() for b in parts if b["type"] == "text")
        waiting = [b["id"] for b in parts if b["type"] == "tool_use"]
        assert len(set(waiting)) == len(waiting)
    assert not waiting


@given(
    conversations(longest=20, max_tokens=300),
    st.integers(300, 3000),
    st.sampled_from((LANGO, DEFAULT)),
    st.sampled_from(("", "It is Monday.")),
    st.booleans(),
)
def test_pairs_hold_and_breakpoints_are_at_most_four(
    said: list[Message], budget: int, settings: Settings, end: str, noted: bool
) -> None:
    moved = tuple(replace(m, seq=m.seq + 4) for m in said)
    found = context(moved, NOTES if noted else (), settings, system="BASE", budget=budget, end=end)
    openai_pairs_hold(found.openai())
    request = found.anthropic()
    anthropic_form_is_valid(request)
    long = found.stats.total >= 1_024 and found.stats.cacheable > 0
    assert len(marks(request)) == (4 if noted else long)
    assert json.loads(json.dumps(request)) == request
    assert json.loads(json.dumps(found.openai())) == found.openai()


def test_a_result_alone_at_the_head_is_told_as_what_it_is() -> None:
    found = context((result(1, "gone"), message(2)))
    assert [m["role"] for m in found.openai()] == ["user", "user"]
    assert "without its call" in found.openai()[0]["content"]


def test_a_call_that_was_never_answered_gets_a_result_where_the_provider_needs_one() -> None:
    found = context((call(1, "a"), message(2))).openai()
    assert [m["role"] for m in found] == ["assistant", "tool", "user"]


# ------------------------------------------------------------------------------------ text


def test_the_text_form_is_dated_and_has_a_heading_for_the_recent_messages() -> None:
    found = context(numbered(0, 0, 0, 0, 5, 5), NOTES, system="BASE").text()
    memory, _, recent = found.partition("## Recent messages\n")
    assert memory.startswith("BASE\n\n## Conversation Memory\n")
    assert recent == "## 2026-02-16\n[14:05] user: message 5\n[14:06] assistant: message 6\n"


def test_without_memory_the_text_needs_no_heading() -> None:
    assert context(numbered(5)).text() == "## 2026-02-16\n[14:01] user: message 1\n"
