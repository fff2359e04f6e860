"""Messages for the Anthropic API: blocks, alternating roles, results first after their calls."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, cast

from onlooker.domain.errors import MessageError
from onlooker.domain.messages import Message, ToolCall
from onlooker.policy.blocks import OPENAI_BLOCKS, as_mapping
from onlooker.policy.intake import parts_in
from onlooker.policy.pairs import NO_RESULT, Exchange, fresh, turns

CONTINUES = "[conversation continues]"

_Block = Mapping[str, Any]
_FORBIDDEN_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
# Fields of OpenAI's form that its content does not say.
_OPENAI_FIELDS = ("name", "tool_calls", "function_call", "refusal", "audio")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Blocks of one role, and the host's form that they came from where it can stand for them."""

    role: Literal["user", "assistant"]
    blocks: tuple[_Block, ...]
    original: Mapping[str, Any] | None = None

    @property
    def alone(self) -> bool:
        """Whether the host's form holds nothing but this."""
        return self.original is not None and _parts(self.original) == 1


def anthropic_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages for the Anthropic API; what came in that form goes out as it came.

    Neighbours of one role are one message, the first is the user's, and no text is blank.
    """
    taken: set[str] = set()
    pieces = [p for turn in turns(messages) for p in _pieces(turn, taken) if p.blocks or p.alone]
    rendered = [_merged(list(run)) for _, run in groupby(pieces, key=lambda p: p.role)]
    if rendered and rendered[0]["role"] == "assistant":
        rendered.insert(0, {"role": "user", "content": CONTINUES})
    return rendered


def _pieces(turn: Message | Exchange, taken: set[str]) -> Iterator[_Piece]:
    if isinstance(turn, Exchange):
        yield from _exchange(turn, taken)
    elif turn.role == "assistant":
        yield _Piece("assistant", _text(turn.body), _original(turn))
    else:
        mark = "[system] " if turn.role == "system" else f"{turn.name}: " if turn.name else ""
        yield _Piece("user", _text(turn.body, mark), _original(turn))


def _exchange(turn: Exchange, taken: set[str]) -> Iterator[_Piece]:
    ids: dict[str, str] = {}
    for call in turn.calls:
        ids[call.id] = fresh(_clean(call.id), taken)
        taken.add(ids[call.id])
    # An id that had to change, or be made distinct, is wrong in the host's form.
    as_given = tuple(ids.values()) == tuple(c.id for c in turn.message.calls)
    as_given = as_given and _call_ids(turn.message) in (None, tuple(ids))
    calls = tuple(_tool_use(c, ids[c.id]) for c in turn.calls)
    original = _original(turn.message) if as_given else None
    yield _Piece("assistant", (*_text(turn.message.body), *calls), original)
    for result in turn.results:
        block = _tool_result(ids[result.answers], result.body)
        yield _Piece("user", (block,), _original(result) if as_given else None)
    for call in turn.unanswered:
        yield _Piece("user", (_tool_result(ids[call.id], NO_RESULT),))


def _text(text: str, mark: str = "") -> tuple[_Block, ...]:
    return ({"type": "text", "text": mark + text},) if text.strip() else ()


def _tool_use(call: ToolCall, call_id: str) -> _Block:
    try:
        given = as_mapping(json.loads(call.arguments))
    except (ValueError, RecursionError):
        given = None
    return {
        "type": "tool_use",
        "id": call_id,
        "name": call.name,
        "input": {"arguments": call.arguments} if given is None else given,
    }


def _tool_result(call_id: str, text: str) -> _Block:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


def _clean(call_id: str) -> str:
    """The id in the letters that the API takes; two that differ stay different."""
    if call_id and not _FORBIDDEN_IN_ID.search(call_id):
        return call_id
    mark = hashlib.blake2b(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return _FORBIDDEN_IN_ID.sub("_", call_id) + f"_{mark}"


# ------------------------------------------------------------------------------------ as it came


def _original(message: Message) -> Mapping[str, Any] | None:
    """The host's own form, where that is Anthropic's and the API would take it."""
    original = message.original
    if original is None or original.get("role") not in ("user", "assistant"):
        return None
    if any(original.get(key) is not None for key in _OPENAI_FIELDS):
        return None
    blocks = _blocks(original)
    return original if blocks and all(_sendable(b) for b in blocks) else None


def _blocks(original: Mapping[str, Any]) -> list[_Block]:
    content: object = original.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list | tuple):
        return []
    return [as_mapping(b) or {} for b in cast("Sequence[object]", content)]


def _call_ids(message: Message) -> tuple[object, ...] | None:
    """The ids of the calls in the host's form; None where there is no such form."""
    original = _original(message)
    if original is None:
        return None
    return tuple(b.get("id") for b in _blocks(original) if b.get("type") == "tool_use")


def _sendable(block: _Block) -> bool:
    kind = block.get("type")
    if kind == "text":
        return isinstance(block.get("text"), str) and bool(block["text"].strip())
    return isinstance(kind, str) and kind not in OPENAI_BLOCKS


# ------------------------------------------------------------------------------------ merging


def _merged(run: Sequence[_Piece]) -> dict[str, Any]:
    """One message of pieces of one role."""
    sources = list(_sources(run))
    if len(sources) == 1 and isinstance(sources[0], Mapping):
        return {"role": run[0].role, "content": sources[0]["content"]}
    blocks = [b for s in sources for b in (_blocks(s) if isinstance(s, Mapping) else s)]
    only_text = len(blocks) == 1 and set(blocks[0]) == {"type", "text"}
    content = blocks[0]["text"] if only_text else [dict(b) for b in blocks]
    return {"role": run[0].role, "content": content}


def _sources(run: Sequence[_Piece]) -> Iterator[Mapping[str, Any] | tuple[_Block, ...]]:
    """The host's form where all of its parts are here, one after the other; else the blocks built."""
    for _, same in groupby(run, key=lambda p: id(p.original) if p.original is not None else 0):
        pieces = list(same)
        original = pieces[0].original
        parts = _parts(original) if original is not None else 0
        if original is not None and parts == 1:
            yield from (original for _ in pieces)
        elif original is not None and parts == len(pieces):
            yield original
        else:
            yield from (p.blocks for p in pieces)


def _parts(original: Mapping[str, Any]) -> int:
    try:
        return parts_in(original)
    except MessageError:
        return 0
