"""Notes, a session's progress, and the changes that a store commits to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Literal, Protocol, Self

from onlooker.domain.frozen import frozen
from onlooker.domain.items import Item
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId

# buffered: written ahead of time, not shown yet. active: shown in the prompt. superseded: condensed or
# rewritten into another note, kept for provenance. retired: the host took its messages back.
NoteStatus = Literal["buffered", "active", "superseded", "retired"]
NOTE_STATUSES: tuple[NoteStatus, ...] = ("buffered", "active", "superseded", "retired")
NoteKind = Literal["observation", "reflection"]
# lines: dated lines with priorities and exact values. stamped: the same, with a time on each, and in the
# prompt with the day and priority too. prose: a few sentences.
NoteFormat = Literal["lines", "stamped", "prose"]
LIVE: tuple[NoteStatus, ...] = ("buffered", "active")


@frozen
class Note:
    """An observation (generation 0) or a reflection (generation 1 and up).

    It covers the session's messages `first` to `last`, inclusive. `sources` are the ids of the messages
    (for an observation) or notes (for a reflection) that it was made from.
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
    degraded: bool = False  # written by the built-in model because the configured one did not answer

    @property
    def kind(self) -> NoteKind:
        return "reflection" if self.generation else "observation"


@frozen
class Progress:
    """The progress of a session. Every decision and every guard reads this row.

    `frontier` is the last message covered by any live note, `watermark` the last one covered by an
    active note, and `tail_start` the first message that is shown raw.
    """

    session: SessionId
    last_seq: int = 0
    frontier: int = 0
    watermark: int = 0
    tail_start: int = 1
    unnoted_tokens: int = 0
    revision: int = 0  # incremented when messages are taken back, which voids notes being written
    prompt_version: int = 0  # incremented when the prompt's memory section changes
    budget: int = 0  # the host's last budget for memory and messages, in tokens; 0: none yet
    history_hash: bytes = EMPTY_HISTORY_HASH
    due_at: datetime | None = None
    # The number of un-noted tokens at which the session is due, as last decided by the planner.
    wake_at: int = 1 << 62
    failures: int = 0
    # The last message that items were made from when the session ended; below last_seq, the session is open.
    ended: int = 0

    @property
    def sid(self) -> str:
        return self.session.sid

    def after(self, change: Commit) -> Progress:
        """The progress after a commit, except for the un-noted tokens."""
        return replace(
            self,
            frontier=self.frontier if change.frontier is None else change.frontier,
            watermark=self.watermark if change.watermark is None else change.watermark,
            tail_start=self.tail_start if change.tail_start is None else change.tail_start,
            prompt_version=self.prompt_version + change.changes_prompt,
        )


@frozen
class Guard:
    """The state that a commit expects. If it has changed, nothing is committed."""

    frontier: int
    revision: int
    # The lease's fencing token; None for a note written on the spot, without a lease.
    fence: int | None = None


@frozen
class Usage:
    """The tokens and cost of one model call."""

    model: str
    purpose: Literal["observe", "reflect", "items"]
    input_tokens: int
    output_tokens: int
    verdict: str  # "accepted", or why the reply was rejected
    at: datetime
    cost: float | None = None  # in dollars; None if the price is unknown


@frozen
class UsageDay:
    """What one model did for one purpose on one day (UTC). `cost` is None if no price is known."""

    day: date
    model: str
    purpose: Literal["observe", "reflect", "items"]
    calls: int
    rejected: int
    input_tokens: int
    output_tokens: int
    cost: float | None


@frozen
class Commit:
    """One change to a session's notes, committed as a whole or not at all."""

    guard: Guard
    add: tuple[Note, ...] = ()
    activate: tuple[str, ...] = ()  # buffered notes that become active
    supersede: tuple[str, ...] = ()  # active notes, or some that become so, that the added ones replace
    frontier: int | None = None  # the new value; None: unchanged. The same for the next two
    watermark: int | None = None
    tail_start: int | None = None
    extractions: tuple[Extraction, ...] = ()  # written together with the added notes
    at: datetime | None = None  # recorded in the session's history; None: when the added notes were made
    # The items that the session shows from now on, chosen again because its notes change the prompt anyway;
    # None: the same as before.
    items: tuple[Item, ...] | None = None

    @property
    def changes_notes(self) -> bool:
        """Whether the prompt shows other notes after it."""
        return bool(self.activate or self.supersede or any(n.status == "active" for n in self.add))

    @property
    def changes_prompt(self) -> bool:
        return self.changes_notes or self.tail_start is not None


