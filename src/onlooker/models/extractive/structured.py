"""JSON and what looks like it, as short records: the values with the names they need."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Sequence
from typing import cast

from onlooker.policy.values import holds

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
