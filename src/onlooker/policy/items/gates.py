"""What an agent may not save, each refusal with what to do instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from onlooker.domain.items import Item
from onlooker.policy.items.lexicon import TRANSIENT
from onlooker.policy.items.matching import contradictions, duplicates
from onlooker.policy.items.statements import MOST_CHARACTERS
from onlooker.policy.searching.words import query_tokens
from onlooker.policy.text import CJK_CHARACTER

LEAST_CHARACTERS = 12
LEAST_WORDS = 2
# How many an agent may save in one session within an hour; then it waits.
MOST_SAVES = 10
SAVES_WITHIN = timedelta(hours=1)

Reason = Literal["too short", "too long", "transient", "duplicate", "contradiction", "too many"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not saved, and the sentence that says what to do."""

    reason: Reason
    advice: str
    items: tuple[Item, ...] = ()


def check_words(summary: str) -> Refusal | None:
    """Whether the words themselves can be an item, whatever else is known."""
    short = len(summary) < LEAST_CHARACTERS and not CJK_CHARACTER.search(summary)
    if short or len(query_tokens(summary)) < LEAST_WORDS:
        advice = "Not saved: too short to be understood alone. Write one sentence that names who and what."
        return Refusal("too short", advice)
    if len(summary) > MOST_CHARACTERS:
        advice = (
            f"Not saved: longer than {MOST_CHARACTERS} characters. Save one fact at a time, in one sentence."
        )
        return Refusal("too long", advice)
    return None


def check_save(
    summary: str, live: Sequence[Item], recent: Sequence[datetime], now: datetime, supersedes: str = ""
) -> Refusal | None:
    """Whether an agent may save this; `live` are the owner's items, `recent` when it saved others in this
    session, `supersedes` the item whose place it is to take."""
    if refusal := check_words(summary) or _passing(summary) or _too_many(recent, now):
        return refusal
    others = [item for item in live if item.id != supersedes]
    against = contradictions(summary, others)
    if against and not supersedes:
        return _contradicts(against)
    if not against and (known := duplicates(summary, others)):
        return _known(known)
    return None


def _passing(summary: str) -> Refusal | None:
    if not TRANSIENT.search(summary):
        return None
    advice = (
        "Not saved: it is true for the moment only. Save what will still hold in weeks, with a date in place "
        'of words such as "today".'
    )
    return Refusal("transient", advice)


def _known(items: Sequence[Item]) -> Refusal:
    known = items[0]
    advice = (
        f'Not saved: {known.id} says it already: "{known.summary}". To reword it, save again with '
        f'supersedes="{known.id}".'
    )
    return Refusal("duplicate", advice, tuple(items))


def _contradicts(items: Sequence[Item]) -> Refusal:
    known = items[0]
    advice = (
        f'Not saved: it contradicts {known.id}: "{known.summary}". If it has changed, save again with '
        f'supersedes="{known.id}"; the old one is then kept as history.'
    )
    return Refusal("contradiction", advice, tuple(items))


def _too_many(recent: Sequence[datetime], now: datetime) -> Refusal | None:
    within = sorted(at for at in recent if at > now - SAVES_WITHIN)
    if len(within) < MOST_SAVES:
        return None
    again = within[-MOST_SAVES] + SAVES_WITHIN
    minutes = max(1, round((again - now).total_seconds() / 60))
    advice = (
        f"Not saved: {len(within)} saved in this session within the hour is the most. Try again in {minutes} "
        "minutes, and save only what other conversations need."
    )
    return Refusal("too many", advice)
