"""A host that may do anything with its history: whatever it does, all that was said is in the record or in a
marked branch, and each context ends with its own newest message."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import onlooker

History = list[dict[str, Any]]
View = Callable[[History, random.Random], History]
SHORT = ("yes", "ok", "go on", "no", "thanks", "hi")
RESULT_LESS = ("[cleared]", "[Old tool result content cleared]", "")


def without_orphans(history: History) -> History:
    """A window as a provider takes it: no result before its call."""
    return history[next((i for i, m in enumerate(history) if m["role"] != "tool"), 0) :]


def changed(change: Callable[[str, random.Random], str]) -> View:
    """A host that changes what the user said last, for one call."""

    def view(history: History, chance: random.Random) -> History:
        *before, newest = history
        if newest["role"] != "user":
            return history
        return [*before, newest | {"content": change(newest["content"], chance)}]

    return view


def window(size: int) -> View:
    return lambda history, _: without_orphans(history[-size:])


def blanked(history: History, _: random.Random) -> History:
    """Old tool results as hosts blank them, once they have been handed over."""
    return [
        m | {"content": RESULT_LESS[i % 3]} if m["role"] == "tool" and i < len(history) - 6 else m
        for i, m in enumerate(history)
    ]


def without_calls(history: History, _: random.Random) -> History:
    """Calls and their results until there is an answer, as a host that keeps only what people see."""
    is_open = history[-1]["role"] == "tool"
    return history if is_open else [m for m in history if "tool_calls" not in m and m["role"] != "tool"]


def head_and_tail(marker: str, head: int, tail: int) -> View:
    def view(history: History, _: random.Random) -> History:
        left_out = len(history) - head - tail
        says_so = [{"role": "user", "content": marker.format(left_out)}] if marker else []
        whole = left_out <= 0
        return history if whole else [*history[:head], *says_so, *without_orphans(history[-tail:])]

    return view


VIEWS: dict[str, View] = {
    "whole": lambda history, _: history,
    **{f"window of {n}": window(n) for n in range(1, 11)},
    "calls until the answer": without_calls,
    "first and last": head_and_tail("", 1, 4),
    "head and tail": head_and_tail("", 2, 6),
    "head, marker and tail": head_and_tail("Skipped {} messages.", 2, 6),
    "own summary": head_and_tail("Summary of the {} messages before.", 0, 4),
    "decorates": changed(lambda text, chance: f"{text}\n\n<context>page {chance.random()}</context>"),
    "decorates before": changed(lambda text, chance: f"<context>page {chance.random()}</context>\n\n{text}"),
    "spaces": changed(lambda text, _: f" {text}\n"),
    "blanks": blanked,
}


CHANGING = {"decorates", "decorates before", "spaces"}
WHOLE = ["whole", "decorates", "decorates before", "spaces", "blanks"]


class AnyHost:
    """A host with a history of its own: it restarts, calls tools, edits, goes other ways and back, and hands
    all of it over in one view or another."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.history: History = []
        self.left: History = []
        self.said, self.seen = Counter[str](), set[int]()
        self.has_ids, self.edits = self.is_likely(0.3), self.is_likely(0.5)
        views = WHOLE if self.edits else list(VIEWS)
        self.views = self.chance.sample(views, self.chance.randint(1, 3))
        self.numbers, self.took_back = itertools.count(1), False

    def is_likely(self, share: float) -> bool:
        return self.chance.random() < share

    def new(self, role: str, **more: Any) -> dict[str, Any]:
        n = next(self.numbers)
        text = (
            self.chance.choice(SHORT)
            if self.is_likely(0.35)
            else f"What I say as number {n} is about {n * 7}."
        )
        message: dict[str, Any] = {"role": role, "content": text, "n": n} | more
        return message | {"id": f"m{n}"} if self.has_ids and not more else message

    def hand_over(self, messages: History) -> History:
        """What the host sends; each message that is there as it was said counts as said."""
        known = {m["n"]: m["content"] for m in self.history}
        for m in messages:
            if (n := m.get("n")) and n not in self.seen and m["content"] and known[n] in m["content"]:
                self.seen.add(n)
                self.said[known[n]] += 1
        return [{key: value for key, value in m.items() if key != "n"} for m in messages]

    def go_another_way(self) -> None:
        # Of another first message nobody can say that it is no summary, or where it belongs.
        users = [i for i, m in enumerate(self.history) if i and m["role"] == "user"]
        place, before = self.chance.choice(users or [2]), self.history
        match self.chance.choice(("regenerate", "branch", "edit", "back")):
            case "regenerate" if before[-1]["role"] == "assistant":
                n = next(self.numbers)
                answer = {"role": "assistant", "content": f"This is another answer, number {n}.", "n": n}
                self.history = [*before[:-1], answer | ({"id": f"m{n}"} if self.has_ids else {})]
            case "branch":
                self.left, self.history = before, before[:place]
            case "edit":
                rest = before[place + 1 :] if self.is_likely(0.5) else []
                self.left, self.history = before, [*before[:place], self.new("user"), *rest]
            case "back" if self.left:
                self.left, self.history = before, self.left
            case _:
                return
        self.took_back = True

    def call_tool(self) -> None:
        call = f"call{next(self.numbers)}"
        function = {"name": "look", "arguments": "{}"}
        calls = [{"id": call, "type": "function", "function": function}]
        n = next(self.numbers)
        self.history += [
            self.new("assistant", content="", tool_calls=calls),
            {"role": "tool", "tool_call_id": call, "content": f"Result {n} of the tool.", "n": n},
        ]

    async def turn(self, session: onlooker.Session) -> None:
        if self.edits and len(self.history) > 2 and self.is_likely(0.25):
            self.go_another_way()
        elif len(self.history) > 2 and self.is_likely(0.05):
            self.history = []
        if not self.history or self.history[-1]["role"] != "user":
            self.history = [*self.history, self.new("user")]
        await self.prepare(session)
        if self.is_likely(0.4):
            self.call_tool()
            if self.is_likely(0.5):
                await self.prepare(session)
        self.history = [*self.history, self.new("assistant")]
        if self.is_likely(0.3) or "window of 1" in self.views:
            await session.record(*self.hand_over(self.history[-1:]))

    async def prepare(self, session: onlooker.Session) -> None:
        view = VIEWS[self.chance.choice(self.views)]
        sent = self.hand_over(view(self.history, self.chance))
        times = 2 if self.is_likely(0.1) else 1
        for context in await asyncio.gather(*(session.prepare(list(sent)) for _ in range(times))):
            assert sent[-1]["content"].strip() in context.messages[-1].text
            assert context.stats.left_out_messages == context.stats.left_out_notes == 0


