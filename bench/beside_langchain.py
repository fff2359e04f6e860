"""A long conversation beside LangChain's SummarizationMiddleware: `python bench/beside_langchain.py`.

The same agent holds the same conversation three times: with a plain history, with LangChain's middleware and
with Onlooker's. The model takes its time for what it writes, answers and notes alike. Both middlewares have
the same writer: it keeps every sentence with a code that it is shown, and the first words of the rest, up to
a length. Twenty codes are told along the way; at the end each of them is asked for, and is kept if the model
sees it then.

It needs the frameworks' environment: `.venv-frameworks/bin/python`, which `make test-frameworks` makes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from _figures import scratch
from onlooker.blocking import open_memory
from onlooker.integrations.langchain import OnlookerMiddleware
from onlooker.models.llm import prompt_of
from onlooker.policy.tokens import estimate
from onlooker.ports import ObserveRequest, Reply, Request

SYSTEM = "You keep the keys of a harbour."
TURNS, BUDGET = 200, 4_000
# Tokens that the model writes in a second: three to six times as many as one of today, so that a run ends.
SPEED = 300
# What a person takes between an answer and the next turn, as tokens of the model.
PAUSE = 120
# Tokens of a summary, as LangChain's prompt for it leaves to the model.
SUMMARY = 1_000
PLACES = re.findall(
    r"\w+",
    "boathouse crane chapel bakery lighthouse smithy armoury ferry sailmaker icehouse gatehouse pilothouse "
    "slipway ropewalk fishmarket watchtower drydock school coalshed mast",
)
WORDS = re.findall(
    r"\w+",
    "crate tide rope cargo morning captain barrel stairs harbour lantern market ledger quay anchor storm "
    "winter cousin bridge copper ladder",
)
_CODE = re.compile(r"The code of the [a-z ]+ is [A-Z]{2}-\d{4}\.")
_WORDS = re.compile(r"[A-Za-z]+")
_OPENING = re.compile(r"<[^>]*>|^##.*|Ana: |We spoke of|I have noted:")


# ------------------------------------------------------------------------------------ what is said


def conversation(turns: int, facts: dict[str, str]) -> list[str]:
    """What the user says, with a fact every few turns."""
    chance = random.Random(1)
    every, told = max(1, turns // len(facts)), list(facts.items())
    said: list[str] = []
    for turn in range(turns):
        filler = " ".join(chance.choices(WORDS, k=chance.randint(25, 55)))
        fact = ""
        if turn % every == every // 2 and told:
            place, code = told.pop(0)
            fact = f" The code of the {place} is {code}."
        said.append(f"We spoke of {filler}.{fact} Please go on with the list.")
    return said


def codes(count: int) -> dict[str, str]:
    chance = random.Random(2)
    letters = "ABCDEFGHKLMNPRSTUVWXYZ"
    return {
        place: f"{''.join(chance.choices(letters, k=2))}-{chance.randint(1000, 9999)}"
        for place in PLACES[:count]
    }


# ------------------------------------------------------------------------------------ the model


def condensed(texts: Iterable[str], limit: int) -> list[str]:
    """What a writer makes of texts: their codes, and some words of the newest others, as many as fit."""
    lines: list[tuple[bool, str]] = []
    for text in texts:
        found = _CODE.findall(text)
        words = " ".join(_WORDS.findall(_OPENING.sub("", text))[:8])
        lines += [(True, fact) for fact in found] or ([(False, f"{words}.")] if words else [])
    left = limit - sum(estimate(line) for is_fact, line in lines if is_fact)
    kept: list[str] = []
    for is_fact, line in reversed(lines):
        left -= 0 if is_fact else estimate(line)
        if is_fact or left > 0:
            kept.insert(0, line)
    return kept


class Slow(BaseChatModel):
    """Answers the user, or writes a summary, at its speed; and keeps what it was sent."""

    log: Any

    @property
    def _llm_type(self) -> str:
        return "slow"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        prompt = "\n".join(m.text for m in messages)
        if messages[0].text.startswith(SYSTEM):
            self.log.prompts.append(prompt)
            chance = random.Random(len(self.log.prompts))
            text = f"I have noted: {' '.join(chance.choices(WORDS, k=40))}."
        else:
            self.log.read_for_notes += estimate(prompt)
            self.log.notes += 1
            shown = prompt.rpartition("<messages>")[2].splitlines()
            text = "\n".join(condensed(shown, SUMMARY))
        time.sleep(estimate(text) / self.log.speed)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


class Writer:
    """The same writer for Onlooker's notes."""

    name = "slow"
    window = 100_000

    def __init__(self, log: Log) -> None:
        self._log = log

    async def write(self, request: Request) -> Reply:
        if isinstance(request, ObserveRequest):
            texts = [m.text for m in request.messages]
        else:
            texts = [line for note in request.notes for line in note.text.splitlines()]
        prompt = prompt_of(request)
        self._log.read_for_notes += estimate(prompt.system) + estimate(prompt.user)
        self._log.notes += 1
        text = "\n".join(["## 2026-02-16", *(f"Ana: {c}" for c in condensed(texts, request.target_tokens))])
        await asyncio.sleep(estimate(text) / self._log.speed)
        return Reply(text)


