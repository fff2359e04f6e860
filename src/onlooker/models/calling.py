"""Calling models: retries, deadlines, rate limits, breakers, fallbacks, prices and spend limits.

Each wrapper takes one or more models and is a model itself, so they can be combined:

    Fallback([guarded(LanguageModel("openai:gpt-5-mini")), guarded(LanguageModel("ollama:qwen3"))])
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

from onlooker.domain.errors import ModelError, SettingsError, SpendError, SpendScope
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId
from onlooker.ports import Clock, ItemsRequest, Model, ObserveRequest, Reply, Request, Store, SystemClock

log = logging.getLogger("onlooker")

Sleep = Callable[[float], Awaitable[None]]


# -- Failures

FailureKind = Literal[
    "rate",  # too many requests
    "server",  # the provider is at fault
    "connection",  # the connection was lost, or never made
    "timeout",  # no answer in time
    "unreadable",  # the answer cannot be read
    "rejected",  # the provider will never accept this request
    "denied",  # the key is not accepted
    "quota",  # the account is used up
    "resting",  # a breaker is open
    "spent",  # a spend limit is reached
    "other",
]
_TRANSIENT: frozenset[FailureKind] = frozenset(("rate", "server", "connection", "timeout", "unreadable"))


class CallError(ModelError):
    """A call that failed. `retry_after` is how many seconds the provider asks to wait."""

    def __init__(
        self, message: str, kind: FailureKind = "other", *, retry_after: float | None = None
    ) -> None:
        self.kind: FailureKind = kind
        self.retry_after = retry_after
        super().__init__(message)


def failure_kind(error: Exception) -> FailureKind:
    """Return the kind of any exception that a model raises."""
    match error:
        case CallError():
            return error.kind
        case SpendError():
            return "spent"
        case TimeoutError():
            return "timeout"
        case OSError():
            return "connection"
        case ModelError():
            return "server"  # it gives no reason, so the next call may well succeed
        case _:
            return "other"


def request_tokens(request: Request) -> int:
    """Return the tokens of a request's messages and notes, as counted when they were recorded."""
    if isinstance(request, ObserveRequest):
        return sum(message.tokens for message in request.messages)
    messages = request.messages if isinstance(request, ItemsRequest) else ()
    return sum(note.tokens for note in request.notes) + sum(message.tokens for message in messages)


# -- One model, called with care


class ModelWrapper:
    """A model around another, with the same name and window."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def window(self) -> int:
        return self._model.window

    async def _call(self, request: Request) -> Reply:
        """Call the inner model. Exceptions other than `ModelError` become a `CallError`."""
        try:
            return await self._model.write(request)
        except ModelError:
            raise
        except Exception as error:
            message = f"{self.name}: {type(error).__name__}: {error}".rstrip(": ")
            raise CallError(message, failure_kind(error)) from error


def guarded(model: Model, *, clock: Clock | None = None) -> Model:
    """Add retries and a breaker, as every model has that is given by name."""
    return Breaker(Retries(model), clock=clock)


class Deadline(ModelWrapper):
    """Gives up on a call after `seconds`."""

    def __init__(self, model: Model, seconds: float) -> None:
        super().__init__(model)
        self._seconds = seconds

    async def write(self, request: Request) -> Reply:
        scope = asyncio.timeout(self._seconds)
        try:
            async with scope:
                return await self._model.write(request)
        except TimeoutError as error:
            if not scope.expired():
                raise  # the model's own timeout, which says more
            raise CallError(f"{self.name} did not answer within {self._seconds:g} s", "timeout") from error


class Retries(ModelWrapper):
    """Repeats a call that failed for a reason that may pass: a rate limit, a server error, a lost connection.

    It waits as long as the provider asks. Otherwise the wait doubles each time, with a random part, so that
    many callers do not return at once. If the provider asks for more than `longest` seconds, it gives up:
    long waits are left to the session's own back-off.
    """

    def __init__(
        self,
        model: Model,
        *,
        attempts: int = 3,
        first_wait: float = 1.0,
        longest: float = 30.0,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(model)
        self._attempts = attempts
        self._first_wait = first_wait
        self._longest = longest
        self._sleep = sleep
        self._chance = chance

    async def write(self, request: Request) -> Reply:
        attempt = 1
        while True:
            try:
                return await self._call(request)
            except ModelError as error:
                wait = self._wait_after(error, attempt)
                if wait is None:
                    raise
            await self._sleep(wait)
            attempt += 1

    def _wait_after(self, error: ModelError, attempt: int) -> float | None:
        """Return the seconds until the next attempt, or None if there is none."""
        if attempt >= self._attempts or failure_kind(error) not in _TRANSIENT:
            return None
        asked = error.retry_after if isinstance(error, CallError) else None
        if asked is not None:
            # Never sooner than asked, and a little later at random.
            return asked * (1 + self._chance() / 10) if asked <= self._longest else None
        wait = min(self._longest, self._first_wait * 2.0 ** (attempt - 1))
        return wait * (0.5 + self._chance() / 2)


class Breaker(ModelWrapper):
    """Opens after `failures` failures in a row: calls then fail at once, without reaching the model.

    After `rest` seconds, or longer if the provider asks, one call is let through. If it succeeds the breaker
    closes, and if it fails the breaker opens again. A request that the provider rejects says nothing about
    the model and does not count.
    """

    def __init__(
        self, model: Model, *, failures: int = 5, rest: float = 30.0, clock: Clock | None = None
    ) -> None:
        super().__init__(model)
        self._most = failures
        self._rest = rest
        self._clock = clock or SystemClock()
        self._failed = 0
        self._opened: datetime | None = None
        self._until: datetime | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether calls fail without reaching the model."""
        return self._until is not None

    async def write(self, request: Request) -> Reply:
        probe = self._admit()
        try:
            reply = await self._call(request)
        except ModelError as error:
            self._count(error)
            raise
        finally:
            # Also if the call is cancelled: then the next one is the probe.
            if probe:
                self._probing = False
        self._failed, self._until = 0, None
        return reply

    def _admit(self) -> bool:
        """Return whether this call is the probe of an open breaker.

        Raises:
            CallError: The breaker is open.
        """
        if self._until is None:
            return False
        left = self._seconds_left()
        if left > 0 or self._probing:
            state = f"the next attempt is in {left:.0f} s" if left > 0 else "an attempt is under way"
            raise CallError(
                f"{self.name} failed {self._failed} times in a row: {state}",
                "resting",
                retry_after=max(left, 0.0),
            )
        self._probing = True
        return True

    def _seconds_left(self) -> float:
        assert self._until is not None
        assert self._opened is not None
        now = self._clock.now()
        # If the clock goes back, the breaker must not stay open for that much longer.
        if now < self._opened:
            self._until, self._opened = now + (self._until - self._opened), now
        return (self._until - now).total_seconds()

    def _count(self, error: ModelError) -> None:
        if failure_kind(error) in ("rejected", "spent"):
            return
        self._failed += 1
        if self._failed >= self._most:
            asked = error.retry_after if isinstance(error, CallError) else None
            self._opened = self._clock.now()
            self._until = self._opened + timedelta(seconds=max(self._rest, asked or 0.0))


