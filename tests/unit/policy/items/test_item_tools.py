"""What an agent may not save, and what it is told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from making_items import NOW, item

from onlooker.policy.items.tools import (
    DEFINITIONS,
    FORGET,
    MAX_SAVES,
    SAVE,
    SEARCH,
    check_known,
    check_save,
    check_words,
    problem_with,
)


def minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


@pytest.mark.req(89)
@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        ("tea", "too short"),
        ("yes it is", "too short"),
        ("Ana " + "likes tea and cake " * 30, "too long"),
        ("Ana is in a meeting right now", "transient"),
        ("Ana has a headache today", "transient"),
        ("安娜今天很忙，正在开会", "transient"),
        ("Ana is allergic to peanuts", "duplicate"),
        ("Ana lives in Bergen", "contradiction"),
    ],
)
def test_each_gate_says_why_and_what_to_do(summary: str, reason: str) -> None:
    known = [item("user: allergic to peanuts", "itm_1"), item("user: lives in Oslo", "itm_2")]
    refusal = check_save(summary, [], NOW) or check_known(summary, known)
    assert refusal is not None
    assert refusal.reason == reason
    assert refusal.advice.startswith("Not saved: ")


def test_what_lasts_is_saved() -> None:
    for summary in ("Ana plays the violin", "Ana moved house in 2026", "安娜对花生过敏"):
        assert check_save(summary, [], NOW) is None
        assert check_known(summary, [item("user: lives in Oslo")]) is None


def test_a_contradiction_names_the_item_and_the_way_to_supersede_it() -> None:
    known = [item("user: lives in Oslo", "itm_2")]
    refusal = check_known("Ana lives in Bergen", known)
    assert refusal is not None
    assert 'supersedes="itm_2"' in refusal.advice
    assert "user: lives in Oslo" in refusal.advice
    assert check_known("Ana lives in Bergen", known, supersedes="itm_2") is None


def test_the_rate_resets_as_time_goes_on() -> None:
    recent = [NOW - minutes(50)] * MAX_SAVES
    refusal = check_save("Ana plays the violin", recent, NOW)
    assert refusal is not None
    assert (refusal.reason, "10 minutes" in refusal.advice) == ("too many", True)
    assert check_save("Ana plays the violin", recent, NOW + minutes(11)) is None
    assert check_save("Ana plays the violin", recent[1:], NOW) is None


def test_words_alone_can_be_judged() -> None:
    assert check_words("Ana is learning Norwegian") is None
    assert check_words("  ") is not None


# ------------------------------------------------------------------------------------ arguments


def test_definitions_are_json_schema_of_an_object() -> None:
    assert [d.name for d in DEFINITIONS] == ["memory_search", "memory_save", "memory_forget", "recall"]
    for definition in DEFINITIONS:
        assert definition.parameters["type"] == "object"
        assert set(definition.parameters["required"]) <= set(definition.parameters["properties"])
        assert all(p["description"] for p in definition.parameters["properties"].values())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "memory_save needs 'summary'."),
        ({"summary": 3}, "'summary' must be of type string."),
        ({"summary": "x", "kind": "y"}, "memory_save takes no 'kind'"),
        ({"summary": "x", "type": "rumour"}, "'type' must be one of knowledge"),
        ({"summary": "x", "tags": [1]}, "'tags' must be a list of strings."),
        ({"summary": "x", "tags": "a"}, "'tags' must be of type array."),
    ],
)
def test_arguments_that_cannot_be_run_are_told(arguments: dict[str, object], problem: str) -> None:
    assert problem_with(SAVE, arguments).startswith(problem)


def test_numbers_have_their_range() -> None:
    assert problem_with(SEARCH, {"query": "x", "limit": 99}) == "'limit' must be from 1 to 20."
    assert problem_with(SEARCH, {"query": "x", "limit": True}) == "'limit' must be of type integer."
    assert problem_with(FORGET, {"id": "itm_1"}) == ""
