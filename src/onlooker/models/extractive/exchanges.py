"""Calls and their results together: what was asked of a tool, how often, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from onlooker.domain.messages import Message, ToolCall
from onlooker.models.extractive.output import TROUBLE, bounded, clean, outcome, went
from onlooker.models.extractive.structured import parse, plain_value, shorten
from onlooker.models.extractive.traffic import is_act, label, records_of, rest_of_call
from onlooker.policy.values import mask

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
