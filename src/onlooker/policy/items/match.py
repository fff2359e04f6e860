"""Compare items: which say the same, which contradict each other, and what new items replace.

Two items contradict each other if they give different answers where there can be only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from onlooker.domain.items import Item
from onlooker.policy.items.statements import FAMILY, NEGATION, kind_of, leading_name, speaker_of
from onlooker.policy.search.words import query_tokens
from onlooker.policy.text import regex

# -- Facts: statements that can have only one answer

_SELF = frozenset(("", "user", "i", "me", "my", "we", "the user", "assistant"))
_PLACE = r"(?P<value>[A-ZÀ-Þ][\w'’-]*(?:[ -][A-ZÀ-Þ][\w'’-]*){0,3})"
_VALUE = (
    r"(?P<value>[^,;()]{1,60}?)(?=\s+(?:and|since|but|because|instead|now|from|until)\b|[,;()]|\.\s"
    r"|\.?\s*$)"
)
_LIVES = regex(
    r"\b(?:liv(?:e|es|ing) in|based in|resid(?:e|es|ing) in|home is in"
    rf"|(?:mov(?:ed|ing)|relocat(?:ed|ing)) (?:from [\w .,'’-]{{1,40}}? )?(?:back )?to) (?:the )?{_PLACE}"
)
_LIVES_CJK = regex(r"(?:住在|搬到了?|搬去了?|移居到?)(?P<value>[\u4e00-\u9fff]{2,4})")
_RELATIVE = regex(rf"\b(?P<who>{FAMILY})(?:'s)?\b", re.I)
_NEAR = 12  # characters at the beginning of a clause where its subject is named
_SOMEONE_ELSE = regex(r"\b(?:who|whose)\b", re.I)
# Not a home: one may also move to another database.
_NO_HOME = regex(
    r"(?i:\b(?:data ?base|db|sql|cluster|project|code|repo\w*|server|host\w*|account|subscription|app|cloud"
    r"|backend|frontend|api|service|workload|production|meeting|deadline|kubernetes|docker|slack|notion"
    r"|git(?:hub|lab)|aws|azure|gcp|linux|windows|python|rust|react|postgres|mongo)\b)|[a-z][A-Z]"
)
_SINGLE = (
    r"dead ?line|due date|budget|time ?zone|birthday|e-?mail(?: address)?|phone number|home address|job title"
    r"|employer|boss|nickname|first name|last name|name|age|height|weight|salary|rent|blood type|start date"
    r"|end date|launch date"
)
# Notes may leave out "is"; then a value is recognised by its first character.
_ATTRIBUTE = regex(
    rf"(?:^|\b(?:my|the|his|her|their|our|new|[\w-]+'s)\s+|[,:]\s*)(?P<attribute>(?:[\w-]+ )?(?:{_SINGLE}))"
    r"(?:(?:\s+(?:is now|is|are|was changed to|changed to|moved to|now)|\s*[:=])\s+"
    r"|\s+(?=(?-i:[A-ZÀ-Þ\d$€£¥])))(?:an? |the |to )?" + _VALUE,
    re.I,
)
_FAVOURITE = regex(
    rf"\bfavou?rite (?P<attribute>[\w-]+(?: [\w-]+)?)(?: is| are|:) (?:an? |the )?{_VALUE}", re.I
)
_WORKS = regex(rf"\b(?:works?|working) (?P<attribute>as|at|for) (?:an? |the )?{_VALUE}(?:\s+in\b)?", re.I)
_AGE = regex(r"\b(?:is|am|are|i'm|turned|aged?) (?P<value>\d{1,3})(?= years old| in \d{4}|$)", re.I)
_PREFERS = regex(rf"\bprefers? (?:an? |the |to )?{_VALUE}", re.I)
_LIKES = regex(
    r"\b(?P<verb>likes?|loves?|enjoys?|hates?|dislikes?|can(?:'t|not) stand) (?:an? |the |to )?" + _VALUE,
    re.I,
)
_AGAINST = regex(r"hate|dislike|stand", re.I)
_IS = regex(
    r"\b(?P<value>vegetarian|vegan|pescatarian|married|single|engaged|divorced|retired|unemployed"
    r"|pregnant|left-handed)\b",
    re.I,
)
# Mutually exclusive values.
_GROUPS = {
    **dict.fromkeys(("vegetarian", "vegan", "pescatarian"), "diet"),
    **dict.fromkeys(("married", "single", "engaged", "divorced"), "marriage"),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A subject, an attribute and its value. A denied fact says that the value is not so."""

    subject: str
    attribute: str
    value: str
    denied: bool = False

    def contradicts(self, other: Fact) -> bool:
        """Return whether the two facts cannot both be true."""
        if (self.subject, self.attribute) != (other.subject, other.attribute):
            return False
        if self.denied or other.denied:
            return self.denied != other.denied and self.value == other.value
        return not _is_same_value(self.value, other.value)


