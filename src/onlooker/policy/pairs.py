"""Calls and their results, put in order: what every provider insists on, whatever the host recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from onlooker.domain.messages import Message, ToolCall
from onlooker.policy.cut import groups

NO_RESULT = "[no result was recorded]"


@dataclass(frozen=True, slots=True)
class Exchange:
    """An assistant message with calls, each with an id of its own, and the results that follow it."""

    message: Message
    calls: tuple[ToolCall, ...]
    results: tuple[Message, ...]

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        answered = {r.answers for r in self.results}
        return tuple(c for c in self.calls if c.id not in answered)


def turns(messages: Sequence[Message]) -> Iterator[Message | Exchange]:
    """The conversation as exchanges and single messages; no tool message is left by itself.

    A result that does not directly follow its call (it came late, twice, or without the call) becomes
    a user message that says so.
    """
    names: dict[str, str] = {}
    for head, *results in groups(messages):
        names.update((call.id, call.name) for call in head.calls)
        if head.role == "assistant" and head.calls:
            yield Exchange(head, _distinct(head.calls), tuple(results))
            continue
        yield _orphan(head, names) if head.role == "tool" else head
        for result in results:
            yield _orphan(result, names)


def _distinct(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls, a repeated id made a new one: only the first can be the one that was answered."""
    taken = {c.id for c in calls}
    seen: set[str] = set()
    distinct: list[ToolCall] = []
    for call in calls:
        distinct.append(call if call.id not in seen else replace(call, id=fresh(call.id, taken)))
        seen.add(call.id)
        taken.add(distinct[-1].id)
    return tuple(distinct)


def fresh(name: str, taken: set[str]) -> str:
    """The name itself, or with the first number that makes it a new one."""
    number = 2
    candidate = name
    while candidate in taken:
        candidate = f"{name}-{number}"
        number += 1
    return candidate


def _orphan(result: Message, names: dict[str, str]) -> Message:
    name = result.name or names.get(result.answers) or result.answers
    text = f"[result of {name}, recorded without its call] {result.text}".rstrip()
    return replace(result, role="user", text=text, name="", answers="", original=None)
