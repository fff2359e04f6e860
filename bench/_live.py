"""Conversations gone through as live sessions, and what their notes came to.

Each message is recorded, the notes that are due then are taken, and before each answer the host asks
for a context. Tokens are counted with one estimator whatever the settings say, so that presets can be
compared.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC
from statistics import median

import onlooker
from _conversations import PATIENT, Conversation
from onlooker.cli.context import ContextBuilder
from onlooker.cli.replay import ReplayClock
from onlooker.domain.events import Event, ReplyRejected, StepFailed
from onlooker.domain.notes import Progress, State
from onlooker.engine.runtime import Runtime
from onlooker.models.extractive import ExtractiveModel
from onlooker.models.llm import prompt_of
from onlooker.policy.assemble import PromptRequest
from onlooker.policy.cost import shared_prefix
from onlooker.policy.render import Context
from onlooker.policy.settings import Settings
from onlooker.policy.tokens import estimate, estimator
from onlooker.ports import Model, ObserveRequest, Request
from onlooker.testing import ScriptedModel

COUNT = estimator("default")
SESSION = "bench"
Writes = Callable[[Request], str]


@dataclass
class Tally:
    """Sums over conversations; what is asked of them stands in the properties."""

    messages: int = 0
    said: int = 0
    # What the model read and wrote.
    observations: int = 0
    reflections: int = 0
    noted: int = 0
    observer: int = 0
    reflector: int = 0
    written: int = 0
    refused: int = 0
    failed: int = 0
    # What the prompts were like.
    turns: int = 0
    appended: int = 0
    rewritten: int = 0
    sent: int = 0
    reused: int = 0
    # What there was at the end.
    context: int = 0
    notes: int = 0
    covered: int = 0
    left_out: int = 0
    left_out_notes: int = 0
    # What the built-in model took: per message of each observation, and altogether.
    per_message: list[float] = field(default_factory=list[float])
    seconds: float = 0.0

    def figures(self) -> dict[str, float]:
        """The figures that a table shows, by name."""
        return {
            "messages": self.messages,
            "said": self.said,
            "observations": self.observations,
            "reflections": self.reflections,
            "observer_per_said": _share(self.observer, self.said),
            "observer_per_noted": _share(self.observer, self.noted),
            "reflector_per_said": _share(self.reflector, self.said),
            "written_per_said": _share(self.written, self.said),
            "refused": self.refused,
            "failed": self.failed,
            "compression": _share(self.said, self.context),
            "note_compression": _share(self.covered, self.notes),
            "prefix_reuse": _share(self.reused, self.sent),
            "turns": self.turns,
            "appended": _share(self.appended, self.turns),
            "rewritten": _share(self.rewritten, self.turns),
            "left_out": self.left_out,
            "left_out_notes": self.left_out_notes,
            "ms_per_message": 1000 * median(self.per_message) if self.per_message else 0.0,
            "seconds_writing": self.seconds,
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


# ------------------------------------------------------------------------------------ who writes


class Timed(ExtractiveModel):
    """The built-in model, with what it was handed and how much of a core it took."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def compose(self, request: Request) -> str:
        began = time.thread_time()
        text = super().compose(request)
        took = time.thread_time() - began
        self._tally.seconds += took
        if isinstance(request, ObserveRequest):
            self._tally.per_message.append(took / len(request.messages))
        handed = sum(note.tokens for note in request.notes)
        if isinstance(request, ObserveRequest):
            handed += sum(COUNT.message(message) for message in request.messages)
        _add(self._tally, request, handed, text)
        return text


def stand_in(tally: Tally, writes: Writes) -> Model:
    """A language model: it is sent the real prompts, which are counted, and answers as `writes` does."""

    def answer(request: Request) -> str:
        prompt, text = prompt_of(request), writes(request)
        _add(tally, request, estimate(prompt.system) + estimate(prompt.user), text)
        return text

    return ScriptedModel(answer, name="stand-in")


def _add(tally: Tally, request: Request, read: int, text: str) -> None:
    tally.written += estimate(text)
    if isinstance(request, ObserveRequest):
        tally.observations += 1
        tally.observer += read
        if not request.correction:
            tally.noted += sum(COUNT.message(message) for message in request.messages)
    else:
        tally.reflections += 1
        tally.reflector += read


