"""A person's hand, through the public surface: edit, undo, look back, compare."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.bakery import SETTINGS, talk

import onlooker
from onlooker.domain.events import Edited, Event, Undone
from onlooker.errors import BudgetError, ConflictError, SettingsError
from onlooker.ports import ReflectRequest
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["in memory", "in a file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return ":memory:" if request.param == "in memory" else tmp_path / "agent.db"


async def first_reflection(session: onlooker.Session, clock: FrozenClock) -> onlooker.Note:
    """Talk until notes are condensed for the first time."""
    for n in range(1, 200, 2):
        await talk(session, clock, n, n + 1)
        if found := await session.notes(kind="reflection"):
            return found[0]
    raise AssertionError("nothing was condensed")


# ------------------------------------------------------------------------------------ editing


async def test_an_edited_note_is_what_the_prompt_shows_and_reflections_go_by(url: Any) -> None:
    clock, model = FrozenClock(), ScriptedModel()
    async with onlooker.open_memory(url, settings=SETTINGS, model=model, clock=clock) as memory:
        session = memory.session("bakery", owner="ana")
        await talk(session, clock, 1, 20)
        note = (await session.notes())[0]
        edited = await session.history.edit(note.id, f"{note.text}\nThe oven is called Gisela.", by="ana")
        assert edited.id == note.id
        assert (edited.model, edited.degraded) == ("person:ana", False)
        assert "The oven is called Gisela." in (await session.context()).system
        await session.settle()
        assert "Gisela" in (await session.notes())[0].text  # no model wrote it again
        await first_reflection(session, clock)
        told = [r for r in model.requests if isinstance(r, ReflectRequest)]
        assert any("The oven is called Gisela." in n.text for r in told for n in r.notes)


async def test_every_text_of_a_note_is_kept_with_who_and_when(url: Any) -> None:
    clock = FrozenClock()
    events: list[Event] = []
    async with onlooker.open_memory(url, settings=SETTINGS, clock=clock) as memory:
        memory.subscribe(events.append)
        session = memory.session("bakery", owner="ana")
        await talk(session, clock, 1, 20)
        note = (await session.notes())[0]
        untouched = await session.history.of(note.id)
        assert [v.text for v in untouched.versions] == [note.text]
        assert untouched.versions[0].by == "extractive"
        first = clock.advance(60)
        await session.history.edit(note.id, "one", by="ana")
        second = clock.advance(60)
        await session.history.edit(note.id, "two", by="ben")
        history = await session.history.of(note.id)
        assert [(v.number, v.text, v.by) for v in history.versions] == [
            (1, note.text, "extractive"),
            (2, "one", "ana"),
            (3, "two", "ben"),
        ]
        assert [v.at for v in history.versions] == [note.made_at, first, second]
        assert history.note.text == "two"
        assert [status for _, status in history.statuses][-1] == "active"
        assert [e.by for e in events if isinstance(e, Edited)] == ["ana", "ben"]
        diff = await session.history.diff(note.id)
        assert (diff.dropped, diff.added) == (("one",), ("two",))


async def test_an_edit_that_cannot_be_is_refused_and_changes_nothing(url: Any) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(url, settings=SETTINGS, clock=clock) as memory:
        session = memory.session("bakery")
        await talk(session, clock, 1, 20)
        note = (await session.notes())[0]
        before = await session.history.state()
        with pytest.raises(KeyError):
            await session.history.edit("nobody", "text")
        with pytest.raises(SettingsError):
            await session.history.edit(note.id, " \n ")
        with pytest.raises(ConflictError):
            await session.history.edit(note.id, "text", was="another text")
        for ask in (
            session.history.of("nobody"),
            session.history.diff("nobody"),
            session.history.diff(note.id, "nobody"),
        ):
            with pytest.raises(KeyError):
                await ask
        assert await session.history.state() == before


# ------------------------------------------------------------------------------------ undoing


async def test_an_undone_reflection_gives_its_notes_back_to_the_prompt(url: Any) -> None:
    clock = FrozenClock()
    events: list[Event] = []
    async with onlooker.open_memory(url, settings=SETTINGS, model=ScriptedModel(), clock=clock) as memory:
        memory.subscribe(events.append)
        session = memory.session("bakery", owner="ana")
        reflection = await first_reflection(session, clock)
        sources = reflection.sources
        # With more room than before, what was condensed fits again.
        await session.context(budget=8_000)
        back = await session.history.undo()
        assert tuple(n.id for n in back) == sources
        context = await session.context(budget=8_000)
        assert all(line in context.system for n in back for line in n.text.splitlines())
        assert not await session.notes(kind="reflection")
        await session.settle()
        assert not await session.notes(kind="reflection")
        assert [e.note.id for e in events if isinstance(e, Undone)] == [reflection.id]
        for note in back:
            assert await session.recall(note.id)
        with pytest.raises(KeyError):
            await session.history.undo(reflection.id)
        with pytest.raises(KeyError):
            await session.history.undo()


async def test_undoing_is_refused_where_notes_would_be_condensed_again_at_once(url: Any) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(url, settings=SETTINGS, model=ScriptedModel(), clock=clock) as memory:
        session = memory.session("bakery", owner="ana")
        reflection = await first_reflection(session, clock)
        before = await session.history.state()
        with pytest.raises(BudgetError):
            await session.history.undo(reflection.id)
        assert await session.history.state() == before


# ------------------------------------------------------------------------------------ looking back


async def test_the_memory_is_seen_as_it_was_at_any_message(url: Any) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(url, settings=SETTINGS, model=ScriptedModel(), clock=clock) as memory:
        session = memory.session("bakery", owner="ana")
        seen: dict[int, tuple[Any, str]] = {}
        for n in range(1, 101):
            await talk(session, clock, n, n)
            state = await session.history.state()
            assert state is not None
            seen[n] = (clock.now() - timedelta(seconds=60), (await session.context()).text())
        assert await session.notes(kind="reflection")
        for n, (at, text) in seen.items():
            moment = await session.history.as_of(n)
            assert moment.missing == 0
            assert moment.context().text() == text, f"as of message {n}"
            assert (await session.history.as_of(at)).context().text() == text, f"as of {at}"
        state = await session.history.state()
        assert state is not None
        assert (await session.history.as_of(10**9)).notes == state.active
        nothing = await session.history.as_of(0)
        assert (nothing.notes, nothing.messages) == ((), ())
        assert (await memory.session("other").history.as_of(5)).notes == ()


async def test_looking_back_shows_edits_as_they_were_and_what_was_taken_back_since(url: Any) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(url, settings=SETTINGS, clock=clock) as memory:
        session = memory.session("bakery", owner="ana")
        await talk(session, clock, 1, 20)
        before = await session.context()
        note = (await session.notes())[-1]
        clock.advance(3600)
        await session.history.edit(note.id, "by hand", by="ana")
        clock.advance(3600)
        said = await session.messages(archived=True)
        history = [{"role": m.role, "content": m.text, "id": m.id} for m in said[:18]]
        await session.prepare([*history, {"role": "user", "content": "No, wait.", "id": "w"}])
        assert "by hand" in (await session.history.as_of(clock.now())).context().text()
        then = await session.history.as_of(clock.now() - timedelta(hours=2))
        assert then.context().text() == before.text()
        assert then.messages[-1].text == said[-1].text
        edited = await session.history.as_of(clock.now() - timedelta(minutes=30))
        assert "by hand" in edited.context().text()
        assert edited.messages[-1].text == said[-1].text


async def test_notes_that_were_purged_since_are_counted(url: Any) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(url, settings=SETTINGS, clock=clock) as memory:
        session = memory.session("bakery", owner="ana")
        await talk(session, clock, 1, 12)
        await session.history.clear()
        assert (
            await session.history.as_of(12)
        ).missing == 0  # as it was when message 12 had been said and cleared
        assert (await session.history.as_of(11)).missing > 0


# ------------------------------------------------------------------------------------ comparing


async def test_a_reflection_is_compared_with_what_it_was_made_from(url: Any) -> None:
    clock = FrozenClock()
    async with onlooker.open_memory(url, settings=SETTINGS, clock=clock) as memory:
        session = memory.session("bakery", owner="ana")
        reflection = await first_reflection(session, clock)
        diff = await session.history.diff(reflection.id)
        known = {n.id: n for n in await session.notes(statuses=["superseded"])}
        lines = [
            line.strip()
            for source in reflection.sources
            for line in known[source].text.splitlines()
            if not line.startswith("## ")
        ]
        assert sorted([*diff.kept, *diff.dropped]) == sorted(line for line in lines if line)
        assert diff.dropped
        assert diff.unified().startswith("--- before\n+++ after\n")
        first, second = (await session.notes(statuses=["superseded"]))[:2]
        assert (await session.history.diff(first.id, second.id)).after == second.text
        history = await session.history.of(first.id)
        assert [status for _, status in history.statuses][-1] == "superseded"
        assert history.made_into == (reflection.id,)
