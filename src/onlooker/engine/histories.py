"""What hosts passed: the history that each passed last, and recent messages as they gave them.

    read_on      the part of a history that was not read yet
    Histories    the history that each host passed last, so that only its new part is read
    Originals    recent messages as hosts gave them: images, thinking, provider fields

`recording.py` stores what is new.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from onlooker.domain.frozen import frozen
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, MessageLike, extend_history_hash
from onlooker.domain.notes import Progress, State
from onlooker.policy.align import SentRange
from onlooker.policy.intake import as_chat, intake, intake_all, is_all_of, parts_in, size_of
from onlooker.policy.pace import in_thread_if_many

K = TypeVar("K")
V = TypeVar("V")


@frozen
class RecordedHistory:
    """A host's history, once it is recorded.

    `items` is the history as chat messages. `lead` and `preface` come before the conversation: system
    messages, then the host's own additions.
    `newest` is the history's newest message; the record may go on after it, if two programs speak at once.
    `retired` are the messages that the host took back. `state` is the session's, or enough of it for the
    budget, if it is known without loading it again. The rest is for the next call: `continues` is the last
    history, or the part of it that this one continues, and `earlier` are the lengths and hashes that
    `LastHistory` has.
    """

    items: list[MessageLike]
    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    history_hash: bytes
    state: State | None = None
    newest: Message | None = None
    retired: tuple[int, ...] = ()
    sent: SentRange | None = None
    continues: LastHistory | None = None
    earlier: Sequence[tuple[int, bytes]] = ()


# How many of its last items a history may change and still continue the last one.
MAX_CHANGED = 8


@frozen
class LastHistory:
    """The history that a host passed last: its items, the messages before the conversation, the record's hash
    after it, which part of the record it had, and its newest message. `earlier` has how long it is before
    each of its last items, with the record's hash there."""

    items: list[MessageLike]
    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    history_hash: bytes
    sent: SentRange | None = None
    newest: tuple[Message, ...] = ()
    size: int = 0  # in bytes, about
    earlier: tuple[tuple[int, bytes], ...] = ()

    def shared_with(self, items: Sequence[MessageLike]) -> LastHistory | None:
        """The longest part of this history that these items continue. Agents change their last messages, such
        as by moving the marks of a provider's cache to the new ones."""
        base = self.earlier[0][0] if self.earlier else len(self.items)
        if items[:base] != self.items[:base]:
            return None
        same = base
        while same < min(len(items), len(self.items)) and items[same] == self.items[same]:
            same += 1
        if same == len(self.items):
            return self
        reached = [i for i, (length, _) in enumerate(self.earlier) if length <= same]
        if not reached:
            return None
        length, history_hash = self.earlier[reached[-1]]
        size = self.size - sum(_copy(item)[1] for item in self.items[length:])
        return LastHistory(
            self.items[:length],
            self.lead,
            self.preface,
            history_hash,
            self.sent,
            size=size,
            earlier=self.earlier[: reached[-1]],
        )


@frozen
class UnreadPart:
    """The part of a history that was not read yet, and the record's hash before it. `items` is the whole
    history as chat messages; `continues` is the last one, or the part of it that this one continues."""

    items: list[MessageLike]
    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    messages: tuple[Message, ...]
    history_hash: bytes
    continues: LastHistory | None = None

    def after(self, progress: Progress) -> tuple[Message, ...] | None:
        """The messages after the recorded ones; None if the history does not continue from them."""
        history_hash = self.history_hash
        for i, message in enumerate(self.messages):
            if history_hash == progress.history_hash:
                return self.messages[i:]
            history_hash = extend_history_hash(history_hash, message.digest)
        return () if history_hash == progress.history_hash else None

    def earlier(self) -> list[tuple[int, bytes]]:
        """How long the history is before each of its last items that are read here, with the record's hash
        there."""
        hashes = [self.history_hash]
        for message in self.messages:
            hashes.append(extend_history_hash(hashes[-1], message.digest))
        known = len(self.continues.items) if self.continues else 0
        found: list[tuple[int, bytes]] = []
        left = len(self.messages)
        for length in range(len(self.items) - 1, max(known, len(self.items) - MAX_CHANGED) - 1, -1):
            item = self.items[length]
            left -= 1 if isinstance(item, Message) else parts_in(item)
            if left < (0 if self.continues else 1):
                break  # its first message decides what comes before the conversation
            found.append((length, hashes[left]))
        return found[::-1]


