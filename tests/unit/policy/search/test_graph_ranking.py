"""What a note speaks of by name, and which notes that ties together."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note
from onlooker.domain.search import Edge, Node, note_node
from onlooker.policy.search.graph import (
    MAX_ENTITIES,
    MAX_HOLDERS,
    MAX_SEEDS,
    Stub,
    entities,
    folded,
    rank_related,
    structure,
    with_sources,
)

ANA = SessionId("ana", "a")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("## 2026-02-16\n[14:02] IMPORTANT Ana moved to Oslo (2026-02-09)", {"Oslo"}),
        (
            "[14:05] CRITICAL Deploy failed: missing DATABASE_URL; fixed in fly.toml",
            {"DATABASE_URL", "fly.toml"},
        ),
        ("Melanie: went camping with Caroline's kids", {"Melanie", "Caroline"}),
        ('She read "Becoming Nicole" by Amy Ellis Nutt.', {"Becoming Nicole", "Amy Ellis Nutt"}),
        (
            "User asked about the University of Bergen. The plan is fine. Then they left.",
            {"University of Bergen"},
        ),
        ("Åse O'Neil met Émile Zola in Köln", {"Åse O'Neil", "Émile Zola", "Köln"}),
        ("用户住在「奥斯陆」，ミカエルさんと", {"奥斯陆", "ミカエル"}),
        ("order 88-1431 for €1,240.50 at 14:30 on Monday, 12 pieces", {"88-1431"}),
        ("nothing of the kind was said", set[str]()),
        ("", set[str]()),
    ],
)
def test_names_and_identifiers_are_found_and_nothing_else(text: str, found: set[str]) -> None:
    assert set(entities(text)) == found


def test_spelling_does_not_make_two_of_one() -> None:
    assert entities("He came to OSLO, then to Oslo, and to oslo again") == ("OSLO",)
    assert folded("  Émile   ZOLA ") == folded("émile zola")


@given(st.text(max_size=400))
def test_any_text_has_a_bounded_number_of_names_each_once(text: str) -> None:
    found = entities(text * 20)
    assert len(found) <= MAX_ENTITIES
    assert len({folded(name) for name in found}) == len(found)


# ------------------------------------------------------------------------------------ ties


def note(name: str) -> Node:
    return note_node(ANA, name)


def mentions(name: str, *entities: str) -> list[Edge]:
    return [Edge("mentions", note(name), Node("entity", entity)) for entity in entities]


def test_notes_follow_each_other_within_a_generation() -> None:
    notes = [
        Stub("o1", 0, 1, ("m1",)),
        Stub("o3", 0, 3, ("m3",)),
        Stub("r1", 1, 1, ("o1", "o3", "gone")),
        Stub("r5", 1, 5, ()),
    ]
    edges = {(e.kind, e.source.name, e.target.name) for e in structure(ANA, notes)}
    assert edges - {("in_session", n.id, "a") for n in notes} == {
        ("follows", "o3", "o1"),
        ("follows", "r5", "r1"),
        ("reflects_on", "r1", "o1"),
        ("reflects_on", "r1", "o3"),
    }


def test_the_rarer_what_two_notes_share_the_closer_they_are() -> None:
    edges = [
        *mentions("seed", "Oslo", "OPS-1"),
        *mentions("common", "Oslo"),
        *mentions("another", "Oslo"),
        *mentions("rare", "OPS-1"),
        *mentions("other", "Bergen"),
    ]
    assert [n.name for n in rank_related({note("seed"): 1.0}, edges)] == ["rare", "another", "common"]


def test_what_everyone_mentions_ties_nobody() -> None:
    edges = [e for i in range(MAX_HOLDERS + 1) for e in mentions(f"n{i}", "Oslo")]
    assert rank_related({note("n0"): 1.0}, edges) == []
    assert len(rank_related({note("n0"): 1.0}, edges[1:])) == 0
    assert len(rank_related({note("n0"): 1.0}, edges[:-1])) == MAX_HOLDERS - 1


def test_worth_passes_both_ways_along_the_other_edges() -> None:
    edges = [Edge("reflects_on", note("r"), note("o")), Edge("follows", note("o2"), note("o"))]
    assert [n.name for n in rank_related({note("o"): 1.0}, edges)] == ["r", "o2"]
    assert [n.name for n in rank_related({note("r"): 1.0}, edges)] == ["o"]


def test_what_a_reflection_condenses_is_sought_with_it() -> None:
    at = datetime(2026, 2, 16, tzinfo=UTC)
    reflection = Note("r", 1, 1, 9, "", 0, at, tuple(f"o{n}" for n in range(MAX_SEEDS + 2)))
    observation = Note("o", 0, 10, 11, "", 0, at, ("m1", "m2"))
    seeds = with_sources({note("r"): 1.0, note("o"): 0.5}, [(ANA, reflection), (ANA, observation)])
    assert seeds == {note("r"): 1.0, note("o"): 0.5} | {note(f"o{n}"): 0.5 for n in range(MAX_SEEDS)}
