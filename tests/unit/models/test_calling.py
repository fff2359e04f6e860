"""Calling models: retries, breakers, limits, fallbacks, prices and spend limits, alone and combined."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from onlooker.domain.errors import ModelError, SettingsError, SpendError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Usage
from onlooker.models.calling import (
    Breaker,
    BySize,
    CallError,
    Deadline,
    FailureKind,
    Fallback,
    Limited,
    Price,
    Priced,
    Retries,
    Spend,
    SpendLimit,
    guarded,
)
from onlooker.policy.intake import user
from onlooker.ports import Model, ObserveRequest, Reply
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import FaultyModel, FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio

ANA = SessionId("ana", "telegram:42")
DOWN = CallError("down", "server")
PRICES = {"cheap": Price(input=0.25, output=2.0)}


def ask(tokens: int = 10, session: SessionId = ANA) -> ObserveRequest:
    said = replace(
        user("Ana moved to Oslo"), id="m1", seq=1, tokens=tokens, at=datetime(2026, 2, 16, tzinfo=UTC)
    )
    return ObserveRequest(session, (said,), (), 40)


class Slept:
    """Sleeping that only moves the clock, and remembers for how long."""

    def __init__(self, clock: FrozenClock | None = None) -> None:
        self.seconds: list[float] = []
        self._clock = clock or FrozenClock()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._clock.advance(seconds)


async def failure(call: Awaitable[Reply]) -> CallError:
    with pytest.raises(CallError) as caught:
        await call
    return caught.value


# ------------------------------------------------------------------------------------ waiting


async def test_a_deadline_ends_a_call_that_hangs() -> None:
    error = await failure(Deadline(FaultyModel("hang"), 0.02).write(ask()))
    assert error.kind == "timeout"
    assert str(error) == "faulty (hang) did not answer within 0.02 s"


async def test_a_deadline_leaves_the_model_s_own_timeout_alone() -> None:
    with pytest.raises(TimeoutError, match="the provider did not answer in time"):
        await Deadline(FaultyModel("timeout"), 5).write(ask())


async def test_a_failure_that_may_pass_is_tried_again_after_longer_and_longer_waits() -> None:
    slept = Slept()
    model = ScriptedModel(
        DOWN, CallError("gone", "connection"), TimeoutError("slow"), "## 2026-02-16\nNoted."
    )
    retries = Retries(model, attempts=4, first_wait=1.0, sleep=slept, chance=lambda: 1.0)
    assert (await retries.write(ask())).text == "## 2026-02-16\nNoted."
    assert slept.seconds == [1.0, 2.0, 4.0]


async def test_waits_are_spread_out_between_half_and_the_whole() -> None:
    slept = Slept()
    retries = Retries(
        ScriptedModel(DOWN, DOWN), first_wait=8.0, sleep=slept, chance=iter([0.0, 0.5]).__next__
    )
    await retries.write(ask())
    assert slept.seconds == [4.0, 12.0]


async def test_a_rate_limit_is_waited_for_as_long_as_the_provider_asks() -> None:
    slept = Slept()
    model = ScriptedModel(CallError("429", "rate", retry_after=20.0), None)
    await Retries(model, sleep=slept, chance=lambda: 0.0).write(ask())
    assert slept.seconds == [20.0]


async def test_a_wait_longer_than_is_sensible_is_left_to_whoever_called() -> None:
    slept = Slept()
    model = ScriptedModel(CallError("429", "rate", retry_after=3600.0))
    error = await failure(Retries(model, longest=30.0, sleep=slept).write(ask()))
    assert (error.retry_after, slept.seconds, model.calls) == (3600.0, [], 1)


@pytest.mark.parametrize("kind", ["rejected", "denied", "quota", "resting", "spent", "other"])
async def test_a_failure_that_will_not_pass_is_not_tried_again(kind: FailureKind) -> None:
    model = ScriptedModel(CallError("no", kind))
    await failure(Retries(model, sleep=Slept()).write(ask()))
    assert model.calls == 1


async def test_retries_end_with_the_last_failure() -> None:
    model = ScriptedModel(DOWN, DOWN, CallError("still down", "server"))
    assert str(await failure(Retries(model, attempts=3, sleep=Slept()).write(ask()))) == "still down"
    assert model.calls == 3


async def test_what_escapes_a_model_becomes_a_model_error() -> None:
    for model in (Retries(FaultyModel("timeout"), attempts=1), Breaker(FaultyModel("timeout"))):
        error = await failure(model.write(ask()))
        assert isinstance(error, ModelError)
        assert error.kind == "timeout"
        assert isinstance(error.__cause__, TimeoutError)


# ------------------------------------------------------------------------------------ breaker


async def fail(model: Model, times: int) -> None:
    for _ in range(times):
        await failure(model.write(ask()))


async def test_a_breaker_opens_after_so_many_failures_in_a_row() -> None:
    clock = FrozenClock()
    model = ScriptedModel(DOWN, DOWN, None, DOWN, DOWN, DOWN)
    breaker = Breaker(model, failures=3, rest=30, clock=clock)
    await fail(breaker, 2)
    await breaker.write(ask())  # a success begins the count anew
    await fail(breaker, 3)
    assert breaker.is_open
    error = await failure(breaker.write(ask()))
    assert (error.kind, error.retry_after, model.calls) == ("resting", 30.0, 6)
    assert str(error) == "scripted failed 3 times in a row: the next attempt is in 30 s"


async def test_an_open_breaker_lets_one_call_through_after_its_rest_and_closes_when_that_succeeds() -> None:
    clock = FrozenClock()
    answered = asyncio.Event()

    async def slowly(request: object) -> None:
        await answered.wait()

    model = ScriptedModel(DOWN, slowly)
    breaker = Breaker(model, failures=1, rest=30, clock=clock)
    await fail(breaker, 1)
    clock.advance(30)
    probe = asyncio.create_task(breaker.write(ask()))
    await asyncio.sleep(0)
    assert (await failure(breaker.write(ask()))).kind == "resting"  # one at a time
    answered.set()
    await probe
    assert not breaker.is_open
    await breaker.write(ask())
    assert model.calls == 3


async def test_a_breaker_whose_probe_fails_rests_again() -> None:
    clock = FrozenClock()
    model = ScriptedModel(DOWN, DOWN, None)
    breaker = Breaker(model, failures=1, rest=30, clock=clock)
    await fail(breaker, 1)
    clock.advance(31)
    await fail(breaker, 1)
    assert (await failure(breaker.write(ask()))).kind == "resting"
    clock.advance(31)
    await breaker.write(ask())
    assert model.calls == 3


async def test_a_cancelled_probe_does_not_keep_the_breaker_shut_for_ever() -> None:
    clock = FrozenClock()
    hanging = Breaker(ScriptedModel(DOWN, _for_ever, None), failures=1, rest=1, clock=clock)
    await fail(hanging, 1)
    clock.advance(2)
    probe = asyncio.create_task(hanging.write(ask()))
    await asyncio.sleep(0)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    await hanging.write(ask())
    assert not hanging.is_open


async def _for_ever(request: object) -> None:
    await asyncio.Event().wait()


async def test_a_request_that_is_rejected_for_what_it_holds_does_not_count_against_the_model() -> None:
    breaker = Breaker(ScriptedModel(*[CallError("too long", "rejected")] * 5), failures=2)
    await fail(breaker, 5)
    assert not breaker.is_open


async def test_a_breaker_rests_as_long_as_the_provider_asks() -> None:
    clock = FrozenClock()
    breaker = Breaker(
        ScriptedModel(CallError("429", "rate", retry_after=600.0)), failures=1, rest=30, clock=clock
    )
    await fail(breaker, 1)
    clock.advance(60)
    assert (await failure(breaker.write(ask()))).retry_after == 540.0


async def test_a_clock_that_goes_back_does_not_keep_a_breaker_open() -> None:
    clock = FrozenClock()
    breaker = Breaker(ScriptedModel(DOWN), failures=1, rest=30, clock=clock)
    await fail(breaker, 1)
    clock.advance(-86_400)
    await fail(breaker, 1)
    clock.advance(30)
    await breaker.write(ask())


# ------------------------------------------------------------------------------------ limits


async def test_no_more_calls_than_allowed_run_at_once() -> None:
    running: list[int] = [0, 0]  # now, at most

    async def count(request: object) -> None:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0)
        running[0] -= 1

    limited = Limited(ScriptedModel(count), concurrency=2)
    await asyncio.gather(*(limited.write(ask()) for _ in range(7)))
    assert running == [0, 2]


async def test_calls_beyond_the_rate_wait_until_a_minute_has_passed() -> None:
    clock = FrozenClock()
    slept = Slept(clock)
    limited = Limited(ScriptedModel(), per_minute=2, clock=clock, sleep=slept)
    await limited.write(ask())
    clock.advance(20)
    for _ in range(3):
        await limited.write(ask())
    assert slept.seconds == [40.0, 20.0]


async def test_tokens_beyond_the_rate_wait_and_one_larger_than_the_rate_goes_alone() -> None:
    clock = FrozenClock()
    slept = Slept(clock)
    limited = Limited(ScriptedModel(), tokens_per_minute=1000, clock=clock, sleep=slept)
    for tokens in (600, 400, 600, 5000):
        await limited.write(ask(tokens))
    assert slept.seconds == [60.0, 60.0]


async def test_a_clock_that_goes_back_does_not_make_calls_wait_for_it() -> None:
    clock = FrozenClock()
    slept = Slept(clock)
    limited = Limited(ScriptedModel(), per_minute=1, clock=clock, sleep=slept)
    await limited.write(ask())
    clock.advance(-86_400)
    await limited.write(ask())
    assert slept.seconds == []


# ------------------------------------------------------------------------------------ choosing


async def test_a_fallback_asks_the_next_model_when_one_does_not_answer() -> None:
    first, second = ScriptedModel(DOWN, name="a:x"), ScriptedModel(name="b:y")
    reply = await Fallback([first, second]).write(ask())
    assert (reply.model, first.calls, second.calls) == ("b:y", 1, 1)


@pytest.mark.parametrize(
    "bad", [Reply("I cannot", "refused", 10, 2, cost=0.25), Reply(" ", "stop", 10, 2, cost=0.25)]
)
async def test_a_fallback_passes_over_a_refusal_and_counts_what_it_cost(bad: Reply) -> None:
    good = Reply("## 2026-02-16\nNoted.", "stop", 10, 5, cost=0.5)
    reply = await Fallback([ScriptedModel(bad), ScriptedModel(good, name="b:y")]).write(ask())
    assert reply == replace(good, input_tokens=20, output_tokens=7, cost=0.75, model="b:y")


async def test_a_fallback_hands_on_the_refusal_when_all_refuse() -> None:
    refusal = Reply("I cannot", "refused")
    reply = await Fallback([ScriptedModel(refusal), ScriptedModel(DOWN), ScriptedModel(refusal)]).write(ask())
    assert reply.finish == "refused"


async def test_a_fallback_that_nobody_answers_says_what_each_said() -> None:
    models = [
        ScriptedModel(CallError("a: 429", "rate", retry_after=9.0)),
        ScriptedModel(CallError("b: 429", "rate", retry_after=3.0)),
    ]
    error = await failure(Fallback(models).write(ask()))
    assert (str(error), error.kind, error.retry_after) == ("a: 429; b: 429", "rate", 3.0)


async def test_a_fallback_takes_what_each_of_its_models_can_hold() -> None:
    fallback = Fallback([ScriptedModel(name="a", window=8_000), ScriptedModel(name="b", window=2_000)])
    assert (fallback.window, fallback.name) == (2_000, "a or b")
    with pytest.raises(SettingsError, match="at least one model"):
        Fallback([])


async def test_the_model_is_chosen_by_how_much_there_is_to_note() -> None:
    small, large = ScriptedModel(name="small", window=5_000), ScriptedModel(name="large", window=50_000)
    model = BySize((4_000, small), (None, large))
    written = [(await model.write(ask(tokens))).model for tokens in (10, 4_000, 4_001)]
    assert written == ["small", "small", "large"]
    assert (model.window, model.name) == (50_000, "small / large")


async def test_a_model_gets_no_more_than_its_window_whatever_its_limit() -> None:
    model = BySize((4_000, ScriptedModel(name="small", window=1_000)), (None, ScriptedModel(name="large")))
    assert (await model.write(ask(2_000))).model == "large"


@pytest.mark.parametrize("limits", [[], [4_000], [None, 4_000], [9, 5, None], [None, None]])
def test_a_choice_by_size_needs_rising_limits_and_one_model_for_the_rest(limits: list[int | None]) -> None:
    with pytest.raises(SettingsError, match="models"):
        BySize(*((limit, ScriptedModel()) for limit in limits))


# ------------------------------------------------------------------------------------ money


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
        reply = await self.limited.write(ask(session=session))
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
    assert (caught.value.scope, caught.value.spent, caught.value.limit) == ("session", 2.0, 2.0)
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


# ------------------------------------------------------------------------------------ together


async def test_they_compose() -> None:
    clock = FrozenClock()
    slept = Slept(clock)
    broken = Breaker(Retries(FaultyModel("error"), sleep=slept), failures=2, clock=clock)
    spare = Priced(Deadline(ScriptedModel(name="cheap"), 5), PRICES)
    model = Limited(Fallback([broken, spare]), concurrency=1)
    replies = [await model.write(ask()) for _ in range(4)]
    assert {reply.model for reply in replies} == {"cheap"}
    assert all(reply.cost is not None for reply in replies)
    assert len(slept.seconds) == 4  # two calls of three attempts, and then it rests


async def test_a_guarded_model_is_left_alone_while_it_keeps_failing() -> None:
    refused = CallError("wrong key", "denied")
    model = ScriptedModel(lambda _: refused)
    guard = guarded(model, clock=FrozenClock())
    for _ in range(8):
        await failure(guard.write(ask()))
    assert (model.calls, guard.name, guard.window) == (5, model.name, model.window)


WRAPPERS: list[Callable[[Model], Model]] = [
    lambda model: Deadline(model, 5),
    Retries,
    Breaker,
    Limited,
    lambda model: Priced(model, {}),
    lambda model: SpendLimit(model, Spend(), SqliteStore(":memory:")),
]


@pytest.mark.parametrize("wrap", WRAPPERS)
async def test_each_has_the_name_and_window_of_the_model_inside(
    wrap: Callable[[Model], Model],
) -> None:
    inside = ScriptedModel(name="a:x", window=1234)
    model = wrap(inside)
    assert (model.name, model.window) == ("a:x", 1234)
    assert (await model.write(ask())).text
    assert inside.calls == 1