def read_on(given: Sequence[object], last: LastHistory | None, *, at: datetime, tz: tzinfo) -> UnreadPart:
    """Read the messages of a history that the last one did not have; all of them if it does not continue the
    last one, apart from a few items at its end. The messages before are only compared, at about 50 ns
    each."""
    known = len(last.items) if last else 0
    items = cast("list[MessageLike]", list(islice(given, known)))
    if last is not None and items == last.items:
        # Items that equal chat messages are chat messages. The list is copied once: of a long history, that
        # takes as long as comparing it.
        items += as_chat(given[known:], first=known)
    else:
        items = as_chat(given)
        last = last and last.shared_with(items)
    if last:
        known = len(last.items)
        new = intake_all(items[known:], at=at, tz=tz, first=known)
        return UnreadPart(items, last.lead, last.preface, new, last.history_hash, last)
    messages = intake_all(items, at=at, tz=tz)
    lead = 0
    while lead < len(messages) and messages[lead].role == "system":
        lead += 1
    return UnreadPart(items, messages[:lead], (), messages[lead:], EMPTY_HISTORY_HASH)


class Recent(Generic[K, V]):
    """The values that were used last, within a number of bytes. The newest stays, whatever its size."""

    def __init__(self, max_bytes: int) -> None:
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._max_bytes = max_bytes

    def get(self, key: K) -> V | None:
        """The value; it now counts as used."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value of about `size` bytes."""
        self.pop(key)
        self._values[key] = value, size
        self._bytes += size
        while self._bytes > self._max_bytes and len(self._values) > 1:
            self.pop(next(iter(self._values)))

    def pop(self, key: K) -> V | None:
        """Remove a value, and return it."""
        value, size = self._values.pop(key, (None, 0))
        self._bytes -= size
        return value

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


# Bytes of histories in all: a hundred conversations of some 80 messages. One that was dropped is read again.
MAX_HISTORY_BYTES = 8_000_000


class Histories:
    """The last history of each session, kept as copies so that changes in place are noticed.

    Beyond `max_bytes` in all, the least recently used sessions are dropped: their next history is read whole,
    once.
    """

    def __init__(self, max_bytes: int = MAX_HISTORY_BYTES) -> None:
        self._by_sid: Recent[str, LastHistory] = Recent(max_bytes)

    def last(self, sid: str) -> LastHistory | None:
        """The history that was passed last."""
        return self._by_sid.get(sid)

    async def keep(self, sid: str, recorded: RecordedHistory, *, is_own: bool = False) -> None:
        """Remember a history that is now recorded."""
        before = recorded.continues
        copies, size = (before.items, before.size) if before else ([], 0)
        earlier = (*(before.earlier if before else ()), *recorded.earlier)[-MAX_CHANGED:]
        rest = recorded.items[len(copies) :]
        copied = await in_thread_if_many(len(rest), lambda: [_copy(item) for item in rest])
        copies += rest if is_own else [copy for copy, _ in copied]
        size += sum(its_size for _, its_size in copied)
        newest = (recorded.newest,) if recorded.newest else ()
        seen = LastHistory(
            copies,
            recorded.lead,
            recorded.preface,
            recorded.history_hash,
            recorded.sent,
            newest,
            size,
            earlier,
        )
        self._by_sid.put(sid, seen, size)

    def drop(self, sid: str) -> LastHistory | None:
        """Drop the history of a session, and return it."""
        return self._by_sid.pop(sid)