_MINUTE = timedelta(minutes=1)


class Limited(ModelWrapper):
    """Limits the calls at once, and the calls and input tokens in any minute. Other calls wait.

    Use one object for the observer and the reflector if they are to share the limits.
    """

    def __init__(
        self,
        model: Model,
        *,
        concurrency: int = 4,
        per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Clock | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(model)
        self._slots = asyncio.Semaphore(concurrency)
        self._queue = asyncio.Lock()
        self._per_minute = per_minute
        self._tokens_per_minute = tokens_per_minute
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._calls: deque[tuple[datetime, int]] = deque()  # time and tokens, oldest first

    async def write(self, request: Request) -> Reply:
        async with self._slots:
            await self._wait(request_tokens(request))
            return await self._model.write(request)

    async def _wait(self, tokens: int) -> None:
        # First come, first served: a small request does not overtake a large one that waits.
        async with self._queue:
            while (seconds := self._seconds_to_wait(tokens)) > 0:
                await self._sleep(seconds)
            self._calls.append((self._clock.now(), tokens))

    def _seconds_to_wait(self, tokens: int) -> float:
        now = self._clock.now()
        # Calls older than a minute no longer count, nor calls from before the clock was set back.
        while self._calls and not now - _MINUTE < self._calls[0][0] <= now:
            self._calls.popleft()
        if not self._calls or self._fits(tokens):
            return 0.0
        return (self._calls[0][0] + _MINUTE - now).total_seconds()

    def _fits(self, tokens: int) -> bool:
        if self._per_minute is not None and len(self._calls) >= self._per_minute:
            return False
        used = sum(size for _, size in self._calls)
        return self._tokens_per_minute is None or used + tokens <= self._tokens_per_minute


# -- Several models


class Fallback:
    """Asks each model in turn until one answers. A model that refuses, or answers nothing, is passed over."""

    def __init__(self, models: Sequence[Model]) -> None:
        if not models:
            raise SettingsError("models", [], "must contain at least one model")
        self._models = tuple(models)

    @property
    def name(self) -> str:
        return " or ".join(model.name for model in self._models)

    @property
    def window(self) -> int:
        """The smallest window, since any of the models may be called."""
        return min(model.window for model in self._models)

    async def write(self, request: Request) -> Reply:
        failures: list[Exception] = []
        declined: Reply | None = None
        for model in self._models:
            try:
                reply = await model.write(request)
            except Exception as error:  # noqa: BLE001  whatever it is, the next model may answer
                log.info("%s did not answer: %s", model.name, error)
                failures.append(error)
                continue
            reply = _add_usage(replace(reply, model=reply.model or model.name), declined)
            if reply.finish != "refused" and reply.text.strip():
                return reply
            declined = reply
        if declined is not None:
            return declined  # the judge says why it is not a note
        raise _all_failed(failures)


def _add_usage(reply: Reply, earlier: Reply | None) -> Reply:
    """Add the tokens and cost of an earlier reply."""
    if earlier is None:
        return reply
    known = earlier.cost is not None and reply.cost is not None
    return replace(
        reply,
        input_tokens=earlier.input_tokens + reply.input_tokens,
        output_tokens=earlier.output_tokens + reply.output_tokens,
        cost=(earlier.cost or 0.0) + (reply.cost or 0.0) if known else None,
    )


def _all_failed(failures: Sequence[Exception]) -> CallError:
    waits = [e.retry_after for e in failures if isinstance(e, CallError) and e.retry_after is not None]
    # Another attempt makes sense as soon as one model can be called again.
    after = min(waits) if len(waits) == len(failures) else None
    return CallError("; ".join(str(e) for e in failures), failure_kind(failures[-1]), retry_after=after)


class BySize:
    """Chooses a model by the size of the request: `BySize((4_000, small), (None, large))`.

    The first model is chosen whose limit, in tokens of messages or notes, is not exceeded. The last model has
    no limit.
    """

    def __init__(self, *models: tuple[int | None, Model]) -> None:
        limits = [limit for limit, _ in models]
        numbers = [limit for limit in limits if limit is not None]
        if not models or limits[-1] is not None or len(numbers) != len(limits) - 1:
            raise SettingsError("models", limits, "must end with (None, model), and have no other None")
        if numbers != sorted(numbers):
            raise SettingsError("models", limits, "must have their limits in ascending order")
        self._models = models

    @property
    def name(self) -> str:
        return " / ".join(dict.fromkeys(model.name for _, model in self._models))

    @property
    def window(self) -> int:
        """The window of the last model. The others get no more than their own windows."""
        return self._models[-1][1].window

    async def write(self, request: Request) -> Reply:
        model = self._choose(request_tokens(request))
        reply = await model.write(request)
        return replace(reply, model=reply.model or model.name)

    def _choose(self, tokens: int) -> Model:
        for limit, model in self._models[:-1]:
            if limit is not None and tokens <= min(limit, model.window):
                return model
        return self._models[-1][1]


# -- Money


@frozen
class Price:
    """Dollars per million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of a call in dollars."""
        return (self.input * input_tokens + self.output * output_tokens) / 1_000_000


class Priced(ModelWrapper):
    """Adds the cost of each call from a table of prices by model name.

    For a model that is not in the table, the cost that the reply itself gives stays.
    """

    def __init__(self, model: Model, prices: Mapping[str, Price]) -> None:
        super().__init__(model)
        self._prices = prices

    async def write(self, request: Request) -> Reply:
        reply = await self._model.write(request)
        price = self._prices.get(reply.model or self.name)
        if price is None:
            return reply
        return replace(reply, cost=price.of(reply.input_tokens, reply.output_tokens))


@frozen
class Spend:
    """Dollars that note-taking may cost. None means no limit. A day begins at midnight in `tz`."""

    per_session: float | None = None
    per_owner: float | None = None
    per_day: float | None = None
    tz: tzinfo = UTC

    def __post_init__(self) -> None:
        for key in ("per_session", "per_owner", "per_day"):
            limit = getattr(self, key)
            if limit is not None and not limit >= 0:
                raise SettingsError(key, limit, "must be an amount in dollars, 0 or more")


class SpendLimit(ModelWrapper):
    """Stops model calls when a limit is reached. Memory continues: messages stay raw, and when they no longer
    fit, the built-in model notes them.

    The amount spent is read from the store before each call, so limits hold across restarts and processes.
    Calls under way when a limit is reached complete. A call of unknown cost counts as nothing.
    """

    def __init__(self, model: Model, limits: Spend, store: Store, *, clock: Clock | None = None) -> None:
        super().__init__(model)
        self._limits = limits
        self._store = store
        self._clock = clock or SystemClock()
        self._warned = False

    async def write(self, request: Request) -> Reply:
        await self._check(request.session)
        reply = await self._model.write(request)
        if reply.cost is None and not self._warned:
            self._warned = True
            log.warning("%s has no known price: spend limits do not count its calls", self.name)
        return reply

    async def _check(self, session: SessionId) -> None:
        limits, spent = self._limits, self._store.spent
        if limits.per_session is not None:
            self._refuse(await spent(session=session), limits.per_session, "session")
        if limits.per_owner is not None:
            self._refuse(await spent(owner=session.owner), limits.per_owner, "owner")
        if limits.per_day is not None:
            self._refuse(await spent(since=self._midnight()), limits.per_day, "day")

    def _midnight(self) -> datetime:
        here = self._clock.now().astimezone(self._limits.tz)
        return here.replace(hour=0, minute=0, second=0, microsecond=0)

    def _refuse(self, spent: float, limit: float, what: SpendScope) -> None:
        if spent >= limit:
            raise SpendError(self.name, what, spent, limit)
