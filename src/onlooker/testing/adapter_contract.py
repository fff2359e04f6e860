"""The contract of an integration with an agent framework, as tests.

    class TestMyFramework(AdapterContract):
        def make_host(self, memory: AnyMemory, model: FakeModel) -> AdapterHost:
            return MyHost(memory, model)

The framework is the real one, with its own fake model that asks `model` for its answers. The tests need
pytest.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from onlooker.blocking import open_memory
from onlooker.domain.events import ContextBuilt, Event
from onlooker.policy.settings import Settings, Timing
from onlooker.policy.tokens import estimate
from onlooker.testing.models import Fault, FaultyModel, FrozenClock
from onlooker.testing.provider import note_for

Item = dict[str, Any]

# The owner of the conversations.
OWNER = "ana"
SYSTEM = "You count parcels."
BUDGET = 3_000
TURNS = 60
FACT = "My locker code is 4711-B, and my sister Maria lives in Bergen."
# How long background work may take before a test fails.
PATIENCE = 30.0


@dataclass(frozen=True)
class ModelInput:
    """The input of a model call: the system prompt, and messages in OpenAI's form with texts as contents."""

    system: str
    messages: Sequence[Item]

    @property
    def text(self) -> str:
        return "\n".join([self.system, *(str(m.get("content") or "") for m in self.messages)])

    @property
    def lasting(self) -> list[Item]:
        """The messages without what is only for one call: a separate message, or the end of one."""
        messages: list[Item] = []
        for message in self.messages:
            said, mark, _ = str(message.get("content") or "").partition("[system] ")
            if message["role"] != "system" and (said.strip() or not mark):
                messages.append({**message, "content": said.rstrip("\n")} if mark else dict(message))
        return messages


@dataclass(frozen=True)
class ModelAnswer:
    """The answer of a fake model: a text, or tool calls with their arguments."""

    text: str = ""
    calls: tuple[tuple[str, Item], ...] = ()


@dataclass
class FakeModel:
    """A fake model that keeps its inputs. In every third turn it calls tools, two at once in every sixth, and
    another one after them in every fifteenth."""

    prompts: list[ModelInput] = field(default_factory=list[ModelInput])
    # Calls for notes, if the framework's own model writes them.
    notes: list[ModelInput] = field(default_factory=list[ModelInput])
    # Its answers to the next calls, if given.
    next: list[ModelAnswer] = field(default_factory=list[ModelAnswer])
    # The version of the newest context that was built, and those of the prompts.
    version: int = 0
    versions: list[int] = field(default_factory=list[int])

    def __call__(self, seen: ModelInput) -> ModelAnswer:
        if not seen.system.startswith(SYSTEM):
            self.notes.append(seen)
            return ModelAnswer(note_for(str(seen.messages[-1]["content"])))
        self.prompts.append(seen)
        self.versions.append(self.version)
        if self.next:
            return self.next.pop(0)
        messages = seen.lasting
        asked = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
        turn = _number(str(messages[asked]["content"])) if messages else 0
        rounds = sum(m["role"] == "assistant" for m in messages[asked + 1 :])
        if rounds < _rounds(turn):
            return ModelAnswer(
                calls=tuple((name, {"place": f"box {turn}"}) for name in _called(turn, rounds))
            )
        return ModelAnswer(_answer(turn))


def look(place: str) -> str:
    """Look what is in a place."""
    return f"In {place} is a parcel for customer {place.upper()}-{len(place)}, who has paid for it."


def weigh(place: str) -> str:
    """Weigh what is in a place."""
    return f"What is in {place} weighs {len(place) * 7} kg on the small scale."


TOOLS: dict[str, Callable[[str], str]] = {"look": look, "weigh": weigh}


_PADDING = " Whoever comes to the counter is asked for their name and for a card, as always." * 5


def _number(text: str) -> int:
    words = text.split()
    return int(words[1].strip(".:")) if len(words) > 1 and words[0] == "Turn" else 0


def _rounds(turn: int) -> int:
    return 2 if turn and turn % 15 == 0 else 1 if turn and turn % 3 == 0 else 0


def _called(turn: int, rounds: int) -> tuple[str, ...]:
    return ("look", "weigh") if turn % 6 == 0 and not rounds else ("weigh",) if rounds else ("look",)


def _question(turn: int) -> str:
    what = FACT if turn == 3 else f"Parcel {turn} weighs {turn * 3 + 1} kg and goes to dock {turn % 7}."
    return f"Turn {turn}. {what}" if turn < TURNS else f"Turn {turn}. Which locker code do I have?"


def _answer(turn: int) -> str:
    return f"Noted for turn {turn}: thank you, I have put it on the list of what is to be done." + _PADDING