# Keys of a message that are for Onlooker; a provider's API does not accept them.
OWN_KEYS = ("id", "created_at", "timestamp")


def with_originals(
    tail: Sequence[Message], items: Sequence[MessageLike], *, at: datetime, tz: tzinfo
) -> tuple[Message, ...]:
    """The tail with the host's original messages, images and provider fields included, matched from the
    end. Those that are a role and a text have no other original."""
    out = list(tail)
    left = len(out)
    for item in reversed(items):
        if not left:
            break
        if is_all_of(item, out[left - 1]):
            left -= 1
            continue
        given = intake(_for_provider(item), at=at, tz=tz)
        shown = out[max(0, left - len(given)) : left]
        if [_content(m) for m in shown] != [_content(m) for m in given]:
            break
        pairs = zip(shown, given, strict=True)
        out[left - len(given) : left] = [message.with_original(its.original) for message, its in pairs]
        left -= len(given)
    return tuple(out)


def _content(message: Message) -> tuple[object, ...]:
    """The fields that a message's digest covers."""
    return (message.role, message.text, message.calls, message.answers, message.attachments)


def _for_provider(item: MessageLike) -> MessageLike:
    if isinstance(item, Message):
        return item
    return {k: v for k, v in item.items() if k not in OWN_KEYS}


# Bytes that a message takes besides its text.
MESSAGE_BYTES = 300


def _copy(item: MessageLike) -> tuple[MessageLike, int]:
    """A copy that is safe from changes by the host, as cheap as the content allows, and its size."""
    if isinstance(item, Message):
        return item, MESSAGE_BYTES + len(item.text)
    if all(isinstance(v, str | int | float | None) for v in item.values()):
        return dict(item), MESSAGE_BYTES + sum(len(v) for v in item.values() if isinstance(v, str))
    copied = copy.deepcopy(dict(item))
    return copied, size_of(copied)


# How many of the last messages of an append may have an original: a tail has few more.
RECENT = 64
# Bytes of originals in all: some dozen images.
MAX_ORIGINAL_BYTES = 32_000_000


class Originals:
    """Recent messages as hosts gave them, if they have attachments or tool calls: what is stored of those
    lacks images, thinking and fields of a provider. Kept in this process alone, so that `context` sends them
    as they came, as `prepare` does.

    Beyond `max_bytes` those used longest ago are dropped; their messages go out as they are stored.
    """

    def __init__(self, max_bytes: int = MAX_ORIGINAL_BYTES) -> None:
        self._kept: Recent[tuple[str, str], tuple[Mapping[str, Any], int]] = Recent(max_bytes)

    def keep(self, sid: str, messages: Sequence[Message]) -> None:
        """Keep originals that have more than what is stored. The parts of one message of the host are kept
        together."""
        recent = [m for m in messages[-RECENT:] if m.original is not None]
        worth = {id(m.original): m.original for m in recent if m.attachments or m.calls}
        copies = {i: c for i, given in worth.items() if given and (c := _original(given))}
        for m in recent:
            if found := copies.get(id(m.original)):
                given, size = found
                self._kept.put((sid, m.id), (given, m.tokens), size)

    def restore(self, sid: str, tail: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages with their originals. One that was shortened to fit the budget stays short."""
        if not len(self._kept):
            return tail
        found = [self._kept.get((sid, m.id)) for m in tail]
        return tuple(
            replace(m, original=f[0]) if f and f[1] == m.tokens else m
            for m, f in zip(tail, found, strict=True)
        )

    def drop(self, sid: str) -> None:
        """Drop the messages of a session."""
        for key in [key for key in self._kept if key[0] == sid]:
            self._kept.pop(key)


def _original(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], int] | None:
    """A copy for the provider, and about how many bytes it takes."""
    try:
        copied = copy.deepcopy({k: v for k, v in given.items() if k not in OWN_KEYS})
    except Exception:  # noqa: BLE001  a host's message may contain anything
        return None
    return copied, size_of(copied)
