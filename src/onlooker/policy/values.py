"""Exact values: what a note must keep to the letter, and must not make up.

Paths, addresses, ids, hashes, versions, amounts, times, quoted names, code identifiers. All functions
are pure; the order of what they return is the same in every process.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from onlooker.policy.tokens import estimate

# -- Where the exact values are in a text

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


# -- Secrets never enter a note: keys, tokens, private keys, passwords, card numbers

MASK = "[secret]"

_KEYS = re.compile(
    r"""-----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | \b(?:sk|pk|rk)[-_](?:live|test|proj|ant|or)?[-_]?[A-Za-z0-9_-]{16,}
    | \b(?:ghp|gho|ghu|ghs|ghr|glpat|github_pat)[-_][A-Za-z0-9_-]{16,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bxox[abprs]-[A-Za-z0-9-]{10,}
    | \bAIza[A-Za-z0-9_-]{30,}
    | \bhf_[A-Za-z0-9]{20,} | \bnpm_[A-Za-z0-9]{20,} | \bpypi-[A-Za-z0-9_-]{20,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?""",
    re.X | re.S,
)
# The value after a name that says what it is. The name stays, so that the note can still speak of it.
_NAMED = re.compile(
    r"""(?P<name>(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|auth[_-]?token
        |access[_-]?token|refresh[_-]?token|private[_-]?key|client[_-]?secret)["']?
        \s*(?:=|:|\bis\b)\s*["']?)(?P<value>(?!\[secret\])[^\s"',;]{6,})""",
    re.I | re.X,
)
_BEARER = re.compile(r"(?P<name>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/-]{16,}=*", re.I)
_LOGIN = re.compile(r"(?P<name>\b[a-z][a-z0-9+.-]*://[^\s:/@]+:)[^\s@/]+(?=@)", re.I)
_CARD = re.compile(r"(?<![\d.-])(?:\d[ -]?){12,18}\d(?![\d.])")
# Looked for first, in lower case: each pattern is slow, and few texts hold anything that it could find.
_KEY_SIGNS = (
    "-----begin", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp", "gho", "ghu", "ghs", "ghr", "glpat",
    "github_pat", "akia", "asia", "xox", "aiza", "hf_", "npm_", "pypi-", "eyj",
)  # fmt: skip
_NAME_SIGN = re.compile(r"(?:password|passwd|passphrase|secret|key|token)[\"']?\s*(?:=|:|is\b)")
_LONG_NUMBER = re.compile(r"\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d")


def mask(text: str) -> str:
    """The text with `[secret]` in place of each secret."""
    lower = text.lower()
    if any(sign in lower for sign in _KEY_SIGNS):
        text = _KEYS.sub(MASK, text)
    if _NAME_SIGN.search(lower):
        text = _NAMED.sub(lambda found: found[0] if _is_harmless(found["value"]) else _named(found), text)
    if "bearer" in lower or "basic" in lower:
        text = _BEARER.sub(_named, text)
    if "://" in lower:
        text = _LOGIN.sub(_named, text)
    if _LONG_NUMBER.search(text):
        text = _CARD.sub(lambda found: MASK if _is_card(found[0]) else found[0], text)
    return text


def _named(found: re.Match[str]) -> str:
    return found["name"] + MASK


def _is_harmless(value: str) -> bool:
    """A word of prose, a variable or a placeholder stands there, not the secret itself."""
    return value.isalpha() or value.startswith(("$", "{", "<", "os.", "process.", "env.", "*", "(", "["))


def _is_card(text: str) -> bool:
    """Luhn's check, and a length and first digit that card numbers have."""
    digits = [int(c) for c in text if c.isdigit()]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6):
        return False
    doubled = sum(sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    return (doubled + sum(digits[-1::-2])) % 10 == 0


# -- The ledger

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
