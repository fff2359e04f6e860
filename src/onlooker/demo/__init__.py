"""A long example conversation: nine days with Ana, who moves house and runs a web service.

A list of its facts is included, to count how many a memory keeps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """A value that must be kept word for word, and the first message that has it."""

    value: str
    what: str
    message: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question that the conversation answers."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What can be asked of a memory of the conversation."""

    values: tuple[Value, ...]
    questions: tuple[Question, ...]


def conversation() -> list[dict[str, Any]]:
    """Return the messages in OpenAI's format, oldest first, each with an `id` and `created_at`."""
    return [json.loads(line) for line in _text("conversation.jsonl").splitlines()]


def facts() -> Facts:
    """Return the values in the order they appear, and the questions."""
    found = json.loads(_text("facts.json"))
    return Facts(
        values=tuple(Value(**value) for value in found["values"]),
        questions=tuple(Question(**question) for question in found["questions"]),
    )


def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
