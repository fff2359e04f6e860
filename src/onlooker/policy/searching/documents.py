"""What of a message or a note can be found, and how it reads when it is."""

from __future__ import annotations

from functools import lru_cache

from onlooker.domain.messages import Message
from onlooker.policy.searching.words import tokens

# Arguments of one call that are shown and can be found: beyond that they are data.
MOST_ARGUMENTS = 2_000
KEPT_TEXTS = 4_096


def text_of(message: Message) -> str:
    """What a message says, its tool calls included."""
    calls = (f"→ {c.name}({c.arguments[:MOST_ARGUMENTS]})" for c in message.calls)
    return "\n".join(t for t in (message.body, *calls) if t)


@lru_cache(maxsize=KEPT_TEXTS)
def words_of(text: str) -> str:
    """The tokens of a text as an index keeps them, a space between them."""
    return " ".join(tokens(text))
