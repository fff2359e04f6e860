"""Assemble a context within a budget: the base prompt, the memory section, then the newest messages.

What is shown is in order, oldest first. Where room is short, the notes of least worth and the oldest messages
are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date, datetime
from itertools import groupby
from typing import NamedTuple

from onlooker.domain.context import OWN_LAYERS, RuntimeContext, Stats
from onlooker.domain.errors import BudgetError
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message, newest_group, tokens_of
from onlooker.domain.notes import Note, State
from onlooker.policy.asked import (
    Asked,
    gather,
    said_in,
    shown_lines,
    without_asked,
    without_repeated,
)
from onlooker.policy.items.choose import items_section
from onlooker.policy.plan import newest_within
from onlooker.policy.render import MEMORY_HEAD, Context, Sections, stand_ins, strip_memory, text_lines
from onlooker.policy.search.words import tokens
from onlooker.policy.settings import SECTION_TOKENS, Limits, Settings, limits_for
from onlooker.policy.text import encodable, regex
from onlooker.policy.tokens import PROMPT_OVERHEAD, Calibration, Estimator, margin
from onlooker.policy.values import BETWEEN, NAMING, audit, find_values, holds, ledger_values, said_first
from onlooker.policy.values import HEAD as VALUES

# -- What a call asks for, and how tokens are counted


@frozen
class PromptRequest:
    """What a call asks for: everything in a context except memory and recorded messages."""

    system: str = ""
    knowledge: Mapping[str, str] = field(default_factory=dict[str, str])
    lead: tuple[Message, ...] = ()  # system messages at the head of a history: part of the base prompt
    preface: tuple[Message, ...] = ()  # messages before the recorded conversation
    end: str = ""
    budget: int = 0
    # Layers that change from call to call. `end` contains them already; kept for the statistics.
    volatile: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: Mapping[str, int] = field(default_factory=dict[str, int])  # tokens cut from each layer
    missing: tuple[str, ...] = ()  # layers that did not answer
    recall_reserve: int = 0  # tokens set aside for recall
    question: str = ""  # the question to build the context for, if the call gives one
    recalled: str = ""  # `end` contains it already; kept for the statistics
    # Tokens set aside for volatile layers, so that memory's share does not depend on them.
    layer_reserve: int = 0
    newest: Message | None = None  # the caller's newest message, where the record goes on after it
    retired: int = 0  # messages that this call took back; for the statistics

    @property
    def prompt(self) -> str:
        """The base prompt without knowledge layers."""
        texts = (self.system, *(m.text for m in self.lead))
        return "\n\n".join(t for t in map(strip_memory, texts) if t)

    @property
    def base(self) -> str:
        """The base prompt with knowledge layers."""
        return "\n\n".join(t for t in (self.prompt, *self.knowledge.values()) if t)


@frozen
class Counting:
    """Counts tokens: an estimator, and its calibration by the usage that providers report."""

    estimator: Estimator
    calibration: Calibration

    def text(self, text: str) -> int:
        return self.estimator.text(text) if text else 0

    def messages(self, messages: Sequence[Message]) -> int:
        return sum(m.tokens or self.estimator.message(m) for m in messages)

    def stand_ins(self, messages: Sequence[Message]) -> int:
        """Count what a prompt says in place of the missing calls and results of these messages."""
        return sum([self.estimator.message(Message("user", text)) for text in stand_ins(messages)])

    def request(self, request: PromptRequest) -> int:
        return self.text(request.base) + self.messages(request.preface) + self.text(request.end)

    def room(self, request: PromptRequest, settings: Settings) -> int:
        """Return the tokens left for everything but the base prompt; 0 without a budget.

        The actual size of the end does not count, so that memory's limits do not change from turn to turn.

        Raises:
            BudgetError: The base prompt and the end fill the budget.
        """
        if not request.budget:
            return 0
        usable = self.usable(request, settings)
        base, end = self.text(request.base), self.text(request.end)
        if base + end >= request.budget:
            raise BudgetError(request.budget, base + end, "the base prompt")
        if base + end >= usable:
            around = request.budget - usable
            what = "the base prompt and what goes around a prompt"
            raise BudgetError(request.budget, base + end + around, what)
        return max(1, usable - base - request.layer_reserve - request.recall_reserve)

    def usable(self, request: PromptRequest, settings: Settings) -> int:
        """Return the budget in estimated tokens, less the safety margin and what goes around a prompt."""
        spare = margin(settings.estimator)
        around = PROMPT_OVERHEAD if spare else 0
        return int((request.budget - around) * (1 - spare) / self.calibration.ratio)


# -- The memory section: which items and notes are shown


@frozen
class MemorySection:
    """The memory section of a prompt, and its tokens by part."""

    sections: Sections
    tokens: int
    pinned: int
    reflections: int
    observations: int
    left_out: int  # notes of which nothing is shown
    shortened: int = 0  # notes of which lines are missing
    items: int = 0
    now: int = 0
    raw: frozenset[int] = frozenset()  # numbers of messages that say what the user asked for instead

    @property
    def is_cut(self) -> bool:
        """Whether anything of the notes is missing."""
        return bool(self.left_out or self.shortened)


def memory_section(state: State, limits: Limits, counting: Counting) -> MemorySection:
    """Choose and render the memory section: items, pins, reflections, observations, and what the user asked
    for. Where not all notes fit, the lines that are worth most are shown."""
    if not state.pinned and not state.active and not state.items:
        return MemorySection(Sections(), 0, 0, 0, 0, 0)
    settings = limits.settings
    stamped = settings.format == "stamped"
    about_owner = _items_text(state, limits, counting.text)
    items = counting.text(about_owner)
    now, raw = _now(state, limits, counting.text)
    in_now = _counted_apart(now, counting.text)
    # Both headings are paid for first, since either kind may be there.
    around = counting.text(MEMORY_HEAD) + END_TOKENS
    room = limits.memory_limit - around - items - in_now - 2 * HEADING_TOKENS
    pinned = _pinned_text(state.pinned, room, counting.text)
    pins = counting.text(pinned)
    allowed = [
        _without_asked(note, now, counting.text)
        for note in (
            *_allowed(state.reflections, settings.max_reflections, state.pins),
            *_allowed(state.observations, settings.max_observations, state.pins),
        )
    ]
    # What the user asked for may be all that a note says.
    others = [note for note in allowed if note.text]
    chosen = _fitting(others, state.pins, room - pins, counting.text, stamped)
    if not about_owner and not pinned and not chosen and not now:
        return MemorySection(Sections(), 0, 0, 0, 0, len(state.active))
    head = MEMORY_HEAD + about_owner + pinned
    first, *more = _render_notes("### Reflections", [n for n in chosen if n.generation], stamped) or [""]
    sections = Sections(
        reflections=("\n\n".join(t for t in (head, first) if t), *more),
        observations=tuple(
            _render_notes("### Observations", [n for n in chosen if not n.generation], stamped)
        ),
        now=now,
    )
    rest = "\n".join(sections.reflections).removeprefix(MEMORY_HEAD)
    upper = counting.text(MEMORY_HEAD) + counting.text(rest)
    lower = counting.text("\n".join(sections.observations))
    whole = {n.id: n.text for n in allowed}
    return MemorySection(
        sections,
        tokens=upper + lower + in_now + END_TOKENS,
        pinned=pins,
        reflections=upper - pins - items + END_TOKENS,
        observations=lower,
        left_out=len(state.active) - len(allowed) + len(others) - len(chosen),
        shortened=sum(n.text != whole[n.id] for n in chosen),
        items=items,
        now=in_now,
        raw=raw,
    )


# What the user asked for takes at most this share of the memory section.
NOW_SHARE = 0.4
NOW_HEAD = "### Now"


def _now(state: State, limits: Limits, count: Callable[[str], int]) -> tuple[str, frozenset[int]]:
    """Say what the user asked for: standing instructions, and the open request; and the raw messages that
    contain it, so that it is not said twice.

    It depends only on the active notes, and on messages that are both noted and shown raw, so that it changes
    only with them.
    """
    asked = gather(note.text for note in state.active)
    if asked == Asked():
        return "", frozenset()
    progress = state.progress
    raw = [m for m in state.messages if progress.tail_start <= m.seq <= progress.watermark]
    found: set[int] = set()

    def is_raw(text: str) -> bool:
        message = said_in(text, raw)
        found.update((message.seq,) if message else ())
        return message is not None

    room = round(limits.memory_limit * NOW_SHARE) - count(NOW_HEAD)
    lines = shown_lines(asked, is_raw, room, count)
    return "\n".join([NOW_HEAD, *lines]) if lines else "", frozenset(found)


def _counted_apart(now: str, count: Callable[[str], int]) -> int:
    """Count our own words apart from the user's: plain and strange words in one text are counted too low."""
    ours, _, said = now.partition(": ")
    return count(ours) + count(said) + now.count("\n") * JOINING_TOKENS


