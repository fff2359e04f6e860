"""Values of users' own types: the block they come in, and whether they were said."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel
from tests.growth import assert_not_quadratic

from onlooker.domain.messages import Message, ToolCall
from onlooker.policy.render import text_lines
from onlooker.policy.reply.evidence import Evidence
from onlooker.policy.reply.extraction import (
    MAX_RECORDS,
    find_sources,
    invented,
    mask_value,
    schema_of,
    split_block,
)

# -- The block of JSON after a note: found in whatever form it comes, and never at the note's cost

NOTE = "## 2026-02-16\n[14:02] IMPORTANT Ana: ordered 3 cakes"
ONE = ("Order", {"item": "cake", "count": 3})
BOTH = ("Order", "Preference")


@pytest.mark.parametrize(
    "block",
    [
        '```json\n{"Order": [{"item": "cake", "count": 3}], "Preference": []}\n```',
        '```\n{"Order": {"item": "cake", "count": 3}, "Preference": null}\n```',
        '~~~ JSON\n{"Order": [{"item": "cake", "count": 3}]}\n~~~\n',
        '   ```json\n   {"Order": [\n   {"item": "cake",\n "count": 3}]}\n   ```   ',
        '{"Order": [{"item": "cake", "count": 3}]}',
        'Records:\n```json\n{"Order": [{"item": "cake", "count": 3}]}\n```',
        '**JSON**\n\n```json\n{"Order": [{"item": "cake", "count": 3}]}\n```',
    ],
)
def test_a_block_is_taken_off_the_note(block: str) -> None:
    note, found = split_block(f"{NOTE}\n\n{block}", BOTH)
    assert note.strip() == NOTE
    assert (found.records, found.problem) == ((ONE,), None)


@pytest.mark.parametrize("body", ['[{"item": "cake", "count": 3}]', '{"item": "cake", "count": 3}'])
def test_with_one_type_its_name_may_be_missing(body: str) -> None:
    assert split_block(f"{NOTE}\n```json\n{body}\n```", ("Order",))[1].records == (ONE,)


@pytest.mark.parametrize("body", ["{}", '{"Order": []}', '{"Order": [], "Preference": []}'])
def test_nothing_to_fill_in_is_no_problem(body: str) -> None:
    note, block = split_block(f"{NOTE}\n```json\n{body}\n```", BOTH)
    assert (note.strip(), block.records, block.problem) == (NOTE, (), None)


@pytest.mark.parametrize(
    "body",
    [
        '{"Order": [{"item": "cake",]}',
        '{"Order": ["cake"]}',
        '{"Invoice": [{"item": "cake"}]}',
        '[{"item": "cake"}]',
        '{"Order": [{"count": NaN}]}',
        '{"Order": ' * 5_000,
        '{"Order": [{"count": ' + "9" * 5_000 + "}]}",
    ],
)
def test_what_is_no_such_json_is_taken_off_all_the_same(body: str) -> None:
    note, block = split_block(f"{NOTE}\n```json\n{body}\n```", BOTH)
    assert note.strip() == NOTE
    assert (block.records, block.problem) == ((), "unparseable")
    assert block.detail


def test_an_answer_that_ended_inside_its_block_has_a_whole_note() -> None:
    note, block = split_block(f'{NOTE}\n```json\n{{"Order": [{{"item": "ca', BOTH)
    assert (note.strip(), block.problem, block.unclosed) == (NOTE, "unparseable", True)
    assert not split_block(f'{NOTE}\n```json\n{{"Order": []}}\n```', BOTH)[1].unclosed


@pytest.mark.parametrize("reply", [NOTE, f"```\n{NOTE}\n```", "```\n[14:02] Ana: ordered 3 cakes\n```", ""])
def test_without_a_block_the_answer_stays_as_it_is(reply: str) -> None:
    note, block = split_block(reply, BOTH)
    assert (note, block.problem) == (reply, "missing")


def test_a_line_that_speaks_of_json_stays_in_the_note() -> None:
    reply = f'{NOTE}\n{{"port": 8080}} is what fly.toml needs'
    assert split_block(reply, BOTH)[0] == reply


def test_without_a_fence_only_the_json_is_taken_off() -> None:
    bare = '{"Order": [{"item": "cake", "count": 3}]}'
    note, block = split_block(f"{NOTE}\n{bare}\nAna: leaves on Friday", BOTH)
    assert note == f"{NOTE}\n\nAna: leaves on Friday"
    assert block.records == (ONE,)
    note, block = split_block(f"{NOTE}\n{bare[:-9]}", BOTH)
    assert (note, block.problem, block.unclosed) == (NOTE, "unparseable", True)


def test_the_last_of_several_blocks_is_the_one() -> None:
    first, last = '```json\n{"Order": [{"a": 1}]}\n```', '```json\n{"Order": [{"a": 2}]}\n```'
    assert split_block(f"{first}\n{NOTE}\n{last}", BOTH)[1].records == (("Order", {"a": 2}),)


def test_more_than_anyone_says_is_not_taken() -> None:
    many = ", ".join('{"n": 1}' for _ in range(MAX_RECORDS + 1))
    assert split_block(f'{NOTE}\n```json\n{{"Order": [{many}]}}\n```', BOTH)[1].problem == "too long"
    long = '{"Order": [{"text": "' + "x" * 200_000 + '"}]}'
    assert split_block(f"{NOTE}\n```json\n{long}\n```", BOTH)[1].problem == "too long"


@pytest.mark.parametrize("hostile", ["```json\n{\n", "```\n```\n", "{ \n", "[ " * 3, "records: \n"])
def test_a_megabyte_of_anything_is_done_with_at_once(hostile: str) -> None:
    assert_not_quadratic(lambda size: split_block(hostile * (size // len(hostile)), BOTH), 1_000_000)


# -- What a value of a user's own type may say: only what was said

AT = datetime(2026, 2, 16, 14, 2, tzinfo=UTC)  # a Monday


def message(text: str, seq: int = 1, **fields: Any) -> Message:
    return Message("user", text, id=f"m{seq}", at=AT, seq=seq, **fields)


def made_up_in(value: dict[str, Any], messages: tuple[Message, ...]) -> list[str]:
    return invented(value, Evidence(text_lines(messages), AT.date()))


def unsaid(text: str, **value: Any) -> list[str]:
    return made_up_in(value, (message(text),))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3 cakes for €1,240.50", {"count": 3, "price": 1240.5}),
        ("1.240,50 Euro bitte", {"price": 1240.5}),
        ("10 000 kr in all", {"price": 10000}),
        ("three cakes, no sugar", {"count": 3, "sugar": 0}),
        ("a cake", {"count": 1, "vegan": True, "note": None}),
        ("25% off, 12k views, 3 million in all, 5万円", {"x": [0.25, 12000, 3_000_000, 50000]}),
        ("it was -4 outside", {"degrees": -4}),
        ("order 88-1431 in /srv/app/fly.toml", {"id": "88-1431", "path": "/srv/app/fly.toml"}),
        ("see you last Friday, I mean tomorrow at 3pm", {"on": "2026-02-17", "at": "2026-02-17T15:00:00"}),
        ("on 2026-05-01 at 09:30", {"at": "2026-05-01T09:30", "day": "2026-05-01"}),
        ("today", {"on": "2026-02-16"}),
        ("the weekend, last weekend", {"on": "2026-02-15"}),
        ("a birthday cake with candles", {"item": "Birthday cake", "tags": ["candles", "party"]}),
    ],
)
def test_what_was_said_or_follows_from_it_may_stand(text: str, value: dict[str, Any]) -> None:
    assert unsaid(text, **value) == []


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("3 cakes", {"count": 4}, "4"),
        ("€1,240.50", {"price": 1240.05}, "1240.05"),
        ("€1,240.50", {"price": 240}, "240"),
        ("order 88-1431", {"id": "88-1432"}, "88-1432"),
        ("order 88-1431", {"order": {"lines": [{"id": "AB-9000"}]}}, "AB-9000"),
        ("see you tomorrow", {"on": "2026-02-18"}, "2026-02-18"),
        ("see you tomorrow at 3pm", {"at": "2026-02-17T16:00:00"}, "2026-02-17T16:00:00"),
        ("mail me", {"mail": "ana@example.org"}, "ana@example.org"),
    ],
)
def test_what_nobody_said_is_found(text: str, value: dict[str, Any], found: str) -> None:
    assert unsaid(text, **value) == [found]


def test_what_a_tool_was_asked_counts_as_said() -> None:
    call = message("", calls=(ToolCall("c", "order", '{"sku": "CAKE-77"}'),))
    assert made_up_in({"sku": "CAKE-77"}, (call,)) == []


def test_secrets_are_masked_wherever_they_stand() -> None:
    value = {"item": "cake", "notes": ["key sk-live-0123456789abcdefghij"], "password": "hunter2!x", "n": 3}
    assert mask_value(value) == {"item": "cake", "notes": ["key [secret]"], "password": "[secret]", "n": 3}
    assert mask_value({"card": 4111111111111111, "on": True}) == {"card": "[secret]", "on": True}


def test_a_value_leads_back_to_the_messages_that_hold_its_words() -> None:
    messages = [message("Hello", 1), message("Order 88-1431: a Sachertorte", 2), message("Fine", 3)]
    assert [m.seq for m in find_sources({"item": "sachertorte"}, messages)] == [2]
    assert [m.seq for m in find_sources({"item": "cake", "ok": True}, messages)] == [1, 2, 3]


def test_a_schema_is_told_without_the_titles_that_only_repeat_names() -> None:
    class Line(BaseModel):
        title: str
        count: int = 1

    class Order(BaseModel):
        """What a customer orders."""

        lines: list[Line]

    schema = schema_of(Order)
    told = json.loads(schema.text)
    assert schema.name == "Order"
    assert told["description"] == "What a customer orders."
    assert set(told["$defs"]["Line"]["properties"]) == {"title", "count"}
    assert '"title":"' not in schema.text
