"""Work in the background gives way to the agent's turns, in threads and on the event loop.

The one file of `policy` that waits: long computations call `give_way` in between.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

_PIECE, _PAUSE = 0.001, 0.0002  # seconds
# How long a piece of work waits for turns to end: a busy server always has one, and its notes must go on.
_MAX_WAIT = 0.005
# The same for a step of several milliseconds on the event loop, and how often it looks.
_MAX_STEP_WAIT, _STEP_PAUSE = 0.05, 0.002

P = ParamSpec("P")
T = TypeVar("T")


class _Pace(threading.local):
    paused_at: float | None = None  # None: someone waits for what this thread does


_pace = _Pace()


def paced(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that no turn waits for: where it calls `give_way`, other threads run first."""
    _pace.paused_at = time.perf_counter()
    try:
        return function(*args, **kwargs)
    finally:
        _pace.paused_at = None


_turns: set[object] = set()  # those that are running


@contextmanager
def turn() -> Generator[None]:
    """A part of an agent's turn that waits for no note. Work in the background pauses until it has ended."""
    this = object()
    _turns.add(this)
    try:
        yield
    finally:
        _turns.discard(this)


def give_way() -> None:
    """Let other threads run for a moment, after each millisecond of work, and turns for a few.

    A thread that computes without a pause keeps each other thread waiting for 5 ms whenever it needs the
    interpreter, and a turn needs it several times.
    """
    if _pace.paused_at is None or time.perf_counter() - _pace.paused_at < _PIECE:
        return
    until = time.perf_counter() + _MAX_WAIT
    time.sleep(_PAUSE)
    while _turns and time.perf_counter() < until:
        time.sleep(_PAUSE)
    _pace.paused_at = time.perf_counter()


async def between_turns() -> None:
    """Wait for turns to end, for a moment at most. Called before work that blocks the event loop."""
    until = time.perf_counter() + _MAX_STEP_WAIT
    while _turns and time.perf_counter() < until:  # noqa: ASYNC110  turns run in several event loops
        await asyncio.sleep(_STEP_PAUSE)


# Reading this many messages takes a few milliseconds.
MAX_AT_ONCE = 200


async def in_thread_if_many(messages: int, work: Callable[[], T]) -> T:
    """Do work that takes some time for each message: in a thread if there are many, so that a long history
    does not hold up other sessions."""
    return await asyncio.to_thread(work) if messages > MAX_AT_ONCE else work()
