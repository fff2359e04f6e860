"""Messages in the form that a provider, or a reader, takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from onlooker.domain.messages import Message, ToolCall
from onlooker.policy.blocks import as_mapping, is_anthropic
from onlooker.policy.pairs import NO_RESULT, Exchange, turns
from onlooker.policy.render_anthropic import anthropic_messages

__all__ = ["anthropic_messages", "openai_messages", "text_lines"]

# ------------------------------------------------------------------------------------ OpenAI


def openai_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages for an OpenAI-compatible chat API.

    One that came in that form goes out as it came, images and provider fields included.
    """
    rendered: list[dict[str, Any]] = []
    for turn in turns(messages):
        if isinstance(turn, Exchange):
            rendered.extend(_exchange(turn))
        else:
            rendered.append(_as_it_came(turn) or _built(turn))
    return rendered


def _exchange(turn: Exchange) -> Iterator[dict[str, Any]]:
    legacy = [_legacy(m) for m in (turn.message, *turn.results)]
    if all(legacy) and not turn.unanswered:
        yield from (dict(m) for m in legacy if m)
        return
    yield _calls_as_they_came(turn) or _with_calls(turn)
    for result in turn.results:
        yield _as_it_came(result) or _result(result.answers, result.body)
    for call in turn.unanswered:
        yield _result(call.id, NO_RESULT)


def _as_it_came(message: Message) -> dict[str, Any] | None:
    """A copy of the host's own form, where that is OpenAI's and needs nothing of its neighbours."""
    original = message.original
    if original is None or not _is_openai(original) or original.get("role") == "function":
        return None
    if message.role == "tool" and original.get("tool_call_id") != message.answers:
        return None
    return dict(original)


def _is_openai(original: Mapping[str, Any]) -> bool:
    content: object = original.get("content")
    if not isinstance(content, list | tuple):
        return "role" in original and (content is None or isinstance(content, str))
    blocks = [as_mapping(b) or {} for b in cast("Sequence[object]", content)]
    return not any(is_anthropic(str(b.get("type"))) for b in blocks)


def _calls_as_they_came(turn: Exchange) -> dict[str, Any] | None:
    original = _as_it_came(turn.message)
    if original is None or original.get("function_call") is not None:
        return None
    ids = [(as_mapping(c) or {}).get("id") for c in original.get("tool_calls") or ()]
    return original if ids == [c.id for c in turn.calls] else None


def _legacy(message: Message) -> Mapping[str, Any] | None:
    """The host's own form, where it is of the time before tool calls had ids."""
    original = message.original
    if original is None or not _is_openai(original) or original.get("tool_calls"):
        return None
    is_legacy = original.get("role") == "function" or original.get("function_call") is not None
    return original if is_legacy else None


def _built(message: Message) -> dict[str, Any]:
    built: dict[str, Any] = {"role": message.role, "content": message.body}
    if message.name:
        built["name"] = re.sub(r"[\s<|\\/>]+", "_", message.name)
    return built


def _with_calls(turn: Exchange) -> dict[str, Any]:
    built = _built(turn.message)
    return built | {"content": built["content"] or None, "tool_calls": [_call(c) for c in turn.calls]}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


# ------------------------------------------------------------------------------------ text


def text_lines(messages: Sequence[Message]) -> str:
    """Messages as dated lines for a reader: a heading per day, then who said what at what time."""
    lines: list[str] = []
    names: dict[str, str] = {}
    day = ""
    for message in messages:
        names.update((call.id, call.name) for call in message.calls)
        heading = f"## {message.at:%Y-%m-%d}" if message.at else day
        if heading != day:
            lines.append(heading)
            day = heading
        said = list(_lines(message, names))
        clock = f"[{message.at:%H:%M}] " if message.at and message.role != "tool" else ""
        lines.extend((clock + said[0], *said[1:]))
    return "\n".join(lines)


def _lines(message: Message, names: Mapping[str, str]) -> Iterator[str]:
    # Every line after the first is set in, so that none of them can pass for a heading or a message.
    body = message.body.replace("\n", "\n  ")
    speaker = " ".join(message.speaker.split())
    if message.role == "tool":
        speaker = " ".join((message.name or names.get(message.answers, "tool")).split())
        yield f"← {speaker}: {body}".rstrip()
    elif body or not message.calls:
        yield f"{speaker}: {body}".rstrip()
    for call in message.calls:
        yield f"→ {call.name}({call.arguments})".replace("\n", "\n  ")
