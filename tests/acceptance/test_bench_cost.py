"""The bill of whole conversations: what a cache holds is cheap, and what changes before it is paid again."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

import onlooker
from onlooker.policy import cost
from onlooker.policy.settings import Settings
from onlooker.testing import ScriptedModel

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


@pytest.mark.parametrize("prices", cost.PRICES, ids=lambda p: p.name)
def test_notes_by_the_smaller_model_cost_its_share_of_the_price(prices: cost.Prices) -> None:
    dear, cheap = cost.Bill(prices), cost.Bill(prices)
    dear.add_model(1_000, 100)
    cheap.add_model(1_000, 100, prices.small)
    assert dear.billed == 1_000 + 100 * prices.output
    assert 0.1 * dear.billed < cheap.billed < 0.5 * dear.billed


@pytest.mark.anyio
async def test_a_new_tier_is_written_and_older_ones_are_read_from_the_cache() -> None:
    """With a language model, whose reflections stand one behind the other: of the final request, whatever
    stands before the first block that changed is read."""
    words = " ".join(f"quay{n}" for n in range(40))
    model = ScriptedModel(lambda request: f"They spoke of {len(request.session.key)} quays: {words}.")
    bill = cost.Bill(cost.PRICES[0])
    seen, reflections = Counter[str](), list[int]()
    blocks: list[cost.Block] = []
    settings = Settings(budget=8_000, reflect_at=0.2)
    async with onlooker.open_memory(":memory:", model=model, settings=settings) as memory:
        session = memory.session("s", owner="ana")
        for n in range(700):
            at = START + n * timedelta(seconds=30)
            text = f"Parcel {n} for customer {n * 7919} weighs {n * 3 + 1} kg and left quay {n * 31} today."
            await session.record(replace(onlooker.user(text), at=at))
            await session.settle()
            context = await session.context(system="You are an assistant. " * 300)
            before, blocks = blocks, [*cost.request_blocks(context.anthropic())]
            read = bill.reused
            bill.add(blocks, at)
            read = bill.reused - read
            same = 0
            for old, new in zip(before, blocks, strict=False):
                if old.text != new.text:
                    break
                same += cost.tokens(new.text)
            if context.stats.changed:
                seen[context.stats.changed] += 1
                assert read == same
                reflections.append(len(context.sections.reflections))
    assert seen["messages"] > 5
    assert any(0 < old < new for old, new in pairwise(reflections))  # one came behind others


@pytest.mark.anyio
async def test_what_is_recalled_is_billed_in_full() -> None:
    """It stands behind the last mark, and no later prompt can read it from the cache."""
    async with onlooker.open_memory(":memory:", budget=4_000) as memory:
        session = memory.session("s", owner="ana")
        for n in range(300):
            await session.record(onlooker.user(f"The locker code of hut {n} is {4400 + n}."))
        await session.settle()
        noted = (await session.context(system="You are an assistant. " * 300)).memory
        hut = next(n for n in range(300) if str(4400 + n) not in noted)
        await session.record(onlooker.user(f"What was the locker code of hut {hut}?"))
        context = await session.context(system="You are an assistant. " * 300)
    blocks = [*cost.request_blocks(context.anthropic())]
    marked = max(n for n, block in enumerate(blocks) if block.marked)
    assert context.stats.recall > 0
    assert any(context.end in block.text for block in blocks[marked + 1 :])
    bill = cost.Bill(cost.PRICES[0])
    first, second = (bill.add(blocks, START) or bill.billed for _ in range(2))
    behind = sum(cost.tokens(block.text) for block in blocks[marked + 1 :])
    before = sum(cost.tokens(block.text) for block in blocks[: marked + 1])
    assert second - first == pytest.approx(0.1 * before + behind)
    assert behind >= context.stats.recall


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
        "with its own work by the smaller model",
    ]
    assert all(float(row[3]) > 0 for row in rows)
    prompts, own, smaller = (float(row[3]) for row in rows[-3:])
    assert prompts < smaller < own
    assert all(float(row[6]) <= float(row[7]) for row in rows)  # of the prompt, and of its prefix
