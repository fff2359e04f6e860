"""Rows as lines of JSON: what is no row is refused with a reason."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.history import (
    Change,
    ChangeRow,
    MessageRow,
    RestartRow,
    Row,
    SessionRow,
    UsageRow,
    ValueRow,
)
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Progress, Usage
from onlooker.policy.rows import from_line, to_line

ANA = SessionId("ana", "telegram:42")
NOW = datetime(2026, 2, 16, 14, tzinfo=UTC)
USED = UsageRow("ana", None, Usage("m:x", "observe", 10, 5, "accepted", NOW, 0.25))
STANDS = SessionRow(Progress(ANA, history_hash=b"\x00\xff", due_at=NOW), NOW, 3, ("m1",), None)
CHANGED = ChangeRow(ANA, Change(1, NOW, 4, 2, 2, 3, (("o1", "active"),), (4, 6)))
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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seq": "1"}, '`seq` must be an integer, not "1"'),
        ({"tokens": 1 << 63}, "`tokens` must be an integer of 64 bits, not 9223372036854775808"),
        ({"summary": 1}, "`summary` must be true or false, not 1"),
        ({"place": "nowhere"}, '`place` must be one of live, compacted, cleared, retired, not "nowhere"'),
        ({"at": "yesterday"}, '`at` must be a time in ISO 8601, not "yesterday"'),
        ({"attachments": ["a", 1]}, "`attachments[1]` must be text, not 1"),
        ({"attachments": {}}, "`attachments` must be a list, not an object"),
        ({"calls": [{"id": "c", "name": 5}]}, "`calls[0].name` must be text, not 5"),
        ({"calls": [{"id": "c", "name": "n"}]}, "`calls[0].arguments` is missing"),
        ({"session": None}, "`session` must be text, not null"),
        ({"text": ["x"] * 100}, "`text` must be text, not a list"),
    ],
)
def test_the_error_names_the_field_and_what_it_must_be(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^message: {re.escape(message)}$"):
        from_line(json.dumps(GOOD | wrong))


@pytest.mark.parametrize(
    ("row", "wrong", "message"),
    [
        (USED, {"cost": "free"}, 'usage: `cost` must be a number, not "free"'),
        (USED, {"cost": 10**400}, "usage: `cost` must be a number, not 1000"),
        (USED, {"cost": float("nan")}, "usage: `cost` must be a number, not NaN"),
        (
            STANDS,
            {"history_hash": "xyz"},
            'session: `history_hash` must be at most 128 hexadecimal digits, not "xyz"',
        ),
        (CHANGED, {"taken": [1]}, "change: `taken` must be a list of 2, not a list"),
        (CHANGED, {"statuses": [["o1", "lost"]]}, "change: `statuses[0][1]` must be one of buffered, active"),
    ],
)
def test_every_type_of_field_is_checked(row: Row, wrong: dict[str, object], message: str) -> None:
    line = to_line(row)
    assert from_line(line) == row
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        from_line(json.dumps(json.loads(line) | wrong))


def test_a_time_without_a_zone_is_utc_except_where_the_host_gave_none() -> None:
    bare = datetime(2026, 2, 16, 14)  # noqa: DTZ001
    message = MessageRow(ANA, Message("user", "hello", id="m1", at=bare))
    assert from_line(to_line(message)) == message
    used = from_line(json.dumps(json.loads(to_line(USED)) | {"at": "2026-02-16T14:00:00"}))
    assert isinstance(used, UsageRow)
    assert used.usage.at == NOW
