"""The block of JSON after a note: found in whatever form it comes, and never at the note's cost."""

from __future__ import annotations

import time

import pytest

from onlooker.policy.reply.extraction import MOST_RECORDS, take_block

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
    note, found = take_block(f"{NOTE}\n\n{block}", BOTH)
    assert note.strip() == NOTE
    assert (found.records, found.problem) == ((ONE,), None)


@pytest.mark.parametrize("body", ['[{"item": "cake", "count": 3}]', '{"item": "cake", "count": 3}'])
def test_with_one_type_its_name_may_be_missing(body: str) -> None:
    assert take_block(f"{NOTE}\n```json\n{body}\n```", ("Order",))[1].records == (ONE,)


@pytest.mark.parametrize("body", ["{}", '{"Order": []}', '{"Order": [], "Preference": []}'])
def test_nothing_to_fill_in_is_no_problem(body: str) -> None:
    note, block = take_block(f"{NOTE}\n```json\n{body}\n```", BOTH)
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
    note, block = take_block(f"{NOTE}\n```json\n{body}\n```", BOTH)
    assert note.strip() == NOTE
    assert (block.records, block.problem) == ((), "unparseable")
    assert block.detail


def test_an_answer_that_ended_inside_its_block_has_a_whole_note() -> None:
    note, block = take_block(f'{NOTE}\n```json\n{{"Order": [{{"item": "ca', BOTH)
    assert (note.strip(), block.problem, block.unclosed) == (NOTE, "unparseable", True)
    assert not take_block(f'{NOTE}\n```json\n{{"Order": []}}\n```', BOTH)[1].unclosed


@pytest.mark.parametrize("reply", [NOTE, f"```\n{NOTE}\n```", "```\n[14:02] Ana: ordered 3 cakes\n```", ""])
def test_without_a_block_the_answer_stays_as_it_is(reply: str) -> None:
    note, block = take_block(reply, BOTH)
    assert (note, block.problem) == (reply, "missing")


def test_a_line_that_speaks_of_json_stays_in_the_note() -> None:
    reply = f'{NOTE}\n{{"port": 8080}} is what fly.toml needs'
    assert take_block(reply, BOTH)[0] == reply


def test_without_a_fence_only_the_json_is_taken_off() -> None:
    bare = '{"Order": [{"item": "cake", "count": 3}]}'
    note, block = take_block(f"{NOTE}\n{bare}\nAna: leaves on Friday", BOTH)
    assert note == f"{NOTE}\n\nAna: leaves on Friday"
    assert block.records == (ONE,)
    note, block = take_block(f"{NOTE}\n{bare[:-9]}", BOTH)
    assert (note, block.problem, block.unclosed) == (NOTE, "unparseable", True)


def test_the_last_of_several_blocks_is_the_one() -> None:
    first, last = '```json\n{"Order": [{"a": 1}]}\n```', '```json\n{"Order": [{"a": 2}]}\n```'
    assert take_block(f"{first}\n{NOTE}\n{last}", BOTH)[1].records == (("Order", {"a": 2}),)


def test_more_than_anyone_says_is_not_taken() -> None:
    many = ", ".join('{"n": 1}' for _ in range(MOST_RECORDS + 1))
    assert take_block(f'{NOTE}\n```json\n{{"Order": [{many}]}}\n```', BOTH)[1].problem == "too long"
    long = '{"Order": [{"text": "' + "x" * 200_000 + '"}]}'
    assert take_block(f"{NOTE}\n```json\n{long}\n```", BOTH)[1].problem == "too long"


@pytest.mark.parametrize("hostile", ["```json\n{\n", "```\n```\n", "{ \n", "[ " * 3, "records: \n"])
def test_a_megabyte_of_anything_is_done_with_at_once(hostile: str) -> None:
    started = time.monotonic()
    take_block(hostile * (1_000_000 // len(hostile)), BOTH)
    assert time.monotonic() - started < 2
