"""Rows as lines of JSON: what is no row is refused with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.history_rows import MessageRow, RestartRow, ValueRow
from onlooker.domain.messages import Message, SessionId
from onlooker.policy.lines import from_line, to_line

ANA = SessionId("ana", "telegram:42")
ANY_TEXT = st.text(st.characters(codec=None), max_size=40)


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_any_text_makes_one_line_of_utf8_and_comes_back(owner: str, key: str, text: str) -> None:
    row = MessageRow(SessionId(owner, key), Message("user", text, id=text, name=key, seq=3), "retired", True)
    line = to_line(row)
    assert len(line.splitlines()) == 1
    assert from_line(line.encode().decode()) == row


def test_what_can_be_read_stays_readable() -> None:
    assert "東京" in to_line(ValueRow("city", "東京"))
    assert to_line(RestartRow(ANA)) == '{"kind":"restart","owner":"ana","session":"telegram:42"}'


GOOD = json.loads(to_line(MessageRow(ANA, Message("user", "hello", id="m1", seq=1, tokens=2))))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "[]",
        '"text"',
        "{}",
        '{"kind":"nonsense"}',
        '{"kind":["message"]}',
        "[" * 100_000,
        *(json.dumps({k: v for k, v in GOOD.items() if k != gone}) for gone in GOOD if gone != "kind"),
        *(
            json.dumps(GOOD | wrong)
            for wrong in (
                {"seq": "1"},
                {"seq": True},
                {"role": "nobody"},
                {"place": "nowhere"},
                {"at": "yesterday"},
                {"text": None},
                {"calls": [["only", "two"]]},
                {"calls": 7},
                {"attachments": [1]},
                {"owner": 5},
            )
        ),
    ],
)
def test_what_is_no_row_is_refused_with_a_reason(line: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_line(line)
