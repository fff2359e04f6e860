"""The cost of a conversation with a provider's prompt cache, for `onlooker replay --cost` and
`bench/cost.py`.

Every call of an agent is billed: what the provider has cached, what it writes into its cache, and the rest.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import Any

from onlooker.domain.messages import Message, groups
from onlooker.policy.render import AnthropicPrompt
from onlooker.policy.tokens import estimate

# ------------------------------------------------------------------------------------ prices


@dataclass(frozen=True)
class Prices:
    """What a provider bills for a token, relative to an uncached input token."""

    name: str
    read: float
    write: float
    output: float
    smallest: int  # the smallest prefix that is cached, in tokens
    step: int  # a cached prefix grows by this many tokens
    minutes: float  # after which an unused prefix is dropped
    marked: bool  # whether only prefixes that end at a mark are cached
    small: float  # the price of the provider's smaller model, as a share of the price of its usual one


# `small` is from the price lists of 2025: Haiku 4.5 compared with Sonnet 4.5, GPT-5 mini with GPT-5, and
# Gemini 2.5 Flash with Pro.
PRICES = (
    Prices("Anthropic", 0.1, 1.25, 5.0, smallest=1024, step=1, minutes=5, marked=True, small=1 / 3),
    Prices("OpenAI", 0.1, 1.0, 8.0, smallest=1024, step=128, minutes=5, marked=False, small=0.2),
    Prices("Gemini", 0.1, 1.0, 8.0, smallest=2048, step=1, minutes=5, marked=False, small=0.25),
)


@dataclass(frozen=True)
class Block:
    """A part of a prompt, and whether the request marks its end for the cache."""

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
        """Bill one call."""
        whole = sum(tokens(block.text) for block in prompt)
        read, written = (self._marked if self.prices.marked else self._any)(prompt, at)
        self.sent += whole
        self.reused += read
        self.billed += self.prices.read * read + self.prices.write * written + whole - read - written

    def add_model(self, read: int, written: int, price: float = 1.0) -> None:
        """Bill what a language model read and wrote to take notes, at `price` times the agent's."""
        self.billed += price * (read + self.prices.output * written)

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
        """Tokens of the prefix that the last prompt has too; writing to the cache costs nothing extra."""
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


def shared_prefix(a: str, b: str) -> int:
    """Return the length of the common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def request_blocks(request: AnthropicPrompt) -> Iterator[Block]:
    """The blocks of a request, in the order in which a provider reads them, in the form of `Transcript`, so
    that the two can be compared."""
    messages = [("", request.get("system", "")), *((m["role"], m["content"]) for m in request["messages"])]
    for role, content in messages:
        parts: list[dict[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        for i, part in enumerate(parts):
            text = f"{role}: {_part_text(part)}" if role and not i else _part_text(part)
            yield Block(text, "cache_control" in part)


def _part_text(part: dict[str, Any]) -> str:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "tool_result", "content": str(text)}:
            return text
        case {"type": "tool_use", "name": name, "input": arguments}:
            return f"{name}({json.dumps(arguments, ensure_ascii=False, default=str)})"
        case _:
            others = {key: value for key, value in part.items() if key != "cache_control"}
            return json.dumps(others, ensure_ascii=False, default=str)


# ------------------------------------------------------------------------------------ hosts without memory


class Transcript:
    """A conversation as a host without memory sends it, with its system prompt."""

    def __init__(self, messages: Sequence[Message], system: str) -> None:
        self.messages = messages
        self.system = system
        self._texts = [_text(message) for message in messages]
        self._sums = [0, *accumulate(tokens(text) for text in self._texts)]
        # A call is never sent without its results.
        self.starts = list(accumulate((len(group) for group in groups(messages)), initial=0))[:-1]

    def size(self, start: int, end: int) -> int:
        return tokens(self.system) + self._sums[end] - self._sums[start]

    def prompt(self, start: int, end: int) -> Prompt:
        """The prompt with these messages, marked for the cache as the provider's documentation shows."""
        texts = self._texts[start:end]
        return [Block(self.system, True), *(Block(text, i == len(texts) - 1) for i, text in enumerate(texts))]


def _text(message: Message) -> str:
    calls = "".join(f"{call.name}({call.arguments})" for call in message.calls)
    return f"{message.role}: {message.text}{calls}"


# Returns the first message that a host sends, of the first `end` ones.
Host = Callable[[Transcript, int, int], int]


def full_history(transcript: Transcript, end: int, budget: int) -> int:
    """Send all messages."""
    return 0


def sliding_window(transcript: Transcript, end: int, budget: int) -> int:
    """Send the newest messages that fit."""
    fitting = [start for start in transcript.starts if start < end and transcript.size(start, end) <= budget]
    return min(fitting, default=_newest(transcript, end))


def _newest(transcript: Transcript, end: int) -> int:
    return transcript.starts[max(0, bisect_left(transcript.starts, end) - 1)]


class DropHalf:
    """Send all messages; when the budget is full, drop the older half."""

    def __init__(self) -> None:
        self._start = 0

    def __call__(self, transcript: Transcript, end: int, budget: int) -> int:
        newest = _newest(transcript, end)
        while transcript.size(self._start, end) > budget and self._start < newest:
            half = transcript.size(self._start, end) / 2
            later = (start for start in transcript.starts if self._start < start <= newest)
            self._start = next((start for start in later if transcript.size(start, end) <= half), newest)
        return self._start


def bill_host(transcript: Transcript, host: Host, budget: int) -> list[Bill]:
    """Bill each answer in the conversation, by provider."""
    bills = [Bill(prices) for prices in PRICES]
    for end, message in enumerate(transcript.messages):
        if message.role == "assistant" and end:
            prompt = transcript.prompt(host(transcript, end, budget), end)
            for bill in bills:
                bill.add(prompt, message.at or datetime.now(UTC))
    return bills
