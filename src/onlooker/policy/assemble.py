"""Put a context together: memory first, then the newest messages, inside a budget.

Selection takes the newest first; rendering runs from the oldest to the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from onlooker.domain.context import RuntimeContext, Stats
from onlooker.domain.knowledge import OWN_LAYERS
from onlooker.domain.messages import Message
from onlooker.domain.notes import State
from onlooker.policy.context import Context, Sections
from onlooker.policy.cut import groups, newest_within, tokens_of
from onlooker.policy.frame import Counting, PromptRequest
from onlooker.policy.section import MemorySection, memory_section
from onlooker.policy.settings import Limits, Settings, limits

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
