"""Shorter wording with the same meaning, and the topics of questions."""

from __future__ import annotations

import pytest

from onlooker.models.extractive.clauses import tighten, topic, vocatives


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("I went to the museum yesterday.", "went to museum yesterday"),
        ("I'm keen on counseling", "keen on counseling"),
        ("I've been running a lot", "been running a lot"),
        ("I have a dog called Rex", "have dog called Rex"),
        ("I'll call the vet", "will call vet"),
        ("Wow, the colors are really bright!", "colors bright"),
        ("Last Friday, I went to a workshop", "Last Friday went to workshop"),
        ("So, I think we should leave", "we should leave"),
        ("I'd love to visit Oslo", "want to visit Oslo"),
    ],
)
def test_the_speaker_and_small_words_go(said: str, noted: str) -> None:
    assert tighten(said) == noted


@pytest.mark.parametrize(
    "said",
    [
        "I don't eat grapes",
        "I'm not going",
        "I can't swim",
        "never push to main",
        "no dogs are allowed",
        "The tests are not green",
        "He isn't the owner",
        "nobody is at home",
        "I haven't been to Oslo",
        "not just the kids",
        "There is no budget",
        "It's not the cache",
        "neither of us is ready",
        "without a ticket",
        "I hardly ever cook",
    ],
)
def test_no_negation_is_lost(said: str) -> None:
    words = ("n't", "not", "never", "no ", "nobody", "neither", "without", "hardly")
    kept = tighten(said).lower() + " "
    assert all(word in kept for word in words if word in said.lower() + " ")


@pytest.mark.parametrize("word", ["if", "unless", "until", "only when", "because", "maybe", "probably"])
def test_no_condition_or_doubt_is_lost(word: str) -> None:
    assert word in tighten(f"I will take the job {word} they call me")


@pytest.mark.parametrize(
    "exact",
    [
        '"The Great Gatsby"',
        "`a = the_value`",
        "https://example.com/the/a",
        "/srv/the/app",
        "1,240.50",
        "v2.3.1",
        "ana@the.org",
        "the_user_id",
        "The Lord of the Rings",
        "a few weeks ago",
    ],
)
def test_what_is_exact_is_not_touched(exact: str) -> None:
    assert exact in tighten(f"I really need {exact} for this")


def test_who_did_what_to_whom_survives() -> None:
    assert tighten("My sister gave me her old car") == "sister gave me her old car"
    assert tighten("They told us that he had left") == "They told us that he had left"
    assert tighten("My sister and I went to Oslo") == "sister and I went to Oslo"
    assert tighten("I moved to Oslo, and I adopted a dog") == "moved to Oslo, and adopted dog"


def test_names_that_only_address_somebody_go() -> None:
    names = vocatives(frozenset({"Melanie", "Caroline"}))
    assert tighten("Thanks, Caroline! I painted it", names) == "painted it"
    assert tighten("That was fun, Mel!", names) == "That was fun"
    assert tighten("I met Caroline at school", names) == "met Caroline at school"


def test_a_question_keeps_its_verb() -> None:
    assert tighten("What kind of dog is he?") == "What kind of dog is he?"


@pytest.mark.parametrize(
    ("question", "about"),
    [
        ("Do you have any pets?", "pets"),
        ("What's your favorite style of dance?", "favorite style of dance"),
        ("How did the audition go?", "audition"),
        ("What's new?", ""),
        ("How are you?", ""),
        ("Which port does the staging database listen on?", "staging database listen"),
    ],
)
def test_the_topic_of_a_question(question: str, about: str) -> None:
    assert topic(question) == about
