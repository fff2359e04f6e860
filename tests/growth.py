"""How the work of a function grows with what it is given. Says nothing about how fast a machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

FACTOR = 8


def cpu_seconds(work: Callable[[], object]) -> float:
    """How long this thread was at it: what others do at the same time does not count."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def assert_not_quadratic(work: Callable[[int], object], size: int) -> None:
    """Eight times as much may take 32 times as long: linear work takes 8 times as long, quadratic 64."""
    small = min(cpu_seconds(lambda: work(size // FACTOR)) for _ in range(3))
    most = FACTOR * FACTOR / 2 * max(small, 0.001)
    assert any(cpu_seconds(lambda: work(size)) < most for _ in range(3)), (
        f"{size} took more than {most:.3f} s"
    )
