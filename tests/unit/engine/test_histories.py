"""What is read of a history that mostly was there before."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.growth import cpu_seconds

from onlooker.domain.errors import MessageError
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, MessageLike, SessionId, extend_history_hash
from onlooker.domain.notes import Progress
from onlooker.engine.histories import (
    Histories,
    Recent,
    RecordedHistory,
    UnreadPart,
    read_on,
    with_originals,
)
from onlooker.policy.intake import as_history, intake_all
from onlooker.policy.render import openai_messages

NOW = datetime(2026, 2, 16, tzinfo=UTC)
SID = "one"


def said(*texts: str) -> list[MessageLike]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": t} for i, t in enumerate(texts)]


def look(histories: Histories, items: Sequence[MessageLike], sid: str = SID) -> UnreadPart:
    return read_on(items, histories.last(sid), at=NOW, tz=UTC)


def texts(unread: UnreadPart) -> list[str]:
    return [m.text for m in unread.messages]


def history_hash(messages: Sequence[Message]) -> bytes:
    return reduce(extend_history_hash, (m.digest for m in messages), EMPTY_HISTORY_HASH)


def recorded(messages: Sequence[Message]) -> Progress:
    return Progress(SessionId("default", "s"), history_hash=history_hash(messages))


def keep(histories: Histories, items: Sequence[MessageLike], sid: str = SID) -> None:
    unread = look(histories, items, sid)
    recorded = RecordedHistory(
        list(items),
        (),
        (),
        history_hash(intake_all(items, at=NOW, tz=UTC)),
        continues=unread.continues,
        earlier=unread.earlier(),
    )
    asyncio.run(histories.keep(sid, recorded))


# ------------------------------------------------------------------------------------ what is new


def test_the_first_history_is_read_whole() -> None:
    unread = look(Histories(), said("a", "b", "c"))
    assert texts(unread) == ["a", "b", "c"]
    assert unread.history_hash == EMPTY_HISTORY_HASH


def test_of_the_next_one_only_what_is_new_is_read() -> None:
    histories = Histories()
    keep(histories, said("a", "b"))
    unread = look(histories, said("a", "b", "c"))
    assert texts(unread) == ["c"]
    assert unread.after(recorded(intake_all(said("a", "b"), at=NOW, tz=UTC))) == unread.messages


def test_only_what_is_new_has_to_be_a_message() -> None:
    histories = Histories()
    keep(histories, said("a", "b"))
    with pytest.raises(MessageError):
        look(histories, [*said("a", "b"), {"role": "nobody"}])


@pytest.mark.parametrize(
    "changed",
    [said("x", "b", "c"), [], [{"role": "system", "content": "Be brief."}, *said("a", "b")]],
)
def test_a_history_that_begins_otherwise_is_read_whole(changed: list[MessageLike]) -> None:
    histories = Histories()
    keep(histories, said("a", "b"))
    unread = look(histories, changed)
    assert len(unread.lead) + len(unread.messages) == len(changed)
    assert unread.history_hash == EMPTY_HISTORY_HASH


@pytest.mark.parametrize("changed", [said("a"), said("a", "x"), said("a", "x", "y")])
def test_a_history_that_went_another_way_is_read_from_there(changed: list[MessageLike]) -> None:
    histories = Histories()
    keep(histories, said("a", "b"))
    unread = look(histories, changed)
    assert len(unread.messages) == len(changed) - 1
    assert unread.history_hash == history_hash(intake_all(said("a"), at=NOW, tz=UTC))
    # It does not continue the record, which has the other way.
    assert unread.after(recorded(intake_all(said("a", "b"), at=NOW, tz=UTC))) is None


def test_a_change_in_place_is_noticed() -> None:
    histories = Histories()
    history: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    keep(histories, history)
    assert look(histories, history).messages == ()
    history[0]["content"][0]["text"] = "b"
    assert texts(look(histories, history)) == ["b"]


def test_items_of_the_responses_api_continue_as_the_chat_messages_that_they_are() -> None:
    histories = Histories()
    history: list[MessageLike] = [
        {"role": "user", "content": "Is it open?"},
        {"type": "function_call", "call_id": "c1", "name": "opening_hours", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "until 18:00"},
    ]
    keep(histories, as_history(history))
    history += [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Until six."}]}
    ]
    unread = look(histories, history)
    assert texts(unread) == ["Until six."]
    assert len(unread.items) == 4


def test_an_item_that_is_no_message_is_named_by_its_place_in_the_whole_history() -> None:
    histories = Histories()
    keep(histories, said("a", "b"))
    with pytest.raises(MessageError, match=r"messages\[3\]: found 5"):
        read_on([*said("a", "b", "c"), 5], histories.last(SID), at=NOW, tz=UTC)


def test_system_messages_at_the_head_are_told_apart() -> None:
    history: list[MessageLike] = [
        {"role": "system", "content": "be kind"},
        {"role": "developer", "content": "be brief"},
    ]
    history += [*said("a"), {"role": "system", "content": "later"}]
    unread = look(Histories(), history)
    assert [m.text for m in unread.lead] == ["be kind", "be brief"]
    assert texts(unread) == ["a", "later"]


def test_what_stands_before_the_record_is_remembered() -> None:
    histories = Histories()
    lead, preface = (Message("system", "be kind"),), (Message("user", "summary"),)
    asyncio.run(histories.keep(SID, RecordedHistory(said("a", "b"), lead, preface, b"hash")))
    unread = look(histories, said("a", "b", "c"))
    assert (unread.lead, unread.preface, unread.history_hash) == (lead, preface, b"hash")


# ------------------------------------------------------------------------------------ where it goes on


def test_a_history_that_goes_on_is_recognised_by_its_chain() -> None:
    messages = intake_all(said("a", "b", "c"), at=NOW, tz=UTC)
    unread = UnreadPart([], (), (), messages, EMPTY_HISTORY_HASH)
    assert unread.after(Progress(SessionId("default", "s"))) == messages
    assert unread.after(recorded(messages[:2])) == messages[2:]
    assert unread.after(recorded(messages)) == ()


def test_a_history_that_does_not_go_on_is_not() -> None:
    messages = intake_all(said("a", "b", "c"), at=NOW, tz=UTC)
    unread = UnreadPart([], (), (), messages, EMPTY_HISTORY_HASH)
    assert unread.after(recorded(intake_all(said("a", "x"), at=NOW, tz=UTC))) is None
    assert unread.after(recorded(intake_all(said("a", "b", "c", "d"), at=NOW, tz=UTC))) is None


# ------------------------------------------------------------------------------------ what is kept


def test_sessions_do_not_mix() -> None:
    histories = Histories()
    keep(histories, said("a"), "one")
    keep(histories, said("x", "y"), "other")
    assert texts(look(histories, said("a", "b"), "one")) == ["b"]
    assert texts(look(histories, said("x", "y", "z"), "other")) == ["z"]


def test_the_sessions_used_longest_ago_are_dropped() -> None:
    histories = Histories(max_bytes=1500)
    for sid in ("first", "second", "first", "third"):
        keep(histories, said("a", "b"), sid)
    assert texts(look(histories, said("a", "b"), "second")) == ["a", "b"]
    assert texts(look(histories, said("a", "b"), "first")) == []
    assert texts(look(histories, said("a", "b"), "third")) == []


def test_one_session_larger_than_all_is_kept_all_the_same() -> None:
    histories = Histories(max_bytes=1500)
    many = said(*"abcdefghij")
    keep(histories, many)
    assert look(histories, many).messages == ()


def test_what_is_kept_stays_within_its_bytes_however_long_the_texts_are() -> None:
    recent: Recent[int, str] = Recent(1_000)
    for n in range(100):
        recent.put(n % 7, "x" * n, 10 * n)
        recent.get(3)
        assert sum(10 * len(recent.get(key) or "") for key in list(recent)) <= max(1_000, 10 * n)
    assert recent.pop(99 % 7) == "x" * 99
    assert 99 % 7 not in list(recent)


def test_a_dropped_session_is_read_whole() -> None:
    histories = Histories()
    keep(histories, said("a", "b"))
    histories.drop(SID)
    histories.drop(SID)
    assert texts(look(histories, said("a", "b"))) == ["a", "b"]


_item = st.sampled_from(said("a", "b", "c"))


@given(st.lists(st.tuples(st.sampled_from(("one", "other")), st.lists(_item, max_size=6)), max_size=12))
def test_reading_what_is_new_is_the_same_as_reading_everything(
    turns: list[tuple[str, list[MessageLike]]],
) -> None:
    histories = Histories(max_bytes=1_000)
    before: dict[str, list[MessageLike]] = {}
    for sid, items in turns:
        goes_on = [*before.get(sid, []), *items] if len(items) % 2 else items
        unread = look(histories, goes_on, sid)
        whole = intake_all(goes_on, at=NOW, tz=UTC)
        assert reduce(
            extend_history_hash, (m.digest for m in unread.messages), unread.history_hash
        ) == history_hash(whole)
        keep(histories, goes_on, sid)
        before[sid] = copy.deepcopy(goes_on)


def marked(items: Sequence[MessageLike], *places: int) -> list[MessageLike]:
    """The items in blocks, some with the mark of a provider's cache."""
    mark = {"cache_control": {"type": "ephemeral"}}
    found: list[MessageLike] = []
    for place, item in enumerate(items, -len(items)):
        assert isinstance(item, Mapping)
        block = {"type": "text", "text": item["content"]} | (mark if place in places else {})
        found.append({**item, "content": [block]})
    return found


