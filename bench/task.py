"""Is what the user asked for in every prompt? `python bench/task.py [--data DIR] [--quick] [--json]`.

Conversations in which an agent works with tools are gone through as live sessions, with small budgets. Before
each answer the host asks for a context, and the user's request is looked for in it, word for word: raw, or
quoted. The notes are the built-in model's, or those of a stand-in for a language model that mentions no
request at all. It ends with 1 if a context has no request, leaves notes out, or is over its budget.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from pathlib import Path

import onlooker
from _conversations import Conversation, load_agents
from _writers import vague
from onlooker.cli.replay import ReplayClock
from onlooker.domain.messages import Message
from onlooker.policy.tokens import estimate
from onlooker.testing import ScriptedModel

# Where the sets are, unless another folder is named: beside the checkout.
DATA = Path(__file__).parents[2] / "shared" / "data"
BUDGETS = (1_000, 1_500, 2_000)
QUICK = 6  # conversations of each set
SYSTEM = "You are a helpful agent."


@dataclass
class Tally:
    """What was wrong with the contexts of some conversations."""

    set: str
    notes: str
    budget: int
    conversations: int = 0
    contexts: int = 0
    without_request: int = 0  # neither the opening request nor one of the newest three
    without_opening: int = 0
    without_newest: int = 0
    left_out: int = 0  # contexts that leave a note out
    over: int = 0

    @property
    def holds(self) -> bool:
        return not (self.without_request or self.left_out or self.over)


# A request in a person's words, told here anew and not by the code that is measured.
_ASKS = re.compile(
    r"\?|\b(?:want|need|would like|i'd like|looking to|trying to|can you|could you|help|please|task is)\b",
    re.I,
)
_LEAST_WORDS = 4
_FIRST_WORDS = 8
_NEWEST = 3


def requests(message: Message, *, opening: bool) -> list[str]:
    """The sentences of a message that ask for something, in one line each; all of those that it opens with,
    if none does."""
    parts = (" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s+|\n+", message.text))
    said = [s for s in parts if len(s.split()) >= _LEAST_WORDS]
    asks = [s for s in said if _ASKS.search(s)]
    return asks or (said if opening else [])


def holds(prompt: str, sentences: Sequence[str]) -> bool:
    """Whether at least one sentence is in the prompt, or the first words of a long one."""
    text = " ".join(prompt.split())
    return any(" ".join(s.split()[:_FIRST_WORDS]).rstrip(".!?") in text for s in sentences)


async def check(
    conversation: Conversation, memory: onlooker.Memory, clock: ReplayClock, tally: Tally
) -> None:
    """Go through a conversation, and look at the context before each answer."""
    session = memory.session(conversation.name)
    asked: list[list[str]] = []
    tally.conversations += 1
    for message in conversation.spoken.messages:
        if message.role == "assistant" and asked:
            context = await session.context(system=SYSTEM, budget=tally.budget)
            _look(context, asked, tally)
        clock.move_to(message.at)
        await session.record(message)
        if message.role == "user" and (sentences := requests(message, opening=not asked)):
            asked.append(sentences)
        await memory.background.flush()


def _look(context: onlooker.Context, asked: Sequence[Sequence[str]], tally: Tally) -> None:
    prompt = context.text()
    opening, newest = holds(prompt, asked[0]), holds(prompt, asked[-1])
    tally.contexts += 1
    tally.without_opening += not opening
    tally.without_newest += not newest
    # The newest is often no more than a "please go ahead" with one of those before it.
    tally.without_request += not opening and not any(holds(prompt, each) for each in asked[-_NEWEST:])
    tally.left_out += context.stats.left_out_notes > 0
    largest = estimate(context.messages[-1].text) if context.messages else 0
    # Only the newest message, which is always whole, may exceed the budget.
    tally.over += context.stats.total > tally.budget and largest * 8 < tally.budget


async def measure(conversations: Iterable[Conversation], tally: Tally) -> Tally:
    for conversation in conversations:
        clock = ReplayClock(conversation.messages)
        model = None if tally.notes == "built-in" else ScriptedModel(vague, name="vague")
        async with onlooker.open_memory(":memory:", model=model, clock=clock, tz=UTC) as memory:
            await check(conversation, memory, clock, tally)
    return tally


_TITLES = {
    "set": "set",
    "notes": "notes by",
    "budget": "budget",
    "conversations": "conversations",
    "contexts": "contexts",
    "without_request": "no request",
    "without_opening": "no opening request",
    "without_newest": "no newest request",
    "left_out": "notes left out",
    "over": "over budget",
}


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--data", type=Path, default=DATA, help="the folder with the two sets")
    options.add_argument("--quick", action="store_true", help=f"only {QUICK} conversations of each set")
    options.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = options.parse_args()
    try:
        sets = load_agents(asked.data)
    except FileNotFoundError as error:
        print(f"not measured: {error.filename} is not there; name its folder with --data")
        return 0
    if not asked.json:
        print("| " + " | ".join(_TITLES.values()) + " |")
        print("|---|---|" + "---:|" * (len(_TITLES) - 2))
    tallies: list[Tally] = []
    for name, conversations in sets.items():
        chosen = conversations[:QUICK] if asked.quick else conversations
        for notes in ("built-in", "a vague model"):
            for budget in BUDGETS:
                tally = asyncio.run(measure(chosen, Tally(name, notes, budget)))
                tallies.append(tally)
                if not asked.json:
                    print("| " + " | ".join(f"{v}" for v in asdict(tally).values()) + " |", flush=True)
    if asked.json:
        print(json.dumps([asdict(tally) for tally in tallies], indent=2))
    return 0 if all(tally.holds for tally in tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
