"""What whole conversations cost with a provider's prompt cache: `python bench/cost.py [--quick] [--json]`.

Every call of an agent is billed: what the provider has cached, what it writes into its cache, and the rest.
The cached full history is 1. Beside it stand a sliding window, a host that drops the older half when it is
full, and Onlooker with recall and without, with the built-in model and with a language model's stand-in
whose own tokens are in the bill.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import onlooker
from _conversations import Conversation, in_one_session, load, load_agents
from _live import Tally, stand_in
from _talk import Talk
from _writers import faithful
from onlooker.cli.demo import shared_prefix
from onlooker.cli.replay import ReplayClock
from onlooker.domain.messages import Message, groups
from onlooker.engine.runtime import Runtime
from onlooker.models.extractive import ExtractiveModel
from onlooker.policy.render import AnthropicPrompt
from onlooker.policy.settings import DEFAULT, Settings
from onlooker.policy.tokens import estimate

DATA = Path(__file__).parents[2] / "shared" / "data"
SYSTEM = "You are a helpful assistant. Answer in the user's language, briefly, and say what you do not know."


# ------------------------------------------------------------------------------------ prices


@dataclass(frozen=True)
class Prices:
    """What a provider bills for a token, where one that is sent without a cache is 1."""

    name: str
    read: float
    write: float
    output: float
    smallest: int  # tokens of a prefix below which nothing is cached
    step: int  # tokens in which a cached prefix grows
    minutes: float  # until an unused prefix is dropped
    marked: bool  # whether only prefixes that end at a mark are cached, or any


PRICES = (
    Prices("Anthropic", read=0.1, write=1.25, output=5.0, smallest=1024, step=1, minutes=5, marked=True),
    Prices("OpenAI", read=0.1, write=1.0, output=8.0, smallest=1024, step=128, minutes=5, marked=False),
    Prices("Gemini", read=0.1, write=1.0, output=8.0, smallest=2048, step=1, minutes=5, marked=False),
)


@dataclass(frozen=True)
class Block:
    """A part of a prompt, and whether a provider is told to cache up to its end."""

    text: str
    marked: bool = False


Prompt = Sequence[Block]


@cache
def tokens(text: str) -> int:
    return estimate(text)


@dataclass
class Bill:
    """A provider's cache, and what was billed so far."""

    prices: Prices
    billed: float = 0.0
    sent: int = 0
    reused: int = 0
    # Prefixes by hash, with the time of their last use; or the last prompt.
    _known: dict[int, datetime] = field(default_factory=dict[int, datetime])
    _last: list[str] = field(default_factory=list[str])
    _last_at: datetime | None = None

    def add(self, prompt: Prompt, at: datetime) -> None:
        whole = sum(tokens(block.text) for block in prompt)
        read, written = (self._marked if self.prices.marked else self._any)(prompt, at)
        self.sent += whole
        self.reused += read
        self.billed += self.prices.read * read + self.prices.write * written + whole - read - written

    def _marked(self, prompt: Prompt, at: datetime) -> tuple[int, int]:
        """Tokens up to the longest known prefix, and from there to the last mark."""
        read = written = length = key = 0
        fresh = timedelta(minutes=self.prices.minutes)
        for block in prompt:
            key = hash((key, block.text))
            length += tokens(block.text)
            used = self._known.get(key)
            if used is not None and at - used <= fresh:
                read = length
                self._known[key] = at
            if block.marked and length >= self.prices.smallest:
                written = length
                self._known[key] = at
        return read, max(0, written - read)

    def _any(self, prompt: Prompt, at: datetime) -> tuple[int, int]:
        """Tokens that begin the last prompt too, and none that cost more."""
        same = 0
        fresh = self._last_at is not None and at - self._last_at <= timedelta(minutes=self.prices.minutes)
        for block, before in zip(prompt, self._last if fresh else [], strict=False):
            if block.text != before:
                same += tokens(block.text[: shared_prefix(block.text, before)])
                break
            same += tokens(block.text)
        self._last, self._last_at = [block.text for block in prompt], at
        same -= same % self.prices.step
        return (same if same >= self.prices.smallest else 0), 0


# ------------------------------------------------------------------------------------ hosts


