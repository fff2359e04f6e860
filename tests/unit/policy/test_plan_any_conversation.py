"""What holds after any number of steps, in any conversation."""

from __future__ import annotations

from dataclasses import replace

from conversations import Toy, conversations, note, numbered
from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.messages import Message, groups, is_open, tokens_of
from onlooker.domain.notes import Note
from onlooker.policy.plan import Idle, Reflect, make_room, oldest_chunk, plan
from onlooker.policy.settings import DEFAULT, LANGO, ZORA, Limits, Settings, limits_for

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


def covered_once(toy: Toy) -> None:
    """Live notes follow one another without gap or overlap, and nothing falls between them and the tail."""
    notes = sorted(toy.notes, key=lambda n: n.first)
    after = 1
    for one in notes:
        assert one.first == after
        after = one.last + 1
    now = toy.state
    assert now.progress.tail_start <= now.progress.watermark + 1
    assert now.progress.tail_start <= toy.newest_group_starts


def settled(toy: Toy, limits: Limits) -> None:
    for _ in range(6 * len(toy.messages) + 20):
        step = plan(toy.state, limits)
        if step == Idle():
            return
        if isinstance(step, Reflect):
            assert not {n.id for n in step.notes} & toy.pins
        toy.do(step, limits)
        covered_once(toy)
    raise AssertionError("planning does not come to an end")


def thresholds_hold(toy: Toy, limits: Limits) -> None:
    now = toy.state
    kept = oldest_chunk(now.unnoted, keep=limits.keep_recent) == ()
    if not now.buffered:
        assert tokens_of(now.unshown) < limits.observe_at or kept
    if limits.settings.precompute:
        assert tokens_of(now.unnoted) < limits.precompute_at or kept
    loose: list[Note] = [n for n in now.active if n.id not in now.pins]
    if not toy.pins:
        assert len(now.reflections) < limits.settings.consolidate_at
        by_kind = now.observations if limits.settings.reflect_counts == "observations" else now.active
        assert sum(n.tokens for n in by_kind) < limits.reflect_at or len(loose) <= 1
    if kept and now.unnoted:
        last = list(groups(now.unnoted))[-1]
        assert is_open(last) or tokens_of(now.unnoted) <= limits.keep_recent + tokens_of(
            next(groups(now.unnoted))
        )


_settings = st.sampled_from((DEFAULT, PLAIN, replace(PLAIN, precompute=False), LANGO, ZORA)).flatmap(
    lambda s: st.builds(
        replace, st.just(s), consolidate_at=st.integers(2, 6), chunk_messages=st.sampled_from((0, 3, 20))
    )
)


@given(
    conversations(longest=60),
    _settings,
    st.sampled_from((256, 700, 2000, 4000)),
    st.lists(st.integers(1, 25), min_size=1, max_size=30),
    st.data(),
)
def test_planning_ends_covers_each_message_once_and_keeps_its_thresholds(
    said: list[Message], settings: Settings, budget: int, bursts: list[int], data: st.DataObject
) -> None:
    limits = limits_for(settings, budget)
    toy = Toy()
    with_pins = data.draw(st.booleans())
    for burst in bursts:
        toy.messages = said[: len(toy.messages) + burst]
        settled(toy, limits)
        thresholds_hold(toy, limits)
        if with_pins and toy.state.active:
            chosen = data.draw(st.sampled_from([n.id for n in toy.state.active]))
            toy.pins ^= {chosen}


@given(
    st.lists(st.tuples(st.integers(1, 1500), st.integers(0, 2), st.booleans()), min_size=1, max_size=12),
    _settings,
)
def test_condensing_any_notes_ends_and_covers_each_message_once(
    sizes: list[tuple[int, int, bool]], settings: Settings
) -> None:
    limits = limits_for(settings, 0)
    toy = Toy()
    toy.messages = list(numbered(*[10] * len(sizes)))
    toy.notes = [note(i, i, tokens, generation=g) for i, (tokens, g, _) in enumerate(sizes, 1)]
    toy.pins = {n.id for n, (_, _, pinned) in zip(toy.notes, sizes, strict=True) if pinned}
    pinned = [n for n in toy.notes if n.id in toy.pins]
    toy.tail_start = len(sizes)
    settled(toy, limits)
    assert [n for n in toy.notes if n.id in toy.pins] == pinned


@given(conversations(), st.integers(0, 2000), st.integers(0, 30))
def test_making_room_ends_with_everything_in_sight_or_only_the_newest_left(
    said: list[Message], room: int, already: int
) -> None:
    toy = Toy()
    toy.messages = said
    # Some are noted already, and still stand raw.
    noted = len(oldest_chunk(said, keep=0, max_messages=already)) if already else 0
    if noted:
        toy.notes = [note(1, noted)]
    for _ in range(len(said) + 5):
        step = make_room(toy.state, LIMITS, room)
        if step is None:
            break
        toy.do(step, LIMITS)
    unshown = toy.state.unshown
    assert make_room(toy.state, LIMITS, room) is None
    assert tokens_of(unshown) <= room or len(list(groups(unshown))) == 1
    covered_once(toy)
