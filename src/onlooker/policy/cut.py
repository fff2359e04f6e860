"""Where a conversation may be cut. A tool call is never separated from its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from onlooker.domain.messages import Message, ToolCall


def groups(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Split a conversation into groups that must stay together.

    A call stays with the results that directly follow it. Every other message is a group of its own, even
    a result that does not follow its call.
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
    """Return whether a call in the group has no result yet."""
    return {c.id for c in group[0].calls} > {m.answers for m in group[1:]}


def filled_in(messages: Sequence[Message]) -> int:
    """Count the calls without a result and the results without a call, for which a prompt has to say so."""
    calls = sum(len(m.calls) for m in messages)
    results = sum(m.role == "tool" for m in messages)
    if not calls and not results:
        return 0
    paired = sum(len(group) - 1 for group in groups(messages))
    return calls + results - 2 * paired


def tokens_of(messages: Sequence[Message]) -> int:
    return sum(m.tokens for m in messages)


def oldest_chunk(
    messages: Sequence[Message], *, keep: int, most_tokens: int = 0, most_messages: int = 0
) -> tuple[Message, ...]:
    """Choose the oldest messages that may be noted now, keeping at least `keep` tokens raw after them.

    The chunk has at most `most_tokens` and `most_messages` (0: no limit), but at least one group. A call at
    the very end that waits for its results stays raw, so that they are not separated.
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
    """Choose the newest whole groups that fit in `tokens`, possibly none."""
    pieces = list(groups(messages))
    start = len(pieces)
    used = 0
    while start and used + tokens_of(pieces[start - 1]) <= tokens:
        start -= 1
        used += tokens_of(pieces[start])
    return tuple(m for piece in pieces[start:] for m in piece)


# -- Exchanges: calls with their results, as providers require them

NO_RESULT = "[no result was recorded]"


@dataclass(frozen=True, slots=True)
class Exchange:
    """An assistant message with calls, each with a unique id, and the results that follow it."""

    message: Message
    calls: tuple[ToolCall, ...]
    results: tuple[Message, ...]

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        answered = {r.answers for r in self.results}
        return tuple(c for c in self.calls if c.id not in answered)


def turns(messages: Sequence[Message]) -> Iterator[Message | Exchange]:
    """Split a conversation into exchanges and single messages, none of which is a tool message.

    A result that does not directly follow its call (it came late, twice, or without a call) becomes a user
    message that says so.
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
    """Give a call with a repeated id a new one: a result answers the first call with its id."""
    taken = {c.id for c in calls}
    seen: set[str] = set()
    distinct: list[ToolCall] = []
    for call in calls:
        distinct.append(call if call.id not in seen else replace(call, id=unique_name(call.id, taken)))
        seen.add(call.id)
        taken.add(distinct[-1].id)
    return tuple(distinct)


def unique_name(name: str, taken: set[str]) -> str:
    """Return the name, with a number added if it is taken."""
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
