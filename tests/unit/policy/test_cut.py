"""Where a conversation may be cut."""

from __future__ import annotations

from dataclasses import replace

from conversations import call, conversations, message, numbered, result
from hypothesis import example, given
from hypothesis import strategies as st

from onlooker.domain.messages import Message, groups, is_open, tokens_of
from onlooker.policy.plan import newest_within, oldest_chunk

PARALLEL = (message(1), call(2, "a", "b"), result(3, "a"), result(4, "b"), message(5))
WAITING = (message(1), message(2), call(3, "a", "b"), result(4, "a"))


def seqs(messages: tuple[Message, ...] | list[Message]) -> list[int]:
    return [m.seq for m in messages]


def parted(before: list[Message], after: list[Message]) -> bool:
    """Whether a cut between the two stands between a call and a result that directly follows it."""
    start = next((i for i in reversed(range(len(before))) if before[i].role != "tool"), None)
    if start is None or not after or after[0].role != "tool":
        return False
    waiting = {c.id for c in before[start].calls}
    for answer in before[start + 1 :]:
        if answer.answers not in waiting:
            return False  # what comes after another result does not directly follow the call
        waiting.remove(answer.answers)
    return after[0].answers in waiting


# ------------------------------------------------------------------------------------ groups


def test_a_call_stays_with_the_results_that_directly_follow_it() -> None:
    assert [seqs(g) for g in groups(PARALLEL)] == [[1], [2, 3, 4], [5]]


def test_a_result_that_comes_late_has_no_call_to_stay_with() -> None:
    late = (call(1, "a", "b"), result(2, "a"), message(3), result(4, "b"))
    assert [seqs(g) for g in groups(late)] == [[1, 2], [3], [4]]


def test_a_second_result_for_the_same_call_stands_alone() -> None:
    twice = (call(1, "a"), result(2, "a"), result(3, "a"))
    assert [seqs(g) for g in groups(twice)] == [[1, 2], [3]]


def test_a_result_of_another_call_is_not_taken_for_this_one() -> None:
    assert [seqs(g) for g in groups((call(1, "a"), result(2, "b")))] == [[1], [2]]


def test_a_group_is_open_while_a_call_waits_for_its_result() -> None:
    assert is_open((call(1, "a"),))
    assert is_open((call(1, "a", "b"), result(2, "a")))
    assert not is_open((call(1, "a", "b"), result(2, "a"), result(3, "b")))
    assert not is_open((message(1),))


@given(conversations())
def test_groups_are_the_conversation_in_order(said: list[Message]) -> None:
    assert [m for g in groups(said) for m in g] == said


# ------------------------------------------------------------------------------------ the oldest chunk


def test_the_chunk_leaves_what_is_to_stay_raw() -> None:
    assert seqs(oldest_chunk(numbered(10, 10, 10, 10), keep=20)) == [1, 2]
    assert seqs(oldest_chunk(numbered(10, 10, 10, 10), keep=21)) == [1]
    assert oldest_chunk(numbered(10, 10, 10, 10), keep=31) == ()


def test_a_question_is_noted_together_with_its_answer() -> None:
    said = [
        replace(message(n), text=text) for n, text in enumerate(("I ski.", "Since when?", "Since 1998."), 1)
    ]
    two = tokens_of(said[:2])
    assert seqs(oldest_chunk(said, keep=0, max_tokens=two)) == [1]
    assert seqs(oldest_chunk(said[1:], keep=tokens_of(said[2:]))) == [2], "a question alone is noted"


def test_the_chunk_is_about_as_large_as_asked_for() -> None:
    for tokens, chunk in ((20, [1, 2]), (15, [1, 2]), (14, [1])):
        assert seqs(oldest_chunk(numbered(10, 10, 10, 10), keep=0, max_tokens=tokens)) == chunk
    # A short question is noted with its long answer.
    assert seqs(oldest_chunk(numbered(60, 1000, 60, 1000), keep=0, max_tokens=1040)) == [1, 2]
    assert seqs(oldest_chunk(numbered(10, 10, 10, 10), keep=0, max_messages=3)) == [1, 2, 3]


def test_one_group_is_taken_however_large_it_is() -> None:
    assert seqs(oldest_chunk(numbered(500, 10), keep=0, max_tokens=100)) == [1]
    assert seqs(oldest_chunk(PARALLEL[1:], keep=0, max_messages=2)) == [2, 3, 4]


def test_a_call_that_waits_for_its_results_stays_raw() -> None:
    assert seqs(oldest_chunk(WAITING, keep=0)) == [1, 2]
    assert oldest_chunk(WAITING[2:], keep=0) == ()


def test_a_call_that_was_never_answered_is_noted_once_the_conversation_went_on() -> None:
    assert seqs(oldest_chunk((*WAITING, message(5)), keep=0)) == [1, 2, 3, 4, 5]


@given(conversations(), st.integers(0, 3000), st.integers(0, 2000), st.integers(0, 30))
def test_a_chunk_is_a_safe_prefix_that_leaves_enough(
    said: list[Message], keep: int, tokens: int, count: int
) -> None:
    chunk = oldest_chunk(said, keep=keep, max_tokens=tokens, max_messages=count)
    rest = said[len(chunk) :]
    assert list(chunk) == said[: len(chunk)]
    assert not parted(list(chunk), rest)
    first = next(groups(said))
    if chunk:
        assert tokens_of(rest) >= keep
    if len(chunk) > len(first):
        # No farther above the size than it would be below it without its last group.
        last_group = [*groups(chunk)][-1]
        without = tokens_of(chunk) - tokens_of(last_group)
        assert not tokens or tokens_of(chunk) - tokens <= tokens - without
        assert not count or len(chunk) <= count
    last = list(groups(said))[-1]
    if is_open(last):
        assert not set(seqs(list(last))) & set(seqs(chunk))


# ------------------------------------------------------------------------------------ the newest messages


def test_the_newest_that_fit_are_whole_groups() -> None:
    assert seqs(newest_within(PARALLEL, 10)) == [5]
    assert seqs(newest_within(PARALLEL, 39)) == [5]
    assert seqs(newest_within(PARALLEL, 40)) == [2, 3, 4, 5]
    assert newest_within(PARALLEL, 9) == ()


@example([call(1, "a", "a", "b"), result(2, "a"), result(3, "a"), result(4, "b")], 10)
@given(conversations(), st.integers(0, 5000))
def test_the_newest_are_a_suffix_that_fits_and_could_not_be_longer(said: list[Message], room: int) -> None:
    chosen = list(newest_within(said, room))
    left_out = said[: len(said) - len(chosen)]
    assert chosen == said[len(left_out) :]
    assert tokens_of(chosen) <= room
    assert not parted(left_out, chosen)
    if left_out:
        assert tokens_of(chosen) + tokens_of(list(groups(left_out))[-1]) > room
