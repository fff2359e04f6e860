"""Whether two sides hold the same session, and whether one may take the place of the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.history import ALL_HASHES, Change, ChangeRow, MessageRow, Row, SessionRow, UsageRow
from onlooker.domain.items import Item
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Progress, Usage
from onlooker.migration import SessionContent, SessionDigest, is_ahead_of
from onlooker.policy.rows import KnownUsage, pages
from onlooker.testing.store_contract.case import ANA, NOW, later, said


def message(ident: str, seq: int, text: str = "") -> MessageRow:
    return MessageRow(ANA, replace(said(ident, text or f"text of {ident}"), seq=seq))


def top(last_seq: int = 0, changes: int = 0, *, prompt_version: int = 0, revision: int = 0) -> SessionRow:
    return SessionRow(
        Progress(ANA, last_seq=last_seq, prompt_version=prompt_version, revision=revision), NOW, changes
    )


def content(*rows: Row) -> SessionContent:
    made = SessionContent()
    for row in rows:
        made.add(row)
    return made


def digest(*rows: Row, with_items: bool = True) -> SessionDigest:
    made = SessionDigest(ANA, with_items=with_items)
    for row in rows:
        made.add(row)
    return made


@given(st.integers(0, 5000), st.integers(1, 700), st.text(max_size=8))
def test_every_session_is_on_exactly_one_page(sessions: int, size: int, key: str) -> None:
    edges = list(pages(sessions, size))
    sid = SessionId("ana", key).sid
    assert sum(low <= sid <= high for low, high in edges) == 1
    assert (edges[0][0], edges[-1][1]) == ALL_HASHES
    assert len(edges) == max(1, -(-sessions // size))


def test_a_digest_names_the_difference() -> None:
    ours = digest(top(2), message("a", 1), message("b", 2))
    assert ours.difference(digest(top(2), message("a", 1), message("b", 2))) == ""
    assert ours.difference(digest(top(2), message("a", 1), message("b", 2, "other"))).startswith(
        "as many rows"
    )
    assert ours.difference(digest(top(2), message("a", 1))) == "1 of 2 message rows"
    assert ours.difference(None) == "it is missing"


def test_the_branch_which_every_store_counts_for_itself_is_no_difference() -> None:
    assert digest(top(2, revision=1)).difference(digest(top(2, revision=9))) == ""
    assert digest(top(2, prompt_version=1)).difference(digest(top(2, prompt_version=9))) != ""


def test_items_that_are_shown_count_where_they_are_asked_for() -> None:
    one, other = top(2), replace(top(2), shown_items=("i1",))
    assert digest(one).difference(digest(other)) != ""
    assert digest(one, with_items=False).difference(digest(other, with_items=False)) == ""


def test_an_earlier_state_makes_way() -> None:
    earlier = content(top(2), message("a", 1), message("b", 2))
    assert earlier.refuses(content(top(3), message("a", 1), message("b", 2), message("c", 3))) == ""
    # Compacted, retired or deleted since.
    compacted = replace(message("a", 1), place="compacted")
    assert earlier.refuses(content(top(3), compacted, message("c", 3))) == ""
    assert content(top()).refuses(earlier) == ""


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (content(top(3), message("a", 1), message("x", 3)), "used in the target"),
        (content(top(2, prompt_version=1), message("a", 1)), "used in the target"),
        (content(replace(top(2), used_at=later(1)), message("a", 1)), "used in the target"),
        (content(top(2), message("a", 1, "another text")), "message 'a' is different"),
        (content(top(2), message("a", 1), message("x", 2)), "message 'x' is in the target"),
        (content(top(2, 1), message("a", 1), ChangeRow(ANA, Change(1, later(9), 1, 1, 1, 1))), "notes were"),
        (content(top(2), message("x", 9)), "different conversation"),
    ],
)
def test_what_is_no_earlier_state_does_not(there: SessionContent, why: str) -> None:
    ours = content(top(2, 1), message("a", 1), message("b", 2), ChangeRow(ANA, Change(1, NOW, 1, 1, 1, 1)))
    assert why in there.refuses(ours)


def test_an_item_only_goes_forward() -> None:
    item = Item("ana", "i", "event", "went", NOW)
    assert not is_ahead_of(item, item)
    assert not is_ahead_of(item, replace(item, uses=1, last_used_at=NOW, status="ended"))
    for there in (replace(item, uses=1), replace(item, last_used_at=NOW), replace(item, status="archived")):
        assert is_ahead_of(there, item)


def test_a_call_is_crossed_off_once_and_by_its_own_name_first() -> None:
    calls = KnownUsage()
    used = Usage("m:x", "observe", 7, 5, "accepted", NOW, 0.25)
    one, nameless = UsageRow("ana", "one", used), UsageRow("ana", None, used)
    unowned = UsageRow("", None, used)
    assert not calls.knows(one)
    calls.add(one)
    assert calls.knows(nameless)
    for other in (UsageRow("ana", "two", used), UsageRow("ben", None, used), nameless):
        assert not calls.cross_off(other)
    for other in (UsageRow("ana", "two", used), UsageRow("ben", None, used)):
        assert not calls.cross_off_renamed(other)
    assert not calls.cross_off_renamed(UsageRow("ana", None, replace(used, output_tokens=6)))
    assert calls.cross_off(one)
    assert not calls.cross_off_renamed(nameless)
    for there, here in (
        (one, nameless),
        (one, unowned),
        (nameless, one),
        (unowned, one),
        (nameless, unowned),
    ):
        calls.add(there)
        assert calls.cross_off_renamed(here)
        assert not calls.cross_off_renamed(here)
