"""The block of JSON after a note, with values of users' own types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

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
