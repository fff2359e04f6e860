"""Notes become a reflection."""

from __future__ import annotations

from collections.abc import Sequence

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note
from onlooker.engine.writing import Source, Writer
from onlooker.ports import ReflectRequest


def reflect_request(
    session: SessionId, notes: Sequence[Note], generation: int, target_tokens: int, writer: Writer
) -> ReflectRequest:
    """What the model is asked."""
    return ReflectRequest(session, tuple(notes), generation, target_tokens, writer.settings.format)


async def reflect(
    session: SessionId, notes: Sequence[Note], generation: int, target_tokens: int, writer: Writer
) -> str:
    """The text of a reflection on these notes.

    Raises:
        ModelError: No acceptable answer; the notes stay as they are.
    """
    request = reflect_request(session, notes, generation, target_tokens, writer)
    return await writer.write(request, _source(notes))


def _source(notes: Sequence[Note]) -> Source:
    # Loaded with the first reflection, as in `writing`.
    from onlooker.policy.reading import critical_lines, read

    text = "\n".join(n.text for n in notes)
    dated = read(text, format="lines").lines
    day = next((line.day for line in dated if line.day), notes[0].made_at.date())
    # Prose has no priorities: a sentence that begins with the word is only a sentence.
    critical = critical_lines(text) if any(line.startswith("## ") for line in text.splitlines()) else ()
    return Source(text, sum(n.tokens for n in notes), day, critical)
