"""A correct note for a prompt, as a model would write it that knows nothing but the prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from onlooker.policy.tokens import estimate

_SECTION = re.compile(
    r"^<<< (?P<title>[A-Z ]+) (?P<marker>\w+)\n(?P<text>.*?)\n>>> (?P=marker)$", re.M | re.S
)
_LABEL = re.compile(
    r"(?:\[(?:(?P<date>\d{4}-\d\d-\d\d) )?\d\d:\d\d\] )?"
    r"(?P<who>(?:user|assistant|system|tool)[^:\n]{0,70}): ?"
)
_MOST = re.compile(r"at most (\d+) tokens")
_FEWEST_WORDS = 4
_TOKENS_PER_WORD = 1.5


def note_for(prompt: str) -> str:
    """Dated lines for the messages of an observer's prompt; fewer lines for the notes of a reflector's."""
    sections = {found["title"]: found["text"] for found in _SECTION.finditer(prompt)}
    target = _MOST.search(prompt)
    tokens = int(target[1]) if target else 200
    if "MESSAGES" in sections:
        return _observed(sections["MESSAGES"].split("\n"), tokens)
    return _reflected(sections.get("NOTES", "").split("\n"), tokens)


def _observed(said: Sequence[str], tokens: int) -> str:
    labels = [found for line in said if (found := _LABEL.match(line))]
    words = max(_FEWEST_WORDS, int(tokens / _TOKENS_PER_WORD / max(1, len(labels))) - 3)
    lines: list[str] = []
    for line in said:
        label = _LABEL.match(line)
        if label is None:
            continue
        if label["date"]:
            lines.append(f"## {label['date']}")
        if told := _first(line[label.end() :], words):
            lines.append(f"{label['who'].capitalize()} said: {told}")
    return "\n".join(dict.fromkeys(lines))  # each once


def _reflected(noted: Sequence[str], tokens: int) -> str:
    lines = list(dict.fromkeys(line for line in noted if line.strip()))
    kept = [line for line in lines if line.startswith("##") or "CRITICAL" in line]
    room = tokens - sum(map(estimate, kept))
    for line in lines:
        cost = estimate(line)
        if line not in kept and cost <= room:
            kept.append(line)
            room -= cost
    return "\n".join(line for line in lines if line in kept)


def _first(text: str, words: int) -> str:
    """The first words, closed so that they cannot pass for something that was cut off."""
    every = text.split()
    shown = " ".join(every[:words]).rstrip(".,;:([{-–—→")
    return shown and f"{shown}{'…' if len(every) > words else '.'}"
