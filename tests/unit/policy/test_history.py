"""A session's memory over time: taking back, forgetting, and differences."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from conversations import note
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.items import Item
from onlooker.domain.messages import Message
from onlooker.domain.notes import LIVE, Note
from onlooker.policy.history import (
    Rollback,
    diff,
    exact_values,
    has_borrowed_values,
    is_made_from,
    items_to_forget,
    plan_remake,
    returning,
    roll_back,
    with_descendants,
)

# -- Which notes still stand when a host takes messages back


def reflection(*sources: Note, generation: int = 1) -> Note:
    return note(
        sources[0].first, sources[-1].last, generation=generation, sources=tuple(s.id for s in sources)
    )


def superseded(one: Note) -> Note:
    return replace(one, status="superseded")


OLD = [superseded(note(i, i + 4)) for i in (1, 6, 11, 16)]  # condensed into reflections
FIRST, SECOND = reflection(OLD[0], OLD[1]), reflection(OLD[2], OLD[3])


def test_nothing_changes_where_no_note_reaches_beyond() -> None:
    notes = [note(1, 5), note(6, 10), note(11, 12, status="buffered")]
    assert roll_back(notes, 12, 0) == Rollback((), (), frontier=12, watermark=10)


def test_notes_that_reach_beyond_are_retired() -> None:
    notes = [note(1, 5), note(6, 10), note(11, 15)]
    assert roll_back(notes, 10, 0) == Rollback((notes[2].id,), (), frontier=10, watermark=10)
    found = roll_back(notes, 9, 0)
    assert set(found.retire) == {notes[1].id, notes[2].id}
    assert (found.frontier, found.watermark) == (5, 5)


def test_buffered_notes_hold_the_frontier_but_not_the_watermark() -> None:
    notes = [note(1, 5), note(6, 10, status="buffered"), note(11, 15, status="buffered")]
    assert roll_back(notes, 14, 0) == Rollback((notes[2].id,), (), frontier=10, watermark=5)


def test_a_reflection_gives_way_to_the_sources_that_still_stand() -> None:
    notes = [*OLD, FIRST, SECOND]
    found = roll_back(notes, 16, 0)
    assert SECOND.id in found.retire
    assert found.revive == (OLD[2].id,)
    assert (found.frontier, found.watermark) == (15, 15)
    assert FIRST.id not in found.retire


def test_it_goes_through_two_generations() -> None:
    gone = [superseded(FIRST), superseded(SECOND)]
    top = reflection(FIRST, SECOND, generation=2)
    found = roll_back([*OLD, *gone, top], 17, 0)
    # The first reflection stands again, and of the second one only its first observation.
    assert found.revive == (FIRST.id, OLD[2].id)
    assert {top.id, SECOND.id, OLD[3].id} <= set(found.retire)
    assert not {FIRST.id, OLD[0].id, OLD[1].id, OLD[2].id} & set(found.retire)
    assert (found.frontier, found.watermark) == (15, 15)


def test_with_everything_taken_back_nothing_is_noted() -> None:
    top = reflection(FIRST, SECOND, generation=2)
    found = roll_back([*OLD, superseded(FIRST), superseded(SECOND), top], 0, 0)
    assert found.revive == ()
    assert (found.frontier, found.watermark) == (0, 0)


def test_a_source_that_was_purged_is_noted_again() -> None:
    found = roll_back([OLD[1], FIRST], 7, 0)
    assert found.revive == ()
    assert found.frontier == 0


def test_what_a_person_cleared_away_is_not_noted_again() -> None:
    assert roll_back([], 20, 12) == Rollback((), (), frontier=12, watermark=12)
    assert roll_back([note(13, 15)], 14, 12).frontier == 12
    assert roll_back([note(13, 15)], 15, 12).frontier == 15
    assert roll_back([note(13, 15)], 5, 12).frontier == 5  # the cleared ones themselves went back


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Note], int]:
    """Observations in a row, condensed from the oldest on through up to three generations."""
    ends = sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=14)))
    live = [note(a + 1, b) for a, b in zip([0, *ends], ends, strict=False)]
    gone: list[Note] = []
    for _ in range(draw(st.integers(0, 5))):
        count = draw(st.integers(1, len(live)))
        generation = 1 + max(n.generation for n in live[:count])
        made = reflection(*live[:count], generation=generation)
        gone += [superseded(n) for n in live[:count]]
        live = [made, *live[count:]]
    buffered = draw(st.integers(0, len(live)))
    tail = [n for n in live[len(live) - buffered :] if not n.generation]
    shown = [n for n in live if n not in tail]
    waiting = [replace(n, status="buffered") for n in tail]
    return [*gone, *shown, *waiting], ends[-1]


@given(histories(), st.integers(0, 70))
def test_what_stands_after_any_rollback_covers_without_gap_and_reaches_no_further(
    made: tuple[list[Note], int], keep: int
) -> None:
    notes, last = made
    found = roll_back(notes, keep, 0)
    retired, revived = set(found.retire), set(found.revive)
    standing = sorted(
        (n for n in notes if n.id in revived or (n.status in LIVE and n.id not in retired)),
        key=lambda n: n.first,
    )
    after = 1
    for one in standing:
        assert one.first == after
        after = one.last + 1
    assert found.frontier == after - 1 <= keep
    assert found.watermark <= found.frontier
    assert not retired & revived
    # As little as possible is noted again: the next observation, whole, would reach beyond.
    nexts = [n for n in notes if n.generation == 0 and n.first == after]
    assert all(n.last > keep for n in nexts)
    if keep >= last:
        assert not retired


# -- Notes that return with their messages


def of(*sources: str, degraded: bool = False) -> Note:
    name = "".join(sources) + "!" * degraded
    return replace(note(1, len(sources), sources=sources, degraded=degraded), id=name, status="retired")


def test_notes_return_in_the_order_of_their_messages_up_to_the_first_that_none_covers() -> None:
    unnoted = [(3, "a"), (9, "b"), (10, "c"), (11, "d"), (12, "e"), (13, "f")]
    found = returning([of("e"), of("c"), of("a", "b"), of("f")], unnoted)
    assert [(n.sources, n.first, n.last, n.status) for n in found] == [
        (("a", "b"), 3, 9, "buffered"),
        (("c",), 10, 10, "buffered"),
    ]


def test_of_several_notes_the_models_own_returns_and_then_the_longest() -> None:
    unnoted = list(enumerate("abcd", 1))
    assert returning([of("a", "b", degraded=True), of("a")], unnoted)[0].sources == ("a",)
    assert returning([of("a"), of("a", "b")], unnoted)[0].sources == ("a", "b")


def test_no_note_returns_with_other_messages_between_or_with_the_newest() -> None:
    assert returning([of("a", "c"), of("b")], list(enumerate("abcd", 1))) == ()
    assert returning([of("a", "b")], list(enumerate("ab", 1))) == ()
    assert returning([replace(of("a"), generation=1)], list(enumerate("ab", 1))) == ()


# -- What becomes of notes and items when messages go

NOW = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)


def noted(ident: str, *sources: str, generation: int = 0, status: str = "active", **more: Any) -> Note:
    values: dict[str, Any] = {"first": 1, "last": 9, "text": f"on {ident}", "status": status} | more
    return Note(id=ident, generation=generation, sources=sources, tokens=5, made_at=NOW, **values)


def by_id(*notes: Note) -> dict[str, Note]:
    return {n.id: n for n in notes}


TREE = by_id(
    noted("o1", "m1", "m2", status="superseded"),
    noted("o3", "m3", "m4", status="superseded"),
    noted("r1", "o1", "o3", generation=1),
    noted("o5", "m5", "m6"),
)


def test_a_note_is_told_by_its_messages_through_every_generation() -> None:
    told = [i for i, n in TREE.items() if is_made_from(n, TREE, {"m1"}, ())]
    assert told == ["o1", "r1"]
    assert [i for i, n in TREE.items() if is_made_from(n, TREE, {"m9"}, ())] == []


def test_a_reflection_whose_sources_were_purged_is_known_by_its_range() -> None:
    lonely = by_id(noted("r1", "gone", generation=1, first=1, last=4))
    assert is_made_from(lonely["r1"], lonely, {"m2"}, {2})
    assert not is_made_from(lonely["r1"], lonely, {"m7"}, {7})
    assert plan_remake(lonely, {"r1"}, (), ("r1",)).remake == (lonely["r1"],)
    assert plan_remake(lonely, {"r1"}, ()).delete == ("r1",)


def test_what_has_messages_left_is_made_again_from_the_bottom_up() -> None:
    found = plan_remake(TREE, {"o1", "r1"}, {"m2"})
    assert found.delete == ()
    assert [(n.id, n.sources) for n in found.remake] == [("o1", ("m2",)), ("r1", ("o1", "o3"))]


def test_what_has_none_goes_and_so_does_what_only_it_was_made_into() -> None:
    found = plan_remake(TREE, {"o1", "r1"}, set())
    assert found.delete == ("o1",)
    assert [(n.id, n.sources) for n in found.remake] == [("r1", ("o3",))]
    found = plan_remake(TREE, {"o1", "o3", "r1"}, set())
    assert found.delete == ("o1", "o3", "r1")
    assert found.remake == ()


def test_what_nothing_leads_to_any_more_goes() -> None:
    notes = {**TREE, **by_id(noted("x", "m1", "m2", status="retired"), noted("y", "m1", status="superseded"))}
    found = plan_remake(notes, {"x", "y"}, {"m1", "m2"})
    assert found.delete == ("x", "y")


def test_everything_made_from_a_note_is_above_it() -> None:
    notes = {**TREE, **by_id(noted("r2", "r1", generation=2))}
    assert with_descendants(notes, {"o3"}) == {"o3", "r1", "r2"}


def test_a_value_that_only_the_forgotten_said_gives_a_note_away() -> None:
    values = exact_values("The parcel is ZX-90417, at /srv/app/fly.toml")
    assert {"ZX-90417", "/srv/app/fly.toml"} <= values
    own = [Message("user", "Is ZX-90417 here yet?")]
    gossip = noted("o1", text="ZX-90417 is on its way")
    assert not has_borrowed_values(noted("o2", text="the parcel is on its way"), values, ())
    assert has_borrowed_values(gossip, values, ())
    assert not has_borrowed_values(gossip, values, own)


def item(ident: str, summary: str, **more: Any) -> Item:
    return Item("ana", ident, "profile", summary, NOW, session=more.pop("session", "s"), **more)


def test_items_go_with_what_they_come_from_unless_it_is_still_said() -> None:
    items = [
        item("from the message", "Berit lives in Tromsø", sources=("m1",)),
        item("from a note", "Berit has a boat in Tromsø", sources=("o1",)),
        item("still said", "Ana likes rye bread", sources=("o1",)),
        item("saved", "sister Berit lives in Tromsø"),
        item("of another kind", "Ana works as a baker"),
        item("made of it", "family up north", derived_from=("from a note",)),
        item("elsewhere", "Berit lives in Tromsø", session="other"),
    ]
    going = items_to_forget(
        items,
        session="s",
        touched={"o1"},
        gone={"m1"},
        forgotten="My sister Berit lives in Tromsø and has a boat.",
        remaining="Ana likes rye bread, and bakes it",
    )
    assert going == ("from a note", "from the message", "made of it", "saved")


# -- What a text kept, dropped and added

LINES = st.lists(st.sampled_from(["a", "b", "c", "## 2026-02-16", "", "d d"]), max_size=8)


def test_lines_are_kept_dropped_and_added_and_days_are_not_lines() -> None:
    before = "## 2026-02-16\n[14:02] Ana moved to Oslo\n[14:05] Deploy failed"
    after = "## 2026-02-16\n[14:02] Ana moved to Oslo\nAna likes rye"
    found = diff(before, after)
    assert found.kept == ("[14:02] Ana moved to Oslo",)
    assert found.dropped == ("[14:05] Deploy failed",)
    assert found.added == ("Ana likes rye",)
    assert found.unified("o1", "r1").splitlines()[:2] == ["--- o1", "+++ r1"]
    assert "-[14:05] Deploy failed" in found.unified()
    assert diff(before, before).unified() == ""


@given(LINES, LINES)
def test_every_line_is_counted_once_on_each_side(old: list[str], new: list[str]) -> None:
    found = diff("\n".join(old), "\n".join(new))
    before = Counter(line for line in old if line and not line.startswith("## "))
    after = Counter(line for line in new if line and not line.startswith("## "))
    assert Counter(found.kept) + Counter(found.dropped) == before
    assert Counter(found.kept) + Counter(found.added) == after
    assert not Counter(found.dropped) & Counter(found.added)
