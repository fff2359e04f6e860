"""Random conversations between a host and its memory, as programs to be run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from hypothesis import strategies as st

from onlooker.policy.settings import LANGO, ZORA, Settings, Timing
from onlooker.testing import FAULTS

Change = Literal[
    "none", "again", "regenerate", "edit", "edit keeping the rest", "branch", "back", "trim", "summary"
]


@dataclass(frozen=True)
class Say:
    """The user says something and the assistant answers, perhaps with tools between."""

    words: int
    results: tuple[int, ...] = ()  # words of each tool result; one call message for all
    open_call: bool = False  # the last call gets no result


@dataclass(frozen=True)
class Prepare:
    """The host hands its history over, changed in some way before it says one thing more."""

    change: Change
    at: int


@dataclass(frozen=True)
class Settle:
    pass


@dataclass(frozen=True)
class Look:
    """Ask for a context."""

    budget: int


@dataclass(frozen=True)
class Restart:
    """Close the memory, and open the store again."""


@dataclass(frozen=True)
class Wait:
    """Time passes, so that what was put off comes due."""

    seconds: int


Operation = Say | Prepare | Settle | Look | Restart | Wait


@dataclass(frozen=True)
class Program:
    settings: Settings
    fault: str  # "" is a model without one, "builtin" the built-in model
    rate: float
    operations: tuple[Operation, ...]


# Words of a message: mostly short, now and then as large as the whole budget and beyond.
_words = st.one_of(st.integers(1, 30), st.integers(1, 30), st.integers(60, 900))
_operations = st.one_of(
    st.builds(Say, _words, st.just(()), st.booleans()),
    st.builds(Say, _words, st.lists(_words, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(
        Prepare,
        st.sampled_from(get_args(Change)),
        st.integers(0, 1000),
    ),
    st.just(Settle()),
    st.builds(Look, st.sampled_from([400, 400, 400, 900])),
    st.just(Restart()),
    st.builds(Wait, st.integers(1, 600)),
)

# A turn may note whatever it must itself: what a busy machine does in a time is not what is tested.
QUICK = Timing(
    stop_deadline=0.2, sweep_seconds=60.0, block_deadline=0.2, retry_seconds=1.0, on_the_spot=600.0
)


@st.composite
def settings(draw: st.DrawFn) -> Settings:
    """Settings of every kind, small enough that a few messages reach every threshold."""
    base = draw(
        st.sampled_from(
            [
                Settings(budget=400),
                replace(
                    LANGO, observe_at=60, precompute_at=60, reflect_at=60, overlap=140, message_limit=200,
                    memory_limit=120, budget=400,
                ),
                replace(
                    ZORA, observe_at=120, precompute_at=90, reflect_at=60, chunk_messages=4,
                    message_limit=300, memory_limit=120, block_after=240, budget=400,
                ),
            ]
        )
    )  # fmt: skip
    return replace(
        base,
        model_deadline=0.1,
        precompute=draw(st.booleans()) if base.preset != "lango" else False,
        consolidate_at=draw(st.integers(2, 5)),
        compact=draw(st.booleans()),
        max_observations=draw(st.sampled_from([0, 3])),
    )


@st.composite
def programs(draw: st.DrawFn, *, most: int = 25) -> Program:
    operations = draw(st.lists(_operations, min_size=3, max_size=most))
    if draw(st.booleans()):  # another way, and back: chance alone seldom does both
        way = Prepare("branch", draw(st.integers(0, 1000)))
        operations += [Settle(), way, *draw(st.lists(_operations, max_size=3)), Prepare("back", 0), Settle()]
    fault = draw(st.sampled_from(["", "builtin", *FAULTS]))
    return Program(draw(settings()), fault, draw(st.sampled_from([0.3, 1.0])), tuple(operations))