def _without_asked(note: Note, now: str, count: Callable[[str], int]) -> Note:
    """The note without what the user asked for, which has a section of its own."""
    text = without_asked(note.text)
    if now:
        text = without_repeated(text, now)
    return note if text is note.text else replace(note, text=text, tokens=count(text))


def _items_text(state: State, limits: Limits, count: Callable[[str], int]) -> str:
    if not state.items:
        return ""
    owner = state.progress.session.owner
    text = items_section(owner, state.items, limits.cross_session_limit, count)
    return f"\n\n{text}" if text else ""


def limits_beside_items(limits: Limits, state: State, count: Callable[[str], int]) -> Limits:
    """Adjust `reflect_at` so that notes are condensed while they still fit beside the session's items and
    what the user asked for. The lines of a note that say what was asked for are not shown in their place."""
    rests = [(note, without_asked(note.text)) for note in state.active]
    unshown = sum([note.tokens - count(rest) for note, rest in rests if rest is not note.text])
    if not state.items and not unshown:
        return limits
    beside = count(_items_text(state, limits, count)) + count(_now(state, limits, count)[0])
    # Until they are condensed, the note that made them too many must fit as well.
    one_more = round(limits.chunk_tokens * limits.note_ratio) + JOINING_TOKENS * len(state.active)
    left = limits.memory_limit - beside - SECTION_TOKENS - one_more
    return replace(limits, reflect_at=max(1, min(limits.reflect_at, left)) + max(0, unshown))


