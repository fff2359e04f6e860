"""Ask a model for a note, and accept the reply only if it passes the judge.

The judge is imported with the first reply: it compiles many patterns, and the built-in model does not need
it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Literal, TypeVar

from onlooker.domain.errors import ModelError
from onlooker.domain.events import Event, ModelReplied, ReplyRejected
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Extraction, Note, NoteFormat, Usage
from onlooker.policy.pace import paced
from onlooker.policy.settings import Settings
from onlooker.policy.tokens import Estimator
from onlooker.ports import Clock, ItemsRequest, Model, ObserveRequest, Reply, Request

if TYPE_CHECKING:
    from onlooker.policy.reply.extraction import Block, Extractors
    from onlooker.policy.reply.judge import Accepted, Verdict

log = logging.getLogger("onlooker")

# Added to what was wrong with the note. A bad block alone is not a reason to ask again.
_FIX_BLOCK = " The JSON after it was missing or not as asked for; add it."


T = TypeVar("T")


class UnusableError(ModelError):
    """The model answered twice, and neither answer can become this note."""


@frozen
class WrittenNote:
    """The text of a note, the model that wrote it, and the values extracted along with it.

    `calls` are what the model's replies cost, rejected ones included; `seconds` is how long it took.
    """

    text: str
    model: str
    extractions: tuple[Extraction, ...] = ()
    calls: tuple[Usage, ...] = ()
    seconds: float = 0.0

    @classmethod
    def in_parts(cls, parts: Sequence[WrittenNote]) -> WrittenNote:
        """Join parts into one note."""
        models = dict.fromkeys(part.model for part in parts)
        extractions = tuple(extraction for part in parts for extraction in part.extractions)
        calls = tuple(call for part in parts for call in part.calls)
        text = "\n".join(part.text for part in parts)
        return cls(text, " and ".join(models), extractions, calls, sum(part.seconds for part in parts))

    def extracted(self, note: Note) -> tuple[Extraction, ...]:
        """The extracted values, as they are stored with the note."""
        return tuple(replace(e, note=note.id, made_at=note.made_at) for e in self.extractions)


@frozen
class Answer:
    """One reply: the verdict on its note, and the JSON block after it if one was asked for."""

    verdict: Verdict
    usage: Usage
    block: Block | None = None


@frozen
class Writer:
    """One model with its judge. After a bad reply it asks once more, and says what was wrong."""

    model: Model
    settings: Settings
    estimator: Estimator
    clock: Clock
    emit: Callable[[Event], None]
    spend: Callable[[SessionId, Usage], Awaitable[None]]
    extractors: Extractors | None = None

    async def write(self, request: Request, source: Source) -> WrittenNote:
        """Write a note, and extract values along with it.

        Raises:
            ModelError: There was no usable answer.
        """
        from onlooker.policy.reply.judge import Rejected

        began = time.perf_counter()
        request = self._with_user_options(request)
        answer = await self._ask(request, source)
        calls = [answer.usage]
        if isinstance(answer.verdict, Rejected):
            fix = _FIX_BLOCK if answer.block and answer.block.problem else ""
            again = replace(request, correction=answer.verdict.correction + fix)
            answer = await self._ask(again, source, last=True)
            calls.append(answer.usage)
        verdict = answer.verdict
        if isinstance(verdict, Rejected):
            raise UnusableError(f"{self.model.name} gave no usable note ({verdict.reason}: {verdict.detail})")
        filled, took = self._extract(answer.block, request), time.perf_counter() - began
        return WrittenNote(verdict.text, answer.usage.model, filled, tuple(calls), took)

    async def ask(self, request: Request, read: Callable[[str], T | None]) -> T | None:
        """Ask for something other than a note, parsed by `read`; None if the answer is not usable.

        Raises:
            ModelError: There was no answer.
        """
        began = time.perf_counter()
        request = self._with_user_options(request)
        reply = await self._call(request)
        found = None if reply.finish == "refused" else read(reply.text)
        model = reply.model or self.model.name
        usage = self._usage(request, reply, model, "unparseable" if found is None else "accepted")
        self.emit(ModelReplied(request.session, usage, seconds=time.perf_counter() - began))
        if reply.input_tokens or reply.output_tokens or reply.cost:
            await self.spend(request.session, usage)
        return found

    def _with_user_options(self, request: Request) -> Request:
        """The request with the user's instruction and types."""
        request = replace(request, instruction=self.settings.instruction)
        if self.extractors is None or not isinstance(request, ObserveRequest):
            return request
        return replace(request, schemas=self.extractors.schemas)

    async def _ask(self, request: Request, source: Source, *, last: bool = False) -> Answer:
        from onlooker.policy.reply.judge import Rejected
        from onlooker.policy.secrets import mask

        began = time.perf_counter()
        reply = await self._call(request)
        took = time.perf_counter() - began
        model = reply.model or self.model.name
        note, block = self._split_block(reply, request)
        # The judge reads all that the model read, and takes as long as ten turns.
        verdict = await asyncio.to_thread(
            paced, judge_reply, note, request, source, self.estimator.text, strike=last
        )
        rejected = verdict.reason if isinstance(verdict, Rejected) else ""
        if isinstance(verdict, Rejected):
            values = tuple(map(mask, verdict.values))  # the model is told of these
            verdict = replace(verdict, detail=mask(verdict.detail), values=values)
            log.warning("%s: reply rejected (%s: %s)", model, verdict.reason, verdict.detail)
            self.emit(ReplyRejected(request.session, model, verdict.reason, verdict.detail))
        elif verdict.struck:
            log.warning("%s: struck out as invented: %s", model, mask(", ".join(verdict.struck))[:200])
        usage = self._usage(request, reply, model, rejected or "accepted")
        self.emit(ModelReplied(request.session, usage, seconds=took))
        if reply.input_tokens or reply.output_tokens or reply.cost:
            await self.spend(request.session, usage)
        return Answer(verdict, usage, block)

    def _usage(self, request: Request, reply: Reply, model: str, verdict: str) -> Usage:
        purpose = _purpose(request)
        now = self.clock.now()
        return Usage(model, purpose, reply.input_tokens, reply.output_tokens, verdict, now, reply.cost)

    async def _call(self, request: Request) -> Reply:
        try:
            async with asyncio.timeout(self.settings.model_deadline):
                reply = await self.model.write(request)
        except ModelError:
            raise
        except asyncio.CancelledError as error:
            # If nobody cancelled this task, the model was waiting for something that was cancelled.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise ModelError(f"{self.model.name}: the call was cancelled") from error
        except TimeoutError as error:
            raise ModelError(
                f"{self.model.name} did not answer within {self.settings.model_deadline:g} s"
            ) from error
        except Exception as error:
            raise ModelError(f"{self.model.name}: {type(error).__name__}: {error}") from error
        if problem := _problem_of(reply):
            raise ModelError(f"{self.model.name} must return a Reply: {problem}")
        return reply

    # -- users' own types

    def _split_block(self, reply: Reply, request: Request) -> tuple[Reply, Block | None]:
        """Split off the block, so that a bad block does not cost the note."""
        if self.extractors is None or not isinstance(request, ObserveRequest):
            return reply, None
        from onlooker.policy.reply.extraction import split_block

        text, block = split_block(reply.text, self.extractors.names)
        # If the reply was cut off inside the block, the note before it is complete.
        finish = "stop" if block.unclosed and reply.finish == "length" else reply.finish
        return replace(reply, text=text, finish=finish), block

    def _extract(self, block: Block | None, request: Request) -> tuple[Extraction, ...]:
        if self.extractors is None or block is None or not isinstance(request, ObserveRequest):
            return ()
        kept: list[Extraction] = []
        for found in self.extractors.extract(block, request.session, request.messages, self.clock.now()):
            if isinstance(found, Extraction):
                kept.append(found)
                continue
            what = found.type or "the values of your types"
            log.warning("%s: %s rejected (%s: %s)", self.model.name, what, found.reason, found.detail)
            self.emit(found)
        return tuple(kept)


