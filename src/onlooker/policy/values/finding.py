"""Where the exact values are in a text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_LONGEST = 120
_EXTENSIONS = (
    r"(?:py|pyi|js|jsx|mjs|tsx?|java|kt|c|h|cc|cpp|hpp|cs|go|rs|rb|php|swift|sh|sql|md|rst|txt|json"
    r"|jsonl|ya?ml"
    r"|toml|cfg|ini|conf|env|lock|xml|html?|css|csv|tsv|log|pdf|docx?|xlsx?|pptx?|png|jpe?g|svg|zip|gz"
    r"|tar|whl|db"
    r"|ipynb|pony|proto|tf)"
)
# In order: where two kinds could begin at one place, the first one wins.
_KINDS = (
    # No value begins with a plain word, and most words are plain: stepping over them saves most of the time.
    ("word", r"(?:\s++|\b[A-Z]?[a-z]++(?=[\s,;!?)]|\.\s|\Z))++"),
    ("url", r"\b(?:https?|ftp|wss?|s3|gs|file|postgres(?:ql)?|redis|mysql|sqlite)://[^\s<>\"'`）)\]}，。…]+"),
    ("email", r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"),
    (
        "path",
        r"(?<![\w/.:~-])(?:~|\.{1,2})?/(?:[\w.@+%=-]+/)*[\w@+%=.-]*[\w@+%=-]|\b[A-Za-z]:\\[\w\\.-]+"
        rf"|(?<![\w/])(?:[\w.@-]+/)+[\w.@-]*[\w-]\.\w{{1,8}}\b"
        rf"|(?<![\w/.])[\w-]+(?:\.[\w-]+)*\.{_EXTENSIONS}\b(?!\()",
    ),
    (
        "hash",
        r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
        r"|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b",
    ),
    (
        "date",
        r"(?<![\d-])(?:19|20)\d\d-\d\d(?:-\d\d)?(?:T\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)?(?![\d-])"
        r"|(?<!\d)(?:19|20)\d\d-W\d\d\b",
    ),
    ("time", r"(?<![\d:.])\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]\.?m\b\.?)?(?![\d:])|\b\d{1,2}\s?[ap]\.?m\b"),
    ("version", r"\bv\d+(?:\.\d+)*(?:[-+.][\w.]+)?\b|(?<![\w.])\d+\.\d+\.\d+(?:[-+.][\w.]*\w)?(?![\w.]*\w)"),
    (
        "money",
        r"[$€£¥￥₩]\s?\d[\d,]*(?:\.\d+)?\s?(?:[kKmMbB]\b|bn\b|million\b|billion\b)?"
        r"|(?<![\w.])\d[\d,.]*\s?(?:€|£|元|円|원|万元|USD|EUR|GBP|RMB|CNY|JPY|KRW|dollars?\b|euros?\b)",
    ),
    (
        "id",
        r"\b[A-Z]{2,}[-_#]?\d+(?:-\d+)*\b|#\d+\b|\b(?=[A-Z0-9]*\d)(?=[A-Z0-9]*[A-Z])[A-Z0-9]{5,}\b"
        r"|\b(?=\w*\d)\w+(?:[_-]\w+)*_\w+(?:[_-]\w+)*\b|\b(?=(?:\d-?){5})\d+(?:-\d+)+\b|\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b",
    ),
    (
        "code",
        r"`[^`\n]{2,100}`|\b[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)+\(?\)?|\b[a-z]\w*_\w+\b(?:\(\))?"
        r"|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b|\b(?:[A-Z][a-z0-9]+){2,}\b|(?<![\w-])--[a-z][\w-]+",
    ),
    ("quoted", r"[\"“「『《][^\"”」』》\n]{2,60}[\"”」』》]"),
    (
        "number",
        r"(?<![\w.,])[-−]?\d[\d,]*(?:\.\d+)?\s?(?:%|‰|°[CF]?|(?:[kKMGT]i?B|[µmk]?g|[cmk]?m|[µmn]?s|ms"
        r"|min|hrs?|h|kWh|[kMG]?Hz|[kMG]?W"
        r"|px|[kM]?bps|mph|km/h|lbs?|oz|ft|mi|cm|mm|ml|l|L|V|A|fps|rpm|x|×|K|M|B|k)\b(?!\w))"
        r"|(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?!\w)"
        r"|\d+(?:\.\d+)?(?=[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af])",
    ),
)
# ASCII: a Chinese character beside an identifier ends it, as a space would.
# Within a word nothing begins but a number that a character follows.
_ANY = re.compile(
    r"(?:(?<!\w)|(?![A-Za-z_]))(?:" + "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS) + ")",
    re.A,
)
# Every value has one of these; most clauses of a chat have none.
_MAYBE = re.compile(r"[\d/\\_@`\"“「『《]|[a-z][A-Z]|\w[.:]\w|--|[A-Z][a-z]+[A-Z]")
_JSON = re.compile(r'"\s?:')
# A line break, tab or quote as JSON writes it; left there, its letter would be taken for the next word's.
_ESCAPED = re.compile(r'(?<!\\)\\[nrt"]')
_EDGES = ".,:;!?，。；：、"
_DIGITS = frozenset("0123456789")
_IN_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyz_")
_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s", "u.k"})


class Value(NamedTuple):
    """An exact value, what kind it is, and where it stands."""

    text: str
    kind: str
    at: int


def find_values(text: str) -> list[Value]:
    """The exact values of a text in order, each as often as it stands there."""
    if not _MAYBE.search(text):
        return []
    if _JSON.search(text):  # its quotes mark strings, not names that somebody quoted
        text = _ESCAPED.sub("  ", text).replace('"', " ")
    found: list[Value] = []
    for match in _ANY.finditer(text):
        kind = match.lastgroup or ""
        if kind == "word":
            continue
        value = match[0].strip().rstrip(_EDGES)
        if kind == "code":
            value = value.strip("`")
        if (1 < len(value) <= _LONGEST and value.lower() not in _ABBREVIATIONS) or (
            kind == "number" and value.isdigit()
        ):
            found.append(Value(value, kind, match.start()))
    return found


@lru_cache(maxsize=4)
def _lower(text: str) -> str:
    """A note is asked for each of its values in turn."""
    return text.lower()


def holds(text: str, value: str) -> bool:
    """Whether the value stands in the text to the letter, and not as a part of a longer one."""
    bare = value.strip('"“”「」『』《》`')
    lower, bare = _lower(text), bare.lower()
    at = lower.find(bare)
    while bare and at >= 0:
        if _begins(lower, at) and _ends(lower, at + len(bare)):
            return True
        at = lower.find(bare, at + 1)
    return False


def _begins(text: str, at: int) -> bool:
    """Whether what stands there is not the rest of something longer: of a word, 1.5, 2026-05."""
    before = text[at - 1] if at else " "
    if text[at].isalnum():
        return (
            before not in _IN_WORD
            and not (before in ".," and text[at - 2 : at - 1].isalnum())
            and not (before == "-" and text[at - 2 : at - 1] in _DIGITS)
        )
    return text[at] not in "#/" or before not in _IN_WORD


def _ends(text: str, end: int) -> bool:
    after = text[end : end + 2] + "  "
    return not text[end - 1].isalnum() or (
        after[0] not in _IN_WORD and not (after[0] in ".," and after[1] in _DIGITS)
    )
