"""The four tools as a model is told of them, and whether what it passes can be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from onlooker.domain.items import ITEM_TYPES

_ID = {"type": "string", "description": "The id in brackets, as memory_search shows it."}


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool's name, what it is for, and its arguments as JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def _definition(name: str, description: str, needed: tuple[str, ...], **properties: Any) -> Definition:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(needed),
        "additionalProperties": False,
    }
    return Definition(name, description, parameters)


SEARCH = _definition(
    "memory_search",
    "Search what is remembered about this person: facts from all their conversations, notes, and what was "
    "said. Use it before you say that you do not know something about them.",
    ("query",),
    query={"type": "string", "description": "Words to look for: names, topics, values."},
    limit={
        "type": "integer",
        "minimum": 1,
        "maximum": 20,
        "description": "How many of each kind; 5.",
    },
)
SAVE = _definition(
    "memory_save",
    "Keep one lasting fact about this person for later conversations: a preference, a decision, who they "
    "are. One sentence in the third person that can be understood alone. Not for what is true only today.",
    ("summary",),
    summary={"type": "string", "description": 'Such as "Ana is allergic to peanuts".'},
    type={"type": "string", "enum": list(ITEM_TYPES), "description": "What kind of fact; knowledge."},
    tags={"type": "array", "items": {"type": "string"}, "description": "Words to find it by."},
    supersedes={
        "type": "string",
        "description": "The id of the fact whose place it takes.",
    },
    expires={"type": "string", "description": "The day after which nobody needs it, as YYYY-MM-DD."},
)
FORGET = _definition(
    "memory_forget",
    "Forget a fact that was kept, because it is wrong or the person asks for it. What was made of it goes "
    "too.",
    ("id",),
    id=_ID,
)
RECALL = _definition(
    "recall",
    "Read the messages behind a note or a fact, word for word, a page at a time.",
    ("id",),
    id=_ID,
    session={"type": "string", "description": "The conversation it is from, where that is another one."},
    page={"type": "integer", "minimum": 1, "description": "Which page; 1."},
)
DEFINITIONS = (SEARCH, SAVE, FORGET, RECALL)

_TYPES: dict[str, type] = {"string": str, "integer": int, "array": list}


def problem_with(definition: Definition, arguments: Mapping[str, Any]) -> str:
    """What is wrong with the arguments, in a sentence for the model; empty where nothing is."""
    known = cast("dict[str, dict[str, Any]]", definition.parameters["properties"])
    for name in definition.parameters["required"]:
        if name not in arguments:
            return f"{definition.name} needs {name!r}."
    for name, value in arguments.items():
        if name not in known:
            return f"{definition.name} takes no {name!r}; it takes {', '.join(known)}."
        if wrong := _wrong(known[name], value):
            return f"{name!r} must be {wrong}."
    return ""


def _wrong(schema: Mapping[str, Any], value: object) -> str:
    wanted = str(schema["type"])
    if not isinstance(value, _TYPES[wanted]) or isinstance(value, bool):
        return f"of type {wanted}"
    if wanted == "array" and not all(isinstance(part, str) for part in cast("list[object]", value)):
        return "a list of strings"
    if "enum" in schema and value not in schema["enum"]:
        return f"one of {', '.join(schema['enum'])}"
    if isinstance(value, int) and not schema["minimum"] <= value <= schema.get("maximum", value):
        return f"from {schema['minimum']}" + (f" to {schema['maximum']}" if "maximum" in schema else " on")
    return ""
