"""Values of users' own types, read from the block of JSON after a note.

A number, date, time, path or id that the messages do not contain rejects the whole value, as it would a
note. What a model can work out is not invented: a date from "last Friday", 0.25 from "25%", 1240.5 from
"€1,240.50". Words are for the type itself to check.

This module is loaded only if extractors are given, because it compiles many patterns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Literal, cast

from onlooker.domain.errors import SettingsError
from onlooker.domain.events import ExtractionRejected
from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import Extraction, Extractor, Schema
from onlooker.policy.render import text_lines
from onlooker.policy.reply.evidence import Evidence
from onlooker.policy.secrets import MASK, mask
from onlooker.policy.text import CJK_CHARACTER, regex

# -- The extractors

# Characters of all schemas together, since they are sent with every chunk.
MAX_SCHEMAS_LENGTH = 8_000
_MAX_DETAIL_LENGTH = 300
_WANTED = "must be classes with `model_json_schema` and `model_validate`, such as Pydantic models"


@frozen
class Extractors:
    """The types whose values a model is asked for."""

    types: tuple[type[Extractor], ...]
    schemas: tuple[Schema, ...]

    @classmethod
    def of(cls, types: Sequence[type[Extractor]]) -> Extractors:
        """Check the types and describe them for a model.

        Raises:
            SettingsError: One is not such a class, two have the same name, or the schemas are too long.
        """
        for extractor in types:
            methods = (getattr(extractor, name, None) for name in ("model_json_schema", "model_validate"))
            if not isinstance(extractor, type) or not all(map(callable, methods)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise SettingsError("extractors", extractor, _WANTED)
        names = [extractor.__name__ for extractor in types]
        if len(set(names)) < len(names):
            raise SettingsError("extractors", names, "must have different names")
        schemas = tuple(map(schema_of, types))
        if (length := sum(len(schema.text) for schema in schemas)) > MAX_SCHEMAS_LENGTH:
            allowed = (
                f"must have JSON Schemas of at most {MAX_SCHEMAS_LENGTH} characters together, not {length}"
            )
            raise SettingsError("extractors", names, allowed)
        return cls(tuple(types), schemas)

    @property
    def names(self) -> list[str]:
        return [schema.name for schema in self.schemas]

    def extract(
        self, block: Block, session: SessionId, messages: Sequence[Message], now: datetime
    ) -> Iterator[Extraction | ExtractionRejected]:
        """Yield each distinct value of a block, or why it is rejected. The note's id is not known yet."""
        if block.problem:
            yield ExtractionRejected(session, "", block.problem, block.detail)
        at = messages[0].at if messages else None
        evidence = Evidence(text_lines(messages), at.date() if at else None)
        seen: set[tuple[str, str]] = set()
        for name, raw in block.records:
            value = mask_value(raw)
            text = json.dumps(value, ensure_ascii=False)
            if (name, text) in seen:
                continue
            seen.add((name, text))
            if problem := self._problem(name, value, evidence):
                yield ExtractionRejected(session, name, *problem)
                continue
            sources = find_sources(value, messages)
            seqs = tuple(dict.fromkeys(message.seq for message in sources))
            yield Extraction(name, text, "", session, seqs, sources[0].at or now, now)

    def _problem(self, name: str, value: dict[str, Any], evidence: Evidence) -> tuple[str, str] | None:
        """Return why a value is rejected, and the detail; None if it is accepted."""
        if made_up := invented(value, evidence):
            return "invented values", ", ".join(made_up[:5])[:_MAX_DETAIL_LENGTH]
        extractor = next(e for e in self.types if e.__name__ == name)
        try:
            extractor.model_validate(value)
        except Exception as error:  # noqa: BLE001  a user's own class may raise anything
            return "invalid", f"{error}"[:_MAX_DETAIL_LENGTH]
        return None


def schema_of(extractor: type[Extractor]) -> Schema:
    """Describe a type for a model, without the titles that only repeat names."""
    schema = _untitled(extractor.model_json_schema())
    return Schema(extractor.__name__, json.dumps(schema, ensure_ascii=False, separators=(",", ":")))


