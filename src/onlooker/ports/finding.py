"""A store's part for finding things again: by words, by meaning, by what they mention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onlooker.domain.graph import EDGE_KINDS, Edge, EdgeKind, Node
from onlooker.domain.indexing import Coverage, Document, Near
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.search import Found, Match, Query


class Search(Protocol):
    """Full text."""

    async def search(self, query: Query) -> Found:
        """The texts that are worth reading for a query: the conversation as it stands (`message`), without
        the summaries that compaction put in, or active notes (`note`). Only what is indexed is found.

        They are chosen by `policy.searching.ranking.shortlist`, and so the same in every store.
        """
        ...

    async def around(self, session: SessionId, seqs: Sequence[int], reach: int) -> Sequence[Message]:
        """The messages of the conversation at these seqs and up to `reach` from one, in order, each once;
        summaries that compaction put in are left out."""
        ...

    async def unindexed(
        self, owner: str, *, session: SessionId | None = None, limit: int = 100
    ) -> Sequence[SessionId]:
        """Sessions of the owner, or the one, that hold something which `search` cannot find yet."""
        ...

    async def index(self, session: SessionId, *, limit: int = 500) -> int:
        """Let `search` find what it cannot find yet, the oldest first; how many texts those were. As many
        as `limit`: there may be more. What is deleted or taken back leaves the index by itself."""
        ...


class Meaning(Protocol):
    """Vectors, and the graph of notes."""

    async def behind(self, *, limit: int = 100) -> Sequence[SessionId]:
        """Sessions of any owner that hold something which `search` cannot find yet: no vector is looked for
        where nothing is found."""
        ...

    async def lacking(self, space: str, *, limit: int = 100) -> Sequence[Document]:
        """Texts that `search` finds, of any owner, and that have no vector of this embedder."""
        ...

    async def add_vectors(self, space: str, vectors: Sequence[tuple[Document, Sequence[float]]]) -> int:
        """Keep the vectors of texts that still say the same; how many those were. A vector leaves with its
        text. Where vectors of the embedder have another size by now, all of before are dropped."""
        ...

    async def near(self, query: Near) -> Sequence[tuple[Match, float]]:
        """The texts whose vectors are closest, best first, each with the cosine, which is above 0.

        They are chosen by `policy.searching.vectors`, and so the same in every store.
        """
        ...

    async def unlinked(self, *, limit: int = 100) -> Sequence[Document]:
        """Notes, of any owner and status, whose mentions are not known yet."""
        ...

    async def link(self, found: Sequence[tuple[Document, Sequence[str]]]) -> int:
        """Keep what notes mention, of those that still say the same; how many those were. Mentions leave
        with their note, and an entity with the last note that mentions it."""
        ...

    async def edges(
        self,
        owner: str,
        *,
        of: Sequence[Node] = (),
        session: SessionId | None = None,
        kinds: Sequence[EdgeKind] = EDGE_KINDS,
        limit: int = 10_000,
    ) -> Sequence[Edge]:
        """Edges between an owner's notes, active and superseded, and their sessions and entities; those of
        one session, or those that begin or end at one of the nodes, where such are named. Spelling and case
        of an entity do not matter."""
        ...

    async def noted(self, wanted: Sequence[tuple[SessionId, str]]) -> Sequence[Match]:
        """Active notes by their ids, in that order, as what was found."""
        ...

    async def coverage(self, space: str) -> Coverage:
        """How much is indexed, of all owners."""
        ...
