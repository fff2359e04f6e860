"""Put a context together: memory first, then the newest messages, inside a budget.

Selection takes the newest first; rendering runs from the oldest to the newest. What stands in the
memory section depends on the notes and the limits alone, never on the messages or the time, so that
the prompt's prefix stays the same, byte for byte, until notes change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from onlooker.domain.context import RuntimeContext, Stats
from onlooker.domain.errors import BudgetError
from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, State
from onlooker.policy.context import Context, Sections
from onlooker.policy.cut import groups, newest_within, tokens_of
from onlooker.policy.render import text_lines
from onlooker.policy.settings import Limits, Settings, limits
from onlooker.policy.tokens import Calibration, Estimator

MEMORY_HEADING = "## Conversation Memory"
MEMORY_INTRO = "Notes on what was said before the messages that follow, oldest first."
ELISION = " […] "


# ------------------------------------------------------------------------------------ counting


@dataclass(frozen=True, slots=True)
class Frame:
    """What a call asks for: everything in a context that is not memory or messages."""

    system: str = ""
    knowledge: Mapping[str, str] = field(default_factory=dict[str, str])
    lead: tuple[Message, ...] = ()  # system messages at the head of a history: part of the base prompt
    preface: tuple[Message, ...] = ()
    end: str = ""
    budget: int = 0

    @property
    def prompt(self) -> str:
        """The base prompt without the knowledge."""
        return "\n\n".join(t for t in (self.system, *(m.text for m in self.lead)) if t)

    @property
    def base(self) -> str:
        return "\n\n".join(t for t in (self.prompt, *self.knowledge.values()) if t)


@dataclass(frozen=True, slots=True)
class Counting:
    """How tokens are counted: the estimator, and what providers' usage has taught about its error."""

    estimator: Estimator
    calibration: Calibration

    def text(self, text: str) -> int:
        return self.estimator.text(text) if text else 0

    def messages(self, messages: Sequence[Message]) -> int:
        return sum(m.tokens or self.estimator.message(m) for m in messages)

    def frame(self, frame: Frame) -> int:
        return self.text(frame.base) + self.messages(frame.preface) + self.text(frame.end)

    def room(self, frame: Frame, settings: Settings) -> int:
        """Tokens for memory and messages, by our count; 0: no budget.

        Raises:
            BudgetError: The base prompt alone is larger.
        """
        if not frame.budget:
            return 0
        usable = int(frame.budget * (1 - settings.margin) / self.calibration.ratio)
        needed = self.frame(frame)
        if needed >= usable:
            raise BudgetError(frame.budget, needed, "the base prompt")
        return usable - needed


# ------------------------------------------------------------------------------------ memory


@dataclass(frozen=True, slots=True)
class MemorySection:
    """The memory that a prompt shows, and what it costs."""

    sections: Sections
    tokens: int
    pinned: int
    reflections: int
    observations: int
    left_out: int


def memory_section(state: State, bounds: Limits, counting: Counting) -> MemorySection:
    """Choose and render the notes: pins, then the newest reflections, then the newest observations
    that still fit."""
    if not state.pinned and not state.active:
        return MemorySection(Sections(), 0, 0, 0, 0, 0)
    settings = bounds.settings
    head = f"{MEMORY_HEADING}\n{MEMORY_INTRO}"
    # Both headings are paid for first, since pins may be of either kind.
    room = bounds.memory_limit - counting.text(head) - 2 * _Choice.HEADING_TOKENS
    choice = _Choice(room, state.pins, counting)
    pinned = choice.pinned_text(state.pinned)
    choice.take_pins(state.active)
    reflections = choice.take(state.reflections, settings.max_reflections)
    observations = choice.take(state.observations, settings.max_observations)
    shown = len(reflections) + len(observations)
    if not pinned and not shown:
        return MemorySection(Sections(), 0, 0, 0, 0, len(state.active))
    rendered = _rendered("### Reflections", reflections)
    sections = Sections(
        reflections="\n\n".join(t for t in (head + pinned, rendered) if t),
        observations=_rendered("### Observations", observations),
    )
    upper, lower = counting.text(sections.reflections), counting.text(sections.observations)
    pins = counting.text(pinned)
    return MemorySection(sections, upper + lower, pins, upper - pins, lower, len(state.active) - shown)


