"""Further rankings beside that of words: what means the same, and what is tied to what was found."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from onlooker.domain.errors import StoreError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Note
from onlooker.domain.search import Edge, EdgeKind, HitKind, Match, Node, VectorQuery, note_node
from onlooker.policy.search import graph as linking
from onlooker.ports import Store

if TYPE_CHECKING:
    from onlooker.engine.meaning import Meaning

log = logging.getLogger("onlooker")

# How long an embedder may take for what a person or an agent looks for.
SEARCH_SECONDS = 5.0
_PASSING: tuple[EdgeKind, ...] = tuple(linking.PASSED_ON)


class Nearness:
    """Asks for the vector of a text at once, and for what is close to it when that has come: the words are
    looked up meanwhile."""

    def __init__(self, store: Store, meaning: Meaning | None, text: str, *, within: float) -> None:
        self._store = store
        self._meaning = meaning
        self._vector = asyncio.ensure_future(meaning.of(text, within=within)) if meaning else None

    async def ranked(
        self,
        owner: str,
        kind: HitKind,
        session: SessionId | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        *,
        most: int,
    ) -> list[Match]:
        """Texts that mean about the same, best first; none where nobody can say."""
        if self._meaning is None or self._vector is None:
            return []
        vector = await self._vector
        if vector is None:
            return []
        query = VectorQuery(owner, kind, self._meaning.space, vector, session, after, before, most)
        return [match for match, _ in await self._store.near(query)]


async def tied(
    store: Store, owner: str, session: SessionId | None, found: Sequence[Match], most: int
) -> list[Match]:
    """Notes that mention what the best of those that were found mention, or what the notes mention that
    those condense: much of that stands in no reflection any more."""
    notes = [m for m in found if m.kind == "note"][: linking.MOST_SEEDS]
    seeds = {note_node(m.session, m.id): 1 / place for place, m in enumerate(notes, 1)}
    if not seeds:
        return []
    try:
        condensed = await store.edges(owner, of=list(seeds), session=session, kinds=("reflects_on",))
        seeds = linking.with_sources(seeds, condensed)
        best = await _tied(store, owner, session, seeds, ("mentions",))
        # Those of before lead somewhere, and are nothing to be found themselves.
        wanted = [(n.session, n.name) for n in best if n.session]
        return list(await store.noted(wanted))[:most]
    except StoreError as error:
        # What was found by words is an answer without it.
        log.warning("searching without the graph: %s", error)
        return []


async def neighbours(store: Store, session: SessionId, note: str) -> list[Note]:
    """Notes of the owner that are tied to a note, the closest first."""
    statuses = ("active", "superseded")
    if note not in {n.id for n in await store.notes(session, statuses=statuses)}:
        raise KeyError(note)
    found = await _tied(store, session.owner, None, {note_node(session, note): 1.0}, _PASSING)
    sessions = dict.fromkeys(n.session for n in found if n.session)
    known = {(s, n.id): n for s in sessions for n in await store.notes(s, statuses=statuses)}
    return [known[n.session, n.name] for n in found if n.session and (n.session, n.name) in known]


async def _tied(
    store: Store,
    owner: str,
    session: SessionId | None,
    seeds: Mapping[Node, float],
    kinds: Sequence[EdgeKind],
) -> list[Node]:
    edges = list(await store.edges(owner, of=list(seeds), session=session, kinds=kinds))
    names = list(dict.fromkeys(e.target for e in edges if e.kind == "mentions"))
    return linking.rank_related(seeds, [*edges, *await _holders(store, owner, session, names)])


async def _holders(store: Store, owner: str, session: SessionId | None, names: Sequence[Node]) -> list[Edge]:
    if not names:
        return []
    # One more than may count, so that what everyone mentions shows.
    most = (linking.MOST_HOLDERS + 1) * len(names)
    return list(await store.edges(owner, of=names, session=session, kinds=("mentions",), limit=most))


def as_one(*rankings: Sequence[Match]) -> list[list[Match]]:
    """The rankings, with one match for each text, whichever of them found it."""
    known: dict[tuple[HitKind, SessionId, str], Match] = {}
    return [[known.setdefault((m.kind, m.session, m.id), m) for m in ranking] for ranking in rankings]
