"""Which statements become items where no language model chooses."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from onlooker.domain.messages import Message
from onlooker.policy.items.extract import MOST_CHOSEN, Candidate, choose, said, said_in
from onlooker.policy.items.statements import statements

AT = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)


def picked(*texts: str, name: str = "") -> list[Candidate]:
    messages = [Message("user", t, id=f"m{n}", at=AT, name=name) for n, t in enumerate(texts)]
    return choose(list(said(messages)))


@pytest.mark.req(25, 91)
@pytest.mark.parametrize(
    ("said", "summary", "type", "tag"),
    [
        ("I'm allergic to peanuts!", "user: is allergic to peanuts", "profile", "health"),
        (
            "Please always answer in French.",
            "user: Please always answer in French",
            "behavior",
            "instruction",
        ),
        ("I prefer short answers.", "user: prefers short answers", "behavior", "preference"),
        ("I don't like coriander", "user: does not like coriander", "behavior", "preference"),
        ("I work as a nurse", "user: works as a nurse", "profile", "identity"),
        ("My sister Eva bakes bread", "user: sister Eva bakes bread", "profile", "people"),
        ("We decided to use Rust", "user: We decided to use Rust", "knowledge", "decision"),
        ("I speak three languages", "user: speaks three languages", "skill", "skill"),
        ("The deadline is 2026-03-01.", "user: The deadline is 2026-03-01", "event", "deadline"),
        ("我对花生过敏。", "user: 我对花生过敏", "profile", "health"),
        ("请以后用中文回答", "user: 请以后用中文回答", "behavior", "instruction"),
        ("ピーナッツアレルギーです", "user: ピーナッツアレルギーです", "profile", "health"),
    ],
)
def test_what_is_said_about_oneself_is_kept_in_the_third_person(
    said: str, summary: str, type: str, tag: str
) -> None:
    (found,) = picked(said)
    assert (found.summary, found.type, found.tags[0]) == (summary, type, tag)
    assert (found.origin, found.sources) == ("user", ("m0",))


@pytest.mark.parametrize(
    "said",
    [
        "Can you run the tests?",
        "What do you prefer?",
        "I'm tired right now",
        "I love the weather today",
        "hello there",
        "The parser has 34 tests.",
        "今天我喜欢下雨",
        "x" * 400 + " I prefer tea",
    ],
)
def test_questions_passing_states_and_small_talk_are_not(said: str) -> None:
    assert picked(said) == []


def test_two_facts_in_one_sentence_are_two_items() -> None:
    found = picked("Hi! I'm Ana, I live in Oslo and work as a nurse.", name="Ana")
    assert [c.summary for c in found] == ["Ana: name is Ana", "Ana: lives in Oslo", "Ana: works as a nurse"]


def test_a_pasted_text_is_not_what_the_person_says() -> None:
    pasted = "The manager always prefers tea. " * 40
    assert picked(pasted) == []
    assert [c.summary for c in picked(pasted + "\nI prefer coffee.")] == ["user: prefers coffee"]


def test_assistants_and_tools_say_nothing_about_the_person() -> None:
    messages = [Message("assistant", "I prefer tea", id="a", at=AT), Message("tool", "I prefer tea", at=AT)]
    assert choose(list(said(messages))) == []


@pytest.mark.req(25)
def test_notes_are_taken_apart_and_grave_lines_come_first() -> None:
    note = """\
## 2026-02-16
CRITICAL Ana: never deploy on Fridays
Ana: prefers tea; sister Eva lives in Rome; tired right now
search(flights): the user is allergic to nuts
CRITICAL assistant: Deploy failed: missing env; fixed by setting it
assistant: the user prefers tea, I think
## 2026-02-17
Bo moved to Paris yesterday"""
    found = choose(list(statements(note, source="n1")))
    assert [(c.summary, c.origin) for c in found] == [
        ("Ana: never deploy on Fridays", "user"),
        ("Ana: prefers tea", "user"),
        ("Ana: sister Eva lives in Rome", "user"),
        ("assistant: Deploy failed: missing env", "agent"),
        ("assistant: fixed by setting it", "agent"),
        ("Bo moved to Paris yesterday", "user"),
    ]
    assert all(c.sources == ("n1",) for c in found)
    assert found[-1].valid_from == datetime(2026, 2, 16, tzinfo=UTC)
    assert found[-1].said_on == datetime(2026, 2, 17, tzinfo=UTC)


def test_prose_is_taken_apart_by_sentences() -> None:
    note = "Ana prefers short answers. The build took a while. Ana is allergic to nuts."
    found = choose(list(statements(note, source="n1", format="prose", day=AT.date())))
    assert [c.summary for c in found] == ["Ana prefers short answers.", "Ana is allergic to nuts."]


def test_a_dated_event_expires_a_week_after_its_day() -> None:
    (found,) = picked("The deadline is 2026-03-01.")
    assert found.expires_at == datetime(2026, 3, 8, tzinfo=UTC)
    (undated,) = picked("The deadline is near the end of spring.")
    assert undated.expires_at is None


def test_of_a_long_session_only_the_most_telling_are_kept() -> None:
    found = picked(*(f"I like number {n} a lot" for n in range(40)), "I'm allergic to peanuts")
    assert len(found) == MOST_CHOSEN
    assert found[-1].summary == "user: is allergic to peanuts"


def test_secrets_are_masked() -> None:
    (found,) = picked("Please always use my key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789")
    assert "sk-proj-abc" not in found.summary


def test_where_a_summary_came_from_is_told_by_its_words() -> None:
    texts = [("m1", "I like tea"), ("m2", "Rex is my dog"), ("m3", "tea again")]
    assert said_in("user: has a dog called Rex", texts) == ("m2",)
    assert said_in("something else", texts) == ()


def test_what_a_tool_was_asked_at_length_is_still_a_tools_word() -> None:
    call = "email(search, offers for moving a piano from one town to another, 2026-02-09)"
    (found,) = statements(f"## 2026-02-09\n{call}: my order was shipped", source="n", format="lines")
    assert (found.subject, found.origin) == (call, "tool")
    assert not choose([found])
