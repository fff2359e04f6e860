"""What a new item means to those that are there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making_items import NOW, days, item

from onlooker.policy.items.choose import cascade, item_history
from onlooker.policy.items.match import contradictions, duplicates, facts_of, reconcile


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user: lives in Oslo", "user: moved from Oslo to Bergen last week"),
        ("Ana lives in Oslo", "user: is based in New York City now"),
        ("我住在上海", "user: 上个月搬到北京"),
        ("user: prefers short answers", "Ana prefers long answers"),
        ("user: favourite colour is blue", "Ana's favorite colour is green"),
        ("user: works at Acme", "user: works at Globex since May"),
        ("The deadline is 2026-03-01", "user: deadline 2026-04-01"),
        ("user: is vegetarian", "user: is vegan"),
        ("user: is vegetarian", "user: is no longer vegetarian"),
        ("user: likes tea", "user: hates tea"),
        ("user: likes tea", "user: does not like tea"),
        ("user: sister lives in Rome", "user: sister moved to Paris"),
        ("Eva lives in Rome", "Eva moved to Paris"),
        ("user: is 34 years old", "user: turned 35 in 2026"),
        ("The user lives in Oslo", "Ana moved from Oslo to Bergen last week"),
        ("The user works as a nurse", "Ana now works as a teacher"),
        ("The user is allergic to peanuts", "The user is no longer allergic to peanuts"),
        ("Ana is allergic to peanuts", "The user is not allergic to peanuts any more"),
        ("The user is allergic to peanuts", "The user isn't allergic to peanuts"),
        ("The user has a dog called Rex", "The user does not have a dog any more"),
        ("The user works as a nurse", "The user is not a nurse any more"),
        ("The user works as a nurse", "The user no longer works as a nurse"),
        ("The user smokes", "The user stopped smoking"),
        ("The user never eats meat", "The user eats meat again"),
        ("The user's sister is allergic to nuts", "The user's sister is no longer allergic to nuts"),
        (
            'The user said: "Ich bin allergisch gegen Nüsse"',
            'The user said: "Ich bin nicht mehr allergisch gegen Nüsse"',
        ),
        (
            'The user said: "Je suis allergique aux noix"',
            'The user said: "Je ne suis plus allergique aux noix"',
        ),
        ('The user said: "J\'habite à Lyon"', 'The user said: "Je n\'habite plus à Lyon"'),
        ('The user said: "Soy alérgica a las nueces"', 'The user said: "Ya no soy alérgica a las nueces"'),
        ('The user said: "我对花生过敏"', 'The user said: "我不再对花生过敏"'),
        (
            'The user said: "ピーナッツアレルギーです"',
            'The user said: "もうピーナッツアレルギーではありません"',
        ),
        ('The user said: "땅콩 알레르기가 있어요"', 'The user said: "더 이상 땅콩 알레르기가 없어요"'),
    ],
)
def test_two_answers_to_what_has_one_contradict(one: str, other: str) -> None:
    assert contradictions(one, [item(other)])
    assert contradictions(other, [item(one)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user: lives in Oslo", "user: sister lives in Rome"),
        ("user: lives in Oslo", "Eva lives in Rome"),
        ("user: lives in Oslo", "user: met Bob, who lives in Paris"),
        ("user: lives in Oslo", "user: We moved from MySQL to PostgreSQL"),
        ("user: lives in Oslo", "user: moved to Kubernetes"),
        ("user: lives in Oslo", "user: lives in Oslo Sentrum"),
        ("user: prefers short answers", "user: prefers window seats"),
        ("user: likes tea", "user: likes coffee"),
        ("user: sister Eva is getting married", "user: is single"),
        ("tax deadline is 2026-04-01", "project deadline is 2026-03-01"),
        ("user: works at Acme", "user: works as a nurse"),
        ("user: has a dog", "user: has a cat"),
        ("The user lives in Oslo", "The user's sister moved to Bergen"),
        ("The user works as a teacher", "The user's sister works as a nurse"),
        ("The user lives in Oslo", "The user wants to live in Paris"),
        ("The user lives in Oslo", "The user is thinking of moving to Paris"),
        ("The user lives in Oslo", "The user used to live in Paris"),
        ("The user lives in Oslo", "The user would love to live in Paris"),
        ("The user is allergic to peanuts", "The user is not allergic to shellfish"),
        ("The user is allergic to peanuts", "The user's sister is no longer allergic to peanuts"),
        ("The user likes student theatre", "The user is not a student any more"),
        ("The user has a car seat for a child", "The user does not have a car"),
        ("The user eats meat", "The user does not eat meat on Fridays in Lent"),
        ("The user likes it in Oslo", "The user is no longer sure about Bergen"),
        ("The user's deadline is 2026-03-01", "Ben's deadline is 2026-04-01"),
    ],
)
def test_what_can_hold_at_once_does_not(one: str, other: str) -> None:
    assert not contradictions(one, [item(other)])
    assert not contradictions(other, [item(one)])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("user: is allergic to peanuts", "Ana is allergic to peanuts.", True),
        ("user: allergic to peanuts", "user: is very allergic to peanuts", True),
        ("user: likes tea", "user: does not like tea", False),
        ("user: budget 42k", "user: budget 45k", False),
        ("user: has a dog called Rex", "user: has a cat called Rex", False),
        ("user: prefers tea", "Tom prefers tea over coffee", False),
        ("The user is allergic to peanuts", "Ana is allergic to peanuts", True),
        ("The user's sister lives in Rome", "Ana's sister lives in Rome", True),
        ('Ana asks: "Always answer in French"', 'The user asks: "Please always answer in French"', True),
    ],
)
def test_the_same_in_other_words_is_a_duplicate(one: str, other: str, same: bool) -> None:
    assert bool(duplicates(one, [item(other)])) is same


@given(st.text(max_size=200), st.text(max_size=200))
def test_anything_can_be_compared(one: str, other: str) -> None:
    assert all(fact.value for fact in facts_of(one, frozenset({other})))
    assert duplicates(one, [item(other)]) in ([], [item(other)])
    assert bool(contradictions(one, [item(other)])) == bool(contradictions(other, [item(one)]))


# ------------------------------------------------------------------------------------ taking in


def test_what_changed_ends_the_old_item_and_the_new_one_names_it() -> None:
    oslo = item("user: lives in Oslo", "oslo", made_at=NOW - days(9))
    tea = item("user: likes tea", "tea")
    moved = item("user: moved from Oslo to Bergen last week", "bergen", valid_from=NOW - days(7))
    done = reconcile([moved], [oslo, tea])
    assert done.end == {"oslo": "bergen"}
    assert [(i.id, i.replaces, i.status) for i in done.add] == [("bergen", ("oslo",), "live")]


def test_what_is_known_already_is_a_use() -> None:
    done = reconcile([item("Ana likes tea", "new")], [item("user: likes tea", "tea")])
    assert (done.use, done.add, done.end) == (["tea"], [], {})


def test_what_says_more_takes_the_place_of_what_says_less() -> None:
    done = reconcile(
        [item("user: has a dog called Rex who is six", "more")], [item("user: has a dog called Rex", "less")]
    )
    assert done.end == {"less": "more"}
    assert done.add[0].derived_from == ("less",)


def test_an_older_word_does_not_end_a_newer_one() -> None:
    """A session may end long after others that began later."""
    newer = item("user: lives in Bergen", "bergen", said_at=NOW)
    done = reconcile([item("user: lives in Oslo", "oslo", said_at=NOW - days(30))], [newer])
    assert done.end == {}
    assert [(i.id, i.status, i.superseded_by) for i in done.add] == [("oslo", "ended", "bergen")]


def test_a_less_trusted_word_or_a_pin_leaves_what_is_there() -> None:
    said = item("user: lives in Oslo", "oslo")
    by_tool = item("user: lives in Paris", "tool", origin="tool")
    done = reconcile([by_tool], [said])
    assert (done.add, done.end) == ([], {})
    pinned = item("user: lives in Oslo", "oslo", pinned=True)
    done = reconcile([item("user: lives in Paris", "new")], [pinned])
    assert (done.end, [i.id for i in done.add]) == ({}, ["new"])


def test_of_two_that_contradict_in_one_session_the_later_stands() -> None:
    done = reconcile([item("user: lives in Oslo", "a"), item("user: lives in Bergen", "b")], [])
    assert [(i.id, i.status, i.superseded_by) for i in done.add] == [("a", "ended", "b"), ("b", "live", "")]
    assert done.end == {}


def test_the_owner_is_known_by_the_name_that_an_item_states() -> None:
    name = item("The user's name is Mia", "name", owner="telegram:7")
    oslo = item("The user lives in Oslo", "oslo", owner="telegram:7")
    moved = item("Mia moved to Bergen", "bergen", owner="telegram:7")
    assert reconcile([moved], [name, oslo]).end == {"oslo": "bergen"}
    assert reconcile([moved], [oslo]).end == {}  # for all we know, Mia is somebody else
    assert reconcile([replace(moved, summary="Mia lives in Oslo")], [name, oslo]).use == ["oslo"]


def test_what_a_person_asks_to_forget_ends_and_nothing_takes_its_place() -> None:
    nurse = item("Ana works as a nurse", "nurse", made_at=NOW - days(9))
    tea = item("Ana likes tea", "tea")
    forget = item("Ana works as a nurse", "forget", status="ended")
    done = reconcile([forget], [nurse, tea])
    assert (done.end, done.add) == ({"nurse": ""}, [])
    teacher = item("Ana now works as a teacher", "teacher")
    done = reconcile([forget, teacher], [nurse, tea])
    assert (done.end, [i.id for i in done.add]) == ({"nurse": ""}, ["teacher"])
    assert reconcile([forget], [replace(nurse, pinned=True)]).end == {}
    assert reconcile([forget], [replace(nurse, said_at=NOW + days(1))]).end == {}
    # In one session: what was just said.
    (ended,) = reconcile([nurse, forget], []).add
    assert (ended.id, ended.status, ended.superseded_by) == ("nurse", "ended", "")


def test_history_and_what_is_forgotten_together() -> None:
    items = [
        item("Oslo", "a", status="ended", superseded_by="b", said_at=NOW - days(3)),
        item("Bergen", "b", status="ended", superseded_by="c", replaces=("a",), said_at=NOW - days(2)),
        item("Paris", "c", replaces=("b",)),
        item("made of Bergen", "d", derived_from=("b",)),
        item("made of that", "e", derived_from=("d",)),
        item("unrelated", "x"),
    ]
    for ident in "abc":
        assert [i.id for i in item_history(items, ident)] == ["a", "b", "c"]
    assert {i.id for i in cascade(items, "c")} == {"a", "b", "c", "d", "e"}
    assert {i.id for i in cascade(items, "a")} == {"a"}
    assert cascade(items, "nothing") == item_history(items, "nothing") == []
