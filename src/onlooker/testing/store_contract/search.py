"""Search: the full-text index, vectors and the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import SessionId, ToolCall
from onlooker.domain.search import (
    Document,
    EdgeKind,
    Node,
    Query,
    SearchResult,
    TextKind,
    VectorQuery,
    note_node,
)
from onlooker.policy.search.words import query_tokens
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, BEN, NOW, StoreCase, later, note, said, seqs, talk

OTHER = SessionId("ana", "slack:1")


class SearchContract(StoreCase):
    async def find(
        self,
        store: Store,
        text: str,
        kind: TextKind = "message",
        session: SessionId | None = ANA,
        owner: str = "ana",
        **more: Any,
    ) -> SearchResult:
        """Everything that holds a word of the text, indexed first."""
        for behind in await store.unindexed(owner, session=session):
            assert await store.index(behind) < 500
        return await store.search(Query(owner, kind, dict.fromkeys(query_tokens(text), 1.0), session, **more))

    async def found(self, store: Store, text: str, **more: Any) -> list[str]:
        return sorted(m.id for m in (await self.find(store, text, **more)).matches)

    async def test_messages_are_found_by_their_words_in_any_form(self, store: Store) -> None:
        await self.record(
            store,
            said("a", "We hiked up to the café", name="Ana", at=later(1)),
            said("b", "我住在奥斯陆"),
            said("c", "see src/app/main.py", calls=(ToolCall("x", "read_file", '{"path": "a.toml"}'),)),
            said("d", "nothing of that \x00 \ud800"),
        )
        store = await self.reopen(store)
        assert await self.found(store, "hiking") == ["a"]
        assert await self.found(store, "CAFE") == ["a"]
        assert await self.found(store, "奥斯陆") == ["b"]
        assert await self.found(store, "住") == ["b"]
        assert await self.found(store, "main.py") == ["c"]
        assert await self.found(store, "read_file") == ["c"]
        assert await self.found(store, "a.toml or cafés") == ["a", "c"]
        assert await self.found(store, "elsewhere") == []
        assert await self.found(store, '" OR * NEAR(') == []
        match = (await self.find(store, "café")).matches[0]
        assert (match.kind, match.session, match.seq, match.at) == ("message", ANA, 1, later(1))
        assert (match.speaker, match.text) == ("Ana", "We hiked up to the café")

    async def test_the_figures_that_ranking_goes_by_are_of_the_place_that_is_searched(
        self, store: Store
    ) -> None:
        await self.record(store, said("a", "red apple"), said("b", "green apple pie"))
        await self.record(store, said("c", "apple"), session=OTHER)
        await self.record(store, said("d", "apple apple apple apple"), session=BEN)
        assert await self.found(store, "apple", session=BEN, owner="ben") == ["d"]  # indexed, too
        one = await self.find(store, "apple pie")
        assert (one.docs, one.length, dict(one.holders)) == (2, 5, {"appl": 2, "pie": 1})
        all_ = await self.find(store, "apple", session=None)
        assert (all_.docs, all_.length, all_.holders["appl"]) == (3, 6, 3)

    @pytest.mark.req(79)
    async def test_a_search_stays_within_its_owner_and_its_session(self, store: Store) -> None:
        await self.record(store, said("a", "the boat"))
        await self.record(store, said("b", "the boat"), session=OTHER)
        await self.record(store, said("c", "the boat"), session=BEN)
        assert await self.found(store, "boat") == ["a"]
        assert await self.found(store, "boat", session=None) == ["a", "b"]
        assert await self.found(store, "boat", session=None, owner="ben") == ["c"]
        assert await self.found(store, "boat", session=None, owner="be") == []
        with pytest.raises(SettingsError):
            await self.found(store, "boat", session=BEN)

    async def test_what_is_asked_for_by_time_was_said_then(self, store: Store) -> None:
        await self.record(store, *(said(f"m{n}", f"tea number {n}", at=later(n)) for n in range(5)))
        assert await self.found(store, "tea", after=later(1), before=later(3)) == ["m1", "m2"]
        newest = await self.find(store, "", after=later(1))
        assert [m.id for m in newest.matches] == ["m4", "m3", "m2", "m1"]
        assert [m.id for m in (await self.find(store, "", before=later(2), limit=1)).matches] == ["m1"]

    @pytest.mark.req(79)
    async def test_what_was_said_then_is_of_its_owner_and_its_session(self, store: Store) -> None:
        for session in (ANA, OTHER, BEN):
            await self.record(store, said(f"of {session.key} {session.owner}", at=later(1)), session=session)
        for owner, session, found in (
            ("ben", BEN, [f"of {BEN.key} ben"]),
            ("ana", ANA, [f"of {ANA.key} ana"]),
            ("ana", None, [f"of {ANA.key} ana", f"of {OTHER.key} ana"]),
            ("ben", None, [f"of {BEN.key} ben"]),
            ("be", None, []),
        ):
            matches = (await self.find(store, "", session=session, owner=owner, after=NOW)).matches
            assert sorted(m.id for m in matches) == sorted(found)

    async def test_the_most_telling_come_first_where_not_all_are_read(self, store: Store) -> None:
        await self.record(
            store, *(said(f"m{n}", "we had tea") for n in range(8)), said("z", "tea from Assam")
        )
        found = await self.find(store, "Assam tea", limit=2)
        assert [m.id for m in found.matches] == ["z", "m7"]
        weighted = await store.search(Query("ana", "message", {"had": 5.0, "assam": 0.1}, ANA, limit=1))
        assert [m.id for m in weighted.matches] == ["m7"]

    async def test_nothing_recorded_before_a_search_is_missed(self, store: Store) -> None:
        await self.record(store, *(said(f"m{n}", "word") for n in range(7)))
        rounds = 0
        while await store.unindexed("ana"):
            assert await store.index(ANA, limit=3) <= 3
            rounds += 1
            assert rounds < 5
        assert len((await store.search(Query("ana", "message", {"word": 1.0}))).matches) == 7
        await self.record(store, said("late", "word"))
        assert await self.found(store, "word") == ["late", *(f"m{n}" for n in range(7))]
        assert list(await store.unindexed("ana")) == []
        assert await store.index(SessionId("ana", "none")) == 0

    async def test_notes_are_found_while_they_are_active(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("o1", 1, 2, text="Ana sails a boat"))
        await self.commit(store, note("o3", 3, 4, status="buffered", text="A boat in Bergen"))
        assert await self.found(store, "boat", kind="note") == ["o1"]
        await self.commit(store, activate=("o3",), watermark=4, tail_start=5)
        assert await self.found(store, "boat", kind="note") == ["o1", "o3"]
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"], text="Boats in Bergen")
        await self.commit(store, r1, supersede=("o1", "o3"))
        found = await self.find(store, "boat", kind="note")
        assert [(m.id, m.seq, m.text, m.at) for m in found.matches] == [("r1", 1, "Boats in Bergen", NOW)]
        assert found.docs == 1

    async def test_what_is_taken_back_leaves_and_comes_again_with_its_message(self, store: Store) -> None:
        await self.record(store, said("a", "one boat"), said("b", "two boats"), said("c", "three boats"))
        assert await self.found(store, "boat") == ["a", "b", "c"]
        await self.realign(store, 1, 3, said("b", "two kites"))
        assert await self.found(store, "boat") == ["a", "c"]
        assert await self.found(store, "kite") == ["b"]
        await self.realign(store, 1, said("b", "two boats"))
        assert await self.found(store, "boat") == ["a", "b"]
        assert await self.found(store, "kite") == []
        assert (await self.find(store, "boat")).docs == 2

    async def test_what_is_taken_back_is_found_among_what_was_until_it_is_deleted(self, store: Store) -> None:
        await self.record(store, said("a", "one boat"), said("b", "two boats"), said("c", "three boats"))
        assert await self.found(store, "boat", kind="retired") == []
        await self.realign(store, 1, 3, said("b", "two kites"))
        await self.realign(store, 1)
        assert await self.found(store, "boat") == ["a"]
        assert await self.found(store, "boat", kind="retired") == ["b", "c"]
        assert await self.found(store, "kite", kind="retired") == ["b"]
        assert (await self.find(store, "boat", kind="retired")).docs == 3
        await self.realign(store, 1, said("c", "three boats"))
        assert await self.found(store, "boat", kind="retired") == ["b"]
        assert await self.found(store, "boat") == ["a", "c"]
        assert seqs(await store.around(ANA, [2], 0)) == []
        assert [m.text for m in await store.around(ANA, [2], 1, retired=True)] == ["one boat", "two boats"]
        await store.prune(before=later(99))
        assert await self.found(store, "boat", kind="retired") == []

    async def test_what_compaction_sets_aside_is_found_and_its_summary_is_not(self, store: Store) -> None:
        await self.record(store, said("a", "one boat"), said("b", "two boats"))
        await self.compact(store, 1, "sum")
        assert await self.found(store, "boat") == ["a", "b"]
        assert await self.found(store, "summary") == []
        await self.compact(store, 2, "again", archive=False)
        assert await self.found(store, "boat") == ["a"]

    async def test_what_is_deleted_leaves_the_index(self, store: Store) -> None:
        await self.record(store, said("m1", "one boat"), said("m2", "two boats"))
        await self.record(store, said("m1", "his boat"), session=BEN)
        await self.commit(store, note("o1", 1, 1, text="a boat"))
        assert await self.found(store, "boat", kind="note") == ["o1"]
        await store.delete_notes(ANA)
        assert await self.found(store, "boat", kind="note") == []
        assert await self.found(store, "boat") == ["m1", "m2"]
        await store.delete_session(ANA)
        assert await self.found(store, "boat", session=None) == []
        assert (await self.find(store, "boat", session=None)).docs == 0
        assert await self.found(store, "boat", session=BEN, owner="ben") == ["m1"]
        await self.record(store, said("m9", "a new boat"))
        assert await self.found(store, "boat") == ["m9"]

    async def test_neighbours_are_those_of_the_conversation_as_it_stands(self, store: Store) -> None:
        await self.record(store, *talk(1, 9))
        await self.compact(store, 3)
        assert seqs(await store.around(ANA, [2], 1)) == [1, 2, 3]
        assert seqs(await store.around(ANA, [4, 5, 9], 1)) == [3, 4, 5, 6, 8, 9]
        assert seqs(await store.around(ANA, [5], 0)) == [5]
        assert seqs(await store.around(ANA, [40], 1)) == []
        assert list(await store.around(BEN, [1], 1)) == []
        await self.realign(store, 5)
        assert seqs(await store.around(ANA, [5], 3)) == [2, 3, 4, 5]

    async def test_a_search_reads_what_is_around_its_matches(self, store: Store) -> None:
        await self.record(store, *talk(1, 4), said("boat", "a boat"), *talk(6, 9))
        await self.record(store, said("his", "his boat"), session=BEN)
        await store.index(ANA)
        seen: list[str] = []

        def pick(results: Sequence[SearchResult]) -> list[tuple[SessionId, int]]:
            seen.extend(m.id for result in results for m in result.matches)
            return [(m.session, m.seq) for result in results for m in result.matches]

        queries = [Query("ana", "message", {"boat": 1.0}), Query("ana", "message", {"none": 1.0})]
        around = await store.search_around(queries, pick, 1)
        assert seen == ["boat"]
        assert sorted(around) == [(ANA, 4), (ANA, 5), (ANA, 6)]
        assert around[ANA, 5].text == "a boat"
        assert await store.search_around([], lambda _: [], 1) == {}

    async def test_a_query_for_rare_terms_finds_nothing_without_one(self, store: Store) -> None:
        await self.record(store, *(said(f"m{n}", f"a boat at pier {n % 10}") for n in range(40)))
        await self.record(store, *(said(f"m{n}", "boat x") for n in range(9)), session=BEN)
        for session in (ANA, BEN):
            await store.index(session)
        everywhere = await store.search(Query("ana", "message", {"boat": 1.0, "7": 1.0}))
        assert len(everywhere.matches) == 40

        async def found(*terms: str, rare: float) -> SearchResult:
            return await store.search(Query("ana", "message", dict.fromkeys(terms, 1.0), rare=rare))

        # With 40 texts, a term of 4 has 0.66 of the rarity of a term that one text has.
        assert [m.id for m in (await found("boat", "7", rare=0.6)).matches] == [
            m.id for m in everywhere.matches
        ]
        assert (await found("boat", "7", rare=0.8)).matches == ()
        assert (await found("boat", "x", rare=0.6)).matches == ()

    async def test_a_term_of_many_owners_is_found_in_the_newest_texts_of_one(self, store: Store) -> None:
        for n in range(6):
            await self.record(store, said(f"m{n}", f"boat {n}"))
            for other in ("ben", "cy", "dora"):
                await self.record(store, said(f"m{n}", f"boat {n}"), session=SessionId(other, "chat"))
        for owner in ("ana", "ben", "cy", "dora"):
            for session in await store.unindexed(owner):
                await store.index(session)
        for most, expected in (
            (2, ["m5", "m4"]),
            (4, ["m5", "m4", "m3", "m2"]),
            (9, [f"m{5 - n}" for n in range(6)]),
        ):
            for owner in ("ana", "dora"):
                found = await store.search(Query(owner, "message", {"boat": 1.0}, max_holders=most))
                assert [m.id for m in found.matches] == expected
                assert {m.session.owner for m in found.matches} == {owner}

    async def test_a_common_term_of_two_owners_is_found_in_every_text_of_one(self, store: Store) -> None:
        for owner in ("ana", "ben"):
            session = SessionId(owner, "chat")
            await self.record(store, *(said(f"m{n}", f"boat {n}") for n in range(80)), session=session)
            await store.index(session)
        for owner in ("ana", "ben"):
            found = await store.search(Query(owner, "message", {"boat": 1.0}))
            assert [m.id for m in found.matches] == [f"m{79 - n}" for n in range(80)]
            assert {m.session.owner for m in found.matches} == {owner}
            assert found.holders == {"boat": 80}

    async def test_what_stands_around_a_message_is_never_of_another_session(self, store: Store) -> None:
        sessions = [SessionId(owner, f"chat {n}") for n, owner in enumerate(("ana", "ben", "ana", "zed"))]
        for session in sessions:
            texts = [said(f"m{n}", f"{session.owner} {session.key} {n}") for n in (1, 2, 3)]
            await self.record(store, *texts, session=session)
        far = 2**28
        for session in sessions:
            for asked, reach in (([1], 2**40), ([far + 1], 2), ([far + 1, 1 - far], far), ([2], 2**62)):
                found = await store.around(session, asked, reach)
                whose = {m.text.rpartition(" ")[0] for m in found}
                assert whose <= {f"{session.owner} {session.key}"}, (asked, reach)


SPACE = "test:three"
Vector = tuple[float, ...]
NORTH, EAST, UP = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
NORTH_EAST = (0.8, 0.6, 0.0)
# What each text of these tests is close to.
MEANINGS = {"north": NORTH, "east": EAST, "up": UP, "between": NORTH_EAST}


def meaning(text: str) -> Vector:
    return next((v for word, v in MEANINGS.items() if text.startswith(word)), (-1.0, -1.0, -1.0))


class VectorContract(StoreCase):
    async def lacking(self, store: Store, space: str = SPACE, limit: int = 100) -> list[Document]:
        for session in await store.unindexed_anywhere():
            await store.index(session)
        return list(await store.without_vectors(space, limit=limit))

    async def embed(self, store: Store, space: str = SPACE) -> int:
        """Give every text its vector."""
        lacking = await self.lacking(store, space)
        return await store.add_vectors(space, [(d, meaning(d.text)) for d in lacking])

    async def near(
        self,
        store: Store,
        vector: Vector,
        kind: TextKind = "message",
        owner: str = "ana",
        session: SessionId | None = None,
        **more: Any,
    ) -> list[str]:
        query = VectorQuery(owner, kind, more.pop("space", SPACE), vector, session, **more)
        return [m.id for m, _ in await store.nearest(query)]

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
        assert await self.near(store, EAST, limit=1) == ["a"]
        assert await self.near(store, NORTH, kind="note") == ["o1"]
        found = await store.nearest(VectorQuery("ana", "message", SPACE, NORTH))
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
        assert sorted((d.kind, d.id) for d in await self.lacking(store)) == [
            ("message", "b"),
            ("note", "o1"),
            ("retired", "2"),
            ("retired", "3"),
        ]
        await self.embed(store)
        assert sorted(await self.near(store, NORTH, kind="retired")) == ["b", "c"]
        assert await self.near(store, NORTH) == ["a"]
        await store.delete_session(ANA)
        assert await self.near(store, NORTH) == []
        assert await store.add_vectors(SPACE, [(stale, NORTH)]) == 0
        await self.record(store, said("a", "up"), said("z", "north again"))
        assert [d.id for d in await self.lacking(store)] == ["a", "z"]
        assert await store.add_vectors(SPACE, [(stale, NORTH)]) == 0  # another text by now
        await self.embed(store)
        assert await self.near(store, NORTH) == ["z"]

    async def test_the_likely_ones_of_many_are_compared_in_full(self, store: Store) -> None:
        many = 600  # more than are compared in full
        await self.record(store, *(said(f"m{n}", f"word {n}") for n in range(many)))
        while await store.unindexed_anywhere():
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
        # A name that is mentioned everywhere takes the room of no other.
        both = await self.tied(store, ("mentions",), of=[*oslo, Node("entity", "Ana")], limit=2)
        assert {name for _, _, name in both} == {"Oslo", "Ana"}
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
        found = await store.notes_by_id(wanted)
        assert [(m.kind, m.session, m.id, m.seq, m.text) for m in found] == [("note", ANA, "o1", 1, "one")]
        await self.commit(store, note("r1", 1, 2, generation=1, sources=["o1"]), supersede=("o1",))
        assert [m.id for m in await store.notes_by_id([*wanted, (ANA, "r1")])] == ["r1"]
