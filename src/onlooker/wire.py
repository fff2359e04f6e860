"""The protocols of providers: find the conversation in a request, add memory to it, and read an answer as it
passes. The chat proxy and the wrapped SDKs use them.

    chat         OpenAI's chat completions
    responses    OpenAI's responses
    messages     Anthropic's messages
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import Message
from onlooker.policy.injected import is_plain, split_item
from onlooker.policy.intake import as_history, intake_all, is_all_of
from onlooker.policy.render import CONTINUES, Context, anthropic_messages, openai_messages

Item = dict[str, Any]
Protocol = Literal["openai", "anthropic"]

# A longer answer, in bytes, is passed on but not recorded.
MAX_REPLY = 64 << 20


# ------------------------------------------------------------------------------------ conversations

_LEADING = ("system", "developer")


@frozen
class Conversation:
    """A client's items without what its agent injected.

    `places` are the positions of these items among the client's. The first `lead` of the client's items are
    not part of it: system prompts, and what an agent inserts before the first message. `opening` is what was
    injected into the first message and after it, before the model's first answer; it always stays in front.
    """

    items: list[Item]
    places: list[int]
    lead: int
    opening: list[Item] = field(default_factory=list[Item])

    def part(self, length: int) -> Conversation | None:
        """The conversation in the first `length` of the client's items; None if they must be read to tell
        what was injected into its beginning."""
        kept = bisect_left(self.places, length)
        if kept < 2:
            return None
        return Conversation(self.items[:kept], self.places[:kept], self.lead, self.opening)


def without_injected(
    items: Sequence[Item],
    *,
    system_is_injected: bool = False,
    before: Conversation | None = None,
    first: int = 0,
) -> Conversation:
    """The conversation without what the agent injected. In some protocols only an agent can add a system
    message. `before` is the conversation of the items before `first`, if known from an earlier request."""
    before = before or Conversation([], [], 0)
    kept, places, opening, lead = [*before.items], [*before.places], [*before.opening], before.lead
    for i, item in enumerate(items[first:], first):
        role, content = item.get("role"), item.get("content")
        if kept and (
            role in ("assistant", "tool")
            or (role == "user" and isinstance(content, str) and is_plain(content))
        ):
            # Most of a long conversation is sent again with every request.
            kept.append(item)
            places.append(i)
            continue
        if not kept and role in _LEADING:
            lead = i + 1
            continue
        if system_is_injected and role == "system":
            opening += [item] if len(kept) == 1 else []
            continue
        said, injected = split_item(item)
        if said is None:
            lead = i + 1 if not kept else lead
            continue
        if not kept and injected:
            opening.append({"role": "user", "content": injected})
        kept.append(said)
        places.append(i)
    return Conversation(kept, places, lead, opening)


# ------------------------------------------------------------------------------------ what stays as it came


@frozen
class Verbatim:
    """How many items at the end of a client's conversation are sent unchanged, and how many messages of the
    context they are."""

    items: int
    messages: int


def messages_of(items: Sequence[Any], now: datetime) -> tuple[Message, ...]:
    """A client's items as messages."""
    return intake_all(as_history(items), at=now, tz=UTC)


def verbatim(
    items: Sequence[Any], messages: Sequence[Message], unit: Callable[[int], int], now: datetime
) -> Verbatim:
    """How much of the end of the client's conversation is unchanged in the context. It never begins with the
    result of a call. `unit` returns where the unit begins that ends before a position."""
    stop, left = best = len(items), len(messages)
    while stop > 0 and left > 0:
        start = unit(stop)
        count = _parts_shown(items[start], messages, left) if start == stop - 1 else 0
        if not count:
            found = messages_of(items[start:stop], now)
            count = len(found)
            shown = messages[max(0, left - count) : left]
            if count > left or any(_content(a) != _content(b) for a, b in zip(found, shown, strict=True)):
                break
        stop, left = start, left - count
        if count and messages[left].role != "tool":
            best = stop, left
    return Verbatim(len(items) - best[0], len(messages) - best[1])


