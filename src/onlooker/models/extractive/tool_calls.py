"""Tool calls with their results: what was asked of a tool, how often, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple, cast

from onlooker.domain.messages import Message, ToolCall
from onlooker.models.extractive.tool_results import (
    MAX_JSON_LENGTH,
    TROUBLE,
    is_self_explanatory,
    json_records,
    outcome_line,
    parse,
    records_of_result,
    reports_outcome,
    result_text,
    shorten,
    value_text,
)
from onlooker.models.extractive.words import MAX_TEXT_LENGTH, UNPRINTABLE, keep_ends
from onlooker.policy.secrets import mask
from onlooker.policy.text import regex

# -- Labels: a call in short

Argument = tuple[str, str, str]  # of a call: the tool, the key, the value

_MAX_LABEL_LENGTH = 64  # characters
_MAX_TAIL_LENGTH = 36
# An argument that is what the tool is asked to do: its key says nothing more.
_ACTION = regex(
    r"^(?:command|cmd|action|operation|path|file|filename|file_?path|url|uri|query|q|question|pattern|sql"
    r"|script|input|text|expression)$",
    re.I,
)
# A code or a date: short, and clear beside the name of the tool.
_CODE = regex(r"^[A-Z]{2,6}$|^\d{4}-\d\d")
_CHANGES = regex(
    r"(?:^|[^a-z])(?:create|write|edit|update|insert|replace|patch|apply|delete|remove|move|rename"
    r"|save|send"
    r"|book|cancel|pay|refund|transfer|submit|approve|modify|change|exchange|upload|commit|push"
    r"|deploy|install"
    r"|migrate|merge|rm|mv|mkdir)(?![a-z])",
    re.I,
)
_LOOKS = regex(
    r"^(?:get|list|search|find|read|view|show)|\((?:view|read|get|list|show|open|cat|ls|grep)\b", re.I
)
# An argument in which a model says what it is about to try. What came of it is in the result.
_THOUGHT = regex(r"(?:thoughts?|reasoning|rationale|explanation|justification)$", re.I)
_GO_THERE = regex(r"^cd \S+ && ")
_ENDS_LABEL = regex(r"\)(?=: )")


def changes_something(label: str) -> bool:
    """Whether a call changes something, judged by its label, rather than only looks."""
    return bool(_CHANGES.search(label)) and not _LOOKS.search(label)


def label(call: ToolCall, usual: Collection[Argument] = ()) -> str:
    """Return the call in short, as the subject of its result's line: `get_order(88-1431)`.

    `usual` are arguments that say nothing, since calls of this tool always have them.
    """
    given = [
        argument
        for argument in _scalars(call.arguments)
        if (call.name, *argument) not in usual and not _THOUGHT.match(argument[0])
    ]
    # The action and its object come first.
    arguments = sorted(given, key=lambda argument: not _is_action(argument[0]))
    shown: list[str] = []
    room = _MAX_LABEL_LENGTH
    for key, value in arguments:
        text = _cut(_argument(key, value, alone=len(arguments) == 1), room, first=not shown)
        if text:
            shown.append(text)
            room -= len(text) + 2
    return _ENDS_LABEL.sub("", f"{call.name}({', '.join(shown)})")


def thought(call: ToolCall) -> str:
    """Return what a call says to itself, if it does nothing else, or ""."""
    parsed = parse(call.arguments)
    if not isinstance(parsed, dict):
        return ""
    given = cast("Mapping[str, object]", parsed)
    return "\n".join(map(str, given.values())) if all(map(_THOUGHT.match, given)) else ""


def _scalars(arguments: str) -> Iterable[tuple[str, str]]:
    parsed = parse(arguments)
    if isinstance(parsed, dict):
        for key, value in cast("Mapping[str, object]", parsed).items():
            if _is_plain(value) and value != "" and not _is_long(value):
                yield key, _one_line(value)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _is_long(value: object) -> bool:
    # Text of many lines is content, such as that of a file, and says nothing in a label.
    return isinstance(value, str) and value.count("\n") > 1


def _one_line(value: object) -> str:
    return re.sub(r"\s+", " ", value_text(value))


def _argument(key: str, value: str, *, alone: bool) -> str:
    clear = alone or is_self_explanatory(value) or _is_action(key) or _CODE.match(value)
    return value if clear else f"{key} {value}"


def _is_action(key: str) -> bool:
    return bool(_ACTION.match(key))


def _cut(text: str, room: int, *, first: bool) -> str:
    """Cut a path to its end, and the first argument to its beginning. Drop any other that has no room."""
    if len(text) > room:
        text = _GO_THERE.sub("", text)
    if len(text) <= room:
        return text
    if " " not in text and "/" in text and room >= _MAX_TAIL_LENGTH:
        tail = text[-_MAX_TAIL_LENGTH:]
        return "…" + (tail[tail.find("/") :] if "/" in tail[:-1] else tail)
    return text[:room].rpartition(" ")[0].rstrip(" ,") + "…" if first else ""


def _remaining_arguments(call: ToolCall, usual: Collection[Argument] = ()) -> list[str]:
    """Return the arguments that the label has no room for, as records."""
    shown = label(call, usual)
    parsed = parse(call.arguments)
    if not isinstance(parsed, dict):
        if parsed is None and len(call.arguments) > 2:
            return [shorten(call.arguments)]
        return json_records(parsed, set())
    left = {
        key: value
        for key, value in cast("dict[str, object]", parsed).items()
        if not (_is_plain(value) and _GO_THERE.sub("", _one_line(value)) in shown)
        and not _THOUGHT.match(key)
        and not (_is_plain(value) and (call.name, key, _one_line(value)) in usual)
    }
    return json_records(left, set())


# -- Traffic: calls, results and repetitions

_MAX_ARGUMENTS = 20
_SILENT = "(no output)"  # of a search, that says that nothing was found
_MAX_OUTCOMES = 3
_MAX_TROUBLES = 2
_MAX_CHANGES = 4
_MAX_CHANGE_LENGTH = 40
# Parts of a command that do not change what it does.
_INCIDENTAL = regex(r"\d?>{1,2} ?\S+|\| ?(?:tail|head|less|cat|tee)\b.*$|(?<!\S)-[-\w]\S*")


class Record(NamedTuple):
    """A short fact from a call or its result. `speaker` is the label of the call."""

    speaker: str
    text: str


@dataclass(slots=True)
class _Repeats:
    """Calls that ask the same of the same tool, in order, and their results."""

    calls: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])


_SEPARATOR = regex(r"[_-]")
_KEY = regex(r"\b[a-z]+_\w+\b")
_OFTEN = 3  # calls of a tool with the same argument
_STEM = 6  # letters
_SETTING = regex(r"[a-z_ -]+$")  # a value that is one of a few: no name, no number, no place


def _usual_arguments(calls: Iterable[ToolCall], noted: str, said: str) -> frozenset[Argument]:
    """Return the settings of calls that say nothing: all of several calls of a tool have them, the notes show
    them of such a call, or they are a program's own word, which is in nothing that was `said`."""
    given: dict[str, list[set[tuple[str, str]]]] = {}
    for call in calls:
        given.setdefault(call.name, []).append(set(_scalars(call.arguments)))
    shown = [line for line in noted.splitlines() if "): " in line]
    return frozenset(
        (name, key, value)
        for name, each in given.items()
        for key, value in each[0].union(*each)
        if _SETTING.match(value)
        and not _is_action(key)
        and (
            (len(each) >= _OFTEN and all((key, value) in one for one in each))
            or any(line.startswith(f"{name}(") and f"{key} {value}" in line for line in shown)
            or (_is_internal(key, value) and value.replace("_", " ") not in said)
        )
    )