def _untitled(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_untitled(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    # A property named "title" is an object, not a string.
    items = cast("dict[str, Any]", schema).items()
    return {key: _untitled(part) for key, part in items if key != "title" or not isinstance(part, str)}


# -- The block of JSON

# missing: there is no block. unparseable: it is not the requested JSON. too long: more than a chunk of
# conversation can contain.
BlockProblem = Literal["missing", "unparseable", "too long"]

_FENCED = regex(
    r"^[ \t]*(?P<fence>```+|~~~+)[ \t]*(?:json\w*)?[ \t]*\n"
    r"(?P<body>\s*(?:\{|\[\s*[{\]]).*?)(?:^[ \t]*(?P<closed>(?P=fence))[ \t]*$|\Z)",
    re.M | re.S | re.I,
)
_LABEL = regex(r"\n?^[ \t>#*_-]*(?:json|records?|extracted(?: \w+)?)?[ \t*_:：-]*\Z", re.M | re.I)
_MAX_CHARACTERS = 100_000
MAX_RECORDS = 100


@frozen
class Block:
    """The records of a block as pairs of type and value, or why it cannot be read.

    `unclosed` says that the reply ended inside the block, so that the note before it is complete.
    """

    records: tuple[tuple[str, dict[str, Any]], ...] = ()
    problem: BlockProblem | None = None
    detail: str = ""
    unclosed: bool = field(default=False, compare=False)


def split_block(reply: str, types: Sequence[str]) -> tuple[str, Block]:
    """Split a reply into the note and its block."""
    found = _find(reply, types)
    if found is None:
        return reply, Block(problem="missing")
    start, end, body, unclosed = found
    rest = _LABEL.sub("", reply[:start].rstrip()) + "\n" + reply[end:]
    return rest.strip("\n"), _read(body, types, unclosed)


def _find(reply: str, types: Sequence[str]) -> tuple[int, int, str, bool] | None:
    """Find the block: its start, its end, its body, and whether the reply ends inside it."""
    if fenced := list(_FENCED.finditer(reply)):
        found = fenced[-1]
        return found.start(), found.end(), found["body"], found["closed"] is None
    # Without a fence: no line of a note begins with a brace and the quoted name of a type.
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
    if len(body) > _MAX_CHARACTERS:
        return Block(problem="too long", detail=f"{len(body)} characters", unclosed=unclosed)
    try:
        found: Any = json.loads(body, parse_constant=_reject_constant)
        records = tuple(_records(found, types))
    except (ValueError, RecursionError) as error:
        return Block(problem="unparseable", detail=str(error)[:200], unclosed=unclosed)
    if len(records) > MAX_RECORDS:
        return Block(problem="too long", detail=f"{len(records)} values", unclosed=unclosed)
    return Block(records, unclosed=unclosed)


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _records(found: Any, types: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(found, dict):
        by_type = cast("dict[str, Any]", found)
    elif isinstance(found, list) and len(types) == 1:
        by_type: dict[str, Any] = {types[0]: cast("list[Any]", found)}
    else:
        raise ValueError("must be an object with a list for each type")
    if len(types) == 1 and types[0] not in by_type and by_type:
        by_type = {types[0]: by_type}  # with one type, the value may stand alone
    for name, values in by_type.items():
        if name not in types:
            raise ValueError(f"unknown type {name[:80]!r}")
        each = cast("list[Any]", values if isinstance(values, list) else [] if values is None else [values])
        for value in each:
            if not isinstance(value, dict):
                raise ValueError(f"a value of {name} must be an object")
            yield name, cast("dict[str, Any]", value)


# -- Checking values against the messages


def mask_value(value: Any, key: str = "") -> Any:
    """Mask secrets in a value, including those that only the field's name gives away."""
    if isinstance(value, dict):
        return {k: mask_value(v, k) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [mask_value(v, key) for v in cast("list[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    text = str(value)
    if MASK in mask(text):
        return mask(text)
    return MASK if MASK in mask(f"{key}: {text}") else value


def leaves(value: Any) -> Iterator[str | int | float]:
    """Yield every string and number in a value."""
    if isinstance(value, Mapping):
        for part in cast("Mapping[str, Any]", value).values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in cast("list[Any]", value):
            yield from leaves(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


_SHORT = 3  # characters; a shorter word says little about its source


def find_sources(value: Mapping[str, Any], messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages that contain any of the value's words, or all if none does."""
    words = {str(leaf).casefold() for leaf in leaves(value)}
    words = {word for word in words if len(word) >= _SHORT or CJK_CHARACTER.match(word)}
    texts = [_text(message).casefold() for message in messages]
    holding = [m for m, text in zip(messages, texts, strict=True) if any(word in text for word in words)]
    return tuple(holding or messages)


def _text(message: Message) -> str:
    return "\n".join((message.body, *(call.arguments for call in message.calls)))


_ISO = regex(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?$")
# "A cake" and "no sugar" imply these.
_PLAIN = (0, 1)


def invented(value: Mapping[str, Any], evidence: Evidence) -> list[str]:
    """Return the numbers, dates, paths and ids of a value that the messages neither contain nor imply."""
    found: list[str] = []
    for leaf in leaves(value):
        if isinstance(leaf, str):
            found += _invented_in(leaf, evidence)
        elif leaf not in _PLAIN and not evidence.has_number(leaf):
            found.append(str(leaf))
    return list(dict.fromkeys(found))


def _invented_in(leaf: str, evidence: Evidence) -> list[str]:
    if iso := _ISO.match(leaf.strip()):
        day, time = iso.groups()
        known = evidence.has_day(day) and (time in (None, "00:00") or evidence.has_time(time))
        return [] if known else [leaf]
    return [made_up.text for made_up in evidence.invented(leaf, names=False)]
