"""Turn what a person says about themselves into a sentence about them: "I live in Oslo", "Ana lives in Oslo".

English is put in the third person. Anything else is quoted: `Ana said: "我对花生过敏"`.
"""

from __future__ import annotations

import re

from onlooker.policy.text import regex

# The person, if no name is known.
THE_USER = "The user"

_FIRST = regex(r"(?:I|I['’](?:m|ve|ll|d)|[Mm]y)\b")
_AM = regex(r"(?:i am|i['’]m|im|am)\s+(?P<rest>.+)", re.I)
_HAVE = regex(r"(?:i have|i['’]ve|have)\s+(?P<rest>.+)", re.I)
_WILL = regex(r"i['’]ll\s+(?P<rest>.+)", re.I)
_WOULD = regex(r"i['’]d\s+(?P<rest>.+)", re.I)
_MY = regex(r"(?:my|our)\s+(?P<rest>.+)", re.I)
_I = regex(r"i\s+(?P<rest>.+)", re.I)
_PERSONAL = regex(r"\b(?:i|me|my|mine|myself|we|us|our|ours)\b|\b(?:i|we)['’]", re.I)
_THING = regex(r"the\s", re.I)
_OTHERS = regex(r"\b(?:they|them|their|theirs|themselves)\b", re.I)
# What comes before a verb: "I really like", "I no longer work".
_ADVERBS = regex(
    r"(?:(?:now|no longer|also|really|actually|usually|often|always|never|mostly|mainly|still|just|only"
    r"|absolutely|currently|sometimes|generally|definitely|recently|already|finally|both|strongly|much)\s+)*",
    re.I,
)
_WORD = regex(r"[A-Za-z'’]+")
_FORMS = {
    "am": "is", "have": "has", "do": "does", "don't": "does not", "haven't": "has not", "go": "goes",
    "dont": "does not",
}  # fmt: skip
# The same in every person.
_UNCHANGED = regex(
    r"can|can't|cannot|could|couldn't|will|won't|would|wouldn't|should|shouldn't|must|might|may|was"
    r"|wasn't|were|did"
    r"|didn't|had|hadn't|used|went|came|met|bought|got|took|gave|made|said|told|knew|thought|found|left"
    r"|felt|kept"
    r"|began|brought|built|chose|drew|drove|ate|fell|flew|forgot|grew|heard|held|led|lost|paid|ran|rode"
    r"|rose|sang"
    r"|sat|saw|sent|sold|slept|spent|spoke|stood|swam|taught|wore|won|wrote|broke|caught|fought|hid"
    r"|became|woke"
    r"|dealt|meant|quit|is|has|does|(?!(?:n|f|bl|sp|exc|succ)eed)\w+ed"
)
_TO_THIRD = (
    (regex(r"\b(?:i|we)\s+am\b|\b(?:i|we)['’]m\b", re.I), "they are"),
    (regex(r"\b(?:i|we)\s+was\b", re.I), "they were"),
    (regex(r"\b(?:i|we)['’](?=ve\b|ll\b|d\b|re\b)", re.I), "they'"),
    (regex(r"\b(?:I|[Ww]e)\b"), "they"),
    (regex(r"\b(?:my|our)\b", re.I), "their"),
    (regex(r"\b(?:mine|ours)\b", re.I), "theirs"),
    (regex(r"\bmyself\b", re.I), "themselves"),
    (regex(r"\b(?:me|us)\b"), "them"),
)


def sentence(clause: str, name: str = "") -> str:
    """Return a clause that a person said as a sentence about them. Without a name they are "The user"."""
    who = name or THE_USER
    if _OTHERS.search(clause) and _PERSONAL.search(clause, 2):
        return f'{who} said: "{clause}"'  # in the third person nobody could tell who is who
    if match := _AM.fullmatch(clause):
        return f"{who} is {_third(match['rest'])}"
    if match := _HAVE.fullmatch(clause):
        return f"{who} has {_third(match['rest'])}"
    if match := _WILL.fullmatch(clause):
        return f"{who} will {_third(match['rest'])}"
    if match := _WOULD.fullmatch(clause):
        return f"{who} would {_third(match['rest'])}"
    if match := _MY.fullmatch(clause):
        return f"{who}'s {_third(match['rest'])}"
    if match := _I.fullmatch(clause):
        return f"{who} {_conjugated(match['rest'])}"
    if _THING.match(clause) and not _PERSONAL.search(clause):
        return clause  # already a sentence, and not about a person
    return f'{who} said: "{clause}"'


def request(clause: str, name: str = "") -> str:
    """Return what a person asks an assistant to do as a sentence about them."""
    return f'{name or THE_USER} asks: "{clause}"'


# How the words of a note continue after the person's name, which they leave out.
_NOTED_THING = regex(
    r"(?:older |younger |best |new |favou?rite )?(?:sister|brother|wife|husband|partner|girlfriend|boyfriend"
    r"|son|daughter|mother|father|mom|mum|dad|parents|kids?|child|children|friends?|dog|cat|boss|manager"
    r"|colleague"
    r"|name|birthday|e-?mail|phone|address|deadline|budget|time ?zone|job)\b",
    re.I,
)
_NOTED_STATE = regex(
    r"(?:allergic|intolerant|vegetarian|vegan|pescatarian|pregnant|diabetic|married|single|engaged"
    r"|divorced|retired"
    r"|based in|fluent in|an? \w)",
    re.I,
)
_NOTED_VERB = regex(
    r"(?:is|has|was|does|can|will|would|moved|decided|switched|learned|graduated|started|got"
    r"|(?:never|always|usually) \w+s|(?:live|work|prefer|like|love|hate|dislike|enjoy|use|want|need|speak"
    r"|play"
    r"|own|drink|eat|know|run|drive|take|come|train|read|cook|learn|collect)s?|teach(?:es)?|stud(?:y"
    r"|ies))\b(?!:)"
)


def predicate(text: str, name: str) -> str:
    """Return a note's words about a person as a sentence: "prefers tea" becomes "Ana prefers tea"."""
    who = name or THE_USER
    if _NOTED_THING.match(text):
        return f"{who}'s {text}"
    if _NOTED_STATE.match(text):
        return f"{who} is {text}"
    if verb := _NOTED_VERB.match(text):
        return f"{who} {text}" if verb[0].endswith("s") else f"{who} {_conjugated(text)}"
    if _FIRST.match(text):
        return sentence(text, name)
    return f"{who}: {text}"


def _third(text: str) -> str:
    for pattern, word in _TO_THIRD:
        text = pattern.sub(word, text)
    return text


def _conjugated(rest: str) -> str:
    adverbs = _ADVERBS.match(rest)
    start = adverbs.end() if adverbs else 0
    verb = _WORD.match(rest, start)
    if verb is None:
        return _third(rest)
    word = verb[0].casefold().replace("’", "'")
    return f"{rest[:start]}{_form(word)}{_third(rest[verb.end() :])}"


def _form(verb: str) -> str:
    """Return the third person of a verb, in the tense that it has."""
    if verb in _FORMS:
        return _FORMS[verb]
    if "'" in verb or _UNCHANGED.fullmatch(verb):
        return verb
    if verb.endswith("y") and verb[-2:-1] not in tuple("aeiou"):
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("ch", "sh", "s", "x", "z", "o")) else f"{verb}s"
