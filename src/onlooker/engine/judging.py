"""The judge of a model's replies: what it refuses, and what it adds to one that it takes.

Loaded with the first reply: it compiles many patterns, the built-in model needs no judge, and
`import onlooker` should cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache

from onlooker.domain.notes import NoteFormat
from onlooker.policy.prompts import observer_prompt, reflector_prompt
from onlooker.policy.reply import Accepted, Rejected, Verdict, judge
from onlooker.policy.values import invented, mask, with_values
from onlooker.ports import ObserveRequest, Reply, Request

__all__ = ["Rejected", "Source", "verdict_on"]

# What the ledger of exact values may add to a note, as a share of what was asked for.
LEDGER_SHARE = 0.2
LEAST_LEDGER = 48


@dataclass(frozen=True, slots=True)
class Source:
    """What a note is made from, as its judge sees it."""

    text: str
    said: str  # the same without the times and headings that are ours
    tokens: int
    day: date
    must_keep: Sequence[str] = ()


def verdict_on(reply: Reply, request: Request, source: Source, count: Callable[[str], int]) -> Verdict:
    """Whether the reply may become a note; if so, with the exact values that it left out."""
    verdict = judge(
        reply.text,
        finish=reply.finish,
        source_text=source.text,
        source_tokens=source.tokens,
        prompt_text=_rules(isinstance(request, ObserveRequest), request.format),
        format=request.format,
        day=source.day,
        must_keep=source.must_keep,
        target_tokens=request.target_tokens,
        count=count,
        invented=invented,
    )
    if isinstance(verdict, Rejected):
        return verdict
    return _completed(verdict, request, source, count)


def _completed(verdict: Accepted, request: Request, source: Source, count: Callable[[str], int]) -> Accepted:
    text = verdict.text
    length = count(text)
    # A short note has left room for what it left out.
    share = max(LEAST_LEDGER, round(request.target_tokens * LEDGER_SHARE), request.target_tokens - length)
    room = min(share, source.tokens - length)
    if request.format == "lines" and room > 0:
        text = with_values(text, source.said, room)
    return replace(verdict, text=mask(text))


@cache
def _rules(observing: bool, format: NoteFormat) -> str:
    """What a model is told besides the source."""
    if observing:
        return observer_prompt((), (), target_tokens=0, format=format).system
    return reflector_prompt((), generation=1, target_tokens=0, format=format).system
