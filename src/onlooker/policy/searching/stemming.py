"""A light stemmer for English: "hiking", "hiked" and "hikes" are one word to look for.

It is applied to every word in Latin letters, whatever the language. A stem need not be a word; it only
has to be the same for what belongs together and different for what does not.
"""

from __future__ import annotations

from functools import lru_cache

# Verbs and plurals that no ending gives away.
_IRREGULAR = {
    form: stem
    for stem, forms in {
        "go": "went gone goes going",
        "buy": "bought",
        "bring": "brought",
        "think": "thought",
        "teach": "taught",
        "catch": "caught",
        "feel": "felt",
        "keep": "kept",
        "sleep": "slept",
        "leave": "left",
        "meet": "met",
        "tell": "told",
        "sell": "sold",
        "find": "found",
        "get": "got gotten",
        "give": "gave given",
        "take": "took taken",
        "make": "made",
        "come": "came",
        "become": "became",
        "begin": "began begun",
        "run": "ran",
        "sing": "sang sung",
        "swim": "swam swum",
        "drink": "drank drunk",
        "write": "wrote written",
        "ride": "rode ridden",
        "drive": "drove driven",
        "speak": "spoke spoken",
        "break": "broke broken",
        "choose": "chose chosen",
        "wear": "wore worn",
        "grow": "grew grown",
        "know": "knew known",
        "draw": "drew drawn",
        "fly": "flew flown",
        "see": "saw seen",
        "eat": "ate eaten",
        "fall": "fell fallen",
        "forget": "forgot forgotten",
        "win": "won",
        "lose": "lost",
        "build": "built",
        "send": "sent",
        "spend": "spent",
        "pay": "paid",
        "say": "said",
        "hear": "heard",
        "hold": "held",
        "stand": "stood",
        "understand": "understood",
        "child": "children",
        "man": "men",
        "woman": "women",
        "foot": "feet",
        "mouse": "mice",
        "life": "lives",
        "wife": "wives",
        "person": "people",
    }.items()
    for form in forms.split()
}
# An ending that is none.
_AS_THEY_ARE = frozenset(
    ("news", "always", "perhaps", "during", "nothing", "something", "anything", "morning")
)
_VOWELS = frozenset("aeiouy")
_DOUBLED = frozenset("bdgmnprt")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a lower-case word; one with other than plain Latin letters stays as it is."""
    if len(word) < 3 or word in _AS_THEY_ARE or not (word.isascii() and word.isalpha()):
        return word
    word = _IRREGULAR.get(word, word)
    word = _without_tense(_without_plural(word))
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    return _without_last_vowel(word)


def _without_plural(word: str) -> str:
    if not word.endswith("s") or len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def _without_tense(word: str) -> str:
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and not _VOWELS.isdisjoint(rest):
            # "planned" is of "plan", but "called" of "call".
            return rest[:-1] if rest[-1] == rest[-2] and rest[-1] in _DOUBLED else rest
    return word


def _without_last_vowel(word: str) -> str:
    """ "hike" and "hik(ing)" become one; so do "study" and "studi(ed)"."""
    if len(word) > 3 and word.endswith("e"):
        return word[:-1]
    if len(word) > 3 and word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "i"
    return word