# The cost of the line that ends the memory section, of a heading with its blank line, and of joining one more
# note, which covers the line break and the rounding of many short counts.
END_TOKENS = 10
HEADING_TOKENS = 8
JOINING_TOKENS = 1


def _pinned_text(messages: Sequence[Message], room: int, count: Callable[[str], int]) -> str:
    """Render the newest pinned messages that fit."""
    text = ""
    for first in range(len(messages) - 1, -1, -1):
        longer = "\n\n### Pinned\n" + text_lines(messages[first:])
        if count(longer) > room:
            break
        text = longer
    return text


def _allowed(notes: Sequence[Note], most: int, pins: frozenset[str]) -> list[Note]:
    """The pinned notes and the newest others, at most so many in all (0: no limit)."""
    loose = [n for n in notes if n.id not in pins]
    spare = max(0, most - (len(notes) - len(loose))) if most else len(loose)
    dropped = {n.id for n in loose[: max(0, len(loose) - spare)]}
    return [n for n in notes if n.id not in dropped]


def _fitting(
    notes: Sequence[Note], pins: frozenset[str], room: int, count: Callable[[str], int], stamped: bool
) -> list[Note]:
    """The notes, or what fits of them."""
    if _rendered_tokens(notes, count, stamped) <= room:
        return list(notes)
    chosen = _worth_most(notes, pins, room, count, stamped)
    allowed = room
    # The counts of single lines do not quite add up to the count of the text.
    while chosen and (over := _rendered_tokens(chosen, count, stamped) - room) > 0:
        allowed -= over
        chosen = _worth_most(notes, pins, allowed, count, stamped)
    return chosen


def _rendered_tokens(notes: Sequence[Note], count: Callable[[str], int], stamped: bool) -> int:
    kinds = ([n for n in notes if n.generation], [n for n in notes if not n.generation])
    return sum(count("\n".join(_render_notes("", of_kind, stamped))) for of_kind in kinds)


