"""Read requests of the chat proxy: of a conversation that is sent again, only what is new."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast

from onlooker.domain.frozen import frozen
from onlooker.wire import Conversation, Wire, without_injected

# Requests that are cached to compare the next ones with, and their bytes in all. If the one before was
# dropped, a request is read whole, once.
MAX_KEPT = 100
MAX_KEPT_BYTES = 8_000_000
# How many of a request's last items the next one may change and still continue it: agents mark their newest
# messages for the provider's cache, and remove the marks later.
MAX_CHANGED = 8


@frozen
class Kept:
    """A request to compare the next ones with. `start` are its bytes up to the end of its last item, and the
    first `first` of them come before its items. `ends` are where its last items end. `conversation` is made
    from its `items`."""

    owner: str
    wire: Wire
    start: bytes
    first: int
    ends: list[int]
    items: list[Any]
    conversation: Conversation

    def shared_with(self, raw: bytes) -> Kept | None:
        """The part of this request that another one begins with; None if more than a few of its last items
        differ."""
        if raw.startswith(self.start):
            return self
        # Most are other conversations, which differ near the beginning.
        probe = min(self.first + 1_000, self.ends[0])
        if raw[:probe] != self.start[:probe]:
            return None
        for changed, end in enumerate(reversed(self.ends[:-1]), 1):
            known = len(self.items) - changed
            part = self.conversation.part(known)
            if part is not None and raw.startswith(start := self.start[:end]):
                ends = self.ends[:-changed]
                return Kept(self.owner, self.wire, start, self.first, ends, self.items[:known], part)
        return None


@frozen
class Asked:
    """A request that was read. `start`, `first` and `ends` are as in `Kept`; `start` is empty if the next
    request has to be read whole. `continues` is the part of the earlier request that it begins with, and
    `replaces` is that request."""

    owner: str
    wire: Wire
    body: dict[str, Any]
    start: bytes = b""
    first: int = 0
    ends: Sequence[int] = ()
    continues: Kept | None = None
    replaces: Kept | None = None


class Requests:
    """Reads requests. A client sends its whole conversation with each of them: bytes that are the same as
    last time are not read again."""

    def __init__(self) -> None:
        self._kept: list[Kept] = []  # the newest first

    def read(self, owner: str, wire: Wire, raw: bytes) -> Asked | None:
        """The request; None if it is not a JSON object."""
        known = before = None
        for kept in self._kept:
            part = kept.shared_with(raw) if kept.owner == owner and kept.wire is wire else None
            if part and (known is None or len(part.start) > len(known.start)):
                known, before = part, kept
        try:
            text = _from_new(raw, known) if known else raw
            body, first, after = _read_object(text, wire.field)
        except (ValueError, RecursionError):
            whole = parsed(raw)
            return None if whole is None else Asked(owner, wire, whole)
        ends = [len(raw) - left for left in after]
        start = raw[: ends[-1]] if ends else b""
        if known:
            body[wire.field] = [*known.items, *body[wire.field]]
            ends, start = [*known.ends, *ends][-MAX_CHANGED:], start or known.start
        return Asked(owner, wire, body, start, first, ends, known, before)

    def conversation(self, asked: Asked, items: list[Any]) -> Conversation:
        """The conversation in the items of a request. It is cached for the next request."""
        known = asked.continues
        found = without_injected(
            items,
            system_is_injected=asked.wire.system_is_injected,
            before=known.conversation if known else None,
            first=len(known.items) if known else 0,
        )
        if asked.start:
            now = Kept(asked.owner, asked.wire, asked.start, asked.first, [*asked.ends], items, found)
            self._kept = [now, *(k for k in self._kept if k is not asked.replaces)][:MAX_KEPT]
            while len(self._kept) > 1 and sum(len(k.start) for k in self._kept) > MAX_KEPT_BYTES:
                self._kept.pop()
        return found


def _from_new(raw: bytes, known: Kept) -> bytes:
    """The request without the items that are known."""
    rest = raw[len(known.start) :].lstrip(_BLANKS)
    if rest.startswith(b"]"):
        return raw[: known.first] + rest
    new = rest[1:].lstrip(_BLANKS)
    if not rest.startswith(b",") or new.startswith(b"]"):
        raise ValueError
    return raw[: known.first] + new


_BLANKS = b" \t\n\r"
_blanks = re.compile(r"[ \t\n\r]*")
_value = json.JSONDecoder().raw_decode


def _read_object(raw: bytes, field: str) -> tuple[dict[str, Any], int, list[int]]:
    """A JSON object; how many bytes come before the items of its list `field`, and how many after each of its
    last items.

    Raises:
        ValueError: It has no such list, or two. Or it is not JSON, and `json` says what is wrong.
    """
    text = raw.decode("utf-8", "surrogatepass")
    found: dict[str, Any] = {}
    first, ends = 0, list[int]()

    def sign(at: int, wanted: str) -> tuple[str, int]:
        """The next character, which must be one of `wanted`, and the position after it and the blanks that
        follow."""
        at = cast("re.Match[str]", _blanks.match(text, at)).end()
        if not (it := text[at : at + 1]) or it not in wanted:
            raise ValueError
        return it, cast("re.Match[str]", _blanks.match(text, at + 1)).end()

    comes, at = sign(0, "{")
    while comes != "}":
        key, at = _value(text, at)
        _, at = sign(at, ":")
        if not isinstance(key, str) or (key == field and field in found):
            raise ValueError
        if key != field:
            found[key], at = _value(text, at)
        else:
            found[field] = items = list[Any]()
            comes, at = sign(at, "[")
            first = at
            if text.startswith("]", at):
                comes, at = "]", at + 1
            while comes != "]":
                item, end = _value(text, at)
                items.append(item)
                ends.append(end)
                comes, at = sign(end, ",]")
        comes, at = sign(at, ",}")
    if at != len(text) or not first:
        raise ValueError

    def size(part: str) -> int:
        return len(part.encode("utf-8", "surrogatepass"))

    return found, size(text[:first]), [size(text[end:]) for end in ends[-MAX_CHANGED:]]


def parsed(raw: bytes) -> dict[str, Any] | None:
    """A JSON object; None if it is something else."""
    try:
        found: object = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