def _problem_of(reply: object) -> str:
    """What is wrong with what a user's own model returned; empty if it is a reply."""
    if not isinstance(reply, Reply):
        return f"found {type(reply).__name__}"
    for key, allowed in _REPLY_TYPES.items():
        if not isinstance(getattr(reply, key), allowed):
            return f"found {type(getattr(reply, key)).__name__} as its {key}"
    return ""


_REPLY_TYPES: dict[str, type | UnionType] = {
    "text": str,
    "finish": str,
    "input_tokens": int,
    "output_tokens": int,
    "model": str,
    "cost": int | float | None,
}


def _purpose(request: Request) -> Literal["observe", "reflect", "items"]:
    if isinstance(request, ObserveRequest):
        return "observe"
    return "items" if isinstance(request, ItemsRequest) else "reflect"


# ------------------------------------------------------------------------------------ the judge


# How much the value ledger may add to a note, as a share of its target length.
LEDGER_SHARE = 0.2
MIN_LEDGER = 48


@frozen
class Source:
    """What a note is made from, as the judge needs it."""

    text: str
    said: Mapping[str, str]  # the same by the heading of its day, without the times that we add
    tokens: int
    day: date
    must_keep: Sequence[str] = ()


def judge_reply(
    reply: Reply, request: Request, source: Source, count: Callable[[str], int], *, strike: bool = False
) -> Verdict:
    """Judge a reply. An accepted one gets the exact values that it left out.

    With `strike`, what it invents is struck out instead of refused.
    """
    from onlooker.policy.reply.judge import Rejected, judge

    observing = isinstance(request, ObserveRequest)
    verdict = judge(
        reply.text,
        finish=reply.finish,
        source_text=source.text,
        source_tokens=source.tokens,
        prompt_text=_system_prompt(observing, request.format),
        format=request.format,
        day=source.day,
        must_keep=source.must_keep,
        target_tokens=request.target_tokens,
        count=count,
        shown_text="\n".join(note.text for note in request.notes)
        if isinstance(request, ObserveRequest)
        else "",
        said=[m.text for m in request.messages if m.role != "tool"]
        if isinstance(request, ObserveRequest)
        else (),
        strike=strike,
    )
    if isinstance(verdict, Rejected):
        return verdict
    return _complete(verdict, request, source, count)