def _worth_most(
    notes: Sequence[Note], pins: frozenset[str], room: int, count: Callable[[str], int], stamped: bool
) -> list[Note]:
    """The notes with those of their lines that are worth most, and the exact values of the others. A line
    keeps its day's heading. Prose is shown without gaps: reflections first, then observations, the newest
    first."""
    lines = [line for note in notes for line in _lines_of(note)]
    prose = not any(line.day for line in lines)
    if prose:
        worth = [_PINNED_WORTH * (line.note.id in pins) + (line.note.generation > 0) for line in lines]
    else:
        worth = _worths(lines, pins)

    def price(line: _Line) -> int:
        return count(_stamped(line.day, line.text) if stamped else line.text) + JOINING_TOKENS

    kept: set[int] = set()
    headings: set[tuple[bool, str]] = set()
    values = [] if prose else _values_of(lines)
    for_values = min(int(room * _LEDGER_SHARE), count(VALUES + BETWEEN.join(values)) if values else 0)
    room -= for_values
    for i in sorted(range(len(lines)), key=lambda i: (-worth[i], -i)):
        line = lines[i]
        cost = price(line)
        if line.day and line.heading not in headings:
            cost += HEADING_TOKENS
        if cost > room or (not prose and line.text.startswith(VALUES)):
            if prose:
                break
            continue
        room -= cost
        kept.add(i)
        headings.add(line.heading)
    placed = [(float(i), lines[i]) for i in kept]
    if not prose:
        placed += _ledgers(values, lines, kept, headings, room + for_values, price)
    placed.sort(key=lambda found: found[0])
    by_note = groupby((line for _, line in placed), key=lambda line: line.note.id)
    shown = {id: list(group) for id, group in by_note}
    return [_shown(note, shown[note.id], count) for note in notes if note.id in shown]


# The share of the room that is for exact values of lines that are not shown, where not all notes fit.
_LEDGER_SHARE = 0.15
_MOST_VALUES = 400


def _values_of(lines: Sequence[_Line]) -> list[str]:
    """The exact values of lines, those that people and calls name first, then those of ledgers."""
    said = [line.text for line in lines if not line.text.startswith(VALUES)]
    listed = ledger_values(line.text for line in lines)
    return list(dict.fromkeys((*said_first(audit("", "\n".join(said), NAMING), said), *listed)))


def _ledgers(
    values: Sequence[str],
    lines: Sequence[_Line],
    kept: set[int],
    headings: set[tuple[bool, str]],
    room: int,
    price: Callable[[_Line], int],
) -> Iterator[tuple[float, _Line]]:
    """Return ledgers of the values that only hidden lines have, each with its position: below the lines of
    its note and day."""
    shown = "\n".join(lines[i].text for i in kept)
    holder: dict[str, _Line] = {}
    for i, line in enumerate(lines):
        if i not in kept:
            listed = ledger_values([line.text])
            holder |= dict.fromkeys(listed or (value.text for value in find_values(line.text)), line)
    last = {(line.note.id, line.day): i for i, line in enumerate(lines)}
    found: dict[int, _Line] = {}
    for value in values[:_MOST_VALUES]:
        of = holder.get(value)
        if of is None or holds(shown, value):
            continue
        end = last[of.note.id, of.day]
        before = found.get(end)
        cost = price(of._replace(text=BETWEEN + value if before else VALUES + value))
        cost += HEADING_TOKENS if of.day and of.heading not in headings else 0
        if cost <= room:
            room -= cost
            headings.add(of.heading)
            found[end] = of._replace(text=f"{before.text}{BETWEEN}{value}" if before else VALUES + value)
    return ((end + 0.5, ledger) for end, ledger in found.items())


class _Line(NamedTuple):
    """A line of a note, and the day of its heading."""

    note: Note
    day: str
    text: str

    @property
    def heading(self) -> tuple[bool, str]:
        """The heading of its day among the reflections, or among the observations."""
        return bool(self.note.generation), self.day


def _lines_of(note: Note) -> Iterator[_Line]:
    day = ""
    for text in note.text.splitlines():
        if text.startswith("## "):
            day = text
        elif text.strip():
            yield _Line(note, day, text)


