"""The bill of whole conversations: what a cache holds is cheap, and what changes before it is paid again."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from onlooker.policy import cost

BENCH = Path(__file__).parents[2] / "bench"
START = datetime(2026, 2, 16, 9, tzinfo=UTC)


def billed(prices: cost.Prices, prompts: list[list[cost.Block]], minutes: int = 1) -> list[float]:
    bill, sums = cost.Bill(prices), [0.0]
    for n, prompt in enumerate(prompts):
        bill.add(prompt, START + n * timedelta(minutes=minutes))
        sums.append(bill.billed)
    return [after - before for before, after in pairwise(sums)]


def test_a_marked_prefix_is_written_once_read_cheaply_and_dropped_when_it_is_cold() -> None:
    prices = cost.PRICES[0]
    old, new = "the harbour in Bergen " * 800, "and the weather there " * 100
    prompt = [cost.Block(old, True), cost.Block(new)]
    size, rest = cost.tokens(old), cost.tokens(new)
    assert size > prices.smallest
    assert billed(prices, [prompt, prompt]) == pytest.approx([1.25 * size + rest, 0.1 * size + rest])
    assert billed(prices, [prompt, prompt], minutes=6)[1] == pytest.approx(1.25 * size + rest)
    changed = [cost.Block("x" + old, True), cost.Block(new)]
    assert billed(prices, [prompt, changed])[1] > 1.2 * size


def test_an_automatic_cache_reads_what_begins_the_same_in_whole_steps() -> None:
    prices = next(p for p in cost.PRICES if not p.marked and p.step > 1)
    old = "the harbour in Bergen " * 800
    first, second = [cost.Block(old)], [cost.Block(old + "and the weather")]
    read = cost.tokens(old) - cost.tokens(old) % prices.step
    once, again = billed(prices, [first, second])
    assert once == cost.tokens(old)
    assert again == pytest.approx(0.1 * read + cost.tokens(second[0].text) - read, abs=prices.step)


@pytest.mark.long
def test_a_quick_run_bills_every_host(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH / "cost.py"), "--quick", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| long")]
    assert [row[2].partition(":")[0] for row in rows] == [
        "sliding window",
        "drop half",
        "Onlooker",
        "Onlooker, no recall",
        "a language model's prompts",
        "with its own work",
    ]
    assert all(float(row[3]) > 0 for row in rows)