def _is_internal(key: str, value: str) -> bool:
    """Whether a setting looks like a program's own: `oh_aci`, or `confirmed` for a `confirmation_state`."""
    return "_" in value or value[:_STEM] == key[:_STEM]


class ToolTraffic:
    """The calls and results in some messages. A repeated call is noted once, with its count."""

    def __init__(self, messages: Sequence[Message], noted: str = "") -> None:
        self._calls = {call.id: call for message in messages for call in _calls_of(message)}
        said = "\n".join(keep_ends(message.text, MAX_TEXT_LENGTH) for message in messages).lower()
        self._usual = _usual_arguments(self._calls.values(), noted, _SEPARATOR.sub(" ", said))
        self.unsaid = frozenset(value for _, _, value in self._usual)
        self._answers: dict[str, Message] = {}
        for message in messages:
            if message.role == "tool" and message.answers in self._calls:
                self._answers.setdefault(message.answers, message)
        self._results = {key: result_text(message.text) for key, message in self._answers.items()}
        # Keys that the notes show already are not shown again with every value.
        has_results = any(message.role == "tool" for message in messages)
        self._shown_keys = set(_KEY.findall(noted) if has_results else ())
        self._runs: dict[str, _Repeats] = {}
        runs: dict[tuple[str, str], _Repeats] = {}
        for call in self._calls.values():
            if call.id in self._results:
                run = self._runs[call.id] = runs.setdefault(_identity(call), _Repeats())
                run.calls.append(call.id)
                run.results.append(self._results[call.id])

    def call_records(self, message: Message) -> list[Record]:
        """Return what the arguments of a message's calls say beyond their labels."""
        return [record for call in message.calls for record in self._call_records(self._calls[call.id])]

    def _call_records(self, call: ToolCall) -> list[Record]:
        run = self._runs.get(call.id)
        if run is not None and run.calls[-1] != call.id:
            return []
        rest = _remaining_arguments(call, self._usual)[:_MAX_ARGUMENTS]
        if run is None and not rest and not thought(call):
            rest = ["called"]
        return [Record(self._label(call), record) for record in rest]

    def _label(self, call: ToolCall) -> str:
        return label(call, self._usual)

    def result_records(self, message: Message) -> list[Record]:
        """Return what a tool answered."""
        call = self._calls.get(message.answers)
        speaker = (
            self._label(call) if call else f"{message.name or 'tool'}(…)"
        )  # what it was given is not known
        if call is None or self._answers.get(call.id) is not message:  # no call, or a second answer to it
            texts = records_of_result(result_text(message.text), self._shown_keys, speaker) or [_SILENT]
        else:
            texts = self._run_records(call, self._runs[call.id], speaker)
        return [Record(speaker, text) for text in texts]

    def _run_records(self, call: ToolCall, run: _Repeats, speaker: str) -> list[str]:
        text = self._results[call.id]
        last = run.calls[-1] == call.id
        if not last and _is_covered_by(text, run.results[-1]):
            return _troubles(text, speaker) if text != run.results[-1] else []
        records = records_of_result(text, self._shown_keys, speaker)
        if not last or len(run.calls) == 1:
            silent = thought(call) or _remaining_arguments(call, self._usual)
            return records or ([] if silent else [_SILENT])
        return _with_count(run, records or [_SILENT])


