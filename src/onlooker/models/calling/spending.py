"""What calls cost, and when to stop paying."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Protocol

from onlooker.domain.errors import SettingsError, SpendError, SpendLimitOf
from onlooker.domain.messages import SessionId
from onlooker.models.calling.wrapping import Wrapped
from onlooker.models.times import SystemClock
from onlooker.ports import Clock, Model, Reply, Request

log = logging.getLogger("onlooker")


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

    def _refuse(self, spent: float, limit: float, what: SpendLimitOf) -> None:
        if spent >= limit:
            raise SpendError(self.name, what, spent, limit)
