"""The same memory without `await`."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tools import blocking_stubs

import onlooker
from onlooker import blocking
from onlooker.domain.events import Event
from onlooker.errors import BudgetError, ClosedError, MessageError, SettingsError
from onlooker.testing import FaultyModel, ScriptedModel
from onlooker.types import RuntimeContext

LONG = "Ana said that order 88-1431 is late again, and asked what can be done about it. " * 6

# ------------------------------------------------------------------------------------ parity

PAIRS: list[tuple[type, type]] = [(onlooker.Memory, blocking.Memory), (onlooker.Session, blocking.Session)]


def test_the_stub_is_what_the_async_classes_make_of_it() -> None:
    """A method that changed needs `make stubs`."""
    assert blocking_stubs.STUB.read_text("utf-8") == blocking_stubs.stub()


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_both_have_the_same_surface_and_none_of_it_is_async(theirs: type, ours: type) -> None:
    public = [name for name in dir(theirs) if not name.startswith("_")]
    assert public
    for name in public:
        found, engine = inspect.getattr_static(ours, name), inspect.getattr_static(theirs, name)
        assert inspect.isfunction(found) == inspect.isfunction(engine), name
        assert not inspect.iscoroutinefunction(found), name
        assert found.__doc__ == engine.__doc__ or name == "close", name


def test_both_are_used_with_a_with_statement() -> None:
    for name, plain in (("__aenter__", "__enter__"), ("__aexit__", "__exit__")):
        assert hasattr(onlooker.Memory, name)
        assert hasattr(blocking.Memory, plain)


# ------------------------------------------------------------------------------------ end to end


@pytest.fixture(params=["in memory", "in a file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "in memory" else str(tmp_path / "agent.db")


@pytest.fixture
def memory(url: str) -> Iterator[blocking.Memory]:
    with blocking.open_memory(url, model=ScriptedModel(), budget=2000) as opened:
        yield opened


def talk(session: blocking.Session, turns: int) -> None:
    for i in range(turns):
        session.record(onlooker.user(f"{i}: {LONG}", id=f"u{i}"))
        session.record(onlooker.assistant(f"{i}: I will ask them.", id=f"a{i}"))


def test_a_conversation_becomes_notes_and_a_context_that_fits(memory: blocking.Memory) -> None:
    session = memory.session("telegram:42", owner="ana")
    talk(session, 30)
    assert session.settle()
    context = session.context(system="You are helpful.", budget=2000)
    assert context.stats.total <= 2000
    assert "## Conversation Memory" in context.system
    assert context.messages[-1].text == "29: I will ask them."
    assert context.runtime == RuntimeContext("telegram:42", "telegram")
    notes = session.notes()
    assert notes
    assert [m.id for m in session.recall(notes[0].id)][:2] == ["u0", "a0"]
    assert (session.key, session.owner) == ("telegram:42", "ana")
    assert len(session.messages()) == 60
    assert [s.progress.session for s in memory.sessions()] == [session.id]


def test_whole_histories_can_be_handed_over(memory: blocking.Memory) -> None:
    session = memory.session("chat")
    history: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    assert session.prepare(history).openai() == history
    history += [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "bye"}]
    assert session.prepare(history).openai() == history
    assert [m.text for m in session.messages()] == ["hello", "hi", "bye"]


def test_the_rest_of_the_surface_works_too(memory: blocking.Memory) -> None:
    events: list[Event] = []
    stop = memory.subscribe(events.append)
    session = memory.session("chat")
    talk(session, 12)
    memory.settle()
    memory.background.flush()
    assert memory.background.tick() == 0
    assert memory.background.pending == 0
    assert events
    stop()
    session.pin("u0")
    state = session.history.state()
    assert state is not None
    assert state.pins == {"u0"}
    memory.calibrate(session.context(), input_tokens=500)
    assert memory.usage()
    assert memory.retention.prune() == 0
    session.history.compact(2, "They spoke of an order.")
    assert session.messages()[0].text == "They spoke of an order."
    session.end()
    assert session.history.clear() > 0
    assert session.delete()
    assert not session.delete()


def test_a_persons_hand_works_without_await(memory: blocking.Memory, tmp_path: Path) -> None:
    session = memory.session("chat", owner="ana")
    talk(session, 20)
    assert session.settle()
    note = session.notes()[0]
    session.history.edit(note.id, "by hand", by="ana")
    assert [v.by for v in session.history.of(note.id).versions] == ["scripted", "ana"]
    assert session.history.diff(note.id).added == ("by hand",)
    assert session.history.as_of(1).messages[-1].id == "u0"
    assert session.forget("u0").messages == 1
    rows = memory.storage.export(tmp_path / "all.jsonl")
    with blocking.open_memory(":memory:") as other:
        assert sum(other.storage.import_file(tmp_path / "all.jsonl", all_owners=True).values()) == rows
        with pytest.raises(KeyError):
            other.session("chat", owner="ana").history.undo()
        with pytest.raises(onlooker.StoreError):
            other.storage.import_journal(tmp_path / "nowhere", all_owners=True)
        other.storage.back_up(tmp_path / "copy.db")
        with pytest.raises(onlooker.StoreError, match="exists already"):
            other.storage.back_up(tmp_path / "copy.db")
    assert memory.forget(owner="ana").sessions == 1


@pytest.mark.req(76, 77)
def test_the_session_comes_from_the_context_of_the_call(memory: blocking.Memory) -> None:
    history = [{"role": "user", "content": "hello"}]
    assert memory.current() is None
    assert memory.record(onlooker.user("lost?")) == ()
    assert memory.prepare(history).openai() == history
    assert memory.sessions() == []
    with onlooker.use_session("slack:7"):
        memory.record(onlooker.user("kept"))
        memory.prepare([{"role": "user", "content": "kept"}, {"role": "assistant", "content": "good"}])
        found = memory.current()
        assert found is not None
        assert found.key == "slack:7"
    assert [m.text for m in memory.session("slack:7").messages()] == ["kept", "good"]


def test_many_threads_can_record_at_once(memory: blocking.Memory) -> None:
    session = memory.session("chat")
    with ThreadPoolExecutor(8) as pool:
        for i in range(100):
            pool.submit(session.record, onlooker.user(f"message {i}", id=str(i)))
    said = session.messages()
    assert sorted(m.seq for m in said) == list(range(1, 101))
    assert {m.id for m in said} == {str(i) for i in range(100)}


@pytest.mark.req(42)
def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with blocking.open_memory(path, model=ScriptedModel(), budget=2000) as first:
        talk(first.session("chat"), 20)
        first.settle()
        before = first.session("chat").context()
    with blocking.open_memory(path, model=ScriptedModel(), budget=2000) as second:
        assert second.session("chat").context().openai() == before.openai()


def test_errors_arrive_as_they_are(memory: blocking.Memory) -> None:
    with pytest.raises(MessageError):
        memory.session("chat").record({"role": "nobody"})
    with pytest.raises(BudgetError):
        memory.session("chat").context(system="x" * 9000, budget=300)
    with pytest.raises(SettingsError):
        blocking.open_memory("mysql://nowhere")


@pytest.mark.req(9, 28, 96)
def test_a_model_that_is_down_does_not_break_the_turn() -> None:
    with blocking.open_memory(":memory:", model=FaultyModel("error"), budget=2000) as memory:
        session = memory.session("chat")
        talk(session, 30)
        assert session.context().stats.total <= 2000
        assert len(session.messages()) == 60


def test_closing_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    for _ in range(3):
        with blocking.open_memory(":memory:") as memory:
            memory.session("chat").record(onlooker.user("hello"))
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=120)
        assert not thread.is_alive()


@pytest.mark.req(30)
def test_after_closing_nothing_is_taken() -> None:
    memory = blocking.open_memory(":memory:")
    with memory:
        session = memory.session("chat")
    with pytest.raises(ClosedError):
        session.record(onlooker.user("too late"))
    memory.close()
