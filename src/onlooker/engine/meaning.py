"""What texts mean: vectors for the index, and for what is asked; and the graph of what notes mention."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from onlooker.domain.errors import OnlookerError
from onlooker.domain.search import Document
from onlooker.engine.searching import keep_findable
from onlooker.policy.search.graph import entities
from onlooker.policy.search.words import tokens
from onlooker.policy.values import mask
from onlooker.ports import Embedder, Store

log = logging.getLogger("onlooker")

# Of one text: what embedders take is bounded, and what a text is about is said at its beginning.
MOST_EMBEDDED = 6_000
# Sessions whose texts are made findable in one sweep.
MOST_SESSIONS = 100
# Queries whose vectors are kept, and for how long an embedder is left alone that failed to give one.
KEPT_QUERIES = 256
REST_SECONDS = 30.0


def embeddable(text: str) -> str:
    """What of a text is sent to an embedder: no secrets, and no more than it takes."""
    return mask(text)[:MOST_EMBEDDED]


@dataclass(frozen=True, slots=True)
class GraphIndex:
    """Finds what notes mention."""

    store: Store
    name: Literal["graph"] = "graph"

    async def take(self, documents: Sequence[Document]) -> int:
        found = await asyncio.to_thread(lambda: [(d, entities(d.text)) for d in documents])
        return await self.store.link(found)

    async def missing(self, limit: int) -> Sequence[Document]:
        return await self.store.unlinked(limit=limit)


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """Has vectors made of texts."""

    store: Store
    embedder: Embedder
    seconds: float  # for one batch
    name: Literal["vectors"] = "vectors"

    async def take(self, documents: Sequence[Document]) -> int:
        for session in dict.fromkeys(d.session for d in documents):
            await keep_findable(self.store, session)
        documents = [d for d in documents if tokens(d.text)]
        if not documents:
            return 0
        vectors = await self._embed(documents)
        return await self.store.add_vectors(self.embedder.name, vectors)

    async def missing(self, limit: int) -> Sequence[Document]:
        for session in await self.store.behind(limit=MOST_SESSIONS):
            await keep_findable(self.store, session)
        return await self.store.lacking(self.embedder.name, limit=limit)

    async def _embed(self, documents: Sequence[Document]) -> list[tuple[Document, Sequence[float]]]:
        try:
            return await self._asked(documents)
        except OnlookerError as error:
            if getattr(error, "kind", "") != "rejected" or not self.embedder.dimensions:
                raise
            if len(documents) > 1:
                # One of them is to blame, and must not keep the others out for ever.
                return [pair for d in documents for pair in await self._embed([d])]
            log.warning("%s: %s gets no vector: %s", documents[0].session.key, documents[0].id, error)
            # All zeros is close to nothing, and is not asked for again.
            return [(documents[0], [0.0] * self.embedder.dimensions)]

    async def _asked(self, documents: Sequence[Document]) -> list[tuple[Document, Sequence[float]]]:
        async with asyncio.timeout(self.seconds):
            vectors = await self.embedder.embed([embeddable(d.text) for d in documents])
        return list(zip(documents, vectors, strict=True))


class Meaning:
    """The vector of what is asked, or none: a search goes on without."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, tuple[float, ...]] = {}
        self._asking: dict[str, asyncio.Task[tuple[float, ...] | None]] = {}
        self._rest_until = 0.0

    @property
    def space(self) -> str:
        return self._embedder.name

    async def of(self, text: str, *, within: float) -> tuple[float, ...] | None:
        """The vector; None where the embedder fails, failed a moment ago, or takes longer than so many
        seconds. What comes late is kept for the next time that this is asked."""
        text = embeddable(text)
        if text in self._known:
            return self._known[text]
        if not tokens(text) or time.monotonic() < self._rest_until:
            return None
        task = self._asking.get(text)
        if task is None:
            task = self._asking[text] = asyncio.create_task(self._ask(text), name="onlooker query")
        done, _ = await asyncio.wait([task], timeout=within)
        return task.result() if done and not task.cancelled() else None

    async def _ask(self, text: str) -> tuple[float, ...] | None:
        try:
            vector = tuple((await self._embedder.embed([text]))[0])
        except Exception as error:  # noqa: BLE001  an embedder is anyone's code; a search goes on without
            log.warning("%s: searching by words alone: %s", self._embedder.name, error)
            self._rest_until = time.monotonic() + REST_SECONDS
            return None
        finally:
            del self._asking[text]
        self._known[text] = vector
        if len(self._known) > KEPT_QUERIES:
            del self._known[next(iter(self._known))]
        return vector

    async def stop(self) -> None:
        """Wait for nothing that was asked any more."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
