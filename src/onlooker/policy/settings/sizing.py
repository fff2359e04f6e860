"""What the settings come to in tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from onlooker.policy.settings.checking import MOST_TOKENS
from onlooker.policy.settings.knobs import Settings, Size
from onlooker.policy.settings.presets import DEFAULT

# What a reflector that costs nothing takes of the memory at once.
FREE_SHARE = 1.0
# What the first note should be of its source where notes cost nothing to write and to condense.
FREE_RATIO = 0.75
# How far memory comes down when it is condensed: the less, the less is lost, and the more often.
FREE_REFLECT_TO = 0.95
# And how large a chunk: the smaller, the sooner what was said is noted, and the more room is memory's. A
# language model reads its rules with every chunk.
FREE_CHUNK = 0.5
# What the headings of the memory section cost: notes must be condensed before they no longer fit
# beside them.
SECTION_TOKENS = 60


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings in tokens, for one budget. What plans and contexts are made by."""

    settings: Settings
    budget: int  # for memory and messages together; 0: only the limits below
    observe_at: int
    keep_recent: int
    chunk_tokens: int
    precompute_at: int
    overlap: int
    memory_limit: int
    message_limit: int
    cross_session_limit: int
    reflect_at: int
    block_after: int


def suited(settings: Settings, *, free_observer: bool, free_reflector: bool) -> Settings:
    """The settings in force, where notes cost nothing to write or to condense."""
    if not (free_reflector and settings.reflect_to):  # else every observation is condensed, and nothing else
        return settings
    settings = replace(settings, reflect_share=settings.reflect_share or FREE_SHARE)
    # Where only observations are counted, their size was decided by whoever set the number.
    if not free_observer or settings.reflect_counts != "memory":
        return settings
    settings = replace(
        settings,
        reflect_to=max(settings.reflect_to, FREE_REFLECT_TO),
        first_ratio=settings.first_ratio or max(FREE_RATIO, settings.note_ratio),
    )
    chunk, raw, ahead = settings.chunk_tokens, settings.observe_at, settings.precompute_at
    if not (isinstance(chunk, float) and isinstance(raw, float) and isinstance(ahead, float)):
        return settings
    saved = round(min(chunk * (1 - FREE_CHUNK), raw / 2, ahead / 2), 4)
    return replace(settings, chunk_tokens=chunk - saved, observe_at=raw - saved, precompute_at=ahead - saved)


@lru_cache(maxsize=256)
def limits(settings: Settings, budget: int) -> Limits:
    """The settings in tokens where `budget` tokens are there for memory and messages.

    Absolute sizes that the budget cannot hold shrink with it, so that a small budget given to a
    preset with large numbers still works.
    """

    base = budget or settings.budget or DEFAULT.budget

    def tokens(size: Size, most: int = MOST_TOKENS) -> int:
        if isinstance(size, float):
            return max(1, round(size * base))
        return min(size, most)

    whole = budget or MOST_TOKENS
    message_limit = tokens(settings.message_limit, whole)
    observe_at = max(1, min(tokens(settings.observe_at, whole // 4), message_limit))
    keep_recent = min(tokens(settings.keep_recent), observe_at - 1)
    # Memory gives way to what may stand raw, so that one of the two can be set alone.
    memory_limit = max(1, min(tokens(settings.memory_limit, whole * 7 // 10), whole - observe_at))
    # Until notes are condensed, the one that made them too many must fit as well.
    shares = isinstance(settings.memory_limit, float)
    one_more = round(tokens(settings.chunk_tokens) * settings.note_ratio) if shares else 0
    return Limits(
        settings=settings,
        budget=budget,
        observe_at=observe_at,
        keep_recent=keep_recent,
        chunk_tokens=tokens(settings.chunk_tokens),
        precompute_at=max(keep_recent + 1, min(tokens(settings.precompute_at), observe_at)),
        overlap=min(tokens(settings.overlap), max(0, message_limit - observe_at)),
        memory_limit=memory_limit,
        message_limit=message_limit,
        # At most half of the memory, so that a session's own notes are never crowded out.
        cross_session_limit=min(
            tokens(settings.cross_session_limit) if settings.cross_session_limit else 0, memory_limit // 2
        ),
        reflect_at=max(1, min(tokens(settings.reflect_at), memory_limit - SECTION_TOKENS - one_more)),
        block_after=tokens(settings.block_after),
    )
