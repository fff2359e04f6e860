"""Values of a user's own types, filled in from what was said, each with where it came from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self

from onlooker.domain.messages import SessionId


class Extractor(Protocol):
    """A class that knows its JSON Schema and can be made from JSON: every Pydantic model is one."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]: ...

    @classmethod
    def model_validate(cls, obj: Any) -> Self: ...


@dataclass(frozen=True, slots=True)
class Schema:
    """An extractor as a model is told of it: its name, and its JSON Schema as text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """One value of a type, as the model gave it.

    It was written together with the note `note` and lives as long as that, whether shown or condensed.
    `seqs` are the messages that hold any of its words; where none does, all that it was taken from.
    """

    type: str
    text: str  # JSON
    note: str
    session: SessionId
    seqs: tuple[int, ...]
    said_at: datetime  # when the first of those messages was said
    made_at: datetime

    @property
    def value(self) -> dict[str, Any]:
        """The JSON as a dictionary, made anew each time."""
        return json.loads(self.text)
