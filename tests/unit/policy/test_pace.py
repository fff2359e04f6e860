"""Work beside the turn stops while a turn runs, and goes on even if there is always one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from onlooker.policy.pace import between_turns, give_way, paced, turn


@contextmanager
def working() -> Generator[list[float]]:
    """A thread that works in pieces of about two milliseconds, and how long it worked in all."""
    worked, stop = [0.0], threading.Event()

    def work() -> None:
        while not stop.is_set():
            began = time.thread_time()
            while time.thread_time() - began < 0.002:
                pass
            worked[0] += time.thread_time() - began
            give_way()

    worker = threading.Thread(target=paced, args=(work,))
    worker.start()
    try:
        yield worked
    finally:
        stop.set()
        worker.join()


def test_work_stops_while_a_turn_runs() -> None:
    with working() as worked:
        while not worked[0]:
            time.sleep(0.001)
        with turn():
            before = worked[0]
            began = time.monotonic()
            while worked[0] < before + 0.02:
                time.sleep(0.001)
            # Ten pieces, each after a wait: without one they would be done in a third of the time.
            assert time.monotonic() - began > 9 * 0.005


async def _steps(done: list[str]) -> None:
    async def step() -> None:
        await between_turns()
        done.append("step")

    with turn():
        beside = asyncio.create_task(step())
        await asyncio.sleep(0.01)
        done.append("turn")
    await beside
    with turn():
        await step()  # though the turn does not end


def test_a_step_on_the_event_loop_waits_for_a_turn_to_end_but_not_for_ever() -> None:
    done: list[str] = []
    asyncio.run(_steps(done))
    assert done == ["turn", "step", "step"]