def _parts_shown(item: Item, messages: Sequence[Message], left: int) -> int:
    """How many messages before `left` are exactly this item; 0 if it must be read to tell. The original of a
    message is the whole item that it was matched with."""
    if is_all_of(item, messages[left - 1]):
        return 1
    original = messages[left - 1].original
    if original is None or any(original.get(key) is not value for key, value in item.items()):
        return 0
    first = left - 1
    while first > 0 and messages[first - 1].original is original:
        first -= 1
    return left - first


def _content(message: Message) -> tuple[object, ...]:
    return (message.role, message.text, message.calls, message.answers, message.attachments)


# ------------------------------------------------------------------------------------ requests


class Wire:
    """One protocol."""

    provider: Protocol = "openai"
    # The field of a request that has the conversation.
    field = "messages"
    # Whether a system message in the conversation is always an agent's. In others it may be the
    # application's.
    system_is_injected = False

    def items(self, body: Item) -> list[Item]:
        """The conversation of a request; empty if it has none, or it cannot be read."""
        return _items(body.get(self.field))

    def unit(self, items: Sequence[Item], stop: int) -> int:
        """Where the unit begins that ends before `stop`; several items may be one message."""
        return stop - 1

    def with_memory(
        self, body: Item, items: list[Item], conversation: Conversation, context: Context, now: datetime
    ) -> Item:
        """The request with memory: the past from the context, and then the client's own items."""

        def unit(stop: int) -> int:
            return self.unit(conversation.items, stop)

        kept = verbatim(conversation.items, context.messages, unit, now)
        rest = len(conversation.items) - kept.items
        shown = replace(context, messages=context.messages[: len(context.messages) - kept.messages], end="")
        first = conversation.places[rest] if kept.items else len(items)
        return self.rebuilt(body, items, conversation, first, shown, context.end)

    def rebuilt(
        self, body: Item, items: list[Item], conversation: Conversation, first: int, shown: Context, end: str
    ) -> Item:
        """The request with the client's items from `first` on, unchanged, and before them the past in
        `shown`."""
        raise NotImplementedError

    def reply(self, content_type: str) -> Reply | None:
        """The reader of the answer; None if its form is unknown."""
        raise NotImplementedError

    def question(self, model: str, system: str, user: str, max_tokens: int) -> Item:
        """A request of our own that asks for a text."""
        said = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return {"model": model, "messages": said}


def _items(given: object) -> list[Item]:
    if isinstance(given, list) and not [i for i in cast("list[object]", given) if not isinstance(i, dict)]:
        return cast("list[Item]", given)
    return []


def _is_event_stream(content_type: str) -> bool:
    return content_type.startswith("text/event-stream")


class _Chat(Wire):
    """OpenAI's chat completions, which most servers accept."""

    def rebuilt(
        self, body: Item, items: list[Item], conversation: Conversation, first: int, shown: Context, end: str
    ) -> Item:
        lead = _with_memory(items[: conversation.lead], shown.system)
        past = openai_messages((*shown.preface, *shown.messages))
        opening = _opening(conversation, first)
        newest = [{"role": "system", "content": end}] if end.strip() and not _is_prefill(items) else []
        return {**body, "messages": [*lead, *opening, *past, *items[first:], *newest]}

    def reply(self, content_type: str) -> Reply | None:
        return _ChatEvents() if _is_event_stream(content_type) else _ChatJson()


def _with_memory(lead: Sequence[Item], memory: str) -> list[Item]:
    """The system prompt with memory at its end: some models accept only one system message."""
    if not memory:
        return list(lead)
    last = next((i for i in range(len(lead) - 1, -1, -1) if lead[i].get("role") in _LEADING), None)
    if last is None:
        return [{"role": "system", "content": memory}, *lead]
    content: Any = lead[last].get("content")
    longer: Any = [*content, {"type": "text", "text": memory}] if isinstance(content, list) else memory
    if isinstance(content, str) and content:
        longer = f"{content}\n\n{memory}"
    return [*lead[:last], {**lead[last], "content": longer}, *lead[last + 1 :]]


