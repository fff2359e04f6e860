"""Rows of a store as lines of JSON, and back: the form of exports and journals.

A line is an object. Its `kind` comes first, then the fields of the row's dataclass; a dataclass in that one
is written inline, and a session as `owner` and `session`. How a field is written follows from its type: a
time as ISO 8601, bytes as hexadecimal digits, a tuple as a list. Reading checks every field.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from onlooker.domain.history import ROW_TYPES, Row, UsageRow, kind_of
from onlooker.domain.messages import Message, SessionId

_TIERS = {"note": "session", "item": "cross-session"}
# Fields whose name in a line differs from the dataclass's.
_RENAMED = {(UsageRow, "key"): "session"}
# The time of a message is as its host gave it, with or without a zone. All others have one.
_AS_GIVEN = {(Message, "at")}

_LARGEST = sys.float_info.max

# The numbers of messages, as every store holds them; and what can be counted.
_PLACES = (-(1 << 27), (1 << 27) - 1)
_COUNTS = (0, 1 << 53)
_RANGES = {
    **dict.fromkeys(("seq", "last_seq", "frontier", "watermark", "tail_start", "ended"), _PLACES),
    **dict.fromkeys(("first", "last"), _PLACES),
    **dict.fromkeys(("tokens", "unnoted_tokens", "input_tokens", "output_tokens", "budget"), _COUNTS),
    **dict.fromkeys(("revision", "prompt_version", "failures", "generation", "uses", "changes"), _COUNTS),
}
_MAX_BYTES = 64  # of a hash

T = TypeVar("T")


def to_line(row: Row) -> str:
    """One line, without its end."""
    kind = kind_of(row)
    line: dict[str, Any] = {"kind": kind}
    if kind in _TIERS:
        line["tier"] = _TIERS[kind]
    _write_fields(row, line)
    return dumps(line)


def from_line(text: str) -> Row:
    """The row of a line.

    Raises:
        ValueError: The line is not a row; the message names the field and what it must be.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    kind: Any = found.get("kind") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(kind, str) or kind not in ROW_TYPES:
        raise ValueError("not a row of onlooker's: `kind` is missing or unknown")
    try:
        return _read_fields(ROW_TYPES[kind], found)  # pyright: ignore[reportUnknownArgumentType]
    except _InvalidError as error:
        raise ValueError(f"{kind}: {error}") from None


def dumps(document: Mapping[str, Any]) -> str:
    """JSON on one line, always the same for the same document.

    Text that UTF-8 cannot hold (lone surrogates), or that has other line ends in it, makes the whole line
    ASCII: a reader that splits at every kind of line end must still find one line.
    """
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":"))
    return json.dumps(document, separators=(",", ":")) if len(text.splitlines()) > 1 else text


# ------------------------------------------------------------------------------------ fields


class _InvalidError(ValueError):
    """What is wrong with a value, and where in the line it is."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"`{path}` {problem}")
        self._problem = problem
        self._path = path

    def inside(self, name: str) -> _InvalidError:
        join = "" if not self._path or self._path.startswith("[") else "."
        return _InvalidError(self._problem, f"{name}{join}{self._path}")


class _Codec(NamedTuple):
    """How a value of one type is written and read."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class _Part(NamedTuple):
    """A field of a dataclass. One without a codec is inlined: a session, or another dataclass."""

    name: str
    key: str
    type: Any
    codec: _Codec | None


def _write_fields(value: Any, line: dict[str, Any]) -> None:
    for part in _parts(value.__class__):
        found = getattr(value, part.name)
        if part.codec is not None:
            line[part.key] = part.codec.write(found)
        elif part.type is SessionId:
            line["owner"], line["session"] = found
        else:
            _write_fields(found, line)


def _read_fields(cls: type[T], line: Mapping[str, Any]) -> T:
    return cls(**{part.name: _read_part(part, line) for part in _parts(cls)})


def _read_part(part: _Part, line: Mapping[str, Any]) -> Any:
    if part.codec is not None:
        return _read_key(part.key, part.codec.read, line)
    if part.type is SessionId:
        return SessionId(_read_key("owner", _text, line), _read_key("session", _text, line))
    return _read_fields(part.type, line)


def _read_key(key: str, read: Callable[[Any], Any], line: Mapping[str, Any]) -> Any:
    try:
        return read(line[key])
    except KeyError:
        raise _InvalidError("is missing", key) from None
    except _InvalidError as error:
        raise error.inside(key) from None


@cache
def _parts(cls: type[Any]) -> tuple[_Part, ...]:
    hints = get_type_hints(cls)
    # A field that takes no part in comparisons is not stored either.
    return tuple(_part(cls, field, hints[field.name]) for field in fields(cls) if field.compare)


def _part(cls: type[Any], field: Field[Any], hint: Any) -> _Part:
    key = _RENAMED.get((cls, field.name), field.name)
    if hint is SessionId or is_dataclass(hint):
        return _Part(field.name, key, hint, None)
    codec = _within(*_RANGES[field.name]) if hint is int and field.name in _RANGES else _codec(hint)
    if (cls, field.name) in _AS_GIVEN:
        codec = _optional(_Codec(datetime.isoformat, _time))
    return _Part(field.name, key, hint, codec)


def _codec(hint: Any) -> _Codec:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if is_dataclass(hint):
        return _object(hint)  # pyright: ignore[reportArgumentType]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _Codec(_same, _one_of(args))
    if origin is UnionType and NoneType in args:
        return _optional(_codec(next(arg for arg in args if arg is not NoneType)))
    if origin is tuple and args[-1] is Ellipsis:
        return _list(_codec(args[0]))
    if origin is tuple:
        return _fixed_list([_codec(arg) for arg in args])
    raise TypeError(f"no row may have a field of type {hint}")


