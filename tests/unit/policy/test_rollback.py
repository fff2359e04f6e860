"""Which notes still stand when a host takes messages back."""

from __future__ import annotations

from dataclasses import replace

from conversations import note
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.notes import LIVE, Note
from onlooker.policy.history import Rollback, roll_back


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
