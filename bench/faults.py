"""What a conversation loses when the model that writes its notes fails: `python bench/faults.py`.

Each way to fail, with each budget: 80 turns, every message with a mark of its own. After each turn every
message so far must be in the prompt word for word, or behind exactly one of its notes. `--check` exits with 1
if one is not, or is there twice, or if a note was left out.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onlooker
from _figures import scratch
from onlooker.policy.settings import Timing
from onlooker.ports import Reply, Request
from onlooker.testing import FAULTS, FaultyModel, ScriptedModel
from onlooker.testing.models import good_note

BUDGETS = (2_000, 4_000, 8_000)
TURNS = 80
SYSTEM = "You are helpful."
# As long as a quick agent takes for its answer. The notes of a turn are written meanwhile.
PAUSE = 0.02
_WORDS = ("alpha", "bravo", "cabin", "delta", "ember", "frost", "grape", "hotel", "india", "jolly", "kayak")


def _cut_silently(request: Request) -> Reply:
    text = good_note(request)
    return Reply(text[: len(text) // 2])


def _invented(request: Request) -> Reply:
    return Reply(good_note(request) + "\nThe order 99-4711-X costs €77,777.13, see /srv/fake/path.yml.")


class Nothing(ScriptedModel):
    """Returns what is no reply."""

    async def write(self, request: Request) -> Any:
        self.requests.append(request)


MODELS: dict[str, Callable[[], Any]] = {
    "none": ScriptedModel,
    **{fault: lambda fault=fault: FaultyModel(fault) for fault in FAULTS},
    "cut off, but says it is whole": lambda: ScriptedModel(_cut_silently),
    "invented values": lambda: ScriptedModel(_invented),
    "no reply at all": Nothing,
    "cancelled": lambda: ScriptedModel(lambda _: asyncio.CancelledError()),
    "an exception of an SDK": lambda: ScriptedModel(lambda _: RuntimeError("connection reset")),
    "any of them, every second call": lambda: FaultyModel([f for f in FAULTS if f != "hang"], rate=0.5),
}


@dataclass
class Found:
    """What one conversation came to."""

    lost: int = 0
    doubled: int = 0
    left_out: int = 0
    worst: float = 0.0  # in milliseconds
    calls: int = 0

    @property
    def is_bad(self) -> bool:
        return bool(self.lost or self.doubled or self.left_out)


async def converse(model: Any, path: Path, budget: int, turns: int) -> Found:
    found, chance = Found(), random.Random(7)
    lost, doubled, said = set[str](), set[str](), dict[int, str]()
    memory = onlooker.open_memory(path, model=model, budget=budget, timing=Timing(stop_deadline=0.2))
    async with memory:
        session = memory.session("s", owner="o")

        async def say(role: Callable[..., onlooker.Message], words: int) -> None:
            mark = f"[ZQ{len(said):05d}]"
            text = f"{mark} {' '.join(chance.choices(_WORDS, k=words))}."
            (message,) = await session.record(role(text))
            said[message.seq] = mark

        for _ in range(turns):
            began = time.perf_counter()
            await say(onlooker.user, 120)
            context = await session.context(system=SYSTEM, budget=budget)
            took = time.perf_counter() - began
            if context.stats.total > budget or said[max(said)] not in context.messages[-1].text:
                raise AssertionError("the budget, or the newest message")
            found.left_out = max(found.left_out, context.stats.left_out_notes)
            raw = Counter(mark for m in context.messages for mark in said.values() if mark in m.text)
            noted = Counter(seq for n in await session.notes() for seq in range(n.first, n.last + 1))
            lost |= {mark for seq, mark in said.items() if not raw[mark] and not noted[seq]}
            doubled |= {mark for seq, mark in said.items() if raw[mark] > 1 or noted[seq] > 1}
            began = time.perf_counter()
            await say(onlooker.assistant, 150)
            found.worst = max(found.worst, (took + time.perf_counter() - began) * 1000)
            await asyncio.sleep(PAUSE)
        # Each note leads back to what was said.
        kept = Counter(m.text.split()[0] for m in await session.messages())
        behind = {m.text.split()[0] for n in await session.notes() for m in await session.recall(n.id)}
        lost |= set(said.values()) - set(kept) | (behind - set(said.values()))
        doubled |= {mark for mark, count in kept.items() if count > 1}
    found.lost, found.doubled, found.calls = len(lost), len(doubled), model.calls
    return found


def table(faults: Sequence[str], budgets: Sequence[int], turns: int) -> bool:
    """Print it; False if anything was lost, doubled or left out."""
    columns = ("lost", "doubled", "notes left out", "worst turn, ms", "model calls")
    print(f"{turns} turns each, budgets of {', '.join(f'{b:,}' for b in budgets)} tokens\n")
    print(f"| the model's fault | {' | '.join(columns)} |")
    print(f"|---|{'---:|' * len(columns)}")
    fine = True
    for fault in faults:
        runs: list[Found] = []
        for budget in budgets:
            with scratch() as folder:
                runs.append(asyncio.run(converse(MODELS[fault](), Path(folder) / "a.db", budget, turns)))
        fine &= not any(run.is_bad for run in runs)
        rows = [(r.lost, r.doubled, r.left_out, round(r.worst), r.calls) for r in runs]
        cells = [", ".join(map(str, column)) for column in zip(*rows, strict=True)]
        print(f"| {fault} | {' | '.join(cells)} |", flush=True)
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--budget", type=int, action="append", help="one or more; all three if none")
    parser.add_argument("--fault", choices=MODELS, action="append", help="one or more; all if none")
    parser.add_argument("--check", action="store_true", help="exit with 1 if anything was lost or doubled")
    arguments = parser.parse_args()
    logging.disable()  # each failure is a warning
    fine = table(arguments.fault or list(MODELS), arguments.budget or BUDGETS, arguments.turns)
    return 1 if arguments.check and not fine else 0


if __name__ == "__main__":
    sys.exit(main())
