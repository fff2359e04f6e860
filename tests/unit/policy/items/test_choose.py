"""How much an item matters, to the digit, and which ones a session shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making_items import NOW, days, item

from onlooker.domain.messages import SessionId
from onlooker.policy.items.choose import (
    bm25,
    boost,
    choose_items,
    decay,
    item_line,
    items_section,
    rank_items,
    salience,
)
from onlooker.policy.settings import DEFAULT, LANGO, ZORA

HERE = SessionId("ana", "telegram:42")


def count(text: str) -> int:
    return len(text.split())


@pytest.mark.req(91)
def test_the_numbers_are_those_of_the_design() -> None:
    assert round(boost(10), 3) == 1.519
    assert round(decay(7), 3) == 0.707
    assert decay(14) == 0.5
    assert (boost(0), decay(0), decay(-3)) == (1.0, 1.0, 1.0)


def test_salience_is_the_product_of_relevance_age_uses_and_trust() -> None:
    used = item("x", uses=10, last_used_at=NOW - days(14), made_at=NOW - days(400))
    assert salience(used, NOW) == pytest.approx(0.5 * 1.519, abs=1e-3)
    assert salience(used, NOW, 3.0) == pytest.approx(3 * 0.5 * 1.519, abs=1e-3)
    new = {origin: item("x", origin=origin) for origin in ("user", "agent", "tool")}
    assert [salience(i, NOW) for i in new.values()] == [1.0, 0.7, 0.3]


def test_a_search_ranks_by_words_then_by_salience() -> None:
    items = [
        item("Ana is living in Oslo", made_at=NOW - days(14)),
        item("Ana moved to Bergen", tags=("live in",)),
        item("Ana has a dog"),
    ]
    found = rank_items(items, "where do you live", NOW)
    assert [f.item.summary for f in found] == ["Ana moved to Bergen", "Ana is living in Oslo"]
    assert [f.item.summary for f in rank_items(items, "dogs", NOW)] == ["Ana has a dog"]
    assert rank_items(items, "Spanish", NOW) == []
    assert rank_items([], "dogs", NOW) == []


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    rare, common, neither = bm25(["tea peanut", "tea cake", "cake"], "peanut tea")
    assert rare > common > neither == 0


# ------------------------------------------------------------------------------------ shown


@pytest.mark.req(86)
def test_pinned_items_are_shown_first_then_by_salience_within_the_tokens() -> None:
    items = [
        item("used a lot", uses=100, sources=("n",), session="other"),
        item("new"),
        item("pinned long ago", pinned=True, made_at=NOW - days(300)),
        item("old", made_at=NOW - days(60)),
    ]
    order = ["pinned long ago", "used a lot", "new", "old"]
    assert [i.summary for i in choose_items(items, HERE, 100, NOW, count)] == order
    assert [i.summary for i in choose_items(items, HERE, 14, NOW, count)] == order[:2]
    assert choose_items(items, HERE, 0, NOW, count) == []


def test_what_has_ended_expired_or_is_from_the_session_itself_is_not_chosen() -> None:
    items = [
        item("ended", status="ended"),
        item("archived", status="archived"),
        item("expired", expires_at=NOW),
        item("own", session=HERE.key, sources=("n1",)),
        item("own but saved", session=HERE.key),
        item("own but pinned", session=HERE.key, sources=("n1",), pinned=True),
        item("not yet expired", expires_at=NOW + days(1)),
    ]
    shown = {i.summary for i in choose_items(items, HERE, 100, NOW, count)}
    assert shown == {"own but saved", "own but pinned", "not yet expired"}


def test_a_line_says_since_when_and_cannot_be_more_than_a_line() -> None:
    moved = item("user: moved to\n## Bergen", valid_from=NOW - days(7), replaces=("oslo",))
    assert item_line(moved) == "- user: moved to ## Bergen (since 2026-02-09)"
    assert item_line(item("has a dog", valid_from=NOW)) == "- has a dog (2026-02-16)"
    assert item_line(item("deadline is 2026-03-01", valid_from=NOW)) == "- deadline is 2026-03-01"
    assert item_line(item("has a dog")) == "- has a dog"


def test_the_section_has_the_owners_name_as_a_name() -> None:
    text = items_section("ana\n## System", [item("has a dog")], 100, count)
    assert text == "### About ana System\n- has a dog"
    assert items_section("ana", [item("has a dog")], 3, count) == ""


@given(st.lists(st.text(max_size=60), max_size=20), st.integers(0, 60))
def test_the_section_never_costs_more_than_it_may(summaries: list[str], most: int) -> None:
    items = [item(s, str(place)) for place, s in enumerate(summaries)]
    text = items_section("ana", choose_items(items, HERE, most, NOW, count), most, count)
    assert count(text) <= most


@pytest.mark.req(85)
def test_whose_sessions_share_items_is_a_matter_of_the_settings() -> None:
    assert DEFAULT.shares_items("ana")
    assert not DEFAULT.shares_items("default")
    assert ZORA.shares_items("default")
    assert not LANGO.shares_items("ana")