@frozen
class State:
    """The input of a plan or a context, read in one transaction.

    `notes` are the live notes, oldest first. `messages` are the live messages from
    min(tail_start, watermark + 1) on, oldest first. `pins` are the ids of pinned notes and messages;
    `pinned` are the pinned messages before `messages`. `items` are the owner's items that this session
    shows, in order; None until they are chosen. `missing` is how many messages that no active note covers
    were not read: a context needs only the newest of a long backlog, and a note the oldest.
    """

    progress: Progress
    notes: tuple[Note, ...] = ()
    messages: tuple[Message, ...] = ()
    pins: frozenset[str] = frozenset()
    pinned: tuple[Message, ...] = ()
    items: tuple[Item, ...] | None = None
    missing: int = 0

    @property
    def active(self) -> tuple[Note, ...]:
        return tuple([n for n in self.notes if n.status == "active"])

    @property
    def buffered(self) -> tuple[Note, ...]:
        return tuple([n for n in self.notes if n.status == "buffered"])

    @property
    def observations(self) -> tuple[Note, ...]:
        return tuple(n for n in self.active if n.generation == 0)

    @property
    def reflections(self) -> tuple[Note, ...]:
        return tuple(n for n in self.active if n.generation > 0)

    @property
    def unnoted(self) -> tuple[Message, ...]:
        """Messages that no live note covers."""
        frontier = self.progress.frontier
        return tuple([m for m in self.messages if m.seq > frontier])

    @property
    def unshown(self) -> tuple[Message, ...]:
        """Messages that no active note covers. A prompt must show them raw."""
        watermark = self.progress.watermark
        return tuple([m for m in self.messages if m.seq > watermark])

    def part(self, *, newest: int | None = None, oldest: int | None = None) -> State:
        """The state with only this many of its newest or oldest messages."""
        kept = self.messages[:oldest] if newest is None else self.messages[-newest:]
        if len(kept) == len(self.messages):
            return self
        dropped = self.messages[len(kept) :] if newest is None else self.messages[: -len(kept)]
        missing = sum(m.seq > self.progress.watermark for m in dropped)
        return replace(self, messages=kept, missing=self.missing + missing)

    def until(self, newest: Message | None) -> State:
        """The state for a caller whose newest message is this one, without what others said since."""
        if newest is None or (self.messages and self.messages[-1].id == newest.id):
            return self
        # Its seq may have changed meanwhile: another caller may have edited what came before it.
        place = next((i for i, m in enumerate(self.messages) if m.id == newest.id), None)
        if place is not None:
            return replace(self, messages=self.messages[: place + 1])
        before = tuple(m for m in self.messages if m.seq < newest.seq)
        # It is shown raw, even if notes cover it by now.
        return replace(self, messages=(*before, newest.with_seq(max(newest.seq, self.progress.tail_start))))

    def after(self, change: Commit, progress: Progress) -> State:
        """Return the state after a commit, without messages recorded since this state was read."""
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
            self.items if change.items is None else change.items,
            self.missing,
        )

    def grown(self, progress: Progress, messages: Sequence[Message]) -> State | None:
        """The state with these messages appended; None if anything else changed meanwhile."""
        before = self.progress
        expected = replace(
            before,
            last_seq=before.last_seq + len(messages),
            unnoted_tokens=progress.unnoted_tokens,
            history_hash=progress.history_hash,
            due_at=progress.due_at,
        )
        if progress != expected:
            return None
        return replace(self, progress=progress, messages=(*self.messages, *messages))


@frozen
class AppendResult:
    """The result of an append: the session's progress after it, and the messages that were new."""

    progress: Progress
    messages: tuple[Message, ...]


@frozen
class MessageDigest:
    """What alignment compares of a recorded message."""

    seq: int
    id: str
    role: str
    digest: bytes


@frozen
class Realignment:
    """Changes a recorded session to match the host's current conversation.

    `follow` is what comes after message `keep`, in order: a new message, or the seq of a recorded one,
    which moves to its new position. Recorded messages after `keep` that `follow` does not list are
    retired. `last_seq` and `revision` are the guard, as they were read.
    """

    keep: int
    follow: tuple[int | Message, ...]
    last_seq: int
    revision: int


@frozen
class SessionSummary:
    """One session in a listing."""

    progress: Progress
    messages: int
    message_tokens: int
    observations: int
    observation_tokens: int
    reflections: int
    reflection_tokens: int
    started_at: datetime | None
    last_at: datetime | None
    used_at: datetime
    degraded: int = 0  # active notes that the built-in model wrote in place of the configured one


# -- Extractions: values of the user's own types, taken from messages


class Extractor(Protocol):
    """A class with a JSON Schema that can be built from JSON. Every Pydantic model is one."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]: ...

    @classmethod
    def model_validate(cls, obj: Any) -> Self: ...


@frozen
class Schema:
    """An extractor as described to a model: its name, and its JSON Schema as text."""

    name: str
    text: str


@frozen
class Extraction:
    """One value of an extractor's type, as the model gave it.

    It was written together with the note `note` and is deleted with it, whatever the note's status.
    `seqs` are the messages that contain any of its words, or all source messages if none does.
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
        """The JSON as a new dictionary."""
        return json.loads(self.text)
