"""Read messages from a host: Onlooker's own, OpenAI chat messages, or Anthropic messages.

What SDKs return comes in as well: their objects, and items of OpenAI's Responses API. `as_items` and
`as_history` make chat messages of them, so that everything behind reads one form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any, cast, get_args

from onlooker.domain.errors import MessageError
from onlooker.domain.messages import Message, MessageLike, Role, ToolCall, is_real
from onlooker.policy.text import as_name, regex, seen

# -- Messages built by hand


def user(text: str, *, name: str = "", id: str = "", at: datetime | None = None) -> Message:
    """A message from the user."""
    return Message("user", text, id=id, at=at, name=name)


def assistant(
    text: str = "",
    *,
    calls: Iterable[ToolCall] = (),
    name: str = "",
    id: str = "",
    at: datetime | None = None,
) -> Message:
    """A message from the agent, with the tool calls it made."""
    return Message("assistant", text, id=id, at=at, name=name, calls=tuple(calls))


def system(text: str, *, id: str = "", at: datetime | None = None) -> Message:
    """An instruction from the application."""
    return Message("system", text, id=id, at=at)


def tool(text: str, *, answers: str, name: str = "", id: str = "", at: datetime | None = None) -> Message:
    """A tool's result for the call with the id `answers`."""
    return Message("tool", text, id=id, at=at, name=name, answers=answers)


# -- Arguments of `record` and `prepare`

_RIGHT_CALL = (
    'record(onlooker.user("Hi")), record({"role": "user", "content": "Hi"}) or a list of such messages'
)
_RIGHT_HISTORY = 'prepare([{"role": "user", "content": "Hi"}])'
# What a whole answer of an SDK has, and the part of it that is the message.
_ANSWERS = {"choices": "its message: reply.choices[0].message", "output": "its items: response.output"}


def as_items(given: Sequence[object]) -> list[MessageLike]:
    """The messages that a caller of `record` passed, each as an argument or in a list.

    Raises:
        MessageError: An argument is neither. The error shows the right call.
    """
    items: list[object] = []
    for argument in given:
        if isinstance(argument, str | bytes):
            raise wrong("record", argument, _RIGHT_CALL)
        if isinstance(argument, Message) or as_mapping(argument) is not None:
            items.append(argument)
            continue
        try:
            items.extend(cast("Iterable[object]", argument))
        except TypeError:
            raise wrong("record", argument, _RIGHT_CALL) from None
    return as_chat(items, right=_RIGHT_CALL)


def as_history(history: object) -> list[MessageLike]:
    """The history that a caller of `prepare` passed, as chat messages.

    Raises:
        MessageError: It is not a list of messages. The error shows the right call.
    """
    return as_chat(history_items(history))


def history_items(history: object) -> list[object]:
    """The items of the history that a caller of `prepare` passed, whatever they are.

    Raises:
        MessageError: It is not a list. The error shows the right call.
    """
    if isinstance(history, str | bytes | Message) or as_mapping(history) is not None:
        raise wrong("prepare", history, _RIGHT_HISTORY)
    try:
        return list(cast("Iterable[object]", history))
    except TypeError:
        raise wrong("prepare", history, _RIGHT_HISTORY) from None


def as_chat(items: Sequence[object], *, first: int = 0, right: str = _RIGHT_HISTORY) -> list[MessageLike]:
    """Make chat messages of SDKs' objects, and of runs of items of the Responses API. In an error, the items
    are numbered from `first`, and `right` is the right call."""
    # A long history is plain chat messages: 50 ns each.
    if not [item for item in items if type(item) is not dict or "role" not in item or "type" in item]:
        return cast("list[MessageLike]", list(items))
    return [message for _, message in placed_chat(items, first=first, right=right)]