def _opening(conversation: Conversation, first: int) -> list[Item]:
    """What an agent injected into the first message, if that message itself is not sent."""
    if not conversation.opening or first <= conversation.places[0]:
        return []
    return list(conversation.opening)


def _is_prefill(items: Sequence[Item]) -> bool:
    """Whether the last message is the beginning of an answer that the model continues."""
    return bool(items) and items[-1].get("role") == "assistant"


class _Responses(Wire):
    """OpenAI's responses."""

    field = "input"

    def items(self, body: Item) -> list[Item]:
        given = body.get(self.field)
        if isinstance(given, str):
            return [{"role": "user", "content": given}] if given else []
        items = _items(given)
        # A reference to an item that only the provider has cannot be read.
        return [] if any(item.get("type") == "item_reference" for item in items) else items

    def unit(self, items: Sequence[Item], stop: int) -> int:
        start = stop - 1
        if not is_of_model(items[start]):
            return start
        while start > 0 and is_of_model(items[start - 1]):
            start -= 1
        return start

    def rebuilt(
        self, body: Item, items: list[Item], conversation: Conversation, first: int, shown: Context, end: str
    ) -> Item:
        memory = [_developer(shown.system)] if shown.system else []
        past = [i for m in openai_messages((*shown.preface, *shown.messages)) for i in as_response_items(m)]
        newest = [_developer(end)] if end.strip() else []
        opening = _opening(conversation, first)
        sent = [*items[: conversation.lead], *memory, *opening, *past, *items[first:], *newest]
        # Memory already has what the provider would put in front.
        return {**{k: v for k, v in body.items() if k != "previous_response_id"}, "input": sent}

    def question(self, model: str, system: str, user: str, max_tokens: int) -> Item:
        # It contains the conversation, which the provider must not store.
        return {"model": model, "instructions": system, "input": user, "store": False}

    def reply(self, content_type: str) -> Reply | None:
        return _ResponseEvents() if _is_event_stream(content_type) else _ResponseJson()


def is_of_model(item: Item) -> bool:
    kind = item.get("type")
    if not isinstance(kind, str) or kind.endswith("_output"):
        return False
    return kind != "message" or item.get("role") == "assistant"


def _developer(text: str) -> Item:
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}


def as_response_items(message: Item) -> Iterator[Item]:
    """A chat message as items of the Responses API."""
    content = message.get("content")
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": _text(content)}
        return
    if content:
        kind = "output_text" if message["role"] == "assistant" else "input_text"
        blocks = _blocks(content)
        shown = [_block(block, kind) for block in blocks]
        yield {"type": "message", "role": message["role"], "content": shown}
    for call in message.get("tool_calls") or ():
        about = call["function"]
        yield {
            "type": "function_call",
            "call_id": call["id"],
            "name": about["name"],
            "arguments": about["arguments"],
        }


def _block(block: Item, kind: str) -> Item:
    if block.get("type") == "text":
        return {"type": kind, "text": block.get("text", "")}
    if block.get("type") == "image_url":
        return {"type": "input_image", "image_url": block["image_url"]["url"]}
    return block


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(b.get("text", "")) for b in cast("list[Item]", content))
    return content or ""


class _Messages(Wire):
    """Anthropic's messages, with breakpoints of its prompt cache."""

    provider: Protocol = "anthropic"
    system_is_injected = True

    def rebuilt(
        self, body: Item, items: list[Item], conversation: Conversation, first: int, shown: Context, end: str
    ) -> Item:
        past = anthropic_messages((*shown.preface, *shown.messages))
        messages = [*items[: conversation.lead], *_opening(conversation, first), *past, *items[first:]]
        if messages and messages[0].get("role") == "assistant":
            messages.insert(0, {"role": "user", "content": CONTINUES})
        if end.strip() and not _is_prefill(items):
            messages = _with_end(messages, f"[system] {end}")
        changed = {**body, "messages": messages}
        texts = shown.sections.texts()
        if texts:
            before = _blocks(body.get("system") or [])
            memory = [{"type": "text", "text": text} for text in texts]
            _set_breakpoints(changed, memory)
            changed["system"] = [*before, *memory]
        return changed

    def question(self, model: str, system: str, user: str, max_tokens: int) -> Item:
        said = [{"role": "user", "content": user}]
        return {"model": model, "max_tokens": max_tokens, "system": system, "messages": said}

    def reply(self, content_type: str) -> Reply | None:
        return _MessageEvents() if _is_event_stream(content_type) else _MessageJson()