# ------------------------------------------------------------------------------------ going through


@dataclass
class Live:
    """Sessions under the same settings; `tally` is over all of them."""

    settings: Settings
    writes: Writes | None = None  # what a language model's stand-in answers; None: the built-in model
    tally: Tally = field(default_factory=Tally)

    async def run_all(self, conversations: Iterable[Conversation]) -> list[str]:
        """The texts of the contexts that they end with."""
        return [await self.run(conversation) for conversation in conversations]

    async def run(self, conversation: Conversation) -> str:
        clock = ReplayClock(conversation.messages)
        async with self._memory(clock) as memory:
            memory.subscribe(self._hear)
            session = memory.session(SESSION)
            turns = Turns(session, self.tally)
            await session.context()  # tells the planner which budget the notes are for
            for message in conversation.messages:
                if message.role == "assistant":
                    await turns.next()
                clock.move_to(message.at)
                await session.record(message)
                await memory.background.flush()
            await session.settle()
            state = await turns.next()
            builder = ContextBuilder(state, self.settings, memory.counting)
            final = builder.build_text(PromptRequest(budget=self.settings.budget))
        self.tally.left_out += len(turns.unseen)
        self._count(conversation, state)
        text = final.text()
        self.tally.context += estimate(text)
        return text

    def _memory(self, clock: ReplayClock) -> onlooker.Memory:
        if self.writes is None:
            builtin = Timed(self.tally)
            observer = builtin
        else:
            builtin, observer = ExtractiveModel(), stand_in(self.tally, self.writes)
        store = onlooker.open_memory(":memory:").store
        runtime = Runtime(
            store,
            settings=self.settings,
            observer=observer,
            reflector=observer,
            builtin=builtin,
            clock=clock,
            tz=UTC,
            timing=PATIENT,
        )
        return onlooker.Memory(runtime)

    def _count(self, conversation: Conversation, state: State) -> None:
        tally = self.tally
        counts = [COUNT.message(message) for message in conversation.messages]
        tally.messages += len(counts)
        tally.said += sum(counts)
        tally.covered += sum(counts[: state.progress.watermark])
        tally.notes += sum(estimate(note.text) for note in state.active)

    def _hear(self, event: Event) -> None:
        self.tally.refused += isinstance(event, ReplyRejected)
        self.tally.failed += isinstance(event, StepFailed)


@dataclass
class Turns:
    """The contexts of one session, each compared with the one before and with what is recorded."""

    session: onlooker.Session
    tally: Tally
    # Messages that some context had neither raw nor in a note.
    unseen: set[int] = field(default_factory=set[int])
    _prompt: str = ""

    async def next(self) -> State:
        """Ask for a context; return the state that it was made from."""
        context = await self.session.context()
        state = await self.session.history.state() or State(Progress(self.session.id))
        self._compare(context)
        if context.stats.left_out_messages or context.stats.left_out_notes:
            self.unseen |= unseen(context, state)
        self.tally.left_out_notes = max(self.tally.left_out_notes, context.stats.left_out_notes)
        return state

    def _compare(self, context: Context) -> None:
        prompt = "\n".join(json.dumps(m, ensure_ascii=False) for m in context.openai())
        tally = self.tally
        if self._prompt:
            tokens = estimate(prompt)
            tally.turns += 1
            tally.sent += tokens
            tally.reused += max(0, tokens - estimate(prompt[shared_prefix(self._prompt, prompt) :]))
            changed = context.stats.changed
            tally.appended += changed == "messages"
            tally.rewritten += changed not in ("", "messages")
        self._prompt = prompt


def unseen(context: Context, state: State) -> set[int]:
    """The messages that stand neither raw in the context nor behind a note in it."""
    seen = {message.seq for message in context.messages}
    for note in state.active:
        if note.text.splitlines()[-1] in context.memory:
            seen.update(range(note.first, note.last + 1))
    return set(range(1, state.progress.last_seq + 1)) - seen