def _shown(note: Note, lines: Sequence[_Line], count: Callable[[str], int]) -> Note:
    if [line.text for line in lines] == [line.text for line in _lines_of(note)]:
        return note
    days = groupby(lines, key=lambda line: line.day)
    text = "\n".join(t for day, of_day in days for t in (day, *(line.text for line in of_day)) if t)
    return replace(note, text=text, tokens=count(text))


# What a line is worth by its kind: pinned by a person, critical, important, said by people or noted by a
# model; then said by an assistant, and done by tools.
_PINNED_WORTH = 100.0
_WORTH = ((regex(r"(?:\[[\d:]+\] )?CRITICAL "), 8.0), (regex(r"(?:\[[\d:]+\] )?IMPORTANT "), 3.0))
_OF_THE_HOST = regex(r"(?:\[[\d:]+\] )?(?:assistant|system|tool|quoted by)\b|\S{1,80}\(.{0,400}?\)?:")
# The least that a line of the newest note is worth, which says what the conversation is about now.
_NEWEST_WORTH = 6.0
# What a line is worth that says nothing new.
_MIN_WORTH = 0.2


def _worths(lines: Sequence[_Line], pins: frozenset[str]) -> list[float]:
    """How much would be lost with each line: by its kind, and by how few others have its words."""
    words = [set(tokens(line.text)) for line in lines]
    holders = Counter(word for found in words for word in found)
    worths: list[float] = []
    for line, found in zip(lines, words, strict=True):
        rarity = sum(1 / holders[word] for word in found) / max(1, len(found))
        kind = next((w for pattern, w in _WORTH if pattern.match(line.text)), 0.0)
        kind = kind or (1.0 if _OF_THE_HOST.match(line.text) else 2.0)
        if line.note is lines[-1].note:
            kind = max(kind, _NEWEST_WORTH)
        worths.append((_PINNED_WORTH if line.note.id in pins else kind) * (_MIN_WORTH + rarity))
    return worths


def _render_notes(heading: str, notes: Sequence[Note], stamped: bool) -> list[str]:
    """Render each note, the first under a heading. A day's heading is not repeated where the next note
    continues the day, and left out where every line has its day."""
    texts: list[str] = []
    lines = [heading]
    day = ""
    for note in notes:
        for line in note.text.splitlines():
            if _DAY.match(line):
                if line == day:
                    continue
                day = line
                if stamped:
                    continue
            elif line.startswith("#"):  # in a note that was imported or edited
                lines.append(f"  {line}")
                continue
            lines.append(_stamped(day, line) if stamped else line)
        if lines:
            texts.append("\n".join(lines))
        lines = []
    return texts


_LINE = regex(r"(?:\[(\d\d:\d\d)\] )?(?:(CRITICAL|IMPORTANT|NOTE) )?")


def _stamped(day: str, line: str) -> str:
    """Return a line of a note so that it can be read alone: `[YYYY-MM-DD HH:MM] PRIORITY text`."""
    head = _LINE.match(line)
    if not day or head is None or line.startswith(VALUES):
        return line
    at = day.removeprefix("## ") + (f" {head[1]}" if head[1] else "")
    return f"[{at}] {head[2] or 'NOTE'} {line[head.end() :]}"


# -- Relative time, for the end of the prompt

_DAY = regex(r"^## (\d{4}-\d{2}-\d{2})$", re.MULTILINE)
MAX_DAYS = 10  # the latest days in the notes


def relative_days(notes: Sequence[Note], now: datetime) -> str:
    """Say the current time, and how long ago the latest days in the notes are."""
    days = sorted({day for n in notes for day in _DAY.findall(n.text) if _is_real(day)})[-MAX_DAYS:]
    today = f"Now: {now:%Y-%m-%d %H:%M} ({now:%A})."
    ago = [f"{day} {_ago(date.fromisoformat(day), now.date())}" for day in days]
    return f"{today} In the notes: {'; '.join(ago)}." if ago else today


def _is_real(day: str) -> bool:
    # A model may have written an impossible date.
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


# -- The tail: which raw messages are shown

ELISION = " […] "


@frozen
class Tail:
    """The raw messages shown, how many were left out, how many of those shown are shortened, and the tokens
    of them all as they are sent: with what stands in for missing calls and results."""

    messages: tuple[Message, ...]
    left_out: int
    shortened: int
    tokens: int


