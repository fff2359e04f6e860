"""The built-in model, which writes notes without a language model."""

from __future__ import annotations

import asyncio

from onlooker.policy.pace import paced
from onlooker.ports import ObserveRequest, Reply, Request


class ExtractiveModel:
    """Writes notes out of the words that were said: no key, no network, no download."""

    name = "extractive"
    window = 1_000_000

    def compose(self, request: Request) -> str:
        """Return the note that a request asks for. It is the same in every process."""
        # Loaded with the first note: its word lists take longer to load than all the rest.
        from onlooker.models.extractive.compose import compose

        text = compose(request)
        if request.format != "stamped":
            return text
        from onlooker.policy.reply import with_times

        messages = request.messages if isinstance(request, ObserveRequest) else ()
        return with_times(text, messages, [note.text for note in request.notes])

    async def write(self, request: Request) -> Reply:
        """Write the note in a thread."""
        return Reply(await asyncio.to_thread(paced, self.compose, request))

    def close(self) -> None:
        """Release what writing needs, which here is nothing. Another note may be written later."""
