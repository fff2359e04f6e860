"""What a program printed, reduced to how it went and what it named."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from onlooker.models.extractive.structured import shorten

_LONGEST_HEADING = 48
_FEW_LINES = 12
_MOST_LINES = 300
_MANY_NUMBERED = 3
_MANY_ALIKE = 8
_LARGE = 20_000  # characters
_MOST_DEFINED = 8
_MOST_CHANGED = 6
_CODE_SHARE = 0.5
_TRIED = 2000  # characters from the end
_LONGEST_LISTING = 200

TROUBLE = re.compile(
    r"\b(?:error|exception|traceback|fail(?:ed|ure|ures|s)?|fatal|panic|abort(?:ed)?|denied|refused"
    r"|not found|no such"
    r"|cannot|can't|unable|invalid|undefined|segmentation fault|segfaults?|timed? ?out|warning"
    r"|exit(?:ed with)? (?:code|status):? [1-9]\d*)\b|[a-z](?:Error|Exception)\b"
    r"|错误|失败|エラー|失敗|오류|실패",
    re.I,
)
OUTCOME = re.compile(
    r"\b(?:passed|succeeded|success(?:ful(?:ly)?)?|completed?|created|updated|saved|deleted|installed"
    r"|built|finished"
    r"|exit code|total|result|ok)\b|成功|完成|완료",
    re.I,
)
# How many went well and how many did not, as test runners and builds say at their end.
_COUNTS = re.compile(
    r"\b\d+ (?:tests? |checks? |specs? )?"
    r"(?:passed|failed|passing|failing|failures?|errors?|warnings?|skipped)\b"
    r"|\b(?:tests? run|failures|passed|failed|errors): ?\d+",
    re.I,
)
# That all went well, in the words of a shell: worth a line only where there is nothing else.
_NO_TROUBLE = re.compile(
    r"^\W*(?:the )?(?:command|process) (?:completed|finished|exited)[^\n]{0,40}\b(?:code|status):? 0\b.*$"
    r"|^\W*exit (?:code|status):? 0\W*$",
    re.I,
)
_AROUND = re.compile(r"^\W*(?:current working directory|python interpreter):.*$", re.I)

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_IS_HTML = re.compile(r"<(?:!doctype html|html|head|body|div|table|ul|p|span)\b", re.I)
_UNSEEN = re.compile(r"<(script|style|head|svg)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)", re.I | re.S)
_BREAK = re.compile(r"<(?:br|/p|/div|/li|/tr|/h\d|/title)\b[^<>]{0,200}>", re.I)
_TAG = re.compile(r"</?[a-zA-Z!][^<>]{0,2000}>")

_LISTED = re.compile(
    r"^[bcdlps-][rwxsStT-]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+[\d,.]+[KMG]?\s+\w+\s+\d+\s+[\d:]+\s+(.+)$"
)
_LISTED_TOTAL = re.compile(r"^total \d+[KMG]?$")
# As `cat -n` and its like show a file, aligned to the right; a table's first column is not.
_NUMBERED = re.compile(r"^(?= +\d+(?:\t|→)|\s*\d+ ?[│|])\s*(\d+) ?[\t→│|]")
_RULE = re.compile(r"^[\s=*~#_.+|-]{3,}|[\s=*~#_+|-]{3,}$")
_CODE_LINE = re.compile(
    r"[;{}\\]\s*$|^\s*(?://|/?\*|#include\b|#define\b|import |from \S+ import |return\b|@\w+|\}|\)|<\w)"
    r"|^\s*(?:def|class|fn|func|function|struct|if|for|while|else|elif|try|let|const|var|public|private"
    r"|static)\b.*[:{(;]\s*$|^\s+\w[\w.\[\]]* ?[-+*/|]?= ?\S"
)
_DEFINED = re.compile(
    r"^\s*(?:export |default |pub(?:\(\w+\))? |public |private |protected |static |async |abstract |final )*"
    r"(?:def|class|fn|func|function|struct|enum|interface|trait|type|module|impl|actor|macro_rules!)\s+"
    r"(?:\([^)]{0,40}\)\s*)?([A-Za-z_][\w.]*)"
)
_CHANGED = re.compile(r"^diff --git a/(\S+) b/\S+")
_CHANGE = re.compile(
    r"^(?:[-+@ ]|index [0-9a-f]|(?:new|deleted) file mode|similarity|rename|(?:old|new) mode|\\ No newline)"
)
# A word of three letters or a number: brackets and rules say nothing.
_SPOKEN = re.compile(r"[^\W\d_]{3}|\d{2}")
_NUMBER = re.compile(r"\d+")


def clean(text: str) -> str:
    """Output as it would stand on a screen: no escape codes, no overwritten progress, no HTML."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    if "<" in text and not text.lstrip().startswith(("{", "[")) and _IS_HTML.search(text[:4000]):
        text = html.unescape(_TAG.sub(" ", _BREAK.sub("\n", _UNSEEN.sub(" ", text))))
    return text


def lines_of(text: str) -> list[str]:
    """The lines that say how it went, and the ends; what else it names is the ledger's."""
    raw = text.splitlines()
    whole = len(raw) <= _MOST_LINES and len(text) < _LARGE
    if len(raw) > _MOST_LINES:
        raw = raw[: _MOST_LINES // 2] + raw[-_MOST_LINES // 2 :]
    raw = [line for line in raw if not _AROUND.match(line)]
    said, digest = _without_content(raw)
    lines = _joined_headings(_bare(line) for line in said)
    spoken = [line for line in _distinct(lines, counted=whole) if _SPOKEN.search(line)]
    spoken = [line for line in spoken if not _NO_TROUBLE.match(line)] or spoken[:1]
    if digest:  # what it announced is told by the digest
        spoken = [line for line in spoken if not line.endswith(":")]
    return [*_most_telling(_without_noise(spoken)), *digest]


def outcome(text: str) -> str:
    """How it went, in one short line; empty where the output does not say."""
    lines = [line for line in map(_bare, text.splitlines()) if line]
    for sign in (_COUNTS, TROUBLE, OUTCOME):
        for line in reversed(lines):
            if sign.search(line) and not _NO_TROUBLE.match(line):
                return shorten(line, 100)
    return ""


def _bare(line: str) -> str:
    """A line without the rules that are drawn around it."""
    return _RULE.sub("", _RULE.sub("", shorten(line))).strip()


def went(text: str) -> bool:
    """Whether the output is of something that was tried: it says how it went, or that it did not go."""
    return bool(_COUNTS.search(text) or TROUBLE.search(text[-_TRIED:]))


def bounded(text: str, most: int) -> str:
    """Both ends of a text that is too long, cut between words where there are any."""
    if len(text) <= most:
        return text
    head, tail = text[: most * 3 // 4], text[-most // 4 :]
    if " " in head[-80:]:
        head = head[: head.rfind(" ")]
    if " " in tail[:80]:
        tail = tail[tail.find(" ") :]
    return f"{head} … {tail.strip()}"


def _without_content(raw: Sequence[str]) -> tuple[list[str], list[str]]:
    """Lines that a program says, and in short what it shows: a file, a folder, a change."""
    changed = list(dict.fromkeys(found[1] for line in raw if (found := _CHANGED.match(line))))
    if changed:
        said = [line for line in raw if not _CHANGED.match(line) and not _CHANGE.match(line)]
        return said, [f"changes {', '.join(changed[:_MOST_CHANGED])}{_more(changed, _MOST_CHANGED)}"]
    listed = [found[1] for line in raw if (found := _LISTED.match(line))]
    if listed:
        said = [line for line in raw if not _LISTED.match(line) and not _LISTED_TOTAL.match(line)]
        return said, list(_listing([name for name in listed if name not in (".", "..")]))
    numbered = [line for line in raw if _NUMBERED.match(line)]
    if len(numbered) >= _MANY_NUMBERED:
        first, last = (found[1] for line in (numbered[0], numbered[-1]) if (found := _NUMBERED.match(line)))
        said = [line for line in raw if not _NUMBERED.match(line)]
        return said, [f"lines {first}–{last}{_definitions(_NUMBERED.sub('', n) for n in numbered)}"]
    code = sum(1 for line in raw if _CODE_LINE.search(line))
    if len(raw) > _FEW_LINES and code > _CODE_SHARE * sum(1 for line in raw if line.strip()):
        return [line for line in raw if _COUNTS.search(line)], [f"{len(raw)} lines{_definitions(raw)}"]
    return list(raw), []


def _more(names: Sequence[str], most: int) -> str:
    return f" and {len(names) - most} more" if len(names) > most else ""


def _listing(names: Sequence[str]) -> Iterable[str]:
    """The names in a folder, together in few records."""
    record = ""
    for name in names:
        if record and len(record) + len(name) > _LONGEST_LISTING:
            yield record
            record = ""
        record += (", " if record else "") + name
    if record:
        yield record


def _definitions(lines: Iterable[str]) -> str:
    names = list(dict.fromkeys(found[1] for line in lines if (found := _DEFINED.match(line))))
    if not names:
        return ""
    return f", defines {', '.join(names[:_MOST_DEFINED])}{_more(names, _MOST_DEFINED)}"


def _distinct(lines: Iterable[str], *, counted: bool) -> list[str]:
    """Each line once; of many that differ in their numbers alone, the last, and how many there were.

    How many is not said of an output of which only a part was looked at.
    """
    alike: dict[str, list[str]] = {}
    for line in lines:
        alike.setdefault(_NUMBER.sub("0", line), []).append(line)
    distinct: list[str] = []
    for same in alike.values():
        few = list(dict.fromkeys(same))
        last = f"{few[-1]} ({len(same)}×)" if counted else few[-1]
        distinct.extend(few if len(few) < _MANY_ALIKE else [last])
    return distinct


def _most_telling(spoken: Sequence[str]) -> list[str]:
    if len(spoken) <= _FEW_LINES:
        return list(spoken)
    telling = [line for line in spoken if _is_telling(line)][-_FEW_LINES // 2 :]
    ends = {*spoken[: _FEW_LINES // 3], *spoken[-_FEW_LINES // 6 :], *telling}
    return [line for line in spoken if line in ends]


def _without_noise(spoken: Sequence[str]) -> Sequence[str]:
    """A message that quotes a program, without the program; of a run of tests, what failed and how many."""
    if any(_COUNTS.search(line) for line in spoken):
        return [line for line in spoken if TROUBLE.search(line) or _COUNTS.search(line)]
    telling = [line for line in spoken if _is_telling(line) or not _CODE_LINE.search(line)]
    return telling if any(_is_telling(line) for line in telling) else spoken


def _is_telling(line: str) -> bool:
    return bool(TROUBLE.search(line) or OUTCOME.search(line))


def _joined_headings(lines: Iterable[str]) -> Iterable[str]:
    """A short line that ends with a colon says what the next one is: "ERROR:"."""
    heading = ""
    for line in lines:
        if line.endswith(":") and len(line) <= _LONGEST_HEADING and not heading:
            heading = line
        elif line:
            yield f"{heading} {line}".strip()
            heading = ""
    if heading:
        yield heading