@dataclass(slots=True)
class _Choice:
    """Newest first within what is left, pins before all others. Stops at the first note that does
    not fit, so that no gap opens in the middle of what is shown."""

    left: int
    pins: frozenset[str]
    counting: Counting
    chosen: dict[str, Note] = field(default_factory=dict[str, Note])

    # What a heading and the blank line around it cost, and what joining one more note does.
    HEADING_TOKENS: ClassVar[int] = 8
    JOINING_TOKENS: ClassVar[int] = 1
    # Less than this is not worth showing a note in part.
    LEAST_PART: ClassVar[int] = 40

    def pinned_text(self, messages: Sequence[Message]) -> str:
        """Pinned messages, the newest that fit."""
        shown: tuple[Message, ...] = ()
        for message in reversed(messages):
            longer = "\n\n### Pinned\n" + text_lines((message, *shown))
            if self.counting.text(longer) > self.left:
                break
            shown = (message, *shown)
        text = "\n\n### Pinned\n" + text_lines(shown) if shown else ""
        self.left -= self.counting.text(text)
        return text

    def take_pins(self, notes: Sequence[Note]) -> None:
        """Pinned notes of either kind, before any other may take their place."""
        for note in reversed([n for n in notes if n.id in self.pins]):
            if not self._add(note):
                self._add_part(note)

    def take(self, notes: Sequence[Note], most: int) -> list[Note]:
        shown = sum(n.id in self.chosen for n in notes)
        for note in reversed([n for n in notes if n.id not in self.pins]):
            if most and shown >= most:
                break
            if not self._add(note):
                # One note too large for the section is shown in part rather than not at all, and
                # nothing older slips in behind it, here or in the next section.
                if not shown:
                    self._add_part(note)
                self.left = 0
                break
            shown += 1
        return [self.chosen[n.id] for n in notes if n.id in self.chosen]

    def _add(self, note: Note) -> bool:
        # One more for the line break, and for what the counts of many short notes round off.
        cost = note.tokens + 1
        if cost > self.left:
            return False
        self.chosen[note.id] = note
        self.left -= cost
        return True

    def _add_part(self, note: Note) -> None:
        if self.left >= self.LEAST_PART and (part := self._newest_lines(note)).text:
            self._add(part)

    def _newest_lines(self, note: Note) -> Note:
        lines = note.text.splitlines()
        start = len(lines)
        text = ""
        while start and self.counting.text(longer := "\n".join(lines[start - 1 :])) < self.left:
            text = longer
            start -= 1
        return replace(note, text=text, tokens=self.counting.text(text))


def _rendered(heading: str, notes: Sequence[Note]) -> str:
    """Notes one after the other; a day that goes on from the note before needs no second heading."""
    if not notes:
        return ""
    lines = [heading]
    day = ""
    for note in notes:
        for line in note.text.splitlines():
            if line.startswith("## "):
                if line == day:
                    continue
                day = line
            lines.append(line)
    return "\n".join(lines)


# ------------------------------------------------------------------------------------ messages


@dataclass(frozen=True, slots=True)
class Tail:
    messages: tuple[Message, ...]
    left_out: int
    shortened: int


def select_tail(state: State, room: int, counting: Counting, most: int = 0) -> Tail:
    """The raw messages: from `tail_start` on, the newest that fit, and the newest one always.

    `most` is what the whole budget leaves them, where that is more than their own limit.
    """
    raw = tuple(m for m in state.messages if m.seq >= state.progress.tail_start)
    if not raw or tokens_of(raw) <= room:
        return Tail(raw, 0, 0)
    chosen = newest_within(raw, room)
    shortened = 0
    if not chosen:
        chosen, shortened = _newest_group(list(groups(raw))[-1], (room, most), counting)
    shown = {m.seq for m in chosen}
    missing = [m for m in state.unshown if m.seq not in shown]
    return Tail(chosen, len(missing), shortened)


