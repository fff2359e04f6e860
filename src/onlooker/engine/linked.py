"""What a memory knows by meaning and by what ties notes together, and how far that is indexed."""

from __future__ import annotations

from collections.abc import Sequence

from onlooker.domain.messages import DEFAULT_OWNER, SessionId
from onlooker.domain.search import EDGE_KINDS, Edge, EdgeKind, Node
from onlooker.engine.core import Core
from onlooker.engine.indexing import IndexingStatus


class Linked:
    """The part of `Memory` that is about the graph and the indexes."""

    _core: Core

    async def graph(
        self,
        owner: str = DEFAULT_OWNER,
        *,
        session: str | None = None,
        entity: str | None = None,
        kinds: Sequence[EdgeKind] = EDGE_KINDS,
        limit: int = 10_000,
    ) -> Sequence[Edge]:
        """The graph of an owner's notes, as edges: which session each is in (`in_session`), which note it
        follows, which notes a reflection reflects on (`reflects_on`), and which names and ids each mentions.

        `session` is the key of one session; `entity` a name or an id, for the notes that mention it.
        """
        await self._core.ready()
        where = None if session is None else SessionId(owner, session)
        of = [] if entity is None else [Node("entity", entity)]
        return await self._core.store.edges(owner, of=of, session=where, kinds=kinds, limit=limit)

    async def index(self) -> int:
        """Index what the graph and the vectors lack before returning, rather than in the background; how
        many texts that were. One that fails shows in `indexing`."""
        await self._core.ready()
        return await self._core.indexing.catch_up()

    @property
    def indexing(self) -> IndexingStatus:
        """How indexing goes in this process: what waits, and what was dropped or failed and is left to the
        sweep."""
        return self._core.indexing.status
