"""What was said: messages, tool calls, and the session that they belong to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from json.encoder import encode_basestring_ascii
from typing import Any, Literal, NamedTuple

Role = Literal["system", "user", "assistant", "tool"]

DEFAULT_OWNER = "default"

# An id that we gave. Hosts' own ids are compared as they are; one of ours says nothing about the
# host's message, so alignment goes by content there.
GENERATED_ID_PREFIX = "onl_"


class SessionId(NamedTuple):
    """One conversation: the owner whose memory it shares, and its key."""

    owner: str
    key: str

    @property
    def sid(self) -> str:
        """128 bits of owner and key: what stands for the session in every store."""
        # The owner's length stands first, so that ("a", "b:c") and ("a:b", "c") differ.
        text = f"{len(self.owner)}:{self.owner}:{self.key}"
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the assistant made. `arguments` is the JSON text as the provider gave it."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class Message:
    """One message, never edited.

    `seq`, `tokens` and (where the host gave none) `id` and `at` are filled in when it is recorded.
    `attachments` are placeholders such as ``[image 3f2a91: image/png]``; the bytes stay with the host.
    """

    role: Role
    text: str = ""
    id: str = ""
    at: datetime | None = None
    name: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""  # for a tool message: the id of the call that it answers
    attachments: tuple[str, ...] = ()
    seq: int = 0
    tokens: int = 0
    # The host's own form, for as long as this process holds it (never stored): `prepare` hands the
    # tail back exactly as the host gave it, images and provider fields included.
    original: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def digest(self) -> bytes:
        """16 bytes that say whether two messages say the same, whatever their ids and times."""
        if self.calls or self.answers or self.attachments:
            calls = [[c.id, c.name, c.arguments] for c in self.calls]
            body = json.dumps([self.role, self.text, calls, self.answers, self.attachments])
        else:  # the same in a third of the time
            role, text = encode_basestring_ascii(self.role), encode_basestring_ascii(self.text)
            body = f'[{role}, {text}, [], "", []]'
        return hashlib.blake2b(body.encode(), digest_size=16).digest()

    def with_seq(self, seq: int) -> Message:
        """The message as the one of that number in its session."""
        # By place, which is quicker than `replace`: this runs for every message.
        # fmt: off
        return Message(
            self.role, self.text, self.id, self.at, self.name, self.calls, self.answers, self.attachments,
            seq, self.tokens, self.original,
        )
        # fmt: on

    @property
    def body(self) -> str:
        """The text with its placeholders, as it stands in a prompt."""
        return "\n".join((self.text, *self.attachments) if self.text else self.attachments)

    @property
    def speaker(self) -> str:
        """Who said it: the name where there is one, else the role."""
        return self.name or self.role


# A message in our form, or as a mapping in the form of OpenAI or Anthropic.
MessageLike = Message | Mapping[str, Any]


EMPTY_HISTORY_HASH = b""


def extend_history_hash(history_hash: bytes, digest: bytes) -> bytes:
    """The hash of a conversation that goes on with one more message.

    Two conversations with the same hash are the same from the first message to the last, which is
    what lets `prepare` recognise a history of any length by one comparison.
    """
    return hashlib.blake2b(history_hash + digest, digest_size=16).digest()
