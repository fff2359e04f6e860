"""One passage that the model always refuses does not keep the other notes from being rewritten."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

import onlooker
from onlooker.errors import ModelError
from onlooker.ports import Reply, Request
from onlooker.testing import FrozenClock, ScriptedModel
from onlooker.testing.models import good_note, source_text

pytestmark = pytest.mark.anyio


async def sixty_visitors(session: onlooker.Session) -> AsyncIterator[None]:
    """Say of sixty visitors what they asked for, with a context after each. One of them asked for what the
    model refuses to speak of."""
    for i in range(60):
        word = "forbidden" if i == 8 else "garden"
        said = f"Visitor {i} asked for the {word} map and for the way to the station on foot. " * 6
        await session.record(onlooker.user(said), onlooker.assistant(f"Visitor {i} got both, and a pen."))
        await session.context(budget=4000)
        yield


async def test_the_note_that_is_always_refused_stays_built_in_and_the_others_are_rewritten() -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    is_down = True
    refused: list[Request] = []

    def answer(request: Request) -> Reply | str | ModelError:
        if is_down:
            return ModelError("down")
        if "forbidden" in source_text(request):
            refused.append(request)
            return Reply("", finish="refused")
        return good_note(request)

    async with onlooker.open_memory(":memory:", model=ScriptedModel(answer), clock=clock) as memory:
        session = memory.session("chat")
        async for _ in sixty_visitors(session):
            pass
        assert sum(note.degraded for note in await session.notes()) > 3
        is_down = False
        for _ in range(8):
            clock.advance(3600)
            await session.settle()
        left = [note for note in await session.notes() if note.degraded]
        asked = len(refused)
        clock.advance(3600)
        assert await session.settle()
        assert len(refused) == asked, "it is not asked for again"
    assert len(left) == 1
    assert "forbidden" in left[0].text


async def test_while_the_model_refuses_one_passage_it_writes_the_others_without_waiting() -> None:
    def answer(request: Request) -> Reply | str:
        return Reply("", finish="refused") if "forbidden" in source_text(request) else good_note(request)

    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))  # no later time ever comes
    async with onlooker.open_memory(":memory:", model=ScriptedModel(answer), clock=clock) as memory:
        session = memory.session("chat")
        async for _ in sixty_visitors(session):
            await memory.background.flush()
        notes = await session.notes(statuses=("active", "superseded", "buffered"))
    assert len(notes) > 8
    assert [note.first for note in notes if note.degraded != ("forbidden" in note.text)] == []


async def test_a_model_that_is_of_no_use_twice_in_a_row_is_left_alone_for_a_while() -> None:
    model = ScriptedModel(lambda _: Reply("", finish="refused"))
    clock = FrozenClock(datetime(2026, 2, 16, 9, 0, tzinfo=UTC))
    async with onlooker.open_memory(":memory:", model=model, clock=clock) as memory:
        session = memory.session("chat")
        for i in range(60):
            said = f"Visitor {i} asked for the garden map and for the way to the station on foot. " * 6
            await session.record(onlooker.user(said), onlooker.assistant(f"Visitor {i} got both, and a pen."))
            await session.context(budget=4000)
            await memory.background.flush()
    assert len(model.requests) <= 8


async def test_a_reply_that_is_cut_inside_a_word_becomes_no_note_whatever_its_finish_reason() -> None:
    def answer(request: Request) -> Reply:
        line, *_ = source_text(request).split("\n")
        return Reply(line[: line.index("station") + 4])

    model = ScriptedModel(answer)
    async with onlooker.open_memory(":memory:", model=model, budget=1_000) as memory:
        session = memory.session("chat")
        for i in range(30):
            said = f"Visitor {i} has ticket 88-{i} and asked for the way to the station on foot. "
            await session.record(onlooker.user(said), onlooker.assistant(f"Visitor {i} got a map and a pen."))
        await session.settle()
        context = await session.context()
        notes = await session.notes()
    assert model.requests
    assert notes
    assert all(note.degraded for note in notes)
    assert re.search(r"\bstat\b", context.text()) is None
    assert "88-0" in context.system


OF_SOMETHING_ELSE = [
    "Maintenance in progress",
    "Your free trial has expired. Please upgrade your plan.",
    "Le contenu a été signalé et supprimé.",
    "内容已被屏蔽。",
    "콘텐츠가 차단되었습니다.",
    "Quota reached.",
    # Cut off where a next line begins.
    "user: Visitors ask for the garden map.\nassistant: Visitors get a pen.\nassist",
]
SHORT_NOTES = [
    "Visitors ask for maps.",
    "The user told of visitors.",
    "They walk to the station.",
    "user: Visitors ask for the garden map.\nassistant: Visitors get a pen.\nAll walk",
]


@pytest.mark.parametrize("reply", [*OF_SOMETHING_ELSE, *SHORT_NOTES])
async def test_a_reply_with_nothing_of_its_source_is_not_a_note(reply: str) -> None:
    async with onlooker.open_memory(":memory:", model=ScriptedModel(lambda _: reply)) as memory:
        session = memory.session("chat")
        async for _ in sixty_visitors(session):
            await memory.background.flush()
        await session.settle()
        lines = (await session.context(budget=4000)).memory.splitlines()
    assert lines
    assert (reply.rpartition("\n")[2] in lines) == (reply in SHORT_NOTES)