def _complete(verdict: Accepted, request: Request, source: Source, count: Callable[[str], int]) -> Verdict:
    """Add what is computed and not left to a model: what the user asked for, and exact values."""
    from onlooker.policy.asked import of_messages, of_notes, without_asked
    from onlooker.policy.origins import noted_parts, parts_of, reattributed
    from onlooker.policy.reply import with_times
    from onlooker.policy.reply.judge import Rejected
    from onlooker.policy.secrets import mask
    from onlooker.policy.values import with_values

    notes = [note.text for note in request.notes]
    if isinstance(request, ObserveRequest):
        asked = of_messages(request.messages, notes, verdict.text)
    else:
        asked = of_notes(notes)
    text = without_asked(verdict.text)
    if not (text or asked):
        return Rejected("empty", "only a request that nobody made")
    said = parts_of(request.messages) if isinstance(request, ObserveRequest) else ()
    text = reattributed(text, said, noted_parts(notes), prose=request.format == "prose")
    if request.format == "stamped":
        text = with_times(text, request.messages if isinstance(request, ObserveRequest) else (), notes)
    length = count("\n".join([*asked, text]))
    # A note below its target leaves more room for values.
    share = max(MIN_LEDGER, round(request.target_tokens * LEDGER_SHARE), request.target_tokens - length)
    room = min(share, source.tokens - length)
    if request.format != "prose" and room > 0:
        # A value in a request counts as missing: the request will be finished one day.
        text = with_values(text, source.said, room)
    return replace(verdict, text=mask("\n".join([*asked, text] if text else asked)))


@cache
def _system_prompt(observing: bool, format: NoteFormat) -> str:
    """The rules that a model has for the request, in both lengths."""
    from onlooker.policy.prompts import observer_prompt, reflector_prompt

    if observing:
        sizes = (
            observer_prompt((), (), target_tokens=0, format=format, brief=brief) for brief in (True, False)
        )
        return "\n".join(prompt.system for prompt in sizes)
    return reflector_prompt((), generation=1, target_tokens=0, format=format).system