def placed_chat(
    items: Sequence[object], *, first: int = 0, right: str = _RIGHT_HISTORY
) -> list[tuple[int, MessageLike]]:
    """The same, each with the number of the item that it begins with."""
    out: list[tuple[int, MessageLike]] = []
    run: _ResponseRun | None = None
    for i, item in enumerate(items, first):
        # A plain chat message is most of a long history.
        if isinstance(item, Message) or _is_chat_message(item):
            out.append((i, cast("MessageLike", item)))
            run = None
            continue
        source = as_mapping(item)
        if source is None:
            raise wrong(f"messages[{i}]", item, right)
        answer = next((part for key, part in _ANSWERS.items() if isinstance(source.get(key), list)), None)
        if answer and "role" not in source and "call_id" not in source:
            raise wrong(f"messages[{i}]", item, answer)
        kind, role = source.get("type"), source.get("role")
        # Only an answer has both: a type of the host's own beside a role says nothing.
        if not isinstance(kind, str) or (role is not None and (kind, role) != ("message", "assistant")):
            out.append((i, _chat_message(source)))
            run = None
        elif kind.endswith("_output"):
            out.append((i, _response_result(source)))
            run = None
        elif kind != "reasoning":  # a model's thinking is not part of the conversation
            if run is None:
                run = _ResponseRun()
                out.append((i, run.message))
            run.add(kind, source)
    return out


def _is_chat_message(item: object) -> bool:
    if type(item) is not dict:
        return False
    keys = cast("dict[str, Any]", item)
    return "role" in keys and "type" not in keys


# Keys of a reply that a provider does not take back in a request. An id there is the provider's, and the
# host may send the same message without it.
_REPLY_KEYS = frozenset(
    {"type", "id", "status", "phase", "model", "stop_reason", "stop_sequence", "stop_details", "usage"}
    | {"container", "context_management", "annotations", "parsed"}
)


def _chat_message(source: Mapping[str, Any]) -> Mapping[str, Any]:
    drop = _REPLY_KEYS if source.get("type") == "message" else {"annotations", "parsed"}
    return _without_objects({k: v for k, v in source.items() if k not in drop})


def _chat_block(block: object) -> object:
    """A content block of the Responses API as one of a chat message; any other as it is."""
    source = as_mapping(block)
    if source is None:
        return block
    match source.get("type"):
        case "input_text" | "output_text":
            return {"type": "text", "text": source.get("text")}
        case "input_image" if isinstance(source.get("image_url"), str):
            return {"type": "image_url", "image_url": {"url": source["image_url"]}}
        case "input_file":
            return {"type": "file", "file": {k: v for k, v in source.items() if k != "type"}}
        case _:
            return source


