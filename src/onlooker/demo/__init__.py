"""A long conversation to try things on: nine days of Ana's, who moves house and runs a web service.

Its facts lie beside it, so that what a memory kept of it can be counted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """Something said that must survive word for word, and the message that said it first."""

    value: str
    what: str
    message: str


@dataclass(frozen=True, slots=True)
class Question:
    """Something that one who followed the conversation can answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Facts:
    values: tuple[Value, ...]
    questions: tuple[Question, ...]


def conversation() -> list[dict[str, Any]]:
    """The messages, oldest first, as OpenAI has them, each with an `id` and `created_at`."""
    return [json.loads(line) for line in _text("conversation.jsonl").splitlines()]


def facts() -> Facts:
    """Exact values of the conversation, in the order they come up, and questions about all of it."""
    found = json.loads(_text("facts.json"))
    return Facts(
        values=tuple(Value(**value) for value in found["values"]),
        questions=tuple(Question(**question) for question in found["questions"]),
    )


def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
