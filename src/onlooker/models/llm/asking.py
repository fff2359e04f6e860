"""What a language model is asked, and within which bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from onlooker.domain.notes import Note
from onlooker.models.calling.size import size_of
from onlooker.policy.items.asking import items_prompt
from onlooker.policy.prompts import Prompt, observer_prompt, reflector_prompt
from onlooker.policy.tokens import estimate
from onlooker.ports import ItemsRequest, ObserveRequest, Request

# What an observer may read for each token said. The rules come first; what is left of it goes to the
# newest notes, so that it knows what the conversation is about and does not repeat itself. Showing all
# notes with every chunk would cost several times more than what was said.
MOST_READ = 1.3
# However small the chunk, the last lines are shown.
_LEAST_NOTES = 0.03
_FENCE = 40  # what the notes come with: their fence, and a sentence on them
# Beyond twice what was asked for a note is too long anyway. The rest is for models that think before
# they write, which counts as output too, and of local ones nobody knows whether they do.
_ROOM = 4_500
_EXTRACTED = 2_000  # for the values of users' own types


def prompt_of(request: Request, most_read: float = MOST_READ) -> Prompt:
    """The request as text."""
    if isinstance(request, ItemsRequest):
        return items_prompt(request.notes, request.messages, request.known, instruction=request.instruction)
    if not isinstance(request, ObserveRequest):
        return reflector_prompt(
            request.notes,
            generation=request.generation,
            target_tokens=request.target_tokens,
            format=request.format,
            instruction=request.instruction,
            correction=request.correction,
        )
    bare = _observer_prompt(request, ())
    said = size_of(request)
    room = most_read * said - estimate(bare.system) - estimate(bare.user) - _FENCE
    notes = newest(request.notes, int(max(room, _LEAST_NOTES * said)))
    return _observer_prompt(request, notes) if notes else bare


def _observer_prompt(request: ObserveRequest, notes: Sequence[Note]) -> Prompt:
    return observer_prompt(
        request.messages,
        notes,
        target_tokens=request.target_tokens,
        format=request.format,
        instruction=request.instruction,
        correction=request.correction,
        schemas=request.schemas,
    )


def most_output(request: Request) -> int:
    """How many tokens an answer may have before it is cut off."""
    extracts = isinstance(request, ObserveRequest) and request.schemas
    return 2 * request.target_tokens + _ROOM + (_EXTRACTED if extracts else 0)


# ------------------------------------------------------------------------------------ notes so far


def newest(notes: Sequence[Note], most: int) -> Sequence[Note]:
    """The newest notes, or the last lines of the newest, that come to so many tokens; oldest first."""
    chosen: list[Note] = []
    for note in reversed(notes):
        if note.tokens > most:
            if ending := _ending(note.text, most):
                chosen.append(replace(note, text=ending))
            break
        chosen.append(note)
        most -= note.tokens
    return chosen[::-1]


def _ending(text: str, most: int) -> str:
    """The last lines that come to so many tokens, each under the heading of its day."""
    chosen: list[str] = []
    heading = ""
    for day, line in reversed(list(_under_headings(text))):
        new = [line] if day == heading else [line, day]
        cost = estimate("\n".join(new))
        if cost > most:
            break
        most -= cost
        # The heading moves up above the line that was added before it.
        if day == heading and day:
            chosen.insert(len(chosen) - 1, line)
        else:
            chosen += [part for part in new if part]
            heading = day
    return "\n".join(chosen[::-1])


def _under_headings(text: str) -> Iterator[tuple[str, str]]:
    """Each line with the heading that it stands under."""
    heading = ""
    for line in text.split("\n"):
        if line.startswith("## "):
            heading = line
        else:
            yield heading, line
