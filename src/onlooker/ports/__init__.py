"""What Onlooker needs from outside: a clock, models, workers, and a store (`store.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Note, NoteFormat, Schema
from onlooker.ports.store import Reading, Store, stop_waiting_at, waiting_for_locks

__all__ = [
    "Advance",
    "Clock",
    "Embedder",
    "ItemsRequest",
    "Model",
    "ObserveRequest",
    "Reading",
    "ReflectRequest",
    "Reply",
    "Request",
    "Store",
    "SystemClock",
    "Workers",
    "stop_waiting_at",
    "waiting_for_locks",
]


class Clock(Protocol):
    """The source of the current time. Tests replace it."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


# ------------------------------------------------------------------------------------ models


@frozen
class ObserveRequest:
    """Write an observation of `messages`.

    `notes` are the live notes so far, oldest first. They are context and must not be repeated. A language
    model sees only those that matter for the messages. `target_tokens` is the approximate length of the
    note. `instruction` says in the user's words what to note; a model may ignore it. `schemas` are types to
    fill in from the same messages, as one block of JSON after the note. `correction` says what was wrong
    with the previous reply to the same request.
    """

    session: SessionId
    messages: tuple[Message, ...]
    notes: tuple[Note, ...]
    target_tokens: int
    format: NoteFormat = "lines"
    instruction: str = ""
    correction: str = ""
    schemas: tuple[Schema, ...] = ()


@frozen
class ReflectRequest:
    """Condense `notes`, oldest first, into one reflection of the given generation."""

    session: SessionId
    notes: tuple[Note, ...]
    generation: int
    target_tokens: int
    format: NoteFormat = "lines"
    instruction: str = ""
    correction: str = ""


@frozen
class ItemsRequest(ReflectRequest):
    """Choose what other sessions of the owner should know about a session that has ended.

    `notes` are its notes since it last ended, `messages` the messages after them, and `known` the summaries
    of items that the owner has. A model that does not know items may answer with a reflection. That
    answer is not used, and the built-in model chooses instead.
    """

    messages: tuple[Message, ...] = ()
    known: tuple[str, ...] = ()


Request = ObserveRequest | ReflectRequest


@frozen
class Reply:
    """A model's answer. `finish` is "length" if it was cut off.

    `model` names the model that wrote it, if the called model chose among several. `cost` is in
    dollars, or None if the price is not known.
    """

    text: str
    finish: Literal["stop", "length", "refused", "other"] = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""
    cost: float | None = None


class Model(Protocol):
    """Writes notes: the built-in extractive model, a language model, or a script in a test."""

    @property
    def name(self) -> str:
        """The name stored with each note, such as "anthropic:claude-haiku-4-5"."""
        ...

    @property
    def window(self) -> int:
        """The most tokens of messages or notes in one request."""
        ...

    async def write(self, request: Request) -> Reply:
        """Answer the request.

        Raises:
            ModelError: There is no answer, for any reason.
        """
        ...


class Embedder(Protocol):
    """Makes vectors of texts. Texts with a similar meaning get similar vectors."""

    @property
    def name(self) -> str:
        """The name stored with each vector, such as "openai:text-embedding-3-small".

        Vectors of different names are never compared, so everything that changes them must be in the name.
        """
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector, or 0 while it is not known."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order. No text is empty.

        Raises:
            ModelError: There is no answer, for any reason.
        """
        ...


# ------------------------------------------------------------------------------------ workers

# Takes every note of a session that is due; False if another worker has it, or a model failed.
Advance = Callable[[SessionId], Awaitable[bool]]


class Workers(Protocol):
    """Takes the notes of sessions that are due, in tasks of this process or in other processes.

    The store knows what is due. A worker that is woken for a session loads it, plans and commits. Waking it
    twice, late or for nothing is harmless.
    """

    @property
    def takes_notes(self) -> bool:
        """Whether this process takes notes. If not, other processes take notes, index, end sessions and write
        files."""
        ...

    @property
    def pending(self) -> int:
        """How many sessions this process was woken for and has not settled."""
        ...

    async def start(self) -> None:
        """Start working: first on what is already due, then on what comes."""
        ...

    def wake(self, session: SessionId) -> None:
        """Announce that the session may be due. Returns at once and never raises."""
        ...

    async def tick(self) -> int:
        """Start work on every session that the store says is due; return how many."""
        ...

    async def flush(self) -> None:
        """Wait until all work started so far is settled or postponed."""
        ...

    async def stop(self, deadline: float) -> bool:
        """Start nothing new and let work in progress complete; False if the deadline interrupted it."""
        ...
