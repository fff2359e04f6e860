"""Whatever the layers say, the budget holds and the prompt's prefix does not move."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from onlooker.domain.context import Layer, LayerRequest, RuntimeContext
from onlooker.domain.events import Event, LayerCut
from onlooker.domain.messages import SessionId
from onlooker.engine.knowledge import LayerCall
from onlooker.policy.assemble import Counting, PromptRequest
from onlooker.policy.layers import room_for_layers
from onlooker.policy.settings import DEFAULT
from onlooker.policy.tokens import Calibration, estimator

HERE = SessionId("ana", "telegram:42")
PLAIN = Counting(estimator("lango"), Calibration())

TEXTS = st.text(alphabet="abc \n", max_size=3000)
SHARES = st.one_of(st.floats(0.01, 1.0), st.integers(1, 2000))


class Says:
    """A layer that says this, whatever it is asked."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def __call__(self, request: LayerRequest) -> str:
        return self.text


def layers(texts: list[str], asked: set[int], *, volatile: bool) -> dict[str, Layer]:
    prefix = "volatile" if volatile else "stable"
    return {
        f"{prefix} {i}": Layer(Says(text) if i in asked else text, volatile=volatile)
        for i, text in enumerate(texts)
    }


def filled(
    given: Mapping[str, Layer], request: PromptRequest, limit: float | int, events: list[Event] | None = None
) -> PromptRequest:
    heard: list[Event] = [] if events is None else events
    settings = replace(DEFAULT, estimator="lango", knowledge_limit=limit)
    call = LayerCall(HERE, RuntimeContext.of(HERE.key), settings, PLAIN, heard.append)
    return asyncio.run(call.fill(request, given))


@given(
    st.lists(TEXTS, max_size=4),
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3),
    st.sets(st.integers(0, 3)),
    st.integers(300, 6000),
    SHARES,
)
def test_what_volatile_layers_say_changes_neither_the_prefix_nor_the_room_of_memory(
    stable: list[str], volatile: list[tuple[str, str]], asked: set[int], budget: int, limit: float | int
) -> None:
    request = PromptRequest("You are helpful.", end="Be brief.", budget=budget)
    fixed = layers(stable, asked, volatile=False)
    first, second = (
        filled({**fixed, **layers([pair[i] for pair in volatile], asked, volatile=True)}, request, limit)
        for i in (0, 1)
    )
    settings = replace(DEFAULT, estimator="lango", knowledge_limit=limit)
    assert first.base == second.base
    assert PLAIN.room(first, settings) == PLAIN.room(second, settings)


@given(st.lists(TEXTS, max_size=4), st.lists(TEXTS, max_size=3), st.integers(300, 6000), SHARES)
def test_all_layers_together_stay_within_their_limit_and_what_was_cut_is_counted(
    stable: list[str], volatile: list[str], budget: int, limit: float | int
) -> None:
    request = PromptRequest("You are helpful.", end="Be brief.", budget=budget)
    given = layers(stable, {0, 2}, volatile=False) | layers(volatile, {1}, volatile=True)
    events: list[Event] = []
    found = filled(given, request, limit, events)
    settings = replace(DEFAULT, estimator="lango", knowledge_limit=limit)
    room = room_for_layers(request, settings, PLAIN)
    assert room is not None
    shown = {**found.knowledge, **found.volatile}
    assert set(shown) == set(given)
    assert sum(PLAIN.text(text) for text in shown.values()) <= room
    whole = dict(zip(given, [*stable, *volatile], strict=True))
    for name, text in shown.items():
        full = whole[name] if whole[name].strip() else ""
        assert PLAIN.text(full) - PLAIN.text(text) == found.cut.get(name, 0)
    assert {e.layer: e.left_out for e in events if isinstance(e, LayerCut)} == found.cut
