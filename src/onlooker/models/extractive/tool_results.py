"""A tool result as short records: the values of JSON, or the lines of output that say how it went."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import cast

from onlooker.models.extractive.words import MAX_TEXT_LENGTH, UNPRINTABLE, keep_ends
from onlooker.policy.secrets import mask
from onlooker.policy.text import is_cjk, regex
from onlooker.policy.values import holds

MAX_JSON_LENGTH = 200_000
MAX_RECORD_LENGTH = 240  # characters

TROUBLE = regex(
    r"\b(?:error|exception|traceback|fail(?:ed|ure|ures|s)?|fatal|panic|abort(?:ed)?|denied|refused"
    r"|not found|no such"
    r"|cannot|can't|unable|invalid|undefined|segmentation fault|segfaults?|timed? ?out|warning"
    r"|exit(?:ed with)? (?:code|status):? [1-9]\d*)\b|[a-z](?:Error|Exception)\b"
    r"|错误|失败|エラー|失敗|오류|실패",
    re.I,
)
OUTCOME = regex(
    r"\b(?:passed|succeeded|success(?:ful(?:ly)?)?|completed?|created|updated|saved|deleted|installed"
    r"|built|finished|exit code|total|result|ok)\b|成功|完成|완료",
    re.I,
)
_ESCAPE = regex(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_IS_HTML = regex(r"<(?:!doctype html|html|head|body|div|table|ul|p|span)\b", re.I)
_UNSEEN = regex(r"<(script|style|head|svg)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)", re.I | re.S)
_BREAK = regex(r"<(?:br|/p|/div|/li|/tr|/h\d|/title)\b[^<>]{0,200}>", re.I)
_TAG = regex(r"</?[a-zA-Z!][^<>]{0,2000}>")


def result_text(text: str) -> str:
    """Return a result as text to read, with secrets masked, cut to a reasonable length."""
    # Half an object cannot be parsed, so JSON may be longer.
    limit = MAX_JSON_LENGTH if text.lstrip()[:1] in ("{", "[") else MAX_TEXT_LENGTH
    return mask(UNPRINTABLE.sub("", _as_displayed(keep_ends(text, limit))))


def _as_displayed(text: str) -> str:
    """Return output as a screen shows it: no escape codes, no overwritten progress, no HTML."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    if "<" in text and not text.lstrip().startswith(("{", "[")) and _IS_HTML.search(text[:4000]):
        text = html.unescape(_TAG.sub(" ", _BREAK.sub("\n", _UNSEEN.sub(" ", text))))
    return text


# A message around a quotation: what it says is at both ends.
_LONG_QUOTE = regex(r"([^`]{1,120}`)([^`]{40,})(`[^`]{1,160})$")
_MIN_QUOTE = 20  # characters of it


def shorten(record: str, limit: int = MAX_RECORD_LENGTH) -> str:
    """Put a record on one line and cut it between words, where there are spaces between them."""
    record = re.sub(r"\s+", " ", record).strip(" ;")
    if len(record) <= limit:
        return record
    if quoted := _LONG_QUOTE.match(record):
        before, inside, after = quoted.groups()
        room = limit - len(before) - len(after) - 1
        if room >= _MIN_QUOTE:
            return f"{before}{inside[:room].rstrip()}…{after}"
    cut = record.rfind(" ", 0, limit)
    is_near = cut > 0 and not (cut < limit // 2 and is_cjk(record[:limit]))
    return record[: cut if is_near else limit].rstrip(" ,;:") + "…"


def records_of_result(text: str, shown_keys: set[str], label: str = "") -> list[str]:
    """Return a result as records: of each object where it is JSON, else of its lines.

    `shown_keys` holds the keys that have been written, and grows. `label` is the call in short: what it
    names is not repeated.
    """
    parsed = parse(text)
    if isinstance(parsed, dict | list | tuple):
        return json_records(cast("object", parsed), shown_keys, label)
    return _output_records(text)


# -- JSON, and text that looks like it

_RECORD = 60  # characters, about
_MAX_DEPTH = 12
_MAX_LITERAL_LENGTH = 20_000
_MAX_OBJECTS = 300
_MAX_RECORDS = 400
_MAX_LINES_OF_FIELD = 3
_MAX_OPENING_LENGTH = 100
_MAX_NAME_LENGTH = 40
# A value that needs no key to be understood: an id, an address, a code, or any long value.
_SELF_EXPLANATORY = regex(r"_|\d.*[A-Za-z]|[A-Za-z].*\d|@|://")
_SELF_EXPLANATORY_LENGTH = 13
_DATED = regex(r"^\d{4}-\d\d")
_NAMES_A_DATE = regex(r"(?:^|_)(?:date|day|when)$", re.I)
# A key whose value names its object.
_NAMING_KEY = regex(r"(?:^|_)(?:id|ids?|key|name|number|no|code|title|slug|sku|ref|path|file)$", re.I)
# One field of an object whose end is missing.
_PAIR = regex(r'"([\w .-]{1,60})"\s*:\s*(?:"((?:[^"\\]|\\.){1,400})"|(-?\d[\d.eE+-]*|true|false))')
_ESCAPED = regex(r"\\[nrt]")
# The repr of a Python object.
_REPR = regex(r"""^[\[{(]\s*[{\[(]?\s*'""")
_MARKUP = regex(
    r"</?(?:p|div|br|span|a|b|i|u|ul|ol|li|table|tr|td|th|h\d|strong|em|code|pre|img|html|body|head|hr)\b"
    r"[^<>]{0,200}>|\*\*|^#{1,6} ",
    re.M | re.I,
)


class ExactNumber(str):
    """A number as it is written: 1240.50, not 1240.5."""

    __slots__ = ()


def parse(text: str) -> object:
    """Return the object or list that a text contains, or None."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        return json.loads(stripped, parse_float=ExactNumber)
    except (ValueError, RecursionError):
        return _parse_repr(stripped) or _parse_lines(stripped) or _parse_pairs(stripped)


def _parse_repr(text: str) -> object:
    if len(text) > _MAX_LITERAL_LENGTH or not _REPR.match(text):
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _parse_lines(text: str) -> list[object] | None:
    """Parse one object per line."""
    lines = [line for line in text.splitlines()[:_MAX_OBJECTS] if line.strip()]
    if len(lines) < 2 or not all(line.lstrip().startswith("{") for line in lines):
        return None
    try:
        return [json.loads(line, parse_float=ExactNumber) for line in lines]
    except (ValueError, RecursionError):
        return None


def _parse_pairs(text: str) -> dict[str, object] | None:
    """Return the plain fields of JSON that was cut off."""
    found = [(m[1], _ESCAPED.sub(" ", m[2] or m[3])) for m in _PAIR.finditer(text)]
    if len(found) < 2:
        return None
    fields: dict[str, object] = {}
    for name, value in found[:_MAX_OBJECTS]:
        held = cast("list[object]", fields.setdefault(name, []))
        if value not in held:
            held.append(value)
    return {name: cast("list[object]", held)[0] if len(cast("list[object]", held)) == 1 else held
            for name, held in fields.items()}  # fmt: skip


def json_records(parsed: object, shown_keys: set[str], label: str = "") -> list[str]:
    """Return one or more records for each object.

    A key is written the first time, and wherever its value cannot be understood without it.
    """
    found = _flatten(parsed, "", shown_keys, label, 0)
    if len(found) > _MAX_RECORDS:
        found = found[: _MAX_RECORDS * 3 // 4] + found[-_MAX_RECORDS // 4 :]
    return [shorten(record) for record in found]


def is_self_explanatory(value: str) -> bool:
    """Whether a value can be understood without its key."""
    return len(value) >= _SELF_EXPLANATORY_LENGTH or bool(_SELF_EXPLANATORY.search(value))


def value_text(value: object) -> str:
    """Return a plain value as its source writes it. Text of many lines is cut to the first."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if "\\n" in text and ":\\" not in text:  # escaped twice, and not a Windows path
        text = _ESCAPED.sub("\n", text)
    if "\n" not in text and "<" not in text:
        return text
    lines = [line.strip() for line in _MARKUP.sub(" ", text).splitlines() if line.strip()]
    if len(lines) <= _MAX_LINES_OF_FIELD:
        return " / ".join(lines)
    return f"{len(lines)} lines, {shorten(lines[0], _MAX_OPENING_LENGTH).rstrip('…')}…"


def _flatten(node: object, key: str, shown_keys: set[str], label: str, depth: int) -> list[str]:
    if depth > _MAX_DEPTH:
        return []
    if isinstance(node, dict):
        return _object(cast("dict[str, object]", node), key, shown_keys, label, depth)
    if isinstance(node, list | tuple):
        items = cast("Sequence[object]", node)
        return [record for item in items for record in _flatten(item, key, shown_keys, label, depth + 1)]
    return [] if node in (None, "") else [f"{key} {value_text(node)}".strip()]


def _object(node: dict[str, object], key: str, shown_keys: set[str], label: str, depth: int) -> list[str]:
    fields: list[str] = []
    nested: list[str] = []
    for name, value in node.items():
        if (flat := _flat_collection(value)) is not None:
            if flat:
                fields.append(f"{name} {flat}")
        elif isinstance(value, dict | list | tuple):
            nested.extend(_flatten(cast("object", value), str(name), shown_keys, label, depth + 1))
        elif value not in (None, ""):
            text = value_text(value)
            if not _is_known(text, key, label if name in shown_keys else ""):
                fields.append(_field(str(name), text, shown_keys))
    fields = list(dict.fromkeys(fields))
    # Without fields it is an object of objects, and its key says what they are.
    first = fields or nested
    if first and key and key not in first[0]:
        first[0] = f"{key} {first[0]}"
    # Among several objects, each record must say which one it is about.
    name = _name(node) if depth else ""
    return [_about(name, record, n) for n, record in enumerate(_grouped(fields))] + nested


def _is_known(value: str, key: str, label: str) -> bool:
    """Whether the key above the object, or the call, already names the value."""
    by_key = key and is_self_explanatory(key) and key.startswith(value)
    return bool(by_key or (label and is_self_explanatory(value) and holds(label, value)))


def _about(name: str, record: str, n: int) -> str:
    return f"{name} {record}" if n and name and name not in record else record


def _name(node: dict[str, object]) -> str:
    """Return the name of an object: its first value that is an id or a name."""
    for key, value in node.items():
        if isinstance(value, str | int) and not isinstance(value, bool) and _NAMING_KEY.search(str(key)):
            text = str(value)
            return text if 0 < len(text) <= _MAX_NAME_LENGTH and "\n" not in text else ""
    return ""


def _grouped(fields: Sequence[str]) -> Iterable[str]:
    """Join fields to records that are short enough to choose among."""
    record = ""
    for field in fields:
        if record and len(record) + len(field) > _RECORD:
            yield record
            record = ""
        record += (", " if record else "") + shorten(field)
    if record:
        yield record


def _flat_collection(value: object) -> str | None:
    """Return a short collection of plain values as one field, or None for anything else."""
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if any(isinstance(item, dict | list | tuple) for item in items):
            return None
        return " ".join(value_text(item) for item in items if item is not None)
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value)
        if 0 < len(pairs) <= 4 and all(isinstance(n, int | float | ExactNumber) for n in pairs.values()):
            return " ".join(f"{name} {value_text(item)}" for name, item in pairs.items())
    return None


def _field(name: str, value: str, shown_keys: set[str]) -> str:
    dated = bool(_DATED.match(value)) and not _NAMES_A_DATE.search(name)
    if is_self_explanatory(value) and name in shown_keys and not dated:
        return value
    shown_keys.add(name)
    return f"{name} {value}"


# -- The output of programs

_MAX_HEADING_LENGTH = 48  # characters
_FEW_LINES = 12
_MAX_LINES = 300
_MANY_NUMBERED = 3
_MANY_ALIKE = 8
_LARGE = 20_000  # characters
_MAX_DEFINITIONS = 8
_MAX_CHANGED_FILES = 6
_CODE_SHARE = 0.5
_RECENT = 2000  # characters at the end, where a failure is reported
_MAX_LISTING_LENGTH = 200

# Counts of successes and failures, as test runners and builds print them at the end.
_COUNTS = regex(
    r"\b\d+ (?:tests? |checks? |specs? )?"
    r"(?:passed|failed|passing|failing|failures?|errors?|warnings?|skipped)\b"
    r"|\b(?:tests? run|failures|passed|failed|errors): ?\d+",
    re.I,
)
# A shell's report of success: worth a line only if there is nothing else.
_NO_TROUBLE = regex(
    r"^\W*(?:the )?(?:command|process) (?:completed|finished|exited)[^\n]{0,40}\b(?:code|status):? 0\b.*$"
    r"|^\W*exit (?:code|status):? 0\W*$",
    re.I,
)
_SURROUNDINGS = regex(r"^\W*(?:current working directory|python interpreter):.*$", re.I)

_EDITED = regex(
    r"^(?:the )?file \S+ (?:has been|was) (?:successfully )?"
    r"(edited|updated|created|written|saved|modified|overwritten)(?: successfully)?\.?$",
    re.I,
)
_LISTED = regex(
    r"^[bcdlps-][rwxsStT-]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+[\d,.]+[KMG]?\s+\w+\s+\d+\s+[\d:]+\s+(.+)$"
)
_LISTED_TOTAL = regex(r"^total \d+[KMG]?$")
# Numbered lines of a file, right-aligned as `cat -n` prints them. The first column of a table is not.
_NUMBERED = regex(r"^(?= +\d+(?:\t|→)|\s*\d+ ?[│|])\s*(\d+) ?[\t→│|]")
_RULE = regex(r"^[\s=*~#_.+|-]{3,}|[\s=*~#_+|-]{3,}$")
CODE_LINE = regex(
    r"[;{}\\]\s*$|^\s*(?://|/?\*|#include\b|#define\b|import |from \S+ import |return\b|@\w+|\}|\)|<\w)"
    r"|^\s*(?:def|class|fn|func|function|struct|if|for|while|else|elif|try|let|const|var|public|private"
    r"|static)\b.*[:{(;]\s*$|^\s+\w[\w.\[\]]* ?[-+*/|]?= ?\S"
)
_DEFINED = regex(
    r"^\s*(?:export |default |pub(?:\(\w+\))? |public |private |protected |static |async |abstract "
    r"|final )*"
    r"(?:def|class|fn|func|function|struct|enum|interface|trait|type|module|impl|actor|macro_rules!)\s+"
    r"(?:\([^)]{0,40}\)\s*)?([A-Za-z_][\w.]*)"
)
_CHANGED = regex(r"^diff --git a/(\S+) b/\S+")
_CHANGE = regex(
    r"^(?:[-+@ ]|index [0-9a-f]|(?:new|deleted) file mode|similarity|rename|(?:old|new) mode|\\ No newline)"
)
# A word of three letters, or a number. Brackets and rules say nothing.
_SPOKEN = regex(r"[^\W\d_]{3}|\d{2}")
_NUMBER = regex(r"\d+")


def _output_records(text: str) -> list[str]:
    """Return the lines that say how it went, and the first and last. The ledger has the other values."""
    raw = text.splitlines()
    whole = len(raw) <= _MAX_LINES and len(text) < _LARGE
    if len(raw) > _MAX_LINES:
        raw = raw[: _MAX_LINES // 2] + raw[-_MAX_LINES // 2 :]
    raw = [line for line in raw if not _SURROUNDINGS.match(line)]
    said, digest = _without_content(_unwrapped(raw))
    lines = _joined_headings(_bare(line) for line in said)
    spoken = [line for line in _distinct(lines, counted=whole) if _SPOKEN.search(line)]
    spoken = [line for line in spoken if not _NO_TROUBLE.match(line)] or spoken[:1]
    if digest:  # the digest replaces what the end of such a line announces
        spoken = [_before_announcement(line) if line.endswith(":") else line for line in spoken]
        spoken = [line for line in spoken if line]
        if done := next((found[1] for line in spoken if (found := _EDITED.match(line))), ""):
            # That it was done says more than what is shown of it, which is more than what was changed.
            spoken = [line for line in spoken if not _EDITED.match(line)]
            digest = [f"{done}, shown: {digest[0]}", *digest[1:]]
    return [*_most_telling(_without_noise(spoken)), *digest]


# A program wraps its messages and indents them, or quotes several lines in them.
_WRAPPED = regex(r"( {2,})(?=[\"'(]?(?:[a-z]+|[A-Z_]{2,}[\"')])[\"')]?[ .,;])")
_MAX_QUOTED_LINES = 12
_MIN_WRAPPED = 50  # characters of a line that another goes on with


def _unwrapped(raw: Sequence[str]) -> list[str]:
    """Join the lines of one message: a part of it can say something else ("installed.")."""
    lines: list[str] = []
    i = 0
    while i < len(raw):
        end = _quotation_end(raw, i)
        line = " ".join(part.strip() if k else part for k, part in enumerate(raw[i:end]))
        before = lines[-1] if lines else ""
        wrapped = _WRAPPED.match(line)
        if wrapped and before.startswith(wrapped[1]) and _is_unended(before, wrapped[1]):
            lines[-1] = f"{before.rstrip()} {line.strip()}"
        else:
            lines.append(line)
        i = end
    return lines


def _is_unended(line: str, indent: str) -> bool:
    text = line[len(indent) :].rstrip()
    goes_on = len(text) >= _MIN_WRAPPED and text[0] != " " and text[-1] not in ".:;!?…"
    return goes_on and not CODE_LINE.search(line)


def _quotation_end(raw: Sequence[str], i: int) -> int:
    """Return where the lines end that a quotation in backticks is in, if it ends at all."""
    if raw[i].count("`") % 2 == 0 or "```" in raw[i]:
        return i + 1
    for end in range(i + 1, min(len(raw), i + _MAX_QUOTED_LINES)):
        if "```" in raw[end]:
            break
        if raw[end].count("`") % 2:
            return end + 1
    return i + 1


def _before_announcement(line: str) -> str:
    """Return a line without its last sentence."""
    return line[: line.rfind(". ") + 1]


def outcome_line(text: str) -> str:
    """Return one short line that says how it went, or "" if none does."""
    lines = [line for line in map(_bare, text.splitlines()) if line]
    for sign in (_COUNTS, TROUBLE, OUTCOME):
        for line in reversed(lines):
            if sign.search(line) and not _NO_TROUBLE.match(line):
                return shorten(line, 100)
    return ""


def reports_outcome(text: str) -> bool:
    """Whether the output says how an attempt went."""
    return bool(_COUNTS.search(text) or TROUBLE.search(text[-_RECENT:]))


def _bare(line: str) -> str:
    """Return a line without the rules drawn around it."""
    return _RULE.sub("", _RULE.sub("", shorten(line))).strip()


def _without_content(raw: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split output into messages and a digest of shown content: a file, a folder, a change."""
    changed = list(dict.fromkeys(found[1] for line in raw if (found := _CHANGED.match(line))))
    if changed:
        said = [line for line in raw if not _CHANGED.match(line) and not _CHANGE.match(line)]
        return said, [
            f"changes {', '.join(changed[:_MAX_CHANGED_FILES])}{_more(changed, _MAX_CHANGED_FILES)}"
        ]
    listed = [found[1] for line in raw if (found := _LISTED.match(line))]
    if listed:
        said = [line for line in raw if not _LISTED.match(line) and not _LISTED_TOTAL.match(line)]
        return said, list(_listing([name for name in listed if name not in (".", "..")]))
    numbered = [line for line in raw if _NUMBERED.match(line)]
    if len(numbered) >= _MANY_NUMBERED:
        first, last = (found[1] for line in (numbered[0], numbered[-1]) if (found := _NUMBERED.match(line)))
        said = [line for line in raw if not _NUMBERED.match(line)]
        return said, [f"lines {first}–{last}{definitions(_NUMBERED.sub('', n) for n in numbered)}"]
    code = sum(1 for line in raw if CODE_LINE.search(line))
    if len(raw) > _FEW_LINES and code > _CODE_SHARE * sum(1 for line in raw if line.strip()):
        return [line for line in raw if _COUNTS.search(line)], [f"{len(raw)} lines{definitions(raw)}"]
    return list(raw), []


def _more(names: Sequence[str], limit: int) -> str:
    return f" and {len(names) - limit} more" if len(names) > limit else ""


def _listing(names: Sequence[str]) -> Iterable[str]:
    """Join the names in a folder to a few records."""
    record = ""
    for name in names:
        if record and len(record) + len(name) > _MAX_LISTING_LENGTH:
            yield record
            record = ""
        record += (", " if record else "") + name
    if record:
        yield record


def definitions(lines: Iterable[str]) -> str:
    names = list(dict.fromkeys(found[1] for line in lines if (found := _DEFINED.match(line))))
    if not names:
        return ""
    return f", defines {', '.join(names[:_MAX_DEFINITIONS])}{_more(names, _MAX_DEFINITIONS)}"


def _distinct(lines: Iterable[str], *, counted: bool) -> list[str]:
    """Return each line once. Of many that differ only in their numbers, keep the last and their count.

    `counted` is false where only a part of the output was read.
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
    """Drop quoted code. Of a test run, keep only failures and counts."""
    if any(_COUNTS.search(line) for line in spoken):
        return [line for line in spoken if TROUBLE.search(line) or _COUNTS.search(line)]
    telling = [line for line in spoken if _is_telling(line) or not CODE_LINE.search(line)]
    return telling if any(_is_telling(line) for line in telling) else spoken


def _is_telling(line: str) -> bool:
    return bool(TROUBLE.search(line) or OUTCOME.search(line))


def _joined_headings(lines: Iterable[str]) -> Iterable[str]:
    """Join a short line that ends with a colon, such as "ERROR:", to the next one."""
    heading = ""
    for line in lines:
        if line.endswith(":") and len(line) <= _MAX_HEADING_LENGTH and not heading:
            heading = line
        elif line:
            yield f"{heading} {line}".strip()
            heading = ""
    if heading:
        yield heading
