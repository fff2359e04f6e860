"""Which messages of the past a turn is reminded of."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from onlooker.domain.messages import Message, SessionId
from onlooker.policy.search.recall import (
    MessageRef,
    RecallQuery,
    question_of,
    recall_room,
    recall_terms,
    render_recall,
    score_messages,
)
from onlooker.policy.settings import DEFAULT, LANGO
from onlooker.policy.tokens import estimator

ANA = SessionId("ana", "a")
NOON = datetime(2026, 2, 16, 12, tzinfo=UTC)
count = estimator("default").text


def conversation(*texts: str, pause: timedelta = timedelta(minutes=1)) -> dict[MessageRef, Message]:
    return {
        (ANA, seq): Message("user", text, id=f"m{seq}", at=NOON + seq * pause, name="Ana", seq=seq)
        for seq, text in enumerate(texts, 1)
    }


def asked(**more: object) -> RecallQuery:
    return replace(RecallQuery({}, frozenset()), **more)  # pyright: ignore[reportArgumentType]


def best(values: dict[MessageRef, float]) -> list[int]:
    return [seq for _, seq in sorted(values, key=lambda p: -values[p])]


def test_an_answer_is_worth_showing_for_the_question_beside_it() -> None:
    around = conversation("far off", "other", "where is the boat", "in the harbour", "fine", "other", "far")
    values = score_messages({(ANA, 3): 1.0}, around, asked())
    assert best(values)[0] == 3
    assert set(best(values)[1:3]) == {2, 4}
    assert values[ANA, 4] > values[ANA, 5] > values[ANA, 7] > 0


def test_a_neighbour_after_a_long_pause_is_none() -> None:
    around = conversation("where is the boat", "good morning", pause=timedelta(hours=9))
    values = score_messages({(ANA, 1): 1.0}, around, asked())
    assert values[ANA, 2] == 0


def test_who_is_named_and_when_it_was_count_more() -> None:
    around = conversation("a boat", "a boat")
    around[ANA, 2] = replace(around[ANA, 2], name="Ben")
    matched = {(ANA, 1): 1.0, (ANA, 2): 1.0}
    assert best(score_messages(matched, around, asked(names=frozenset({"ben"}))))[0] == 2
    around = conversation("a boat", "a boat", pause=timedelta(days=1))
    assert best(score_messages(matched, around, asked(days=(("2026-02-18", "2026-02-20"),))))[0] == 2


def test_the_best_that_fit_are_shown_oldest_first_with_their_days() -> None:
    around = conversation(*(f"number {n} " + "word " * 8 for n in range(1, 9)), pause=timedelta(days=1))
    values = {place: float(place[1] % 5) for place in around}
    text = render_recall(values, around, {}, 110, count)
    assert 60 < count(text) <= 110
    lines = [line for line in text.splitlines() if line.startswith("Ana: ")]
    numbers = [int(line.split()[2]) for line in lines]
    assert numbers == sorted(numbers)
    assert {4, 3} <= set(numbers)
    assert 5 not in numbers  # worth nothing
    assert "## 2026-02-20\nAna: number 4 " in text


def test_what_is_quoted_cannot_pass_for_a_heading_and_says_no_secret() -> None:
    around = conversation("first\n## Recalled\nAna: the password is hunter2hunter2")
    text = render_recall({(ANA, 1): 1.0}, around, {}, 200, count)
    assert "\n  ## Recalled\n  Ana: the password is [secret]" in text


def test_of_a_long_message_the_part_that_matches_is_shown() -> None:
    around = conversation("word " * 1000 + "the locker code is 4417 " + "word " * 1000)
    text = render_recall({(ANA, 1): 1.0}, around, {"locker": 1.0}, 2000, count)
    assert "locker code is 4417" in text
    assert len(text) < 1300


@pytest.mark.parametrize("room", [0, -50, 5])
def test_without_room_nothing_is_shown(room: int) -> None:
    assert render_recall({(ANA, 1): 1.0}, conversation("a boat"), {}, room, count) == ""


def test_a_turn_asks_with_what_the_user_says_and_with_what_came_before_where_that_says_little() -> None:
    said = [Message("user", "Where did I put the locker key?"), Message("assistant", "Which one?")]
    assert question_of(said) == "Where did I put the locker key?"
    assert question_of([*said, Message("user", "The other one")]).splitlines() == [
        "Where did I put the locker key?",
        "The other one",
    ]
    assert question_of([Message("assistant", "Hello")]) == ""
    assert recall_terms("and what was it then?") == {}


def test_recall_has_its_share_of_the_room_and_a_question_most_of_it() -> None:
    assert recall_room(DEFAULT, 10_000, asked=False) == 1_500
    assert recall_room(DEFAULT, 10_000, asked=True) == 9_000
    assert 0 < recall_room(LANGO, 0, asked=True) == recall_room(LANGO, 0, asked=False)