def _troubles(text: str, speaker: str) -> list[str]:
    """Return what went wrong in an attempt that was repeated. That it failed is noted with the last one."""
    known = outcome_line(text)
    troubles = (r for r in records_of_result(text, set(), speaker) if TROUBLE.search(r))
    return [r for r in troubles if shorten(r, 100) != known][:_MAX_TROUBLES]


def _is_covered_by(earlier: str, last: str) -> bool:
    """Whether the last result of a call replaces an earlier one, except for how that one went."""
    if earlier == last or reports_outcome(earlier):
        return True
    before, after = parse(earlier), parse(last)
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return False
    return cast("dict[str, object]", before).keys() == cast("dict[str, object]", after).keys()


def _with_count(run: _Repeats, records: Sequence[str]) -> list[str]:
    """Return the records of the last attempt. The first also says how many there were and how they went."""
    count = f"{len(run.calls)}×"
    earlier = [text for text in run.results[:-1] if _is_covered_by(text, run.results[-1])]
    if not earlier:
        return list(records)
    if changes := _changes(earlier[0], run.results[-1]):
        return [f"{count}, {changes}", *records]
    lines = (outcome_line(text) or shorten(records[0], 60) for text in (*earlier, run.results[-1]))
    steps = [line for line, _ in groupby(line for line in lines if line)]
    if len(steps) < 2:
        return [f"{count}, {records[0]}", *records[1:]]
    shown = steps if len(steps) <= _MAX_OUTCOMES else [steps[0], "…", steps[-1]]
    return [f"ran {count}, {' → '.join(shown)}", *(record for record in records if record != steps[-1])]


def _changes(before: str, after: str) -> str:
    """Return the plain fields of an object that changed: "status pending → shipped"."""
    old, new = parse(before), parse(after)
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return ""
    was, now = cast("Mapping[str, object]", old), cast("Mapping[str, object]", new)
    changed = [
        f"{key} {_short(was[key])} → {_short(now[key])}"
        for key in was
        if key in now and was[key] != now[key] and not isinstance(now[key], dict | list)
    ]
    return ", ".join(changed[:_MAX_CHANGES])


def _short(value: object) -> str:
    return shorten(value_text(value), _MAX_CHANGE_LENGTH)


def _identity(call: ToolCall) -> tuple[str, str]:
    """Return a key that is the same for repeated calls. How a command is run does not matter."""
    parsed = parse(call.arguments)
    if not isinstance(parsed, dict):
        return call.name, call.arguments
    arguments = dict(cast("dict[str, object]", parsed))
    for key, value in arguments.items():
        if isinstance(value, str) and _is_action(key):
            arguments[key] = " ".join(_INCIDENTAL.sub(" ", value).split())
    return call.name, repr(sorted(arguments.items()))


def _calls_of(message: Message) -> list[ToolCall]:
    return [
        replace(call, arguments=UNPRINTABLE.sub("", mask(keep_ends(call.arguments, MAX_JSON_LENGTH))))
        for call in message.calls
    ]
