"""A clock, and models: what is asked of them, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import (
    Note,
    NoteFormat,
    Schema,
)


class Clock(Protocol):
    """The time, so that tests can hold it still."""

    def now(self) -> datetime:
        """An aware datetime."""
        ...


@dataclass(frozen=True, slots=True)
class ObserveRequest:
    """Write an observation of `messages`.

    `notes` are the live notes so far, oldest first: context, not to be repeated. A language model is
    shown the newest of them, within a bounded share.
    `target_tokens` is about how long the note should be. `instruction` is the user's own words on what to
    note; a model that understands none ignores it. `schemas` are types whose values are to be filled in
    from the same messages, in one block of JSON after the note. `correction` says what was wrong with
    the previous reply to this same request.
    """

    session: SessionId
    messages: tuple[Message, ...]
    notes: tuple[Note, ...]
    target_tokens: int
    format: NoteFormat = "lines"
    instruction: str = ""
    correction: str = ""
    schemas: tuple[Schema, ...] = ()


@dataclass(frozen=True, slots=True)
class ReflectRequest:
    """Condense `notes`, oldest first, into one reflection of the given generation."""

    session: SessionId
    notes: tuple[Note, ...]
    generation: int
    target_tokens: int
    format: NoteFormat = "lines"
    instruction: str = ""
    correction: str = ""


@dataclass(frozen=True, slots=True)
class ItemsRequest(ReflectRequest):
    """Say what other conversations of the same owner should know of a session that has ended.

    `notes` are its notes since it ended before, `messages` what was said after them, `known` summaries of
    items that the owner has. A model that knows nothing of items may take it for a reflection: its answer
    is then no answer, and the built-in choice stands in.
    """

    messages: tuple[Message, ...] = ()
    known: tuple[str, ...] = ()


Request = ObserveRequest | ReflectRequest


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered. `finish` is "length" when the answer was cut off.

    `model` says who wrote it where the model that was asked chose among others. `cost` is what the call
    cost in dollars, None where no price is known.
    """

    text: str
    finish: Literal["stop", "length", "refused", "other"] = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""
    cost: float | None = None


class Model(Protocol):
    """Whatever writes notes: the built-in extractive model, a language model, a script in a test."""

    @property
    def name(self) -> str:
        """As it stands beside each note it wrote, such as "anthropic:claude-haiku-4-5"."""
        ...

    @property
    def window(self) -> int:
        """How many tokens of messages or notes one request may hold."""
        ...

    async def write(self, request: Request) -> Reply:
        """Answer the request.

        Raises:
            ModelError: It did not answer, for whatever reason.
        """
        ...


class Embedder(Protocol):
    """Whatever makes vectors of texts, so that what means the same lies close together."""

    @property
    def name(self) -> str:
        """As it stands beside each vector, such as "openai:text-embedding-3-small". Vectors of two names are
        never compared: whatever changes them belongs into it."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; 0 while that is not known."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in order. None of the texts is empty.

        Raises:
            ModelError: There are none now, for whatever reason.
        """
        ...