# How many breakpoints a request may have.
MAX_BREAKPOINTS = 4


def _set_breakpoints(body: Item, memory: list[Item]) -> None:
    """Set breakpoints at the ends of the memory's parts, the last one first, as many as the client's own
    leave free."""
    tools, messages = _items(body.get("tools")), _items(body.get("messages"))
    blocks = [b for m in messages for b in _items(m.get("content"))]
    marks: list[Item] = [b["cache_control"] for b in blocks if b.get("cache_control")]
    others = sum(bool(b.get("cache_control")) for b in (*tools, *_items(body.get("system"))))
    # The API refuses a breakpoint that lasts longer than one before it.
    mark = next((m for m in marks if m.get("ttl")), {"type": "ephemeral"})
    for block in memory[::-1][: max(0, MAX_BREAKPOINTS - len(marks) - others)]:
        block["cache_control"] = dict(mark)


def _with_end(messages: list[Item], end: str) -> list[Item]:
    last = messages[-1]
    block = {"type": "text", "text": end}
    if last.get("role") != "user":
        return [*messages, {"role": "user", "content": [block]}]
    return [*messages[:-1], {**last, "content": [*_blocks(last.get("content")), block]}]


def _blocks(content: Any) -> list[Item]:
    """The content of a message as blocks."""
    return cast("list[Item]", content) if isinstance(content, list) else [{"type": "text", "text": content}]


PROTOCOLS: Mapping[str, Wire] = {
    "chat/completions": _Chat(),
    "responses": _Responses(),
    "messages": _Messages(),
}


# ------------------------------------------------------------------------------------ answers


class Reply:
    """Reads an answer as it passes."""

    # Whether the answer is one document, which is passed on only when complete.
    whole = True
    id = ""

    def read(self, piece: bytes) -> bool:
        """Read a piece; True if it completes the answer."""
        raise NotImplementedError

    def items(self) -> list[Item]:
        """What the model said so far, as messages to record. A call that is not complete is left out."""
        raise NotImplementedError


class _Json(Reply):
    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def read(self, piece: bytes) -> bool:
        self._size += len(piece)
        if self._size <= MAX_REPLY:
            self._pieces.append(piece)
        return False

    def items(self) -> list[Item]:
        try:
            found: Any = json.loads(b"".join(self._pieces))
            return self._of(cast("Item", found)) if isinstance(found, dict) else []
        except (ValueError, RecursionError, KeyError, IndexError, TypeError):
            return []

    def _of(self, answer: Item) -> list[Item]:
        raise NotImplementedError


class _ChatJson(_Json):
    def _of(self, answer: Item) -> list[Item]:
        return [answer["choices"][0]["message"]]


class _ResponseJson(_Json):
    def _of(self, answer: Item) -> list[Item]:
        self.id = str(answer.get("id", ""))
        return _items(answer.get("output"))


class _MessageJson(_Json):
    def _of(self, answer: Item) -> list[Item]:
        return _message(answer["content"])


class _Events(Reply):
    """Server-sent events, in pieces that begin and end anywhere."""

    whole = False

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the pieces of a line that is not complete
        self._size = 0

    def read(self, piece: bytes) -> bool:
        self._size += len(piece)
        if self._size > MAX_REPLY:
            return False
        complete = False
        first, *lines = piece.split(b"\n")
        self._line.append(first)
        for rest in lines:
            line, self._line = b"".join(self._line), [rest]
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                complete = True
                continue
            try:
                event: Any = json.loads(data)
                complete = (isinstance(event, dict) and self._on(cast("Item", event))) or complete
            except (ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError):
                continue  # it is only passed on
        return complete

    def _on(self, event: Item) -> bool:
        raise NotImplementedError


