"""What calls cost, and limits on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from onlooker.domain.errors import SettingsError, SpendError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Usage
from onlooker.models.calling import Breaker, Price, Priced, Spend, SpendLimit
from onlooker.policy.intake import user
from onlooker.ports import ObserveRequest, Reply
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

ANA = SessionId("ana", "telegram:42")


def ask(session: SessionId = ANA) -> ObserveRequest:
    said = replace(user("Ana moved to Oslo"), id="m1", seq=1, tokens=10, at=datetime(2026, 2, 16, tzinfo=UTC))
    return ObserveRequest(session, (said,), (), 40)


PRICES = {"cheap": Price(input=0.25, output=2.0)}


def test_a_call_costs_what_its_tokens_cost_per_million() -> None:
    assert PRICES["cheap"].of(1_000_000, 500_000) == 1.25


async def test_replies_carry_their_cost_by_the_table_or_as_they_came() -> None:
    reply = Reply("## 2026-02-16\nNoted.", "stop", 4_000_000, 1_000_000)
    assert (await Priced(ScriptedModel(reply, name="cheap"), PRICES).write(ask())).cost == 3.0
    assert (await Priced(ScriptedModel(reply, name="other"), PRICES).write(ask())).cost is None
    known = replace(reply, cost=7.0)
    assert (await Priced(ScriptedModel(known, name="other"), PRICES).write(ask())).cost == 7.0
    chosen = replace(reply, model="cheap")
    assert (await Priced(ScriptedModel(chosen, name="a or b"), PRICES).write(ask())).cost == 3.0


class Till:
    """A model behind spend limits, and a store in which its calls are recorded as the engine does."""

    def __init__(self, limits: Spend, *, each: float | None = 1.0) -> None:
        self.clock = FrozenClock(datetime(2026, 2, 16, 22, 0, tzinfo=UTC))
        self.store = SqliteStore(":memory:")
        self._each = each
        self.model = ScriptedModel(lambda _: Reply("## 2026-02-16\nNoted.", cost=each))
        self.limited = SpendLimit(self.model, limits, self.store, clock=self.clock)

    async def call(self, session: SessionId = ANA) -> None:
        reply = await self.limited.write(ask(session))
        usage = Usage("m", "observe", 1, 1, "accepted", self.clock.now(), reply.cost)
        await self.store.record_usage(session, usage)


async def opened(limits: Spend, *, each: float | None = 1.0) -> Till:
    till = Till(limits, each=each)
    await till.store.open()
    return till


async def test_a_limit_per_session_stops_calls_for_that_session_alone() -> None:
    till = await opened(Spend(per_session=2.0))
    await till.call()
    await till.call()
    with pytest.raises(SpendError, match=r"\$2\.0000 spent for this session, the limit is \$2") as caught:
        await till.call()
    assert (caught.value.what, caught.value.spent, caught.value.limit) == ("session", 2.0, 2.0)
    await till.call(ANA._replace(key="another"))
    assert till.model.calls == 3


async def test_a_limit_per_owner_holds_over_all_their_sessions() -> None:
    till = await opened(Spend(per_owner=2.0))
    await till.call()
    await till.call(ANA._replace(key="another"))
    with pytest.raises(SpendError, match="for this owner"):
        await till.call(ANA._replace(key="a third"))
    await till.call(SessionId("ben", "telegram:42"))


async def test_a_limit_per_day_begins_anew_at_midnight() -> None:
    till = await opened(Spend(per_day=1.0))
    await till.call()
    with pytest.raises(SpendError, match="for today"):
        await till.call()
    till.clock.advance(2 * 3600)
    await till.call()


async def test_a_day_is_one_of_the_time_zone_that_was_asked_for() -> None:
    till = await opened(Spend(per_day=1.0, tz=timezone(timedelta(hours=1))))
    await till.call()
    with pytest.raises(SpendError):
        await till.call()
    till.clock.advance(3600)  # midnight there
    await till.call()
    assert till.model.calls == 2


async def test_a_limit_of_nothing_allows_nothing() -> None:
    till = await opened(Spend(per_day=0.0))
    with pytest.raises(SpendError):
        await till.call()
    assert till.model.calls == 0


async def test_a_limit_says_nothing_about_the_model_behind_it() -> None:
    till = await opened(Spend(per_day=0.0))
    breaker = Breaker(till.limited, failures=1)
    for _ in range(3):
        with pytest.raises(SpendError):
            await breaker.write(ask())
    assert not breaker.is_open


async def test_calls_of_unknown_cost_are_not_counted_and_said_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    till = await opened(Spend(per_day=1.0), each=None)
    await till.call()
    await till.call()
    assert [record.message for record in caplog.records] == [
        "scripted has no known price: spend limits do not count its calls"
    ]


@pytest.mark.parametrize("amount", [-1.0, float("nan")])
def test_a_limit_is_an_amount_of_money(amount: float) -> None:
    with pytest.raises(SettingsError, match="per_day"):
        Spend(per_day=amount)