@pytest.mark.parametrize("places", [(-1,), (-1, -3), (-2, -1), (-5,)])
def test_marks_that_move_along_with_the_conversation_do_not_make_it_new(places: tuple[int, ...]) -> None:
    histories = Histories()
    many = said(*map(str, range(40)))
    for count in range(20, 40, 2):
        history = marked(many[:count], *places)
        unread = look(histories, history)
        whole = intake_all(history, at=NOW, tz=UTC)
        reached = reduce(extend_history_hash, (m.digest for m in unread.messages), unread.history_hash)
        assert reached == history_hash(whole)
        if count > 20:
            assert len(unread.messages) <= 2 - min(places)
        keep(histories, history)


def test_a_long_history_that_goes_on_costs_little() -> None:
    histories = Histories()
    many = said(*map(str, range(5_000)))
    keep(histories, many)
    longer = [*many, *said("new")]
    assert texts(look(histories, longer)) == ["new"]
    known = cpu_seconds(lambda: look(histories, longer))
    assert known < cpu_seconds(lambda: look(Histories(), longer)) / 2


# ------------------------------------------------------------------------------------ as the host gave it


def test_the_tail_goes_out_in_the_hosts_own_form() -> None:
    history: list[MessageLike] = [*said("a", "b"), {"role": "user", "content": "c", "extra": [1]}]
    stored = tuple(
        replace(m, original=None, seq=i) for i, m in enumerate(intake_all(history, at=NOW, tz=UTC), 1)
    )
    tail = with_originals(stored[1:], history, at=NOW, tz=UTC)
    assert openai_messages(tail) == history[1:]
    assert [m.seq for m in tail] == [2, 3]


def test_a_message_that_the_history_does_not_have_keeps_our_form() -> None:
    history = said("a", "b")
    stored = tuple(Message("user", t, seq=i) for i, t in enumerate(("x", "y", "other"), 1))
    assert with_originals(stored, history, at=NOW, tz=UTC) == stored
    assert all(m.original is None for m in with_originals(stored, history, at=NOW, tz=UTC))


def test_an_item_that_holds_several_messages_is_given_to_each_of_them() -> None:
    results: MessageLike = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "1"},
            {"type": "tool_result", "tool_use_id": "b", "content": "2"},
        ],
    }
    stored = tuple(replace(m, original=None) for m in intake_all([results], at=NOW, tz=UTC))
    assert [m.original for m in with_originals(stored, [results], at=NOW, tz=UTC)] == [results, results]