class AdapterHost(ABC):
    """An agent of the framework with memory, and where the framework stores its conversations.

    It has the system prompt `SYSTEM`, the tools `TOOLS` and the memory's. A conversation is that of the
    user `OWNER`.
    """

    @abstractmethod
    def say(self, thread: str, text: str) -> str:
        """Run one turn without `await`, and return the answer."""

    async def say_async(self, thread: str, text: str) -> str:
        """Run one turn with `await`."""
        raise AssertionError("override say_async, or set has_async to False")

    async def stream(self, thread: str, text: str) -> list[str]:
        """Run one turn as a stream, and return the texts of the model's that a program sees in it."""
        raise AssertionError("override stream, or set has_stream to False")

    def traced(self) -> list[str]:
        """What the framework's own tracing has of the model calls of this agent, a text for each."""
        raise AssertionError("override traced, or set has_trace to False")

    async def close_async(self) -> None:  # noqa: B027
        """Close what `say_async` opened."""

    @abstractmethod
    def stored(self, thread: str) -> list[Item]:
        """What the framework has stored, in OpenAI's form with texts as contents."""

    @abstractmethod
    def trim(self, thread: str, keep: int) -> None:
        """Drop all stored messages except the last `keep`."""

    @abstractmethod
    def restart(self, memory: Any) -> None:
        """Make the agent again, as a new process would, with what is stored and this memory."""

    def close(self) -> None:  # noqa: B027  most have nothing to close
        """Close what was opened."""