def _without_objects(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message whose blocks and calls are mappings: hosts put an SDK's objects into their own messages."""
    content, calls = source.get("content"), source.get("tool_calls")
    changed: dict[str, Any] = {}
    if isinstance(content, list | tuple):
        blocks = cast("Sequence[object]", content)
        chat = [_chat_block(block) for block in blocks]
        if any(a is not b for a, b in zip(blocks, chat, strict=True)):
            changed["content"] = chat
    if isinstance(calls, list | tuple) and not all(
        isinstance(c, Mapping) for c in cast("Sequence[object]", calls)
    ):
        changed["tool_calls"] = [as_mapping(c) or c for c in cast("Sequence[object]", calls)]
    return {**source, **changed} if changed else source


def _response_result(source: Mapping[str, Any]) -> Mapping[str, Any]:
    output = source.get("output")
    content = (
        [_chat_block(b) for b in cast("Sequence[object]", output)]
        if isinstance(output, list | tuple)
        else output
        if output is None or isinstance(output, str)
        else _canonical(output, "output")
    )
    return {"role": "tool", "tool_call_id": source.get("call_id"), "content": content}


class _ResponseRun:
    """What an agent said and called between two inputs: items of the Responses API, one chat message."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {"role": "assistant", "content": None}

    def add(self, kind: str, source: Mapping[str, Any]) -> None:
        if kind == "message":
            content: Any = _chat_message(source).get("content")
            is_text = content is None or isinstance(content, str)
            self._say([{"type": "text", "text": content or ""}] if is_text else content)
        elif isinstance(source.get("call_id"), str):
            arguments = next((source[k] for k in ("arguments", "input", "action") if k in source), None)
            function = {"name": source.get("name") or kind, "arguments": _canonical(arguments, "arguments")}
            call = {"id": source["call_id"], "type": "function", "function": function}
            self.message.setdefault("tool_calls", []).append(call)
        else:
            # A tool of the provider's, whose result is in what the model says.
            self._say([{"type": "text", "text": f"[{_short(kind)}]"}])

    def _say(self, blocks: Any) -> None:
        self.message["content"] = [*(self.message["content"] or ()), *blocks_of(blocks, "content")]


# -- Messages from a host

_OUR_ROLES: tuple[Role, ...] = get_args(Role)
_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "developer": "system",
    "function": "tool",
}
_ALLOWED = "an onlooker Message, an OpenAI chat message or an Anthropic message"
# A larger number of seconds since 1970 is taken as milliseconds.
_LATEST_SECONDS = 1e11


def intake(item: object, *, at: datetime, tz: tzinfo) -> tuple[Message, ...]:
    """Read one item of a host's history.

    It is one message, except that each tool result in an Anthropic user message becomes a message of its
    own. A time without a zone is in `tz`. A message gets `at` if it has no time, or one that is a
    placeholder, such as Go's zero time.

    Raises:
        MessageError: It is not a message. The error says where, what was found and what is allowed.
    """
    if isinstance(item, Message):
        return (_check(item, at, tz),)
    given = as_mapping(item)
    if given is None:
        raise wrong("message", item, _ALLOWED)
    source = _without_objects(given)
    found = source.get("role")
    role = _ROLES.get(found) if isinstance(found, str) else None
    if role is None:
        raise wrong("role", found, ", ".join(_ROLES))
    bare = Message(
        role,
        id=_identity(source),
        at=_time(source, at, tz),
        name=as_name(_optional_text(source, "name") or _optional_text(source, "tool_name")),
        original=source,
    )
    return _user(bare, source) if role == "user" else (_READERS[role](bare, source),)


def intake_all(items: object, *, at: datetime, tz: tzinfo, first: int = 0) -> tuple[Message, ...]:
    """Read a history, or its part from position `first` on. An error names the position."""
    if not isinstance(items, list | tuple):
        raise wrong("messages", items, f"a list, each {_ALLOWED}")
    messages: list[Message] = []
    for i, item in enumerate(cast("Sequence[object]", items), first):
        try:
            messages.extend(intake(item, at=at, tz=tz))
        except MessageError as error:
            raise MessageError(f"messages[{i}]: {error}") from error
    return tuple(messages)


def parts_in(source: Mapping[str, Any]) -> int:
    """Count the messages that `intake` makes of this one."""
    content = source.get("content")
    if source.get("role") != "user" or not isinstance(content, list | tuple):
        return 1
    return max(1, len(_runs(blocks_of(cast("object", content), "content"))))


def is_all_of(item: MessageLike, message: Message) -> bool:
    """Whether an item of a host is this message and no more than a role and a text, as most are: reading it
    would take ten times as long."""
    return (
        not isinstance(item, Message)
        and len(item) == 2
        and item.get("content") == message.text
        and item.get("role") == message.role
        and not (message.calls or message.answers or message.attachments or message.name)
    )


# Fields of a host's message that are part of ours, or that no provider gets.
_READ_FIELDS = frozenset(
    {"role", "content", "name", "tool_name", "tool_calls", "function_call", "refusal", "audio"}
    | {"tool_call_id", "id", "created_at", "timestamp", "type"}
)
_READ_BLOCKS = frozenset({"text", "input_text", "output_text", "refusal", "tool_use", "tool_result"})
# Blocks whose data is not text: each counts as an attachment.
_DATA_BLOCKS = frozenset(
    {"image", "image_url", "input_image", "input_audio", "file", "input_file", "document"}
)


def only_in_original(message: Message) -> Iterator[str]:
    """Yield what goes out with the host's own message and is not in ours: thinking, reasoning, and other
    fields of a provider."""
    original = message.original or {}
    for key, value in original.items():
        if key not in _READ_FIELDS:
            yield from _texts_in(value)
    if message.role != "assistant":
        return
    content = original.get("content")
    if isinstance(content, list | tuple):
        for block in cast("Sequence[object]", content):
            kind = (as_mapping(block) or {}).get("type", "text")
            if kind not in _READ_BLOCKS and kind not in _DATA_BLOCKS:
                yield from _texts_in(block)


def arguments_as_given(message: Message) -> Iterator[str]:
    """Yield the arguments of each call as the host wrote them if that is longer: blanks are sent too."""
    listed: object = (message.original or {}).get("tool_calls")
    given = cast("Sequence[object]", listed) if isinstance(listed, list | tuple) else ()
    for i, call in enumerate(message.calls):
        function = as_mapping((as_mapping(given[i]) or {}).get("function")) if i < len(given) else None
        arguments = function.get("arguments") if function else None
        longer = isinstance(arguments, str) and len(arguments) > len(call.arguments)
        yield cast("str", arguments) if longer else call.arguments


def size_of(item: Mapping[str, Any]) -> int:
    """About how many bytes a host's message takes."""
    return 200 + sum(50 + len(text) for text in _texts_in(item))


def _texts_in(value: object) -> Iterator[str]:
    """Yield the texts in a value of a host's message, which may contain itself."""
    left, seen = [value], set[int]()
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            left.extend(cast("Mapping[object, object]", value).values())
        elif isinstance(value, list | tuple):
            left.extend(cast("Sequence[object]", value))


def _system(bare: Message, source: Mapping[str, Any]) -> Message:
    return _fill(bare, _content_without_calls(source, "content"))


def _user(bare: Message, source: Mapping[str, Any]) -> tuple[Message, ...]:
    content = source.get("content")
    if content is None or isinstance(content, str):
        return (replace(bare, text=content or ""),)
    runs = _runs(blocks_of(content, "content"))
    read = [_tool_result(bare, *run[0]) if _is_result(run[0][1]) else _user_part(bare, run) for run in runs]
    rest = [replace(m, id=f"{m.id}#{i}" if m.id else "") for i, m in enumerate(read[1:], 2)]
    return (*read[:1], *rest) or (bare,)


def _assistant(bare: Message, source: Mapping[str, Any]) -> Message:
    content = read_content(source.get("content"), "content")
    content.texts.append(_optional_text(source, "refusal"))
    audio = as_mapping(source.get("audio"))
    if audio:
        content.texts.append(_optional_text(audio, "transcript"))
    content.calls.extend(_openai_calls(source))
    return _fill(bare, content)


def _tool(bare: Message, source: Mapping[str, Any]) -> Message:
    answers = _optional_text(source, "tool_call_id") or (unnamed_call(bare.name) if bare.name else "")
    if not answers:
        raise wrong("tool_call_id", source.get("tool_call_id"), "the id of the call that this result answers")
    return _fill(replace(bare, answers=answers), _content_without_calls(source, "content"))


_READERS = {"system": _system, "assistant": _assistant, "tool": _tool}


_Run = list[tuple[int, Mapping[str, Any]]]


def _runs(blocks: Sequence[Mapping[str, Any]]) -> list[_Run]:
    """Split blocks into runs: each tool result by itself, and everything between two of them together."""
    runs: list[_Run] = []
    for i, block in enumerate(blocks):
        if runs and not _is_result(block) and not _is_result(runs[-1][-1][1]):
            runs[-1].append((i, block))
        else:
            runs.append([(i, block)])
    return runs


def _is_result(block: Mapping[str, Any]) -> bool:
    return block["type"] == "tool_result"


def _user_part(bare: Message, run: _Run) -> Message:
    return _fill(bare, _without_calls(read_blocks(run, "content"), "content"))


def _tool_result(bare: Message, place: int, block: Mapping[str, Any]) -> Message:
    where = f"content[{place}]"
    answers = block.get("tool_use_id")
    if not isinstance(answers, str) or not answers:
        raise wrong(f"{where}.tool_use_id", answers, "the id of the call that this result answers")
    content = _content_without_calls(block, f"{where}.content")
    if block.get("is_error") is True:
        content.texts = [f"[error] {content.text}".strip()]
    return _fill(replace(bare, role="tool", name="", answers=answers), content)


def _content_without_calls(source: Mapping[str, Any], where: str) -> Content:
    return _without_calls(read_content(source.get("content"), where), where)


def _without_calls(content: Content, where: str) -> Content:
    if content.calls:
        raise wrong(where, "tool_use", "tool calls in assistant messages only")
    return content


def _fill(bare: Message, content: Content) -> Message:
    return replace(
        bare, text=content.text, attachments=tuple(content.attachments), calls=tuple(content.calls)
    )


def _openai_calls(source: Mapping[str, Any]) -> list[ToolCall]:
    listed = source.get("tool_calls")
    if listed is not None and not isinstance(listed, list | tuple):
        raise wrong("tool_calls", listed, "a list of calls")
    calls = [
        _openai_call(c, f"tool_calls[{i}]") for i, c in enumerate(cast("Sequence[object]", listed or ()))
    ]
    legacy = source.get("function_call")
    if legacy is not None:
        calls.append(_openai_call({"function": legacy}, "function_call"))
    return calls


def _openai_call(value: object, where: str) -> ToolCall:
    call = as_mapping(value)
    # A custom tool has text input where a function has JSON arguments.
    function = as_mapping(call.get("function") or call.get("custom")) if call else None
    if call is None or function is None:
        raise wrong(where, value, "an object with id and function")
    arguments = function.get("arguments", function.get("input"))
    return read_call(call.get("id"), function.get("name"), arguments, where, arguments="arguments")


# -- Fields of a message


def _optional_text(source: Mapping[str, Any], key: str) -> str:
    value = source.get(key)
    if value is not None and not isinstance(value, str):
        raise wrong(key, value, "a string or null")
    return value or ""


def _identity(source: Mapping[str, Any]) -> str:
    value = source.get("id")
    return str(value) if type(value) is int and abs(value) < 2**128 else _optional_text(source, "id")


def _time(source: Mapping[str, Any], at: datetime, tz: tzinfo) -> datetime:
    for key in ("created_at", "timestamp"):
        value = source.get(key)
        if value is not None:
            return _parse_time(value, key, at, tz)
    return at


def _parse_time(value: object, where: str, at: datetime, tz: tzinfo) -> datetime:
    """Make an aware time from ISO 8601, from seconds or milliseconds since 1970, or from a datetime."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) > _LATEST_SECONDS else value
            value = datetime.fromtimestamp(seconds, tz)
    except (ValueError, OverflowError, OSError):
        pass
    if not isinstance(value, datetime):
        raise wrong(where, value, "a time in ISO 8601, or in seconds since 1970")
    if not is_real(value):
        return at
    return value if value.tzinfo else value.replace(tzinfo=tz)


def _check(message: Message, at: datetime, tz: tzinfo) -> Message:
    """Check a `Message` that was built by hand, and set its time."""
    if message.role not in _OUR_ROLES:
        raise wrong("role", message.role, ", ".join(_OUR_ROLES))
    for key in ("text", "id", "name", "answers"):
        if not isinstance(getattr(message, key), str):
            raise wrong(key, getattr(message, key), "a string")
    if message.calls and message.role != "assistant":
        raise wrong("calls", message.role, "calls in assistant messages only")
    if not all(isinstance(c, ToolCall) for c in message.calls):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong("calls", message.calls, "onlooker ToolCalls")
    if message.role == "tool" and not message.answers:
        raise wrong("answers", message.answers, "the id of the call that this result answers")
    moment = at if message.at is None else _parse_time(message.at, "at", at, tz)
    calls = tuple(
        read_call(c.id, c.name, c.arguments, f"calls[{i}]", arguments="arguments")
        for i, c in enumerate(message.calls)
    )
    name = as_name(message.name)
    return replace(message, at=moment, name=name, calls=calls, attachments=tuple(message.attachments))


# -- Content blocks

# Blocks that only one provider has, which identify its format.
OPENAI_BLOCKS = frozenset({"image_url", "input_audio", "file", "refusal"})
ANTHROPIC_BLOCKS = frozenset(
    {"thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document", "search_result"}
)
# A model's thinking is signed by its provider for itself, and is not part of the conversation.
_THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})
_TEXT_BLOCKS = frozenset({"text", "input_text", "output_text"})
_MAX_LABEL_LENGTH = 120


@dataclass(slots=True)
class Content:
    """What a run of content blocks contains."""

    texts: list[str] = field(default_factory=list[str])
    attachments: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    @property
    def text(self) -> str:
        return "\n".join(t for t in self.texts if t)


def wrong(where: str, found: object, allowed: str) -> MessageError:
    """Make the error for an invalid value at `where`."""
    # Only a plain value is quoted, and cut: any other repr could fail, or fill the log.
    plain = found is None or isinstance(found, str | float) or (isinstance(found, int) and abs(found) < 2**64)
    shown = repr(found)[:60] if plain else type(found).__name__
    return MessageError(f"{where}: found {shown}; allowed: {allowed}")


def is_anthropic(kind: str) -> bool:
    """Return whether a block of this type is in Anthropic's format, server-side tools included."""
    return kind in ANTHROPIC_BLOCKS or kind.endswith(("_tool_use", "_tool_result"))


def as_mapping(value: object) -> Mapping[str, Any] | None:
    """Return the value if it is a mapping whose keys are all strings; an object of an SDK as a mapping."""
    if not isinstance(value, Mapping):
        dump = getattr(value, "model_dump", None)
        if not callable(dump) or isinstance(value, type):
            return None
        value = dump(by_alias=True, exclude_none=True, warnings=False)
        if not isinstance(value, dict):
            return None
    mapping = cast("Mapping[object, Any]", value)
    return cast("Mapping[str, Any]", mapping) if all(isinstance(k, str) for k in mapping) else None


def blocks_of(content: object, where: str) -> list[Mapping[str, Any]]:
    """Check a list of content blocks: each must be a mapping with a type."""
    if not isinstance(content, list | tuple):
        raise wrong(where, content, "a string, a list of content blocks, or null")
    blocks: list[Mapping[str, Any]] = []
    for i, value in enumerate(cast("Sequence[object]", content)):
        # OpenAI's client accepts bare strings in a list, and some hosts send them.
        block = {"type": "text", "text": value} if isinstance(value, str) else as_mapping(value)
        if block is None:
            raise wrong(f"{where}[{i}]", value, "an object with a type")
        if not isinstance(block.get("type"), str):
            raise wrong(f"{where}[{i}].type", block.get("type"), "the name of a content block, such as text")
        blocks.append(block)
    return blocks


def read_content(content: object, where: str) -> Content:
    """Read a message's content; null is empty."""
    if content is None:
        return Content()
    if isinstance(content, str):
        return Content([content])
    return read_blocks(enumerate(blocks_of(content, where)), where)


def read_blocks(blocks: Iterable[tuple[int, Mapping[str, Any]]], where: str) -> Content:
    content = Content()
    for i, block in blocks:
        _read_block(block, f"{where}[{i}]", content)
    return content


def _read_block(block: Mapping[str, Any], where: str, content: Content) -> None:
    kind: str = block["type"]
    if kind in _THINKING_BLOCKS:
        return
    if kind == "tool_result":
        raise wrong(f"{where}.type", kind, "tool results in user messages only")
    if kind in _TEXT_BLOCKS:
        content.texts.append(text_at(block, "text", where))
    elif kind == "refusal":
        content.texts.append(text_at(block, "refusal", where))
    elif kind == "tool_use":
        content.calls.append(
            read_call(block.get("id"), block.get("name"), block.get("input"), where, arguments="input")
        )
    elif (plain := _plain_document(block)) is not None:
        content.texts.append(plain)
    else:
        content.attachments.append(_placeholder(kind, block))


def text_at(block: Mapping[str, Any], key: str, where: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise wrong(f"{where}.{key}", value, "a string")
    return value


# As providers and protocols allow them: `server:tool`, `functions.search`, `mcp__files__read`.
_TOOL_NAME = regex(r"[\w.:/-]{1,128}")


def read_call(call_id: object, name: object, value: object, where: str, *, arguments: str) -> ToolCall:
    if not isinstance(name, str) or not name:
        raise wrong(f"{where}.name", name, "the name of a tool")
    if call_id is not None and not isinstance(call_id, str):
        raise wrong(f"{where}.id", call_id, "a string")
    if not _TOOL_NAME.fullmatch(name):  # no provider takes it, and it could say something
        name = as_name(name) or "tool"
    return ToolCall(call_id or unnamed_call(name), name, _canonical(value, f"{where}.{arguments}"))


def unnamed_call(tool: str) -> str:
    """Return the id for a call without one: some hosts pair results with calls by the tool's name."""
    return f"call_{tool}"


def _canonical(arguments: object, where: str) -> str:
    """Write arguments as compact JSON in the given order, the same for a string and an object."""
    if arguments is None:
        return "{}"
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            return arguments  # a model wrote invalid JSON: keep it as it is
    try:
        return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong(where, arguments, "JSON, as a string or an object") from error


# -- Placeholders of attachments


def _placeholder(kind: str, block: Mapping[str, Any]) -> str:
    inner = as_mapping(block.get(kind)) or as_mapping(block.get("source")) or {}
    if kind in ("image_url", "image", "input_image"):
        return _labelled("image", *_picture(block, inner))
    if kind == "input_audio":
        return _labelled("audio", _text(inner, "data"), _text(inner, "format"))
    if kind in ("file", "document", "input_file"):
        name = _text(inner, "filename") or _text(block, "title") or _text(block, "filename")
        data = next((v for k in ("data", "file_data", "url", "file_id") if (v := _text(inner, k))), "")
        return (
            f"[file {_short(as_name(name))}]" if name else _labelled("file", data, _text(inner, "media_type"))
        )
    # A server-side tool, or a block type newer than this code.
    return f"[{_short(kind + ' ' + _text(block, 'name'))}]"


def _picture(block: Mapping[str, Any], inner: Mapping[str, Any]) -> tuple[str, str]:
    """Return what identifies a picture, and its label."""
    url = _text(inner, "url") or _text(block, "image_url") or _text(inner, "file_id")
    if url.startswith("data:"):
        return url, url[5:200].split(";")[0].split(",")[0]
    # An address has no blanks: what follows one is not part of it.
    return (url, (url.split() or [""])[0]) if url else (_text(inner, "data"), _text(inner, "media_type"))


def _labelled(kind: str, data: str, label: str) -> str:
    mark = hashlib.blake2b(data.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"[{kind} {mark}: {_short(label)}]" if label else f"[{kind} {mark}]"


def _plain_document(block: Mapping[str, Any]) -> str | None:
    """Return the text of a plain-text document between tags: it is from the user, and not their word."""
    source = as_mapping(block.get("source")) or {}
    if block["type"] != "document" or source.get("type") != "text":
        return None
    title = as_name(_text(block, "title")).replace('"', "'")
    inside = _text(source, "data").replace("</document", "</ document")
    named = f' title="{title}"' if title else ""
    return f"<document{named}>\n{inside}\n</document>"


def _text(block: Mapping[str, Any], key: str) -> str:
    value = block.get(key)
    return value if isinstance(value, str) else ""


def _short(label: str) -> str:
    """Make a label one line, without brackets that would end the placeholder early."""
    line = " ".join(seen(label).split()).replace("[", "(").replace("]", ")").replace(": ", " ")
    return line if len(line) <= _MAX_LABEL_LENGTH else line[: _MAX_LABEL_LENGTH - 1] + "…"