def _select_tail(
    state: State,
    raw: tuple[Message, ...],
    memory: MemorySection,
    room: int,
    left: int,
    fill: int,
    counting: Counting,
) -> Tail:
    """Choose the newest raw messages that fit. The newest one is always kept, and so is what the user asked
    for, where the memory section relies on it. `fill` are the tokens of what stands in for missing calls and
    results if all are shown."""
    if not raw or tokens_of(raw) <= room:
        return Tail(raw, state.missing, 0, tokens_of(raw) + fill)
    asked = tuple(m for m in raw[:-1] if m.seq in memory.raw) if memory.raw else ()
    kept = tokens_of(asked) if tokens_of(asked) <= room // 2 else 0
    chosen = newest_within(raw, room - kept)
    shortened = 0
    if not chosen:
        chosen, shortened = _newest_group(newest_group(raw), room - kept, left, kept, counting)
    if kept and tokens_of(chosen) + kept <= room:
        chosen = (*(m for m in asked if m.seq < chosen[0].seq), *chosen)
    shown = {m.seq for m in chosen}
    missing = [m for m in state.unshown if m.seq not in shown]
    tokens = tokens_of(chosen) + counting.stand_ins(chosen)
    return Tail(chosen, len(missing) + state.missing, shortened, tokens)


