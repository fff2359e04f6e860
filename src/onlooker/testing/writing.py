"""The note that a well-behaved model would write: dull, correct, and the same each time.

It names the messages it stands for, so that a test can see in a context which of them a note
replaced. It is shorter than its source and in the form asked for, so that it is always accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date

from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, NoteFormat
from onlooker.policy.languages import wrong_language
from onlooker.policy.reading import SMALL_NOTE, Line, NoteText, read
from onlooker.policy.tokens import estimate
from onlooker.policy.values import find_values
from onlooker.ports import ObserveRequest, ReflectRequest, Request

_SHARE = 0.5  # of its source that the note may be long
_PLAIN_ID = re.compile(r"[\w.-]{1,24}")
_FEWER_WORDS = (8, 4, 2, 1)


def good_note(request: Request) -> str:
    """An acceptable answer to the request."""
    source = source_text(request)
    room = int(_SHARE * estimate(source))
    limit = max(SMALL_NOTE // 2, min(room, request.target_tokens or room))
    text = ""
    for text in _observations(request) if isinstance(request, ObserveRequest) else _reflections(request):
        # The last candidate is as short as can be.
        own_words = "\n".join(line for line in text.splitlines() if "CRITICAL" not in line)
        if estimate(text) <= limit and not wrong_language(own_words, source):
            break
    return text


def source_text(request: Request) -> str:
    """What the note is about."""
    if isinstance(request, ObserveRequest):
        return "\n".join(_said(message) for message in request.messages)
    return "\n".join(note.text for note in request.notes)


# ------------------------------------------------------------------------------------ observations


def _observations(request: ObserveRequest) -> Iterator[str]:
    """From one line for each message, with its id and first words, down to one line for all."""
    messages = request.messages
    for words in _FEWER_WORDS:
        yield _note(
            [(_day(m), f"{m.role} {_label(m)}: {_excerpt(_said(m), words)}") for m in messages], request
        )
    yield _note([(_day(m), f"{_label(m)} {_excerpt(_said(m), 1)}") for m in messages], request)
    first, last = messages[0], messages[-1]
    # No words at all: those of one message may be in another language than the others'.
    yield _note([(_day(first), f"{_label(first)}–{_label(last)}.")], request)


def _note(lines: Sequence[tuple[date | None, str]], request: Request) -> str:
    if request.format == "lines":
        return NoteText(tuple(Line(text, day) for day, text in lines)).render()
    return _prose([text for _, text in lines], next((day for day, _ in lines if day), None))


def _prose(parts: Sequence[str], day: date | None) -> str:
    """One paragraph of two sentences, however many parts there are."""
    said = "; ".join(part.rstrip(".…") for part in parts)
    return f"Noted{f' ({day.isoformat()})' if day else ''}: {said}."


def _label(message: Message) -> str:
    """The message's id where that is short and plain, else its number.

    An id that looks like an exact value would be taken for one that nobody said.
    """
    plain = _PLAIN_ID.fullmatch(message.id) and not find_values(message.id)
    return message.id if plain else f"m{message.seq}"


def _day(message: Message) -> date | None:
    return message.at.date() if message.at else None


def _said(message: Message) -> str:
    calls = [f"called {call.name} {call.arguments}" for call in message.calls]
    return "\n".join([message.body, *calls]).strip()


def _excerpt(text: str, words: int) -> str:
    """The first words, closed so that they cannot pass for something that was cut off."""
    # Enough for any number of words asked for, without splitting a message of many megabytes.
    head = text[:400].split()
    shown = [word for w in head[:words] if (word := _shown(w))]
    cut = len(head) > words or shown != head[:words]
    return " ".join(shown).rstrip(".,;:([{-–—") + ("…" if cut or not shown else ".")


def _shown(word: str) -> str:
    """The word, if it is one; a long one is left out rather than altered, unless it is a sentence."""
    if 2 * sum(c.isalnum() for c in word[:14]) <= len(word[:14]):
        return ""
    # Cut before the first number or name inside it, since half of one is another.
    return word if len(word) <= 14 else re.split("[!-~]", word[:14])[0]


# ------------------------------------------------------------------------------------ reflections


def _reflections(request: ReflectRequest) -> Iterator[str]:
    """CRITICAL lines word for word, the others by their first words, down to none of them."""
    sources = list(_lines(request.notes))
    kept = list(dict.fromkeys(line for line in sources if line.priority == "CRITICAL"))
    others = [line for line in sources if line.priority != "CRITICAL"]
    for words in _FEWER_WORDS:
        yield _reflection(kept, _joined(others, words), request.format)
    if others:
        yield _reflection(kept, [Line("Earlier lines condensed.", others[0].day)], request.format)
    yield _reflection(kept, [], request.format)


def _lines(notes: Sequence[Note]) -> Iterator[Line]:
    for note in notes:
        yield from read(note.text, format="lines", day=note.made_at.date()).lines


def _joined(lines: Sequence[Line], words: int) -> list[Line]:
    """One line for each day."""
    days: dict[date | None, list[str]] = {}
    for line in lines:
        days.setdefault(line.day, []).append(_excerpt(line.text, words).rstrip(".…"))
    return [Line("; ".join(dict.fromkeys(texts)) + ".", day) for day, texts in days.items()]


def _reflection(kept: Sequence[Line], others: Sequence[Line], format: NoteFormat) -> str:
    if format == "prose":
        return _prose([line.text for line in (*kept, *others)], None)
    lines = sorted((*kept, *others), key=lambda line: line.day or date.min)
    return NoteText(tuple(lines)).render()
