"""A short answer keeps what it answers: "kind of dog: border collie"."""

from __future__ import annotations

import re

from onlooker.models.extractive.units import units, word_unit

_OPEN_QUESTION = re.compile(r"^(?:and |so |but )?(?:what|which|who)\b(?:'s|'re)?", re.I)
_ASKING = re.compile(
    r"\b(?:is|are|was|were|do|does|did|have|has|had|will|would|can|could|should|you|your|you're|yours"
    r"|he|she|it|they"
    r"|his|her|their|this|that|these|those|been|going|gonna|thinking|like|else|about|any|there|got"
    r"|kinda|it's|to)\b",
    re.I,
)
_MOST_TOPIC_WORDS = 3
_FEW_UNITS = 2
_TELLING = 0.5  # weight from which a unit says something


def topic(question: str) -> str:
    """What an open question asks for, in a few words; empty where it has none to give."""
    opening = _OPEN_QUESTION.match(question)
    if opening is None:
        return ""
    words = _ASKING.sub(" ", question[opening.end() :].rstrip("?？ ")).split()
    # A word of grammar among them means that a sentence is left, not the name of a thing.
    named = all(word.isalpha() and (word_unit(word) or word == "of") for word in words)
    return " ".join(words) if named and 0 < len(words) <= _MOST_TOPIC_WORDS else ""


def is_elliptic(answer: str) -> bool:
    """Whether an answer says too little to be understood without its question."""
    return 0 < sum(weight >= _TELLING for weight in units(answer).values()) <= _FEW_UNITS
