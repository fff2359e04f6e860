"""Vectors and the graph: what lacks them, what is close and what is tied, and what leaves with its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import SessionId
from onlooker.domain.search import Document, EdgeKind, HitKind, Node, VectorQuery, note_node
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, BEN, StoreCase, later, note, said, talk

OTHER = SessionId("ana", "slack:1")
SPACE = "test:three"
Vector = tuple[float, ...]
NORTH, EAST, UP = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
NORTH_EAST = (0.8, 0.6, 0.0)
# What each text of these tests is close to.
MEANINGS = {"north": NORTH, "east": EAST, "up": UP, "between": NORTH_EAST}


def meaning(text: str) -> Vector:
    return next((v for word, v in MEANINGS.items() if text.startswith(word)), (-1.0, -1.0, -1.0))


class IndexContract(StoreCase):
    async def lacking(self, store: Store, space: str = SPACE, limit: int = 100) -> list[Document]:
        for session in await store.behind():
            await store.index(session)
        return list(await store.lacking(space, limit=limit))

    async def embed(self, store: Store, space: str = SPACE) -> int:
        """Give every text its vector."""
        lacking = await self.lacking(store, space)
        return await store.add_vectors(space, [(d, meaning(d.text)) for d in lacking])

    async def near(
        self,
        store: Store,
        vector: Vector,
        kind: HitKind = "message",
        owner: str = "ana",
        session: SessionId | None = None,
        **more: Any,
    ) -> list[str]:
        query = VectorQuery(owner, kind, more.pop("space", SPACE), vector, session, **more)
        return [m.id for m, _ in await store.near(query)]

    async def link(self, store: Store) -> int:
        """Let each note mention its words with a capital."""
        found = [(d, [w for w in d.text.split() if w[0].isupper()]) for d in await store.unlinked()]
        return await store.link(found)

    async def tied(
        self, store: Store, kinds: Sequence[EdgeKind], owner: str = "ana", **more: Any
    ) -> set[tuple[str, str, str]]:
        found = await store.edges(owner, kinds=kinds, **more)
        return {(e.source.name, e.kind, e.target.name) for e in found}

    # -- vectors

    async def test_what_is_close_is_found_best_first(self, store: Store) -> None:
        await self.record(
            store, said("a", "east"), said("b", "between"), said("c", "north"), said("d", "away")
        )
        await self.commit(store, note("o1", 1, 2, text="north note"))
        assert await self.embed(store) == 5
        store = await self.reopen(store)
        assert await self.near(store, NORTH) == ["c", "b"]
        assert await self.near(store, (2.0, 3.0, 0.0)) == ["b", "a", "c"]
        assert await self.near(store, EAST, most=1) == ["a"]
        assert await self.near(store, NORTH, kind="note") == ["o1"]
        found = await store.near(VectorQuery("ana", "message", SPACE, NORTH))
        assert [round(cosine, 5) for _, cosine in found] == [1.0, 0.8]
        match = found[0][0]
        assert (match.kind, match.session, match.seq, match.text) == ("message", ANA, 3, "north")

    async def test_what_lacks_a_vector_is_known_until_it_has_one(self, store: Store) -> None:
        await self.record(store, said("a", "north"), said("b", "east"), said("c", "…"))
        assert [d.id for d in await self.lacking(store, limit=1)] == ["a"]
        lacking = await self.lacking(store)
        assert [(d.kind, d.session, d.text) for d in lacking] == [
            ("message", ANA, "north"),
            ("message", ANA, "east"),
        ]
        assert await store.add_vectors(SPACE, [(lacking[1], EAST)]) == 1
        assert [d.id for d in await self.lacking(store)] == ["a"]
        assert await store.add_vectors(SPACE, [(lacking[0], NORTH)]) == 1
        assert await self.lacking(store) == []
        await self.record(store, said("d", "up"), session=BEN)
        assert [(d.session, d.id) for d in await self.lacking(store)] == [(BEN, "d")]
        assert await store.add_vectors(SPACE, []) == 0
        coverage = await store.coverage(SPACE)
        assert (coverage.texts, coverage.vectors) == (3, 2)

    async def test_nothing_of_another_owner_or_session_is_close(self, store: Store) -> None:
        await self.record(store, said("a", "north"))
        await self.record(store, said("b", "north"), session=OTHER)
        await self.record(store, said("c", "north"), session=BEN)
        await self.embed(store)
        assert sorted(await self.near(store, NORTH)) == ["a", "b"]
        assert await self.near(store, NORTH, session=OTHER) == ["b"]
        assert await self.near(store, NORTH, owner="ben") == ["c"]
        assert await self.near(store, NORTH, owner="be") == []
        with pytest.raises(SettingsError):
            await self.near(store, NORTH, session=BEN)

    async def test_what_is_close_can_be_asked_for_by_time(self, store: Store) -> None:
        await self.record(store, *(said(f"m{n}", f"north {n}", at=later(n)) for n in range(5)))
        await self.embed(store)
        found = await self.near(store, NORTH, after=later(1), before=later(3))
        assert sorted(found) == ["m1", "m2"]

    async def test_two_embedders_are_never_compared(self, store: Store) -> None:
        await self.record(store, said("a", "north"))
        await self.embed(store)
        assert [d.id for d in await self.lacking(store, "test:other")] == ["a"]
        assert await self.near(store, NORTH, space="test:other") == []
        await self.embed(store, "test:other")
        assert await self.near(store, NORTH, space="test:other") == ["a"]
        assert await self.near(store, NORTH) == ["a"]

    async def test_an_embedder_whose_vectors_change_their_size_begins_anew(self, store: Store) -> None:
        await self.record(store, said("a", "north"), said("b", "east"))
        await self.embed(store)
        first = Document("message", ANA, "a", "north")
        assert await store.add_vectors(SPACE, [(first, (1.0, 0.0))]) == 1
        assert await self.near(store, NORTH) == []
        assert await self.near(store, (1.0, 0.0)) == ["a"]
        assert [d.id for d in await self.lacking(store)] == ["b"]

    async def test_a_vector_leaves_with_its_text(self, store: Store) -> None:
        await self.record(store, said("a", "north"), said("b", "north too"), said("c", "north as well"))
        await self.commit(store, note("o1", 1, 1, text="north note"))
        stale = (await self.lacking(store))[0]
        await self.embed(store)
        await self.realign(store, 1, said("b", "east"))
        assert await self.near(store, NORTH) == ["a"]
        await store.edit(ANA, "o1", "east note", tokens=2, by="ana", now=later(9))
        assert await self.near(store, NORTH, kind="note") == []
        assert sorted(d.id for d in await self.lacking(store)) == ["b", "o1"]
        await store.delete_session(ANA)
        assert await self.near(store, NORTH) == []
        assert await store.add_vectors(SPACE, [(stale, NORTH)]) == 0
        await self.record(store, said("a", "up"), said("z", "north again"))
        assert [d.id for d in await self.lacking(store)] == ["a", "z"]
        assert await store.add_vectors(SPACE, [(stale, NORTH)]) == 0  # another text by now
        await self.embed(store)
        assert await self.near(store, NORTH) == ["z"]

    async def test_the_likely_ones_of_many_are_compared_in_full(self, store: Store) -> None:
        many = 1200
        await self.record(store, *(said(f"m{n}", f"word {n}") for n in range(many)))
        while await store.behind():
            await store.index(ANA)
        lacking = await self.lacking(store, limit=many)
        # All in one corner, so that signs tell the few that are not apart.
        vectors = {d.id: (0.1, 1.0 + n / many, -0.5) for n, d in enumerate(lacking)}
        vectors["m7"], vectors["m8"] = (1.0, 0.2, 0.2), (1.0, 0.1, 0.1)
        assert await store.add_vectors(SPACE, [(d, vectors[d.id]) for d in lacking]) == many
        assert (await self.near(store, (1.0, 0.01, 0.01)))[:2] == ["m8", "m7"]
        assert await self.lacking(store) == []

    # -- the graph

    async def test_notes_are_tied_by_what_they_are(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("o1", 1, 2), note("o3", 3, 4))
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"])
        await self.commit(store, r1, supersede=("o1", "o3"))
        await self.commit(store, note("o5", 5, 6, status="buffered"))
        assert await self.tied(store, ("in_session",)) == {
            (n, "in_session", ANA.key) for n in ("o1", "o3", "r1")
        }
        assert await self.tied(store, ("follows",)) == {("o3", "follows", "o1")}
        assert await self.tied(store, ("reflects_on",)) == {
            ("r1", "reflects_on", "o1"),
            ("r1", "reflects_on", "o3"),
        }
        of = [note_node(ANA, "o1")]
        assert await self.tied(store, ("follows", "reflects_on"), of=of) == {
            ("o3", "follows", "o1"),
            ("r1", "reflects_on", "o1"),
        }
        assert await self.tied(store, ("in_session",), owner="ben") == set()

    async def test_notes_are_tied_by_what_they_mention(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.commit(store, note("o1", 1, 2, text="moved to Oslo with Ana"))
        await self.commit(store, note("o3", 3, 4, text="left OSLO"))
        assert await self.link(store) == 2
        assert list(await store.unlinked()) == []
        store = await self.reopen(store)
        assert await self.tied(store, ("mentions",), of=[note_node(ANA, "o1")]) == {
            ("o1", "mentions", "Oslo"),
            ("o1", "mentions", "Ana"),
        }
        oslo = [Node("entity", "oslo")]
        assert await self.tied(store, ("mentions",), of=oslo) == {
            ("o1", "mentions", "Oslo"),
            ("o3", "mentions", "Oslo"),
        }
        assert len(await store.edges("ana", kinds=("mentions",), limit=2)) == 2
        coverage = await store.coverage(SPACE)
        assert (coverage.notes, coverage.linked) == (2, 2)

    async def test_no_edge_leads_to_another_owner_or_out_of_the_session(self, store: Store) -> None:
        for session in (ANA, OTHER, BEN):
            await self.record(store, *talk(1, 2), session=session)
            await self.commit(store, note(f"o {session.key[0]}", 1, 2, text="in Oslo"), session=session)
        await self.link(store)
        oslo = [Node("entity", "Oslo")]
        assert len(await store.edges("ana", of=oslo)) == 2
        assert [e.source.session for e in await store.edges("ana", of=oslo, session=OTHER)] == [OTHER]
        assert [e.source.session for e in await store.edges("ben", of=oslo)] == [BEN]
        assert list(await store.edges("ben", of=[note_node(ANA, "o t")])) == []
        assert {e.source.session for e in await store.edges("ana")} == {ANA, OTHER}
        with pytest.raises(SettingsError):
            await store.edges("ana", session=BEN)

    async def test_mentions_leave_with_their_note(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.commit(store, note("o1", 1, 2, text="in Oslo"), note("o3", 3, 4, text="in Bergen"))
        stale = (await store.unlinked())[0]
        await self.link(store)
        await store.edit(ANA, "o1", "in Tromsø", tokens=2, by="ana", now=later(9))
        assert await self.tied(store, ("mentions",)) == {("o3", "mentions", "Bergen")}
        assert [d.text for d in await store.unlinked()] == ["in Tromsø"]
        assert await store.link([(stale, ["Oslo"])]) == 0
        await self.link(store)
        assert ("o1", "mentions", "Tromsø") in await self.tied(store, ("mentions",))
        await store.delete_notes(ANA)
        assert await self.tied(store, ("mentions", "in_session")) == set()
        assert list(await store.edges("ana", of=[Node("entity", "Bergen")])) == []

    async def test_notes_are_read_by_their_ids(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.commit(store, note("o1", 1, 2, text="one"), note("o3", 3, 4, status="buffered"))
        wanted = [(ANA, "o1"), (ANA, "o3"), (ANA, "none"), (BEN, "o1")]
        found = await store.noted(wanted)
        assert [(m.kind, m.session, m.id, m.seq, m.text) for m in found] == [("note", ANA, "o1", 1, "one")]
        await self.commit(store, note("r1", 1, 2, generation=1, sources=["o1"]), supersede=("o1",))
        assert [m.id for m in await store.noted([*wanted, (ANA, "r1")])] == ["r1"]
