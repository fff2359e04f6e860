"""Whether a value of a user's own type says only what was said.

A number, date, time, path or id in it that the messages do not hold refuses the whole value, as it would a
note. What a model may well work out is no invention: a date from "last Friday", 0.25 from "25%", 1240.5
from "€1,240.50". Words are for the type itself to check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from onlooker.domain.messages import Message
from onlooker.domain.notes import Extractor, Schema
from onlooker.policy.dates import resolve
from onlooker.policy.text import CJK_CHARACTER
from onlooker.policy.values import MASK, invented, mask

# -- The block of JSON after a note, with values of users' own types

# missing: there was no block; unparseable: it is not the JSON that was asked for; too long: more than
# anyone says in a chunk of conversation.
BlockProblem = Literal["missing", "unparseable", "too long"]

_FENCED = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+)[ \t]*(?:json\w*)?[ \t]*\n"
    r"(?P<body>\s*(?:\{|\[\s*[{\]]).*?)(?:^[ \t]*(?P<closed>(?P=fence))[ \t]*$|\Z)",
    re.M | re.S | re.I,
)
_LABEL = re.compile(r"\n?^[ \t>#*_-]*(?:json|records?|extracted(?: \w+)?)?[ \t*_:：-]*\Z", re.M | re.I)
_MOST_CHARACTERS = 100_000
MOST_RECORDS = 100


@dataclass(frozen=True, slots=True)
class Block:
    """What a block holds: type and value of each record, or why it cannot be read.

    `unclosed` says that the answer ended inside it, so that what stands before it is whole.
    """

    records: tuple[tuple[str, dict[str, Any]], ...] = ()
    problem: BlockProblem | None = None
    detail: str = ""
    unclosed: bool = field(default=False, compare=False)


def take_block(reply: str, types: Sequence[str]) -> tuple[str, Block]:
    """The reply without its block, and the block."""
    found = _find(reply, types)
    if found is None:
        return reply, Block(problem="missing")
    start, end, body, unclosed = found
    rest = _LABEL.sub("", reply[:start].rstrip()) + "\n" + reply[end:]
    return rest.strip("\n"), _read(body, types, unclosed)


def _find(reply: str, types: Sequence[str]) -> tuple[int, int, str, bool] | None:
    """Where the block begins and ends, what is inside, and whether the answer ends there too."""
    if fenced := list(_FENCED.finditer(reply)):
        found = fenced[-1]
        return found.start(), found.end(), found["body"], found["closed"] is None
    # Without a fence: no line of a note begins with the name of a type in quotes and braces.
    names = "|".join(map(re.escape, types))
    bare = re.search(rf'^(?:\{{\s*"(?:{names})"\s*:|\[\s*\{{\s*"|\{{\s*\}}\s*$)', reply, re.M)
    if bare is None:
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(reply, bare.start())
    except (ValueError, RecursionError):
        end = len(reply)
    return bare.start(), end, reply[bare.start() : end], end == len(reply)


def _read(body: str, types: Sequence[str], unclosed: bool) -> Block:
    if len(body) > _MOST_CHARACTERS:
        return Block(problem="too long", detail=f"{len(body)} characters", unclosed=unclosed)
    try:
        found: Any = json.loads(body, parse_constant=_refuse)
        records = tuple(_records(found, types))
    except (ValueError, RecursionError) as error:
        return Block(problem="unparseable", detail=str(error)[:200], unclosed=unclosed)
    if len(records) > MOST_RECORDS:
        return Block(problem="too long", detail=f"{len(records)} values", unclosed=unclosed)
    return Block(records, unclosed=unclosed)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _records(found: Any, types: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(found, dict):
        by_type = cast("dict[str, Any]", found)
    elif isinstance(found, list) and len(types) == 1:
        by_type: dict[str, Any] = {types[0]: cast("list[Any]", found)}
    else:
        raise ValueError("not an object with a list for each type")
    if len(types) == 1 and types[0] not in by_type and by_type:
        by_type = {types[0]: by_type}  # the value itself, where there is one type
    for name, values in by_type.items():
        if name not in types:
            raise ValueError(f"no type {name[:80]!r}")
        each = cast("list[Any]", values if isinstance(values, list) else [] if values is None else [values])
        for value in each:
            if not isinstance(value, dict):
                raise ValueError(f"a value of {name} is no object")
            yield name, cast("dict[str, Any]", value)


# -- Whether a value of a user's own type says only what was said

_NUMBER = re.compile(r"\d{1,3}(?: \d{3})+(?!\d)|\d+(?:[.,']\d+)*")
_TIMES = {
    "%": 0.01,
    "k": 1e3,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "千": 1e3,
    "万": 1e4,
    "億": 1e8,
    "亿": 1e8,
}
_SCALE = re.compile(rf"\s?({'|'.join(_TIMES)})(?![a-z])", re.I)
_CLOCK = re.compile(
    r"(?<![\d:])(\d{1,2})(?:[:.h](\d\d))?\s?(?:([ap])\.?m\b)|(?<![\d:])(\d{1,2}):(\d\d)", re.I
)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?$")
_SPELLED = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
# No more than "a cake" and "no sugar" say.
_PLAIN = (0, 1)
_SHORT = 3  # characters: a shorter word says little about where it came from


# ------------------------------------------------------------------------------------ the types


def schema_of(extractor: type[Extractor]) -> Schema:
    """The type as a model is told of it, without the titles that repeat the names."""
    schema = _untitled(extractor.model_json_schema())
    return Schema(extractor.__name__, json.dumps(schema, ensure_ascii=False, separators=(",", ":")))


def _untitled(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_untitled(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    # A property may be called "title": then it is an object, not a text.
    items = cast("dict[str, Any]", schema).items()
    return {key: _untitled(part) for key, part in items if key != "title" or not isinstance(part, str)}


# ------------------------------------------------------------------------------------ the values


def masked(value: Any, key: str = "") -> Any:
    """The value without secrets, also where only the field's name says that it is one."""
    if isinstance(value, dict):
        return {k: masked(v, k) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [masked(v, key) for v in cast("list[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    text = str(value)
    if MASK in mask(text):
        return mask(text)
    return MASK if MASK in mask(f"{key}: {text}") else value


def leaves(value: Any) -> Iterator[str | int | float]:
    """Every text and number in it."""
    if isinstance(value, Mapping):
        for part in cast("Mapping[str, Any]", value).values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in cast("list[Any]", value):
            yield from leaves(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def came_from(value: Mapping[str, Any], messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages that hold any of its words; where none does, all of them."""
    words = {str(leaf).casefold() for leaf in leaves(value)}
    words = {word for word in words if len(word) >= _SHORT or CJK_CHARACTER.match(word)}
    texts = [_text(message).casefold() for message in messages]
    holding = [m for m, text in zip(messages, texts, strict=True) if any(word in text for word in words)]
    return tuple(holding or messages)


def _text(message: Message) -> str:
    return "\n".join((message.body, *(call.arguments for call in message.calls)))


@dataclass(frozen=True)
class Said:
    """What messages hold, to compare values with."""

    messages: tuple[Message, ...]

    @cached_property
    def text(self) -> str:
        return "\n".join(map(_text, self.messages))

    def unsaid(self, value: Mapping[str, Any]) -> list[str]:
        """Numbers, dates, paths and ids of a value that the messages do not hold."""
        found: list[str] = []
        for leaf in leaves(value):
            if isinstance(leaf, str):
                found += self._unsaid_text(leaf)
            elif not self._holds_number(leaf):
                found.append(str(leaf))
        return list(dict.fromkeys(found))

    def _unsaid_text(self, leaf: str) -> list[str]:
        if iso := _ISO.match(leaf.strip()):
            day, time = iso.groups()
            known = day in self._days and (time is None or time == "00:00" or time in self._times)
            return [] if known or leaf in self.text else [leaf]
        return [v for v in invented(leaf, self.text) if v not in self._days and v not in self._times]

    def _holds_number(self, number: int | float) -> bool:
        if number in _PLAIN or abs(number) in self._numbers:
            return True
        return number in range(len(_SPELLED)) and bool(
            re.search(rf"\b{_SPELLED[int(number)]}\b", self.text, re.I)
        )

    @cached_property
    def _numbers(self) -> frozenset[float]:
        numbers: set[float] = set()
        for found in _NUMBER.finditer(self.text):
            read = set(_readings(found[0]))
            scale = _SCALE.match(self.text, found.end())
            factor = _TIMES[scale[1].lower()] if scale else 1.0
            numbers |= read | {round(number * factor, 9) for number in read}
        return frozenset(numbers)

    @cached_property
    def _days(self) -> frozenset[str]:
        """Days that were named, that something was said on, or that relative words mean."""
        days = set(re.findall(r"\d{4}-\d\d-\d\d", self.text))
        for message in self.messages:
            if message.at is not None:
                days.add(message.at.date().isoformat())
                days |= {day for span in resolve(message.body, message.at) for day in _days_of(span.iso)}
        return frozenset(days)

    @cached_property
    def _times(self) -> frozenset[str]:
        times = {f"{m.at:%H:%M}" for m in self.messages if m.at is not None}
        for found in _CLOCK.finditer(self.text):
            hour, minute = int(found[1] or found[4]), int(found[2] or found[5] or 0)
            if found[3]:
                hour = hour % 12 + (12 if found[3].lower() == "p" else 0)
            times.add(f"{hour:02}:{minute:02}")
        return frozenset(times)


def _days_of(iso: str) -> Iterator[str]:
    """The days of 2026-02-09 or 2026-02-14/15."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d(?:/\d\d)?", iso):
        yield iso[:10]
        if "/" in iso:
            yield iso[:8] + iso[11:]


def _readings(text: str) -> Iterator[float]:
    """A number as both conventions would read it: 1,240.50 and 1.240,50."""
    bare = re.sub(r"[' ]", "", text)
    for group, point in ((",", "."), (".", ",")):
        try:
            yield float(bare.replace(group, "").replace(point, "."))
        except ValueError:
            continue
