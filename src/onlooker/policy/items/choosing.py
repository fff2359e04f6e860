"""Which statements of a session become items, where no language model chooses: few, and about people."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass

from onlooker.domain.items import ItemType, Origin
from onlooker.policy.dates import resolve
from onlooker.policy.items.facts import facts_of
from onlooker.policy.items.lexicon import ASKS, TRANSIENT, Kind, kind_of
from onlooker.policy.items.statements import MOST_CHARACTERS, Statement
from onlooker.policy.searching.words import query_tokens, tokens
from onlooker.policy.values import mask

# Of one session at once: what matters of a conversation is little.
MOST_CHOSEN = 12
# Weight that a statement needs, and what its note's priority adds.
LEAST_WEIGHT = 2
_PRIORITY = {"CRITICAL": 4, "IMPORTANT": 2, "NOTE": 0}
LEAST_WORDS = 3
MOST_TAGS = 6
# How long after its day a dated event is still worth knowing.
AFTERWARDS = dt.timedelta(days=7)

_ISO_DAY = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An item in the making."""

    type: ItemType
    summary: str
    tags: tuple[str, ...]
    origin: Origin
    said_on: dt.datetime | None  # the beginning of that day
    valid_from: dt.datetime | None
    expires_at: dt.datetime | None = None
    sources: tuple[str, ...] = ()


def choose(statements: Sequence[Statement], tz: dt.tzinfo = dt.UTC) -> list[Candidate]:
    """The statements that are worth keeping beyond the session, in their order."""
    weighed = [(weight_of(s), place, s) for place, s in enumerate(statements)]
    best = sorted((w for w in weighed if w[0] >= LEAST_WEIGHT), key=lambda w: (-w[0], -w[1]))
    chosen = sorted(best[:MOST_CHOSEN], key=lambda w: w[1])
    return [_candidate(s, tz) for _, _, s in chosen]


def weight_of(statement: Statement) -> int:
    """How much a statement matters later; 0 where it is a question, a passing state, or a tool's."""
    text = statement.text
    if statement.origin == "tool" or ASKS.search(text) or TRANSIENT.search(text):
        return 0
    if len(tokens(statement.summary)) < LEAST_WORDS or len(text) > MOST_CHARACTERS:
        return 0
    kind = kind_of(text)
    urgent = _PRIORITY[statement.priority]
    if statement.origin == "agent":
        # What an assistant says about itself or the world is worth keeping only where it is grave.
        return urgent if statement.priority == "CRITICAL" else 0
    return (kind.weight if kind else 0) + urgent


def _candidate(statement: Statement, tz: dt.tzinfo) -> Candidate:
    kind = kind_of(statement.text)
    said = dt.datetime.combine(statement.day, dt.time(), tz) if statement.day else None
    return Candidate(
        type=kind.type if kind else "knowledge",
        summary=mask(statement.summary),
        tags=tags_of(statement.summary, kind),
        origin=statement.origin,
        said_on=said,
        valid_from=since(statement.text, said),
        expires_at=expiry(statement.text, kind, said),
        sources=(statement.source,) if statement.source else (),
    )


def tags_of(summary: str, kind: Kind | None) -> tuple[str, ...]:
    """Words to find it by that it may not hold itself: "live in" for whoever moved."""
    tags = [kind.tag] if kind else []
    tags += [fact.attribute for fact in facts_of(summary)]
    return tuple(dict.fromkeys(tags))[:MOST_TAGS]


def since(text: str, said: dt.datetime | None) -> dt.datetime | None:
    """Since when it holds: the past day that its words point to, else the day it was said."""
    if said is None:
        return None
    days = [day for span in resolve(text, said) if (day := _day_of(span.iso, said.tzinfo))]
    return min((day for day in days if day <= said), default=said)


def expiry(text: str, kind: Kind | None, said: dt.datetime | None) -> dt.datetime | None:
    """When an event is over, where it says its day."""
    if kind is None or kind.type != "event" or said is None:
        return None
    named = [_day_of(found[0], said.tzinfo) for found in _ISO_DAY.finditer(text)]
    named += [_day_of(span.iso, said.tzinfo) for span in resolve(text, said)]
    days = [day for day in named if day is not None and day >= said]
    return max(days) + AFTERWARDS if days else None


def _day_of(iso: str, tz: dt.tzinfo | None) -> dt.datetime | None:
    """The first day of what a resolved date names: a day, a week, a month or a year."""
    for form, text in (("%G-W%V-%u", f"{iso}-1"), ("%Y-%m-%d", iso), ("%Y-%m", iso), ("%Y", iso)):
        try:
            return dt.datetime.strptime(text, form).replace(tzinfo=tz)
        except ValueError:
            continue
    return None


def said_in(summary: str, texts: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The id of the text that holds most of its words, the last of several: what it came from."""
    wanted = set(query_tokens(summary)) - {"user", "assistant"}
    shares = [(len(wanted & set(query_tokens(text))), ident) for ident, text in texts]
    best = max((share for share, _ in shares), default=0)
    return tuple(ident for share, ident in shares if best and share == best)[-1:]
