"""The model as the engine sees it."""

from __future__ import annotations

import asyncio

from onlooker.ports import Reply, Request


class ExtractiveModel:
    """Writes notes out of the words that were said: no key, no network, no download.

    Its answer depends on the request alone, and is the same in every process.
    """

    name = "extractive"
    window = 10_000_000

    async def write(self, request: Request) -> Reply:
        """Answer the request on a thread of its own."""
        return Reply(await asyncio.to_thread(self.compose, request))

    def compose(self, request: Request) -> str:
        """The note, on the spot."""
        # With the first note, and not when the package is imported: its patterns take a while to compile.
        from onlooker.models.extractive.composing import compose

        return compose(request)
