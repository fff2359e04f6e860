"""The memory section of a prompt: which items and notes stand in it, and how.

It depends on them and the limits alone, never on the messages or the time, so that the prompt's
prefix stays the same, byte for byte, until notes change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from onlooker.domain.messages import Message
from onlooker.domain.notes import Note, State
from onlooker.policy.context import Sections
from onlooker.policy.frame import MEMORY_HEADING, MEMORY_INTRO, Counting
from onlooker.policy.items.shown import about
from onlooker.policy.render import text_lines
from onlooker.policy.settings import SECTION_TOKENS, Limits


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
