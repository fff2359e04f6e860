"""Exact values: what a note must keep word for word and must not invent.

Values are paths, addresses, ids, hashes, versions, amounts, times, quoted names and code identifiers. The
order of results is the same in every process.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from onlooker.policy.pace import give_way
from onlooker.policy.secrets import MASK, mask
from onlooker.policy.text import regex, said_once
from onlooker.policy.tokens import estimate

# -- Finding values

_MAX_LENGTH = 120
_EXTENSIONS = (
    r"(?:py|pyi|js|jsx|mjs|tsx?|java|kt|c|h|cc|cpp|hpp|cs|go|rs|rb|php|swift|sh|sql|md|rst|txt|json"
    r"|jsonl|ya?ml"
    r"|toml|cfg|ini|conf|env|lock|xml|html?|css|csv|tsv|log|pdf|docx?|xlsx?|pptx?|png|jpe?g|svg|zip|gz"
    r"|tar|whl|db"
    r"|ipynb|pony|proto|tf)"
)
# Where two kinds match at one position, the first one wins. No pattern may begin at each character of what it
# then reads to its end (a row of dashes, "a.a.a.a"), or a page of it takes hours: each begins only where its
# own characters begin, or reads a bounded number of them.
_KINDS = (
    # No value begins with a plain word, one of these marks or a character of these scripts. Skipping them in
    # one piece saves most of the time.
    (
        "word",
        r"(?:[\s,;:!?()\[\]{}<>=*'\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]++"
        r"|\b[A-Z]?[a-z]++(?=[\s,;!?()\[\]{}<>=*'\"]|[.:]\s|\Z))++",
    ),
    ("url", r"\b(?:https?|ftp|wss?|s3|gs|file|postgres(?:ql)?|redis|mysql|sqlite)://[^\s<>\"'`）)\]}，。…]+"),
    ("email", r"\b[\w.+-]{1,64}+@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"),
    (
        "path",
        r"(?<![\w/.:~<-])(?:~|\.{1,2})?/(?:[\w.@+%=-]+/)*[\w@+%=.-]*[\w@+%=-]|\b[A-Za-z]:\\[\w\\.-]+"
        r"|(?<![\w/.@-])(?:[\w.@-]+/)+[\w.@-]*[\w-]\.\w{1,8}\b"
        rf"|(?<![\w/.-])[\w-]+(?:\.[\w-]+)*\.{_EXTENSIONS}\b(?!\()",
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
        r"|(?<![\w.])\d[\d,.]{0,30}\s?(?:€|£|元|円|원|万元|USD|EUR|GBP|RMB|CNY|JPY|KRW|dollars?\b|euros?\b)",
    ),
    (
        "id",
        r"\b[A-Z]{2,}[-_#]?\d+(?:-\d+)*\b|#\d+\b|\b(?=[A-Z0-9]*\d)(?=[A-Z0-9]*[A-Z])[A-Z0-9]{5,}\b"
        r"|\b(?=\w*\d)(?=(?:\w|-(?=\w)){1,100}?_\w)\w+(?:-\w+)*\b|\b(?=(?:\d-?){5})\d+(?:-\d+)+\b|\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b"
        # The number of a meter, of an account: nobody counts that far.
        r"|(?<![\w.,-])\d{9,40}(?!\w|[.,]\d)",
    ),
    (
        "code",
        r"`[^`\n]{2,100}`|\b[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)+(?:\(\))?|\b[a-z]\w*_\w+\b(?:\(\))?"
        r"|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b|\b(?:[A-Z][a-z0-9]+){2,}\b|(?<![\w-])--[a-z][\w-]+",
    ),
    ("quoted", r"[\"“「『《][^\"”」』》\n]{2,60}[\"”」』》]"),
    (
        "number",
        r"(?<![\w.,])[-−]?\d[\d,]*(?:\.\d+)?\s?(?:%|‰|°[CF]?|(?:[kKMGT]i?B|[µmk]?g|[cmk]?m|[µmn]?s|ms"
        r"|min|hrs?|h|kWh|[kMG]?Hz|[kMG]?W"
        r"|px|[kM]?bps|mph|km/h|lbs?|oz|ft|mi|cm|mm|ml|l|L|V|A|fps|rpm|x|×|K|M|B|k)\b(?!\w))"
        r"|(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?!\w)"
        r"|(?<!\d)\d+(?:\.\d+)?(?=[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af])",
    ),
)
# ASCII: a Chinese character next to an identifier ends it, like a space.
# Inside a word, only a number followed by such a character may begin.
_ANY = regex(
    r"(?:(?<!\w)|(?![A-Za-z_]))(?:" + "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS) + ")",
    re.A,
)
# Every value contains one of these; most clauses of a chat contain none.
_MAYBE = regex(r"[\d/\\_@`\"“「『《]|[a-z][A-Z]|\w[.:]\w|--|[A-Z][a-z]+[A-Z]")
_JSON = regex(r'"\s?:')
# Escaped line breaks, tabs and quotes in JSON. Their letter would be read as part of the next word.
_ESCAPED = regex(r'(?<!\\)\\[nrt"]')
_EDGES = ".,:;!?，。；：、"
_DIGITS = frozenset("0123456789")
_IN_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyz_")
_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s", "u.k"})


class Value(NamedTuple):
    """An exact value, its kind, and its position."""

    text: str
    kind: str
    at: int


def find_values(text: str) -> list[Value]:
    """Find the exact values of a text, in order, with repetitions."""
    if not _MAYBE.search(text):
        return []
    if _JSON.search(text):  # quotes delimit JSON strings here, not quoted names
        text = _ESCAPED.sub("  ", text).replace('"', " ")
    found: list[Value] = []
    for match in _ANY.finditer(text):
        kind = match.lastgroup or ""
        if kind == "word":
            continue
        value = match[0].strip().rstrip(_EDGES)
        if kind == "code":
            value = value.strip("`")
        elif kind == "quoted":  # a title is the same with and without the full stop of its sentence
            value = value[:-1].rstrip(_EDGES) + value[-1]
            inside = _ANY.fullmatch(value, 1, len(value) - 1)
            if inside and inside.lastgroup in NAMING:  # `find -name "app.py"`: no title
                kind, value = inside.lastgroup, inside[0]
        if (1 < len(value) <= _MAX_LENGTH and value.lower() not in _ABBREVIATIONS) or (
            kind == "number" and value.isdigit()
        ):
            found.append(Value(value, kind, match.start()))
    return found


@lru_cache(maxsize=4)
def _lower(text: str) -> str:
    # Cached, because one text is searched for many values in a row.
    return text.lower()


def holds(text: str, value: str) -> bool:
    """Return whether the text contains the value word for word, and not as part of a longer one."""
    bare = value.strip('"“”「」『』《》`')
    lower, bare = _lower(text), bare.lower()
    at = lower.find(bare)
    while bare and at >= 0:
        if _begins(lower, at) and _ends(lower, at + len(bare)):
            return True
        at = lower.find(bare, at + 1)
    return False


def _begins(text: str, at: int) -> bool:
    """Return whether a value begins here, and not in the middle of a word, 1.5 or 2026-05."""
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


# -- The value ledger of a note

HEAD = "Values: "
BETWEEN = " · "
_SOURCE_LIMIT = 400_000  # characters of a source that are searched

# Kinds that are useful in a ledger without the sentence around them.
NAMING = frozenset({"path", "url", "email", "id", "hash", "version", "money", "code"})
# A value that names something is worth more than one that measures something.
_WORTH = {
    "path": 3.0, "url": 3.0, "email": 3.0, "id": 3.0, "hash": 2.5, "version": 2.5, "money": 2.5, "date": 1.5,
    "time": 1.2, "code": 1.6, "quoted": 1.8, "number": 1.0,
}  # fmt: skip
# Words that mark a turning point, each with its endings, and words of scripts without spaces.
_TURNING_WORDS = {
    "error": "", "exception": "", "fail": "ed|ure|s", "crash": "ed", "traceback": "", "fatal": "",
    "cannot": "", "denied": "", "timeout": "", "fix": "ed", "solved": "", "resolved": "", "decide": "d",
    "agree": "d", "choose": "", "chosen": "", "confirm": "ed", "deadline": "", "due": "", "must": "",
    "final": "ly", "approved": "", "cancel": "led",
}  # fmt: skip
_TURNING_CJK = (
    "错误", "失败", "异常", "决定", "确定", "修复", "截止", "エラー", "失敗", "決定", "修正", "오류", "실패",
    "결정",
)  # fmt: skip
_TURNING_POINT = regex(
    r"\b(?:" + "|".join(f"{word}(?:{ends})?" for word, ends in _TURNING_WORDS.items()) + r")\b"
    "|" + "|".join(_TURNING_CJK)
)
# Characters that would end the value early, or make the line look cut off.
_UNFIT = regex(r"[·;|\n]|[,，、({\[（「『“+=→&-]$")
_NEAR = 160
_LETTERS = regex(r"[A-Za-z](?:\.[A-Za-z])+")
_CONSTANT = regex(r"[A-Z_]+")


def rank(text: str, kinds: Container[str] = _WORTH) -> list[str]:
    """Return the distinct values of a text, most valuable first: reused, near a turning point, recent."""
    first: dict[str, Value] = {}
    worth: dict[str, float] = {}
    turns = _turning_points(text)
    for value in find_values(text):
        if value.kind not in kinds:
            continue
        key = value.text.lower()
        if key not in first:
            first[key] = value
            worth[key] = _worth(value)
        else:
            worth[key] += _worth(value) * 0.5
        if _is_near(value.at, turns):
            worth[key] += 0.4
        worth[key] += 0.2 * value.at / len(text)
    return [first[key].text for key in sorted(worth, key=lambda k: (-worth[k], first[k].at, k))]


def _turning_points(text: str) -> list[int]:
    """Return where a word such as "failed" or "decided" begins."""
    lower = text.replace("İ", "i").lower()  # the only letter that is longer in lower case
    said = lower if "İ" in text else " ".join(said_once(text))
    found: list[int] = []
    for word in (*_TURNING_WORDS, *_TURNING_CJK):  # quicker than a pattern that tries all of them everywhere
        at = lower.find(word) if word in said else -1
        while at >= 0:
            if _TURNING_POINT.match(lower, at):
                found.append(at)
            at = lower.find(word, at + 1)
    return sorted(found)


def _worth(value: Value) -> float:
    # Constants of a program come by the dozen, and few are needed again.
    return _WORTH["code" if _CONSTANT.fullmatch(value.text) else value.kind]


def _is_near(at: int, turns: Sequence[int]) -> bool:
    following = bisect_left(turns, at - _NEAR + 1)
    return following < len(turns) and turns[following] < at + _NEAR


def audit(note_text: str, source_text: str, kinds: Container[str] = _WORTH) -> list[str]:
    """Return the source's values that the note lacks, most valuable first, without secrets."""
    return list(_missing(note_text, source_text, kinds))


