"""The four tools as an agent calls them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import onlooker
from onlooker.domain.errors import StoreError
from onlooker.policy.items.tools import MAX_SAVES
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import FrozenClock
from onlooker.types import Tools

pytestmark = [pytest.mark.anyio, pytest.mark.req(89)]


@pytest.fixture(params=["in memory", "in a file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "in memory" else str(tmp_path / "agent.db")


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def memory(url: str, clock: FrozenClock) -> AsyncIterator[onlooker.Memory]:
    async with onlooker.open_memory(url, clock=clock) as opened:
        yield opened


def tools_of(memory: onlooker.Memory, owner: str = "ana", key: str = "chat") -> Tools:
    return memory.session(key, owner=owner).tools()


def saved_id(answer: str) -> str:
    assert answer.startswith("Saved as "), answer
    return answer.removeprefix("Saved as ").split(",")[0].rstrip(".")


async def test_definitions_are_those_of_both_providers(memory: onlooker.Memory) -> None:
    tools = tools_of(memory)
    names = ["memory_search", "memory_save", "memory_forget", "recall"]
    assert [t.name for t in tools] == names
    assert [t["function"]["name"] for t in tools.openai()] == names
    assert [t["name"] for t in tools.anthropic()] == names
    assert len(tools) == 4
    for tool, openai, anthropic in zip(tools, tools.openai(), tools.anthropic(), strict=True):
        assert openai == {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        assert anthropic["input_schema"] == tool.parameters
    json.dumps([tools.openai(), tools.anthropic()])
    # What is handed out can be changed without harm.
    tools["recall"].parameters.clear()
    assert tools["recall"].parameters


async def test_what_is_saved_is_found_and_stands_in_the_next_session(memory: onlooker.Memory) -> None:
    ident = saved_id(
        await tools_of(memory).call("memory_save", '{"summary": "Ana plays the violin", "type": "skill"}')
    )
    found = await tools_of(memory).call("memory_search", {"query": "violin"})
    assert f"[{ident}] Ana plays the violin" in found
    (item,) = await memory.items.list("ana")
    assert (item.type, item.origin, item.trust, item.session, item.uses) == ("skill", "agent", 0.7, "chat", 1)
    assert "Ana plays the violin" in (await memory.session("next", owner="ana").context()).system
    assert "Nothing is remembered" in await tools_of(memory, "ben").call("memory_search", {"query": "violin"})
    assert "Nothing forgotten" in await tools_of(memory, "ben").call("memory_forget", {"id": ident})
    assert "Nothing found" in await tools_of(memory, "ben").call("recall", {"id": ident})


async def test_the_gates_and_the_way_to_supersede(memory: onlooker.Memory) -> None:
    tools = tools_of(memory)
    oslo = saved_id(await tools.call("memory_save", {"summary": "Ana lives in Oslo"}))
    for summary, why in (
        ("Ana", "too short"),
        ("Ana is in a meeting right now", "for the moment"),
        ("ana lives in oslo.", "already says it"),
        ("Ana lives in Bergen", f'supersedes="{oslo}"'),
    ):
        answer = await tools.call("memory_save", {"summary": summary})
        assert answer.startswith("Not saved: ")
        assert why in answer
    answer = await tools.call("memory_save", {"summary": "Ana lives in Bergen", "supersedes": oslo})
    bergen = saved_id(answer)
    assert answer.endswith(f"in place of {oslo}.")
    assert [i.id for i in await memory.items.history(bergen, owner="ana")] == [oslo, bergen]
    again = await tools.call("memory_save", {"summary": "Ana lives in Paris", "supersedes": oslo})
    assert again.startswith("Not saved: supersedes must be a live item")


async def test_the_rate_is_per_session_and_resets(memory: onlooker.Memory, clock: FrozenClock) -> None:
    words = [
        "violin",
        "piano",
        "chess",
        "skiing",
        "poker",
        "karate",
        "pottery",
        "sailing",
        "golf",
        "rugby",
        "go",
    ]
    tools = tools_of(memory)
    for word in words[:MAX_SAVES]:
        saved_id(await tools.call("memory_save", {"summary": f"Ana started with {word} lessons"}))
        clock.advance(1)
    more = {"summary": f"Ana started with {words[-1]} lessons"}
    assert "Try again in 60 minutes" in await tools.call("memory_save", more)
    assert "Saved" in await tools_of(memory, key="another chat").call("memory_save", more)
    clock.advance(3600)
    assert "Saved" in await tools.call("memory_save", {"summary": "Ana breeds tortoises at home"})


async def test_forgetting_archives_with_what_was_replaced(memory: onlooker.Memory) -> None:
    tools = tools_of(memory)
    oslo = saved_id(await tools.call("memory_save", {"summary": "Ana lives in Oslo"}))
    bergen = saved_id(await tools.call("memory_save", {"summary": "Ana lives in Bergen", "supersedes": oslo}))
    answer = await tools.call("memory_forget", {"id": bergen})
    assert answer == 'Forgotten: "Ana lives in Bergen"; "Ana lives in Oslo"'
    assert list(await memory.items.list("ana")) == []
    assert "Nothing is remembered" in await tools.call("memory_search", {"query": "Oslo Bergen"})
    assert "Nothing forgotten" in await tools.call("memory_forget", {"id": bergen})


async def test_expiry_is_a_day(memory: onlooker.Memory, clock: FrozenClock) -> None:
    tools = tools_of(memory)
    wrong = await tools.call("memory_save", {"summary": "Ana is away in March", "expires": "soon"})
    assert wrong == "Not saved: expires must be a day as YYYY-MM-DD."
    saved_id(await tools.call("memory_save", {"summary": "Ana is away in March", "expires": "2026-03-31"}))
    assert "away" in await tools.call("memory_search", {"query": "March"})
    clock.advance(60 * 86_400)
    assert "away" not in await tools.call("memory_search", {"query": "March"})


async def test_recall_leads_back_to_what_was_said(memory: onlooker.Memory) -> None:
    first = memory.session("first", owner="ana")
    for number in range(30):
        await first.record(onlooker.user(f"Parcel {number} went out.", id=f"u{number}"))
    await first.record(onlooker.user("I'm allergic to peanuts.", id="fact"))
    (item,) = await first.end()
    tools = tools_of(memory, key="second")
    behind = await tools.call("recall", {"id": item.id})
    assert "I'm allergic to peanuts." in behind
    assert "Parcel 29" in behind
    found = await tools.call("memory_search", {"query": "peanuts"})
    assert "[fact]" in found
    assert "session first" in found
    assert "Parcel 28" in await tools.call("recall", {"id": "fact", "session": "first"})
    assert "Nothing found" in await tools.call("recall", {"id": "fact"})


async def test_a_note_is_read_a_page_at_a_time(url: str, clock: FrozenClock) -> None:
    async with onlooker.open_memory(url, clock=clock, budget=4800) as memory:
        session = memory.session("chat", owner="ana")
        for number in range(150):
            await session.record(onlooker.user(f"Parcel {number} went to Bergen.", id=f"u{number}"))
            await session.settle()
        note = max(await session.notes(), key=lambda n: n.last - n.first)
        tools = session.tools()
        page = await tools.call("recall", {"id": note.id})
        assert page.count("Parcel") == 20
        assert "use page=2" in page
        assert await tools.call("recall", {"id": note.id, "page": 99}) != page
        pages = -(-(note.last - note.first + 1) // 20)
        assert f"its last is page {pages}." in await tools.call("recall", {"id": note.id, "page": 99})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_save", {}),
        ("memory_save", "not json"),
        ("memory_save", "[1]"),
        ("memory_save", "[" * 5000),
        ("memory_save", {"summary": None}),
        ("memory_search", {"query": "x", "limit": 0}),
        ("memory_search", {"query": ""}),
        ("memory_forget", {"id": "'; DROP TABLE items; --"}),
        ("recall", {"id": "\x00\ud800", "session": "\ud800"}),
        ("memory_summon", {}),
        ("", None),
    ],
)
async def test_no_call_raises_into_the_turn(memory: onlooker.Memory, name: str, arguments: Any) -> None:
    answer = await tools_of(memory).call(name, arguments)
    assert answer.startswith(("Not", "Nothing"))


async def test_storage_that_fails_is_an_answer() -> None:
    class Broken(SqliteStore):
        async def items(self, *args: Any, **options: Any) -> Any:
            raise StoreError("the disk is gone")

        async def archive_items(self, *args: Any, **options: Any) -> Any:
            raise RuntimeError("a bug")

    async with onlooker.open_memory(Broken(":memory:")) as memory:
        for tool in tools_of(memory):
            given = {"query": "x"} if tool.name == "memory_search" else {"id": "x"}
            given = {"summary": "Ana plays the violin"} if tool.name == "memory_save" else given
            assert (await tool(**given)).startswith("Not done: the disk is gone")


async def test_the_same_without_await() -> None:
    with onlooker.blocking.open_memory(":memory:") as memory:
        tools = memory.session("chat", owner="ana").tools()
        assert "Saved as" in tools.call("memory_save", {"summary": "Ana plays the violin"})
        assert len(tools.openai()) == len(tools.anthropic()) == 4
        (item,) = memory.items.list("ana")
        memory.items.pin(item.id, owner="ana")
        assert memory.session("two", owner="ana").refresh_items()[0].pinned
        assert len(memory.items.history(item.id, owner="ana")) == 1
        assert memory.items.save("Ana has a dog", owner="ana").owner == "ana"
        assert len(memory.items.forget(item.id, owner="ana")) == 1
        assert memory.session("two", owner="ana").end() == ()
        assert memory.background.end_idle() == 0
