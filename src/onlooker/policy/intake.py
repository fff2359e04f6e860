"""Take messages in: ours, OpenAI chat messages, Anthropic messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any, cast, get_args

from onlooker.domain.errors import MessageError
from onlooker.domain.messages import Message, Role, ToolCall
from onlooker.policy.blocks import (
    Said,
    as_mapping,
    blocks_of,
    read_blocks,
    read_call,
    read_content,
    unnamed_call,
    wrong,
)

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
# Seconds since 1970 beyond this are milliseconds.
_LATEST_SECONDS = 1e11

# ------------------------------------------------------------------------------------ by hand


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
    """An answer of the agent, with the tool calls it made."""
    return Message("assistant", text, id=id, at=at, name=name, calls=tuple(calls))


def system(text: str, *, id: str = "", at: datetime | None = None) -> Message:
    """An instruction from the application."""
    return Message("system", text, id=id, at=at)


def tool(text: str, *, answers: str, name: str = "", id: str = "", at: datetime | None = None) -> Message:
    """What a tool returned for the call with the id `answers`."""
    return Message("tool", text, id=id, at=at, name=name, answers=answers)


# ------------------------------------------------------------------------------------ from a host


def intake(item: object, *, at: datetime, tz: tzinfo) -> tuple[Message, ...]:
    """The messages that one item of a host's history holds, in order.

    It is one, except for an Anthropic user message with tool results, each of which is a message of
    its own. A time without a zone is in `tz`; without any time, it was said `at`.

    Raises:
        MessageError: It is not a message; says where, what was found and what is allowed.
    """
    if isinstance(item, Message):
        return (_checked(item, at, tz),)
    source = as_mapping(item)
    if source is None:
        raise wrong("message", item, _ALLOWED)
    found = source.get("role")
    role = _ROLES.get(found) if isinstance(found, str) else None
    if role is None:
        raise wrong("role", found, ", ".join(_ROLES))
    first = Message(
        role,
        id=_identity(source),
        at=_time(source, at, tz),
        name=_optional_text(source, "name") or _optional_text(source, "tool_name"),
        original=source,
    )
    return _user(first, source) if role == "user" else (_READERS[role](first, source),)


def intake_all(items: object, *, at: datetime, tz: tzinfo, first: int = 0) -> tuple[Message, ...]:
    """The messages of a history, or of its part from `first` on; an error says at which position it is."""
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
    """How many messages `intake` makes of this one."""
    content = source.get("content")
    if source.get("role") != "user" or not isinstance(content, list | tuple):
        return 1
    return max(1, len(_runs(blocks_of(cast("object", content), "content"))))


def _system(first: Message, source: Mapping[str, Any]) -> Message:
    return _with(first, _plain(source, "content"))


def _user(first: Message, source: Mapping[str, Any]) -> tuple[Message, ...]:
    content = source.get("content")
    if content is None or isinstance(content, str):
        return (replace(first, text=content or ""),)
    runs = _runs(blocks_of(content, "content"))
    read = [_result(first, *run[0]) if _is_result(run[0][1]) else _said(first, run) for run in runs]
    rest = [replace(m, id=f"{m.id}#{i}" if m.id else "") for i, m in enumerate(read[1:], 2)]
    return (*read[:1], *rest) or (first,)


def _assistant(first: Message, source: Mapping[str, Any]) -> Message:
    said = read_content(source.get("content"), "content")
    said.texts.append(_optional_text(source, "refusal"))
    audio = as_mapping(source.get("audio"))
    if audio:
        said.texts.append(_optional_text(audio, "transcript"))
    said.calls.extend(_openai_calls(source))
    return _with(first, said)


def _tool(first: Message, source: Mapping[str, Any]) -> Message:
    answers = _optional_text(source, "tool_call_id") or (unnamed_call(first.name) if first.name else "")
    if not answers:
        raise wrong("tool_call_id", source.get("tool_call_id"), "the id of the call that this result answers")
    return _with(replace(first, answers=answers), _plain(source, "content"))


_READERS = {"system": _system, "assistant": _assistant, "tool": _tool}

# ------------------------------------------------------------------------------------ parts

_Run = list[tuple[int, Mapping[str, Any]]]


def _runs(blocks: Sequence[Mapping[str, Any]]) -> list[_Run]:
    """Blocks in order, each tool result by itself, everything between two of them together."""
    runs: list[_Run] = []
    for i, block in enumerate(blocks):
        if runs and not _is_result(block) and not _is_result(runs[-1][-1][1]):
            runs[-1].append((i, block))
        else:
            runs.append([(i, block)])
    return runs


def _is_result(block: Mapping[str, Any]) -> bool:
    return block["type"] == "tool_result"


def _said(first: Message, run: _Run) -> Message:
    return _with(first, _without_calls(read_blocks(run, "content"), "content"))


def _result(first: Message, place: int, block: Mapping[str, Any]) -> Message:
    where = f"content[{place}]"
    answers = block.get("tool_use_id")
    if not isinstance(answers, str) or not answers:
        raise wrong(f"{where}.tool_use_id", answers, "the id of the call that this result answers")
    said = _plain(block, f"{where}.content")
    if block.get("is_error") is True:
        said.texts = [f"[error] {said.text}".strip()]
    return _with(replace(first, role="tool", name="", answers=answers), said)


def _plain(source: Mapping[str, Any], where: str) -> Said:
    return _without_calls(read_content(source.get("content"), where), where)


def _without_calls(said: Said, where: str) -> Said:
    if said.calls:
        raise wrong(where, "tool_use", "tool calls in assistant messages only")
    return said


def _with(first: Message, said: Said) -> Message:
    return replace(first, text=said.text, attachments=tuple(said.attachments), calls=tuple(said.calls))


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
    # A custom tool takes a text where a function takes JSON.
    function = as_mapping(call.get("function") or call.get("custom")) if call else None
    if call is None or function is None:
        raise wrong(where, value, "an object with id and function")
    arguments = function.get("arguments", function.get("input"))
    return read_call(call.get("id"), function.get("name"), arguments, where, arguments="arguments")


# ------------------------------------------------------------------------------------ fields


def _optional_text(source: Mapping[str, Any], key: str) -> str:
    value = source.get(key)
    if value is not None and not isinstance(value, str):
        raise wrong(key, value, "a text, or nothing")
    return value or ""


def _identity(source: Mapping[str, Any]) -> str:
    value = source.get("id")
    return str(value) if type(value) is int and abs(value) < 2**128 else _optional_text(source, "id")


def _time(source: Mapping[str, Any], at: datetime, tz: tzinfo) -> datetime:
    for key in ("created_at", "timestamp"):
        value = source.get(key)
        if value is not None:
            return _moment(value, key, tz)
    return at


def _moment(value: object, where: str, tz: tzinfo) -> datetime:
    """An aware time from ISO 8601, from seconds or milliseconds since 1970, or from a datetime."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) > _LATEST_SECONDS else value
            value = datetime.fromtimestamp(seconds, tz)
        if isinstance(value, datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=tz)
            moment.astimezone(UTC)  # the first and last days of the calendar have no UTC: refused here
            return moment
    except (ValueError, OverflowError, OSError):
        pass
    raise wrong(where, value, "a time in ISO 8601, or in seconds since 1970")


def _checked(message: Message, at: datetime, tz: tzinfo) -> Message:
    """One of our own, with a time; built by hand, so its parts are looked at too."""
    if message.role not in _OUR_ROLES:
        raise wrong("role", message.role, ", ".join(_OUR_ROLES))
    for key in ("text", "id", "name", "answers"):
        if not isinstance(getattr(message, key), str):
            raise wrong(key, getattr(message, key), "a text")
    if message.calls and message.role != "assistant":
        raise wrong("calls", message.role, "calls in assistant messages only")
    if not all(isinstance(c, ToolCall) for c in message.calls):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong("calls", message.calls, "onlooker ToolCalls")
    if message.role == "tool" and not message.answers:
        raise wrong("answers", message.answers, "the id of the call that this result answers")
    moment = at if message.at is None else _moment(message.at, "at", tz)
    calls = tuple(
        read_call(c.id, c.name, c.arguments, f"calls[{i}]", arguments="arguments")
        for i, c in enumerate(message.calls)
    )
    return replace(message, at=moment, calls=calls, attachments=tuple(message.attachments))