def said_first(values: Iterable[str], lines: Iterable[str]) -> list[str]:
    """Order values of the lines of a note: those that people and calls name before those that only a result
    shows, such as the other files of a folder. They are needed again more often."""
    said = "\n".join(line.partition("): ")[0] for line in lines if not line.startswith(HEAD))
    return sorted(values, key=lambda value: not holds(said, value))


# The name of a field in JSON is not a value: alone it says nothing.
_JSON_KEY = regex(r'"([^\W\d]{1,60})"\s?:')


def _missing(note_text: str, source_text: str, kinds: Container[str] = _WORTH) -> Iterator[str]:
    source = _bounded(source_text)
    keys = {*_JSON_KEY.findall(source)}
    for value in rank(mask(source), kinds):
        give_way()
        if value in keys or MASK in value or not _is_worth_listing(value):
            continue
        if not holds(note_text, value):
            yield value


def _bounded(text: str) -> str:
    """Keep both ends of a text that is too long to search."""
    if len(text) <= _SOURCE_LIMIT:
        return text
    half = _SOURCE_LIMIT // 2
    return f"{text[:half]}\n{text[-half:]}"


def _is_worth_listing(value: str) -> bool:
    """Return whether a value means anything without its sentence: not a small number, single letters or the
    100% of someone who agrees."""
    if value == "100%":
        return False
    return not (value.lstrip("-−").isdigit() and len(value) < 3) and not _LETTERS.fullmatch(value)


