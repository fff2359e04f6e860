"""What a program printed, reduced to how it went and what it named."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import cast

from onlooker.policy.values import holds

# -- JSON and what looks like it, as short records: the values with the names they need

LONGEST_RECORD = 240  # characters
_RECORD = 60  # about
_MOST_DEPTH = 12
_LONGEST_LITERAL = 20_000
_MOST_OBJECTS = 300
_MOST_RECORDS = 400
_MOST_LINES_OF_FIELD = 3
_LONGEST_OPENING = 100
# A value that says what it is without its key: an id, an address, a code.
_SPEAKS = re.compile(r"_|\d.*[A-Za-z]|[A-Za-z].*\d|@|://")
_DATED = re.compile(r"^\d{4}-\d\d")
_NAMES_A_DATE = re.compile(r"(?:^|_)(?:date|day|when)$", re.I)
_MIN_SPEAKING = 13
# A key whose value names the object that it stands in.
_NAMING_KEY = re.compile(r"(?:^|_)(?:id|ids?|key|name|number|no|code|title|slug|sku|ref|path|file)$", re.I)
_LONGEST_NAME = 40
# One field of an object that cannot be read as a whole, since its end is missing.
_PAIR = re.compile(r'"([\w .-]{1,60})"\s*:\s*(?:"((?:[^"\\]|\\.){1,400})"|(-?\d[\d.eE+-]*|true|false))')
_ESCAPED = re.compile(r"\\[nrt]")
# Keys and values in Python's own writing.
_REPR = re.compile(r"""^[\[{(]\s*[{\[(]?\s*'""")
_MARKUP = re.compile(
    r"</?(?:p|div|br|span|a|b|i|u|ul|ol|li|table|tr|td|th|h\d|strong|em|code|pre|img|html|body|head|hr)\b"
    r"[^<>]{0,200}>|\*\*|^#{1,6} ",
    re.M | re.I,
)


class Exact(str):
    """A number to the letter: 1240.50 and not 1240.5."""

    __slots__ = ()


def parse(text: str) -> object:
    """The object or list that a text holds; None where it holds none."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        return json.loads(stripped, parse_float=Exact)
    except (ValueError, RecursionError):
        return _written_by_python(stripped) or _objects(stripped) or _pairs(stripped)


def _written_by_python(text: str) -> object:
    if len(text) > _LONGEST_LITERAL or not _REPR.match(text):
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _objects(text: str) -> list[object] | None:
    """One object in each line."""
    lines = [line for line in text.splitlines()[:_MOST_OBJECTS] if line.strip()]
    if len(lines) < 2 or not all(line.lstrip().startswith("{") for line in lines):
        return None
    try:
        return [json.loads(line, parse_float=Exact) for line in lines]
    except (ValueError, RecursionError):
        return None


def _pairs(text: str) -> dict[str, object] | None:
    """The plain fields of a JSON text that was cut off."""
    found = [(m[1], _ESCAPED.sub(" ", m[2] or m[3])) for m in _PAIR.finditer(text)]
    if len(found) < 2:
        return None
    fields: dict[str, object] = {}
    for name, value in found[:_MOST_OBJECTS]:
        held = cast("list[object]", fields.setdefault(name, []))
        if value not in held:
            held.append(value)
    return {name: cast("list[object]", held)[0] if len(cast("list[object]", held)) == 1 else held
            for name, held in fields.items()}  # fmt: skip


def records(parsed: object, seen: set[str], said: str = "") -> list[str]:
    """One or more records per object.

    A key is written where the value does not speak for itself, and the first time in any case; `seen`
    holds the keys that have been written. What `said` (the call) names already is not said again.
    """
    found = _flatten(parsed, "", seen, said, 0)
    if len(found) > _MOST_RECORDS:
        found = found[: _MOST_RECORDS * 3 // 4] + found[-_MOST_RECORDS // 4 :]
    return [shorten(record) for record in found]


def shorten(record: str, most: int = LONGEST_RECORD) -> str:
    """A record in one line, cut between words."""
    record = re.sub(r"\s+", " ", record).strip(" ;")
    if len(record) <= most:
        return record
    cut = record.rfind(" ", 0, most)
    return record[: cut if cut > 0 else most].rstrip(" ,;:") + "…"


def speaks(value: str) -> bool:
    """Whether a value says what it is without its key."""
    return len(value) >= _MIN_SPEAKING or bool(_SPEAKS.search(value))


def plain_value(value: object) -> str:
    """A plain value as its source writes it; text of many lines by its first."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if "\\n" in text and ":\\" not in text:  # escaped twice, and no path of Windows
        text = _ESCAPED.sub("\n", text)
    if "\n" not in text and "<" not in text:
        return text
    lines = [line.strip() for line in _MARKUP.sub(" ", text).splitlines() if line.strip()]
    if len(lines) <= _MOST_LINES_OF_FIELD:
        return " / ".join(lines)
    return f"{len(lines)} lines, {shorten(lines[0], _LONGEST_OPENING).rstrip('…')}…"


def _flatten(node: object, key: str, seen: set[str], said: str, depth: int) -> list[str]:
    if depth > _MOST_DEPTH:
        return []
    if isinstance(node, dict):
        return _object(cast("dict[str, object]", node), key, seen, said, depth)
    if isinstance(node, list | tuple):
        items = cast("Sequence[object]", node)
        return [record for item in items for record in _flatten(item, key, seen, said, depth + 1)]
    return [] if node in (None, "") else [f"{key} {plain_value(node)}".strip()]


def _object(node: dict[str, object], key: str, seen: set[str], said: str, depth: int) -> list[str]:
    fields: list[str] = []
    nested: list[str] = []
    for name, value in node.items():
        if (flat := _flat_collection(value)) is not None:
            if flat:
                fields.append(f"{name} {flat}")
        elif isinstance(value, dict | list | tuple):
            nested.extend(_flatten(cast("object", value), str(name), seen, said, depth + 1))
        elif value not in (None, "") and not _is_told(plain_value(value), key, said if name in seen else ""):
            fields.append(_field(str(name), plain_value(value), seen))
    fields = list(dict.fromkeys(fields))
    if fields and key and key not in fields[0]:
        fields[0] = f"{key} {fields[0]}"
    # Among several objects, a record has to say which one it is about.
    name = _name(node) if depth else ""
    return [_about(name, record, n) for n, record in enumerate(_grouped(fields))] + nested


def _is_told(value: str, key: str, said: str) -> bool:
    """Whether the key over the object, or the call that was made, has said it."""
    by_key = key and speaks(key) and key.startswith(value)
    return bool(by_key or (said and speaks(value) and holds(said, value)))


def _about(name: str, record: str, n: int) -> str:
    return f"{name} {record}" if n and name and name not in record else record


def _name(node: dict[str, object]) -> str:
    """What an object is called by: the first of its values that is an id or a name."""
    for key, value in node.items():
        if isinstance(value, str | int) and not isinstance(value, bool) and _NAMING_KEY.search(str(key)):
            text = str(value)
            return text if 0 < len(text) <= _LONGEST_NAME and "\n" not in text else ""
    return ""


def _grouped(fields: Sequence[str]) -> Iterable[str]:
    """Fields together in records that are short enough to choose among."""
    record = ""
    for field in fields:
        if record and len(record) + len(field) > _RECORD:
            yield record
            record = ""
        record += (", " if record else "") + shorten(field)
    if record:
        yield record


def _flat_collection(value: object) -> str | None:
    """A short collection of plain values in one field; None where it is no such thing."""
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if any(isinstance(item, dict | list | tuple) for item in items):
            return None
        return " ".join(plain_value(item) for item in items if item is not None)
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value)
        if 0 < len(pairs) <= 4 and all(isinstance(item, int | float | Exact) for item in pairs.values()):
            return " ".join(f"{name} {plain_value(item)}" for name, item in pairs.items())
    return None


def _field(name: str, value: str, seen: set[str]) -> str:
    dated = bool(_DATED.match(value)) and not _NAMES_A_DATE.search(name)
    if speaks(value) and name in seen and not dated:
        return value
    seen.add(name)
    return f"{name} {value}"


# -- What a program printed, reduced to how it went and what it named

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
