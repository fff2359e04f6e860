"""Calls and their results together: what was asked of a tool, how often, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from onlooker.domain.messages import Message, ToolCall
from onlooker.models.extractive.tool_results import (
    OUTCOME,
    TROUBLE,
    bounded,
    clean,
    lines_of,
    outcome,
    parse,
    plain_value,
    records,
    shorten,
    speaks,
    went,
)
from onlooker.policy.values import mask

# -- Tool traffic: each call with what came of it, as records of exact values

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


# -- Calls and their results together

_LONGEST_TEXT = 24_000  # characters of one message that are looked through
_LONGEST_JSON = 200_000
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_MOST_ARGUMENTS = 20
_MOST_OUTCOMES = 3
_MOST_TROUBLES = 2
_MOST_CHANGES = 4
_LONGEST_CHANGE = 40
# What is around a command without changing what it does.
_MANNER = re.compile(r"\d?>{1,2} ?\S+|\| ?(?:tail|head|less|cat|tee)\b.*$|(?<!\S)-[-\w]\S*")


class Said(NamedTuple):
    """One record and the call that it is about."""

    speaker: str
    text: str


@dataclass(slots=True)
class _Run:
    """Calls that ask the same of the same tool, in order, and their results."""

    calls: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])


class Exchanges:
    """The tool traffic of some messages. A call that is repeated is told once, with how often it was made."""

    def __init__(self, messages: Sequence[Message], told: str = "") -> None:
        self._calls = {call.id: call for message in messages for call in _masked(message)}
        self._answers: dict[str, Message] = {}
        for message in messages:
            if message.role == "tool" and message.answers in self._calls:
                self._answers.setdefault(message.answers, message)
        self._results = {key: _readable(message.text) for key, message in self._answers.items()}
        # Keys that notes show already need not be shown with every value.
        self._shown_keys: set[str] = set(re.findall(r"\b[a-z]+_\w+\b", told))
        self._runs: dict[str, _Run] = {}
        runs: dict[tuple[str, str], _Run] = {}
        for call in self._calls.values():
            if call.id in self._results:
                run = self._runs[call.id] = runs.setdefault(_asked(call), _Run())
                run.calls.append(call.id)
                run.results.append(self._results[call.id])

    def of_calls(self, message: Message) -> list[Said]:
        """What the arguments say beyond the label that the result is told under."""
        return [said for call in message.calls for said in self._of_call(self._calls[call.id])]

    def _of_call(self, call: ToolCall) -> list[Said]:
        run = self._runs.get(call.id)
        if run is not None and run.calls[-1] != call.id:
            return []
        rest = rest_of_call(call)[:_MOST_ARGUMENTS]
        if run is None and not rest:
            rest = ["called"]
        return [Said(label(call), record) for record in rest]

    def of_result(self, message: Message) -> list[Said]:
        """What a tool answered."""
        call = self._calls.get(message.answers)
        speaker = label(call) if call else f"{message.name or 'tool'}()"
        if call is None or self._answers.get(call.id) is not message:  # no call, or a second answer to it
            texts = records_of(_readable(message.text), self._shown_keys, speaker) or ["done"]
        else:
            texts = self._of_run(call, self._runs[call.id], speaker)
        return [Said(speaker, text) for text in texts]

    def _of_run(self, call: ToolCall, run: _Run, speaker: str) -> list[str]:
        text = self._results[call.id]
        last = run.calls[-1] == call.id
        if not last and _is_told_by(text, run.results[-1]):
            return _troubles(text, speaker) if text != run.results[-1] else []
        records = records_of(text, self._shown_keys, speaker)
        if not last or len(run.calls) == 1:
            return records or ([] if rest_of_call(call) else ["done"])
        return _with_count(run, records or ["done"])


def _troubles(text: str, speaker: str) -> list[str]:
    """What went wrong in a run that others followed; that it did is told with the last of them."""
    way = outcome(text)
    found = [r for r in records_of(text, set(), speaker) if TROUBLE.search(r) and shorten(r, 100) != way]
    return found[:_MOST_TROUBLES]


def _is_told_by(earlier: str, last: str) -> bool:
    """Whether the last result of a call makes an earlier one superfluous, but for how that went."""
    if earlier == last or went(earlier):
        return True
    before, after = parse(earlier), parse(last)
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return False
    return cast("dict[str, object]", before).keys() == cast("dict[str, object]", after).keys()


def _with_count(run: _Run, records: Sequence[str]) -> list[str]:
    """The records of the last run, the first of them with how often and how it went before."""
    count = f"{len(run.calls)}×"
    told = [text for text in run.results[:-1] if _is_told_by(text, run.results[-1])]
    if not told:
        return list(records)
    if changes := _changes(told[0], run.results[-1]):
        return [f"{count}, {changes}", *records]
    ways = [way for text in (*told, run.results[-1]) if (way := outcome(text) or shorten(records[0], 60))]
    steps = [way for n, way in enumerate(ways) if n == 0 or way != ways[n - 1]]
    if len(steps) < 2:
        return [f"{count}, {records[0]}", *records[1:]]
    shown = steps if len(steps) <= _MOST_OUTCOMES else [steps[0], "…", steps[-1]]
    return [f"ran {count}, {' → '.join(shown)}", *(record for record in records if record != steps[-1])]


def _changes(before: str, after: str) -> str:
    """Which plain fields of an object are not as they were: "status pending → shipped"."""
    old, new = parse(before), parse(after)
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return ""
    was, now = cast("Mapping[str, object]", old), cast("Mapping[str, object]", new)
    changed = [
        f"{key} {_short(was[key])} → {_short(now[key])}"
        for key in was
        if key in now and was[key] != now[key] and not isinstance(now[key], dict | list)
    ]
    return ", ".join(changed[:_MOST_CHANGES])


def _short(value: object) -> str:
    return shorten(plain_value(value), _LONGEST_CHANGE)


def _asked(call: ToolCall) -> tuple[str, str]:
    """What makes two calls one: the tool, and its arguments but for how a command is run."""
    parsed = parse(call.arguments)
    if not isinstance(parsed, dict):
        return call.name, call.arguments
    arguments = {
        key: " ".join(_MANNER.sub(" ", value).split()) if isinstance(value, str) and is_act(key) else value
        for key, value in cast("dict[str, object]", parsed).items()
    }
    return call.name, repr(sorted(arguments.items()))


def _masked(message: Message) -> list[ToolCall]:
    return [
        replace(call, arguments=_UNPRINTABLE.sub("", mask(bounded(call.arguments, _LONGEST_JSON))))
        for call in message.calls
    ]


def _readable(text: str) -> str:
    # Whole where it is JSON of a bearable size, since half an object cannot be read.
    most = _LONGEST_JSON if text.lstrip()[:1] in ("{", "[") else _LONGEST_TEXT
    return mask(_UNPRINTABLE.sub("", clean(bounded(text, most))))
