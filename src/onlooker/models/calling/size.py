"""How much a request holds."""

from __future__ import annotations

from onlooker.ports import ItemsRequest, ObserveRequest, Request


def size_of(request: Request) -> int:
    """Tokens of the messages or notes that are to be noted, as they were counted when recorded."""
    if isinstance(request, ObserveRequest):
        return sum(message.tokens for message in request.messages)
    said = request.messages if isinstance(request, ItemsRequest) else ()
    return sum(note.tokens for note in request.notes) + sum(message.tokens for message in said)
