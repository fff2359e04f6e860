"""Models for tests: one that does what it is told, and one that does what real ones do on a bad day."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

from onlooker.domain.errors import ModelError
from onlooker.policy.prompts import Prompt, observer_prompt, reflector_prompt
from onlooker.policy.tokens import estimate
from onlooker.ports import Model, ObserveRequest, Reply, Request
from onlooker.testing.writing import good_note, source_text

Answer = str | Reply | BaseException | None
Script = Callable[[Request], Answer | Awaitable[Answer]]


class ScriptedModel:
    """Answers with the given replies, in order; then, or where a reply is None, with a correct note.

    A reply is a text, a `Reply`, an exception to raise, or a function of the request (which may be
    async) that returns one of those. A function that is the only reply answers every call.
    `ScriptedModel()` alone is a well-behaved model.
    """

    def __init__(self, *replies: Answer | Script, name: str = "scripted", window: int = 100_000) -> None:
        self.name = name
        self.window = window
        self.requests: list[Request] = []
        self._always = replies[0] if len(replies) == 1 and callable(replies[0]) else None
        self._replies = [] if self._always else list(replies)

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.requests)

    async def write(self, request: Request) -> Reply:
        self.requests.append(request)
        answer = self._always or (self._replies.pop(0) if self._replies else None)
        if callable(answer):
            answer = answer(request)
            if inspect.isawaitable(answer):
                answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        return (
            answer
            if isinstance(answer, Reply)
            else _reply(request, good_note(request) if answer is None else answer)
        )


Fault = Literal[
    "error",
    "timeout",
    "hang",
    "rate limit",
    "empty",
    "refusal",
    "cut off",
    "garbage",
    "repetition",
    "wrong language",
    "echo",
    "huge",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)

_HUGE = 10_000_000


class FaultyModel:
    """Misbehaves in the named way (or in one of several), and else answers as the model `then`.

    With `first`, the first so many calls go wrong; otherwise each does with probability `rate`,
    the same ones each time for the same seed. `requests` and `calls` are of all calls,
    `misbehaved` counts those that went wrong.
    """

    def __init__(
        self,
        fault: Fault | Sequence[Fault],
        *,
        then: Model | None = None,
        rate: float = 1.0,
        first: int | None = None,
        seed: int = 0,
    ) -> None:
        self._faults: tuple[Fault, ...] = (fault,) if isinstance(fault, str) else tuple(fault)
        unknown = [f for f in self._faults if f not in FAULTS]
        if unknown or not self._faults:
            raise ValueError(f"fault {unknown or fault!r}: must be among {', '.join(FAULTS)}")
        self._then = then or ScriptedModel()
        self._rate = rate
        self._first = first
        self._random = random.Random(seed)
        self.requests: list[Request] = []
        self.misbehaved = 0

    @property
    def name(self) -> str:
        return f"faulty ({', '.join(self._faults)})"

    @property
    def window(self) -> int:
        return self._then.window

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.requests)

    async def write(self, request: Request) -> Reply:
        self.requests.append(request)
        # Drawn at each call, needed or not, so that what goes wrong depends on the seed alone.
        draw, fault = self._random.random(), self._random.choice(self._faults)
        if not (self.calls <= self._first if self._first is not None else draw < self._rate):
            return await self._then.write(request)
        self.misbehaved += 1
        return await self._misbehave(fault, request)

    async def _misbehave(self, fault: Fault, request: Request) -> Reply:
        match fault:
            case "error":
                raise ModelError("the provider answered 500: internal error")
            case "timeout":
                # As an SDK's own would reach us, outside the tree of errors that the port names.
                raise TimeoutError("the provider did not answer in time")
            case "rate limit":
                raise ModelError("the provider answered 429: too many requests, retry after 20 s")
            case "hang":
                await asyncio.Event().wait()
                raise AssertionError("nobody sets that event")
            case "cut off":
                good = await self._then.write(request)
                return replace(good, text=good.text[: len(good.text) // 2], finish="length")
            case _:
                return _reply(request, self._bad_text(fault, request))

    def _bad_text(self, fault: Fault, request: Request) -> str:
        match fault:
            case "refusal":
                return "I'm sorry, but I can't help with summarising this conversation."
            case "garbage":
                return "".join(self._random.choices("\x00\ufffd{}[]<>|~^%$#@!?;:=+*&\\/'\"`01 \n", k=600))
            case "repetition":
                return "## 2026-02-16\n" + "The user asked again about the same thing.\n" * 60
            case "wrong language":
                return _in_another_language(request)
            case "echo":
                prompt = _prompt(request)
                return f"{prompt.system}\n\n{prompt.user}"
            case "huge":
                line = "The user said something and the assistant answered it at length.\n"
                return line * (_HUGE // len(line) + 1)
            case _:
                return ""


def _reply(request: Request, text: str) -> Reply:
    # Counting ten megabytes would only slow the test down.
    return Reply(text, input_tokens=estimate(source_text(request)), output_tokens=estimate(text[:100_000]))


def _prompt(request: Request) -> Prompt:
    if isinstance(request, ObserveRequest):
        return observer_prompt(
            request.messages, request.notes, target_tokens=request.target_tokens, format=request.format
        )
    return reflector_prompt(
        request.notes,
        generation=request.generation,
        target_tokens=request.target_tokens,
        format=request.format,
    )


def _in_another_language(request: Request) -> str:
    text = source_text(request)[:20_000]
    latin = sum(c.isascii() and c.isalpha() for c in text)
    if latin > sum(not c.isascii() and c.isalpha() for c in text):
        return "用户说明了自己的计划，并询问了几个问题。助手逐一作了回答，列出了接下来要做的事情和要点。"
    return "The user explained some plans and asked about them, and the assistant answered each of these."
