"""Compare items: which say the same, which contradict each other, and what new items replace.

Two items contradict each other if they give different answers where there can be only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from onlooker.domain.frozen import frozen
from onlooker.domain.items import Item
from onlooker.policy.items.statements import FAMILY, NEGATION, kind_of, leading_name
from onlooker.policy.origins import speaker_of
from onlooker.policy.search.words import query_tokens
from onlooker.policy.text import bounded, regex

# -- Facts: statements that can have only one answer

_SELF = frozenset(("", "user", "i", "me", "my", "we", "the user", "assistant"))
_SAYS = regex(r" (?:said|asks)$")
_NAME_IS = regex(r"(?:the user|(?P<who>[^:'’]{1,60}))['’]s name is (?P<name>[^,;:()\d]{1,60}?)\.?$", re.I)
_PLACE = r"(?P<value>[A-ZÀ-Þ][\w'’-]*(?:[ -][A-ZÀ-Þ][\w'’-]*){0,3})"
_VALUE = (
    r"(?P<value>[^,;()]{1,60}?)(?=\s+(?:and|as|since|but|because|instead|now|from|until)\b|[,;()]|\.\s"
    r"|\.?\s*$)"
)
_LIVES = regex(
    r"\b(?:liv(?:e|es|ing) in|based in|resid(?:e|es|ing) in|home is in"
    rf"|(?:mov(?:ed|ing)|relocat(?:ed|ing)) (?:from [\w .,'’-]{{1,40}}? )?(?:back )?to) (?:the )?{_PLACE}"
)
# The same in the other languages of `KINDS`.
_LIVES_OTHER = (
    regex(r"(?:住在|搬到了?|搬去了?|移居到?)(?P<value>[\u4e00-\u9fff]{2,4})"),
    regex(r"(?P<value>[\u4e00-\u9fff\u30a0-\u30ff]{2,8})に(?:住んで|引っ越)"),
    regex(r"(?P<value>[\uac00-\ud7a3]{2,6}?)(?:에 살|(?:으)?로 이사)"),
    regex(rf"\b[Ii]ch (?:wohne|lebe)(?: jetzt| nun)? in {_PLACE}"),
    regex(rf"\bnach {_PLACE}(?= (?:um)?gezogen\b)"),
    regex(rf"\b(?:[Jj]['’]habite|[Jj]e vis|déménagé)(?: maintenant)? (?:à|en|au) {_PLACE}"),
    regex(rf"\b(?:[Vv]ivo(?: ahora)? en|mud(?:é|ado) a) {_PLACE}"),
)
_RELATIVE = regex(rf"\b(?P<who>{FAMILY})(?:'s)?\b", re.I)
_THE_USER = regex(r"the user(?=['’]s\b|\s)", re.I)
_POSSESSIVE = regex(r"^['’]s\b")
# A relative at the beginning is whom the rest is about.
_LEADS = regex(
    rf"(?:my |our |their |his |her )?(?!(?:has|have|is|got|owns|likes?"
    rf"|loves?) )(?:[\w'’-]+ )?(?P<who>{FAMILY})\b",
    re.I,
)
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
_NEWER = regex(r"^(?:new|current) ", re.I)
_FAVOURITE = regex(
    rf"\bfavou?rite (?P<attribute>[\w-]+(?: [\w-]+)?)(?: is| are|:) (?:an? |the )?{_VALUE}", re.I
)
_WORKS = regex(
    rf"\b(?:works?|working) (?P<attribute>as|at|for) (?:an? |the )?(?:{_VALUE[:-1]}|\s+as\s))(?:\s+in\b)?",
    re.I,
)
_LEFT = regex(
    rf"\b(?:quit|left|resigned from|(?:was|got) (?:fired|laid off) (?:from|by)) "
    rf"(?:(?:my|his|her|their|the) (?:job|position|role|work) (?:at|with|for) )?{_VALUE}",
    re.I,
)
_AGE = regex(r"\b(?:is|am|are|i'm|turned|aged?) (?P<value>\d{1,3})(?= years old| in \d{4}|$)", re.I)
_PREFERS = regex(rf"\bprefers? (?:an? |the |to )?{_VALUE}", re.I)
_LIKES = regex(
    r"\b(?P<verb>likes?|loves?|enjoys?|hates?|dislikes?|can(?:'t|not) stand) (?:an? |the |to )?" + _VALUE,
    re.I,
)
_AGAINST = regex(r"hate|dislike|stand", re.I)
_IS = regex(
    r"\b(?P<value>vegetarian|vegan|pescatarian|married|single|engaged|divorced|retired|unemployed"
    r"|pregnant|left-handed|eats? meat)\b",
    re.I,
)
# Mutually exclusive values.
_GROUPS = {
    **dict.fromkeys(("vegetarian", "vegan", "pescatarian", "eat meat", "eats meat"), "diet"),
    **dict.fromkeys(("married", "single", "engaged", "divorced"), "marriage"),
}


# Before a value: it is not so, or not yet, or no longer.
_UNREAL = regex(
    r"\b(?:wants?|wanted|would|could|might|may|if|wish\w*|hop(?:es?|ed|ing)|plan(?:s|ned|ning)?|dream\w*"
    r"|consider(?:s|ing)|think(?:s|ing) (?:of|about)|used to|about to|as if|maybe|perhaps)\b|['’]d\b",
    re.I,
)


@frozen
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


def name_in(summary: str) -> str:
    """Return the name that a summary says the user has, or ""."""
    match = _NAME_IS.match(summary)
    return (
        match["name"] if match and (match["who"] or "").casefold() in ("", match["name"].casefold()) else ""
    )


def names_of(items: Sequence[Item]) -> frozenset[str]:
    """Return what the owner of these items is called in them: by id, and by name."""
    stated = [name.casefold() for item in items if (name := name_in(item.summary))]
    return frozenset((*{item.owner.casefold() for item in items}, *stated, *(n.split()[0] for n in stated)))


def subject_of(summary: str, names: frozenset[str] = frozenset()) -> str:
    """Return whom a summary is about; empty for the owner, also called the user."""
    named, text = _named(summary, names)
    if named:
        return named
    relative = _LEADS.match(text)
    return relative["who"].casefold() if relative else ""


def _named(summary: str, names: frozenset[str]) -> tuple[str, str]:
    """Split a summary into the person named at its beginning (empty for the owner) and the rest."""
    who, text = speaker_of(summary)
    who = _SAYS.sub("", who)
    if who[:1].islower() and who not in _SELF and who not in names:
        who = ""  # a topic, not a person
    user = _THE_USER.match(text)
    lead = "" if who else user[0] if user else leading_name(text)
    named = (who or lead).casefold()
    if named not in _SELF and named not in names:
        return named, text
    return "", _POSSESSIVE.sub("", text[len(lead) :]).strip()


# How many characters of a summary are read. Ours are shorter; those of others may have any length.
MAX_SUMMARY = 600


@lru_cache(maxsize=4096)
def facts_of(summary: str, names: frozenset[str] = frozenset()) -> Sequence[Fact]:
    """Find the facts in a summary. `names` are the owner's, who is also the user."""
    subject, text = _named(bounded(summary, MAX_SUMMARY), names)
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
    if about is not None and not _UNREAL.search(text[: match.start("value")]):
        yield Fact(about, attribute, value, denied)


