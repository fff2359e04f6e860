"""The graph of notes: read by a person, and used by search for what is tied to what was found."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

import onlooker
from onlooker import events
from onlooker.domain.search import Edge
from onlooker.engine import indexing
from onlooker.policy.settings import DEFAULT
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

SMALL = replace(
    DEFAULT,
    budget=1300,
    observe_at=0.3,
    precompute_at=0.2,
    chunk_tokens=0.1,
    memory_limit=0.7,
)
# What is noted is in the graph at once, or only when it is asked for.
SOON = onlooker.Timing(sweep_seconds=3600.0, index_seconds=0.0)
LATE = onlooker.Timing(sweep_seconds=3600.0, index_seconds=600.0)


@pytest.fixture(params=["in memory", "in a file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "in memory" else str(tmp_path / "agent.db")


def said(edges: list[Edge] | tuple[Edge, ...]) -> set[tuple[str, str, str]]:
    return {(e.source.name, e.kind, e.target.name) for e in edges}


async def noted(memory: onlooker.Memory, key: str, *texts: str, owner: str = "ana") -> onlooker.Session:
    """A session with a note for each text, word for word as a person wrote it."""
    session = memory.session(key, owner=owner)
    for i in range(60):
        await session.record(onlooker.user(f"Fact {i}: a parcel of {i + 100} grams was sent by boat."))
    await memory.settle()
    notes = await session.notes()
    assert len(notes) >= len(texts)
    for note, text in zip(notes, texts, strict=False):
        await session.history.edit(note.id, text)
    return session


async def test_notes_lead_to_their_sessions_and_to_what_they_mention(url: str) -> None:
    async with onlooker.open_memory(url, settings=SMALL, timing=SOON) as memory:
        session = await noted(memory, "a", "Ana met Émile Zola in Oslo about ticket OPS-4711")
        await noted(memory, "b", "The release of OPS-4711 was put off", owner="ben")
        await memory.index.catch_up()
        note = (await session.notes())[0]
        mentioned = await memory.index.graph("ana", entity="ops-4711")
        assert said(list(mentioned)) == {(note.id, "mentions", "OPS-4711")}
        whole = said(list(await memory.index.graph("ana", session="a")))
        assert {(note.id, "in_session", "a"), (note.id, "mentions", "Oslo")} <= whole
        assert (note.id, "mentions", "Émile Zola") in whole
        assert all(
            e.source.session and e.source.session.owner == "ana" for e in await memory.index.graph("ana")
        )


@pytest.mark.req(79)
async def test_search_adds_notes_that_mention_what_the_found_one_does(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BATCH", 1000)
    async with onlooker.open_memory(url, settings=SMALL, timing=LATE) as memory:
        await asyncio.sleep(0.02)  # the first sweep, which finds nothing
        first = await noted(memory, "a", "The migration of the billing was begun under OPS-4711")
        second = await noted(memory, "b", "Ana asked who has the keys for OPS-4711")
        await noted(memory, "c", "Ben does not tell anyone about OPS-4711", owner="ben")
        wanted = (await second.notes())[0]
        assert wanted.id not in {h.id for h in await memory.search("billing migration", owner="ana")}
        await memory.index.catch_up()
        hits = await memory.search("billing migration", owner="ana")
        assert hits[0].id == (await first.notes())[0].id
        assert wanted.id in {h.id for h in hits}
        assert {h.session.owner for h in hits} == {"ana"}
        alone = await first.search("billing migration")
        assert {h.session for h in alone} == {first.id}
        closest, *_ = await first.history.neighbours(hits[0].id)
        assert closest.id == wanted.id
        with pytest.raises(KeyError):
            await first.history.neighbours("none")


async def test_a_reflection_is_tied_to_the_notes_that_it_condenses(url: str) -> None:
    async with onlooker.open_memory(url, settings=SMALL, timing=SOON, model=ScriptedModel()) as memory:
        session = memory.session("a", owner="ana")
        for i in range(300):
            await session.record(
                onlooker.user(f"Fact {i}: parcel {i} weighs {i + 100} grams and goes to Oslo."),
                onlooker.assistant("Noted."),
            )
            await memory.background.flush()
        await memory.settle()
        await memory.index.catch_up()
        reflections = await session.notes(kind="reflection")
        assert reflections
        edges = said(list(await memory.index.graph("ana", kinds=("reflects_on",))))
        assert {(reflections[0].id, "reflects_on", s) for s in reflections[0].sources} <= edges
        tied = {n.id for n in await session.history.neighbours(reflections[0].id)}
        assert set(reflections[0].sources) & tied
        assert said(list(await memory.index.graph("ana", kinds=("follows",))))


async def test_what_is_noted_is_linked_in_the_background(url: str) -> None:
    async with onlooker.open_memory(url, settings=SMALL, timing=SOON) as memory:
        session = await noted(memory, "a", "Ana moved to Tromsø with Liv Ullmann")
        async with asyncio.timeout(120):
            while not await memory.index.graph("ana", entity="Liv Ullmann"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert await memory.index.graph("ana", entity="liv ullmann")
        assert memory.index.status.vectors is None
        assert memory.index.status.graph.done > 0
        await session.history.edit((await session.notes())[0].id, "Nobody moved")
        await memory.index.catch_up()
        assert list(await memory.index.graph("ana", entity="Liv Ullmann")) == []


@pytest.mark.req(34)
async def test_a_full_queue_for_the_graph_drops_and_the_sweep_makes_up_for_it(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[events.Event] = []
    monkeypatch.setattr(indexing, "MAX_WAITING", 1)
    with caplog.at_level(logging.WARNING, logger="onlooker"):
        async with onlooker.open_memory(url, settings=SMALL, timing=LATE) as memory:
            await asyncio.sleep(0.02)  # the first sweep, which finds nothing
            memory.subscribe(lambda e: heard.append(e) if isinstance(e, events.IndexDropped) else None)
            session = await noted(memory, "a", "one", "two about Liv Ullmann")
            assert memory.index.status.dropped == len(heard) > 0
            assert "is not queued for the graph" in caplog.text
            assert await memory.index.catch_up() > 0
            assert list(await memory.store.unlinked()) == []
            note = (await session.notes())[1]
            assert said(list(await memory.index.graph("ana", entity="Liv Ullmann"))) == {
                (note.id, "mentions", "Liv Ullmann")
            }


async def test_what_is_forgotten_leaves_no_name(tmp_path: Path) -> None:
    url = str(tmp_path / "agent.db")
    async with onlooker.open_memory(url, settings=SMALL, timing=SOON, clock=FrozenClock()) as memory:
        session = await noted(memory, "a", "Ana met Quetzalcoatl in Oslo, and Quetzalcoatl left")
        await memory.index.catch_up()
        assert await memory.index.graph("ana", entity="Quetzalcoatl")
        await memory.forget(owner="ana", session=session.key)
        assert list(await memory.index.graph("ana")) == []
    assert not any(b"uetzalcoatl" in file.read_bytes() for file in tmp_path.iterdir())  # noqa: ASYNC240
