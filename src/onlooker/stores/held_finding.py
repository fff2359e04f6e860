"""The part of `MemoryStore` that finds things again: by words, by meaning, by what they mention."""

from __future__ import annotations

from collections.abc import Sequence

from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import (
    EDGE_KINDS,
    Document,
    Edge,
    EdgeKind,
    IndexCoverage,
    Match,
    Node,
    Query,
    SearchResult,
    VectorQuery,
)
from onlooker.stores import held_index, held_search
from onlooker.stores.held import Held


class Finding:
    """Each method is one transaction, as none waits."""

    def __init__(self) -> None:
        self._index = held_index.HeldIndex()

    def _all(self) -> dict[SessionId, Held]:
        raise AssertionError("the store says what it holds")

    # -- by words

    async def search(self, query: Query) -> SearchResult:
        return held_search.search(self._all(), query)

    async def around(self, session: SessionId, seqs: Sequence[int], reach: int) -> Sequence[Message]:
        held = self._all().get(session)
        return held_search.around(held, seqs, max(reach, 0)) if held else []

    async def unindexed(
        self, owner: str, *, session: SessionId | None = None, limit: int = 100
    ) -> Sequence[SessionId]:
        self._all()
        return []  # everything is looked at

    async def index(self, session: SessionId, *, limit: int = 500) -> int:
        self._all()
        return 0

    # -- by meaning and mention

    async def behind(self, *, limit: int = 100) -> Sequence[SessionId]:
        self._all()
        return []  # everything is looked at

    async def lacking(self, space: str, *, limit: int = 100) -> Sequence[Document]:
        return self._index.lacking(self._all(), space, limit)

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        return self._index.add(self._all(), space, vectors)

    async def near(self, query: VectorQuery) -> Sequence[tuple[Match, float]]:
        return self._index.near(self._all(), query)

    async def unlinked(self, *, limit: int = 100) -> Sequence[Document]:
        return self._index.unlinked(self._all(), limit)

    async def link(self, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
        return self._index.link(self._all(), found)

    async def edges(
        self,
        owner: str,
        *,
        of: Sequence[Node] = (),
        session: SessionId | None = None,
        kinds: Sequence[EdgeKind] = EDGE_KINDS,
        limit: int = 10_000,
    ) -> Sequence[Edge]:
        return self._index.edges(self._all(), owner, of, session, kinds, limit)

    async def noted(self, wanted: Sequence[tuple[SessionId, str]]) -> Sequence[Match]:
        return held_index.noted(self._all(), wanted)

    async def coverage(self, space: str) -> IndexCoverage:
        return self._index.coverage(self._all(), space)
