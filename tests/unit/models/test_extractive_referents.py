"""Lines of notes stand with what they speak of: in small notes too, and of what was said long before."""

from __future__ import annotations

import pytest
from tests.unit.models.extractive_requests import note, observe, role, say

from onlooker.models.extractive.pieces import clauses, quotes, refers_back
from onlooker.policy.asked import of_messages

TOLD = note("## 2026-02-16\nAna: I moved to Oslo.")


@pytest.mark.parametrize(
    "said",
    [
        "Three of the five have so far.",
        "You can use the gift card instead.",
        "Since neither condition applies here, I cannot refund the ticket.",
        "So much adrenaline went into that last match.",
        "My cousin wants it, but she can't pay the rent.",
        "I should really try making one myself.",
        "Could you please provide this information for each trip?",
        "我爸那次一共花了两万三。",
        "还有，空腹去，可能当天就抽血。",
        "带上之前的片子，他会问的。",
        "나도. 근데 하나는 지하철에 두고 내렸어.",
    ],
)
def test_it_speaks_of_something_that_was_said_before(said: str) -> None:
    assert refers_back(said)


@pytest.mark.parametrize(
    "said",
    [
        "I took the bus instead of the train.",
        "Instead of paying, they sent a letter.",
        "I sold the boat because it leaks.",
        "I finished the report this week.",
        "我妈下个月要做手术，她住在绵阳。",
    ],
)
def test_it_says_itself_what_it_speaks_of(said: str) -> None:
    assert not refers_back(said)


def test_a_subject_of_two_is_not_cut_apart() -> None:
    said = "The atmosphere was electric, and my teammates and I were thrilled."
    assert clauses(said) == [said]
    assert clauses("I got up at six and I went to the office.") == [
        "I got up at six",
        "I went to the office.",
    ]


@pytest.mark.parametrize("tokens", range(24, 120, 6))
def test_a_sentence_that_says_little_stands_with_the_one_before_it(tokens: int) -> None:
    text = observe(
        say("Tim", "You said you wanted sponsors."),
        say("John", "I'm getting somewhere with endorsements. I've talked to some big names.", 1),
        say("Tim", "My sister Carla paints palm trees in Graz.", 2),
        notes=(TOLD,),
        tokens=tokens,
    )
    assert "big names" not in text or "endorsements" in text


def test_ids_of_a_list_stay_together() -> None:
    listing = "Here they are:\n1. JG7FMM\n2. LQ940Q\n3. 2FBBAH"
    assert [quote.text for quote in quotes(listing)] == ["Here they are: JG7FMM; LQ940Q; 2FBBAH."]


def test_a_note_without_a_choice_has_messages_that_follow_each_other() -> None:
    said = (
        say("陈默", "这个不能拖。"),
        say("林悦", "在哪儿做的？", 1),
        say("陈默", "省人民医院，主刀是周主任。", 2),
        say("林悦", "能帮我问问他的号好挂吗？", 3),
        say("陈默", "行，我明天问。", 4),
    )
    lines = observe(*said, notes=(TOLD,), tokens=60).splitlines()
    asked = lines.index("林悦: 在哪儿做的？")
    assert lines[asked + 1] == "陈默: 省人民医院，主刀是周主任。"


def test_a_few_words_of_a_message_are_not_noted_beside_the_request() -> None:
    said = (
        role("assistant", "Almost. It has 9 more rows at the end. Those were booked on September 1."),
        role("user", "That makes sense, they came in late. Commit it, but don't push.", 1),
    )
    for tokens in range(10, 60, 5):
        assert "Almost. It…" not in observe(*said, notes=(TOLD,), tokens=tokens)


def test_an_answer_to_a_question_without_a_noun_stands_below_it() -> None:
    said = (
        say("Owen", "I found the receipt of the bicycle!"),
        say("Nadia", "Where was it?", 1),
        say("Owen", "In the shoe box.", 2),
    )
    texts = [observe(*said, notes=(TOLD,), tokens=tokens) for tokens in range(12, 90, 6)]
    assert all("Where was it?" in text for text in texts if "shoe box" in text)
    assert "shoe box" in texts[-1]


def test_a_picture_stands_with_what_was_made_after_something_else() -> None:
    text = observe(
        say("Ana", "I painted this after a visit to Turin. [shares a photo of a lake at night]"),
        say("Ben", "My sister Carla and I went to a pottery workshop in Graz in May.", 1),
        tokens=60,
    )
    assert "I painted this after a visit to Turin. [pic: lake at night]" in text


def test_a_decision_that_says_what_it_is_about_is_part_of_the_request() -> None:
    said = "Okay, let's proceed with changing the flight to HAT266. Can I pay as I did before?"
    (line,) = of_messages((role("user", "I need another flight."), role("user", said)), ())[-1:]
    assert "HAT266" in line


@pytest.mark.parametrize("greeting", ["How's it going?", "How've you been?", "What's up with you?"])
def test_a_greeting_is_no_request(greeting: str) -> None:
    said = (say("Tim", "Hey John! " + greeting), role("assistant", "I sold the boat."))
    assert not any(greeting in line for line in of_messages(said[:1], ()))
