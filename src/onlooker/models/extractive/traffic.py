"""Tool traffic: each call with what came of it, as records of exact values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import cast

from onlooker.domain.messages import ToolCall

_LONGEST_RECORD = 240  # characters
_LONGEST_LABEL = 48
_FEW_LINES = 12
_RECORD = 60  # about
_MOST_LINES = 300
_LISTING = re.compile(
    r"^[bcdlps-][rwxsStT-]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+[\d,.]+[KMG]?\s+\w+\s+\d+\s+[\d:]+\s+"
)
_NUMBERED = re.compile(r"^\s*\d+(?:\t|[:|]\s)")
# A word of three letters or a number: brackets and rules say nothing.
_SPOKEN = re.compile(r"[^\W\d_]{3}|\d{2}")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# A value that says what it is without its key: an id, an address, a date, an airport.
_SPEAKS = re.compile(r"_|\d.*[A-Za-z]|[A-Za-z].*\d|@|^[A-Z]{3}$|^\d{4}-|://")
_MIN_SPEAKING = 13

TROUBLE = re.compile(
    r"\b(?:error|exception|traceback|fail(?:ed|ure|ures|s)?|fatal|panic|abort(?:ed)?|denied|refused"
    r"|not found|no such"
    r"|cannot|can't|unable|invalid|undefined|segmentation fault|segfaults?|timed? ?out|warning)\b|错误"
    r"|失败|エラー|失敗|오류|실패",
    re.I,
)
OUTCOME = re.compile(
    r"\b(?:passed|succeeded|success(?:ful(?:ly)?)?|completed?|created|updated|saved|deleted|installed"
    r"|built|finished"
    r"|exit code|total|result|ok)\b|成功|完成|완료",
    re.I,
)


def label(call: ToolCall) -> str:
    """The call in short, as the subject of its result's line: `get_order(88-1431)`."""
    shown: list[str] = []
    room = _LONGEST_LABEL
    for key, value in _scalars(call.arguments):
        text = re.sub(r"[:;()]+", " ", value if _speaks(value) else f"{key} {value}").strip()
        if len(text) > room:
            if not shown:
                shown.append(text[:room].rpartition(" ")[0].rstrip(" ,") + "…")
            break
        shown.append(text)
        room -= len(text) + 2
    return f"{call.name}({', '.join(shown)})"


def rest_of_call(call: ToolCall) -> list[str]:
    """The arguments that its label has no room for, as records."""
    said = label(call)
    records = [record for record in records_of(call.arguments, set()) if not _is_in(record, said)]
    return [_shorten(record) for record in records]


def _is_in(record: str, said: str) -> bool:
    return all(part.strip() in said for part in record.split(", "))


def _scalars(arguments: str) -> Iterable[tuple[str, str]]:
    parsed = _parse(arguments)
    if not isinstance(parsed, dict):
        return
    for key, value in cast("dict[str, object]", parsed).items():
        if isinstance(value, str | int | float) and value != "":
            yield key, re.sub(r"\s+", " ", str(value))


def _speaks(value: str) -> bool:
    return len(value) >= _MIN_SPEAKING or bool(_SPEAKS.search(value))


def _parse(text: str) -> object:
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError):
        return None


def records_of(text: str, seen: set[str]) -> list[str]:
    """A result as short records: one per object where it is JSON, else its lines.

    A key is written where the value does not speak for itself, and the first time in any case;
    `seen` holds the keys that have been written.
    """
    parsed = _parse(text)
    if isinstance(parsed, dict | list):
        return [_shorten(record) for record in _flatten(cast("object", parsed), "", seen)]
    return _lines(text)


def _shorten(record: str) -> str:
    record = re.sub(r"\s+", " ", record).strip()
    if len(record) <= _LONGEST_RECORD:
        return record
    cut = record.rfind(" ", 0, _LONGEST_RECORD)
    return record[: cut if cut > 0 else _LONGEST_RECORD].rstrip(" ,;:")


def _flatten(node: object, key: str, seen: set[str]) -> list[str]:
    if isinstance(node, dict):
        return _flatten_object(cast("dict[str, object]", node), key, seen)
    if isinstance(node, list):
        items = cast("list[object]", node)
        return [record for item in items for record in _flatten(item, key, seen)]
    return [] if node in (None, "") else [f"{key} {node}".strip()]


def _flatten_object(node: dict[str, object], key: str, seen: set[str]) -> list[str]:
    fields: list[str] = []
    nested: list[str] = []
    for name, value in node.items():
        if (flat := _flat_collection(value)) is not None:
            if flat:
                fields.append(f"{name} {flat}")
        elif isinstance(value, dict | list):
            nested.extend(_flatten(cast("object", value), name, seen))
        elif value not in (None, ""):
            fields.append(_field(name, str(value), seen))
    fields = list(dict.fromkeys(fields))
    if fields and key and key not in fields[0]:
        fields[0] = f"{key} {fields[0]}"
    return [*_grouped(fields), *nested]


def _grouped(fields: Sequence[str]) -> Iterable[str]:
    """Fields together in records that are short enough to choose among."""
    record = ""
    for field in fields:
        if record and len(record) + len(field) > _RECORD:
            yield record
            record = ""
        record += (", " if record else "") + _shorten(field)
    if record:
        yield record


def _flat_collection(value: object) -> str | None:
    """A short collection of plain values in one field; None where it is no such thing."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        if any(isinstance(item, dict | list) for item in items):
            return None
        return " ".join(str(item) for item in items)
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value)
        if 0 < len(pairs) <= 4 and all(isinstance(item, int | float) for item in pairs.values()):
            return " ".join(f"{name} {item}" for name, item in pairs.items())
    return None


def _field(name: str, value: str, seen: set[str]) -> str:
    if _speaks(value) and name in seen:
        return value
    seen.add(name)
    return f"{name} {value}"


def _lines(text: str) -> list[str]:
    """The lines of plain output that say how it went, and its ends; what else it names is the ledger's."""
    raw = _ESCAPE.sub("", text).splitlines()
    if len(raw) > _MOST_LINES:
        raw = raw[: _MOST_LINES // 2] + raw[-_MOST_LINES // 2 :]
    lines = _joined_headings(_shorten(_NUMBERED.sub("", _LISTING.sub("", line))) for line in raw)
    spoken = [line for line in dict.fromkeys(lines) if _SPOKEN.search(line)]
    if len(spoken) <= _FEW_LINES:
        return spoken
    telling = [line for line in spoken if TROUBLE.search(line) or OUTCOME.search(line)][-_FEW_LINES // 2 :]
    ends = {*spoken[: _FEW_LINES // 3], *spoken[-_FEW_LINES // 6 :], *telling}
    return [line for line in spoken if line in ends]


def _joined_headings(lines: Iterable[str]) -> Iterable[str]:
    """A short line that ends with a colon says what the next one is: "ERROR:"."""
    heading = ""
    for line in lines:
        if line.endswith(":") and len(line) <= _LONGEST_LABEL and not heading:
            heading = line
        elif line:
            yield f"{heading} {line}".strip()
            heading = ""
    if heading:
        yield heading
