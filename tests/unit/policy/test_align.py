"""How a history relates to what is recorded, for everything that hosts do to their histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.growth import assert_not_quadratic

from onlooker.domain.messages import GENERATED_ID_PREFIX, Message, Role
from onlooker.domain.notes import MessageDigest
from onlooker.policy.align import Alignment, align

ROLES: tuple[Role, Role] = ("user", "assistant")


def talk(*texts: str, ids: bool = False) -> list[Message]:
    """User and assistant in turn."""
    return [Message(ROLES[i % 2], t, id=f"host-{t}" if ids else "") for i, t in enumerate(texts)]


def recorded(messages: Sequence[Message], first: int = 1) -> list[MessageDigest]:
    """As the store has them: with ids of ours where the host gave none."""
    return [
        MessageDigest(i, m.id or f"{GENERATED_ID_PREFIX}{i}", m.role, m.digest)
        for i, m in enumerate(messages, first)
    ]


def outcome(found: Alignment, history: Sequence[Message], record: Sequence[Message]) -> list[Message]:
    """The conversation that the record becomes."""
    follow = [record[f - 1] if isinstance(f, int) else f for f in found.follow]
    return [*record[: found.keep], *follow]


def said(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(m.role, m.text) for m in messages]


HELLO = talk("hello there", "how can I help?", "what is the weather?", "it is sunny", "and tomorrow?", "rain")

# ------------------------------------------------------------------------------------ case by case


def test_a_history_that_goes_on_adds_what_is_new() -> None:
    history = [*HELLO, *talk("thanks a lot")]
    assert align(history, recorded(HELLO)) == Alignment(0, 6, 6, (history[6],), retires=False)


def test_the_same_history_again_changes_nothing() -> None:
    found = align(HELLO, recorded(HELLO))
    assert found == Alignment(0, 6, 6, (), retires=False)
    assert not found.diverges


def test_the_first_history_is_recorded_whole() -> None:
    assert align(HELLO, []) == Alignment(0, 0, 0, tuple(HELLO), retires=False)


def test_a_regenerated_answer_retires_the_one_before() -> None:
    history = [*HELLO[:5], Message("assistant", "more sun")]
    found = align(history, recorded(HELLO))
    assert found == Alignment(0, 5, 5, (history[5],), retires=True)
    assert found.diverges


def test_an_answer_about_to_be_regenerated_is_retired() -> None:
    assert align(HELLO[:5], recorded(HELLO)) == Alignment(0, 5, 5, (), retires=True)


def test_after_an_edited_message_later_ones_keep_their_identity() -> None:
    edited = replace(HELLO[2], text="what is the weather in Oslo?")
    history = [*HELLO[:2], edited, *HELLO[3:]]
    assert align(history, recorded(HELLO)) == Alignment(0, 2, 2, (edited, 4, 5, 6), retires=True)


def test_a_message_put_in_between_moves_the_later_ones_and_retires_nothing() -> None:
    between = Message("user", "wait a moment")
    found = align([*HELLO[:4], between, *HELLO[4:]], recorded(HELLO))
    assert found == Alignment(0, 4, 4, (between, 5, 6), retires=False)
    assert found.diverges


def test_a_branch_leaves_what_came_after_it() -> None:
    history = [*HELLO[:2], *talk("something else entirely", "as you like")]
    assert align(history, recorded(HELLO)) == Alignment(0, 2, 2, tuple(history[2:]), retires=True)


def test_a_history_that_stops_earlier_takes_the_rest_back() -> None:
    assert align(HELLO[:2], recorded(HELLO)) == Alignment(0, 2, 2, (), retires=True)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_a_host_that_trimmed_its_past_takes_nothing_back(cut: int) -> None:
    history = [*HELLO[cut:], *talk("thanks a lot")]
    found = align(history, recorded(HELLO))
    assert (found.preface, found.keep, found.retires) == (0, 6, False)
    assert found.follow == (history[-1],)


def test_a_host_that_trimmed_and_regenerates_takes_the_answer_back() -> None:
    found = align([*HELLO[2:5], Message("assistant", "more sun")], recorded(HELLO))
    assert (found.keep, found.retires, len(found.follow)) == (5, True, 1)


def test_a_summary_in_front_is_passed_on_and_not_recorded() -> None:
    summary = Message("user", "Summary: we greeted each other")
    history = [summary, *HELLO[2:], *talk("thanks a lot")]
    found = align(history, recorded(HELLO))
    assert (found.preface, found.matched, found.keep, found.retires) == (1, 5, 6, False)
    assert found.follow == (history[-1],)


def test_a_first_message_that_changes_is_passed_on_and_takes_nothing_back() -> None:
    # Hosts put the time of day or the open files there: were it an edit, every turn would undo all notes.
    found = align([Message("user", "It is now 14:05"), *HELLO[1:]], recorded(HELLO))
    assert (found.preface, found.keep, found.follow, found.retires) == (1, 6, (), False)


def test_a_host_that_sends_only_what_is_new_goes_on() -> None:
    new = talk("a new question", "a new answer")
    assert align(new, recorded(HELLO)) == Alignment(0, 0, 6, tuple(new), retires=False)


def test_an_empty_history_takes_nothing_back() -> None:
    assert align([], recorded(HELLO)) == Alignment(0, 0, 6, (), retires=False)


def test_part_of_a_long_record_is_enough_to_find_the_place() -> None:
    found = align([*HELLO[2:], *talk("thanks a lot")], recorded(HELLO[2:], first=3), whole=False)
    assert (found.preface, found.keep, found.retires) == (0, 6, False)


def test_a_common_beginning_means_nothing_where_the_record_is_only_the_end() -> None:
    # The record shown here starts in the middle: a greeting that occurs there is not its beginning.
    record = talk("hello there", "again?", "yes, again", "I see", "what now", "nothing")
    found = align([record[0], Message("user", "something new")], recorded(record, first=50), whole=False)
    assert found == Alignment(0, 0, 55, (record[0], Message("user", "something new")), retires=False)


# ------------------------------------------------------------------------------------ equal messages


def test_short_messages_that_stand_in_many_places_do_not_mislead() -> None:
    record = talk("start now", "ok", "next", "ok", "next", "ok", "next", "ok")
    history = [*record, *talk("next")]
    assert align(history, recorded(record)) == Alignment(0, 8, 8, (history[8],), retires=False)
    shorter = [*record[:4], Message("user", "stop")]
    found = align(shorter, recorded(record))
    assert said(outcome(found, shorter, record)) == said(shorter)


def test_one_short_message_behind_something_unknown_is_no_common_ground() -> None:
    record = talk("do you like it?", "I do", "really?", "yes")
    history = [Message("user", "tell me of Oslo"), Message("assistant", "yes"), Message("user", "go on")]
    assert align(history, recorded(record)) == Alignment(0, 0, 4, tuple(history), retires=False)


def test_equal_messages_after_an_edit_each_move_once() -> None:
    record = talk("hello there", "ok", "one", "ok", "two", "ok")
    history = [record[0], Message("assistant", "fine"), *record[2:], *talk("three", "ok")]
    found = align(history, recorded(record))
    moved = [f for f in found.follow if isinstance(f, int)]
    assert len(moved) == len(set(moved)) == 5
    assert said(outcome(found, history, record)) == said(history)


# ------------------------------------------------------------------------------------ ids


def test_ids_of_the_host_tell_equal_messages_apart() -> None:
    record = talk("hello there", "ok", ids=True)
    again = [*record, replace(record[1], id="another")]
    assert align(again, recorded(record)).follow == (again[2],)
    other = [record[0], replace(record[1], id="another")]
    found = align(other, recorded(record))
    assert (found.keep, found.follow, found.retires) == (1, (other[1],), True)


def test_the_same_id_with_another_text_is_an_edit() -> None:
    record = talk("hello there", "how can I help?", "the weather?", "sunny", ids=True)
    edited = replace(record[2], text="the weather in Oslo?")
    found = align([*record[:2], edited, record[3]], recorded(record))
    assert found == Alignment(0, 2, 2, (edited, 4), retires=True)


def test_an_id_that_we_gave_says_nothing_about_the_hosts_message() -> None:
    record = talk("hello there", "how can I help?")
    with_ids = [replace(m, id=f"host-{i}") for i, m in enumerate(record)]
    assert align(with_ids, recorded(record)) == Alignment(0, 2, 2, (), retires=False)
    without = align(record, recorded(with_ids))
    assert without == Alignment(0, 2, 2, (), retires=False)


# ------------------------------------------------------------------------------------ whatever the host does

_words = st.sampled_from(("yes", "ok", "go on", "a longer message that says something"))


@st.composite
def conversations(draw: st.DrawFn, *, distinct: bool, ids: bool) -> list[Message]:
    texts = draw(st.lists(_words, min_size=1, max_size=25))
    if distinct:
        texts = [f"{t}, and this is number {i}" for i, t in enumerate(texts)]
    return [
        Message(ROLES[i % 2] if draw(st.integers(0, 9)) else "user", t, id=f"host-{i}" if ids else "")
        for i, t in enumerate(texts)
    ]


def new_messages(count: int) -> list[Message]:
    return talk(*(f"something that is new, number {i}" for i in range(count)))


@given(conversations(distinct=True, ids=False), st.data())
def test_the_record_becomes_the_conversation_that_the_host_has(
    record: list[Message], data: st.DataObject
) -> None:
    operation = data.draw(st.sampled_from(("go on", "regenerate", "edit", "insert", "remove", "revision")))
    place = data.draw(st.integers(1, max(1, len(record) - 1)))
    added = new_messages(data.draw(st.integers(0, 3)))
    match operation:
        case "regenerate":
            history = [*record[:-1], Message("assistant", "another answer altogether"), *added]
        case "edit":
            history = [*record[:place], Message("user", "said in other words"), *record[place + 1 :], *added]
        case "insert":
            history = [*record[:place], Message("user", "put in between"), *record[place:], *added]
        case "remove":
            history = [*record[:place], *record[place + 1 :], *added]
        case "revision":
            history = [*record[:place], *added]
        case _:
            history = [*record, *added]
    assume(history and said(history[:1]) == said(record[:1]))
    found = align(history, recorded(record))
    assert found.preface == 0
    assert said(outcome(found, history, record)) == said(history)
    kept = {f for f in found.follow if isinstance(f, int)} | set(range(1, found.keep + 1))
    assert found.retires == (len(kept) < len(record))


@given(conversations(distinct=True, ids=False), st.integers(0, 24), st.integers(0, 3), st.integers(0, 2))
def test_a_trimmed_or_summarised_past_stays_recorded(
    record: list[Message], cut: int, count: int, fronts: int
) -> None:
    cut = min(cut, len(record) - 1)
    assume(cut or not fronts)
    front = [Message("user", f"summary {i} of what was said") for i in range(fronts)]
    added = new_messages(count)
    history = [*front, *record[cut:], *added]
    found = align(history, recorded(record))
    assert found.preface == fronts
    assert found.keep == len(record)
    assert found.follow == tuple(added)
    assert not found.retires


@given(st.booleans().flatmap(lambda ids: conversations(distinct=False, ids=ids)), st.data())
def test_nothing_appears_twice_and_the_newest_is_as_the_host_has_it(
    record: list[Message], data: st.DataObject
) -> None:
    pool = [*record, *new_messages(2), Message("user", "ok")]
    history = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=20))
    start = data.draw(st.integers(0, len(record)))
    history = [*record[start : start + data.draw(st.integers(0, 10))], *history]
    found = align(history, recorded(record), whole=data.draw(st.booleans()))
    moved = [f for f in found.follow if isinstance(f, int)]
    assert len(set(moved)) == len(moved)
    assert all(f > found.keep for f in moved)
    result = outcome(found, history, record)
    after_preface = history[found.preface :]
    assert said(result[len(result) - len(after_preface) :]) == said(after_preface)


def test_a_long_record_of_equal_messages_is_aligned_in_good_time() -> None:
    def aligned(count: int) -> None:
        record = talk(*["ok"] * count)
        found = align([*record[:-1], Message("assistant", "fine")], recorded(record))
        assert (found.keep, found.retires) == (count - 1, True)

    assert_not_quadratic(aligned, 16_000)
