"""Every function that reads text, found by walking the modules, with arguments made from their types.

A new function is found without being named here. If its arguments cannot be made, the walk says so.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import importlib
import inspect
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, tzinfo
from pathlib import Path
from typing import Any, cast

import onlooker
from onlooker.domain.items import Item
from onlooker.domain.messages import Message, SessionId, ToolCall
from onlooker.domain.notes import Note, Progress, State
from onlooker.files.folder import Folder
from onlooker.policy.assemble import Counting
from onlooker.policy.items.statements import KINDS, Kind
from onlooker.policy.origins import Part
from onlooker.policy.reply.evidence import Evidence
from onlooker.policy.settings import preset
from onlooker.policy.tokens import Calibration, estimate, estimator
from onlooker.ports import ObserveRequest, ReflectRequest

CALLABLE: Any = collections.abc.Callable  # pyright: ignore
NOW = datetime(2026, 2, 16, 12, tzinfo=UTC)
SESSION = SessionId("ana", "k")

# The layers that parse. The others wait, store and send; a test of whole turns is about them.
PARSERS = ("domain", "policy", "files", "models.extractive")

# Each shape is repeated to the length that is asked for, and then ends in something that may make a pattern
# begin again.
SHAPES: dict[str, tuple[str, str]] = {
    "prose": ("The quick brown fox jumps over the lazy dog near the river bank. ", ""),
    "dashes": ("-", "://"),
    "dots": (".", " A"),
    "dotted": ("a.", "://"),
    "spaces": (" ", "x"),
    "lines": ("\n", "x"),
    "tabbed": (" \t\n", "x"),
    "one word": ("a", "!"),
    "digits": ("1,", "x"),
    "spaced digits": ("4 ", "x"),
    "at signs": ("a@a.", "!"),
    "token": ("eyJaaaaaaaa-", "!"),
    "password": ("password is ", ""),
    "private key": ("-----BEGIN A PRIVATE KEY-----", ""),
    "names": ("Aa_b-1.", "@"),
    "quotes": ("\"a 'b `c \u201cd ", ""),
    "brackets": ('[{"a":(<', ""),
    "markdown": ("- **a\n## b\n```\n| c [d](", ""),
    "speakers": ("user: I am a; and my b is c, ", ""),
    "no space": ("中文。、", "！"),
}


def shaped(shape: str, size: int) -> str:
    """A text of this shape and size."""
    part, end = SHAPES[shape]
    return (part * (size // len(part) + 1))[: size - len(end)] + end


@dataclasses.dataclass(frozen=True)
class Reader:
    """One function that reads text, and how its arguments are made of a text."""

    name: str
    call: Callable[..., object]
    hints: Mapping[str, Any]

    def read(self, text: str) -> object:
        arguments = {name: made(hint, text, name) for name, hint in self.hints.items()}
        parameters = inspect.signature(self.call).parameters
        by_place = [n for n, p in parameters.items() if n in arguments and p.kind <= p.VAR_POSITIONAL]
        given = [arguments.pop(name) for name in by_place]
        result: Any = self.call(*given, **arguments)
        return list(result) if isinstance(result, Iterator) else result  # pyright: ignore


class Unmakeable(Exception):
    """Nobody has said how a value of this type is made."""


def _message(text: str) -> Message:
    return Message("user", text, "1", NOW, seq=1, tokens=max(1, len(text) // 4))


def _note(text: str) -> Note:
    return Note("n", 0, 1, 1, text, max(1, len(text) // 4), NOW, ("1",))


def _item(text: str) -> Item:
    return Item("ana", "i", "profile", text, NOW, session="k")


def _state(text: str) -> State:
    progress = Progress(SESSION, last_seq=2, frontier=1, watermark=1, tail_start=2)
    return State(
        progress, (_note(text),), (dataclasses.replace(_message(text), seq=2),), items=(_item(text),)
    )


MAKERS: dict[Any, Callable[[str], object]] = {
    str: lambda text: text,
    bytes: lambda text: text.encode(),
    object: lambda text: {"role": "user", "content": text},
    Any: lambda text: text,
    int: lambda _: 1_000,
    float: lambda _: 1.0,
    bool: lambda _: False,
    date: lambda _: NOW.date(),
    time: lambda _: NOW.time(),
    datetime: lambda _: NOW,
    tzinfo: lambda _: UTC,
    Message: _message,
    Note: _note,
    Item: _item,
    State: _state,
    SessionId: lambda _: SESSION,
    ToolCall: lambda text: ToolCall("c", "f", '{"q": "' + text.replace("\n", " ").replace('"', "'") + '"}'),
    ObserveRequest: lambda text: ObserveRequest(SESSION, (_message(text),), (_note(text),), 1_000),
    ReflectRequest: lambda text: ReflectRequest(SESSION, (_note(text),), 1, 1_000),
    type(preset("default")): lambda _: preset("default"),
    Kind: lambda _: KINDS[0],
    Counting: lambda _: Counting(estimator(), Calibration()),
    Part: lambda text: Part("tool", "tool", text),
    Evidence: lambda text: Evidence(text, NOW.date(), text),
    re.Pattern: lambda _: re.compile("a"),
}
# What takes one of these opens files or waits.
FILES = (Path, Folder, collections.abc.AsyncIterator)
# Arguments that are a choice of ours, and never what somebody wrote.
CHOICES: dict[str, object] = {
    "format": "lines", "where": "here", "key": "text", "kind": "obs", "unit": "day", "encoding": "o200k_base",
    "rewind": "auto", "pattern": "a", "finish": "stop", "role": "user",
}  # fmt: skip


def made(hint: Any, text: str, name: str = "") -> Any:
    """A value of this type that holds the text."""
    if name in CHOICES and hint is not Kind and Kind not in typing.get_args(hint):
        return CHOICES[name]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is object and name in ("history", "items", "content"):
        return [{"role": "user", "content": text, "type": "text", "text": text}]
    if hint in MAKERS:
        return MAKERS[hint](text)
    if origin in MAKERS:
        return MAKERS[origin](text)
    if origin is typing.Literal:
        return arguments[0]
    if origin in (typing.Union, types.UnionType):
        return made(arguments[0], text)
    if origin is CALLABLE:
        return _function(hint)
    if origin is tuple:
        parts = arguments[:1] if arguments[1:] == (...,) else arguments
        return tuple(made(part, text) for part in parts)
    if origin in (set, frozenset):
        return cast("Any", origin)({made(arguments[0], text)})
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return {made(arguments[0], text): made(arguments[1], text)}
    if isinstance(origin, type) and issubclass(list, origin):
        return [made(arguments[0], text)]
    if dataclasses.is_dataclass(hint):
        return _record(hint, text)
    raise Unmakeable(str(hint))


def _record(cls: Any, text: str) -> object:
    hints = typing.get_type_hints(cls)
    fields = [f for f in dataclasses.fields(cls) if f.init]
    return cls(**{f.name: made(hints[f.name], text, f.name) for f in fields})


def _function(hint: Any) -> Callable[..., object]:
    result = typing.get_args(hint)[1]
    if result is int:
        return estimate
    answer: object = {bool: False, str: "x"}.get(result, ())
    return lambda *_: answer


def reads_text(hint: Any) -> bool:
    """Whether a value of this type holds something that somebody wrote."""
    if hint in (str, bytes, object, Any) or hint in (Message, Note, Item, State, ToolCall, ObserveRequest):
        return True
    if typing.get_origin(hint) in (CALLABLE, typing.Literal):
        return False
    if dataclasses.is_dataclass(hint):
        return any(map(reads_text, typing.get_type_hints(hint).values()))
    return any(map(reads_text, typing.get_args(hint)))


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function of the modules that parse, by its name."""
    for module in pkgutil.walk_packages(onlooker.__path__, "onlooker."):
        if not module.name.removeprefix("onlooker.").startswith(PARSERS):
            continue
        for name, found in list(vars(importlib.import_module(module.name)).items()):
            is_own = inspect.isfunction(found) and found.__module__ == module.name
            if is_own and not name.startswith("_") and not inspect.iscoroutinefunction(found):
                yield f"{module.name.removeprefix('onlooker.')}.{name}", found


def readers() -> Iterator[Reader]:
    """Every function that reads text."""
    for name, function in functions():
        if name.startswith("policy.search.vectors."):  # numbers, with types that cannot be looked up
            continue
        hints = {k: v for k, v in typing.get_type_hints(function).items() if k != "return"}
        if any(hint in FILES or typing.get_origin(hint) in FILES for hint in hints.values()):
            continue
        if any(reads_text(hint) for key, hint in hints.items() if key not in CHOICES):
            yield Reader(name, function, hints)
