"""What a note speaks of by name: people, places, products, quoted titles, identifiers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from onlooker.policy.searching.words import STOP_WORDS
from onlooker.policy.values import find_values

# Of one note: beyond that it is a list, and its entries tell little of each other.
MOST_ENTITIES = 64
MOST_CHARACTERS = 100_000
_LONGEST = 80
# Values that name a thing. Amounts, times and dates stand in many notes that have nothing to do with
# each other.
_NAMING = frozenset(("url", "email", "path", "hash", "id", "code", "quoted"))
# A run of words with a capital, as "Ana Lund" or "Trondheim"; or in katakana.
_CAPITAL = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0401\u0410-\u042f"
_WORD = rf"[{_CAPITAL}][^\W_]*(?:['’&-][^\W_]+)*(?!\w)"
_RUN = re.compile(rf"(?<![\w.@/#-]){_WORD}(?: (?:(?:of|de|van|von|der|la|the) )?{_WORD})*")
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc]{3,}")
_QUOTES = "\"'“”‘’「」『』《》`"
# Where a sentence, a line or a statement begins, a capital says nothing.
_BEGINS = re.compile(r"(?:^|[.!?:;。！？]\s*|[-*•→←>]\s+|\]\s+)$")
_NO_NAMES = frozenset(
    """critical important note values user assistant system tool january february march april may june july
    august september october november december monday tuesday wednesday thursday friday saturday sunday jan
    feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun ok yes no mr mrs ms dr""".split()  # noqa: SIM905
)


def entities(text: str) -> tuple[str, ...]:
    """The names and identifiers that a text speaks of, as it writes them, each once and in order."""
    text = text[:MOST_CHARACTERS]
    found: dict[str, str] = {}
    for name in (*_values(text), *_names(text), *_KATAKANA.findall(text)):
        key = folded(name)
        if 1 < len(key) <= _LONGEST and len(found) < MOST_ENTITIES:
            found.setdefault(key, name)
    return tuple(found.values())


def folded(name: str) -> str:
    """What makes two spellings one entity."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _values(text: str) -> Iterator[str]:
    for value in find_values(text):
        if value.kind in _NAMING:
            yield " ".join(value.text.strip(_QUOTES).split())


def _names(text: str) -> Iterator[str]:
    runs = [(_bare(m[0]), _begins(text, m)) for m in _RUN.finditer(text)]
    inside = {word for words, begins in runs if not begins for word in words}
    for words, begins in runs:
        # Whatever begins a sentence has a capital: it is a name where it has one elsewhere too, or stands
        # before another.
        if begins and len(words) == 1 and words[0] not in inside and not words[0][1:2].isupper():
            continue
        if words:
            yield " ".join(words)


def _bare(run: str) -> list[str]:
    """The words of a run, without those at its ends that are no part of a name."""
    words = [re.sub(r"['’]s?$", "", word) for word in run.split()]
    while words and _says_nothing(words[0]):
        words.pop(0)
    while words and _says_nothing(words[-1]):
        words.pop()
    return words


def _says_nothing(word: str) -> bool:
    return len(word) < 2 or word.lower() in _NO_NAMES or word.lower() in STOP_WORDS


def _begins(text: str, match: re.Match[str]) -> bool:
    start = match.start()
    if text[match.end() : match.end() + 1] == ":" or text[match.end() - 2 : match.end()] in ("'s", "’s"):
        return False  # "Ana: …", "Ana's …": whoever it is about
    return _BEGINS.search(text, max(0, start - 8), start) is not None
