"""Content units: what a clause says, as a bag of weighted stems, names, numbers and identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from onlooker.models.extractive.lexicon import COMMON_STEMS, FUNCTION, GENERIC_STEMS, stem
from onlooker.policy.text import CJK
from onlooker.policy.values import find_values

PLAIN, GENERAL, EVERYDAY = 1.0, 0.15, 0.55
NAMED = 2.5  # numbers, dates, names
ABSTRACT = 0.7
_SHORTEST_NUMBER = 3

_WORD = re.compile(rf"[{CJK}]+|\d[\d,]*(?:\.\d+)?|[^\W\d_{CJK}]+(?:['’][^\W\d_{CJK}]+)?")
_CONTRACTED = re.compile(r"(?:'(?:s|ve|re|ll|d|m)|n't)$")
_CJK_RUN = re.compile(rf"[{CJK}]")
_KATAKANA = re.compile("[\u30a0-\u30ff]{2,}")
# A word with a capital that no sentence begins with, or one in capitals.
_NAME = re.compile(r"(?<=[\w,)'’\"”&] )[^\W\d_][\w'’&-]*|\b[A-Z]{2,}\w*")
_QUOTED = re.compile(r"[\"“「『]([^\"”」』\n]{3,60})[\"”」』]")
_ABSTRACT_SUFFIX = re.compile(
    r"\w{3,}(?:ness|ity|tion|sion|ance|ence|ism|ment|ful|ous|ive|able|ible|ly|ship|hood)s?$"
)
_NUMBER_WORDS = {
    word: str(n)
    for n, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    )
}
# Characters that are mostly grammar; a pair that holds one says little.
_CJK_GRAMMAR = frozenset(
    "的了是在我你他她它们这那吗呢吧就都也很会有和与不要能可以把被给让对从到说着过还没个么什怎啊嗯哦呀はがをにでとものへやかねよだですますしたてるいうこそあれなさ이가은는을를에의로도고다요니"
)


def names_of(speakers: Iterable[str]) -> frozenset[str]:
    """The stems of the speakers' names: they stand before every line, so they say nothing in one."""
    return frozenset(
        unit for speaker in speakers for word in _WORD.findall(speaker) if (unit := word_unit(word))
    )


@lru_cache(maxsize=50_000)
def word_unit(word: str) -> str:
    """The stem that stands for a word; empty for one that says nothing."""
    word = word.lower().replace("’", "'")
    if word[0].isdigit():
        return word.replace(",", "")
    word = _CONTRACTED.sub("", word).replace("'", "")
    if word in _NUMBER_WORDS and word != "one":
        return _NUMBER_WORDS[word]
    if len(word) < 2 or word in FUNCTION:
        return ""
    return stem(word)


def units(text: str, speakers: frozenset[str] = frozenset()) -> dict[str, float]:
    """Each content unit of a text and how much it says."""
    named = _named(text)
    found: dict[str, float] = {}
    for word in _WORD.findall(text):
        if _CJK_RUN.match(word):
            for pair, weight in _cjk_units(word):
                found[pair] = max(found.get(pair, 0.0), weight)
        elif (unit := word_unit(word)) and unit not in speakers:
            found[unit] = max(found.get(unit, 0.0), _weight(word, unit, named))
    return found


def _named(text: str) -> frozenset[str]:
    """Units that stand in a name or in quotes."""
    spans = [word for word in _NAME.findall(text) if word[0].isupper()] + _QUOTED.findall(text)
    return frozenset(unit for span in spans for word in _WORD.findall(span) if (unit := word_unit(word)))


def _weight(word: str, unit: str, named: frozenset[str]) -> float:
    if unit[0].isdigit():
        return NAMED
    if unit in GENERIC_STEMS:
        return GENERAL
    if unit in named:
        return NAMED
    if unit in COMMON_STEMS:
        return EVERYDAY
    return ABSTRACT if _ABSTRACT_SUFFIX.search(word) else PLAIN


def _cjk_units(run: str) -> Iterable[tuple[str, float]]:
    """Pairs of characters, each worth half a word since a word gives about two of them."""
    for name in _KATAKANA.findall(run):
        yield name, NAMED
    if len(run) == 1:
        yield run, 0.3
    for i in range(len(run) - 1):
        pair = run[i : i + 2]
        grammar = (pair[0] in _CJK_GRAMMAR) + (pair[1] in _CJK_GRAMMAR)
        yield pair, (0.6, 0.2, 0.05)[grammar]


@lru_cache(maxsize=4096)
def value_units(text: str) -> tuple[str, ...]:
    """The exact values of a text that are asked for again by name, as units; each once, in order."""
    return tuple(
        dict.fromkeys(
            "#" + value.text.lower()
            for value in find_values(text)
            if value.kind != "quoted" and not (value.kind == "number" and len(value.text) < _SHORTEST_NUMBER)
        )
    )


def overlap(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """The weighted share of `a` that `b` says too."""
    total = sum(a.values())
    return sum(weight for unit, weight in a.items() if unit in b) / total if total else 0.0