def _homes(text: str, subject: str) -> Iterator[Fact]:
    match = next(filter(None, (pattern.search(text) for pattern in (_LIVES, *_LIVES_OTHER))), None)
    if match is not None and not _NO_HOME.search(text):
        yield from _fact(text, match, subject, "live in", _words(match["value"]), denied=_denied(text, match))


def _attributes(text: str, subject: str) -> Iterator[Fact]:
    for match in (*_FAVOURITE.finditer(text), *_ATTRIBUTE.finditer(text)):
        attribute = _words(_NEWER.sub("", match["attribute"]))
        yield from _fact(text, match, subject, attribute, _words(match["value"]))
    for match in _WORKS.finditer(text):
        attribute = f"works {match['attribute'].casefold()}"
        yield from _fact(text, match, subject, attribute, _words(match["value"]), denied=_denied(text, match))
    for match in _LEFT.finditer(text):
        for attribute in ("works at", "works for"):
            yield from _fact(text, match, subject, attribute, _words(match["value"]), denied=True)
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


# Words for what is not or no longer true, in the languages of `KINDS`.
_DENIAL = regex(
    r"\b(?:no longer|not|never|none|any ?more|any longer|stopped|quit|gave up|again|now|nicht(?: mehr)?"
    r"|kein\w*(?: mehr)?|jetzt|ne|plus|pas|jamais|maintenant|ya no|ya|no|nunca|ahora)\b|\bn['’](?=\w)"
    r"|\b\w+n['’]t\b|不再|已经不|不|没有|没|沒|もう|では?ありません|じゃありません|では?ない|じゃない"
    r"|ません|ない"
    r"|です|더 이상|이제|않\w*|안 |없\w*|있\w*",
    re.I,
)
# Words for a change, not only for what is not so.
_CHANGED = regex(
    r"\b(?:no longer|any ?more|any longer|stopped|quit|gave up|nicht mehr|kein\w* mehr|ya no)\b"
    r"|\bn(?:e\b|['’]).{0,40}?\bplus\b|不再|已经不|もう.*(?:ない|ません)|더 이상|이제.*(?:않|안 |없)",
    re.I,
)
# "is a nurse" and "works as a nurse" say the same.
_CARRIERS = frozenset(("work", "job", "user", "ich", "bin", "je", "suis", "yo", "soy", "say", "ask"))


