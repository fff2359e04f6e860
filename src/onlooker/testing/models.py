"""Fakes for tests: a model with scripted replies, a model that fails, an embedder and a clock."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import random
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Literal, get_args

from onlooker.domain.errors import ModelError
from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, NoteFormat
from onlooker.policy.reply import Line, NoteText, read
from onlooker.policy.reply.judge import SMALL_NOTE, says_nothing_of
from onlooker.policy.search.words import telling_tokens, tokens
from onlooker.policy.text import wrong_language
from onlooker.policy.tokens import estimate
from onlooker.policy.values import find_values
from onlooker.ports import Model, ObserveRequest, ReflectRequest, Reply, Request


class FrozenClock:
    """A clock that stands still at `start` until it is advanced. A negative step moves it back."""

    def __init__(self, start: datetime = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)) -> None:
        self._now = start if start.tzinfo else start.replace(tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Move the clock, and return the new time."""
        self._now += timedelta(seconds=seconds)
        return self._now


DIMENSIONS = 256


def word_vector(
    text: str, dimensions: int = DIMENSIONS, meanings: Mapping[str, str] | None = None
) -> list[float]:
    """Return a vector that counts the words of a text. Texts with words in common get similar vectors.

    `meanings` maps a word to another with the same meaning.
    """
    same = {token: tokens(meant)[0] for word, meant in (meanings or {}).items() for token in tokens(word)}
    vector = [0.0] * dimensions
    for token in telling_tokens(text) or tokens(text):
        digest = hashlib.blake2b(same.get(token, token).encode("utf-8", "surrogatepass"), digest_size=4)
        vector[int.from_bytes(digest.digest(), "big") % dimensions] += 1.0
    return vector


class WordEmbedder:
    """An embedder that compares words. `received` has every batch so far. `error`, if set, is raised."""

    def __init__(
        self, meanings: Mapping[str, str] | None = None, *, dimensions: int = DIMENSIONS, name: str = "words"
    ) -> None:
        self.meanings = dict(meanings or {})
        self.dimensions = dimensions
        self.name = name
        self.received: list[tuple[str, ...]] = []
        self.error: Exception | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.received.append(tuple(texts))
        if self.error is not None:
            raise self.error
        return [word_vector(text, self.dimensions, self.meanings) for text in texts]


_Answer = str | Reply | BaseException | None
_Script = Callable[[Request], _Answer | Awaitable[_Answer]]


class ScriptedModel:
    """Answers with the given replies, in order. After them, and in place of None, it writes a correct note.

    A reply is a text, a `Reply`, an exception to raise, or a function of the request (sync or async) that
    returns one of these. If a function is the only reply, it answers every call. `requests` has the requests
    so far.
    """

    def __init__(self, *replies: _Answer | _Script, name: str = "scripted", window: int = 100_000) -> None:
        self.name = name
        self.window = window
        self.requests: list[Request] = []
        self._always = replies[0] if len(replies) == 1 and callable(replies[0]) else None
        self._replies = [] if self._always else list(replies)

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return len(self.requests)

    async def write(self, request: Request) -> Reply:
        self.requests.append(request)
        answer = self._always or (self._replies.pop(0) if self._replies else None)
        if callable(answer):
            answer = answer(request)
            if inspect.isawaitable(answer):
                answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Reply):
            return answer
        return _reply(request, good_note(request) if answer is None else answer)


Fault = Literal[
    "error",
    "timeout",
    "hang",
    "rate limit",
    "empty",
    "refusal",
    "cut off",
    "garbage",
    "repetition",
    "wrong language",
    "echo",
    "huge",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)

_HUGE = 10_000_000


