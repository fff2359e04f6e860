"""Notes become a reflection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note
from onlooker.engine.writing import Writer, Written
from onlooker.ports import ReflectRequest

if TYPE_CHECKING:
    from onlooker.engine.judging import Source

# CRITICAL lines are kept word for word, up to this share of a reflection; then the oldest may go.
CRITICAL_SHARE = 0.5


def reflect_request(
    session: SessionId, notes: Sequence[Note], generation: int, target_tokens: int, writer: Writer
) -> ReflectRequest:
    """What the model is asked."""
    return ReflectRequest(session, tuple(notes), generation, target_tokens, writer.settings.format)


async def reflect(
    session: SessionId, notes: Sequence[Note], generation: int, target_tokens: int, writer: Writer
) -> Written:
    """A reflection on these notes.

    Raises:
        ModelError: No acceptable answer; the notes stay as they are.
    """
    request = reflect_request(session, notes, generation, target_tokens, writer)
    return await writer.write(request, _source(request, writer))


def _source(request: ReflectRequest, writer: Writer) -> Source:
    from onlooker.engine.judging import Source
    from onlooker.policy.reply import critical_lines, read

    text = "\n".join(n.text for n in request.notes)
    note = read(text, format="lines")
    said = "\n".join((*(line.text for line in note.lines), *note.values))
    day = next((line.day for line in note.lines if line.day), request.notes[0].made_at.date())
    # Prose has no priorities: a sentence that begins with the word is only a sentence.
    dated = any(line.startswith("## ") for line in text.splitlines())
    critical = critical_lines(text) if dated else ()
    kept = _newest(critical, round(request.target_tokens * CRITICAL_SHARE), writer)
    return Source(text, said, sum(n.tokens for n in request.notes), day, kept)


def _newest(lines: Sequence[str], tokens: int, writer: Writer) -> Sequence[str]:
    """The newest lines that fit: what must be kept for ever would else fill the memory in the end."""
    start = len(lines)
    while start and (tokens := tokens - writer.estimator.text(lines[start - 1])) >= 0:
        start -= 1
    return lines[start:]