# Numbers of the same length count alike, and most values differ in their digits alone.
_ALIKE = str.maketrans("123456789", "000000000")


@lru_cache(maxsize=1_024)
def _price(value: str) -> int:
    return estimate(BETWEEN + value)


def values_line(values: Iterable[str], budget: int) -> str:
    """Write `Values: a · b · c` within the budget, or "" if nothing fits."""
    kept: list[str] = []
    used = estimate(HEAD)
    for value in values:
        if used >= budget:
            break
        price = _price(value.translate(_ALIKE))
        if used + price <= budget and not _UNFIT.search(value):
            kept.append(value)
            used += price
    return HEAD + BETWEEN.join(kept) if kept else ""


def ledger_values(notes: Iterable[str]) -> list[str]:
    """Return the distinct values in the ledgers of these notes, newest note first."""
    lines = [line.removeprefix(HEAD) for text in notes for line in text.splitlines() if line.startswith(HEAD)]
    values = (value.strip() for line in reversed(lines) for value in line.split(BETWEEN))
    return [value for value in dict.fromkeys(values) if value]


def with_values(note_text: str, said: Mapping[str, str], budget: int) -> str:
    """Complete the note's ledger with the values of its source that its lines lack.

    `said` is the source by the heading of its day, such as "## 2026-02-16". Each day has its own ledger, so
    that no value is under a day on which it was not said.
    """
    lines = [line for line in note_text.splitlines() if not line.startswith(HEAD)]
    body = "\n".join(lines)
    own = [value for value in ledger_values([note_text]) if not holds(body, value)]
    missing = (value for value in _missing(body, "\n".join(said.values())) if value not in own)
    chosen = values_line(chain(own, missing), budget).removeprefix(HEAD)
    by_day_of: dict[str, list[str]] = {}
    last = max(said, default="")
    for value in filter(None, chosen.split(BETWEEN)):
        days = [day for day, text in said.items() if holds(text, value)] if len(said) > 1 else []
        by_day_of.setdefault(days[-1] if days else last, []).append(value)
    sections = by_day(body)
    for day, values in by_day_of.items():
        # A note without headings is of one day.
        sections.setdefault(day if len(sections) > 1 else "", []).append(HEAD + BETWEEN.join(values))
    return "\n".join(line for day in sorted(sections) for line in ([day] if day else []) + sections[day])


def by_day(text: str) -> dict[str, list[str]]:
    """Split a note into the lines under each heading of a day, with those before the first under ""."""
    sections: dict[str, list[str]] = {"": []}
    day = ""
    for line in text.splitlines():
        if line.startswith("## "):
            day = line
            sections.setdefault(day, [])
        else:
            sections[day].append(line)
    return sections