class AdapterContract:
    """The tests. Derive a class whose name begins with `Test`, and say how to make the host."""

    # Whether the framework can be used with and without `await`.
    has_async: ClassVar[bool] = True
    # Whether a conversation can name the session, so that two of them have a memory each.
    has_sessions: ClassVar[bool] = True
    # Whether the memory's tools are the framework's own.
    has_tools: ClassVar[bool] = True
    # Whether the framework's model can write the notes.
    has_model: ClassVar[bool] = True
    # Whether the framework has streams, and tracing or callbacks for model calls.
    has_stream: ClassVar[bool] = True
    has_trace: ClassVar[bool] = True

    def make_host(self, memory: Any, model: FakeModel) -> AdapterHost:
        """An agent with this memory, which is one of `onlooker.blocking`, or the path of a file."""
        raise AssertionError("override make_host")

    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[Callable[..., Any]]:
        """Opens memories that are closed after the test."""
        memories: list[Any] = []

        def opened(name: str = "memory.db", **options: Any) -> Any:
            given: dict[str, Any] = {
                "budget": BUDGET,
                "clock": FrozenClock(),
                "workers": "external",
                # On a busy machine a turn would otherwise continue without recall.
                "timing": Timing(recall_deadline=120.0),
            } | options
            memories.append(open_memory(tmp_path / name, **given))
            return memories[-1]

        yield opened
        for memory in memories:
            memory.close()

    @pytest.fixture
    def hosted(self) -> Iterator[Callable[..., AdapterHost]]:
        """Makes hosts that are closed after the test."""
        hosts: list[AdapterHost] = []

        def hosted(memory: Any, model: FakeModel) -> AdapterHost:
            hosts.append(self.make_host(memory, model))
            return hosts[-1]

        yield hosted
        for host in hosts:
            host.close()

    # -- a long conversation

    def test_a_long_conversation_with_tools(self, opened: Any, hosted: Any) -> None:
        model, memory = FakeModel(), opened()

        def heard(event: Event) -> None:
            if isinstance(event, ContextBuilt):
                model.version = event.stats.prompt_version

        memory.subscribe(heard)
        host = hosted(memory, model)
        told: list[tuple[str, str]] = []
        for turn in range(1, TURNS + 1):
            assert host.say("t1", _question(turn)) == _answer(turn)
            told += _told(turn)
            stored = host.stored("t1")
            # What the framework stores is what it would store without memory.
            assert [(m["role"], m["content"]) for m in stored if m["content"]] == told
            check_pairs(stored)
            memory.session("t1", owner=OWNER).settle()
        for seen in model.prompts:
            check_pairs(seen.messages)
            assert seen.system.startswith(SYSTEM)
            assert estimate(seen.text) <= BUDGET
        check_prefix(model.prompts, model.versions)
        last = model.prompts[-1]
        assert len(last.messages) < len(told) / 2
        assert "4711-B" in last.text
        assert "## Conversation Memory" in last.system
        recorded = memory.session("t1", owner=OWNER).messages()
        assert [(m.role, m.text) for m in recorded if m.text] == told

    def test_the_last_reply_is_recorded(self, opened: Any, hosted: Any) -> None:
        memory = opened()
        host = hosted(memory, FakeModel())
        host.say("t1", _question(3))
        recorded = memory.session("t1", owner=OWNER).messages()
        assert [m.role for m in recorded] == ["user", "assistant", "tool", "assistant"]
        assert recorded[-1].text == _answer(3)
        assert recorded[1].calls[0].name == "look"
        assert recorded[2].answers == recorded[1].calls[0].id

    def test_two_sessions_stay_apart(self, opened: Any, hosted: Any) -> None:
        if not self.has_sessions:
            return
        model = FakeModel()
        # Otherwise a turn also recalls what its owner said elsewhere.
        memory = opened(settings=Settings(recall="session"))
        host = hosted(memory, model)
        for turn in range(1, 21):
            host.say("t1", f"Turn {turn}. Parcel amber-{turn} weighs {turn} kg.")
            host.say("t2", f"Turn {turn}. Parcel cobalt-{turn} weighs {turn} kg.")
            assert "cobalt" not in model_prompts(model, "amber-")
            assert "amber" not in model_prompts(model, "cobalt-")
        assert "cobalt" not in "".join(m.text for m in memory.session("t1", owner=OWNER).messages())
        assert "amber-20" in "".join(m.text for m in memory.session("t1", owner=OWNER).messages())

    def test_sync_and_async_give_the_same_prompts(self, opened: Any, hosted: Any) -> None:
        if not self.has_async:
            return
        one, two = FakeModel(), FakeModel()
        first, second = opened("one.db"), opened("two.db")
        blocking, waiting = hosted(first, one), hosted(second, two)

        async def turn_async(n: int) -> None:
            assert await waiting.say_async("t1", _question(n)) == _answer(n)

        with asyncio.Runner() as runner:
            for n in range(1, 25):
                assert blocking.say("t1", _question(n)) == _answer(n)
                first.session("t1", owner=OWNER).settle()
                runner.run(turn_async(n))
                second.session("t1", owner=OWNER).settle()
            runner.run(waiting.close_async())
        assert [_comparable(p) for p in one.prompts] == [_comparable(p) for p in two.prompts]
        assert any("## Conversation Memory" in p.system for p in two.prompts)

    def test_a_stream_gives_the_same_prompts_and_is_recorded(self, opened: Any, hosted: Any) -> None:
        if not self.has_stream:
            return
        one, two = FakeModel(), FakeModel()
        first, second = opened("one.db"), opened("two.db")
        whole, streamed = hosted(first, one), hosted(second, two)
        told: list[tuple[str, str]] = []
        with asyncio.Runner() as runner:
            for turn in range(1, 25):
                assert whole.say("t1", _question(turn)) == _answer(turn)
                first.session("t1", owner=OWNER).settle()
                pieces = runner.run(streamed.stream("t1", _question(turn)))
                assert "".join(pieces) == _answer(turn)
                second.session("t1", owner=OWNER).settle()
                told += _told(turn)
            runner.run(streamed.close_async())
        assert [_comparable(p) for p in one.prompts] == [_comparable(p) for p in two.prompts]
        recorded = second.session("t1", owner=OWNER).messages()
        assert [(m.role, m.text) for m in recorded if m.text] == told

    # -- the host's own life

    def test_a_restart_and_a_trimmed_history_lose_nothing(self, opened: Any, hosted: Any) -> None:
        model, memory = FakeModel(), opened()
        host = hosted(memory, model)
        told: list[tuple[str, str]] = []
        for turn in range(1, 37):
            if turn == 12:
                memory.close()
                memory = opened()
                host.restart(memory)
            if turn == 24:
                host.trim("t1", 4)
            assert host.say("t1", _question(turn)) == _answer(turn)
            told += _told(turn)
            memory.session("t1", owner=OWNER).settle()
        recorded = memory.session("t1", owner=OWNER).messages()
        assert [(m.role, m.text) for m in recorded if m.text] == told
        for seen in model.prompts:
            check_pairs(seen.messages)
        assert "4711-B" in model.prompts[-1].text

    # -- faults

    @pytest.mark.parametrize("fault", ["error", "hang", "refusal"])
    def test_an_observer_that_fails_leaves_every_run_intact(
        self, opened: Any, hosted: Any, fault: Fault
    ) -> None:
        observer, model = FaultyModel(fault), FakeModel()
        memory = opened(model=observer, workers="embedded", timing=Timing(stop_deadline=0.1))
        host = hosted(memory, model)
        for turn in range(1, 31):
            assert host.say("t1", _question(turn)) == _answer(turn)
        assert all(estimate(seen.text) <= BUDGET for seen in model.prompts)
        assert "4711-B" in model.prompts[-1].text
        wait_for(lambda: observer.misbehaved > 0)

    def test_a_memory_that_fails_leaves_the_run_as_it_would_be_without(
        self, opened: Any, hosted: Any
    ) -> None:
        model, memory = FakeModel(), opened()
        host = hosted(memory, model)
        for turn in range(1, 21):
            host.say("t1", _question(turn))
            memory.session("t1", owner=OWNER).settle()
        memory.close()
        assert host.say("t1", _question(21)) == _answer(21)
        seen = model.prompts[-1]
        # The whole history, as the framework has it.
        said = [m["content"] for m in seen.messages if m["role"] == "user"]
        assert said == [_question(turn) for turn in range(1, 22)]
        assert seen.system == model.prompts[0].system
        assert host.stored("t1")[-1]["content"] == _answer(21)

    # -- tools, and the host's model

    def test_the_memorys_tools_are_the_frameworks_own(self, opened: Any, hosted: Any) -> None:
        if not self.has_tools:
            return
        model, memory = FakeModel(), opened()
        host = hosted(memory, model)
        host.say("t1", f"Turn 1. {FACT}")
        model.next = [
            ModelAnswer(calls=(("memory_search", {"query": "locker code"}),)),
            ModelAnswer("It is 4711-B."),
        ]
        assert host.say("t1", "Turn 2. Which code do I have?") == "It is 4711-B."
        result = next(m for m in reversed(model.prompts[-1].messages) if m["role"] == "tool")
        assert "4711-B" in str(result["content"])
        model.next = [
            ModelAnswer(calls=(("memory_save", {"summary": "Ana likes to bike to work"}),)),
            ModelAnswer("Kept."),
        ]
        assert host.say("t1", "Turn 4. Remember that I like to bike.") == "Kept."
        assert [i.summary for i in memory.items.list(owner=OWNER)] == ["Ana likes to bike to work"]

    def test_the_frameworks_model_writes_the_notes(self, tmp_path: Path, hosted: Any) -> None:
        if not self.has_model:
            return
        model = FakeModel()
        host = hosted(str(tmp_path / "own.db"), model)
        for turn in range(1, 31):
            assert host.say("t1", _question(turn)) == _answer(turn)
        wait_for(lambda: bool(model.notes))
        stored = "\n".join(str(m["content"]) for m in host.stored("t1"))
        assert "the memory of a conversation" not in stored
        with open_memory(tmp_path / "own.db", workers="external") as memory:
            session = memory.session("t1", owner=OWNER)
            wait_for(lambda: any(n.model == "host" for n in session.notes(statuses=("active", "buffered"))))

    def test_calls_for_notes_are_in_no_stream_and_no_trace(self, tmp_path: Path, hosted: Any) -> None:
        if not self.has_model or not (self.has_stream or self.has_trace):
            return
        model = FakeModel()
        host = hosted(str(tmp_path / "own.db"), model)
        with asyncio.Runner() as runner:
            for turn in range(1, 41):
                if self.has_stream:
                    assert "".join(runner.run(host.stream("t1", _question(turn)))) == _answer(turn)
                else:
                    assert host.say("t1", _question(turn)) == _answer(turn)
            runner.run(host.close_async())
        wait_for(lambda: bool(model.notes))
        if self.has_trace:
            traced = host.traced()
            assert len(traced) == len(model.prompts)
            assert not any("the memory of a conversation" in text for text in traced)


