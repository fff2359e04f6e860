"""Conversations, notes and states for tests: short to write, and of any size in tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from onlooker.domain.messages import Message, Role, SessionId, ToolCall, groups, tokens_of
from onlooker.domain.notes import Note, NoteStatus, Progress, State
from onlooker.policy.assemble import Counting
from onlooker.policy.plan import Activate, Observe, Reflect, Rewrite, Step
from onlooker.policy.settings import Limits
from onlooker.policy.tokens import Calibration, estimator

SESSION = SessionId("default", "test")
START = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)


def counting(name: str = "default") -> Counting:
    return Counting(estimator(name), Calibration())


# ------------------------------------------------------------------------------------ messages


def message(seq: int, tokens: int = 10, role: Role = "user", text: str = "") -> Message:
    return Message(
        role, text or f"message {seq}", f"m{seq}", START + timedelta(minutes=seq), seq=seq, tokens=tokens
    )


def call(seq: int, *ids: str, tokens: int = 10) -> Message:
    calls = tuple(ToolCall(i, "look", '{"for": "it"}') for i in ids)
    return replace(message(seq, tokens, "assistant", "I will look."), calls=calls)


def result(seq: int, answers: str, tokens: int = 10) -> Message:
    return replace(message(seq, tokens, "tool"), answers=answers)


def numbered(*tokens: int) -> tuple[Message, ...]:
    """A conversation of user and assistant messages with these sizes."""
    roles: tuple[Role, Role] = ("user", "assistant")
    return tuple(message(i, t, roles[(i + 1) % 2]) for i, t in enumerate(tokens, 1))


@st.composite
def turns(draw: st.DrawFn, most: int) -> list[Message]:
    """A message by itself, or calls with some of their results, or a result without any call."""
    size = st.integers(1, most)
    kind = draw(st.sampled_from(("user", "user", "assistant", "exchange", "exchange", "orphan")))
    if kind == "exchange":
        ids = [f"c{draw(st.integers(0, 10**6))}" for _ in range(draw(st.integers(1, 3)))]
        answered = ids[: draw(st.integers(0, len(ids)))] if draw(st.booleans()) else ids
        return [call(0, *ids, tokens=draw(size)), *(result(0, i, draw(size)) for i in answered)]
    if kind == "orphan":
        return [result(0, "nobody", draw(size))]
    return [message(0, draw(size), "assistant" if kind == "assistant" else "user")]


def conversations(
    *, least: int = 1, longest: int = 40, max_tokens: int = 400
) -> st.SearchStrategy[list[Message]]:
    """Conversations with tool calls, parallel and unanswered ones among them."""
    pieces = st.lists(turns(max_tokens), min_size=least, max_size=longest)
    return pieces.map(lambda some: renumbered(m for turn in some for m in turn))


def renumbered(messages: Iterable[Message]) -> list[Message]:
    return [
        replace(m, seq=i, id=f"m{i}", at=START + timedelta(minutes=i), text=f"{m.role} message {i}")
        for i, m in enumerate(messages, 1)
    ]


# ------------------------------------------------------------------------------------ notes and states


def note(
    first: int,
    last: int,
    tokens: int = 10,
    *,
    generation: int = 0,
    status: NoteStatus = "active",
    text: str = "",
    sources: tuple[str, ...] = (),
    degraded: bool = False,
) -> Note:
    name = f"g{generation}:{first}-{last}"
    said = text or f"## 2026-02-16\nNOTE {name}"
    return Note(name, generation, first, last, said, tokens, START, sources, status, degraded=degraded)


def state(
    messages: Sequence[Message] = (),
    notes: Sequence[Note] = (),
    *,
    pins: Iterable[str] = (),
    pinned: Sequence[Message] = (),
    tail_start: int | None = None,
) -> State:
    """The state that a store would load for these messages and live notes."""
    frontier = max((n.last for n in notes), default=0)
    watermark = max((n.last for n in notes if n.status == "active"), default=0)
    start = watermark + 1 if tail_start is None else tail_start
    progress = Progress(
        SESSION,
        last_seq=messages[-1].seq if messages else frontier,
        frontier=frontier,
        watermark=watermark,
        tail_start=start,
        unnoted_tokens=tokens_of([m for m in messages if m.seq > frontier]),
    )
    loaded = tuple(m for m in messages if m.seq >= min(start, watermark + 1))
    return State(progress, tuple(notes), loaded, frozenset(pins), tuple(pinned))


class Toy:
    """A session that carries out steps as a store and a model would: a note is a quarter of its source."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.notes: list[Note] = []
        self.pins: set[str] = set()
        self.tail_start = 1

    @property
    def state(self) -> State:
        ordered = sorted(self.notes, key=lambda n: (n.first, n.generation))
        return state(self.messages, ordered, pins=self.pins, tail_start=self.tail_start)

    def do(self, step: Step, limits: Limits) -> None:
        match step:
            case Observe():
                first, last = step.messages[0].seq, step.messages[-1].seq
                size = max(1, tokens_of(step.messages) // 4)
                self.notes.append(note(first, last, size, status="buffered" if step.buffered else "active"))
                if not step.buffered:
                    self.tail_start = step.tail_start
            case Activate():
                shown = {n.id for n in step.notes}
                self.notes = [replace(n, status="active") if n.id in shown else n for n in self.notes]
                self.tail_start = step.tail_start
            case Reflect():
                gone = {n.id for n in step.notes}
                self.notes = [n for n in self.notes if n.id not in gone]
                first, last = min(n.first for n in step.notes), max(n.last for n in step.notes)
                size = max(1, min(step.target_tokens, sum(n.tokens for n in step.notes)))
                self.notes.append(note(first, last, size, generation=step.generation))
            case Rewrite():
                self.notes = [replace(n, degraded=False) if n == step.note else n for n in self.notes]
            case _:
                raise AssertionError(f"nothing to do for {step} under {limits}")

    @property
    def newest_group_starts(self) -> int:
        return list(groups(self.messages))[-1][0].seq