class FaultyModel:
    """Fails in the given way, or in one of several. Other calls go to the model `then`.

    With `first`, only the first `first` calls fail. Otherwise each fails with probability `rate`; the same
    `seed` gives the same failures. `misbehaved` counts the calls that failed.
    """

    def __init__(
        self,
        fault: Fault | Sequence[Fault],
        *,
        then: Model | None = None,
        rate: float = 1.0,
        first: int | None = None,
        seed: int = 0,
    ) -> None:
        self._faults: tuple[Fault, ...] = (fault,) if isinstance(fault, str) else tuple(fault)
        unknown = [f for f in self._faults if f not in FAULTS]
        if unknown or not self._faults:
            raise ValueError(f"fault {unknown or fault!r}: must be one of {', '.join(FAULTS)}")
        self._then = then or ScriptedModel()
        self._rate = rate
        self._first = first
        self._random = random.Random(seed)
        self.requests: list[Request] = []
        self.misbehaved = 0

    @property
    def name(self) -> str:
        return f"faulty ({', '.join(self._faults)})"

    @property
    def window(self) -> int:
        return self._then.window

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return len(self.requests)

    async def write(self, request: Request) -> Reply:
        self.requests.append(request)
        # Drawn at each call, needed or not, so that the failures depend only on the seed.
        draw, fault = self._random.random(), self._random.choice(self._faults)
        if not (self.calls <= self._first if self._first is not None else draw < self._rate):
            return await self._then.write(request)
        self.misbehaved += 1
        return await self._misbehave(fault, request)

    async def _misbehave(self, fault: Fault, request: Request) -> Reply:
        match fault:
            case "error":
                raise ModelError("the provider answered 500: internal error")
            case "timeout":
                # Not a ModelError, like the timeouts of an SDK.
                raise TimeoutError("the provider did not answer in time")
            case "rate limit":
                raise ModelError("the provider answered 429: too many requests, retry after 20 s")
            case "hang":
                await asyncio.Event().wait()
                raise AssertionError("this event is never set")
            case "cut off":
                good = await self._then.write(request)
                return replace(good, text=good.text[: len(good.text) // 2], finish="length")
            case _:
                return _reply(request, self._bad_text(fault, request))

    def _bad_text(self, fault: Fault, request: Request) -> str:
        match fault:
            case "refusal":
                return "I'm sorry, but I can't help with summarising this conversation."
            case "garbage":
                return "".join(self._random.choices("\x00\ufffd{}[]<>|~^%$#@!?;:=+*&\\/'\"`01 \n", k=600))
            case "repetition":
                return "## 2026-02-16\n" + "The user asked again about the same thing.\n" * 60
            case "wrong language":
                return _in_another_language(request)
            case "echo":
                from onlooker.models.llm import prompt_of

                prompt = prompt_of(request)
                return f"{prompt.system}\n\n{prompt.user}"
            case "huge":
                line = "The user said something and the assistant answered it at length.\n"
                return line * (_HUGE // len(line) + 1)
            case _:
                return ""


def _reply(request: Request, text: str) -> Reply:
    # Counting ten megabytes would slow the test down.
    return Reply(text, input_tokens=estimate(source_text(request)), output_tokens=estimate(text[:100_000]))


def _in_another_language(request: Request) -> str:
    text = source_text(request)[:20_000]
    latin = sum(c.isascii() and c.isalpha() for c in text)
    if latin > sum(not c.isascii() and c.isalpha() for c in text):
        return "用户说明了自己的计划，并询问了几个问题。助手逐一作了回答，列出了接下来要做的事情和要点。"
    return "The user explained some plans and asked about them, and the assistant answered each of these."


# -- A correct note: dull, and the same each time

_SHARE = 0.5  # the length of a note, as a share of its source
_PLAIN_ID = re.compile(r"[\w.-]{1,24}")
_FEWER_WORDS = (8, 4, 2, 1)


def good_note(request: Request) -> str:
    """Return an acceptable answer to the request."""
    source = source_text(request)
    room = int(_SHARE * estimate(source))
    limit = max(SMALL_NOTE // 2, min(room, request.target_tokens or room))
    text = ""  # the last candidate, which is as short as possible, if none fits
    for text in _observations(request) if isinstance(request, ObserveRequest) else _reflections(request):
        own_words = "\n".join(line for line in text.splitlines() if "CRITICAL" not in line)
        says_nothing = says_nothing_of(read(text, format=request.format), source)
        if estimate(text) <= limit and not says_nothing and not wrong_language(own_words, source):
            break
    return text


def source_text(request: Request) -> str:
    """Return the text of a request's messages or notes."""
    if isinstance(request, ObserveRequest):
        return "\n".join(_said(message) for message in request.messages)
    return "\n".join(note.text for note in request.notes)


def _observations(request: ObserveRequest) -> Iterator[str]:
    """Yield shorter and shorter notes, from one line for each message to one line for all."""
    messages = request.messages
    for words in _FEWER_WORDS:
        yield _note(
            [(_day(m), f"{m.role} {_label(m)}: {_excerpt(_said(m), words)}") for m in messages], request
        )
    yield _note([(_day(m), f"{_label(m)}: {_excerpt(_said(m), 1)}") for m in messages], request)
    first, last = messages[0], messages[-1]
    # No words at all, since one message may be in another language than the others.
    yield _note([(_day(first), f"{_label(first)}–{_label(last)}.")], request)


def _note(lines: Sequence[tuple[date | None, str]], request: Request) -> str:
    if request.format != "prose":
        return NoteText(tuple(Line(text, day) for day, text in lines)).render()
    return _prose([text for _, text in lines], next((day for day, _ in lines if day), None))


def _prose(parts: Sequence[str], day: date | None) -> str:
    """Return one paragraph, however many parts there are."""
    said = "; ".join(part.rstrip(".…") for part in parts)
    return f"Noted{f' ({day.isoformat()})' if day else ''}: {said}."


def _label(message: Message) -> str:
    """Return the message's id if it is short and plain, else its number.

    The judge would take an id that looks like an exact value for an invented one.
    """
    plain = _PLAIN_ID.fullmatch(message.id) and not find_values(message.id)
    return message.id if plain else f"m{message.seq}"


def _day(message: Message) -> date | None:
    return message.at.date() if message.at else None


def _said(message: Message) -> str:
    calls = [f"{call.name} {call.arguments}" for call in message.calls]
    return "\n".join([message.body, *calls]).strip()


def _excerpt(text: str, words: int) -> str:
    """Return the first words, with an end that does not look cut off."""
    # Long enough for the words, and quick for a message of many megabytes.
    head = text[:400].split()
    shown = [word for w in head[:words] if (word := _shown(w))]
    cut = len(head) > words or shown != head[:words]
    return " ".join(shown).rstrip(".,;:([{-–—") + ("…" if cut or not shown else ".")


def _shown(word: str) -> str:
    """Return the word, or "" for symbols. A long word is left out or cut."""
    if 2 * sum(c.isalnum() for c in word[:14]) <= len(word[:14]) or not word.isprintable():
        return ""
    # Cut before the first number or name, since half of one is another.
    return word if len(word) <= 14 else re.split("[!-~]", word[:14])[0]


def _reflections(request: ReflectRequest) -> Iterator[str]:
    """Yield shorter and shorter notes: CRITICAL lines word for word, ever fewer words of the others."""
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
    """Return one line for each day."""
    days: dict[date | None, list[str]] = {}
    for line in lines:
        days.setdefault(line.day, []).append(_excerpt(line.text, words).rstrip(".…"))
    return [Line("; ".join(dict.fromkeys(texts)) + ".", day) for day, texts in days.items()]


def _reflection(kept: Sequence[Line], others: Sequence[Line], format: NoteFormat) -> str:
    if format == "prose":
        return _prose([line.text for line in (*kept, *others)], None)
    lines = sorted((*kept, *others), key=lambda line: line.day or date.min)
    return NoteText(tuple(lines)).render()
