"""The ledger: which values a note is missing, which matter most, and how they are written down."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache

from onlooker.policy.tokens import estimate
from onlooker.policy.values.finding import Value, find_values, holds
from onlooker.policy.values.secrets import MASK, mask

HEAD = "Values: "
BETWEEN = " · "
_SOURCE_LIMIT = 400_000  # characters of a source that are looked through

# Kinds that are asked for again by name: worth a place in a ledger without the sentence around them.
NAMING = frozenset({"path", "url", "email", "id", "hash", "version", "money", "code"})
# What is asked for again by its name comes before what only measures something.
_WORTH = {
    "path": 3.0, "url": 3.0, "email": 3.0, "id": 3.0, "hash": 2.5, "version": 2.5, "money": 2.5, "date": 1.5,
    "time": 1.2, "code": 1.6, "quoted": 1.8, "number": 1.0,
}  # fmt: skip
_TURNING_POINT = re.compile(
    r"\b(?:error|exception|fail(?:ed|ure|s)?|crash(?:ed)?|traceback|fatal|cannot|denied|timeout"
    r"|fix(?:ed)?|solved"
    r"|resolved|decided?|agreed?|choose|chosen|confirm(?:ed)?|deadline|due|must|final(?:ly)?|approved"
    r"|cancel(?:led)?)\b"
    r"|错误|失败|异常|决定|确定|修复|截止|エラー|失敗|決定|修正|오류|실패|결정",
    re.I,
)
# What would be read as the end of the value, or the line as cut off.
_UNFIT = re.compile(r"[·;|\n]|[,，、({\[（「『“+=→&-]$")
_NEAR = 160
_LETTERS = re.compile(r"[A-Za-z](?:\.[A-Za-z])+")
_CONSTANT = re.compile(r"[A-Z_]+")
_STAMP = re.compile(
    r"^## \d{4}-\d\d-\d\d[ \t]*$|^\[(?:\d{4}-\d\d-\d\d )?\d\d:\d\d\]|[(（](?:19|20)\d\d(?:-(?:\d\d"
    r"|W\d\d))?(?:-\d\d)?"
    r"(?:/(?:\d\d-)?\d\d)?[)）]",
    re.M,
)
_CHECKED = frozenset({"number", "path", "id", "hash", "version", "money", "url", "email", "date", "time"})
# A part of one of these that a longer one holds is no invention: where it ends is a matter of dots.
_WHOLE = frozenset({"path", "id", "url", "email"})
_REPEATED = re.compile(r"(?<=\s)[×x]\s?\d+\b|\b\d+\s?[×x](?!\w)")


def rank(text: str, kinds: Container[str] = _WORTH) -> list[str]:
    """The distinct values of a text, most worth keeping first: reused, near a turning point, recent."""
    first: dict[str, Value] = {}
    worth: dict[str, float] = {}
    turns = [found.start() for found in _TURNING_POINT.finditer(text)]
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


def _worth(value: Value) -> float:
    # One constant of a program is seldom the one that is asked for: they come by the dozen.
    return _WORTH["code" if _CONSTANT.fullmatch(value.text) else value.kind]


def _is_near(at: int, turns: Sequence[int]) -> bool:
    following = bisect_left(turns, at - _NEAR + 1)
    return following < len(turns) and turns[following] < at + _NEAR


def audit(note_text: str, source_text: str, kinds: Container[str] = _WORTH) -> list[str]:
    """The values of the source that the note does not hold, most worth keeping first; no secrets."""
    masked = mask(_bounded(source_text))
    return [
        value
        for value in rank(masked, kinds)
        if MASK not in value and _is_worth_listing(value) and not holds(note_text, value)
    ]


def _bounded(text: str) -> str:
    """Both ends of a text too long to look through."""
    if len(text) <= _SOURCE_LIMIT:
        return text
    half = _SOURCE_LIMIT // 2
    return f"{text[:half]}\n{text[-half:]}"


def _is_worth_listing(value: str) -> bool:
    """A bare small number says nothing without its sentence, nor do single letters."""
    return not (value.lstrip("-−").isdigit() and len(value) < 3) and not _LETTERS.fullmatch(value)


@lru_cache(maxsize=4096)
def _price(value: str) -> int:
    return estimate(BETWEEN + value)


def values_line(values: Iterable[str], budget: int) -> str:
    """`Values: a · b · c` within the budget; empty where nothing fits."""
    kept: list[str] = []
    used = estimate(HEAD)
    for value in values:
        price = _price(value)
        if used + price <= budget and not _UNFIT.search(value):
            kept.append(value)
            used += price
    return HEAD + BETWEEN.join(kept) if kept else ""


def carried(notes: Iterable[str]) -> list[str]:
    """The values in the ledgers of these notes, newest note first, each once."""
    lines = [line.removeprefix(HEAD) for text in notes for line in text.splitlines() if line.startswith(HEAD)]
    values = (value.strip() for line in reversed(lines) for value in line.split(BETWEEN))
    return [value for value in dict.fromkeys(values) if value]


def with_values(note_text: str, source_text: str, budget: int) -> str:
    """The note with its ledger completed from the source: what the lines do not say themselves."""
    lines = [line for line in note_text.splitlines() if not line.startswith(HEAD)]
    body = "\n".join(lines)
    own = [value for value in carried([note_text]) if not holds(body, value)]
    missing = [value for value in audit(body, source_text) if value not in own]
    ledger = values_line([*own, *missing], budget)
    return f"{body}\n{ledger}" if ledger and body else body or ledger


def invented(note_text: str, source_text: str) -> list[str]:
    """Numbers, paths, ids and addresses in the note that its source does not contain.

    Headings, timestamps and the dates that we resolve in parentheses are ours, and no inventions; nor
    is a count of repetitions ("×4").
    """
    said = _REPEATED.sub(" ", _STAMP.sub(" ", note_text))
    made_up = (
        value.text
        for value in find_values(said)
        if value.kind in _CHECKED and not _is_said(value, source_text)
    )
    return list(dict.fromkeys(made_up))


def _is_said(value: Value, source: str) -> bool:
    if holds(source, value.text) or (value.kind in _WHOLE and value.text in source):
        return True
    # The same written otherwise: 1,240 and 1240, "seven" and 7; or glued to a word, as in "P95".
    bare = value.text.replace(",", "")
    if re.search(rf"(?<![\d.]){re.escape(bare)}(?!\.?\d)", source.replace(",", "")):
        return True
    return bare.isdigit() and int(bare) < len(_SPELLED) and _spelled(int(bare), source)


_SPELLED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")


def _spelled(number: int, source: str) -> bool:
    return re.search(rf"\b{_SPELLED[number]}\b", source, re.I) is not None
