"""Put a context together: memory first, then the newest messages, inside a budget.

Selection takes the newest first; rendering runs from the oldest to the newest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import ClassVar

from onlooker.domain.context import OWN_LAYERS, RuntimeContext, Stats
from onlooker.domain.errors import BudgetError
from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, State
from onlooker.policy.cut import groups, newest_within, tokens_of
from onlooker.policy.items.choose import about
from onlooker.policy.render import Context, Sections, text_lines
from onlooker.policy.settings import SECTION_TOKENS, Limits, Settings, limits
from onlooker.policy.tokens import Calibration, Estimator

# -- What a call asks for, and how tokens are counted

MEMORY_HEADING = "## Conversation Memory"
MEMORY_INTRO = "Notes on what was said before the messages that follow, oldest first."


_OURS = f"{MEMORY_HEADING}\n{MEMORY_INTRO}"


def without_memory(prompt: str) -> str:
    """A prompt without the memory section at its end: a host may hand back what it got from us."""
    return prompt.split(_OURS, 1)[0].rstrip() if _OURS in prompt else prompt


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """What a call asks for: everything in a context that is not memory or messages."""

    system: str = ""
    knowledge: Mapping[str, str] = field(default_factory=dict[str, str])
    lead: tuple[Message, ...] = ()  # system messages at the head of a history: part of the base prompt
    preface: tuple[Message, ...] = ()
    end: str = ""
    budget: int = 0
    # Layers that change from call to call. They stand in `end` already; here for the statistics.
    volatile: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: Mapping[str, int] = field(default_factory=dict[str, int])  # tokens that a layer lost
    missing: tuple[str, ...] = ()  # layers that did not answer
    kept: int = 0  # tokens that recall may take, and nothing else
    question: str = ""  # what the context is built for, where the call says so
    recalled: str = ""  # stands in `end` already; here for the statistics
    reserved: int = 0  # tokens that the end may take without changing what there is for memory

    @property
    def prompt(self) -> str:
        """The base prompt without the knowledge, and without any memory of ours in it."""
        texts = (self.system, *(m.text for m in self.lead))
        return "\n\n".join(t for t in map(without_memory, texts) if t)

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

    def frame(self, frame: PromptRequest) -> int:
        return self.text(frame.base) + self.messages(frame.preface) + self.text(frame.end)

    def room(self, frame: PromptRequest, settings: Settings) -> int:
        """Tokens for all but the base prompt, by our count; 0: no budget.

        What changes from turn to turn takes no part in it, so that the limits of memory stay put.

        Raises:
            BudgetError: The base prompt alone is larger, or leaves nothing beside the end.
        """
        if not frame.budget:
            return 0
        usable = self.usable(frame, settings)
        base, end = self.text(frame.base), self.text(frame.end)
        if base + end >= usable:
            raise BudgetError(frame.budget, base + end, "the base prompt")
        return max(1, usable - base - frame.reserved - frame.kept)

    def usable(self, frame: PromptRequest, settings: Settings) -> int:
        """The budget by our count, less the margin for its error."""
        return int(frame.budget * (1 - settings.margin) / self.calibration.ratio)


# -- The memory section of a prompt: which items and notes stand in it, and how


@dataclass(frozen=True, slots=True)
class MemorySection:
    """The memory that a prompt shows, and what it costs."""

    sections: Sections
    tokens: int
    pinned: int
    reflections: int
    observations: int
    left_out: int
    items: int = 0


def memory_section(state: State, bounds: Limits, counting: Counting) -> MemorySection:
    """Choose and render what is remembered: items, pins, then the newest reflections, then the newest
    observations that still fit."""
    if not state.pinned and not state.active and not state.items:
        return MemorySection(Sections(), 0, 0, 0, 0, 0)
    settings = bounds.settings
    head = f"{MEMORY_HEADING}\n{MEMORY_INTRO}"
    told = _about_owner(state, bounds, counting.text)
    items = counting.text(told)
    # Both headings are paid for first, since pins may be of either kind.
    room = bounds.memory_limit - counting.text(head) - items - 2 * _Choice.HEADING_TOKENS
    choice = _Choice(room, state.pins, counting)
    pinned = choice.pinned_text(state.pinned)
    choice.take_pins(state.active)
    reflections = choice.take(state.reflections, settings.max_reflections)
    observations = choice.take(state.observations, settings.max_observations)
    shown = len(reflections) + len(observations)
    if not told and not pinned and not shown:
        return MemorySection(Sections(), 0, 0, 0, 0, len(state.active))
    rendered = _rendered("### Reflections", reflections)
    sections = Sections(
        reflections="\n\n".join(t for t in (head + told + pinned, rendered) if t),
        observations=_rendered("### Observations", observations),
    )
    upper, lower = counting.text(sections.reflections), counting.text(sections.observations)
    pins = counting.text(pinned)
    rest = upper - pins - items
    return MemorySection(sections, upper + lower, pins, rest, lower, len(state.active) - shown, items)


def _about_owner(state: State, bounds: Limits, count: Callable[[str], int]) -> str:
    if not state.items:
        return ""
    owner = state.progress.session.owner
    text = about(owner, state.items, bounds.cross_session_limit, count)
    return f"\n\n{text}" if text else ""


def beside_items(bounds: Limits, state: State, count: Callable[[str], int]) -> Limits:
    """The limits for a session's own notes, which are condensed before they no longer fit beside items."""
    if not state.items:
        return bounds
    left = bounds.memory_limit - count(_about_owner(state, bounds, count)) - SECTION_TOKENS
    return replace(bounds, reflect_at=max(1, min(bounds.reflect_at, left)))


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
        # Joining: the line break, and what the counts of many short notes round off.
        cost = note.tokens + self.JOINING_TOKENS
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
        used = 0
        while (
            start and (used := used + self.counting.text(lines[start - 1]) + self.JOINING_TOKENS) < self.left
        ):
            start -= 1
        text = "\n".join(lines[start:])
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