# ------------------------------------------------------------------------------------ types


def _same(value: Any) -> Any:
    return value


def _invalid(what: str, value: Any) -> _InvalidError:
    if isinstance(value, list | dict):
        shown = "a list" if isinstance(value, list) else "an object"
    else:
        shown = json.dumps(value)
    return _InvalidError(f"must be {what}, not {shown if len(shown) <= 60 else shown[:59] + '…'}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _invalid("text", value)
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _invalid("an integer", value)
    if not -(1 << 63) <= value < 1 << 63:  # more than any store holds
        raise _invalid("an integer of 64 bits", value)
    return value


def _within(low: int, high: int) -> _Codec:
    def read(value: Any) -> int:
        if not low <= _integer(value) <= high:
            raise _invalid(f"between {low} and {high}", value)
        return value

    return _Codec(_same, read)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= _LARGEST:
        raise _invalid("a number", value)
    return float(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _invalid("true or false", value)
    return value


def _time(value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _invalid("a time in ISO 8601", value) from None


def _moment(value: Any) -> datetime:
    at = _time(value)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _bytes(value: Any) -> bytes:
    try:
        if len(value) <= 2 * _MAX_BYTES:
            return bytes.fromhex(value)
    except (TypeError, ValueError):
        pass
    raise _invalid(f"at most {2 * _MAX_BYTES} hexadecimal digits", value)


def _values(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _invalid("a list", value)
    return value  # pyright: ignore[reportUnknownVariableType]


_PLAIN: dict[Any, _Codec] = {
    str: _Codec(_same, _text),
    int: _Codec(_same, _integer),
    bool: _Codec(_same, _truth),
    float: _Codec(_same, _number),
    bytes: _Codec(bytes.hex, _bytes),
    datetime: _Codec(datetime.isoformat, _moment),
}


def _one_of(allowed: tuple[Any, ...]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value not in allowed:
            raise _invalid(f"one of {', '.join(allowed)}", value)
        return value

    return read


def _optional(codec: _Codec) -> _Codec:
    def write(value: Any) -> Any:
        return None if value is None else codec.write(value)

    def read(value: Any) -> Any:
        return None if value is None else codec.read(value)

    return _Codec(write, read)


def _list(codec: _Codec) -> _Codec:
    def write(values: tuple[Any, ...]) -> list[Any]:
        return [codec.write(value) for value in values]

    def read(values: Any) -> tuple[Any, ...]:
        return tuple(_read_item(codec, n, value) for n, value in enumerate(_values(values)))

    return _Codec(write, read)


def _fixed_list(codecs: list[_Codec]) -> _Codec:
    def write(values: tuple[Any, ...]) -> list[Any]:
        return [codec.write(value) for codec, value in zip(codecs, values, strict=True)]

    def read(values: Any) -> tuple[Any, ...]:
        if len(_values(values)) != len(codecs):
            raise _invalid(f"a list of {len(codecs)}", values)
        both = zip(codecs, values, strict=True)
        return tuple(_read_item(codec, n, value) for n, (codec, value) in enumerate(both))

    return _Codec(write, read)


def _read_item(codec: _Codec, number: int, value: Any) -> Any:
    try:
        return codec.read(value)
    except _InvalidError as error:
        raise error.inside(f"[{number}]") from None


def _object(cls: type[Any]) -> _Codec:
    def write(value: Any) -> dict[str, Any]:
        line: dict[str, Any] = {}
        _write_fields(value, line)
        return line

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _invalid("an object", value)
        return _read_fields(cls, value)  # pyright: ignore[reportUnknownArgumentType]

    return _Codec(write, read)


# ------------------------------------------------------------------------------------ comparing


def digest_of(row: Row) -> bytes:
    return hashlib.blake2b(to_line(row).encode(), digest_size=16).digest()


def pages(sessions: int, size: int) -> Iterator[tuple[str, str]]:
    """Ranges of session hashes with about `size` sessions in each: the hashes are spread evenly."""
    count = max(1, -(-sessions // size))
    edges = [(number << 128) // count for number in range(count + 1)]
    for low, high in pairwise(edges):
        yield f"{low:032x}", f"{high - 1:032x}"


class KnownUsage:
    """The usage that one store knows. Each row is crossed off once.

    A call is recognised by everything but its owner and session, which are gone if the session was deleted.
    """

    def __init__(self) -> None:
        self._left: defaultdict[bytes, Counter[tuple[str, str | None]]] = defaultdict(Counter)

    def add(self, row: UsageRow) -> None:
        self._left[_without_names(row)][row.owner, row.key] += 1

    def cross_off(self, row: UsageRow) -> bool:
        """Whether it was there."""
        return self._cross_off(_without_names(row), row.owner, row.key)

    def knows(self, row: UsageRow) -> bool:
        """Whether the call is there, for anyone."""
        return _without_names(row) in self._left

    def cross_off_renamed(self, row: UsageRow) -> bool:
        """Whether it was there for a session that only one of the two stores still has."""
        call = _without_names(row)
        for owner, key in self._left.get(call, ()):
            here, there = (row.owner, row.key), (owner, key)
            if (_lost(here, there) or _lost(there, here)) and self._cross_off(call, owner, key):
                return True
        return False

    def _cross_off(self, call: bytes, owner: str, key: str | None) -> bool:
        names = self._left.get(call)
        if names is None or not names[owner, key]:
            return False
        names[owner, key] -= 1
        return True


def _lost(name: tuple[str, str | None], before: tuple[str, str | None]) -> bool:
    return name[1] is None and name[0] in (before[0], "")


def _without_names(row: UsageRow) -> bytes:
    return digest_of(replace(row, owner="", key=None))
