"""What hosts handed over last, so that the next history is read from where it goes on."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, MessageLike, extend_history_hash
from onlooker.domain.notes import Progress
from onlooker.policy.intake import intake, intake_all


@dataclass(frozen=True, slots=True)
class Seen:
    """A history as it was: its items, how many of them stand before the record, and the history hash of
    the conversation that it was then."""

    items: list[MessageLike]
    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    history_hash: bytes


@dataclass(frozen=True, slots=True)
class Unread:
    """The part of a history that has to be looked at, and the history hash of what lies before it."""

    lead: tuple[Message, ...]
    preface: tuple[Message, ...]
    messages: tuple[Message, ...]
    history_hash: bytes

    def after(self, progress: Progress | None) -> tuple[Message, ...] | None:
        """What follows the recorded conversation, where the history simply goes on from it; else None."""
        recorded = progress.history_hash if progress else EMPTY_HISTORY_HASH
        history_hash = self.history_hash
        for i, message in enumerate(self.messages):
            if history_hash == recorded:
                return self.messages[i:]
            history_hash = extend_history_hash(history_hash, message.digest)
        return () if history_hash == recorded else None


class Histories:
    """The latest history of each session, kept as copies so that a change in place is noticed.

    Comparing a history with the one before costs some 50 ns a message; reading, hashing and storing
    is done for what is new. Sessions used longest ago are dropped beyond `most` messages in all: the
    next history of such a session is read whole, once.
    """

    def __init__(self, most: int = 200_000) -> None:
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._count = 0
        self._most = most

    def unread(self, sid: str, items: Sequence[MessageLike], *, at: datetime, tz: tzinfo) -> Unread:
        """The history's messages that the last one did not have."""
        seen = self._seen.get(sid)
        if seen and list(items[: len(seen.items)]) == seen.items:
            known = len(seen.items)
            new = intake_all(list(items[known:]), at=at, tz=tz, first=known)
            return Unread(seen.lead, seen.preface, new, seen.history_hash)
        self.drop(sid)
        messages = intake_all(list(items), at=at, tz=tz)
        lead = 0
        while lead < len(messages) and messages[lead].role == "system":
            lead += 1
        return Unread(messages[:lead], (), messages[lead:], EMPTY_HISTORY_HASH)

    def keep(
        self,
        sid: str,
        items: Sequence[MessageLike],
        lead: tuple[Message, ...],
        preface: tuple[Message, ...],
        history_hash: bytes,
    ) -> None:
        """Remember the history that now is the recorded conversation."""
        old = self._seen.pop(sid, None)
        # Another call for the same session may have kept another history meanwhile.
        copies = old.items if old and list(items[: len(old.items)]) == old.items else []
        self._count += len(items) - (len(old.items) if old else 0)
        copies.extend(_copied(i) for i in items[len(copies) :])
        self._seen[sid] = Seen(copies, lead, preface, history_hash)
        while self._count > self._most and len(self._seen) > 1:
            self.drop(next(iter(self._seen)))

    def drop(self, sid: str) -> None:
        """Forget what was seen of a session."""
        seen = self._seen.pop(sid, None)
        if seen:
            self._count -= len(seen.items)


# What a host may tell us of a message and a provider's API does not know.
OURS = ("id", "created_at", "timestamp")


def with_originals(
    tail: Sequence[Message], items: Sequence[MessageLike], *, at: datetime, tz: tzinfo
) -> tuple[Message, ...]:
    """The tail as the host gave it, images and provider fields included, matched from its end."""
    given: list[Message] = []
    for item in reversed(items):
        given[:0] = intake(_for_provider(item), at=at, tz=tz)
        if len(given) >= len(tail):
            break
    out = list(tail)
    for back in range(1, min(len(tail), len(given)) + 1):
        if _content(tail[-back]) != _content(given[-back]):
            break
        out[-back] = replace(tail[-back], original=given[-back].original)
    return tuple(out)


def _content(message: Message) -> tuple[object, ...]:
    """What the digest of a message is made of."""
    return (message.role, message.text, message.calls, message.answers, message.attachments)


def _for_provider(item: MessageLike) -> MessageLike:
    if isinstance(item, Message):
        return item
    return {k: v for k, v in item.items() if k not in OURS}


def _copied(item: MessageLike) -> MessageLike:
    """A copy that does not change when the host changes its own, as cheap as its content allows."""
    if isinstance(item, Message):
        return item
    if all(isinstance(v, str | int | float | None) for v in item.values()):
        return dict(item)
    return copy.deepcopy(dict(item))
