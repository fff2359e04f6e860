"""Spend limits as settings: they stop model calls, not memory, and hold whatever is deleted."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import call
from tests.acceptance.bakery import SETTINGS, clerk, talk
from tests.acceptance.providers import START
from tests.promises.checks import check_coverage

import onlooker
from onlooker.domain.events import Event, SpendLimitReached, StepFailed
from onlooker.errors import ModelError, SettingsError
from onlooker.models.calling import Fallback, Spend
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="onlooker")


@pytest.mark.req(95)
@pytest.mark.parametrize("what", ["session", "owner", "day"])
async def test_a_limit_of_the_settings_stops_calls_and_says_so_and_memory_goes_on(what: str) -> None:
    clock, model, events = FrozenClock(START), clerk(), list[Event]()
    settings = replace(SETTINGS, **{f"spend_per_{what}": 0.03})  # each call costs a cent
    async with onlooker.open_memory(":memory:", model=model, settings=settings, clock=clock) as memory:
        memory.subscribe(events.append)
        session = memory.session("shop", owner="ana")
        await talk(session, clock, 1, 60)
        assert model.calls == 3
        await check_coverage(session)
        notes = await session.notes()
        assert {note.model for note in notes if note.degraded} == {"extractive"}
        reached = [event for event in events if isinstance(event, SpendLimitReached)]
        assert {(event.scope, event.limit) for event in reached} == {(what, 0.03)}
        assert all(event.spent >= 0.03 and event.session == session.id for event in reached)
        assert len(reached) == sum(isinstance(event, StepFailed) for event in events)
        # Whom the limit is not about is noted still.
        other = memory.session("shop", owner="ben")
        await talk(other, clock, 1, 20)
        assert (model.calls > 3) == (what != "day")


async def test_an_argument_stands_in_place_of_the_settings() -> None:
    clock, model = FrozenClock(START), clerk()
    settings = replace(SETTINGS, spend_per_day=0.01)
    async with onlooker.open_memory(
        ":memory:", model=model, settings=settings, spend=Spend(per_session=0.02), clock=clock
    ) as memory:
        await talk(memory.session("shop"), clock, 1, 60)
    assert model.calls == 2


@pytest.mark.parametrize("url", [":memory:", "a.db"])
async def test_deleting_a_session_gives_no_money_back(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clock, model = FrozenClock(START), clerk()
    settings = replace(SETTINGS, spend_per_owner=0.03)
    async with onlooker.open_memory(url, model=model, settings=settings, clock=clock) as memory:
        session = memory.session("shop", owner="ana")
        await talk(session, clock, 1, 60)
        assert model.calls == 3
        await session.delete()
        await talk(session, clock, 1, 60)
        assert model.calls == 3
        assert sum(usage.cost or 0 for usage in await memory.usage()) == pytest.approx(0.03)


@pytest.mark.parametrize("value", [-1, "much", float("inf"), float("nan"), True])
def test_a_limit_is_an_amount_of_dollars(value: object) -> None:
    with pytest.raises(SettingsError, match="spend_per_day"):
        onlooker.from_mapping({"onlooker": {"spend_per_day": value}})
    assert onlooker.from_mapping({"onlooker": {"spend_per_day": 5}}).spend_per_day == 5


# ------------------------------------------------------------------------------------ command line


def spending(path: Path) -> None:
    async def spend() -> None:
        clock = FrozenClock(datetime.now(UTC))
        settings = replace(SETTINGS, spend_per_session=0.03)
        async with onlooker.open_memory(path, model=clerk(), settings=settings, clock=clock) as memory:
            await talk(memory.session("shop", owner="ana"), clock, 1, 60)

    asyncio.run(spend())


def test_status_and_doctor_show_what_was_spent_and_which_limit_is_reached(tmp_path: Path) -> None:
    db, file = tmp_path / "a.db", tmp_path / "s.toml"
    spending(db)
    (status,) = call("status", "--db", db, "--json").json
    assert (status["spent"], status["spend_limit"]) == (0.03, None)
    (found,) = [f for f in call("doctor", "--db", db, "--json").json if f["name"] == "spend"]
    assert found["ok"]
    assert found["found"].endswith("$0.0300 by one owner, $0.0300 in one session")

    assert call("settings", "set", "spend_per_session", "0.03", "--config", file).code == 0
    assert call("settings", "set", "spend_per_owner", 5, "--config", file).code == 0
    assert "$0.0300 of $0.03" in call("status", "--db", db, "--config", file).out
    done = call("doctor", "--db", db, "--config", file, "--json")
    (found,) = [f for f in done.json if f["name"] == "spend"]
    assert (done.code, found["ok"]) == (1, False)
    assert found["found"].endswith("$0.0300 by one owner of $5, $0.0300 in one session of $0.03")
    assert "raise the limit" in found["advice"]


def test_where_nothing_was_paid_for_status_has_no_column_for_it(tmp_path: Path) -> None:
    async def talk_for_free() -> None:
        clock = FrozenClock(START)
        async with onlooker.open_memory(tmp_path / "a.db", settings=SETTINGS, clock=clock) as memory:
            await talk(memory.session("shop"), clock, 1, 4)

    asyncio.run(talk_for_free())
    assert "spent" not in call("status", "--db", tmp_path / "a.db").out


# ------------------------------------------------------------------------------------ who wrote it


@pytest.mark.req(8)
async def test_a_note_names_the_model_that_answered_and_not_those_it_was_chosen_from() -> None:
    clock = FrozenClock(START)
    down = ScriptedModel(lambda _: ModelError("down"), name="test:first")
    model = Fallback([down, ScriptedModel(name="test:second")])
    assert model.name == "test:first or test:second"
    async with onlooker.open_memory(":memory:", model=model, settings=SETTINGS, clock=clock) as memory:
        session = memory.session("shop")
        await talk(session, clock, 1, 100)
        notes = await session.notes()
    assert {(note.kind, note.model) for note in notes} == {
        ("observation", "test:second"),
        ("reflection", "test:second"),
    }
