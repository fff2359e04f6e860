"""The bundled conversation is what the demo says it is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from onlooker.demo import conversation, facts

MESSAGES = conversation()


def said(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls", [])
    return "\n".join([message["content"] or "", *(call["function"]["arguments"] for call in calls)])


def test_it_is_long_and_goes_on_for_days() -> None:
    times = [datetime.fromisoformat(message["created_at"]) for message in MESSAGES]
    assert len(MESSAGES) > 320
    assert times == sorted(times)
    assert times[-1] - times[0] > timedelta(days=6)
    assert all(at.utcoffset() == timedelta(hours=1) for at in times)


def test_every_message_has_an_id_of_its_own() -> None:
    assert len({message["id"] for message in MESSAGES}) == len(MESSAGES)


def test_every_tool_call_is_answered_before_anything_else_is_said() -> None:
    open_calls: list[str] = []
    for message in MESSAGES:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
        else:
            assert not open_calls, message["id"]
            open_calls = [call["id"] for call in message.get("tool_calls", [])]
    assert not open_calls


def test_each_exact_value_is_first_said_where_the_facts_say() -> None:
    for fact in facts().values:
        first = next(message["id"] for message in MESSAGES if fact.value in said(message))
        assert first == fact.message, fact.value


def test_there_are_enough_facts_and_questions_to_judge_a_memory_by() -> None:
    assert 40 <= len(facts().values) <= 60
    assert len(facts().questions) == 20
