"""A context in the forms that providers take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest
from conversations import START, call, conversations, counting, message, note, numbered, result, state
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.messages import Message
from onlooker.policy.assemble import PromptRequest, assemble
from onlooker.policy.intake import intake_all
from onlooker.policy.render import Context
from onlooker.policy.settings import DEFAULT, LANGO, Settings

PLAIN = counting("lango")
MARK = {"type": "ephemeral"}
NOTES = (note(1, 2, generation=1), note(3, 4))


def given_history(history: list[dict[str, Any]]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The system messages at the head, and the conversation, as they are taken in."""
    messages = intake_all(history, at=START, tz=UTC)
    lead = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    return messages[:lead], messages[lead:]


def from_history(history: list[dict[str, Any]], notes: Any = (), **frame: Any) -> Context:
    lead, said = given_history(history)
    numbered_ones = tuple(replace(m, seq=i, tokens=10) for i, m in enumerate(said, 5))
    return assemble(
        state(numbered_ones, notes, tail_start=5), PromptRequest(lead=lead, **frame), LANGO, PLAIN, None
    )


def context(said: Any = (), notes: Any = (), settings: Settings = LANGO, **frame: Any) -> Context:
    return assemble(state(said, notes), PromptRequest(**frame), settings, PLAIN, None)


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


def marks(request: dict[str, Any]) -> list[str]:
    """The text of each block with a cache breakpoint, in order."""
    return [str(b.get("text") or b.get("content")) for b in blocks(request) if "cache_control" in b]


def blocks(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    system = request.get("system", [])
    yield from () if isinstance(system, str) else system
    for one in request["messages"]:
        yield from () if isinstance(one["content"], str) else one["content"]


def test_breakpoints_stand_after_knowledge_reflections_observations_and_the_last_message() -> None:
    found = context(numbered(0, 0, 0, 0, 5, 5, 5), NOTES, system="BASE", knowledge={"docs": "KNOWLEDGE"})
    sections = found.sections
    assert marks(found.anthropic()) == [
        "BASE\n\nKNOWLEDGE",
        sections.reflections,
        sections.observations,
        "message 7",
    ]
    assert sections.reflections.endswith("NOTE g1:1-2")
    assert sections.observations.endswith("NOTE g0:3-4")


def test_the_breakpoint_stands_before_what_changes_each_turn() -> None:
    after_user = context(numbered(0, 0, 0, 0, 5), NOTES, end="It is Monday.").anthropic()
    assert marks(after_user)[-1] == "message 5"
    after_answer = context(numbered(0, 0, 0, 0, 5, 5), NOTES, end="It is Monday.").anthropic()
    assert marks(after_answer)[-1] == "message 6"


def test_breakpoints_of_the_host_make_way_so_that_there_are_at_most_four() -> None:
    history: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": f"part {i}", "cache_control": MARK}]}
        if i % 2 == 0
        else {"role": "assistant", "content": [{"type": "text", "text": f"part {i}", "cache_control": MARK}]}
        for i in range(3)
    ]
    found = from_history(history, NOTES, system="BASE").anthropic()
    assert len(marks(found)) == 4
    assert marks(found)[-1] == "part 2"
    assert all("cache_control" in m["content"][0] for m in history)  # the host's own stay as they are


def test_without_memory_breakpoints_are_the_hosts_own() -> None:
    history = [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}]
    assert from_history(history).anthropic() == {"messages": history}


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


def anthropic_form_is_valid(request: dict[str, Any]) -> None:
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
    conversations(longest=20, most_tokens=300),
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
    assert len(marks(request)) == (4 if noted else 0)
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