@given(seed=st.integers(0, 2**32))
def test_whatever_a_host_does_all_that_was_said_is_in_the_record_or_in_a_marked_branch(seed: int) -> None:
    async def run() -> None:
        host = AnyHost(seed)
        with tempfile.TemporaryDirectory() as folder:
            memory = onlooker.open_memory(Path(folder) / "a.db", budget=4_000)
            for _ in range(host.chance.randint(2, 18)):
                if host.is_likely(0.1):
                    await memory.close()
                    memory = onlooker.open_memory(Path(folder) / "a.db", budget=4_000)
                await host.turn(memory.session("a"))
            live = await memory.session("a").messages(archived=True)
            back = await memory.session("a").history.taken_back() if host.took_back else ()
            await memory.close()
        known = Counter(re.sub(r"\s*<context>.*</context>\s*", "", m.text).strip() for m in (*live, *back))
        lost = host.said - known
        if host.took_back or not CHANGING.isdisjoint(host.views):
            # What is edited back to what it was is what it was, and a short message with more around it may
            # be an earlier one.
            lost = Counter(text for text in lost if text not in SHORT or not known[text])
        assert lost == Counter(), (lost, host.views)
        if not host.took_back and CHANGING.isdisjoint(host.views):
            # Short messages may stand twice.
            times = Counter(m.text for m in live if m.text in host.said and m.text not in SHORT)
            twice = times - host.said
            assert twice == Counter(), (twice, host.views)

    asyncio.run(run())
