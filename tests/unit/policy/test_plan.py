"""What to do next: each step with its exact boundaries, and what holds after any number of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from conversations import SESSION, call, message, note, numbered, result, state

from onlooker.domain.messages import Message
from onlooker.domain.notes import Progress
from onlooker.policy.plan import (
    FAR_AHEAD,
    Activate,
    Idle,
    Observe,
    Reflect,
    Rewrite,
    due_tokens,
    gives_up,
    is_due,
    is_due_now,
    is_postponed,
    make_room,
    must_wait,
    plan,
    retry_after,
    wake_at,
)
from onlooker.policy.settings import (
    DEFAULT,
    LANGO,
    LARGE,
    OFF,
    SECTION_TOKENS,
    ZORA,
    Settings,
    Timing,
    limits_for,
    with_models,
)

LANGO_LIMITS = limits_for(LANGO, 0)
ZORA_LIMITS = limits_for(ZORA, 0)
# observe_at 1000, keep_recent 300, chunks of 400, written ahead from 800 on; reflections at 2000.
PLAIN = replace(
    DEFAULT,
    observe_at=1000,
    keep_recent=300,
    chunk_tokens=400,
    precompute_at=800,
    memory_limit=2500,
    reflect_at=2000,
    reflect_to=0.5,
    message_limit=4000,
)
LIMITS = limits_for(PLAIN, 0)
NO_AHEAD = limits_for(replace(PLAIN, precompute=False), 0)
FREE = limits_for(with_models(PLAIN, free_observer=True, free_reflector=True), 0)


def seqs(messages: tuple[Message, ...]) -> list[int]:
    return [m.seq for m in messages]


# ------------------------------------------------------------------------------------ observing


@pytest.mark.req(1)
@pytest.mark.parametrize(("tokens", "due"), [(999, False), (1000, True), (1001, True)])
def test_lango_observes_once_a_thousand_tokens_are_reached(tokens: int, due: bool) -> None:
    step = plan(state(numbered(600, tokens - 600)), LANGO_LIMITS)
    assert isinstance(step, Observe) == due
    if isinstance(step, Observe):
        assert seqs(step.messages) == [1, 2]
        assert not step.buffered


@pytest.mark.req(1)
def test_what_is_noted_already_does_not_count() -> None:
    said = numbered(900, 900, 100)
    assert plan(state(said, [note(1, 2)]), LANGO_LIMITS) == Idle()


@pytest.mark.req(81, 82)
@pytest.mark.parametrize(("tokens", "due"), [(29_999, False), (30_001, True)])
def test_zora_notes_the_twenty_oldest_when_the_working_tier_is_full(tokens: int, due: bool) -> None:
    zora = limits_for(replace(ZORA, precompute=False), 0)
    step = plan(state(numbered(*[1000] * 29, tokens - 29_000)), zora)
    assert isinstance(step, Observe) == due
    if isinstance(step, Observe):
        assert seqs(step.messages) == list(range(1, 21))


@pytest.mark.req(11)
@pytest.mark.parametrize(("preset", "ratio"), [(LANGO, 0.25), (ZORA, 0.25), (DEFAULT, 0.2)])
@pytest.mark.parametrize("full", [0, 500])
def test_a_note_that_costs_something_is_the_same_share_of_its_source_at_any_time(
    preset: Settings, ratio: float, full: int
) -> None:
    for free_reflector in (True, False):
        limits = limits_for(with_models(preset, free_observer=False, free_reflector=free_reflector), 100_000)
        step = plan(state(numbered(1, *[1000] * 99), [note(1, 1, full)] if full else []), limits)
        assert isinstance(step, Observe)
        assert step.ratio == ratio


def test_notes_that_cost_nothing_are_longer_while_memory_has_room() -> None:
    limits = limits_for(with_models(PLAIN, free_observer=True, free_reflector=True), 0)
    said = numbered(1, *[100] * 20)
    ratios: list[float] = []
    for tokens in (0, 500, 1000, 1999):
        step = plan(state(said, [note(1, 1, tokens)] if tokens else []), limits)
        assert isinstance(step, Observe)
        ratios.append(step.ratio)
    assert ratios[0] == 0.5
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] == pytest.approx(0.2, abs=0.001)


def test_in_a_small_budget_those_that_cost_something_are_longer_too_while_memory_has_room() -> None:
    """In a larger one messages stand raw in the room that is left."""
    said = numbered(1, *[100] * 99)
    for budget, first in ((2_000, 0.35), (4_000, 0.35), (LARGE, 0.2)):
        limits = limits_for(DEFAULT, budget)
        assert limits.first_ratio == pytest.approx(first)
        ratios: list[float] = []
        for tokens in (0, limits.reflect_at // 2, limits.reflect_at - 1):
            step = plan(state(said, [note(1, 1, tokens)] if tokens else []), limits)
            assert isinstance(step, Observe)
            ratios.append(step.ratio)
        assert ratios == sorted(ratios, reverse=True)
        assert ratios[-1] == pytest.approx(0.2, abs=0.001)


@pytest.mark.parametrize("preset", [LANGO, ZORA])
def test_a_preset_with_numbers_of_its_own_keeps_its_share(preset: Settings) -> None:
    for free in (True, False):
        models = with_models(preset, free_observer=free, free_reflector=free)
        assert limits_for(models, 0).first_ratio == limits_for(models, 2_000).first_ratio == 0.25


def test_notes_are_short_once_notes_were_condensed() -> None:
    """Longer ones would fill the room that condensing made, and break the prefix again soon."""
    limits = limits_for(with_models(PLAIN, free_observer=True, free_reflector=True), 0)
    step = plan(state(numbered(1, *[100] * 20), [note(1, 1, 200, generation=1)]), limits)
    assert isinstance(step, Observe)
    assert step.ratio == 0.2


@pytest.mark.req(54, 83)
def test_the_default_leaves_recent_messages_raw() -> None:
    step = plan(state(numbered(*[100] * 10)), NO_AHEAD)
    assert isinstance(step, Observe)
    assert seqs(step.messages) == [1, 2, 3, 4]  # one chunk of 400
    assert step.tail_start == 5


@pytest.mark.req(31)
@pytest.mark.parametrize(("tokens", "due"), [(799, False), (800, True)])
def test_a_note_is_written_ahead_before_it_is_needed(tokens: int, due: bool) -> None:
    step = plan(state(numbered(*[100] * 7, tokens - 700)), LIMITS)
    assert isinstance(step, Observe) == due
    if isinstance(step, Observe):
        assert step.buffered
        assert seqs(step.messages) == [1, 2, 3, 4]


@pytest.mark.req(65)
def test_nothing_is_written_ahead_where_that_is_off() -> None:
    assert plan(state(numbered(*[100] * 9)), NO_AHEAD) == Idle()


def test_writing_ahead_goes_on_from_the_last_buffered_note() -> None:
    buffered = note(1, 4, status="buffered")
    # 900 tokens are not noted yet, but the buffered note is shown first: the raw part is full.
    assert isinstance(plan(state(numbered(*[100] * 13), [buffered]), LIMITS), Activate)
    fewer = replace(PLAIN, observe_at=2000, message_limit=4000)
    step = plan(state(numbered(*[100] * 13), [buffered]), limits_for(fewer, 0))
    assert isinstance(step, Observe)
    assert step.buffered
    assert seqs(step.messages) == [5, 6, 7, 8]


def test_a_giant_message_stays_raw_until_enough_follows_it() -> None:
    assert plan(state(numbered(5000)), LIMITS) == Idle()
    assert plan(state(numbered(5000, 299)), LIMITS) == Idle()
    step = plan(state(numbered(5000, 300)), LIMITS)
    assert isinstance(step, Observe)
    assert seqs(step.messages) == [1]


def test_a_call_is_noted_with_its_results_only() -> None:
    waiting = (*numbered(900), call(2, "a", tokens=200))
    step = plan(state(waiting), LANGO_LIMITS)
    assert isinstance(step, Observe)
    assert seqs(step.messages) == [1]
    step = plan(state((*waiting, result(3, "a", 200))), LANGO_LIMITS)
    assert isinstance(step, Observe)
    assert seqs(step.messages) == [1, 2, 3]


@pytest.mark.req(54)
def test_lango_keeps_noted_messages_raw_as_far_as_its_window_goes() -> None:
    said = numbered(*[500] * 30)
    step = plan(state(said, [note(1, 28)], tail_start=1), LANGO_LIMITS)
    assert isinstance(step, Observe)
    # 7,000 tokens stay, so that the thousand that come before the next look fit the 8,000.
    assert step.tail_start == 30 - 14 + 1


def test_the_newest_group_stays_in_sight_even_when_it_is_noted() -> None:
    said = (message(1, 10), call(2, "a", tokens=600), result(3, "a", 900))
    step = plan(state(said), limits_for(replace(LANGO, overlap=0), 0))
    assert isinstance(step, Observe)
    assert seqs(step.messages) == [1, 2, 3]
    assert step.tail_start == 2


# ------------------------------------------------------------------------------------ activating


@pytest.mark.req(31)
@pytest.mark.parametrize(("tokens", "due"), [(999, False), (1000, True)])
def test_buffered_notes_are_shown_when_the_raw_part_is_full(tokens: int, due: bool) -> None:
    said = numbered(*[100] * 9, tokens - 900)
    step = plan(state(said, [note(1, 4, status="buffered")]), LIMITS)
    assert isinstance(step, Activate) == due
    if isinstance(step, Activate):
        assert (step.watermark, step.tail_start) == (4, 5)


def test_noted_messages_stay_raw_only_as_far_as_newer_ones_leave_room() -> None:
    settings = replace(PLAIN, overlap=800)
    step = plan(state(numbered(*[100] * 10), [note(1, 4, status="buffered")]), limits_for(settings, 0))
    assert isinstance(step, Activate)
    assert (step.watermark, step.tail_start) == (4, 3)  # 600 follow, so 200 of the 800


def test_activation_leaves_what_is_to_stay_raw() -> None:
    said = numbered(*[100] * 10)
    buffered = [note(1, 4, status="buffered"), note(5, 8, status="buffered")]
    step = plan(state(said, buffered), LIMITS)
    assert isinstance(step, Activate)
    assert step.notes == (buffered[0],)  # with the second, 200 of the 300 would be left
    one_less = [note(1, 4, status="buffered"), note(5, 7, status="buffered")]
    step = plan(state(said, one_less), LIMITS)
    assert isinstance(step, Activate)
    assert step.notes == tuple(one_less)


def test_buffered_notes_are_shown_in_order_and_none_is_skipped() -> None:
    said = numbered(100, 5000, 100, 100)
    buffered = [note(1, 2, status="buffered"), note(3, 3, status="buffered")]
    step = plan(state(said, buffered), limits_for(replace(PLAIN, keep_recent=150), 0))
    assert isinstance(step, Activate)
    assert step.notes == (buffered[0],)


def test_no_note_overtakes_a_buffered_one() -> None:
    # The buffered note cannot be shown yet: what stays raw behind it would be too little.
    said = numbered(900, 100, 100)
    waiting = state(said, [note(1, 1, status="buffered")])
    assert not isinstance(plan(waiting, LIMITS), Observe | Activate)


# ------------------------------------------------------------------------------------ reflecting


@pytest.mark.req(18, 20)
@pytest.mark.parametrize(("tokens", "due"), [(1999, False), (2000, True)])
def test_lango_condenses_every_observation_once_two_thousand_tokens_are_reached(
    tokens: int, due: bool
) -> None:
    notes = [note(1, 2, 1000), note(3, 4, tokens - 1000)]
    step = plan(state(notes=notes), LANGO_LIMITS)
    assert isinstance(step, Reflect) == due
    if isinstance(step, Reflect):
        assert step.notes == tuple(notes)
        assert step.generation == 1
        assert 0 < step.target_tokens <= 1000


@pytest.mark.req(18)
def test_lango_counts_observations_not_reflections() -> None:
    assert plan(state(notes=[note(1, 2, 1900, generation=1), note(3, 4, 1900)]), LANGO_LIMITS) == Idle()


@pytest.mark.req(81)
@pytest.mark.parametrize(("tokens", "due"), [(9999, False), (10_001, True)])
def test_zora_condenses_the_oldest_when_the_session_tier_is_full(tokens: int, due: bool) -> None:
    notes = [note(i, i, 1000) for i in range(1, 10)]
    notes.append(note(10, 10, tokens - 9000))
    step = plan(state(notes=notes), ZORA_LIMITS)
    assert isinstance(step, Reflect) == due
    if isinstance(step, Reflect):
        assert step.notes[0] == notes[0]
        assert step.notes == tuple(notes[: len(step.notes)])


def test_reflection_takes_the_oldest_and_comes_down_to_its_target() -> None:
    notes = [note(i, i, 250) for i in range(1, 10)]  # 2,250 tokens, to come down to 1,000
    gentle = limits_for(replace(PLAIN, reflect_to=0.9), 0)
    step = plan(state(notes=notes), gentle)
    assert isinstance(step, Reflect)
    # 450 tokens too many: twice that is condensed to a half.
    assert step.notes == tuple(notes[:4])
    assert step.target_tokens == 550
    assert 2250 - 1000 + step.target_tokens == 1800


def test_no_more_is_lost_than_must_go() -> None:
    """What is condensed comes down to the goal, to a half only where that is more."""
    gentle = replace(PLAIN, reflect_to=0.9)
    reflections = [note(1, 2, 1300, generation=1), note(3, 4, 1000, generation=1)]
    for settings in (gentle, with_models(gentle, free_observer=True, free_reflector=True)):
        step = plan(state(notes=reflections), limits_for(settings, 0))
        assert isinstance(step, Reflect)
        assert step.target_tokens == 1800
    crowding = [note(1, 2, 7000, generation=1), note(3, 4, 7000, generation=1), note(5, 6, 2000)]
    step = plan(state(notes=crowding), ZORA_LIMITS)
    assert isinstance(step, Reflect)
    assert step.notes == tuple(crowding[:2])
    assert step.target_tokens == 7000  # the prompt would not hold them: a half, whatever the goal


def test_the_default_counts_all_of_memory() -> None:
    notes = [note(1, 2, 1500, generation=1), note(3, 4, 300), note(5, 6, 200)]
    step = plan(state(notes=notes), LIMITS)
    assert isinstance(step, Reflect)
    assert all(n.generation == 0 for n in step.notes)


@pytest.mark.req(19, 21, 23)
@pytest.mark.parametrize(("count", "due"), [(4, False), (5, True), (6, True)])
def test_five_reflections_become_one_of_the_next_generation(count: int, due: bool) -> None:
    notes = [note(i, i, 100, generation=1 + (i == 2)) for i in range(1, count + 1)]
    step = plan(state(notes=notes), LANGO_LIMITS)
    assert isinstance(step, Reflect) == due
    if isinstance(step, Reflect):
        assert step.notes == tuple(notes)
        assert step.generation == 3
        assert 0 < step.target_tokens <= count * 50


def test_with_only_reflections_left_they_give_way_before_there_are_five() -> None:
    notes = [note(1, 2, 1200, generation=1), note(3, 4, 900, generation=2)]
    step = plan(state(notes=notes), LIMITS)
    assert isinstance(step, Reflect)
    assert step.generation == 3
    assert plan(state(notes=notes[:1]), LIMITS) == Idle()


@pytest.mark.req(18)
@pytest.mark.parametrize(("tokens", "due"), [(1999, False), (2000, True)])
def test_the_default_condenses_at_exactly_reflect_at(tokens: int, due: bool) -> None:
    notes = [note(1, 2, 1000), note(3, 4, tokens - 1000)]
    assert isinstance(plan(state(notes=notes), LIMITS), Reflect) == due


@pytest.mark.parametrize(("tokens", "due"), [(1999, False), (2000, True)])
def test_notes_that_cost_nothing_are_all_condensed_at_exactly_reflect_at(tokens: int, due: bool) -> None:
    notes = [note(1, 2, 1000, generation=2), note(3, 4, tokens - 1500), note(5, 6, 500)]
    step = plan(state(notes=notes), FREE)
    assert isinstance(step, Reflect) == due
    if isinstance(step, Reflect):
        assert step.notes == tuple(notes[:-1])  # of both kinds, but not what was noted last
        assert step.generation == 3


def test_a_single_reflection_is_not_condensed_again_and_again() -> None:
    assert plan(state(notes=[note(1, 2, 2400, generation=1)]), FREE) == Idle()


def test_reflections_of_exactly_reflect_at_give_way() -> None:
    notes = [note(1, 2, 1000, generation=1), note(3, 4, 999, generation=1)]
    assert plan(state(notes=notes), LIMITS) == Idle()
    notes[1] = note(3, 4, 1000, generation=1)
    assert isinstance(plan(state(notes=notes), LIMITS), Reflect)


@pytest.mark.parametrize(("reflected", "generation"), [(1200, 1), (1202, 2)])
def test_reflections_give_way_once_they_are_more_than_three_fifths(reflected: int, generation: int) -> None:
    reflections = [note(i, i, reflected // 2, generation=1) for i in (1, 2)]
    step = plan(state(notes=[*reflections, note(3, 3, 800)]), LIMITS)
    assert isinstance(step, Reflect)
    assert step.generation == generation


def test_no_more_is_condensed_than_twice_what_must_go() -> None:
    notes = [*(note(i, i, 100) for i in range(1, 5)), note(5, 5, 1600)]
    step = plan(state(notes=notes), limits_for(replace(PLAIN, reflect_to=0.9), 0))
    assert isinstance(step, Reflect)
    assert step.notes == tuple(notes[:4])  # 200 too many, so exactly 400


LANGO_ROOM = 4000 - SECTION_TOKENS


def test_where_only_observations_count_the_prompts_limit_still_holds() -> None:
    """Neither five reflections nor 2,000 tokens of observations, and yet more than the prompt may hold."""
    reflections = [note(1, 2, 1500, generation=1), note(3, 4, 1500, generation=1)]
    fits = [*reflections, note(5, 6, LANGO_ROOM - 3000)]
    assert plan(state(notes=fits), LANGO_LIMITS) == Idle()
    step = plan(state(notes=[*reflections, note(5, 6, LANGO_ROOM - 3000 + 1)]), LANGO_LIMITS)
    assert isinstance(step, Reflect)
    assert step.notes == tuple(reflections)
    assert (step.generation, step.target_tokens) == (2, 1500)


def test_observations_give_way_where_there_is_a_single_reflection_to_go_over_the_limit_with() -> None:
    notes = [note(1, 2, 3000, generation=1), note(3, 4, LANGO_ROOM - 3000)]
    assert plan(state(notes=notes), LANGO_LIMITS) == Idle()
    notes[1] = note(3, 4, LANGO_ROOM - 3000 + 1)
    step = plan(state(notes=notes), LANGO_LIMITS)
    assert isinstance(step, Reflect)
    assert step.notes == (notes[1],)


def test_what_exceeds_the_prompts_limit_goes_though_the_goal_is_reached() -> None:
    """Zora comes down to half of its observations, and further if the prompt would not hold the rest."""
    room = 15_000 - SECTION_TOKENS
    notes = [note(1, 2, room - 8000, generation=1), *(note(i, i, 1000) for i in range(3, 12))]
    step = plan(state(notes=notes), ZORA_LIMITS)
    assert isinstance(step, Reflect)
    assert step.notes == tuple(notes[1:9])  # 5,000 were allowed; 9,000 are there: 4,000 must go
    assert step.target_tokens == 4000
    crowded = [note(1, 2, room - 2000, generation=1), *(note(i, i, 1000) for i in range(3, 8))]
    step = plan(state(notes=crowded), ZORA_LIMITS)
    assert isinstance(step, Reflect)
    assert step.notes == tuple(crowded[1:])  # 3,000 too many, and 5,000 to take them from


def test_pinned_reflections_do_not_count_towards_the_five() -> None:
    notes = [note(i, i, 100, generation=1) for i in range(1, 7)]
    assert plan(state(notes=notes, pins=[notes[0].id, notes[5].id]), LANGO_LIMITS) == Idle()
    step = plan(state(notes=notes, pins=[notes[0].id]), LANGO_LIMITS)
    assert isinstance(step, Reflect)
    assert step.notes == tuple(notes[1:])


# ------------------------------------------------------------------------------------ pins


def test_a_pinned_note_is_never_condensed() -> None:
    notes = [note(i, i, 1000) for i in range(1, 5)]
    step = plan(state(notes=notes, pins=[notes[0].id]), LIMITS)
    assert isinstance(step, Reflect)
    assert notes[0] not in step.notes
    assert plan(state(notes=notes, pins=[n.id for n in notes]), LIMITS) == Idle()


def test_nothing_is_condensed_across_a_pinned_note() -> None:
    observations = [note(i, i, 1000) for i in range(1, 5)]
    step = plan(state(notes=observations, pins=[observations[1].id]), LANGO_LIMITS)
    assert isinstance(step, Reflect)
    assert step.notes == (observations[0],)
    reflections = [note(i, i, 100, generation=1) for i in range(1, 8)]
    step = plan(state(notes=reflections, pins=[reflections[2].id]), LANGO_LIMITS)
    assert isinstance(step, Reflect)
    assert step.notes == tuple(reflections[:2])


def test_a_note_that_was_pinned_once_is_not_condensed_across_reflections() -> None:
    before = note(1, 1, 100, generation=1)
    let_go = note(2, 2, 1000)
    after = note(3, 3, 100, generation=1)
    newest = note(4, 4, 1000)
    step = plan(state(notes=[before, let_go, after, newest]), LANGO_LIMITS)
    assert isinstance(step, Reflect)
    assert step.notes == (let_go,)


# ------------------------------------------------------------------------------------ the rest


def test_what_the_built_in_model_noted_in_place_of_another_is_written_again_last() -> None:
    degraded = note(1, 2, degraded=True)
    assert plan(state(numbered(10, 10, 10), [degraded]), LIMITS) == Rewrite(degraded)
    busy = state(numbered(10, 10, *[100] * 20), [degraded])
    assert isinstance(plan(busy, LIMITS), Observe)
    assert plan(state(notes=[degraded], pins=[degraded.id]), LIMITS) == Idle()


@pytest.mark.req(62, 100)
def test_switched_off_nothing_is_ever_due() -> None:
    full = state(numbered(*[5000] * 30), [note(1, 4, status="buffered"), note(5, 6, 90_000)])
    assert plan(full, limits_for(OFF, 0)) == Idle()


def test_an_empty_session_is_idle() -> None:
    assert plan(state(), LIMITS) == Idle()


@pytest.mark.req(32, 97)
def test_the_turn_waits_only_where_block_after_says_so() -> None:
    said = state(numbered(59_999))
    assert not must_wait(said, ZORA_LIMITS)
    assert must_wait(state(numbered(60_000)), ZORA_LIMITS)
    assert not must_wait(state(numbered(10**6)), LIMITS)
    # Of a long backlog only a part is loaded; all of it counts.
    assert must_wait(replace(said, progress=replace(said.progress, unnoted_tokens=60_000)), ZORA_LIMITS)


# ------------------------------------------------------------------------------------ waking


def test_a_session_is_due_when_a_note_can_be_written() -> None:
    assert due_tokens(PLAIN, 0) == 800
    assert due_tokens(replace(PLAIN, precompute=False), 0) == 1000
    assert due_tokens(LANGO, 0) == 1000


def test_a_session_with_buffered_notes_wakes_when_they_are_to_be_shown() -> None:
    said = numbered(*[100] * 8)
    settled = state(said, [note(1, 4, status="buffered")])
    assert plan(settled, LIMITS) == Idle()
    woken_at = wake_at(settled, LIMITS)
    assert woken_at == 600  # the 400 that the note stands for, and 600 more
    more = numbered(*[100] * 10)
    assert isinstance(plan(state(more, [note(1, 4, status="buffered")]), LIMITS), Activate)
    assert wake_at(state(said), LIMITS) == 800
    # Another note can be written before the buffered one has to be shown.
    assert wake_at(state(said, [note(1, 1, status="buffered")]), LIMITS) == 800
    # One that is held back already is looked at again with the next message.
    assert wake_at(state(numbered(1200, 100), [note(1, 1, status="buffered")]), LIMITS) == 1


NOW = datetime(2026, 2, 16, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("due_in", "due", "postponed"),
    [
        (None, False, False),
        (timedelta(seconds=-1), True, False),
        (timedelta(0), True, False),
        (timedelta(seconds=1), False, True),
        (FAR_AHEAD, False, True),
        (FAR_AHEAD + timedelta(seconds=1), True, False),  # from a clock that was wrong
    ],
)
def test_a_session_is_due_from_its_time_on(due_in: timedelta | None, due: bool, postponed: bool) -> None:
    progress = Progress(SESSION, due_at=None if due_in is None else NOW + due_in)
    assert is_due_now(progress, NOW) == due
    assert is_postponed(progress, NOW) == postponed


@pytest.mark.parametrize(("said", "due"), [(399, False), (400, True), (900, True)])
def test_a_session_is_due_at_the_lower_of_its_marks(said: int, due: bool) -> None:
    assert is_due(said, due_tokens=800, wake_at=400) == due
    assert is_due(said, due_tokens=400, wake_at=800) == due


def test_the_pause_after_a_failure_doubles_up_to_its_limit() -> None:
    timing = Timing(retry_seconds=2.0, retry_limit_seconds=300.0)
    assert [retry_after(failures, timing) for failures in (1, 2, 3, 8, 9, 10_000)] == [2, 4, 8, 256, 300, 300]
    # A time further ahead would be taken for that of a wrong clock.
    assert retry_after(100, replace(timing, retry_limit_seconds=10**6)) == FAR_AHEAD.total_seconds()


def test_a_note_stays_as_it_is_after_three_failures_to_rewrite_it() -> None:
    assert [gives_up(failures) for failures in (0, 1, 2, 3, 4)] == [False, False, False, True, True]


# ------------------------------------------------------------------------------------ making room


def test_nothing_is_done_where_everything_fits() -> None:
    assert make_room(state(numbered(500, 500)), LIMITS, 1000) is None


def test_buffered_notes_make_room_first_and_no_more_of_them_than_needed() -> None:
    buffered = [note(1, 2, status="buffered"), note(3, 4, status="buffered")]
    said = state(numbered(*[100] * 8), buffered)
    step = make_room(said, LIMITS, 600)
    assert isinstance(step, Activate)
    assert step.notes == (buffered[0],)
    step = make_room(said, LIMITS, 599)
    assert isinstance(step, Activate)
    assert step.notes == tuple(buffered)


def test_what_would_not_fit_is_noted_on_the_spot_and_the_newest_stays() -> None:
    step = make_room(state(numbered(*[100] * 10)), LIMITS, 500)
    assert isinstance(step, Observe)
    assert not step.buffered
    assert seqs(step.messages) == [1, 2, 3, 4]  # one chunk of 400
    step = make_room(state(numbered(*[100] * 6)), LIMITS, 500)
    assert isinstance(step, Observe)
    assert seqs(step.messages) == [1, 2, 3]  # 300 of 500 stay: what is to stay raw
    step = make_room(state(numbered(100, 100, 9000)), LIMITS, 500)
    assert isinstance(step, Observe)
    assert seqs(step.messages) == [1, 2]
    assert make_room(state(numbered(9000)), LIMITS, 500) is None


def test_noted_messages_that_still_stand_raw_make_way_with_room_to_grow() -> None:
    said = numbered(*[100] * 10)
    overlapping = state(said, [note(1, 6)], tail_start=1)
    assert make_room(overlapping, LIMITS, 1000) is None
    # 999 is too little for all; three quarters of it hold the four new ones and three noted ones.
    assert make_room(overlapping, LIMITS, 999) == Activate((), 6, 4)
    assert make_room(overlapping, LIMITS, 400) == Activate((), 6, 7)
    all_noted = state(said, [note(1, 10)], tail_start=1)
    assert make_room(all_noted, LIMITS, 50) == Activate((), 10, 10)  # the newest stays in sight
    assert make_room(state(said, [note(1, 10)], tail_start=10), LIMITS, 50) is None


# ------------------------------------------------------------------------------------ filling the budget


def test_messages_stand_raw_while_notes_leave_room() -> None:
    limits = limits_for(DEFAULT, 10_000)
    raw = numbered(*[100] * 75)
    ahead = plan(state(raw[:30]), limits)
    assert isinstance(ahead, Observe)
    assert ahead.buffered
    written = [note(n + 1, n + 10, status="buffered", tokens=200) for n in range(0, 70, 10)]
    assert plan(state(raw, written), limits) == Idle()
    shown = plan(state(numbered(*[100] * 85), [*written, note(71, 79, status="buffered")]), limits)
    assert isinstance(shown, Activate)
    assert len(shown.notes) == 8
    # With notes of 5,000 there is room for 3,500.
    full = [note(1, 10, tokens=5_000), note(11, 39, status="buffered")]
    assert plan(state(numbered(*[100] * 44), full), limits) == Idle()
    assert isinstance(plan(state(numbered(*[100] * 45), full), limits), Activate)


def test_what_stands_raw_behind_notes_is_noted_before_they_are_shown() -> None:
    limits = limits_for(DEFAULT, 10_000)
    written = [note(n + 1, n + 10, status="buffered", tokens=200) for n in range(0, 70, 10)]
    step = plan(state(numbered(*[100] * 86), written), limits)
    assert isinstance(step, Observe)
    assert step.buffered
    assert [m.seq for m in step.messages] == list(range(71, 82))


def test_a_short_question_is_not_noted_apart_from_its_long_answer() -> None:
    limits = limits_for(DEFAULT, 10_000)
    written = [note(n + 1, n + 10, status="buffered", tokens=200) for n in range(0, 70, 10)]
    step = plan(state(numbered(*[100] * 71, 1_500), written), limits)
    assert isinstance(step, Activate)
    assert len(step.notes) == 7


def test_small_budgets_and_numbers_of_tokens_leave_no_more_raw() -> None:
    assert limits_for(DEFAULT, 2_000).fill_to == limits_for(DEFAULT, 4_000).fill_to == 0
    assert LIMITS.fill_to == LANGO_LIMITS.fill_to == ZORA_LIMITS.fill_to == 0
    assert limits_for(replace(DEFAULT, message_limit=0.5), 10_000).fill_to == 5_000
    blocking = limits_for(replace(DEFAULT, block_after=0.4), 10_000)
    assert blocking.observe_at < blocking.fill_to < blocking.block_after


def test_notes_are_condensed_in_the_step_that_shows_others() -> None:
    standing = [note(1, 2, tokens=700), note(3, 4, tokens=700)]
    said = numbered(*[100] * 4, *[100] * 10)
    step = plan(state(said, [*standing, note(5, 9, tokens=700, status="buffered")]), LIMITS)
    assert isinstance(step, Reflect)
    assert [n.first for n in step.notes] == [1, 3]
    assert step.shows
    assert [n.first for n in step.shows.notes] == [5]
    assert step.shows.watermark == 9
