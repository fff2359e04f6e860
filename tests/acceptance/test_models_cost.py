"""What taking notes with a language model costs, over a real conversation at the default settings, and
that the documentation says so."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

import onlooker
from onlooker.demo import conversation
from onlooker.models.extractive import ExtractiveModel
from onlooker.models.llm import prompt_of
from onlooker.policy.reply.evidence import invented
from onlooker.policy.tokens import estimate
from onlooker.ports import ObserveRequest, Reply, Request
from onlooker.testing import FrozenClock

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@dataclass
class Counting:
    """Counts what a language model would read, and writes what the built-in one does."""

    name: str = "counting"
    window: int = 100_000
    noted: int = 0
    read: dict[str, int] = field(default_factory=lambda: {"observe": 0, "reflect": 0})
    written: int = 0

    async def write(self, request: Request) -> Reply:
        prompt, text = prompt_of(request), ExtractiveModel().compose(request)
        # The judge refuses a line of the built-in model that cuts a value in two.
        text = "\n".join(line for line in text.splitlines() if not invented(line, prompt.user))
        observing = isinstance(request, ObserveRequest)
        self.read["observe" if observing else "reflect"] += estimate(prompt.system) + estimate(prompt.user)
        self.written += estimate(text)
        if isinstance(request, ObserveRequest):
            self.noted += sum(message.tokens for message in request.messages)
        return Reply(text)


async def replayed(budget: int) -> tuple[Counting, int]:
    """The model that took notes of the demo conversation, and how many tokens were said."""
    model, clock = Counting(), FrozenClock()
    async with onlooker.open_memory(":memory:", model=model, budget=budget, clock=clock) as memory:
        session = memory.session("demo")
        for message in conversation():
            at = datetime.fromisoformat(message["created_at"])
            clock.advance((at - clock.now()).total_seconds())
            await session.record(message)
            await session.settle()
        return model, sum(message.tokens for message in await session.messages(archived=True))


@pytest.mark.req(66, 95)
async def test_the_observer_reads_little_more_than_was_said_and_the_page_says_what() -> None:
    model, said = await replayed(16_000)
    assert 1.0 < model.read["observe"] / model.noted <= 1.3
    row = re.search(
        r"^\| a conversation of 31,000 tokens \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", _page(), re.M
    )
    assert row is not None
    documented = [int(cell.replace(",", "")) for cell in row.groups()]
    measured = [1000 * n / said for n in (model.read["observe"], model.read["reflect"], model.written)]
    assert documented == pytest.approx(measured, rel=0.15, abs=10)


async def test_a_larger_budget_reads_less() -> None:
    model, _ = await replayed(64_000)
    assert model.read["observe"] / model.noted <= 1.3


@pytest.mark.req(66)
def test_the_page_says_how_to_pick_a_cheap_model() -> None:
    assert "## Picking a cheap model" in _page()


def _page() -> str:
    return PAGE.read_text(encoding="utf-8")
