"""Messages become an observation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Note
from onlooker.engine.writing import Writer, Written
from onlooker.policy.cut import groups, tokens_of
from onlooker.policy.render import text_lines
from onlooker.ports import ObserveRequest

if TYPE_CHECKING:
    from onlooker.engine.judging import Source

# A note of a short chunk still needs room for its heading and one line.
LEAST_TARGET = 40


def observe_request(
    session: SessionId, messages: Sequence[Message], notes: Sequence[Note], ratio: float, writer: Writer
) -> ObserveRequest:
    """What the model is asked: a note of about `ratio` of its source."""
    target = max(LEAST_TARGET, round(tokens_of(messages) * ratio))
    return ObserveRequest(session, tuple(messages), tuple(notes), target, writer.settings.format)


async def observe(
    session: SessionId, messages: Sequence[Message], notes: Sequence[Note], ratio: float, writer: Writer
) -> Written:
    """An observation of these messages.

    More than the model's window holds is noted in parts, one after the other, a single message
    included.

    Raises:
        ModelError: A part was not answered; nothing was consumed.
    """
    parts = [
        await writer.write(observe_request(session, part, notes, ratio, writer), _source(part))
        for part in _parts(messages, writer)
    ]
    return Written.in_parts(parts)


def _source(messages: Sequence[Message]) -> Source:
    from onlooker.engine.judging import Source

    at = messages[0].at
    assert at is not None  # recorded messages have their time
    said = "\n".join(t for m in messages for t in (m.body, *(c.arguments for c in m.calls)) if t)
    return Source(text_lines(messages), said, tokens_of(messages), at.date())


def _parts(messages: Sequence[Message], writer: Writer) -> Iterator[tuple[Message, ...]]:
    """The messages in runs that fit the model's window."""
    window = writer.model.window
    run: list[Message] = []
    for group in groups(messages):
        if run and tokens_of(run) + tokens_of(group) > window:
            yield tuple(run)
            run = []
        if tokens_of(group) <= window:
            run.extend(group)
            continue
        for message in group:
            yield from ((piece,) for piece in _pieces(message, writer))
    if run:
        yield tuple(run)


def _pieces(message: Message, writer: Writer) -> Iterator[Message]:
    """One message in pieces that each fit the window."""
    if message.tokens <= writer.model.window:
        yield message
        return
    count = -(-message.tokens // max(1, writer.model.window * 9 // 10))
    size = max(1, -(-len(message.text) // count))
    for start in range(0, max(1, len(message.text)), size):
        calls = message.calls if start == 0 else ()
        piece = replace(message, text=message.text[start : start + size], calls=calls)
        yield replace(piece, tokens=min(writer.estimator.message(piece), writer.model.window))