# -- How long ago the days in the notes are

_DAY = re.compile(r"^## (\d{4}-\d{2}-\d{2})$", re.MULTILINE)
MOST_DAYS = 10


def relative_days(notes: Sequence[Note], now: datetime) -> str:
    """Today, and how long ago the last days are that the notes speak of."""
    days = sorted({day for n in notes for day in _DAY.findall(n.text) if _is_real(day)})[-MOST_DAYS:]
    today = f"Now: {now:%Y-%m-%d %H:%M} ({now:%A})."
    ago = [f"{day} {_ago(date.fromisoformat(day), now.date())}" for day in days]
    return f"{today} In the notes: {'; '.join(ago)}." if ago else today


def _is_real(day: str) -> bool:
    # A note says what its writer wrote.
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True


def _ago(day: date, today: date) -> str:
    days = (today - day).days
    if days < 0:
        return f"in {-days} days" if days < -1 else "tomorrow"
    if days < 2:
        return ("today", "yesterday")[days]
    if days < 14:
        return f"{days} days ago"
    if days < 60:
        return f"{days // 7} weeks ago"
    return f"{days // 30} months ago" if days < 730 else f"{days // 365} years ago"


# -- Put a context together: memory first, then the newest messages, inside a budget

ELISION = " […] "

Section = Callable[[State, Limits, Counting], MemorySection]


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


@dataclass(frozen=True, slots=True)
class Layout:
    """Which part of a context gets how much, before its messages are chosen."""

    bounds: Limits
    memory: MemorySection
    preface: tuple[Message, ...]
    room: int  # for raw messages
    most: int  # for them, where their own limit would not hold; 0: no budget


def lay_out(
    state: State,
    frame: PromptRequest,
    settings: Settings,
    counting: Counting,
    section: Section = memory_section,
) -> Layout:
    """Memory within its own limit, what the host put in front as far as it fits, and for the raw
    messages the rest. `section` makes the memory section, or knows it already."""
    bounds = limits(settings, counting.room(frame, settings))
    memory = section(state, bounds, counting)
    if not bounds.budget:
        return Layout(bounds, memory, frame.preface, bounds.message_limit, 0)
    whole = bounds.budget + frame.reserved - counting.text(frame.end)
    if memory.left_out and isinstance(settings.memory_limit, float):  # a number of tokens is meant
        memory = _widened(state, whole, bounds, counting, section) or memory
    left = max(0, whole - memory.tokens)
    preface = _fitting(frame.preface, left - min(left, bounds.observe_at), counting)
    left -= counting.messages(preface)
    return Layout(bounds, memory, preface, min(bounds.message_limit, left), left)


