"""Models made of models: each of these wraps one or several and is a model itself, so they compose.

Fallback([guarded(LanguageModel("openai:gpt-5-mini")), guarded(LanguageModel("ollama:qwen3"))])
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, Protocol

from onlooker.domain.errors import ModelError, SettingsError, SpendError, SpendScope
from onlooker.domain.messages import SessionId
from onlooker.models.times import SystemClock
from onlooker.ports import Clock, ItemsRequest, Model, ObserveRequest, Reply, Request

# -- Why a call to a model failed, as facts that a retry, a breaker or a fallback can go by

# rate: too many requests; server: the provider's own fault; connection, timeout: no whole answer came;
# unreadable: an answer came and is none; rejected: this request will never be taken; denied: the key;
# quota: the account; resting: a breaker is open; spent: a spend limit; other: anything else.
Kind = Literal[
    "rate",
    "server",
    "connection",
    "timeout",
    "unreadable",
    "rejected",
    "denied",
    "quota",
    "resting",
    "spent",
    "other",
]
_WORTH_ANOTHER_TRY: frozenset[Kind] = frozenset(("rate", "server", "connection", "timeout", "unreadable"))


class CallError(ModelError):
    """A call that failed: what kind of failure, and how long the provider asks to be left alone."""

    def __init__(self, message: str, kind: Kind = "other", *, retry_after: float | None = None) -> None:
        self.kind: Kind = kind
        self.retry_after = retry_after
        super().__init__(message)


def kind_of(error: Exception) -> Kind:
    """The kind of any failure of a model, one of somebody else's making included."""
    if isinstance(error, CallError):
        return error.kind
    if isinstance(error, SpendError):
        return "spent"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, OSError):
        return "connection"
    # A model that only says that it failed may well answer the next time.
    return "server" if isinstance(error, ModelError) else "other"


def worth_another_try(error: Exception) -> bool:
    """Whether the same request may be answered when it is sent again."""
    return kind_of(error) in _WORTH_ANOTHER_TRY


def foreign(name: str, error: Exception) -> CallError:
    """A failure outside the tree of errors that the port names, as one of it."""
    return CallError(f"{name}: {type(error).__name__}: {error}".rstrip(": "), kind_of(error))


# -- How much a request holds


def size_of(request: Request) -> int:
    """Tokens of the messages or notes that are to be noted, as they were counted when recorded."""
    if isinstance(request, ObserveRequest):
        return sum(message.tokens for message in request.messages)
    said = request.messages if isinstance(request, ItemsRequest) else ()
    return sum(note.tokens for note in request.notes) + sum(message.tokens for message in said)


# -- A model around another


class Wrapped:
    """It goes by the other's name, and takes as much at once."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def window(self) -> int:
        return self._model.window


# -- How long to wait for a model, and how often to ask it again

Sleep = Callable[[float], Awaitable[None]]


class Deadline(Wrapped):
    """Gives up on a model that has not answered after so many seconds."""

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
                raise  # the model's own, which says more
            raise CallError(f"{self.name} did not answer within {self._seconds:g} s", "timeout") from error


class Retries(Wrapped):
    """Asks again where that may help: a rate limit, a server's fault, a lost connection.

    It waits as long as the provider asks for, else twice as long each time, and a random part of that, so
    that many callers do not come back at once. Where the provider asks for more than `longest` seconds it
    gives up at once: the session's own back-off is made for long waits.
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
                return await self._model.write(request)
            except ModelError as error:
                wait = self._wait_after(error, attempt)
                if wait is None:
                    raise
            except Exception as error:
                wait = self._wait_after(error, attempt)
                if wait is None:
                    raise foreign(self.name, error) from error
            await self._sleep(wait)
            attempt += 1

    def _wait_after(self, error: Exception, attempt: int) -> float | None:
        """Seconds until the next attempt; None: there is none."""
        if attempt >= self._attempts or not worth_another_try(error):
            return None
        asked = error.retry_after if isinstance(error, CallError) else None
        if asked is not None:
            # Never sooner than asked for, and a little spread out.
            return asked * (1 + self._chance() / 10) if asked <= self._longest else None
        wait = min(self._longest, self._first_wait * 2.0 ** (attempt - 1))
        return wait * (0.5 + self._chance() / 2)


# -- Stay below what a provider, or a machine of one's own, can take

_MINUTE = timedelta(minutes=1)


