"""Values of users' own types, filled in from what was said in the same call as the note."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from command_line import call
from pydantic import BaseModel
from tests.acceptance.bakery import SETTINGS, Order, Preference, block, clerk, orders_in, said, talk
from tests.acceptance.providers import START, model_at
from tests.promises.checks import check_coverage

import onlooker
from onlooker import blocking
from onlooker.domain.errors import ModelError
from onlooker.domain.events import Event, Extracted, ExtractionRejected, Noted, ReplyRejected
from onlooker.errors import SettingsError
from onlooker.ports import ObserveRequest, ReflectRequest, Reply
from onlooker.testing import FrozenClock, ScriptedModel
from onlooker.testing.models import good_note
from onlooker.testing.provider import Answer, LocalProvider, Received, note_for

pytestmark = pytest.mark.anyio

TYPES = (Order, Preference)


async def noted(
    model: ScriptedModel, *, messages: int = 40, url: str | Path = ":memory:"
) -> tuple[list[Event], list[Order], str]:
    """What happened in a conversation, the orders, and the text of the notes."""
    clock, events = FrozenClock(START), list[Event]()
    async with onlooker.open_memory(
        url, model=model, settings=SETTINGS, extractors=TYPES, clock=clock
    ) as memory:
        memory.subscribe(events.append)
        session = memory.session("shop", owner="ana")
        await talk(session, clock, 1, messages)
        await check_coverage(session)
        text = "\n".join(n.text for n in await session.notes())
        return events, await session.extracted(Order), text


async def test_a_provider_is_asked_once_for_the_note_and_the_values(tmp_path: Path) -> None:
    def answer(received: Received) -> Answer:
        text = note_for(received.user)
        return Answer(text + block(Order=orders_in(received.user)) if "MESSAGES" in received.user else text)

    clock = FrozenClock(START)
    with LocalProvider(answer) as provider:
        async with onlooker.open_memory(
            tmp_path / "a.db", model=model_at(provider), settings=SETTINGS, extractors=[Order], clock=clock
        ) as memory:
            session = memory.session("shop")
            context = await talk(session, clock, 1, 100)
            orders = await session.extracted(Order)
            notes = await session.notes(statuses=("active", "buffered", "superseded"))
            frontier = max(note.last for note in notes)
        asked = list(provider.received)
    expected = [order for n in range(1, frontier + 1) for order in orders_in(said(n).text)]
    assert [order.model_dump() for order in orders] == expected
    assert len(asked) == len(notes)
    observing = [request for request in asked if "MESSAGES" in request.user]
    assert all('Order: {"description":"What a customer has ordered."' in r.system for r in observing)
    assert all("Order:" not in r.system for r in asked if r not in observing)
    # Nothing of the block stands in what the agent receives.
    assert "json" not in context.text()
    assert '"item"' not in context.text()


async def test_values_lead_back_to_their_note_and_messages_and_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    events, orders, _ = await noted(clerk(), url=path)
    kept = [
        extraction for event in events if isinstance(event, Extracted) for extraction in event.extractions
    ]
    with blocking.open_memory(path, settings=SETTINGS) as memory:
        session = memory.session("shop", owner="ana")
        assert session.extracted(Order) == orders
        assert session.history.extractions() == kept
        assert session.history.extractions("Preference") == []
        for order, extraction in zip(orders, kept, strict=True):
            (seq,) = {m.seq for m in session.recall(extraction.note) if order.number in m.text}
            assert seq in extraction.seqs
            assert extraction.value == order.model_dump()
            assert (extraction.type, extraction.session) == ("Order", session.id)
            assert START <= extraction.said_at <= extraction.made_at


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ("", "missing"),
        ("\n```json\n{'Order': [}\n```", "unparseable"),
        ('\n```json\n{"Invoice": [{"a": 1}]}\n```', "unparseable"),
        (block(Order=[{"number": "88-1001"}]), "invalid"),
        (block(Order=[{"number": "99-9999", "item": "rye", "count": 1, "price": 1}]), "invented values"),
    ],
)
async def test_a_block_that_is_wrong_costs_its_values_and_never_the_note(
    after: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="onlooker")
    model = clerk(lambda _: after)
    events, orders, text = await noted(model)
    assert orders == []
    # Each chunk was asked for once, and what was written stands without the block.
    assert not [event for event in events if isinstance(event, ReplyRejected)]
    observed = [request for request in model.requests if isinstance(request, ObserveRequest)]
    assert len(observed) == sum(isinstance(event, Noted) for event in events) > 3
    refused = [event for event in events if isinstance(event, ExtractionRejected)]
    assert {event.reason for event in refused} >= {reason}
    assert len(refused) == len(observed)
    assert "json" not in text
    assert "99-9999" not in text


async def test_one_wrong_value_does_not_cost_the_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="onlooker")

    def with_one_made_up(told: str) -> str:
        orders = orders_in(told)
        return block(Order=[*orders, *({**order, "price": order["price"] + 1} for order in orders[:1])])

    events, orders, _ = await noted(clerk(with_one_made_up))
    assert orders == (await noted(clerk()))[1]
    refused = [event for event in events if isinstance(event, ExtractionRejected)]
    assert refused
    assert {(event.type, event.reason) for event in refused} == {("Order", "invented values")}


async def test_a_second_attempt_at_a_note_asks_for_the_block_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="onlooker")
    good = clerk()

    async def answer(request: Any) -> Any:
        return "" if not request.correction else await good.write(request)

    model = ScriptedModel(answer)
    _, orders, _ = await noted(model)
    assert orders
    again = [r for r in model.requests if isinstance(r, ObserveRequest) and r.correction]
    assert again
    assert all("it held no note" in r.correction and "The JSON after it" in r.correction for r in again)
    assert all("JSON" not in r.correction for r in model.requests if isinstance(r, ReflectRequest))


async def test_an_answer_cut_off_inside_its_block_is_still_a_note() -> None:
    def cut_off(request: Any) -> Reply:
        if isinstance(request, ReflectRequest):
            return Reply(good_note(request))
        return Reply(good_note(request) + '\n```json\n{"Order": [{"number": "88-1', finish="length")

    events, orders, text = await noted(ScriptedModel(cut_off))
    assert orders == []
    assert not [event for event in events if isinstance(event, ReplyRejected)]
    assert "88-1\n" not in text


async def test_values_are_filled_in_when_a_model_is_back_that_was_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, logger="onlooker")
    good, down = clerk(), True

    async def answer(request: Any) -> Any:
        return ModelError("down") if down else await good.write(request)

    clock = FrozenClock(START)
    async with onlooker.open_memory(
        ":memory:", model=ScriptedModel(answer), settings=SETTINGS, extractors=TYPES, clock=clock
    ) as memory:
        session = memory.session("shop")
        await talk(session, clock, 1, 40)
        degraded = [note for note in await session.notes() if note.degraded]
        assert degraded
        assert await session.extracted(Order) == []
        down = False
        clock.advance(3600)
        assert await session.settle()
        orders = await session.extracted(Order)
    assert [order.model_dump() for order in orders[:3]] == [
        o for n in (1, 3, 5) for o in orders_in(said(n).text)
    ]


async def test_values_go_with_what_they_came_from() -> None:
    clock = FrozenClock(START)
    async with onlooker.open_memory(
        ":memory:", model=clerk(), settings=SETTINGS, extractors=TYPES, clock=clock
    ) as memory:
        session = memory.session("shop")
        history = [said(n) for n in range(1, 41)]
        await session.prepare(history)
        await session.settle()
        before = await session.extracted(Order)
        assert len(before) > 5
        # The host takes the end of the conversation back.
        await session.prepare([*history[:20], onlooker.user("Let us begin anew from here, please.")])
        after = await session.extracted(Order)
        assert after == before[: len(after)]
        assert 0 < len(after) < len(before)
        await session.history.clear()
        assert await session.extracted(Order) == []
        await session.delete()
        assert await session.history.extractions() == []


async def test_a_class_that_has_changed_leaves_out_what_it_no_longer_takes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="onlooker")
    _, orders, _ = await noted(clerk(), url=tmp_path / "a.db")

    class Stricter(Order):
        customer: str

    Stricter.__name__ = "Order"
    async with onlooker.open_memory(tmp_path / "a.db") as memory:
        session = memory.session("shop", owner="ana")
        assert await session.extracted(Stricter) == []
        assert len(await session.history.extractions("Order")) == len(orders)


# ------------------------------------------------------------------------------------ at opening


def test_the_built_in_model_says_at_once_that_it_cannot_fill_them_in() -> None:
    with pytest.raises(SettingsError, match=r"need a language model.*onlooker\[PROVIDER\]") as caught:
        onlooker.open_memory(":memory:", extractors=[Order])
    assert caught.value.value == ["Order"]


async def test_extractors_that_cannot_work_are_refused_at_once() -> None:
    class Plain:
        pass

    class Large(BaseModel):
        text: str

    Large.__doc__ = "Much to say. " * 1000
    again = type("Order", (Order,), {})
    for wrong, words in (
        ([Plain], "must be classes with"),
        ([Order(number="1", item="a", count=1, price=1)], "must be classes with"),
        ([Order, again], "different names"),
        ([Large], "at most 8000 characters"),
    ):
        with pytest.raises(SettingsError, match=words):
            onlooker.open_memory(":memory:", model=ScriptedModel(), extractors=wrong)  # pyright: ignore[reportArgumentType]


# ------------------------------------------------------------------------------------ command line


def test_the_command_line_lists_them(tmp_path: Path) -> None:
    _, orders, _ = asyncio.run(noted(clerk(), url=tmp_path / "a.db"))
    views = call("extracted", "--db", tmp_path / "a.db", "--session", "shop", "--json").json
    assert [view["value"] for view in views] == [order.model_dump() for order in orders]
    assert set(views[0]) == {
        "session_key", "owner", "type", "value", "note_id", "source_seqs", "said_at", "created_at",
    }  # fmt: skip
    table = call("extracted", "--db", tmp_path / "a.db").out
    assert table.splitlines()[1].startswith("Order")
    assert json.dumps(orders[0].model_dump()) in table
    none = call("extracted", "--db", tmp_path / "a.db", "--type", "Invoice")
    assert (none.code, none.out, none.err) == (0, "", "Nothing extracted.\n")
    assert call("extracted", "--db", tmp_path / "a.db", "--session", "none").code == 1