def model_prompts(model: FakeModel, word: str) -> str:
    """The newest prompt that is about a word."""
    return next((p.text for p in reversed(model.prompts) if word in p.text), "")


def _told(turn: int) -> list[tuple[str, str]]:
    """The messages that a turn adds to the conversation, without the calls."""
    told = [("user", _question(turn))]
    for n in range(_rounds(turn)):
        told += [("tool", TOOLS[name](f"box {turn}")) for name in _called(turn, n)]
    return [*told, ("assistant", _answer(turn))]


def _comparable(seen: ModelInput) -> tuple[str, list[tuple[str, str]]]:
    return seen.system, [(m["role"], str(m["content"])) for m in seen.messages]


def check_pairs(messages: Sequence[Item]) -> None:
    """Every result follows its call, and every call has its result."""
    missing: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in missing, f"a result without a call: {message}"
            missing.remove(message["tool_call_id"])
            continue
        assert not missing, f"calls without a result before {message}: {missing}"
        missing = [call["id"] for call in cast("list[Item]", message.get("tool_calls") or [])]
    assert not missing, f"calls without a result: {missing}"


def check_prefix(prompts: Sequence[ModelInput], versions: Sequence[int]) -> None:
    """While no note changes, a prompt continues the one before, byte for byte."""
    stable = 0
    for (before, old), (after, new) in pairwise(zip(prompts, versions, strict=True)):
        if old != new:
            continue
        stable += 1
        assert before.system == after.system
        shown = before.lasting
        assert [_plain(m) for m in after.lasting[: len(shown)]] == [_plain(m) for m in shown]
    assert len(set(versions)) > 3
    assert stable > 10


def _plain(message: Item) -> Item:
    return {key: value for key, value in message.items() if value}


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for what happens in the background."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)
