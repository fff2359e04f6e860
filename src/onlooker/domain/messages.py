"""Messages, their tool calls, and the session that they belong to."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, date, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any, Literal, NamedTuple, Protocol

from onlooker.domain.frozen import frozen

Role = Literal["system", "user", "assistant", "tool"]

DEFAULT_OWNER = "default"

# The prefix of ids that Onlooker generates for messages without one. Alignment compares a host's own ids,
# but compares messages with generated ids by content.
GENERATED_ID_PREFIX = "onl_"

# Not the operating system's random source, which releases the interpreter lock: under load every `record`
# would wait to get it back. Our own generator, because hosts seed the shared one; reseeded after a fork.
_random = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_id(kind: str, at: datetime) -> str:
    """A readable id that sorts by time, such as `obs_20260216T090000000000_1f2e3d4c5b6a`."""
    return f"{kind}_{at.astimezone(UTC):%Y%m%dT%H%M%S%f}_{_random.getrandbits(48):012x}"


class SessionId(NamedTuple):
    """Identifies one conversation: its owner, and its key among that owner's sessions."""

    owner: str
    key: str

    @property
    def sid(self) -> str:
        """A 128-bit hash of owner and key, in hex: the session's key in every store."""
        return _sid(self)


@lru_cache(maxsize=1_024)  # a turn needs it eight times
def _sid(session: SessionId) -> str:
    # The owner's length comes first, so that ("a", "b:c") and ("a:b", "c") differ.
    text = f"{len(session.owner)}:{session.owner}:{session.key}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# Near the ends of Python's calendar, years 1 and 9999, adding a week fails. Such a time is a placeholder:
# Go's zero time is in year 1, and databases have 9999 for "never".
_FIRST_YEAR, _LAST_YEAR = 1000, 8999


def is_real(day: date) -> bool:
    """Return whether something can have happened then, and days can be added to it."""
    return _FIRST_YEAR <= day.year <= _LAST_YEAR


@frozen
class ToolCall:
    """A tool call of the assistant. `arguments` is JSON text, as the provider gave it."""

    id: str
    name: str
    arguments: str = "{}"


@frozen
class Message:
    """One message. Never edited.

    `seq` and `tokens` are set when the message is recorded, as are `id` and `at` if the host gave none.
    `attachments` are placeholders such as ``[image 3f2a91: image/png]``; the bytes stay with the host.
    """

    role: Role
    text: str = ""
    id: str = ""
    at: datetime | None = None
    name: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""  # in a tool message: the id of the call that it answers
    attachments: tuple[str, ...] = ()
    seq: int = 0
    tokens: int = 0
    # The message as the host gave it, kept in this process and never stored: `prepare` returns the tail
    # unchanged, images and provider fields included.
    original: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def digest(self) -> bytes:
        """A 16-byte hash of the content. Equal for equal messages, whatever their ids and times."""
        if self.calls or self.answers or self.attachments:
            calls = [[c.id, c.name, c.arguments] for c in self.calls]
            body = json.dumps([self.role, self.text, calls, self.answers, self.attachments])
        else:  # the same bytes in a third of the time
            role, text = encode_basestring_ascii(self.role), encode_basestring_ascii(self.text)
            body = f'[{role}, {text}, [], "", []]'
        return hashlib.blake2b(body.encode(), digest_size=16).digest()

    def with_seq(self, seq: int) -> Message:
        """Return the message with this sequence number."""
        # Positional arguments are faster than `replace`, and this runs for every message.
        # fmt: off
        return Message(
            self.role, self.text, self.id, self.at, self.name, self.calls, self.answers, self.attachments,
            seq, self.tokens, self.original,
        )
        # fmt: on

    def with_original(self, original: Mapping[str, Any] | None) -> Message:
        """Return the message with what the host gave for it."""
        # fmt: off
        return Message(
            self.role, self.text, self.id, self.at, self.name, self.calls, self.answers, self.attachments,
            self.seq, self.tokens, original,
        )
        # fmt: on

    @property
    def body(self) -> str:
        """The text and the attachment placeholders, as shown in a prompt."""
        if not self.attachments:
            return self.text
        return "\n".join((self.text, *self.attachments) if self.text else self.attachments)

    @property
    def speaker(self) -> str:
        """The name, or the role if there is no name."""
        return self.name or self.role


# A message in our form, or as a mapping in the form of OpenAI or Anthropic.
MessageLike = Message | Mapping[str, Any]


class SdkMessage(Protocol):
    """A message as an SDK returns it: a Pydantic model."""

    @property
    def model_dump(self) -> Callable[..., dict[str, Any]]: ...


EMPTY_HISTORY_HASH = b""


def extend_history_hash(history_hash: bytes, digest: bytes) -> bytes:
    """Return the hash of a conversation extended by one message.

    Two conversations with the same hash are equal from the first message to the last, so `prepare`
    recognises a history of any length with one comparison.
    """
    return hashlib.blake2b(history_hash + digest, digest_size=16).digest()


# ------------------------------------------------------------------------------------ conversations


def groups(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Split a conversation into groups that must stay together.

    A call stays with the results that directly follow it. Every other message is a group of its own, even
    a result that does not follow its call.
    """
    i = 0
    while i < len(messages):
        end = i + 1
        if not messages[i].calls:
            yield (messages[i],)
            i = end
            continue
        open_calls = {c.id for c in messages[i].calls}
        while end < len(messages) and messages[end].role == "tool" and messages[end].answers in open_calls:
            open_calls.discard(messages[end].answers)
            end += 1
        yield tuple(messages[i:end])
        i = end


def newest_group(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the last of the groups; empty if there are no messages."""
    # Every message but a result begins a group.
    start = len(messages) - 1
    while start > 0 and messages[start].role == "tool":
        start -= 1
    return tuple(groups(messages[max(0, start) :]))[-1] if messages else ()


def is_open(group: Sequence[Message]) -> bool:
    """Return whether a call in the group has no result yet."""
    return {c.id for c in group[0].calls} > {m.answers for m in group[1:]}


def tokens_of(messages: Sequence[Message]) -> int:
    return sum([m.tokens for m in messages])  # a list, since a generator takes twice as long


def last_question(messages: Sequence[Message]) -> str:
    """Return the text of the last user message."""
    return next((m.text for m in reversed(messages) if m.role == "user" and m.text), "")