class _ChatEvents(_Events):
    def __init__(self) -> None:
        super().__init__()
        self._texts: list[str] = []
        self._calls: dict[int, Item] = {}

    def _on(self, event: Item) -> bool:
        for choice in _items(event.get("choices")):
            if choice.get("index", 0) != 0:
                continue
            delta: Item = choice.get("delta") or {}
            if isinstance(text := delta.get("content") or delta.get("refusal"), str):
                self._texts.append(text)
            for part in _items(delta.get("tool_calls")):
                about: Item = part.get("function") or {}
                call = self._calls.setdefault(part.get("index", 0), {"id": "", "name": "", "arguments": []})
                call["id"] = call["id"] or part.get("id") or ""
                call["name"] = call["name"] or about.get("name") or ""
                call["arguments"].append(about.get("arguments") or "")
        return False

    def items(self) -> list[Item]:
        calls: list[Item] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": "".join(call["arguments"]) or "{}"},
            }
            for _, call in sorted(self._calls.items())
        ]
        calls = [call for call in calls if call["id"] and _is_json(call["function"]["arguments"])]
        text = "".join(self._texts)
        if not text and not calls:
            return []
        return [{"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class _ResponseEvents(_Events):
    def __init__(self) -> None:
        super().__init__()
        self._done: list[Item] = []
        self._texts: list[str] = []
        self._whole: list[Item] | None = None

    def _on(self, event: Item) -> bool:
        match event.get("type"):
            case "response.output_item.done":
                self._done.append(event["item"])
                self._texts = []
            case "response.output_text.delta":
                self._texts.append(str(event["delta"]))
            case "response.created":
                self.id = str(event["response"].get("id", ""))
            case "response.completed" | "response.incomplete":
                self.id = str(event["response"].get("id", self.id))
                self._whole = _items(event["response"].get("output"))
                return True
            case _:
                pass
        return False

    def items(self) -> list[Item]:
        if self._whole:
            return self._whole
        text = "".join(self._texts)
        said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        return [*self._done, *([said] if text else [])]


class _MessageEvents(_Events):
    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, Item] = {}
        # The pieces of each block by the field that they belong to, and which blocks are not complete.
        self._pieces: dict[int, dict[str, list[str]]] = {}
        self._open: set[int] = set()

    def _on(self, event: Item) -> bool:
        match event.get("type"):
            case "content_block_start":
                index, block = event["index"], dict(event["content_block"])
                self._blocks[index], self._pieces[index] = block, {}
                self._open.add(index)
            case "content_block_delta":
                for name, piece in event["delta"].items():
                    if name in _DELTAS:
                        self._pieces[event["index"]].setdefault(_DELTAS[name], []).append(piece)
            case "content_block_stop":
                self._open.discard(event["index"])
            case "message_stop":
                return True
            case _:
                pass
        return False

    def items(self) -> list[Item]:
        # An incomplete text was seen by the user; an incomplete call was not made, and thinking is not
        # signed.
        complete = [
            self._filled(block, self._pieces[index])
            for index, block in sorted(self._blocks.items())
            if index not in self._open or block.get("type") == "text"
        ]
        return _message(complete)

    def _filled(self, block: Item, pieces: Mapping[str, Sequence[str]]) -> Item:
        filled = dict(block)
        for name, texts in pieces.items():
            text = "".join(texts)
            filled[name] = json.loads(text or "{}") if name == "input" else filled.get(name, "") + text
        return filled


# The field of a block that each kind of delta adds to.
_DELTAS = {"text": "text", "partial_json": "input", "thinking": "thinking", "signature": "signature"}


def _message(blocks: Sequence[Item]) -> list[Item]:
    kept = [b for b in blocks if b.get("type") != "text" or b.get("text")]
    return [{"role": "assistant", "content": kept}] if kept else []
