"""Ask a model for a note, and take the answer only if it is good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from onlooker.domain.errors import ModelError
from onlooker.domain.events import Event, Refused
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Usage
from onlooker.policy.settings import Settings
from onlooker.policy.tokens import Estimator
from onlooker.ports import Clock, Model, ObserveRequest, Reply, Request

# Judging compiles many patterns, and is loaded with the first reply: the built-in model needs no
# judge, and `import onlooker` should cost next to nothing.
if TYPE_CHECKING:
    from onlooker.policy import reading

log = logging.getLogger("onlooker")


@dataclass(frozen=True, slots=True)
class Source:
    """What a note is made from, as its judge sees it."""

    text: str
    tokens: int
    day: date
    must_keep: Sequence[str] = ()


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
        from onlooker.policy import reading

        verdict = await self._ask(request, source)
        if isinstance(verdict, reading.Refused):
            again = replace(request, correction=verdict.correction)
            verdict = await self._ask(again, source)
        if isinstance(verdict, reading.Refused):
            raise ModelError(f"{self.model.name} gave no usable note ({verdict.reason}: {verdict.detail})")
        return verdict.text

    async def _ask(self, request: Request, source: Source) -> reading.Accepted | reading.Refused:
        from onlooker.policy import reading

        reply = await self._call(request)
        verdict = reading.judge(
            reply.text,
            finish=reply.finish,
            source_text=source.text,
            source_tokens=source.tokens,
            format=request.format,
            day=source.day,
            must_keep=source.must_keep,
            target_tokens=request.target_tokens,
            count=self.estimator.text,
        )
        refused = verdict.reason if isinstance(verdict, reading.Refused) else ""
        if isinstance(verdict, reading.Refused):
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
