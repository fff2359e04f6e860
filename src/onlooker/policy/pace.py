"""Work that is done beside the agent's turn, in a thread, and gives way to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

_PIECE, _PAUSE = 0.001, 0.0002  # seconds
# How long a piece of work waits for turns to end: a busy server always has one, and its notes must go on.
_MAX_WAIT = 0.005

P = ParamSpec("P")
T = TypeVar("T")


class _Pace(threading.local):
    paused_at: float | None = None  # None: somebody waits for what this thread does


_pace = _Pace()


def paced(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that nobody waits for: where it calls `give_way`, other threads run first."""
    _pace.paused_at = time.perf_counter()
    try:
        return function(*args, **kwargs)
    finally:
        _pace.paused_at = None


_turns: set[object] = set()  # those that run now


@contextmanager
def turn() -> Generator[None]:
    """A part of an agent's turn that waits for no note: such work stops until it has ended."""
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