def _block(message: Message) -> str:
    calls = "".join(f"{call.name}({call.arguments})" for call in message.calls)
    return f"{message.role}: {message.text}{calls}"


def _listed(messages: Iterable[Message]) -> Prompt:
    """A host that has its provider cache what it sends, as their documentation shows."""
    texts = [_block(message) for message in messages]
    return [Block(SYSTEM, True), *(Block(text, i == len(texts) - 1) for i, text in enumerate(texts))]


def _size(messages: Iterable[Message]) -> int:
    return tokens(SYSTEM) + sum(tokens(_block(message)) for message in messages)


def full(history: Sequence[Message], _: int) -> Prompt:
    return _listed(history)


def window(history: Sequence[Message], budget: int) -> Prompt:
    """The newest messages that fit, and no result without its call."""
    kept: list[Message] = []
    for group in reversed(list(groups(history))):
        if kept and _size([*group, *kept]) > budget:
            break
        kept = [*group, *kept]
    return _listed(kept)


class DropHalf:
    """Sends all that it has; when that is full, it drops the older half."""

    def __init__(self) -> None:
        self._start = 0

    def __call__(self, history: Sequence[Message], budget: int) -> Prompt:
        while _size(history[self._start :]) > budget and self._start < len(history) - 1:
            kept = list(groups(history[self._start :]))
            total, at = _size(history[self._start :]), 0
            while at < len(kept) - 1 and _size([m for g in kept[at:] for m in g]) > total / 2:
                self._start += len(kept[at])
                at += 1
        return _listed(history[self._start :])


Host = Callable[[Sequence[Message], int], Prompt]


def bill_host(conversation: Conversation, host: Host, budget: int) -> list[Bill]:
    bills = [Bill(prices) for prices in PRICES]
    history: list[Message] = []
    for message in conversation.messages:
        if message.role == "assistant" and history:
            prompt = host(history, budget)
            for bill in bills:
                bill.add(prompt, message.at or datetime.now(UTC))
        history.append(message)
    return bills


# ------------------------------------------------------------------------------------ Onlooker


@dataclass
class Changes:
    """How often the prefix changed: by an addition at its end, or before it."""

    calls: int = 0
    appended: int = 0
    rewritten: int = 0
    _last: str = ""

    def see(self, system: str) -> None:
        self.calls += 1
        if self._last and system != self._last:
            grew = system.startswith(self._last)
            self.appended += grew
            self.rewritten += not grew
        self._last = system


async def bill_onlooker(
    conversation: Conversation, settings: Settings, *, language_model: bool
) -> tuple[list[Bill], Changes, Tally]:
    bills = [Bill(prices) for prices in PRICES]
    changes, tally = Changes(), Tally()
    clock = ReplayClock(conversation.messages)
    builtin = ExtractiveModel()
    model = stand_in(tally, faithful) if language_model else builtin
    store = onlooker.open_memory(":memory:").store
    runtime = Runtime(
        store, settings=settings, observer=model, reflector=model, builtin=builtin, clock=clock, tz=UTC
    )
    async with onlooker.Memory(runtime) as memory:
        session = memory.session("bench")
        await session.context(system=SYSTEM)  # tells the planner which budget the notes are for
        for n, message in enumerate(conversation.messages):
            if message.role == "assistant" and n:
                context = await session.context(system=SYSTEM)
                changes.see(context.system)
                prompt = list(_sent(context.anthropic()))
                for bill in bills:
                    bill.add(prompt, message.at or clock.now())
            clock.move_to(message.at)
            await session.record(message)
            await memory.background.flush()
    for bill in bills:
        bill.billed += tally.observer + tally.reflector + bill.prices.output * tally.written * language_model
    return bills, changes, tally