def _is_same_value(one: str, other: str) -> bool:
    words, others = set(one.split()), set(other.split())
    return words <= others or others <= words


def subject_of(summary: str, owner: str = "") -> str:
    """Return whom a summary is about; empty for the owner, also called the user."""
    named, text = _named(summary, owner)
    if named:
        return named
    relative = _RELATIVE.search(text)
    return relative["who"].casefold() if relative and relative.start() < _NEAR else ""


def _named(summary: str, owner: str) -> tuple[str, str]:
    """Split a summary into the person named at its beginning (empty for the owner) and the rest."""
    who, text = speaker_of(summary)
    if who[:1].islower() and who not in _SELF and who != owner:
        who = ""  # a topic, not a person
    named = (who or leading_name(text)).casefold()
    return ("" if named in _SELF or named == owner.casefold() else named), text


@lru_cache(maxsize=4096)
def facts_of(summary: str, owner: str = "") -> Sequence[Fact]:
    """Find the facts in a summary. The owner and the user are the same person."""
    subject, text = _named(summary, owner)
    finders = (_homes, _attributes, _tastes, _states)
    return [fact for find in finders for fact in find(text, subject) if fact.value]


def _about(text: str, match: re.Match[str], subject: str) -> str | None:
    """Return whom a clause is about: the relative named before it, if any; None if that is unclear."""
    before = text[: match.start()]
    if _SOMEONE_ELSE.search(before):
        return None
    relatives = _RELATIVE.findall(before)
    return relatives[-1].casefold() if relatives else subject


def _fact(
    text: str, match: re.Match[str], subject: str, attribute: str, value: str, *, denied: bool = False
) -> Iterator[Fact]:
    about = _about(text, match, subject)
    if about is not None:
        yield Fact(about, attribute, value, denied)


def _homes(text: str, subject: str) -> Iterator[Fact]:
    match = _LIVES.search(text) or _LIVES_CJK.search(text)
    if match is not None and not _NO_HOME.search(text):
        yield from _fact(text, match, subject, "live in", _words(match["value"]), denied=_denied(text, match))


def _attributes(text: str, subject: str) -> Iterator[Fact]:
    for match in (*_FAVOURITE.finditer(text), *_ATTRIBUTE.finditer(text)):
        yield from _fact(text, match, subject, _words(match["attribute"]), _words(match["value"]))
    for match in _WORKS.finditer(text):
        attribute = f"works {match['attribute'].casefold()}"
        yield from _fact(text, match, subject, attribute, _words(match["value"]), denied=_denied(text, match))
    if match := _AGE.search(text):
        yield from _fact(text, match, subject, "age", match["value"])


def _tastes(text: str, subject: str) -> Iterator[Fact]:
    for match in _PREFERS.finditer(text):
        *rest, topic = _words(match["value"].split(" over ")[0]).split() or [""]
        # "short answers" contradicts "long answers"; a single word does not say what it is preferred to.
        if rest:
            what = " ".join(rest)
            yield from _fact(text, match, subject, f"prefers {topic}", what, denied=_denied(text, match))
    for match in _LIKES.finditer(text):
        liked = _words(match["value"])
        against = bool(_AGAINST.search(match["verb"])) != _denied(text, match)
        yield from _fact(text, match, subject, f"likes {liked}", liked, denied=against)


def _states(text: str, subject: str) -> Iterator[Fact]:
    for match in _IS.finditer(text):
        value = match["value"].casefold()
        group = f"is {_GROUPS.get(value, value)}"
        yield from _fact(text, match, subject, group, value, denied=_denied(text, match))


def _denied(text: str, match: re.Match[str]) -> bool:
    """Return whether the words right before the value negate it."""
    return bool(NEGATION.search(text[max(0, match.start() - 16) : match.start("value")]))


def _words(text: str) -> str:
    return " ".join(query_tokens(text))


# -- Comparing summaries

# The share of words that two summaries of the same meaning have in common.
SAME = 0.75
# The share of the shorter summary's words that a longer one must contain to say the same and more.
WITHIN = 0.9
MIN_WORDS = 2
_PARTS = regex(r"[,;]\s+|\s+(?:and|but)\s+")


