"""Which messages of the past a turn is reminded of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import Match, SearchResult
from onlooker.policy.search.recall import (
    MessageRef,
    RecallQuery,
    of_question,
    of_turn,
    render_recall,
    score_messages,
    scores_by_message,
)
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
    return replace(RecallQuery({}), **more)  # pyright: ignore[reportArgumentType]


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


def test_what_fits_exactly_is_shown() -> None:
    around = conversation(*(f"number {n} " + "word " * 8 for n in range(1, 21)))
    # As recorded: with what a message adds to its text. Lines of recall go out in one message.
    around = {ref: replace(m, tokens=count(m.text) + 6) for ref, m in around.items()}
    values = dict.fromkeys(around, 1.0)
    whole = render_recall(values, around, {}, 10_000, count)
    assert whole.count("Ana: ") == 20
    assert render_recall(values, around, {}, count(whole) + 10, count) == whole


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


def terms_of(*said: tuple[str, str]) -> Mapping[str, float]:
    messages = [Message("user" if who == "user" else "assistant", text) for who, text in said]
    query = of_turn(messages, NOON)
    return query.terms if query else {}


def test_a_turn_asks_with_what_the_user_says() -> None:
    said = (("user", "I rented a locker"), ("assistant", "Which one?"))
    assert terms_of(*said, ("user", "Where did I put the locker key?")) == {"put": 1, "locker": 1, "key": 1}
    assert terms_of(("assistant", "Where is the locker key?")) == {}


@pytest.mark.parametrize(
    ("said", "asks"),
    [
        ("Where did I put the locker key?", 1),
        ("Which museum did Ben visit?", 1),
        ("What did you say about the ferry?", 1),
        ("What was the ferry called that you recommended?", 1),
        ("Remind me which ferry leaves first.", 1),
        ("Tell me again which ferry leaves first.", 1),
        ("Say again which ferry leaves first.", 1),
        ("Tell me which ferry leaves first.", 1),
        ("Book the same ferry as last time.", 1),
        ("Can you tell me which ferry leaves first?", 1),
        ("Which ferry did you recommend?", 1),
        ("We took the ferry. What made you try pottery?", 0),
        ("Which ferry would you recommend?", 0),
        ("Could you tell me more about your ferry trip?", 0),
        ("How ya been on that ferry?", 0),
        ("Could you please book the ferry for me?", 0),
        ("Can we look for a ferry to my island?", 1),
        ("The ferry was late again, right?", 0),
        ("We took the ferry to the island and it rained.", 0),
    ],
)
def test_only_a_question_about_what_was_said_asks_for_the_past(said: str, asks: float) -> None:
    query = of_turn([Message("user", said)], NOON)
    assert query
    assert query.asks == asks


def test_the_more_of_a_message_asks_the_more_is_recalled_for_it() -> None:
    said = "We took the ferry to the island, where it rained all day. Where did I put the locker key?"
    told, both, asked = (of_turn([Message("user", text)], NOON) for text in (said[:57], said, said[58:]))
    assert told
    assert both
    assert asked
    assert told.most < both.most < asked.most
    assert told.room(1000) < both.room(1000) < asked.room(1000)
    assert both.terms["key"] > both.terms["island"]


def test_what_is_told_must_match_better_than_what_is_asked() -> None:
    """Of six words, two stand in a message."""
    match = Match(
        "message",
        ANA,
        "m1",
        1,
        NOON,
        "Ana",
        "The island ferry" + " and so on" * 9,
        "island ferry" + " so on" * 9,
    )
    found = SearchResult(100, 1000, {"ferry": 1, "island": 1}, (match,))
    terms: dict[str, float] = dict.fromkeys(["ferry", "island", "rain", "quay", "boat", "wind"], 1.0)
    assert scores_by_message(found, RecallQuery(terms))
    assert not scores_by_message(found, RecallQuery(terms, asks=0.0))


def test_what_is_told_must_share_a_rare_word() -> None:
    """People say again and again that it means a lot; a ferry they mention once."""
    often = Match("message", ANA, "m1", 1, NOON, "Ana", "It means a lot", "mean lot")
    once = Match("message", ANA, "m2", 2, NOON, "Ana", "The ferry", "ferry")
    found = SearchResult(500, 5000, {"mean": 20, "lot": 20, "ferry": 2}, (often, once))
    phrase = RecallQuery({"mean": 1.0, "lot": 1.0}, asks=0.0)
    assert not scores_by_message(found, phrase)
    assert scores_by_message(found, replace(phrase, asks=0.5))
    assert scores_by_message(found, RecallQuery({"mean": 1.0, "ferry": 1.0}, asks=0.0))


def test_a_turn_that_says_little_is_understood_with_the_answer_before_it() -> None:
    answer = ("assistant", "There are two hotels: the Fjord and the Lagoon.")
    terms = terms_of(("user", "Where shall we sleep?"), answer, ("user", "And the second one?"))
    assert terms["second"] == 1
    assert 0 < terms["fjord"] == terms["lagoon"] < 1
    assert "lagoon" in terms_of(answer, ("user", "The other one"))


@pytest.mark.parametrize(
    "said",
    [
        *("thanks!", "Ok, great, thank you so much", "Good morning", "谢谢", "yes!"),
        *("Great catching up! Take care, talk soon.", "Yep, I'll let you know! Keep it up."),
    ],
)
def test_thanks_and_greetings_ask_nothing(said: str) -> None:
    assert terms_of(("user", "Where is the boat?"), ("assistant", "In the harbour"), ("user", said)) == {}
    around = conversation(said, "the boat is in the harbour")
    text = render_recall({(ANA, 1): 2.0, (ANA, 2): 1.0}, around, {}, 200, count)
    assert said not in text
    assert "harbour" in text


def test_a_question_in_the_words_of_a_farewell_asks() -> None:
    assert terms_of(("user", "When did we talk?"))["talk"]
    assert not terms_of(("user", "Let's talk soon!"))


def test_a_day_alone_is_a_question() -> None:
    query = of_turn([Message("user", "And what about yesterday?")], NOON)
    assert query
    assert query.days == (("2026-02-15", "2026-02-15"),)


def test_a_question_is_shown_with_its_answer() -> None:
    around = conversation("Which museum did you visit?", "The one by the old mill, with Ben.", "It rained.")
    around[ANA, 2] = replace(around[ANA, 2], name="Ben")
    text = render_recall({(ANA, 1): 1.0}, around, {}, 200, count)
    assert "Which museum did you visit?\nBen: The one by the old mill" in text
    assert "rained" not in text


def test_what_is_asked_in_passing_is_shown_without_its_answer() -> None:
    around = conversation("I saw the museum. And did you see rain?", "All day, and hail.")
    around[ANA, 2] = replace(around[ANA, 2], name="Ben")
    assert "hail" not in render_recall({(ANA, 1): 1.0}, around, {"museum": 1.0}, 200, count)
    assert "rain?\nBen: All day" in render_recall({(ANA, 1): 1.0}, around, {"rain": 1.0}, 200, count)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Hey Ana! Thanks a lot! I sold the boat.", "Ana: I sold the boat."),
        ("Yes! I sold the boat.", "Ana: Yes! I sold the boat."),
        ("Not yet. I sold the car.", "Ana: Not yet. I sold the car."),
        ("Ana. She sold the boat.", "Ana: Ana. She sold the boat."),
        ("Thanks for the boat! I sold it.", "Ana: Thanks for the boat! I sold it."),
        (f"Thanks! {'Hello! ' * 20}", "Ana: Thanks! Hello!"),
    ],
)
def test_a_quote_begins_after_its_greetings(said: str, shown: str) -> None:
    assert shown in render_recall({(ANA, 1): 1.0}, conversation(said), {}, 200, count)


def test_what_matches_far_worse_than_the_best_is_not_shown() -> None:
    around = conversation("the boat is in the harbour", "another day at work", "the boat is blue")
    text = render_recall({(ANA, 1): 1.0, (ANA, 2): 0.1, (ANA, 3): 0.6}, around, {}, 500, count, most=20)
    assert "harbour" in text
    assert "blue" in text
    assert "work" not in text


def test_what_someone_says_of_others_counts_less_than_what_they_say_of_themselves() -> None:
    around = conversation("What is your passion?", "My passion is cars", "Your passion is contagious")
    query = RecallQuery({"passion": 1.0}, names=frozenset({"ana"}))
    values = score_messages(dict.fromkeys(around, 1.0), around, query)
    assert best(values)[0] == 2


def test_the_name_of_a_speaker_is_no_topic() -> None:
    query = of_question("What does Ana think of boats?", NOON).naming(["Ana"])
    assert "ana" not in query.terms
    assert query.names == {"ana"}
    assert of_question("Who is Ana?", NOON).naming(["Ana"]).terms == {"ana": 1.0}


def test_of_a_page_the_end_and_the_beginning_are_asked_for() -> None:
    page = f"The lighthouse first. {'We talked of this and of that. ' * 200} What did the harbourmaster say?"
    query = of_question(page, datetime(2026, 2, 16, tzinfo=UTC))
    assert query.asks
    assert {"lighthous", "harbourmaster"} <= query.terms.keys()
    assert len(query.terms) <= 24
