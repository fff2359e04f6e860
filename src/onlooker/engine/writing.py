"""Ask a model for a note, and take the answer only if it is good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onlooker.domain.errors import ModelError
from onlooker.domain.events import Event, Refused
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Usage
from onlooker.policy.settings import Settings
from onlooker.policy.tokens import Estimator
from onlooker.ports import Clock, Model, ObserveRequest, Reply, Request

if TYPE_CHECKING:
    from onlooker.engine.judging import Source
    from onlooker.policy.reading import Verdict

log = logging.getLogger("onlooker")


@dataclass(frozen=True, slots=True)
class Writer:
    """One model with its judge. A bad reply is asked for once more, with what was wrong."""

    model: Model
    settings: Settings
    estimator: Estimator
    clock: Clock
    emit: Callable[[Event], None]
    spend: Callable[[SessionId, Usage], Awaitable[None]]

    async def write(self, request: Request, source: Source) -> str:
        """The text of a note.

        Raises:
            ModelError: No acceptable answer; nothing was consumed.
        """
        from onlooker.engine import judging

        verdict = await self._ask(request, source)
        if isinstance(verdict, judging.Refused):
            again = replace(request, correction=verdict.correction)
            verdict = await self._ask(again, source)
        if isinstance(verdict, judging.Refused):
            raise ModelError(f"{self.model.name} gave no usable note ({verdict.reason}: {verdict.detail})")
        return verdict.text

    async def _ask(self, request: Request, source: Source) -> Verdict:
        from onlooker.engine import judging

        reply = await self._call(request)
        verdict = judging.verdict_on(reply, request, source, self.estimator.text)
        refused = verdict.reason if isinstance(verdict, judging.Refused) else ""
        if isinstance(verdict, judging.Refused):
            log.warning("%s: reply refused (%s: %s)", self.model.name, verdict.reason, verdict.detail)
            self.emit(Refused(request.session, self.model.name, verdict.reason, verdict.detail))
        if reply.input_tokens or reply.output_tokens:
            purpose = "observe" if isinstance(request, ObserveRequest) else "reflect"
            await self.spend(
                request.session,
                Usage(
                    reply.model or self.model.name,
                    purpose,
                    reply.input_tokens,
                    reply.output_tokens,
                    refused or "accepted",
                    self.clock.now(),
                    reply.cost,
                ),
            )
        return verdict

    async def _call(self, request: Request) -> Reply:
        try:
            async with asyncio.timeout(self.settings.model_deadline):
                return await self.model.write(request)
        except ModelError:
            raise
        except TimeoutError as error:
            raise ModelError(
                f"{self.model.name} did not answer within {self.settings.model_deadline:g} s"
            ) from error
        except Exception as error:
            raise ModelError(f"{self.model.name}: {type(error).__name__}: {error}") from error
