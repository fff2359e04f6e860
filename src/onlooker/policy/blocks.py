"""Content as providers give it: a text, or a list of blocks. Here it becomes text, placeholders, calls."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from onlooker.domain.errors import MessageError
from onlooker.domain.messages import ToolCall

# Blocks of one provider alone, by which its form is known.
OPENAI_BLOCKS = frozenset({"image_url", "input_audio", "file", "refusal"})
ANTHROPIC_BLOCKS = frozenset(
    {"thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document", "search_result"}
)
# A model's own thoughts are its provider's to keep: signed, not for others, and not part of what was said.
_UNSAID = frozenset({"thinking", "redacted_thinking"})
_TEXT_BLOCKS = frozenset({"text", "input_text", "output_text"})
_LONGEST_LABEL = 120


@dataclass(slots=True)
class Said:
    """What a run of blocks says."""

    texts: list[str] = field(default_factory=list[str])
    attachments: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    @property
    def text(self) -> str:
        return "\n".join(t for t in self.texts if t)


def wrong(where: str, found: object, allowed: str) -> MessageError:
    """The error for something at `where` that cannot be part of a message."""
    # Anything but a short, plain value is named by its type: its repr could fail, or fill the log.
    plain = found is None or isinstance(found, str | float) or (isinstance(found, int) and abs(found) < 2**64)
    shown = repr(found)[:60] if plain else type(found).__name__
    return MessageError(f"{where}: found {shown}; allowed: {allowed}")


def is_anthropic(kind: str) -> bool:
    """Whether a block of this type is of Anthropic's form, server-side tools included."""
    return kind in ANTHROPIC_BLOCKS or kind.endswith(("_tool_use", "_tool_result"))


def as_mapping(value: object) -> Mapping[str, Any] | None:
    """The value, where it is a mapping with nothing but strings for keys."""
    if not isinstance(value, Mapping):
        return None
    mapping = cast("Mapping[object, Any]", value)
    return cast("Mapping[str, Any]", mapping) if all(isinstance(k, str) for k in mapping) else None


def blocks_of(content: object, where: str) -> list[Mapping[str, Any]]:
    """The blocks of a list, each of them a mapping with a type."""
    if not isinstance(content, list | tuple):
        raise wrong(where, content, "a text, a list of content blocks, or null")
    blocks: list[Mapping[str, Any]] = []
    for i, value in enumerate(cast("Sequence[object]", content)):
        # OpenAI's own client takes bare strings in a list; so do hosts that build lists by hand.
        block = {"type": "text", "text": value} if isinstance(value, str) else as_mapping(value)
        if block is None:
            raise wrong(f"{where}[{i}]", value, "an object with a type")
        if not isinstance(block.get("type"), str):
            raise wrong(f"{where}[{i}].type", block.get("type"), "the name of a content block, such as text")
        blocks.append(block)
    return blocks


def read_content(content: object, where: str) -> Said:
    """What a message's content says; null says nothing."""
    if content is None:
        return Said()
    if isinstance(content, str):
        return Said([content])
    return read_blocks(enumerate(blocks_of(content, where)), where)


def read_blocks(blocks: Iterable[tuple[int, Mapping[str, Any]]], where: str) -> Said:
    said = Said()
    for i, block in blocks:
        _read_block(block, f"{where}[{i}]", said)
    return said


def _read_block(block: Mapping[str, Any], where: str, said: Said) -> None:
    kind: str = block["type"]
    if kind in _UNSAID:
        return
    if kind == "tool_result":
        raise wrong(f"{where}.type", kind, "tool results in user messages only")
    if kind in _TEXT_BLOCKS:
        said.texts.append(text_at(block, "text", where))
    elif kind == "refusal":
        said.texts.append(text_at(block, "refusal", where))
    elif kind == "tool_use":
        said.calls.append(
            read_call(block.get("id"), block.get("name"), block.get("input"), where, arguments="input")
        )
    elif (plain := _plain_document(block)) is not None:
        said.texts.append(plain)
    else:
        said.attachments.append(_placeholder(kind, block))


def text_at(block: Mapping[str, Any], key: str, where: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise wrong(f"{where}.{key}", value, "a text")
    return value


# ------------------------------------------------------------------------------------ calls


def read_call(call_id: object, name: object, value: object, where: str, *, arguments: str) -> ToolCall:
    if not isinstance(name, str) or not name:
        raise wrong(f"{where}.name", name, "the name of a tool")
    if call_id is not None and not isinstance(call_id, str):
        raise wrong(f"{where}.id", call_id, "a text")
    return ToolCall(call_id or unnamed_call(name), name, _canonical(value, f"{where}.{arguments}"))


def unnamed_call(tool: str) -> str:
    """The id of a call that was given none: some hosts pair a result with its call by the tool's name."""
    return f"call_{tool}"


def _canonical(arguments: object, where: str) -> str:
    """Arguments as compact JSON in the order given, the same whether they came as text or as an object."""
    if arguments is None:
        return "{}"
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            return arguments  # a model wrote broken JSON: it stands as it was written
    try:
        return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong(where, arguments, "JSON, as text or as an object") from error


# ------------------------------------------------------------------------------------ placeholders


def _placeholder(kind: str, block: Mapping[str, Any]) -> str:
    inner = as_mapping(block.get(kind)) or as_mapping(block.get("source")) or {}
    if kind in ("image_url", "image", "input_image"):
        return _labelled("image", *_picture(block, inner))
    if kind == "input_audio":
        return _labelled("audio", _text(inner, "data"), _text(inner, "format"))
    if kind in ("file", "document", "input_file"):
        name = _text(inner, "filename") or _text(block, "title") or _text(block, "filename")
        data = next((v for k in ("data", "file_data", "url", "file_id") if (v := _text(inner, k))), "")
        return f"[file {_short(name)}]" if name else _labelled("file", data, _text(inner, "media_type"))
    # A server-side tool, or a kind of block that is newer than this code.
    return f"[{_short(kind + ' ' + _text(block, 'name'))}]"


def _picture(block: Mapping[str, Any], inner: Mapping[str, Any]) -> tuple[str, str]:
    """What tells one picture from another, and what to call it."""
    url = _text(inner, "url") or _text(block, "image_url") or _text(inner, "file_id")
    if url.startswith("data:"):
        return url, url[5:200].split(";")[0].split(",")[0]
    return (url, url) if url else (_text(inner, "data"), _text(inner, "media_type"))


def _labelled(kind: str, data: str, label: str) -> str:
    mark = hashlib.blake2b(data.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"[{kind} {mark}: {_short(label)}]" if label else f"[{kind} {mark}]"


def _plain_document(block: Mapping[str, Any]) -> str | None:
    """The text of a document that is given as text."""
    source = as_mapping(block.get("source")) or {}
    is_text = block["type"] == "document" and source.get("type") == "text"
    return _text(source, "data") if is_text else None


def _text(block: Mapping[str, Any], key: str) -> str:
    value = block.get(key)
    return value if isinstance(value, str) else ""


def _short(label: str) -> str:
    """One line, and no bracket that would end the placeholder early."""
    line = " ".join(label.split()).replace("[", "(").replace("]", ")")
    return line if len(line) <= _LONGEST_LABEL else line[: _LONGEST_LABEL - 1] + "…"
