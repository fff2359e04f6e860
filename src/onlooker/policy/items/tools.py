"""The four memory tools: their definitions, and checks of what a model passes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, cast

from onlooker.domain.frozen import frozen
from onlooker.domain.items import ITEM_TYPES, Item
from onlooker.policy.items.match import contradictions, duplicates
from onlooker.policy.items.statements import MAX_CHARACTERS, TRANSIENT
from onlooker.policy.search.words import query_tokens
from onlooker.policy.text import has_cjk

_ID = {"type": "string", "description": "The id in brackets, as memory_search shows it."}


@frozen
class Definition:
    """A tool's name, its description, and its arguments as JSON Schema."""

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
        "description": "How many of each kind; by default 5.",
    },
)
SAVE = _definition(
    "memory_save",
    "Keep one lasting fact about this person for later conversations: a preference, a decision, who they "
    "are. One sentence in the third person that can be understood alone. Not for what is true only today.",
    ("summary",),
    summary={"type": "string", "description": 'Such as "Ana is allergic to peanuts".'},
    type={
        "type": "string",
        "enum": list(ITEM_TYPES),
        "description": "The kind of fact; by default knowledge.",
    },
    tags={"type": "array", "items": {"type": "string"}, "description": "Words to find it by."},
    supersedes={
        "type": "string",
        "description": "The id of the fact that it replaces.",
    },
    expires={"type": "string", "description": "The last day on which it is needed, as YYYY-MM-DD."},
)
FORGET = _definition(
    "memory_forget",
    "Forget a saved fact, because it is wrong or the person asks for it, with the facts made from it.",
    ("id",),
    id=_ID,
)
RECALL = _definition(
    "recall",
    "Read the messages behind a note or a fact, word for word, a page at a time.",
    ("id",),
    id=_ID,
    session={"type": "string", "description": "The conversation that it is from, if not this one."},
    page={"type": "integer", "minimum": 1, "description": "The page; by default 1."},
)
DEFINITIONS = (SEARCH, SAVE, FORGET, RECALL)

_TYPES: dict[str, type] = {"string": str, "integer": int, "array": list}


def problem_with(definition: Definition, arguments: Mapping[str, Any]) -> str:
    """Say what is wrong with the arguments, in a sentence for the model; "" if nothing is."""
    known = cast("dict[str, dict[str, Any]]", definition.parameters["properties"])
    for name in definition.parameters.get("required", ()):
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
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        return "text that is not empty"
    if "enum" in schema and value not in schema["enum"]:
        return f"one of {', '.join(schema['enum'])}"
    if isinstance(value, int) and not schema["minimum"] <= value <= schema.get("maximum", value):
        return f"from {schema['minimum']}" + (f" to {schema['maximum']}" if "maximum" in schema else " on")
    return ""


# -- What an agent may not save

MIN_CHARACTERS = 12
MIN_WORDS = 2
# How many items an agent may save in one session within an hour.
MAX_SAVES = 10
SAVES_WITHIN = timedelta(hours=1)

Reason = Literal["too short", "too long", "transient", "duplicate", "contradiction", "too many"]


@frozen
class Refusal:
    """Why an item is not saved, and a sentence that says what to do instead."""

    reason: Reason
    advice: str
    items: tuple[Item, ...] = ()


def check_words(summary: str) -> Refusal | None:
    """Check the length of a summary."""
    short = len(summary) < MIN_CHARACTERS and not has_cjk(summary)
    if short or len(query_tokens(summary)) < MIN_WORDS:
        advice = "Not saved: too short to be understood alone. Write one sentence that names who and what."
        return Refusal("too short", advice)
    if len(summary) > MAX_CHARACTERS:
        advice = (
            f"Not saved: longer than {MAX_CHARACTERS} characters. Save one fact at a time, in one sentence."
        )
        return Refusal("too long", advice)
    return None


def check_save(summary: str, recent: Sequence[datetime], now: datetime) -> Refusal | None:
    """Check whether an agent may save a summary. `recent` are the times at which it saved others in this
    session. `check_known` compares the summary with what is known."""
    return check_words(summary) or _transient(summary) or _too_many(recent, now)


def check_known(summary: str, live: Sequence[Item], supersedes: str = "") -> Refusal | None:
    """Check that a summary neither repeats nor contradicts one of the owner's items, besides the one that it
    replaces."""
    others = [item for item in live if item.id != supersedes]
    against = contradictions(summary, others)
    if against and not supersedes:
        return _contradicts(against)
    if not against and (known := duplicates(summary, others)):
        return _known(known)
    return None


def _transient(summary: str) -> Refusal | None:
    if not TRANSIENT.search(summary):
        return None
    advice = (
        "Not saved: it is only true for the moment. Save what will be true in weeks, with a date instead "
        'of words such as "today".'
    )
    return Refusal("transient", advice)


def _known(items: Sequence[Item]) -> Refusal:
    known = items[0]
    advice = (
        f'Not saved: {known.id} already says it: "{known.summary}". To reword it, save again with '
        f'supersedes="{known.id}".'
    )
    return Refusal("duplicate", advice, tuple(items))


def _contradicts(items: Sequence[Item]) -> Refusal:
    known = items[0]
    advice = (
        f'Not saved: it contradicts {known.id}: "{known.summary}". If it has changed, save again with '
        f'supersedes="{known.id}"; the old one is then kept as history.'
    )
    return Refusal("contradiction", advice, tuple(items))


def _too_many(recent: Sequence[datetime], now: datetime) -> Refusal | None:
    within = sorted(at for at in recent if at > now - SAVES_WITHIN)
    if len(within) < MAX_SAVES:
        return None
    again = within[-MAX_SAVES] + SAVES_WITHIN
    minutes = max(1, round((again - now).total_seconds() / 60))
    advice = (
        f"Not saved: at most {MAX_SAVES} facts per hour can be saved in a session. Try again in {minutes} "
        "minutes, and save only what other conversations need."
    )
    return Refusal("too many", advice)
