"""Tool traffic: each call with what came of it, as records of exact values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import cast

from onlooker.domain.messages import ToolCall
from onlooker.models.extractive.output import OUTCOME, TROUBLE, lines_of
from onlooker.models.extractive.structured import parse, plain_value, records, shorten, speaks

__all__ = ["OUTCOME", "TROUBLE", "changes_something", "is_act", "label", "records_of", "rest_of_call"]

_LONGEST_LABEL = 64
_LONGEST_TAIL = 36
# An argument that is what the tool is asked to do: its key says nothing more.
_ACT = re.compile(
    r"^(?:command|cmd|action|operation|path|file|filename|file_?path|url|uri|query|q|question|pattern|sql"
    r"|script|input|text|expression)$",
    re.I,
)
# A code, a date: short, and clear enough beside the name of what is called.
_CODE = re.compile(r"^[A-Z]{2,6}$|^\d{4}-\d\d")
_CHANGES = re.compile(
    r"(?:^|[^a-z])(?:create|write|edit|update|insert|replace|patch|apply|delete|remove|move|rename|save|send"
    r"|book|cancel|pay|refund|transfer|submit|approve|modify|change|exchange|upload|commit|push|deploy|install"
    r"|migrate|merge|rm|mv|mkdir)(?![a-z])",
    re.I,
)
_LOOKS = re.compile(
    r"^(?:get|list|search|find|read|view|show)|\((?:view|read|get|list|show|open|cat|ls|grep)\b", re.I
)
_GO_THERE = re.compile(r"^cd \S+ && ")
_ENDS_LABEL = re.compile(r"\)(?=: )")


def changes_something(label: str) -> bool:
    """Whether a call, by its label, does something that stays done, rather than look."""
    return bool(_CHANGES.search(label)) and not _LOOKS.search(label)


def is_act(key: str) -> bool:
    return bool(_ACT.match(key))


def label(call: ToolCall) -> str:
    """The call in short, as the subject of its result's line: `get_order(88-1431)`."""
    # What is done to what comes first; text of many lines is what is written there.
    arguments = sorted(_scalars(call.arguments), key=lambda argument: not is_act(argument[0]))
    shown: list[str] = []
    room = _LONGEST_LABEL
    for key, value in arguments:
        text = _cut(_argument(key, value, alone=len(arguments) == 1), room, first=not shown)
        if text:
            shown.append(text)
            room -= len(text) + 2
    return _ENDS_LABEL.sub("", f"{call.name}({', '.join(shown)})")


def _argument(key: str, value: str, *, alone: bool) -> str:
    clear = alone or speaks(value) or is_act(key) or _CODE.match(value)
    return value if clear else f"{key} {value}"


def _cut(text: str, room: int, *, first: bool) -> str:
    """A path by its end, anything else by its beginning; empty where there is no room beside the first."""
    if len(text) > room:
        text = _GO_THERE.sub("", text)
    if len(text) <= room:
        return text
    if " " not in text and "/" in text and room >= _LONGEST_TAIL:
        tail = text[-_LONGEST_TAIL:]
        return "…" + (tail[tail.find("/") :] if "/" in tail[:-1] else tail)
    return text[:room].rpartition(" ")[0].rstrip(" ,") + "…" if first else ""


def rest_of_call(call: ToolCall) -> list[str]:
    """The arguments that its label has no room for, as records."""
    said = label(call)
    parsed = parse(call.arguments)
    if not isinstance(parsed, dict):
        return (
            [shorten(call.arguments)]
            if parsed is None and len(call.arguments) > 2
            else records(parsed, set())
        )
    left = {
        key: value
        for key, value in cast("dict[str, object]", parsed).items()
        if not (_is_plain(value) and _GO_THERE.sub("", _one_line(value)) in said)
    }
    return records(left, set())


def _scalars(arguments: str) -> Iterable[tuple[str, str]]:
    parsed = parse(arguments)
    if isinstance(parsed, dict):
        for key, value in cast("Mapping[str, object]", parsed).items():
            if _is_plain(value) and value != "" and not _is_long(value):
                yield key, _one_line(value)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _is_long(value: object) -> bool:
    return isinstance(value, str) and value.count("\n") > 1


def _one_line(value: object) -> str:
    return re.sub(r"\s+", " ", plain_value(value))


def records_of(text: str, seen: set[str], said: str = "") -> list[str]:
    """A result as short records: one per object where it is JSON, else its lines.

    `seen` holds the keys that have been written, `said` is the call in short.
    """
    parsed = parse(text)
    if isinstance(parsed, dict | list | tuple):
        return records(cast("object", parsed), seen, said)
    return lines_of(text)