_WORD = regex(r"[\w-]+")
_FILLERS = frozenset(("a", "an", "the", "do", "does", "did", "really"))
_STEMS = {"have": "has", "am": "is", "are": "is", "works": "work", "lives": "live", "likes": "like"}


@frozen
class _Meaning:
    """The parts of a summary that are compared."""

    subject: str
    words: frozenset[str]
    numbers: frozenset[str]
    denied: bool
    changed: bool
    claim: frozenset[str]  # the words without denials and words without meaning
    order: tuple[str, ...]  # the same, with verbs, in order


@lru_cache(maxsize=8192)
def _meaning(summary: str, names: frozenset[str]) -> _Meaning:
    _, text = _named(summary, names)
    ignored = {"user", "say", "ask", *(token for name in names for token in query_tokens(name))}
    found = query_tokens(text)
    words = frozenset(found) - ignored or frozenset(found)
    plain = _DENIAL.sub("", text)
    claim = frozenset(query_tokens(plain)) - ignored - _CARRIERS
    said: list[str] = _WORD.findall(plain.casefold())
    order = tuple(_STEMS.get(w, w) for w in said if w not in _FILLERS)
    numbers = frozenset(w for w in words if any(c.isdigit() for c in w))
    changed = bool(_CHANGED.search(text))
    denied = changed or bool(NEGATION.search(text))
    return _Meaning(subject_of(summary, names), words, numbers, denied, changed, claim, order)


def same_meaning(one: str, other: str, names: frozenset[str]) -> bool:
    """Return whether two summaries say the same, or one says all that the other does."""
    first, second = _meaning(one, names), _meaning(other, names)
    if first.subject != second.subject:
        return False
    if not first.words or not second.words or first.numbers != second.numbers:
        return first.words == second.words
    if first.denied != second.denied:
        return False
    if _share(first.words, second.words) >= SAME:
        return True
    return _says_more(first.words, second.words) or _says_more(second.words, first.words)


def denies(one: str, other: str, names: frozenset[str]) -> bool:
    """Return whether one of two summaries says that the other is not so, or no longer: the same words, with
    and without a denial. A change also ends what says more, as "no longer has a dog" does "has a dog called
    Rex"."""
    first, second = _meaning(one, names), _meaning(other, names)
    if first.denied == second.denied or first.subject != second.subject:
        return False
    denial, claim = (first, second) if first.denied else (second, first)
    if not denial.claim or not claim.claim:
        return False
    if denial.changed and claim.order[: len(denial.order)] == denial.order:
        return True
    return denial.numbers == claim.numbers and _share(denial.claim, claim.claim) >= SAME


def _share(words: frozenset[str], others: frozenset[str]) -> float:
    return len(words & others) / len(words | others)


def says_more(one: str, other: str, names: frozenset[str]) -> bool:
    """Return whether the first summary says what the other does, and more."""
    return _says_more(_meaning(one, names).words, _meaning(other, names).words)


