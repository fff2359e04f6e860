"""A host that runs a program against a memory and checks the promises after every step."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import onlooker
from onlooker.ports import Store
from onlooker.testing import FaultyModel, FrozenClock, ScriptedModel
from tests.promises.checks import (
    Shown,
    check_context,
    check_conversation,
    check_coverage,
    check_stable,
)
from tests.promises.programs import QUICK, Look, Operation, Prepare, Program, Restart, Say, Settle, Wait

SYSTEM = "You are helpful."
Item = dict[str, Any]


def run(program: Program, store: Callable[[], Store]) -> None:
    """Run it to the end; a broken promise is an AssertionError."""
    asyncio.run(_Host(program, store).run())


class _Host:
    def __init__(self, program: Program, store: Callable[[], Store]) -> None:
        self.program = program
        self.make_store = store
        self.clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
        self.history: list[Item] = []  # what the host holds
        self.left: list[Item] = []  # what it held before it last went another way
        self.truth: list[str] = []  # what memory should hold
        self.shown: Shown | None = None
        self.numbers = itertools.count(1)
        fault = program.fault
        self.model = None if fault == "builtin" else self._model(fault)
        self.memory = self._open()

    def _model(self, fault: str) -> Any:
        return FaultyModel(fault, rate=self.program.rate, seed=7) if fault else ScriptedModel()  # pyright: ignore[reportArgumentType]

    def _open(self) -> onlooker.Memory:
        return onlooker.open_memory(
            self.make_store(),
            model=self.model,
            settings=self.program.settings,
            timing=QUICK,
            clock=self.clock,
        )

    @property
    def session(self) -> onlooker.Session:
        return self.memory.session("telegram:42")

    async def run(self) -> None:
        try:
            async with asyncio.timeout(60):
                for operation in self.program.operations:
                    await self._do(operation)
                    await check_conversation(self.session, self.truth)
                    await check_coverage(self.session)
                await self._look(400)
        finally:
            await self.memory.close()

    async def _do(self, operation: Operation) -> None:
        match operation:
            case Say():
                await self._say(operation)
            case Prepare():
                await self._prepare(operation)
            case Settle():
                await self.session.settle()
            case Look():
                await self._look(operation.budget)
            case Restart():
                await self.memory.close()
                self.memory = self._open()
            case Wait():
                self.clock.advance(operation.seconds)
                await self.memory.background.tick()

    # -- saying

    async def _say(self, operation: Say) -> None:
        items = [self._item("user", operation.words)]
        if operation.results:
            items += self._tool_turn(operation.results, operation.open_call)
        else:
            items.append(self._item("assistant", 5))
        await self.session.record(*items)
        self._heard(items)

    def _item(self, role: str, words: int) -> Item:
        n = next(self.numbers)
        # Each says something of its own, so that what is where can be told.
        text = f"m{n}: " + " ".join(f"word{n}x{i % 7}" for i in range(words))
        # With ids of its own, what the host drops is taken back for certain.
        return {"role": role, "content": text, "id": f"host-{n}"}

    def _tool_turn(self, results: tuple[int, ...], open_call: bool) -> list[Item]:
        ids = [f"call_{next(self.numbers)}" for _ in results]
        calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]
        items: list[Item] = [
            {"role": "assistant", "content": None, "tool_calls": calls, "id": f"of-{ids[0]}"}
        ]
        answered = ids[:-1] if open_call else ids
        for call, words in zip(answered, results, strict=False):
            items.append({**self._item("tool", words), "tool_call_id": call})
        return items

    def _heard(self, items: list[Item]) -> None:
        self.history += items
        self.truth += [_label(i) for i in items]

    # -- handing the history over

    async def _prepare(self, operation: Prepare) -> None:
        handed = self._changed(operation)
        context = await self.session.prepare(handed, system=SYSTEM, budget=400)
        await self._check(context)

    def _changed(self, operation: Prepare) -> list[Item]:
        """The history as the host now has it; the truth follows."""
        history, new = list(self.history), self._item("user", 6)
        place = operation.at % len(history) if history else 0
        match operation.change:
            case "none" | "again":
                history += [new] if operation.change == "none" else []
            case "regenerate" if len(history) > 1:
                history = [*history[:-1], self._item("assistant", 8)]
            case "edit" if place:
                history = [*history[:place], new]
            case "edit keeping the rest" if place and history[place]["role"] == "user":
                history = [*history[:place], new, *history[place + 1 :]]
            case "branch" if place:
                history = [*history[:place], new, self._item("assistant", 4)]
            case "back" if self.left and self.left[0] == history[0]:
                history = [*self.left, new]
            case "trim" | "summary" if len(history) - place >= 3:
                return self._trimmed(operation, place, new)
            case _:
                history.append(new)
        if history[: len(self.history)] != self.history:
            self.left = self.history
        self.history = history
        self.truth = [_label(i) for i in history]
        return history

    def _trimmed(self, operation: Prepare, place: int, new: Item) -> list[Item]:
        """The host cut its past off for this call; memory keeps it."""
        kept = [*self.history[place:], new]
        self._heard([new])
        if operation.change == "summary" and place:
            return [{"role": "assistant", "content": "Earlier: many words were said."}, *kept]
        return kept

    # -- looking

    async def _look(self, budget: int) -> None:
        await self._check(await self.session.context(system=SYSTEM, budget=budget))

    async def _check(self, context: onlooker.Context) -> None:
        state = await self.session.history.state()
        if state is None:
            assert context.memory == ""
            return
        # Notes taken in the background between the two looks make them differ.
        if state.progress.prompt_version == context.stats.prompt_version:
            said = [m for m in await self.session.messages(archived=True) if m.name != "summary"]
            check_context(context, state, said, self.program.settings)
        shown = Shown.of(context, state)
        if self.shown:
            check_stable(self.shown, shown)
        self.shown = shown


def _label(item: Item) -> str:
    return item["content"] or ",".join(c["id"] for c in item["tool_calls"])
