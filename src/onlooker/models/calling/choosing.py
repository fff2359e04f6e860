"""One model out of several."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from onlooker.domain.errors import SettingsError
from onlooker.models.calling.errors import CallError, kind_of
from onlooker.models.calling.size import size_of
from onlooker.ports import Model, Reply, Request

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
