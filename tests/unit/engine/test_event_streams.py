"""Events for `async for`: bounded, counted, and ended when the memory is."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

import onlooker
from onlooker.domain.events import Deleted, Pruned, Recorded
from onlooker.domain.messages import SessionId
from onlooker.engine.events import EventStream
from onlooker.errors import SettingsError

pytestmark = pytest.mark.anyio

HERE = SessionId("ana", "chat")


def stream(*types: type[Any], limit: int = 100) -> EventStream[Any]:
    return EventStream(types, limit)


async def rest(found: EventStream[Any]) -> list[Any]:
    found.close()
    return [event async for event in found]


async def test_events_come_out_in_the_order_in_which_they_went_in() -> None:
    found = stream()
    for rows in range(5):
        found.on_event(Pruned(rows))
    assert [e.rows for e in await rest(found)] == [0, 1, 2, 3, 4]
    assert found.dropped == 0


async def test_only_the_types_asked_for_are_held() -> None:
    found = stream(Deleted, Recorded)
    for event in (Pruned(1), Deleted(HERE), Pruned(2), Recorded(HERE, ())):
        found.on_event(event)
    assert [type(e) for e in await rest(found)] == [Deleted, Recorded]


async def test_beyond_its_bound_the_oldest_make_way_and_are_counted() -> None:
    found = stream(limit=3)
    for rows in range(10):
        found.on_event(Pruned(rows))
    assert found.dropped == 7
    assert [e.rows for e in await rest(found)] == [7, 8, 9]


async def test_a_reader_waits_for_the_next_event() -> None:
    found = stream()
    waiting = asyncio.ensure_future(anext(found))
    await asyncio.sleep(0)
    assert not waiting.done()
    found.on_event(Pruned(1))
    assert (await waiting).rows == 1


async def test_closing_ends_a_reader_that_waits_and_nothing_more_is_heard() -> None:
    found = stream()
    waiting = asyncio.ensure_future(rest_of(found))
    await asyncio.sleep(0)
    found.close()
    found.on_event(Pruned(1))
    assert await waiting == []


async def rest_of(found: EventStream[Any]) -> list[Any]:
    return [event async for event in found]


async def test_a_stream_closes_at_the_end_of_its_with_block() -> None:
    async with stream() as found:
        found.on_event(Pruned(1))
    assert found.closed
    assert [e.rows for e in await rest(found)] == [1]


async def test_a_bound_below_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="limit"):
        stream(limit=0)


async def test_a_stream_that_nobody_reads_any_more_is_let_go_of() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        found = weakref.ref(memory.events())
        gc.collect()
        assert found() is None
