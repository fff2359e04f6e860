"""The knobs: documented numbers, what they come to in tokens, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conversations import note, numbered, state
from hypothesis import assume, given
from hypothesis import strategies as st

from onlooker.domain.errors import SettingsError
from onlooker.policy.plan import Idle, Observe, plan
from onlooker.policy.settings import (
    DEFAULT,
    KEYS,
    LARGE,
    MAX_TOKENS,
    MIN_BUDGET,
    OFF,
    PRESETS,
    SECTION_TOKENS,
    SIZES,
    Limits,
    Settings,
    allowed,
    check,
    limits_for,
    possible,
    preset,
)

# ------------------------------------------------------------------------------------ presets


@pytest.mark.req(1, 18, 23, 48, 49, 54, 61)
def test_lango_has_its_documented_numbers() -> None:
    lango = limits_for(preset("lango"), 0)
    assert (lango.observe_at, lango.reflect_at, lango.settings.consolidate_at) == (1000, 2000, 5)
    assert (lango.memory_limit, lango.message_limit) == (4000, 8000)
    assert (lango.settings.max_reflections, lango.settings.max_observations) == (5, 20)
    assert (lango.settings.estimator, lango.settings.format) == ("lango", "prose")
    assert lango.block_after == 0  # it never waits
    assert not lango.settings.precompute
    assert lango.settings.cross_session_limit == 0


@pytest.mark.req(32, 63, 65, 81, 82)
def test_zora_has_its_documented_numbers() -> None:
    zora = limits_for(preset("zora"), 0)
    assert (zora.observe_at, zora.reflect_at, zora.settings.cross_session_limit) == (30_000, 10_000, 5000)
    assert (zora.settings.chunk_messages, zora.block_after) == (20, 60_000)
    assert (zora.settings.estimator, zora.settings.format) == ("zora", "stamped")
    assert zora.settings.precompute
    assert zora.settings.enabled
    # All of the notes of a session and what came from other sessions find room.
    assert zora.memory_limit == 10_000 + 5000
    # What is not noted yet stands raw, up to where the turn waits.
    assert zora.message_limit == 60_000


def test_every_preset_can_work() -> None:
    for name in PRESETS:
        assert check(preset(name)).preset == name


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"preset = 'mastra': must be one of default, lango, zora"):
        preset("mastra")


@pytest.mark.req(62, 100)
def test_off_plans_nothing_however_much_was_said() -> None:
    said = state(numbered(*[5000] * 20))
    assert isinstance(plan(said, limits_for(DEFAULT, 16_000)), Observe)
    assert plan(said, limits_for(OFF, 16_000)) == Idle()


# ------------------------------------------------------------------------------------ one knob


def in_order(found: Limits) -> None:
    assert 0 <= found.keep_recent < found.precompute_at <= found.observe_at <= found.message_limit
    assert 1 <= found.reflect_at <= found.memory_limit
    assert 0 <= found.overlap <= max(0, found.message_limit - found.observe_at)
    if found.budget:
        assert found.observe_at + found.memory_limit <= found.budget + 1
        assert found.message_limit <= found.budget


@pytest.mark.parametrize("budget", [2000, 16_000, 200_000])
def test_a_small_a_usual_and_a_large_budget_come_to_sane_limits(budget: int) -> None:
    found = limits_for(DEFAULT, budget)
    in_order(found)
    assert found.observe_at == round(DEFAULT.observe_at * budget)
    # Most of the context is memory, and what is said fits beside it.
    assert budget // 2 < found.memory_limit <= budget - found.observe_at
    # A chunk lies before what stays raw, and becomes worth writing before the raw part is full.
    assert found.keep_recent + found.chunk_tokens <= found.precompute_at
    # Notes are condensed before the section that holds them overflows.
    assert found.reflect_at < found.memory_limit


def test_memory_gives_way_to_what_may_stand_raw_or_be_recalled() -> None:
    found = limits_for(check(Settings(observe_at=0.4)), 10_000)
    # Of what recall may take, half is kept free for it.
    assert (found.observe_at, found.recall_limit, found.memory_limit) == (4_000, 2_000, 5_000)
    assert 4_000 < found.reflect_at < 5_000 - SECTION_TOKENS
    without = limits_for(check(Settings(observe_at=0.4, recall="off")), 10_000)
    assert (without.recall_limit, without.memory_limit) == (0, 6_000)


@given(st.integers(MIN_BUDGET, 2_000_000), st.sampled_from(sorted(PRESETS)))
def test_limits_are_in_order_whatever_the_budget(budget: int, name: str) -> None:
    in_order(limits_for(preset(name), budget))


@given(st.integers(MIN_BUDGET, 1_000_000), st.integers(2, 20))
def test_limits_grow_with_the_budget(budget: int, times: int) -> None:
    small, large = limits_for(DEFAULT, budget), limits_for(DEFAULT, budget * times)
    for key in ("observe_at", "keep_recent", "chunk_tokens", "precompute_at", "memory_limit"):
        ratio = getattr(large, key) / getattr(small, key)
        assert ratio == pytest.approx(times, rel=0.05)
    # Headings cost the same whatever the budget, so where it is small they take their share of this; and a
    # small budget is used whole.
    assert small.reflect_at * (times if budget >= LARGE else 1) <= large.reflect_at * 1.05
    assert small.reflect_at <= small.memory_limit - SECTION_TOKENS


_sizes = st.one_of(st.integers(0, 300_000), st.floats(0, 1).map(lambda x: round(x, 3)))


@given(
    st.sampled_from(sorted(PRESETS)),
    st.dictionaries(st.sampled_from(sorted(SIZES)), _sizes, max_size=5),
    st.one_of(st.just(0), st.integers(MIN_BUDGET, 2_000_000)),
)
def test_whatever_passes_the_check_comes_to_limits_in_order(
    name: str, changed: dict[str, Any], budget: int
) -> None:
    try:
        settings = check(replace(preset(name), **changed))
    except SettingsError:
        assume(False)
        raise
    in_order(limits_for(settings, budget))


def test_a_share_is_of_the_budget_and_a_whole_number_is_tokens() -> None:
    shares = replace(DEFAULT, observe_at=0.5, memory_limit=0.2)
    assert limits_for(shares, 10_000).observe_at == 5000
    assert limits_for(shares, 10_000).memory_limit == 2000
    tokens = replace(DEFAULT, observe_at=500, keep_recent=100, precompute_at=400)
    assert limits_for(tokens, 10_000).observe_at == 500


def test_large_numbers_shrink_to_a_small_budget() -> None:
    zora = limits_for(preset("zora"), 8000)
    assert zora.observe_at <= 2000
    assert zora.memory_limit <= 5600
    assert zora.message_limit <= 8000


def test_without_a_budget_shares_are_of_the_settings_own() -> None:
    quarter = replace(DEFAULT, observe_at=0.25)
    assert limits_for(replace(quarter, budget=40_000), 0).observe_at == 10_000
    assert limits_for(replace(quarter, budget=0), 0).observe_at == DEFAULT.budget // 4


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("key", "value", "allowed_words"),
    [
        ("enabled", 1, "true or false"),
        ("enabled", "yes", "true or false"),
        ("budget", -1, "from 0 to"),
        ("budget", 0.5, "an integer"),
        ("budget", "16k", "an integer"),
        ("budget", None, "an integer"),
        ("budget", True, "an integer"),
        ("budget", MAX_TOKENS + 1, str(MAX_TOKENS)[:2]),
        ("budget", MIN_BUDGET - 1, str(MIN_BUDGET)),
        ("observe_at", 0, "share of the budget"),
        ("observe_at", 0.0, "share of the budget"),
        ("observe_at", -5, "share of the budget"),
        ("observe_at", 1.5, "share of the budget"),
        ("observe_at", float("nan"), "share of the budget"),
        ("observe_at", True, "share of the budget"),
        ("keep_recent", "some", "share of the budget"),
        ("memory_limit", 10**9, "integer of tokens"),
        ("max_reflections", -1, "from 0 to"),
        ("max_observations", 2.0, "an integer"),
        ("consolidate_at", 1, "from 2 to 1000"),
        ("reflect_to", 1.0, "from 0 to 0.95"),
        ("model_deadline", 0, "from 0.1 to 3600"),
        ("estimator", "gpt", "default, lango, zora"),
        ("format", "json", "lines, stamped, prose"),
        ("reflect_counts", "tokens", "memory, observations"),
        ("recall", True, "owner, session, off"),
        ("model", 7, "PROVIDER:NAME"),
        ("model", "gpt-5-mini", 'did you mean "openai:gpt-5-mini"?'),
        ("reflector_model", "mymodel", "PROVIDER:NAME"),
        ("model", "Ollama:qwen3", "PROVIDER:NAME"),
        ("concurrency", 0, "from 1 to"),
    ],
)
def test_an_impossible_value_is_named_with_its_key_and_what_is_allowed(
    key: str, value: Any, allowed_words: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        check(replace(DEFAULT, **{key: value}))
    assert caught.value.key == key
    assert caught.value.value is value
    assert allowed_words in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "key", "words"),
    [
        ({"keep_recent": 0.2, "observe_at": 0.2, "precompute_at": 0.2}, "keep_recent", "below observe_at"),
        ({"observe_at": 0.95, "memory_limit": 0.05}, "observe_at", "at most message_limit"),
        ({"precompute_at": 0.3}, "precompute_at", "at most observe_at"),
        ({"observe_at": 0.2, "precompute_at": 0.2, "block_after": 0.2}, "block_after", "above observe_at"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    changed: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        check(replace(DEFAULT, **changed))
    assert caught.value.key == key


def test_every_key_says_what_is_allowed_and_allows_its_default() -> None:
    for settings in PRESETS.values():
        for key in KEYS:
            assert possible(key, getattr(settings, key)), key
            assert allowed(key).startswith("must be ")


@pytest.mark.parametrize("key", KEYS)
def test_no_setting_takes_something_of_another_type(key: str) -> None:
    wrong: tuple[object, ...] = (None, ["1"], {"a": 1}, object(), b"1")
    for value in wrong:
        assert not possible(key, value)


# ------------------------------------------------------------------------------------ counts


@pytest.mark.req(48)
@pytest.mark.parametrize("given_count", [0, 3, 20])
def test_a_count_of_zero_is_a_possible_value(given_count: int) -> None:
    settings = check(Settings(max_observations=given_count, max_reflections=given_count))
    assert settings.max_observations == given_count


def test_consolidation_can_begin_earlier() -> None:
    reflections = [note(i, i, generation=1) for i in range(1, 4)]
    early = limits_for(replace(preset("lango"), consolidate_at=3), 0)
    assert plan(state(notes=reflections), early) != Idle()
    assert plan(state(notes=reflections), limits_for(preset("lango"), 0)) == Idle()


THRESHOLDS = ("observe_at", "chunk_tokens", "keep_recent", "precompute_at", "reflect_at", "reflect_to")


@pytest.mark.req(104)
def test_the_default_thresholds_are_those_that_the_figures_speak_for() -> None:
    """docs/cost.md has what `bench/cost.py --frontier` measured: the default first, then each threshold with
    other values, none of which is cheaper everywhere and answers as much. A new default needs new figures."""
    page = (Path(__file__).parents[3] / "docs" / "cost.md").read_text(encoding="utf-8")
    table = page.partition("## The frontier")[2].partition("\n## ")[0]
    heads, *rows = [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\|.*", table, re.M)
    ]
    answers = heads.index("D-hit, 4,000")
    default, *others = [row for row in rows if not row[0].startswith("-")]
    assert default[0] == "default"
    chosen = [float(cell) for cell in default[1:]]
    tried: set[str] = set()
    for row in others:
        if row[0] == "default, then":  # the rows below it are to be compared with that
            chosen = [float(cell) for cell in row[1:]]
            continue
        name, value = row[0].replace("`", "").split()
        tried.add(name)
        assert float(value) != getattr(DEFAULT, name), row[0]
        found = [float(cell) for cell in row[1:]]
        cheaper = all(a < b for a, b in zip(found[: answers - 1], chosen[: answers - 1], strict=True))
        answered = all(a >= b for a, b in zip(found[answers - 1 :], chosen[answers - 1 :], strict=True))
        assert not (cheaper and answered), row[0]
    assert tried == set(THRESHOLDS)


def test_notes_take_more_of_a_small_budget_and_are_condensed_by_less() -> None:
    free = replace(preset("default"), free_models="both")
    small, middle, large = (limits_for(free, budget) for budget in (2_000, 4_000, 8_000))
    assert (large.reflect_at, large.reflect_to) == (4_800, DEFAULT.reflect_to)
    assert small.reflect_to > middle.reflect_to > large.reflect_to
    assert small.reflect_at / 2_000 > large.reflect_at / 8_000
    # A model that costs money condenses seldom, and whoever sets a share means it.
    assert limits_for(preset("default"), 2_000).reflect_to == DEFAULT.reflect_to
    own = replace(free, reflect_at=0.3, reflect_to=0.5)
    assert (limits_for(own, 2_000).reflect_at, limits_for(own, 2_000).reflect_to) == (600, 0.5)


def test_notes_take_their_room_at_every_budget_where_nothing_is_recalled() -> None:
    free = replace(preset("default"), free_models="both", recall="off")
    recalls, alone = limits_for(replace(free, recall="session"), 8_000), limits_for(free, 8_000)
    assert alone.reflect_at > 1.3 * recalls.reflect_at
    assert alone.reflect_to == limits_for(free, 2_000).reflect_to
    in_order(alone)
    # Whoever sets a number means it.
    assert limits_for(preset("zora"), 100_000).reflect_at == preset("zora").reflect_at