def _says_more(words: frozenset[str], others: frozenset[str]) -> bool:
    if len(others) < MIN_WORDS or len(words) <= len(others):
        return False
    return len(words & others) / len(others) >= WITHIN


def duplicates(summary: str, items: Sequence[Item], names: frozenset[str] | None = None) -> list[Item]:
    """Return the items that say the same as the summary. `names` are the owner's, if they are known."""
    names = names_of(items) if names is None else names
    return [item for item in items if same_meaning(summary, item.summary, names)]


def contradictions(summary: str, items: Sequence[Item], names: frozenset[str] | None = None) -> list[Item]:
    """Return the items that contradict the summary. `names` are the owner's, if they are known."""
    names = names_of(items) if names is None else names
    return [item for item in items if _contradict(summary, item.summary, names)]


def _contradict(one: str, other: str, names: frozenset[str]) -> bool:
    new, old = facts_of(one, names), facts_of(other, names)
    return any(a.contradicts(b) for a in new for b in old) or denies(one, other, names)


# -- Adding new items to existing ones


@dataclass(slots=True)
class Reconciliation:
    """Items to add, existing items to end, each with its replacement ("" if nothing replaces it), and items
    that count as used."""

    names: frozenset[str]  # the owner's
    add: list[Item] = field(default_factory=list[Item])
    end: dict[str, str] = field(default_factory=dict[str, str])
    use: list[str] = field(default_factory=list[str])


def reconcile(new: Sequence[Item], existing: Sequence[Item]) -> Reconciliation:
    """Add new items, oldest first.

    A known item counts as a use of the existing one. A contradicting item ends the existing one, unless
    that is newer, pinned or more trusted. A new item that has ended already is one to forget: it ends those
    that say the same, and is not added.
    """
    done = Reconciliation(names_of((*existing, *new)))
    live = {item.id: item for item in existing}
    for item in new:
        if item.status == "ended":
            _take_back(item, live, done)
        else:
            _add(item, live, done)
    return done


def _take_back(item: Item, live: dict[str, Item], done: Reconciliation) -> None:
    facts = facts_of(item.summary, done.names)
    for other in [*live.values()]:
        said = same_meaning(item.summary, other.summary, done.names) or any(
            fact in facts for fact in facts_of(other.summary, done.names)
        )
        if said and _may_end(item, other) and other.stated_at <= item.stated_at:
            _end(other, item, "", live, done)


def _add(item: Item, live: dict[str, Item], done: Reconciliation) -> None:
    others, names = list(live.values()), done.names
    # A change is often said in nearly the same words, so contradictions come first.
    against = contradictions(item.summary, others, names)
    if not against and (known := duplicates(item.summary, others, names)):
        more = [k for k in known if says_more(item.summary, k.summary, names) and _may_end(item, k)]
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
        over = [other for other in against if not other.pinned and _says_only_that(other, item, names)]
        _replace(item, over, live, done)


def _says_only_that(old: Item, new: Item, names: frozenset[str]) -> bool:
    """Return whether the old item says nothing worth keeping besides what the new one contradicts."""
    who, text = speaker_of(old.summary)
    for part in _PARTS.split(text):
        if kind_of(part) and not _contradict(f"{who}: {part}" if who else part, new.summary, names):
            return False
    return True


def _replace(item: Item, old: Sequence[Item], live: dict[str, Item], done: Reconciliation) -> None:
    item = replace(item, replaces=tuple(o.id for o in old))
    for other in old:
        _end(other, item, item.id, live, done)
    live[item.id] = item
    done.add.append(item)


def _end(other: Item, item: Item, by: str, live: dict[str, Item], done: Reconciliation) -> None:
    """End an item because of a new one, which may take its place."""
    del live[other.id]
    added = next((i for i, a in enumerate(done.add) if a.id == other.id), None)
    if added is None:
        done.end[other.id] = by
    else:
        at = item.valid_from or item.made_at
        done.add[added] = replace(other, status="ended", ended_at=at, superseded_by=by)


def _may_end(item: Item, other: Item) -> bool:
    return not other.pinned and item.trust >= other.trust