def _sent(request: AnthropicPrompt) -> Iterator[Block]:
    """The blocks of a request, in the order in which a provider reads them."""
    for content in (request.get("system", ""), *(message["content"] for message in request["messages"])):
        parts: list[dict[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        for part in parts:
            text = {key: value for key, value in part.items() if key != "cache_control"}
            yield Block(json.dumps(text, ensure_ascii=False), "cache_control" in part)


# ------------------------------------------------------------------------------------ conversations


def long_answers(exchanges: int = 94) -> Conversation:
    """A user who asks something short, and an assistant that answers with a page."""
    talk, at = Talk(), datetime(2026, 2, 16, 9, tzinfo=UTC)
    messages: list[Message] = []
    for n in range(exchanges):
        for role, size in (("user", 60), ("assistant", 1000)):
            text = ""
            while estimate(text) < size:
                text += talk.next().text + " "
            message = replace(talk.next(), role=role, text=text.strip(), id=f"m{len(messages)}", at=at)
            messages.append(message)
            at += timedelta(seconds=40)
        if n % 30 == 29:
            at += timedelta(hours=14)  # the next day: every cache is cold
    return Conversation("long answers", tuple(messages))


def conversations(data: Path, *, quick: bool) -> dict[str, tuple[Conversation, tuple[int, ...]]]:
    """Each kind of conversation, with the budgets to bill it at."""
    found: dict[str, tuple[Conversation, tuple[int, ...]]] = {
        "long answers": (long_answers(40 if quick else 94), (8_000,) if quick else (8_000, 16_000, 32_000)),
    }
    try:
        sets, agents = load(data), load_agents(data)
    except FileNotFoundError as missing:
        print(f"without LoCoMo and agents: {missing.filename} is not there", file=sys.stderr)
        return found
    chat = sets.locomo[0].spoken
    if quick:
        chat = replace(chat, messages=chat.messages[:200])
    found["LoCoMo"] = (chat, (4_000,) if quick else (4_000, 8_000, 16_000))
    loops = [c.spoken for c in agents["openhands"]]
    found["coding agent"] = (
        loops[0] if quick else in_one_session("openhands", loops),
        (8_000,) if quick else (8_000, 16_000, 32_000),
    )
    return found


# ------------------------------------------------------------------------------------ the table


def _row(
    name: str, budget: int, how: str, ratios: Sequence[float], reuse: float, changes: Changes | None
) -> str:
    cells = [f"{ratio:.2f}" for ratio in (*ratios, reuse)]
    counts = (changes.appended, changes.rewritten) if changes else ()
    cells += [f"{100 * count / max(1, changes.calls):.0f}" for count in counts if changes] or ["", ""]
    return f"| {name} | {budget:,} | {how} | {' | '.join(cells)} |"


async def table(data: Path, *, quick: bool, only: str) -> list[dict[str, object]]:
    heads = " | ".join(prices.name for prices in PRICES)
    print(f"| conversation | budget | how | {heads} | reused | appended per 100 | rewritten per 100 |")
    print("|---|---:|---|" + "---:|" * (len(PRICES) + 3))
    rows: list[dict[str, object]] = []
    for name, (conversation, budgets) in conversations(data, quick=quick).items():
        if only and only not in name:
            continue
        whole = bill_host(conversation, full, 0)
        for budget in budgets:
            settings = replace(DEFAULT, budget=budget)
            without = replace(settings, recall="off")
            found: list[tuple[str, list[Bill], Changes | None]] = [
                ("sliding window", bill_host(conversation, window, budget), None),
                ("drop half", bill_host(conversation, DropHalf(), budget), None),
            ]
            for how, chosen, model in (
                ("Onlooker", settings, False),
                ("Onlooker, no recall", without, False),
                ("Onlooker, a language model", settings, True),
            ):
                bills, changes, _ = await bill_onlooker(conversation, chosen, language_model=model)
                found.append((how, bills, changes))
            for how, bills, changes in found:
                ratios = [bill.billed / base.billed for bill, base in zip(bills, whole, strict=True)]
                reuse = bills[0].reused / max(1, bills[0].sent)
                print(_row(name, budget, how, ratios, reuse, changes), flush=True)
                by_provider = {prices.name: ratio for prices, ratio in zip(PRICES, ratios, strict=True)}
                rows.append(
                    {"conversation": name, "budget": budget, "how": how, "reuse": reuse, **by_provider}
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the sets")
    parser.add_argument("--quick", action="store_true", help="one budget, and shorter conversations")
    parser.add_argument("--only", default="", help="a conversation's name, or a part of it")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, too")
    chosen = parser.parse_args()
    rows = asyncio.run(table(chosen.data, quick=chosen.quick, only=chosen.only))
    if chosen.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
