"""Where a conversation may be cut: never between a tool call and its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onlooker.domain.messages import Message


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
