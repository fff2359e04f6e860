"""Where a conversation may be cut: never between a tool call and its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from onlooker.domain.messages import Message, ToolCall


def groups(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """The conversation in pieces that must stay together.

    A call stays with the results that directly follow it; everything else stands alone. A result
    anywhere else has no call to stay with.
    """
    i = 0
    while i < len(messages):
        end = i + 1
        open_calls = {c.id for c in messages[i].calls}
        while end < len(messages) and messages[end].role == "tool" and messages[end].answers in open_calls:
            open_calls.discard(messages[end].answers)
            end += 1
        yield tuple(messages[i:end])
        i = end


def is_open(group: Sequence[Message]) -> bool:
    """Whether a call in the group still waits for its result."""
    return {c.id for c in group[0].calls} > {m.answers for m in group[1:]}


def tokens_of(messages: Sequence[Message]) -> int:
    return sum(m.tokens for m in messages)


def oldest_chunk(
    messages: Sequence[Message], *, keep: int, most_tokens: int = 0, most_messages: int = 0
) -> tuple[Message, ...]:
    """The oldest messages that may be noted now, leaving at least `keep` tokens raw behind them.

    At most `most_tokens` and `most_messages` (0: any number), but never less than one group. A call
    at the very end whose results are still to come stays raw: they would come back to nothing.
    """
    pieces = list(groups(messages))
    if pieces and is_open(pieces[-1]):
        pieces.pop()
    free = tokens_of(messages) - keep
    chunk: list[Message] = []
    used = 0
    for piece in pieces:
        used += tokens_of(piece)
        if used > free:
            break
        if chunk and most_tokens and used > most_tokens:
            break
        if chunk and most_messages and len(chunk) + len(piece) > most_messages:
            break
        chunk.extend(piece)
    return tuple(chunk)


def newest_within(messages: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """The newest messages that fit `tokens`, whole groups only; it may be none."""
    pieces = list(groups(messages))
    start = len(pieces)
    used = 0
    while start and used + tokens_of(pieces[start - 1]) <= tokens:
        start -= 1
        used += tokens_of(pieces[start])
    return tuple(m for piece in pieces[start:] for m in piece)


# -- Calls and their results

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
