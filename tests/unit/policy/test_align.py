"""How a history relates to what is recorded, for everything that hosts do to their histories."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.growth import assert_not_quadratic

from onlooker.domain.messages import GENERATED_ID_PREFIX, Message, Role, ToolCall
from onlooker.domain.notes import MessageDigest
from onlooker.policy.align import Alignment, Comparison, Rewind, SentRange, compare, decide, relate

ROLES: tuple[Role, Role] = ("user", "assistant")


def talk(*texts: str, ids: bool = False) -> list[Message]:
    """User and assistant in turn."""
    return [Message(ROLES[i % 2], t, id=f"host-{t}" if ids else "") for i, t in enumerate(texts)]


def stored(messages: Sequence[Message], first: int = 1) -> list[Message]:
    """As the store has them: with ids of ours where the host gave none."""
    return [replace(m, seq=i, id=m.id or f"{GENERATED_ID_PREFIX}{i}") for i, m in enumerate(messages, first)]


def align(
    history: Sequence[Message],
    record: Sequence[Message],
    sent: SentRange | None = None,
    *,
    first: int = 1,
    whole: bool = True,
    rewind: Rewind = "auto",
) -> Alignment:
    recorded = stored(record, first)
    found = compare(history, [MessageDigest(m.seq, m.id, m.role, m.digest) for m in recorded], whole=whole)
    unclear = set(found.unclear)
    return decide(found, {m.seq: m for m in recorded if m.seq in unclear}, sent, rewind)


def outcome(found: Alignment, record: Sequence[Message]) -> list[str]:
    """The conversation that the record becomes."""
    follow = [record[f - 1] if isinstance(f, int) else f for f in found.follow]
    return [m.text for m in (*record[: found.keep], *follow)]


HELLO = talk("hello there", "how can I help?", "what is the weather?", "it is sunny", "and tomorrow?", "rain")
# The host sent all of it but the last answer, turn by turn.
TURN_BY_TURN = SentRange(1, 5, opening=1)

# ------------------------------------------------------------------------------------ a history that goes on


def test_a_history_that_goes_on_adds_what_is_new() -> None:
    history = [*HELLO, *talk("thanks a lot")]
    found = align(history, HELLO)
    assert (found.keep, found.follow, found.retired) == (6, (history[6],), ())


def test_the_same_history_again_changes_nothing() -> None:
    found = align(HELLO, HELLO)
    assert (found.keep, found.follow, found.newest) == (6, (), None)
    assert not found.diverges


def test_the_first_history_is_recorded_whole() -> None:
    assert align(HELLO, []).follow == tuple(HELLO)


def test_an_empty_history_takes_nothing_back() -> None:
    assert not align([], HELLO, TURN_BY_TURN).diverges


def test_a_host_that_sends_only_what_is_new_goes_on() -> None:
    new = talk("a new question", "a new answer")
    found = align(new, HELLO)
    assert (found.keep, found.follow) == (6, tuple(new))


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_a_host_that_trimmed_its_past_takes_nothing_back(cut: int) -> None:
    history = [*HELLO[cut:], *talk("thanks a lot")]
    found = align(history, HELLO, TURN_BY_TURN)
    assert (found.preface, found.keep, found.follow, found.retired) == (0, 6, (history[-1],), ())


def test_a_host_that_leaves_out_the_middle_takes_nothing_back() -> None:
    history = [*HELLO[:2], *HELLO[4:], *talk("thanks a lot")]
    found = align(history, HELLO, TURN_BY_TURN)
    assert (found.keep, found.follow, found.retired) == (6, (history[-1],), ())


def test_a_marker_in_place_of_the_middle_takes_nothing_back() -> None:
    history = [*HELLO[:2], Message("user", "[2 messages left out]"), *HELLO[4:]]
    assert align(history, HELLO, TURN_BY_TURN).retired == ()


def test_a_summary_in_front_is_passed_on_and_not_recorded() -> None:
    summary = Message("user", "Summary: we greeted each other")
    history = [summary, *HELLO[3:], *talk("thanks a lot")]
    found = align(history, HELLO, TURN_BY_TURN)
    assert (found.preface, found.keep, found.follow, found.retired) == (1, 6, (history[-1],), ())


def test_part_of_a_long_record_is_enough_to_find_the_place() -> None:
    history = [*HELLO[2:], *talk("thanks a lot")]
    found = align(history, HELLO[2:], first=3, whole=False)
    assert (found.keep, found.follow, found.retired) == (6, (history[-1],), ())


# ------------------------------------------------------------------------------------ in doubt, keep


def test_a_greeting_said_again_is_new() -> None:
    record = talk("hi", "Hello!", "I'm allergic to peanuts")
    again = talk("hi")
    found = align(again, record, SentRange(1, 3, opening=1))
    assert (found.keep, found.follow, found.retired) == (3, tuple(again), ())


@pytest.mark.parametrize("ids", [True, False])
def test_a_short_message_said_again_with_context_is_new_and_replaces_nothing(ids: bool) -> None:
    record = [*HELLO[:2], Message("user", "thanks"), *HELLO[3:5]]
    again = Message("user", "<context>page 3</context>\n\nthanks", id="host-99" if ids else "")
    found = align([again], record, SentRange(1, 5, opening=1))
    assert (found.keep, found.follow, found.retired) == (5, (again,), ())


def test_a_restart_that_begins_with_the_same_examples_goes_on() -> None:
    examples = talk("Translate: cat", "Katze, which is feminine")
    record = [*examples, *talk("Translate: dog", "Hund", "and mouse?", "Maus")]
    history = [*examples, Message("user", "Translate: a very large house")]
    found = align(history, record, SentRange(1, 6, opening=3))
    assert (found.follow, found.retired) == ((history[2],), ())


def test_without_knowing_what_the_host_sent_last_nothing_the_user_said_is_taken_back() -> None:
    history = [*HELLO[:2], *talk("something else entirely")]
    found = align(history, HELLO)
    assert (found.keep, found.follow, found.retired) == (6, (history[2],), ())


def test_a_host_may_say_that_nothing_is_ever_taken_back() -> None:
    history = [*HELLO[:4], *talk("something else entirely")]
    assert align(history, HELLO, TURN_BY_TURN).retired == (5, 6)
    assert align(history, HELLO, TURN_BY_TURN, rewind="never").retired == ()


def test_an_edited_beginning_is_recorded_and_takes_nothing_back() -> None:
    history = [Message("user", "good morning, I am Eva"), *HELLO[1:], *talk("thanks")]
    found = align(history, HELLO, TURN_BY_TURN)
    rest = [m.text for m in HELLO[1:]]
    assert outcome(found, HELLO) == ["hello there", "good morning, I am Eva", *rest, "thanks"]
    long = talk(*(f"this was said as number {i}" for i in range(100)))
    found = align([Message("user", "It is 14:05"), *long[1:], *talk("thanks")], long)
    assert [f.text for f in found.follow if isinstance(f, Message)] == ["It is 14:05", "thanks"]
    assert found.keep == 100


def test_the_last_call_made_again_adds_nothing_and_ends_with_its_question() -> None:
    found = align(HELLO[:3], HELLO[:4], SentRange(1, 3, opening=3), rewind="never")
    assert (found.follow, found.retired, found.newest) == ((), (), 3)


def test_where_others_spoke_since_the_newest_message_is_found_however_the_record_changes() -> None:
    """A second tab asked after this one: the prompt for the first still ends with its own question."""
    record = [*HELLO, Message("user", "no"), Message("user", "who brings the boat?")]
    decorated = replace(record[6], text="no\n\n<context>page 3</context>")
    edited = replace(HELLO[2], text="is it cold in Oslo?")
    longer = talk("no, I have to work then")
    for history, newest in (
        ([*HELLO, decorated], decorated.text),  # it replaces what it had before
        ([*HELLO[:2], edited, *HELLO[3:], record[6]], "no"),  # it moves behind an edit
        ([*HELLO, record[6]], "no"),
        ([*HELLO[:2], edited, *HELLO[3:], *longer], longer[0].text),
    ):
        found = align(history, record, SentRange(1, 7, opening=1))
        seqs = [*range(1, found.keep + 1), *range(9, 9 + len(found.follow))]
        texts = dict(zip(seqs, outcome(found, record), strict=True))
        assert texts[found.newest or seqs[-1]] == newest


def test_a_history_that_others_spoke_after_is_not_recorded_again() -> None:
    """Two tabs, and nothing is taken back: what one of them edited stands twice, the rest once."""
    call = Message("assistant", "", calls=(ToolCall("c1", "look"),))
    result = Message("tool", "in row 7", answers="c1")
    edited = Message("user", "is it cold in Oslo?")
    record = [*HELLO[:3], edited, *HELLO[3:], call, result, Message("user", "who brings the boat?")]
    for history in ([*HELLO[:2], edited, *HELLO[3:], call, result], HELLO[1:3]):
        found = align(history, record, SentRange(9, 9, opening=1), rewind="never")
        assert (found.follow, found.retired) == ((), ())
        assert found.newest is not None
        assert record[found.newest - 1] == history[-1]


def test_a_tool_call_before_a_window_is_no_summary() -> None:
    """A host that records its answers, and hands over a window that begins with a call of its last turn."""
    record = talk("What does it weigh?", "It weighs 24 kg, as I see.")
    call = Message("assistant", "", calls=(ToolCall("c1", "scale"),))
    result = Message("tool", "24", answers="c1")
    asked = Message("user", "And the other one?")
    found = align([call, result, record[1], asked], record, SentRange(1, 1, opening=1))
    assert (found.preface, found.keep, found.follow) == (0, 1, (call, result, 2, asked))


def test_a_result_that_was_first_seen_blanked_is_recorded_once_it_is_there() -> None:
    call = Message("assistant", "", calls=(ToolCall("c1", "scale"),))
    blank = Message("tool", "[Old tool result content cleared]", answers="c1")
    whole = Message("tool", "24 kg", answers="c1")
    record = [Message("user", "What does it weigh?"), call, blank]
    found = align([*record[:2], whole, Message("user", "Thank you")], record, SentRange(1, 3, opening=1))
    assert outcome(found, record) == ["What does it weigh?", "", "24 kg", "Thank you"]


def test_a_common_beginning_means_nothing_where_the_record_is_only_the_end() -> None:
    record = talk("hello there", "again?", "yes, again", "I see", "what now", "nothing")
    history = [record[0], Message("user", "something new")]
    found = align(history, record, first=50, whole=False)
    assert (found.keep, found.retired) == (55, ())
    assert history[1] in found.follow


def test_one_short_message_behind_something_unknown_is_no_common_ground() -> None:
    record = talk("do you like it?", "I do", "really?", "yes")
    history = [Message("user", "tell me of Oslo"), Message("assistant", "yes"), Message("user", "go on")]
    found = align(history, record)
    assert (found.keep, found.follow) == (4, tuple(history))


def test_one_short_message_in_another_form_is_no_common_ground_either() -> None:
    record = talk("do you like it?", "I do", " yes \n")
    history = [Message("user", "tell me of Oslo"), Message("assistant", "It rains."), Message("user", "yes")]
    found = align(history, record)
    assert (found.keep, found.preface, found.follow) == (3, 0, tuple(history))
    # Alone it may be the last call made again, or said again after a restart: at worst it stands twice.
    assert align(history[-1:], record).follow == (history[-1],)
    assert align(history[-1:], record[-1:]).follow == ()  # all that both have is the same


def test_a_telling_message_under_a_new_id_is_the_same_where_a_window_begins() -> None:
    record = [Message("user", "which ferry goes to Bodø?", id="first")]
    history = [replace(record[0], id="second"), *talk("the late one", "thanks a lot")]
    assert outcome(align(history, record), record) == [m.text for m in history]


# ------------------------------------------------------------------------------------ taken back, on proof


def found_in(history: Sequence[Message], record: Sequence[Message], *, whole: bool = True) -> Comparison:
    recorded = [MessageDigest(m.seq, m.id, m.role, m.digest) for m in stored(record)]
    return compare(history, recorded, whole=whole)


def test_one_short_message_under_another_id_of_the_host_is_another() -> None:
    again = Message("user", "yes", id="second")
    record = [Message("user", "yes", id="first")]
    assert align([again], record).follow == (again,)
    assert align([Message("user", "yes", id="first")], record).follow == ()


def test_something_in_a_window_of_short_messages_is_new() -> None:
    record = talk("where do we go from here?", "on", "yes", "ok", "yes")
    found = align(talk("yes", "ok", "yes"), record)
    assert outcome(found, record) == [*(m.text for m in record), "ok", "yes"]


def test_short_messages_beside_a_telling_one_are_the_same() -> None:
    record = talk(
        "a first question of mine", "ok", "a second question of mine", "yes", "a third one of mine", "on"
    )
    history = [*talk("another first question"), *record[1:4]]
    assert found_in(history, record).found == {1: 1, 2: 2, 3: 3}


def test_three_short_messages_in_a_row_are_no_coincidence() -> None:
    record = talk("a", "b", "c", "d", "e", "f")
    assert found_in(talk("x", "b", "c", "d", "y"), record).found == {1: 1, 2: 2, 3: 3}
    assert found_in(talk("x", "b", "c", "y"), record).found == {}


def test_messages_that_are_no_coincidence_outweigh_a_short_one_at_the_end() -> None:
    start = talk("ok", "noted", "a first question of mine", "an answer to the first one", "y")
    record = [*start, *talk("what do you mean?", "go on", "fine", "ok")]
    record = [replace(m, role=ROLES[i % 2]) for i, m in enumerate(record)]
    skipped = Message("user", "3 messages were skipped here.")
    history = [*record[:2], skipped, *record[5:], *talk("a second question of mine")]
    found = align(history, record, SentRange(1, 9, opening=1))
    assert found.retired == ()
    added = Counter(outcome(found, record)) - Counter(m.text for m in record)
    assert added <= Counter([skipped.text, history[-1].text])


def test_before_an_edit_short_messages_are_the_same() -> None:
    start = talk("hi", "Hello!", "I need a boat for Friday", "Which harbour is it?", "Bodø", "hello")
    start += talk("How can I help?")
    record = [*start, *talk("hello", "How can I help?", "a train to Oslo, please", "For how many people?")]
    edited = Message("user", "a train to Bergen, please")
    history = [*record[7:9], edited, record[10], *talk("for three of us")]
    found = align(history, record, None)
    assert (found.preface, found.retired) == (0, ())
    assert outcome(found, record) == [m.text for m in (*record[:10], edited, record[10], history[-1])]


@pytest.mark.parametrize(("short", "certain"), [(2, False), (3, True)])
def test_the_end_of_a_record_is_certain_with_three_messages_behind_something_unknown(
    short: int, certain: bool
) -> None:
    record = talk("a", "b", "c", "d", "e", "f")
    history = [Message("user", "a summary"), *record[-short:]]
    assert len(found_in(history, record, whole=False).found) == short
    assert found_in(history, record, whole=False).is_certain == certain


def test_a_regenerated_answer_retires_the_one_before() -> None:
    history = [*HELLO[:5], Message("assistant", "more sun")]
    found = align(history, HELLO)
    assert (found.keep, found.follow, found.retired) == (5, (history[5],), (6,))
    assert found.diverges


def test_an_answer_about_to_be_regenerated_is_retired() -> None:
    found = align(HELLO[:5], HELLO, TURN_BY_TURN)
    assert (found.keep, found.follow, found.retired) == (5, (), (6,))


def test_a_branch_leaves_what_came_after_it() -> None:
    history = [*HELLO[:2], *talk("something else entirely", "as you like")]
    found = align(history, HELLO, TURN_BY_TURN)
    assert (found.keep, found.follow, found.retired) == (2, tuple(history[2:]), (3, 4, 5, 6))


def test_a_history_that_stops_earlier_takes_the_rest_back() -> None:
    assert align(HELLO[:2], HELLO, TURN_BY_TURN).retired == (3, 4, 5, 6)


def test_after_an_edited_message_later_ones_keep_their_identity() -> None:
    edited = replace(HELLO[2], text="is it cold in Oslo?")
    found = align([*HELLO[:2], edited, *HELLO[3:]], HELLO, TURN_BY_TURN)
    assert (found.keep, found.follow, found.retired) == (2, (edited, 4, 5, 6), (3,))


def test_a_marker_in_place_of_one_message_takes_nothing_back() -> None:
    skipped = Message("user", "Skipped 1 messages.")
    found = align([*HELLO[:2], skipped, *HELLO[3:]], HELLO, TURN_BY_TURN)
    assert (found.keep, found.follow, found.retired) == (3, (skipped, 4, 5, 6), ())


MARKERS = (
    "Skipped {} messages.",
    "[{} earlier turns omitted]",
    "… {} messages left out …",
    "（已省略 {} 条消息）",
)


@pytest.mark.parametrize("marker", MARKERS)
def test_a_marker_that_counts_what_it_stands_for_is_not_recorded(marker: str) -> None:
    skipped = Message("user", marker.format(3))
    found = align([*HELLO[:1], skipped, *HELLO[4:]], HELLO, TURN_BY_TURN)
    assert (found.keep, found.follow, found.retired) == (6, (), ())


@pytest.mark.parametrize(
    "between",
    [
        Message("user", "Show me 2 messages."),  # two are missing there, but it is the newest
        Message("user", "I bought 3 apples"),
        Message("user", "Skipped 3 messages.", id="own"),
    ],
)
def test_what_may_be_said_between_is_recorded(between: Message) -> None:
    is_newest = "Show" in between.text
    history = [*HELLO[:1], between] if is_newest else [*HELLO[:1], between, *HELLO[4:]]
    assert between in align(history, HELLO, TURN_BY_TURN, rewind="never").follow


def test_a_message_put_in_between_moves_the_later_ones_and_retires_nothing() -> None:
    between = Message("user", "wait a moment, please")
    found = align([*HELLO[:4], between, *HELLO[4:]], HELLO, TURN_BY_TURN)
    assert (found.keep, found.follow, found.retired) == (4, (between, 5, 6), ())
    assert found.diverges


# ------------------------------------------------------------------------------------ ids


def test_ids_of_the_host_tell_equal_messages_apart() -> None:
    record = talk("hello there", "ok", ids=True)
    again = [*record, replace(record[1], id="another")]
    assert align(again, record).follow == (again[2],)
    other = [record[0], replace(record[1], id="another")]
    found = align(other, record)
    assert (found.keep, found.follow, found.retired) == (1, (other[1],), (2,))


def test_the_same_id_with_another_text_is_an_edit() -> None:
    record = talk("hello there", "how can I help?", "the weather?", "sunny", ids=True)
    edited = replace(record[2], text="is it cold in Oslo?")
    found = align([*record[:2], edited, record[3]], record)
    assert (found.keep, found.follow, found.retired) == (2, (edited, 4), (3,))


def test_ids_of_the_host_prove_a_branch() -> None:
    record = talk("hi", "ok", "one", "ok then", "two", "done", ids=True)
    found = align([*record[:2], Message("user", "three", id="host-three")], record)
    assert found.retired == (3, 4, 5, 6)


def test_a_message_without_an_id_among_those_that_have_one_takes_nothing_back() -> None:
    record = talk("hello there", "how can I help?", "the weather?", "sunny", ids=True)
    skipped = Message("user", "1 message was skipped.")
    assert align([*record[:2], skipped, record[3]], record).retired == ()


def test_a_summary_without_an_id_in_the_place_of_one_message_is_no_edit_of_it() -> None:
    record = talk("hello there", "how can I help?", "the weather?", "sunny", ids=True)
    summary = Message("assistant", "Earlier: they greeted each other.")
    found = align([summary, *record[2:]], record, SentRange(2, 4))
    assert (found.preface, found.follow, found.retired) == (1, (), ())


def test_a_call_whose_results_come_back_changes_with_them() -> None:
    call = Message("assistant", "", "of-1", calls=(ToolCall("1", "look"),))
    record = [*talk("hello there", ids=True), call, Message("user", "never mind", "n")]
    result = Message("tool", "row 7", "r", answers="1")
    found = align([*record[:2], result], record)
    assert (found.keep, found.follow, found.retired) == (1, (2, result), (3,))


def test_ids_that_are_new_with_every_call_say_nothing() -> None:
    record = [replace(m, id=f"first-{i}") for i, m in enumerate(HELLO)]
    history = [
        *(replace(m, id=f"second-{i}") for i, m in enumerate(HELLO)),
        Message("user", "thanks", id="x"),
    ]
    found = align(history, record)
    assert (found.keep, found.follow) == (6, (history[-1],))


def test_an_id_that_we_gave_says_nothing_about_the_hosts_message() -> None:
    with_ids = [replace(m, id=f"host-{i}") for i, m in enumerate(HELLO)]
    assert not align(with_ids, HELLO).follow
    assert not align(HELLO, with_ids).follow


# ------------------------------------------------------------------------------------ one message, two forms


@pytest.mark.parametrize(
    ("ours", "theirs", "relation"),
    [
        ("where is it?", "where is it? \n", "lost"),
        ("where is it?", "where is it?\n\n<context>page 3</context>", "lost"),
        ("", "a long answer", "lost"),
        ("[Old content removed]", "a long answer with a number, 88-1431", "lost"),
        ("[Old message content cleared]", "no, blue", "lost"),
        ("I removed it", "where are the keys for the old door?", "other"),
        ("A long answer that begins like this…", "A long answer that begins like this and goes on.", "lost"),
        ("a line\n\nwhere is it?", "where is it?", "fuller"),
        ("My name is Eva", "My name is Ana", "other"),
        ("Order 88-1432 is late", "Order 88-1431 is late", "other"),
        ("yes", "yes, but only on the Fridays of this month", "other"),
        ("cancel the order", "please do not cancel the order that I placed", "lost"),
    ],
)
def test_a_message_that_only_lost_content_is_the_same(ours: str, theirs: str, relation: str) -> None:
    assert relate(Message("user", ours), Message("user", theirs)) == relation


@pytest.mark.parametrize("text", ["88-1431 is in Oslo, in row 7", "7"])
def test_a_tool_result_that_was_blanked_is_the_same(text: str) -> None:
    call = Message("assistant", "", calls=(ToolCall("c1", "look"),))
    result = Message("tool", text, answers="c1")
    record = [Message("user", "where is parcel 88-1431?"), call, result, Message("assistant", "In Oslo.")]
    for blank in ("[cleared]", "[Old tool result content cleared to save room]", "…", ""):
        blanked = [*record[:2], replace(result, text=blank), record[3], Message("user", "thanks a lot")]
        found = align(blanked, record, SentRange(1, 3, opening=1))
        assert (found.keep, found.follow, found.retired) == (4, (blanked[-1],), ())


@pytest.mark.parametrize("first", ["", "I look for parcel 88-1431 in the…"])
def test_what_is_said_beside_calls_is_recorded_though_it_was_seen_without_at_first(first: str) -> None:
    call = Message("assistant", first, calls=(ToolCall("c1", "look"),))
    rest = [Message("tool", "In Oslo.", answers="c1"), Message("assistant", "It is in Oslo.")]
    record = [Message("user", "where is parcel 88-1431?"), call, *rest]
    whole = replace(call, text="I look for parcel 88-1431 in the list of Bergen.")
    history = [record[0], whole, *rest, Message("user", "thanks a lot")]
    assert outcome(align(history, record, SentRange(1, 3)), record) == [m.text for m in history]
    assert outcome(align([record[0], call, *history[2:]], history[:4]), history[:4])[1] == whole.text


def test_a_message_that_grows_replaces_its_beginning() -> None:
    record = talk("tell me a story, please", "Once upon a time there was")
    grown = replace(record[1], text="Once upon a time there was a bear.")
    found = align([record[0], grown], record, SentRange(1, 2, opening=1))
    assert (found.keep, found.follow, found.retired) == (1, (grown,), (2,))


# ------------------------------------------------------------------------------------ whatever the host does


class Record:
    """A session as alignment sees it: what is live, what was taken back, and what the host sent last."""

    def __init__(self) -> None:
        self.live: list[Message] = []
        self.retired: list[Message] = []
        self.given: set[str] = set()
        self._sent: SentRange | None = None
        self._last = 0

    def record(self, message: Message) -> None:
        self._last += 1
        ident = message.id or f"{GENERATED_ID_PREFIX}{self._last}"
        self.live.append(replace(message, seq=self._last, id=ident))
        self.given.add(message.text)

    def prepare(self, history: Sequence[Message]) -> None:
        self.given |= {m.text for m in history}
        opening = 0 if self.live else len(history)
        digests = [MessageDigest(m.seq, m.id, m.role, m.digest) for m in self.live]
        found = compare(history, digests)
        by_seq = {m.seq: m for m in self.live}
        contents = {seq: by_seq[seq] for seq in found.unclear}
        decided = decide(found, contents, self._sent)
        self.retired += [by_seq[seq] for seq in decided.retired]
        self.live = [m for m in self.live if m.seq <= decided.keep]
        for item in decided.follow:
            self.record(by_seq[item] if isinstance(item, int) else item)
        opening = self._sent.opening if self._sent else opening
        self._sent = SentRange(decided.sent_from, decided.newest or self._last, opening, decided.preface > 0)
        shown = [m for m in self.live if decided.newest is None or m.seq <= decided.newest]
        assert history[-1].text.strip() in shown[-1].text

    @property
    def texts(self) -> list[str]:
        return [m.text for m in self.live]


def head_and_tail(history: list[Message]) -> list[Message]:
    return history if len(history) <= 8 else history[:2] + history[-6:]


def with_marker(history: list[Message]) -> list[Message]:
    if len(history) <= 8:
        return history
    return [*history[:2], Message("user", f"Skipped {len(history) - 8} messages."), *history[-6:]]


def with_summary(history: list[Message]) -> list[Message]:
    if len(history) < 9:
        return history
    return [Message("user", f"Summary of the {len(history) - 4} messages before."), *history[-4:]]


def decorated(history: list[Message]) -> list[Message]:
    newest = replace(history[-1], text=f"{history[-1].text}\n\n<context>page {len(history)}</context>")
    return [*history[:-1], newest]


def stripped(history: list[Message]) -> list[Message]:
    newest = replace(history[-1], text=f" {history[-1].text}\n")
    return [*history[:-1], newest]


def window(size: int) -> Callable[[list[Message]], list[Message]]:
    return lambda history: history[-size:]


VIEWS: dict[str, Callable[[list[Message]], list[Message]]] = {
    "whole": list,
    **{f"window of {n}": window(n) for n in range(1, 11)},
    "head and tail": head_and_tail,
    "head, marker and tail": with_marker,
    "own summary": with_summary,
    "decorates the newest": decorated,
    "strips what is old": stripped,
}
# Short messages repeat in any order, but a window of nothing else says nothing.
SHORT = ("yes", "ok", "go on", "no", "thanks")


@pytest.mark.parametrize("marker", MARKERS)
def test_a_marker_that_counts_otherwise_is_recorded_once_at_most(marker: str) -> None:
    record, history = Record(), list[Message]()
    for turn in range(60):
        history += talk(f"This is what I said in turn {turn}.")
        left_out = len(history) - 8
        skipped = Message("user", marker.format(f"{left_out * 130:,}"))
        record.prepare([*history[:2], skipped, *history[-6:]] if left_out > 1 else history)
        history += [Message("assistant", f"This is answer {turn}.")]
        record.record(history[-1])
    assert len([text for text in record.texts if not text.startswith("This is")]) <= 1
    assert [text for text in record.texts if text.startswith("This is")] == [m.text for m in history]


@pytest.mark.parametrize("name", VIEWS)
@given(seed=st.integers(0, 2**32))
def test_without_edits_everything_that_was_said_stays_in_order(name: str, seed: int) -> None:
    chance = random.Random(seed)
    view, record = VIEWS[name], Record()
    said: list[str] = []
    history: list[Message] = []
    ids, restart = chance.random() < 0.3, chance.randrange(20)
    for turn in range(chance.randint(1, 14)):
        short = chance.random() < 0.4
        text = chance.choice(SHORT) if short else f"This is what I said in turn {turn}."
        history.append(Message("user", text, id=f"u{turn}" if ids else ""))
        *before, newest = view(history)
        # A page of its own: what is retrieved for two messages is not the same, word for word.
        record.prepare([*before, replace(newest, text=newest.text.replace("page ", f"page {turn}-"))])
        answer = f"This is answer {turn}." if short or chance.random() < 0.5 else "ok"
        history.append(Message("assistant", answer, id=f"a{turn}" if ids else ""))
        said += [text, answer]
        if chance.random() < 0.3 or name == "window of 1" or turn == restart:
            record.record(history[-1])
        if turn == restart:
            history = []
    live = [t.split("\n\n<context>")[0].strip() for t in record.texts]
    said = said if live and live[-1] == said[-1] else said[:-1]
    assert Counter(said) - Counter(live) == Counter()
    rest = iter(live)
    assert all(any(text == other for other in rest) for text in said)
    assert record.retired == [] or name in ("decorates the newest", "strips what is old")


def blanked(history: list[Message]) -> list[Message]:
    """Old tool results as hosts blank them, with more or fewer words than they had."""
    texts = ("[cleared]", "[Old tool result content cleared]", "")
    return [
        replace(m, text=texts[i % 3]) if m.answers and i < len(history) - 3 else m
        for i, m in enumerate(history)
    ]


def decorated_before(history: list[Message]) -> list[Message]:
    newest = replace(history[-1], text=f"<context>page {len(history)}</context>\n\n{history[-1].text}")
    return [*history[:-1], newest]


MIXED = {**VIEWS, "blanks": blanked, "decorates before": decorated_before}


@given(seed=st.integers(0, 2**32))
def test_a_host_that_does_several_things_in_one_conversation_loses_nothing(seed: int) -> None:
    """It sends another view with each call, restarts, and calls tools. Answers are recorded at once."""
    chance = random.Random(seed)
    views = chance.sample(list(MIXED.values()), 3)
    record, history, said, pages = Record(), list[Message](), Counter[str](), count()

    def prepare() -> None:
        *before, newest = chance.choice(views)(list(history))
        record.prepare([*before, replace(newest, text=newest.text.replace("page ", f"page {next(pages)}-"))])

    def add(*messages: Message) -> None:
        history.extend(messages)
        said.update(m.text for m in messages)

    for turn in range(chance.randint(1, 14)):
        if chance.random() < 0.1:
            history.clear()
        add(
            Message("user", chance.choice(SHORT) if chance.random() < 0.5 else f"I said this in turn {turn}.")
        )
        prepare()
        if chance.random() < 0.4:
            call = Message("assistant", "", calls=(ToolCall(f"c{turn}", "look"),))
            add(call, Message("tool", f"row {turn}", answers=f"c{turn}"))
            for message in history[-2:]:
                record.record(message)
            prepare()
        add(Message("assistant", "ok" if chance.random() < 0.3 else f"This is answer {turn}."))
        record.record(history[-1])
    live = Counter(re.sub(r"\s*<context>.*</context>\s*", "", t).strip() for t in record.texts)
    assert said - live == Counter()


@pytest.mark.parametrize("change", ["regenerate", "branch", "edit", "there and back"])
@given(seed=st.integers(0, 2**32))
def test_with_edits_everything_is_live_or_marked_as_taken_back(change: str, seed: int) -> None:
    chance = random.Random(seed)
    record = Record()
    history: list[Message] = []
    other: list[Message] = []
    for turn in range(chance.randint(2, 14)):
        history.append(Message("user", f"This is what I said in turn {turn}."))
        record.prepare(history)
        history.append(Message("assistant", f"This is answer {turn}."))
        if chance.random() < 0.3:
            record.record(history[-1])
        if chance.random() < 0.6:
            continue
        match change:
            case "regenerate":
                history[-1] = Message("assistant", f"Another answer in turn {turn}.")
            case "branch":
                history = history[: chance.randrange(2, len(history) + 1, 2)]
            case "there and back":
                other, history = history, other or history[: chance.randrange(2, len(history) + 1, 2)]
            case _:
                place = chance.randrange(0, len(history), 2)
                history[place] = Message("user", f"This was edited in turn {turn}.")
    history.append(Message("user", "This is the end of it."))
    record.prepare(history)
    assert record.given <= {m.text for m in (*record.live, *record.retired)}
    assert record.texts[-1] == history[-1].text
    rest = iter(record.texts)
    assert all(any(m.text == other for other in rest) for m in history)


@pytest.mark.parametrize("size", [2, 3, 4, 6])
@given(seed=st.integers(0, 2**32))
def test_whatever_a_window_has_is_kept_though_its_first_message_is_edited(size: int, seed: int) -> None:
    """Without ids and without answers recorded: all that was ever handed over is live or marked."""
    chance = random.Random(seed)
    record, history = Record(), list[Message]()
    for turn in range(chance.randint(2, 14)):
        history.append(Message("user", f"This is what I said in turn {turn}."))
        record.prepare(history[-size:])
        if chance.random() < 0.4:
            place = max(0, len(history) - size)
            history[place] = replace(history[place], text=f"Said in other words, in turn {turn}.")
            record.prepare(history[-size:])
        history.append(Message("assistant", f"This is answer {turn}."))
        if chance.random() < 0.5:
            record.record(history[-1])
    assert record.given <= {m.text for m in (*record.live, *record.retired)}


def test_an_early_edit_of_a_long_record_is_aligned_in_good_time() -> None:
    def aligned(count: int) -> None:
        record = talk(*(f"this was said as number {i}" for i in range(count)))
        history = [*record[:4], Message("user", "said in other words"), *record[5:]]
        assert align(history, record, SentRange(1, count, opening=1)).retired == (5,)

    assert_not_quadratic(aligned, 8_000)


def test_a_long_record_of_equal_messages_is_aligned_in_good_time() -> None:
    def aligned(count: int) -> None:
        record = talk(*["ok"] * count)
        found = align([*record[:-1], Message("assistant", "fine")], record)
        assert (found.keep, found.retired) == (count - 1, (count,))

    assert_not_quadratic(aligned, 16_000)
