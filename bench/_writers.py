"""What stands in for a language model: a good one, and two that lose what they should keep."""

from __future__ import annotations

import re
from dataclasses import replace

from onlooker.models.extractive import ExtractiveModel
from onlooker.policy.reply.evidence import invented
from onlooker.policy.values import find_values
from onlooker.ports import ObserveRequest, Request

# "Values: …" is what the audit adds; a stand-in that loses values writes none.
LEDGER = "Values: "
_LESS = 0.7
_NAME = re.compile(r"\b(?!IMPORTANT\b|CRITICAL\b)[A-Z][\w'’-]*")
_AGAIN = re.compile(r"\b(someone|something)(?:\W+(?:someone|something)\b)+")
_HEAD = re.compile(r"(?:\[\d\d:\d\d\] )?(?:CRITICAL |IMPORTANT )?")


def faithful(request: Request) -> str:
    """As the built-in model writes: a note of the usual length, in the words that were said. Told that
    something was wrong with it, it writes less, and only what it can vouch for."""
    if not request.correction:
        return ExtractiveModel().compose(request)
    less = replace(request, target_tokens=max(1, round(request.target_tokens * _LESS)))
    source = _source(request)
    text = ExtractiveModel().compose(less)
    parts = text.splitlines() if request.format == "lines" else re.split(r"(?<=[.!?]) ", text)
    between = "\n" if request.format == "lines" else " "
    return between.join(part for part in parts if not invented(part, source))


def _source(request: Request) -> str:
    if isinstance(request, ObserveRequest):
        return "\n".join(t for m in request.messages for t in (m.text, *(c.arguments for c in m.calls)))
    return "\n".join(note.text for note in request.notes)


def without_values(request: Request) -> str:
    """The same note with every name, number, date, path and id gone."""
    lines = (line for line in faithful(request).splitlines() if not line.startswith(LEDGER))
    emptied = (line if line.startswith("## ") else _emptied(line) for line in lines)
    # What differed by its values alone is now the same.
    return "\n".join(dict.fromkeys(emptied))


def _emptied(line: str) -> str:
    head = _HEAD.match(line)
    start = head.end() if head else 0
    body = line[start:]
    for value in sorted(find_values(body), key=lambda v: -v.at):
        at = body.find(value.text, value.at)
        body = body if at < 0 else body[:at] + "something" + body[at + len(value.text) :]
    body = re.sub(r"\d+", "some", _NAME.sub("someone", body))
    return line[:start] + _AGAIN.sub(r"\1", body)


def vague(request: Request) -> str:
    """Nothing but that there was a conversation."""
    if isinstance(request, ObserveRequest):
        return "They talked about several things and agreed on what to do next."
    return "They talked several times, mostly about what they were doing, and agreed on what to do next."


def as_written(text: str) -> str:
    """A context without what the audit put into its notes."""
    return "\n".join(line for line in text.split("\n") if not line.startswith(LEDGER))