class Limited(Wrapped):
    """At most so many calls at once, and so many calls and input tokens in any minute; others wait.

    One object for observer and reflector makes them share the limits.
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
        self._places = asyncio.Semaphore(concurrency)
        self._turn = asyncio.Lock()
        self._per_minute = per_minute
        self._tokens_per_minute = tokens_per_minute
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._calls: deque[tuple[datetime, int]] = deque()  # when, and how many tokens; oldest first

    async def write(self, request: Request) -> Reply:
        async with self._places:
            await self._wait(size_of(request))
            return await self._model.write(request)

    async def _wait(self, tokens: int) -> None:
        # First come, first served: a small request does not overtake one that waits.
        async with self._turn:
            while (seconds := self._seconds_to_wait(tokens)) > 0:
                await self._sleep(seconds)
            self._calls.append((self._clock.now(), tokens))

    def _seconds_to_wait(self, tokens: int) -> float:
        now = self._clock.now()
        # Those of more than a minute ago no longer count; nor do those after a clock that went back.
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


# -- Leave a model alone that keeps failing


class Breaker(Wrapped):
    """Opens after so many failures in a row: calls then fail at once, without reaching the model.

    After `rest` seconds, or as long as the provider asked for, one call is let through to see. Where it
    succeeds the breaker closes; where it fails it opens again. A request that the provider rejects for
    what it holds says nothing about the model and does not count.
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
        """Whether calls fail without being made."""
        return self._until is not None

    async def write(self, request: Request) -> Reply:
        probe = self._admit()
        try:
            reply = await self._model.write(request)
        except ModelError as error:
            self._note(error)
            raise
        except Exception as error:
            self._note(error)
            raise foreign(self.name, error) from error
        finally:
            # Also when the call is cancelled: the next one is the probe then.
            if probe:
                self._probing = False
        self._failed, self._until = 0, None
        return reply

    def _admit(self) -> bool:
        """Whether this call is the probe of an open breaker.

        Raises:
            CallError: The model rests.
        """
        if self._until is None:
            return False
        left = self._seconds_left()
        if left > 0 or self._probing:
            why = f"tried again in {left:.0f} s" if left > 0 else "being tried"
            raise CallError(
                f"{self.name} failed {self._failed} times in a row and is {why}",
                "resting",
                retry_after=max(left, 0.0),
            )
        self._probing = True
        return True

    def _seconds_left(self) -> float:
        assert self._until is not None
        assert self._opened is not None
        now = self._clock.now()
        # A clock that went back would keep it open for as long as it went back.
        if now < self._opened:
            self._until, self._opened = now + (self._until - self._opened), now
        return (self._until - now).total_seconds()

    def _note(self, error: Exception) -> None:
        if kind_of(error) in ("rejected", "spent"):
            return
        self._failed += 1
        if self._failed >= self._most:
            asked = error.retry_after if isinstance(error, CallError) else None
            self._opened = self._clock.now()
            self._until = self._opened + timedelta(seconds=max(self._rest, asked or 0.0))


# -- One model out of several

log = logging.getLogger("onlooker")


class Fallback:
    """Asks each model in turn until one answers. One that refuses, or says nothing, is passed over too."""

    def __init__(self, models: Sequence[Model]) -> None:
        if not models:
            raise SettingsError("models", [], "must hold at least one model")
        self._models = tuple(models)

    @property
    def name(self) -> str:
        return " or ".join(model.name for model in self._models)

    @property
    def window(self) -> int:
        """What each of them can hold."""
        return min(model.window for model in self._models)

    async def write(self, request: Request) -> Reply:
        failures: list[Exception] = []
        declined: Reply | None = None
        for model in self._models:
            try:
                reply = await model.write(request)
            except Exception as error:  # noqa: BLE001  whatever it is, the next one may answer
                log.info("%s did not answer: %s", model.name, error)
                failures.append(error)
                continue
            reply = _together(declined, replace(reply, model=reply.model or model.name))
            if reply.finish != "refused" and reply.text.strip():
                return reply
            declined = reply
        if declined is not None:
            return declined  # for the judge, who says why it is no note
        raise _all_failed(failures)


def _together(before: Reply | None, reply: Reply) -> Reply:
    """The reply, with what was used up before it."""
    if before is None:
        return reply
    known = before.cost is not None and reply.cost is not None
    return replace(
        reply,
        input_tokens=before.input_tokens + reply.input_tokens,
        output_tokens=before.output_tokens + reply.output_tokens,
        cost=(before.cost or 0.0) + (reply.cost or 0.0) if known else None,
    )


