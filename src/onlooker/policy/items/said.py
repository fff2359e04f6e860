"""Statements of messages that have no note yet: what a person says about themselves, in the third person."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from onlooker.domain.messages import Message
from onlooker.policy.items.statements import Statement, in_two
from onlooker.policy.text import CJK_CHARACTER

# A longer message is more likely a text that was pasted than something said.
MOST_SAID = 600
MOST_READ = 20_000

_SENTENCES = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+|;\s+|,?\s+(?=but\s)")
_OPENING = re.compile(
    r"^(?:(?:and|but|so|well|also|oh|ok(?:ay)?|hi|hello|hey|by the way|btw|actually|yes|yeah|sure|thanks"
    r"|thank you|fyi|note(?: that)?)\b[\s,!:.-]*)+",
    re.I,
)
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|my|me|mine|we|we're|our|us)\b", re.I)
_RULE = re.compile(r"(?:always|never|please|from now on|call me|remember)\b", re.I)
_AM = re.compile(r"^(?:i am|i'm|im)\s+(?P<rest>.+)", re.I)
_HAVE = re.compile(r"^(?:i have|i've)\s+(?P<rest>.+)", re.I)
_MY = re.compile(r"^(?:my|our)\s+", re.I)
_I = re.compile(r"^I\s+")
_NAME = re.compile(r"(?P<name>[A-ZÀ-Þ][\w'’-]+(?: [A-ZÀ-Þ][\w'’-]+)?)(?P<rest>,? .+)?$")
_VERBS = (
    "live|work|prefer|like|love|hate|dislike|enjoy|use|want|need|speak|play|own|drink|eat|know|run|write|drive|take"
    "|teach|study|come|train|read|cook|learn|collect|usually|always|never|really|mostly|also|don't|do not"
)
_DOES = re.compile(rf"^(?:i\s+)?(?P<verb>{_VERBS})\s+(?P<rest>.+)", re.I)
_NO_VERB = frozenset(("usually", "always", "never", "really", "mostly", "also"))


def said(messages: Sequence[Message]) -> Iterator[Statement]:
    """What users say in these messages, sentence by sentence, each with its message."""
    for message in messages:
        if message.role != "user":
            continue
        day = message.at.date() if message.at else None
        for clause in _clauses(message.text[:MOST_READ], short=len(message.text) <= MOST_SAID):
            yield Statement(clause, message.speaker, "user", day, "NOTE", message.id)


def _clauses(text: str, *, short: bool) -> Iterator[str]:
    for raw in _SENTENCES.split(text):
        sentence = _OPENING.sub("", raw.strip()).strip()
        if sentence.endswith(("?", "？")):
            yield sentence
            continue
        personal = _FIRST_PERSON.search(sentence) or _RULE.match(sentence) or CJK_CHARACTER.search(sentence)
        if sentence and (short or personal):
            for clause in in_two(sentence.rstrip(".!…。！")):
                yield from third_person(clause)


def third_person(clause: str) -> Iterator[str]:
    """ "I live in Oslo" as "lives in Oslo": what stands behind the speaker's name. A person who says who
    they are says it first."""
    if match := _AM.match(clause):
        named = _NAME.match(match["rest"])
        if named:
            yield f"name is {named['name']}"
            rest = (named["rest"] or "").lstrip(", ")
            if rest:
                yield from third_person(rest)
            return
        yield f"is {match['rest']}"
    elif match := _HAVE.match(clause):
        yield f"has {match['rest']}"
    elif match := _DOES.match(clause):
        yield _conjugated(match["verb"], match["rest"])
    else:
        yield _I.sub("", _MY.sub("", clause))


def _conjugated(verb: str, rest: str) -> str:
    small = verb.casefold()
    if small in ("don't", "do not"):
        return f"does not {rest}"
    if small in _NO_VERB:
        inner = _DOES.match(rest)
        return f"{small} {_conjugated(inner['verb'], inner['rest'])}" if inner else f"{small} {rest}"
    if small.endswith("y") and small[-2] not in "aeiou":
        return f"{small[:-1]}ies {rest}"
    return f"{small}{'es' if small.endswith(('ch', 'sh', 's', 'x')) else 's'} {rest}"