def _newest_group(
    group: tuple[Message, ...], rooms: tuple[int, int], counting: Counting
) -> tuple[tuple[Message, ...], int]:
    """The newest message whole, and what it belongs with shortened; alone where that cannot fit."""
    *others, newest = group
    if not others:
        return group, 0
    # It may be too large by itself, but what it belongs with may not be why the budget is exceeded.
    share = next((r - newest.tokens for r in rooms if newest.tokens <= r), rooms[0] // 4)
    short = [_shortened(m, share // len(others), counting) for m in others]
    if tokens_of(short) > share:
        return (newest,), 0
    return (*short, newest), sum(s is not m for s, m in zip(short, others, strict=True))


def _shortened(message: Message, tokens: int, counting: Counting) -> Message:
    """Begin and end of a message, within `tokens` where its text can be cut that far."""
    if message.tokens <= tokens:
        return message
    keep = max(0, len(message.text) * tokens // (2 * message.tokens))
    text = message.text[: keep * 2 // 3] + ELISION + message.text[len(message.text) - keep // 3 :]
    calls = tuple(replace(c, arguments="{}") for c in message.calls)
    short = replace(message, text=text.strip(), calls=calls, attachments=(), original=None)
    return replace(short, tokens=counting.estimator.message(short))


# ------------------------------------------------------------------------------------ together


def room_for_messages(bounds: Limits, memory_tokens: int) -> int:
    """How many tokens of raw messages fit beside the memory section."""
    if not bounds.budget:
        return bounds.message_limit
    return max(0, min(bounds.message_limit, bounds.budget - memory_tokens))


def assemble(
    state: State, frame: Frame, settings: Settings, counting: Counting, runtime: RuntimeContext | None
) -> Context:
    """The context for this state. Calls nothing and waits for nothing."""
    if not settings.enabled:
        return untouched(frame, state.messages, counting, runtime)
    bounds = limits(settings, counting.room(frame, settings))
    memory = memory_section(state, bounds, counting)
    room = room_for_messages(bounds, memory.tokens)
    tail = select_tail(state, room, counting, bounds.budget - memory.tokens)
    sections = replace(memory.sections, base=frame.base)
    stable = counting.text(frame.base) + memory.tokens
    total = counting.frame(frame) + memory.tokens + tokens_of(tail.messages)
    system = counting.text(frame.prompt)
    stats = Stats(
        budget=frame.budget,
        total=total,
        system=system,
        knowledge=counting.text(frame.base) - system,
        pinned=memory.pinned,
        reflections=memory.reflections,
        observations=memory.observations,
        messages=counting.messages(frame.preface) + tokens_of(tail.messages),
        end=counting.text(frame.end),
        left_out_messages=tail.left_out,
        left_out_notes=memory.left_out,
        shortened=tail.shortened,
        pending_tokens=state.progress.unnoted_tokens,
        buffered_notes=len(state.buffered),
        cacheable=(stable + tokens_of(tail.messages[:-1])) / total if total else 0.0,
        epoch=state.progress.epoch,
        by_layer={name: counting.text(text) for name, text in frame.knowledge.items()},
    )
    return Context(sections, tail.messages, stats, runtime, frame.end, frame.preface, frame.lead)


def untouched(
    frame: Frame, messages: Sequence[Message], counting: Counting, runtime: RuntimeContext | None = None
) -> Context:
    """The context without memory: what went in comes out."""
    tokens = counting.messages(messages)
    system = counting.text(frame.prompt)
    stats = Stats(
        budget=frame.budget,
        total=counting.frame(frame) + tokens,
        system=system,
        knowledge=counting.text(frame.base) - system,
        messages=counting.messages(frame.preface) + tokens,
        end=counting.text(frame.end),
    )
    return Context(
        Sections(base=frame.base), tuple(messages), stats, runtime, frame.end, frame.preface, frame.lead
    )