def _all_failed(failures: Sequence[Exception]) -> CallError:
    waits = [e.retry_after for e in failures if isinstance(e, CallError) and e.retry_after is not None]
    # It is worth another try as soon as one of them is.
    after = min(waits) if len(waits) == len(failures) else None
    return CallError("; ".join(str(e) for e in failures), kind_of(failures[-1]), retry_after=after)


class BySize:
    """A model for requests up to so many tokens, another for larger ones.

    `BySize((4_000, small), (None, large))`: the first whose limit the messages or notes keep within; None
    is no limit, and stands last.
    """

    def __init__(self, *models: tuple[int | None, Model]) -> None:
        limits = [limit for limit, _ in models]
        numbers = [limit for limit in limits if limit is not None]
        if not models or limits[-1] is not None or len(numbers) != len(limits) - 1:
            raise SettingsError("models", limits, "must end with (None, model), the only one without a limit")
        if numbers != sorted(numbers):
            raise SettingsError("models", limits, "must have their limits in rising order")
        self._models = models

    @property
    def name(self) -> str:
        return " / ".join(dict.fromkeys(model.name for _, model in self._models))

    @property
    def window(self) -> int:
        """What the last one can hold; the others are given no more than their own windows."""
        return self._models[-1][1].window

    async def write(self, request: Request) -> Reply:
        model = self._choose(size_of(request))
        reply = await model.write(request)
        return replace(reply, model=reply.model or model.name)

    def _choose(self, tokens: int) -> Model:
        for limit, model in self._models[:-1]:
            if limit is not None and tokens <= min(limit, model.window):
                return model
        return self._models[-1][1]


# -- What calls cost, and when to stop paying


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """What a call cost."""
        return (self.input * input_tokens + self.output * output_tokens) / 1_000_000


Prices = Mapping[str, Price]


def cost(prices: Prices, model: str, input_tokens: int, output_tokens: int) -> float | None:
    """What a call to the named model cost; None where the table does not have it."""
    price = prices.get(model)
    return None if price is None else price.of(input_tokens, output_tokens)


class Priced(Wrapped):
    """Says what each call cost, by a table of prices. A cost that the reply brings along stands where the
    table does not have the model."""

    def __init__(self, model: Model, prices: Prices) -> None:
        super().__init__(model)
        self._prices = prices

    async def write(self, request: Request) -> Reply:
        reply = await self._model.write(request)
        known = cost(self._prices, reply.model or self.name, reply.input_tokens, reply.output_tokens)
        return reply if known is None else replace(reply, cost=known)


class Ledger(Protocol):
    """Where recorded costs can be summed; every store is one."""

    async def spent(
        self, *, session: SessionId | None = None, owner: str | None = None, since: datetime | None = None
    ) -> float: ...


@dataclass(frozen=True, slots=True)
class Spend:
    """Dollars that note-taking may cost; None is no limit. A day begins at midnight in `tz`."""

    per_session: float | None = None
    per_owner: float | None = None
    per_day: float | None = None
    tz: tzinfo = UTC

    def __post_init__(self) -> None:
        for key in ("per_session", "per_owner", "per_day"):
            limit = getattr(self, key)
            if limit is not None and not limit >= 0:
                raise SettingsError(key, limit, "must be an amount of dollars, 0 or more")


class SpendLimit(Wrapped):
    """Stops calling once a limit is reached. That stops model calls, not memory: messages stay raw, and
    where they no longer fit the built-in model notes them.

    What was spent is read from the ledger before each call, so that limits hold across restarts and
    processes. Calls under way when a limit is reached complete. A call whose cost is not known counts as
    nothing.
    """

    def __init__(self, model: Model, limits: Spend, ledger: Ledger, *, clock: Clock | None = None) -> None:
        super().__init__(model)
        self._limits = limits
        self._ledger = ledger
        self._clock = clock or SystemClock()
        self._warned = False

    async def write(self, request: Request) -> Reply:
        await self._check(request.session)
        reply = await self._model.write(request)
        if reply.cost is None and not self._warned:
            self._warned = True
            log.warning("%s: no price is known, so spend limits do not count its calls", self.name)
        return reply

    async def _check(self, session: SessionId) -> None:
        limits, spent = self._limits, self._ledger.spent
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


# -- Models made of models


def guarded(model: Model, *, clock: Clock | None = None) -> Model:
    """The model as one named by a string is used: asked again where that may help, and left alone while
    it keeps failing."""
    return Breaker(Retries(model), clock=clock)
