"""Anthropic's SDK with memory.

client = with_memory(Anthropic(), "agent.db", session="telegram:42")
"""

from __future__ import annotations

from typing import TypeVar

from anthropic import Anthropic, AsyncAnthropic

from onlooker.integrations import sdk
from onlooker.integrations.host import AnyMemory

C = TypeVar("C", bound=Anthropic | AsyncAnthropic)


def with_memory(
    client: C, memory: AnyMemory, *, session: str = "", owner: str = "", budget: int | None = None
) -> C:
    """A client that remembers: messages, streams and tools included.

    Send the whole conversation with each request, or a part of it, or only what is new. What is new is
    recorded, and the request goes out with memory and the newest messages. The answer is recorded as well.

    Args:
        client: The client to send with, blocking or async. It stays as it is.
        memory: A file or a URL, so that the model of the requests writes the notes as well; or what
            `onlooker.open_memory` or `onlooker.blocking.open_memory` returned.
        session: The conversation. `onlooker.use_session` names another one for what is called inside it, and
            the header `x-onlooker-session` for one request. With none, a request has no memory.
        owner: Whose conversation it is.
        budget: Tokens for a prompt; by default the memory's own.
    """
    return sdk.with_memory(client, memory, provider="anthropic", session=session, owner=owner, budget=budget)
