"""Ask a model for a note, and take the answer only if it is good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onlooker.domain.errors import ModelError
from onlooker.domain.events import Event, Refused
from onlooker.domain.extractions import Extraction
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note, Usage
from onlooker.policy.settings import Settings
from onlooker.policy.tokens import Estimator
from onlooker.ports import Clock, Model, ObserveRequest, Reply, Request

if TYPE_CHECKING:
    from onlooker.engine.extracting import Block, Types
    from onlooker.engine.judging import Source
    from onlooker.policy.reading import Verdict

log = logging.getLogger("onlooker")

# Beside what was wrong with the note, which alone is a reason to ask again.
_MEND_BLOCK = " The JSON after it was missing or not as asked for; add it."


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a note, the model that answered, and what was filled in along with it."""

    text: str
    model: str
    extractions: tuple[Extraction, ...] = ()

    @classmethod
    def in_parts(cls, parts: Sequence[Written]) -> Written:
        """One note of several."""
        models = dict.fromkeys(part.model for part in parts)
        extractions = tuple(extraction for part in parts for extraction in part.extractions)
        return cls("\n".join(part.text for part in parts), " and ".join(models), extractions)

    def extracted(self, note: Note) -> tuple[Extraction, ...]:
        """What was filled in, as it is kept with the note."""
        return tuple(replace(e, note=note.id, made_at=note.made_at) for e in self.extractions)


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply: its note as judged, and the block after it where one was asked for."""

    verdict: Verdict
    model: str
    block: Block | None = None


@dataclass(frozen=True, slots=True)
class Writer:
    """One model with its judge. A bad reply is asked for once more, with what was wrong."""

    model: Model
    settings: Settings
    estimator: Estimator
    clock: Clock
    emit: Callable[[Event], None]
    spend: Callable[[SessionId, Usage], Awaitable[None]]
    types: Types | None = None

    async def write(self, request: Request, source: Source) -> Written:
        """A note, with what was filled in along with it.

        Raises:
            ModelError: No acceptable answer; nothing was consumed.
        """
        from onlooker.engine import judging

        request = self._in_full(request)
        answer = await self._ask(request, source)
        if isinstance(answer.verdict, judging.Refused):
            mend = _MEND_BLOCK if answer.block and answer.block.problem else ""
            answer = await self._ask(replace(request, correction=answer.verdict.correction + mend), source)
        verdict = answer.verdict
        if isinstance(verdict, judging.Refused):
            raise ModelError(f"{self.model.name} gave no usable note ({verdict.reason}: {verdict.detail})")
        return Written(verdict.text, answer.model, self._filled(answer.block, request))

    def _in_full(self, request: Request) -> Request:
        """The request with what users of a language model ask for besides."""
        request = replace(request, instruction=self.settings.instruction)
        if self.types is None or not isinstance(request, ObserveRequest):
            return request
        return replace(request, schemas=self.types.schemas)

    async def _ask(self, request: Request, source: Source) -> Answer:
        from onlooker.engine import judging

        reply = await self._call(request)
        model = reply.model or self.model.name
        note, block = self._parted(reply, request)
        verdict = judging.verdict_on(note, request, source, self.estimator.text)
        refused = verdict.reason if isinstance(verdict, judging.Refused) else ""
        if isinstance(verdict, judging.Refused):
            log.warning("%s: reply refused (%s: %s)", model, verdict.reason, verdict.detail)
            self.emit(Refused(request.session, model, verdict.reason, verdict.detail))
        if reply.input_tokens or reply.output_tokens or reply.cost:
            await self.spend(request.session, self._usage(request, reply, model, refused or "accepted"))
        return Answer(verdict, model, block)

    def _usage(self, request: Request, reply: Reply, model: str, verdict: str) -> Usage:
        purpose = "observe" if isinstance(request, ObserveRequest) else "reflect"
        now = self.clock.now()
        return Usage(model, purpose, reply.input_tokens, reply.output_tokens, verdict, now, reply.cost)

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

    # -- users' own types

    def _parted(self, reply: Reply, request: Request) -> tuple[Reply, Block | None]:
        """The reply without its block, so that nothing about the block costs the note."""
        if self.types is None or not isinstance(request, ObserveRequest):
            return reply, None
        from onlooker.engine.extracting import take_block

        text, block = take_block(reply.text, self.types.names)
        # Cut off inside the block, the note before it is whole.
        finish = "stop" if block.unclosed and reply.finish == "length" else reply.finish
        return replace(reply, text=text, finish=finish), block

    def _filled(self, block: Block | None, request: Request) -> tuple[Extraction, ...]:
        if self.types is None or block is None or not isinstance(request, ObserveRequest):
            return ()
        kept: list[Extraction] = []
        for found in self.types.kept(block, request, self.clock.now()):
            if isinstance(found, Extraction):
                kept.append(found)
                continue
            what = found.type or "the values of your types"
            log.warning("%s: %s not kept (%s: %s)", self.model.name, what, found.reason, found.detail)
            self.emit(found)
        return tuple(kept)