def _widened(
    state: State, whole: int, bounds: Limits, counting: Counting, section: Section
) -> MemorySection | None:
    """The memory section with the room that the raw messages do not need now.

    Between the moment a note is shown and the one when notes are condensed, memory may be a note too long.
    """
    raw = [m for m in state.messages if m.seq >= state.progress.tail_start]
    free = whole - counting.messages(raw)
    wider = replace(bounds, memory_limit=free) if free > bounds.memory_limit else None
    return section(state, wider, counting) if wider else None


def _fitting(messages: tuple[Message, ...], tokens: int, counting: Counting) -> tuple[Message, ...]:
    """The first of the messages that fit."""
    count = len(messages)
    while count and counting.messages(messages[:count]) > tokens:
        count -= 1
    return messages[:count]


def assemble(
    state: State,
    frame: PromptRequest,
    settings: Settings,
    counting: Counting,
    runtime: RuntimeContext | None,
    layout: Layout | None = None,
) -> Context:
    """The context for this state, laid out already or not. Calls nothing and waits for nothing."""
    if not settings.enabled:
        return untouched(frame, state.messages, counting, runtime)
    layout = layout or lay_out(state, frame, settings, counting)
    memory = layout.memory
    left_out_preface = len(frame.preface) - len(layout.preface)
    frame = replace(frame, preface=layout.preface)
    tail = select_tail(state, layout.room, counting, layout.most)
    base = frame.base
    in_base, in_end = counting.text(base), counting.text(frame.end)
    in_preface, in_tail = counting.messages(frame.preface), tokens_of(tail.messages)
    in_newest = tail.messages[-1].tokens if tail.messages else 0
    total = in_base + in_preface + in_end + memory.tokens + in_tail
    system = counting.text(frame.prompt)
    stats = Stats(
        budget=frame.budget,
        total=total,
        system=system,
        knowledge=in_base - system,
        items=memory.items,
        pinned=memory.pinned,
        reflections=memory.reflections,
        observations=memory.observations,
        messages=in_preface + in_tail,
        end=in_end,
        recall=counting.text(frame.recalled),
        left_out_messages=tail.left_out,
        left_out_notes=memory.left_out,
        left_out_preface=left_out_preface,
        shortened=tail.shortened,
        pending_tokens=state.progress.unnoted_tokens,
        buffered_notes=len(state.buffered),
        cacheable=(in_base + memory.tokens + in_tail - in_newest) / total if total else 0.0,
        prompt_version=state.progress.prompt_version,
        by_layer=_by_layer(frame, memory, counting),
        cut_by_layer=dict(frame.cut),
        missing_layers=frame.missing,
    )
    layers = {**frame.knowledge, **frame.volatile}
    sections = replace(memory.sections, base=base)
    return Context(sections, tail.messages, stats, runtime, frame.end, frame.preface, frame.lead, layers)


def _by_layer(frame: PromptRequest, memory: MemorySection, counting: Counting) -> dict[str, int]:
    """Tokens of each layer that the host gave, and of the session's own two with their headings."""
    layers = {n: counting.text(t) for n, t in (*frame.knowledge.items(), *frame.volatile.items())}
    own = {"observations": memory.observations, "reflections": memory.reflections}
    return layers | {name: own[name] if memory.sections.layer(name) else 0 for name in OWN_LAYERS}


def untouched(
    frame: PromptRequest,
    messages: Sequence[Message],
    counting: Counting,
    runtime: RuntimeContext | None = None,
) -> Context:
    """The context without memory: what went in comes out."""
    layers = {**frame.knowledge, **frame.volatile}
    tokens = counting.messages(messages)
    system = counting.text(frame.prompt)
    stats = Stats(
        budget=frame.budget,
        total=counting.frame(frame) + tokens,
        system=system,
        knowledge=counting.text(frame.base) - system,
        messages=counting.messages(frame.preface) + tokens,
        end=counting.text(frame.end),
        by_layer={n: counting.text(t) for n, t in layers.items()},
        cut_by_layer=dict(frame.cut),
        missing_layers=frame.missing,
    )
    base = Sections(base=frame.base)
    return Context(base, tuple(messages), stats, runtime, frame.end, frame.preface, frame.lead, layers)