# ------------------------------------------------------------------------------------ what is measured


@dataclass
class Log:
    """What happened in one run."""

    prompts: list[str] = field(default_factory=list[str])
    seconds: list[float] = field(default_factory=list[float])
    speed: int = SPEED
    notes: int = 0
    read_for_notes: int = 0
    kept: int = 0
    stored: int = 0

    @property
    def reused(self) -> float:
        """Share of the tokens of all prompts that stood at the same place in the prompt before."""
        pairs = pairwise(self.prompts)
        same = sum(estimate(before[: _same(before, after)]) for before, after in pairs)
        return same / sum(map(estimate, self.prompts))


def _same(before: str, after: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    both = enumerate(zip(before, after, strict=False))
    return next((n for n, (a, b) in both if a != b), min(len(before), len(after)))


def run(how: str, said: Sequence[str], facts: dict[str, str], folder: Path, speed: int) -> Log:
    """Hold the conversation with one of the middlewares, then ask for each fact."""
    log = Log(speed=speed)
    model = Slow(log=log)
    middleware: list[Any] = []
    memory = None
    if how == "summary":
        # As in LangChain's documentation: the last 20 messages stay.
        middleware = [SummarizationMiddleware(model, trigger=("tokens", BUDGET), keep=("messages", 20))]
    elif how == "onlooker":
        memory = open_memory(folder / "m.db", model=Writer(log), budget=BUDGET)
        middleware = [OnlookerMiddleware(memory, tools=False)]
    agent: Any = create_agent(
        model, system_prompt=SYSTEM, middleware=middleware, checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "t1", "user_id": "ana"}}
    # What is loaded at first use is loaded before the clock starts.
    other = {"configurable": {"thread_id": "t0", "user_id": "ben"}}
    agent.invoke({"messages": [{"role": "user", "content": said[0]}]}, other)
    log.prompts.clear()

    def say(text: str) -> None:
        began = time.perf_counter()
        agent.invoke({"messages": [{"role": "user", "content": text}]}, config)
        log.seconds.append(time.perf_counter() - began)
        time.sleep(PAUSE / log.speed)

    for text in said:
        say(text)
    for place, code in facts.items():
        say(f"What is the code of the {place}?")
        log.kept += code in log.prompts[-1]
    log.stored = len(agent.get_state(config).values["messages"])
    if memory is not None:
        memory.close()
    return log


NAMES = {
    "history": "the whole history",
    "summary": "SummarizationMiddleware",
    "onlooker": "OnlookerMiddleware",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--speed", type=int, default=SPEED, help="tokens that the model writes in a second")
    given = parser.parse_args()
    facts = codes(min(len(PLACES), max(1, given.turns // 10)))
    said = conversation(given.turns, facts)
    print("| | turn, median | worst turn | prompt | read for notes | reused | facts kept | stored |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for how, name in NAMES.items():
        with scratch() as folder:
            log = run(how, said, facts, Path(folder), given.speed)
        tokens = [estimate(prompt) for prompt in log.prompts]
        row = (
            name,
            f"{median(log.seconds):.2f} s",
            f"{max(log.seconds):.2f} s",
            f"{sum(tokens) / len(tokens):,.0f} (at most {max(tokens):,})",
            f"{log.read_for_notes:,} in {log.notes}",
            f"{log.reused:.0%}",
            f"{log.kept} of {len(facts)}",
            f"{log.stored} of {2 * len(log.prompts)}",
        )
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