def _newest_group(
    group: tuple[Message, ...], room: int, left: int, kept: int, counting: Counting
) -> tuple[tuple[Message, ...], int]:
    """Keep the newest message whole and shorten the rest of its group, or drop the rest if it cannot fit."""
    *others, newest = group
    if not others:
        return group, 0
    fill = counting.stand_ins(group)
    rooms = (room, left - fill - kept)
    # The newest message may exceed the budget on its own, and its call then adds little. Where it just fits
    # by itself, no call may push it over.
    alone = 0 if newest.tokens <= left + PROMPT_OVERHEAD else max(0, room // 4 - fill)
    share = next((r - newest.tokens for r in rooms if newest.tokens <= r), alone)
    short = [_shorten(m, share // len(others), counting) for m in others]
    if tokens_of(short) > share:
        return (newest,), 0
    return (*short, newest), sum(s is not m for s, m in zip(short, others, strict=True))


def _shorten(message: Message, tokens: int, counting: Counting) -> Message:
    """Keep the beginning and end of a message, within `tokens` if its text can be cut that far."""
    if message.tokens <= tokens:
        return message
    keep = max(0, len(message.text) * tokens // (2 * message.tokens))
    text = message.text[: keep * 2 // 3] + ELISION + message.text[len(message.text) - keep // 3 :]
    calls = tuple(replace(c, arguments="{}") for c in message.calls)
    short = replace(message, text=text.strip(), calls=calls, attachments=(), original=None)
    return replace(short, tokens=counting.estimator.message(short))


# -- The layout, and the context


@frozen
class Layout:
    """A context's parts and their sizes, before anything is recalled."""

    limits: Limits
    memory: MemorySection
    preface: tuple[Message, ...]
    tail: Tail
    room: int  # tokens for raw messages, without what stands in for missing calls and results
    left: int  # what the whole budget leaves for raw messages; 0: no budget


# Makes the memory section, or returns a cached one.
SectionMaker = Callable[[State, Limits, Counting], MemorySection]


def lay_out(
    state: State,
    request: PromptRequest,
    settings: Settings,
    counting: Counting,
    section: SectionMaker = memory_section,
) -> Layout:
    """Give memory its limit, then the preface what fits, then the raw messages the rest."""
    # Room reserved for a question is not reserved a second time for recall.
    chosen = replace(settings, recall="off") if request.recall_reserve else settings
    limits = limits_for(chosen, counting.room(request, settings))
    memory = section(state, limits, counting)
    raw = tuple([m for m in state.messages if m.seq >= state.progress.tail_start])
    fill = counting.stand_ins(raw)
    if not limits.budget:
        room = max(0, limits.message_limit - fill)
        tail = _select_tail(state, raw, memory, room, 0, fill, counting)
        return Layout(limits, memory, request.preface, tail, room, 0)
    whole = limits.budget + request.layer_reserve - counting.text(request.end)
    left = max(0, whole - memory.tokens)
    preface = _first_fitting(request.preface, left - min(left, limits.observe_at), counting)
    left -= counting.messages(preface)
    room = max(0, min(limits.message_limit, left) - fill)
    tail = _select_tail(state, raw, memory, room, left, fill, counting)
    return Layout(limits, memory, preface, tail, room, left)


def _first_fitting(messages: tuple[Message, ...], tokens: int, counting: Counting) -> tuple[Message, ...]:
    count = len(messages)
    while count and counting.messages(messages[:count]) > tokens:
        count -= 1
    return messages[:count]


def assemble(
    state: State,
    request: PromptRequest,
    settings: Settings,
    counting: Counting,
    runtime: RuntimeContext | None,
    layout: Layout | None = None,
) -> Context:
    """Build the context for this state. Makes no call and never waits."""
    if not settings.enabled:
        return assemble_without_memory(request, state.messages, counting, runtime)
    layout = layout or lay_out(state, request, settings, counting)
    memory = layout.memory
    left_out_preface = len(request.preface) - len(layout.preface)
    request = replace(request, preface=layout.preface)
    tail = layout.tail
    base = request.base
    in_base, in_end = counting.text(base), counting.text(request.end)
    in_preface, in_tail = counting.messages(request.preface), tail.tokens
    in_newest = tail.messages[-1].tokens if tail.messages else 0
    total = in_base + in_preface + in_end + memory.tokens + in_tail
    system = counting.text(request.prompt)
    stats = Stats(
        budget=request.budget,
        total=total,
        system=system,
        knowledge=in_base - system,
        items=memory.items,
        pinned=memory.pinned,
        reflections=memory.reflections,
        observations=memory.observations,
        now=memory.now,
        messages=in_preface + in_tail,
        end=in_end,
        recall=counting.text(request.recalled),
        left_out_messages=tail.left_out,
        left_out_notes=memory.left_out,
        shortened_notes=memory.shortened,
        left_out_preface=left_out_preface,
        shortened=tail.shortened,
        pending_tokens=state.progress.unnoted_tokens,
        buffered_notes=len(state.buffered),
        cacheable=(in_base + memory.tokens + in_tail - in_newest) / total if total else 0.0,
        prompt_version=state.progress.prompt_version,
        by_layer=_by_layer(request, memory, counting),
        cut_by_layer=dict(request.cut),
        missing_layers=request.missing,
        retired=request.retired,
    )
    layers = {**request.knowledge, **request.volatile}
    sections, end = replace(memory.sections, base=encodable(base)), encodable(request.end)
    return Context(sections, tail.messages, stats, runtime, end, request.preface, request.lead, layers)


def _by_layer(request: PromptRequest, memory: MemorySection, counting: Counting) -> dict[str, int]:
    """Count the tokens of each of the host's layers, and of observations and reflections."""
    layers = {n: counting.text(t) for n, t in (*request.knowledge.items(), *request.volatile.items())}
    own = {"observations": memory.observations, "reflections": memory.reflections}
    return layers | {name: own[name] if memory.sections.layer(name) else 0 for name in OWN_LAYERS}


def assemble_without_memory(
    request: PromptRequest,
    messages: Sequence[Message],
    counting: Counting,
    runtime: RuntimeContext | None = None,
) -> Context:
    """Build the context without memory: the output equals the input."""
    layers = {**request.knowledge, **request.volatile}
    tokens = counting.messages(messages) + counting.stand_ins(messages)
    system = counting.text(request.prompt)
    stats = Stats(
        budget=request.budget,
        total=counting.request(request) + tokens,
        system=system,
        knowledge=counting.text(request.base) - system,
        messages=counting.messages(request.preface) + tokens,
        end=counting.text(request.end),
        by_layer={n: counting.text(t) for n, t in layers.items()},
        cut_by_layer=dict(request.cut),
        missing_layers=request.missing,
    )
    base = Sections(base=request.base)
    return Context(base, tuple(messages), stats, runtime, request.end, request.preface, request.lead, layers)
