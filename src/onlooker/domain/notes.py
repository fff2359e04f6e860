"""What is remembered: notes, and where a session stands."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Protocol, Self

from onlooker.domain.items import Item
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId

# -- Values of a user's own types, filled in from what was said, each with where it came from


class Extractor(Protocol):
    """A class that knows its JSON Schema and can be made from JSON: every Pydantic model is one."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]: ...

    @classmethod
    def model_validate(cls, obj: Any) -> Self: ...


@dataclass(frozen=True, slots=True)
class Schema:
    """An extractor as a model is told of it: its name, and its JSON Schema as text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """One value of a type, as the model gave it.

    It was written together with the note `note` and lives as long as that, whether shown or condensed.
    `seqs` are the messages that hold any of its words; where none does, all that it was taken from.
    """

    type: str
    text: str  # JSON
    note: str
    session: SessionId
    seqs: tuple[int, ...]
    said_at: datetime  # when the first of those messages was said
    made_at: datetime

    @property
    def value(self) -> dict[str, Any]:
        """The JSON as a dictionary, made anew each time."""
        return json.loads(self.text)


# -- What is remembered: notes, and where a session stands

# buffered: written ahead, not yet shown; active: in the prompt; superseded: condensed or rewritten
# into another note, kept for provenance; retired: its messages were taken back by the host.
NoteStatus = Literal["buffered", "active", "superseded", "retired"]
NoteKind = Literal["observation", "reflection"]
# lines: dated, prioritised lines with exact values; prose: a few sentences.
NoteFormat = Literal["lines", "prose"]
LIVE: tuple[NoteStatus, ...] = ("buffered", "active")


@dataclass(frozen=True, slots=True)
class Note:
    """An observation (generation 0) or a reflection (generation 1 and up).

    It stands for the session's messages `first` to `last`, inclusive. `sources` are the ids of the
    messages (observation) or notes (reflection) that it was made from.
    """

    id: str
    generation: int
    first: int
    last: int
    text: str
    tokens: int
    made_at: datetime
    sources: tuple[str, ...]
    status: NoteStatus = "active"
    model: str = ""
    degraded: bool = False  # written by the built-in model in place of one that did not answer

    @property
    def kind(self) -> NoteKind:
        return "reflection" if self.generation else "observation"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a session stands: the row that every decision and every guard goes by.

    `frontier` is the last message covered by any live note, `watermark` the last one covered by an
    active note, `tail_start` the first message that is shown raw.
    """

    session: SessionId
    last_seq: int = 0
    frontier: int = 0
    watermark: int = 0
    tail_start: int = 1
    unnoted_tokens: int = 0
    revision: int = 0  # grows when messages are taken back: notes in the making are then void
    prompt_version: int = 0  # grows when the prompt's memory section changes
    budget: int = 0  # tokens for memory and messages that the host last asked for; 0: not yet
    history_hash: bytes = EMPTY_HISTORY_HASH
    due_at: datetime | None = None
    # How many un-noted tokens make it due, as the planner said when it last settled.
    wake_at: int = 1 << 62
    failures: int = 0
    ended: int = 0  # the last message that items were made of, as the session ended; below last_seq: open

    @property
    def sid(self) -> str:
        return self.session.sid


@dataclass(frozen=True, slots=True)
class Guard:
    """What must still be true when a note is committed."""

    frontier: int
    revision: int
    # The lease's fencing token; None for a note written on the spot, which waits for no lease.
    fence: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What one model call cost."""

    model: str
    purpose: Literal["observe", "reflect", "items"]
    input_tokens: int
    output_tokens: int
    verdict: str  # "accepted", or why the reply was refused
    at: datetime
    cost: float | None = None  # dollars; None where no price is known


@dataclass(frozen=True, slots=True)
class Commit:
    """One change to a session's notes: all of it happens, or none."""

    guard: Guard
    add: tuple[Note, ...] = ()
    activate: tuple[str, ...] = ()  # buffered notes that become active
    supersede: tuple[str, ...] = ()  # active notes that the added ones replace
    frontier: int | None = None  # where these move to; None: stays
    watermark: int | None = None
    tail_start: int | None = None
    extractions: tuple[Extraction, ...] = ()  # what was filled in along with the added notes
    at: datetime | None = None  # for the session's history; None: when the added notes were made

    @property
    def changes_prompt(self) -> bool:
        shown = self.activate or self.supersede or any(n.status == "active" for n in self.add)
        return bool(shown) or self.tail_start is not None


@dataclass(frozen=True, slots=True)
class State:
    """Everything that a plan or a context is made from, read in one transaction.

    `notes` are the live ones, oldest first. `messages` are the live messages from
    min(tail_start, watermark + 1) on, oldest first. `pins` are ids of notes and messages;
    `pinned` are the pinned messages that stand before `messages`. `items` are those of the owner that
    this session shows, in order; None while they were not chosen.
    """

    progress: Progress
    notes: tuple[Note, ...] = ()
    messages: tuple[Message, ...] = ()
    pins: frozenset[str] = frozenset()
    pinned: tuple[Message, ...] = ()
    items: tuple[Item, ...] | None = None

    @property
    def active(self) -> tuple[Note, ...]:
        return tuple(n for n in self.notes if n.status == "active")

    @property
    def buffered(self) -> tuple[Note, ...]:
        return tuple(n for n in self.notes if n.status == "buffered")

    @property
    def observations(self) -> tuple[Note, ...]:
        return tuple(n for n in self.active if n.generation == 0)

    @property
    def reflections(self) -> tuple[Note, ...]:
        return tuple(n for n in self.active if n.generation > 0)

    @property
    def unnoted(self) -> tuple[Message, ...]:
        """Messages that no live note covers."""
        return tuple(m for m in self.messages if m.seq > self.progress.frontier)

    @property
    def unshown(self) -> tuple[Message, ...]:
        """Messages that no active note covers: what must stand raw in a prompt."""
        return tuple(m for m in self.messages if m.seq > self.progress.watermark)

    def after(self, change: Commit, progress: Progress) -> State:
        """The state once a change is committed, without what was said meanwhile."""
        kept = [replace(n, status="active") if n.id in change.activate else n for n in self.notes]
        notes = (*(n for n in kept if n.id not in change.supersede), *change.add)
        start = min(progress.tail_start, progress.watermark + 1)
        left = (m for m in self.messages if m.seq < start and m.id in self.pins)
        return State(
            progress,
            tuple(sorted(notes, key=lambda n: (n.first, n.generation))),
            tuple(m for m in self.messages if m.seq >= start),
            self.pins,
            (*self.pinned, *left),
            self.items,
        )


@dataclass(frozen=True, slots=True)
class Appended:
    """What `append` did: the session after it, and the messages that were new."""

    progress: Progress
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class MessageDigest:
    """A recorded message as alignment sees it."""

    seq: int
    id: str
    role: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Realignment:
    """How a recorded session becomes the conversation that the host now has.

    Messages after `keep` that `follow` does not name by seq are retired. `follow` is what comes
    after `keep`, in order: the seq of a recorded message, which moves to its new place, or a new
    message. The guard is what was read: `last_seq` and `revision`.
    """

    keep: int
    follow: tuple[int | Message, ...]
    last_seq: int
    revision: int


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session in a listing."""

    progress: Progress
    messages: int
    message_tokens: int
    observations: int
    observation_tokens: int
    reflections: int
    reflection_tokens: int
    started_at: datetime | None
    last_at: datetime | None