@lru_cache(maxsize=4096)
def words_of(summary: str, owner: str) -> frozenset[str]:
    """Return the words of a summary, without the names of the owner and the user."""
    who, text = speaker_of(summary)
    words = set(query_tokens(text if who.casefold() in ("user", owner.casefold()) else summary))
    return frozenset(words - {"user", *query_tokens(owner)}) or frozenset(words)


def same_meaning(one: str, other: str, owner: str) -> bool:
    """Return whether two summaries say the same, or one says all that the other does."""
    if subject_of(one, owner) != subject_of(other, owner):
        return False
    first, second = words_of(one, owner), words_of(other, owner)
    if not first or not second or _numbers(first) != _numbers(second):
        return first == second
    if bool(NEGATION.search(one)) != bool(NEGATION.search(other)):
        return False
    both = len(first & second)
    return both / len(first | second) >= SAME or _says_more(first, second) or _says_more(second, first)


def says_more(one: str, other: str, owner: str) -> bool:
    """Return whether the first summary says what the other does, and more."""
    return _says_more(words_of(one, owner), words_of(other, owner))


def _says_more(words: frozenset[str], others: frozenset[str]) -> bool:
    if len(others) < MIN_WORDS or len(words) <= len(others):
        return False
    return len(words & others) / len(others) >= WITHIN


def _numbers(words: Iterable[str]) -> frozenset[str]:
    return frozenset(w for w in words if any(c.isdigit() for c in w))


def duplicates(summary: str, items: Sequence[Item]) -> list[Item]:
    """Return the items that say the same as the summary."""
    return [item for item in items if same_meaning(summary, item.summary, item.owner)]


def contradictions(summary: str, items: Sequence[Item]) -> list[Item]:
    """Return the items that contradict the summary."""
    found: list[Item] = []
    for item in items:
        new, old = facts_of(summary, item.owner), facts_of(item.summary, item.owner)
        if any(a.contradicts(b) for a in new for b in old):
            found.append(item)
    return found


# -- Adding new items to existing ones


@dataclass(slots=True)
class Reconciliation:
    """Items to add, existing items to end (each with its replacement), and items that count as used."""

    add: list[Item] = field(default_factory=list[Item])
    end: dict[str, str] = field(default_factory=dict[str, str])
    use: list[str] = field(default_factory=list[str])


def reconcile(new: Sequence[Item], existing: Sequence[Item]) -> Reconciliation:
    """Add new items, oldest first.

    A known item counts as a use of the existing one. A contradicting item ends the existing one, unless
    that is newer, pinned or more trusted.
    """
    done = Reconciliation()
    live = {item.id: item for item in existing}
    for item in new:
        _add(item, live, done)
    return done


def _add(item: Item, live: dict[str, Item], done: Reconciliation) -> None:
    others = list(live.values())
    # A change is often said in nearly the same words, so contradictions come first.
    against = contradictions(item.summary, others)
    if not against and (known := duplicates(item.summary, others)):
        more = [k for k in known if says_more(item.summary, k.summary, item.owner) and _may_end(item, k)]
        if not more:
            done.use.append(known[0].id)
            return
        _replace(replace(item, derived_from=tuple(k.id for k in more)), more, live, done)
        return
    newer = [other for other in against if other.stated_at > item.stated_at]
    if newer:
        at = newer[0].valid_from or newer[0].made_at
        done.add.append(replace(item, status="ended", ended_at=at, superseded_by=newer[0].id))
    elif all(_may_end(item, other) or other.pinned for other in against):
        over = [other for other in against if not other.pinned and _says_only_that(other, item)]
        _replace(item, over, live, done)


def _says_only_that(old: Item, new: Item) -> bool:
    """Return whether the old item says nothing worth keeping besides what the new one contradicts."""
    who, text = speaker_of(old.summary)
    facts = facts_of(new.summary, new.owner)
    for part in _PARTS.split(text):
        said = facts_of(f"{who}: {part}" if who else part, old.owner)
        if kind_of(part) and not any(a.contradicts(b) for a in facts for b in said):
            return False
    return True


def _replace(item: Item, old: Sequence[Item], live: dict[str, Item], done: Reconciliation) -> None:
    item = replace(item, replaces=tuple(o.id for o in old))
    for other in old:
        del live[other.id]
        added = next((i for i, a in enumerate(done.add) if a.id == other.id), None)
        if added is None:
            done.end[other.id] = item.id
        else:
            at = item.valid_from or item.made_at
            done.add[added] = replace(other, status="ended", ended_at=at, superseded_by=item.id)
    live[item.id] = item
    done.add.append(item)


def _may_end(item: Item, other: Item) -> bool:
    return not other.pinned and item.trust >= other.trust
