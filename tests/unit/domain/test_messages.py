"""What makes two messages, sessions or conversations the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId, ToolCall, extend_history_hash

BASE = Message("user", "hello", calls=(ToolCall("a", "look", "{}"),), answers="x", attachments=("[image]",))


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, role="assistant"),
        replace(BASE, text="hello "),
        replace(BASE, calls=()),
        replace(BASE, calls=(ToolCall("b", "look", "{}"),)),
        replace(BASE, calls=(ToolCall("a", "see", "{}"),)),
        replace(BASE, calls=(ToolCall("a", "look", "[]"),)),
        replace(BASE, answers="y"),
        replace(BASE, attachments=("[picture]",)),
        replace(BASE, text="hello\n[image]", attachments=()),
    ],
)
def test_what_is_said_makes_the_digest(other: Message) -> None:
    assert other.digest != BASE.digest


def test_identity_and_time_do_not() -> None:
    when = datetime(2026, 2, 16, tzinfo=UTC)
    same = replace(BASE, id="1", at=when, seq=9, tokens=7, original={"role": "user"})
    assert same.digest == BASE.digest


class _Role(str, Enum):  # noqa: UP042 - as hosts have them
    USER = "user"


@given(st.text(st.characters(exclude_categories=())), st.sampled_from(["user", _Role.USER]))
def test_a_digest_is_that_of_the_whole_body_as_json(text: str, role: Any) -> None:
    """However it is made: a file has those of earlier versions."""
    body = json.dumps([role, text, [], "", []])
    assert Message(role, text).digest == hashlib.blake2b(body.encode(), digest_size=16).digest()


@given(st.text(alphabet=st.characters()))
def test_any_text_has_a_digest(text: str) -> None:
    assert len(Message("user", text).digest) == 16
    assert Message("user", text).digest != Message("user", text + "x").digest


def test_lone_surrogates_and_nul_bytes_are_told_apart() -> None:
    texts = ("\ud800", "\udfff", "\x00", "", "\\ud800")
    assert len({Message("user", t).digest for t in texts}) == len(texts)
    assert len({SessionId("o", t).sid for t in texts}) == len(texts)


def test_the_body_is_the_text_with_its_placeholders() -> None:
    assert Message("user", "see", attachments=("[image a]", "[image b]")).body == "see\n[image a]\n[image b]"
    assert Message("user", "", attachments=("[image a]",)).body == "[image a]"
    assert Message("user", "see").body == "see"


def test_the_speaker_is_named_where_there_is_a_name() -> None:
    assert Message("user", "hi", name="Ana").speaker == "Ana"
    assert Message("user", "hi").speaker == "user"


def test_messages_compare_by_what_they_are_not_by_the_form_they_came_in() -> None:
    assert Message("user", "hi", original={"a": 1}) == Message("user", "hi")


# ------------------------------------------------------------------------------------ sessions


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_two_sessions_share_an_identity_only_when_owner_and_key_agree(a: str, b: str, c: str, d: str) -> None:
    assert (SessionId(a, b).sid == SessionId(c, d).sid) == ((a, b) == (c, d))


@pytest.mark.parametrize(("one", "other"), [(("a", "b:c"), ("a:b", "c")), (("a", "1:b"), ("a1", ":b"))])
def test_colons_in_keys_do_not_mix_sessions_up(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert SessionId(*one).sid != SessionId(*other).sid


# ------------------------------------------------------------------------------------ chains

_texts = st.lists(st.sampled_from(("yes", "no", "maybe")), max_size=8)


def history_hash(texts: list[str]) -> bytes:
    return reduce(extend_history_hash, (Message("user", t).digest for t in texts), EMPTY_HISTORY_HASH)


@given(_texts, _texts)
def test_two_conversations_share_a_chain_only_when_they_are_the_same(
    one: list[str], other: list[str]
) -> None:
    assert (history_hash(one) == history_hash(other)) == (one == other)
