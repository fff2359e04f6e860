"""Full-text search: what is found, where, and what leaves the index again."""

from __future__ import annotations

from typing import Any

import pytest

from onlooker.domain.errors import SettingsError
from onlooker.domain.messages import SessionId, ToolCall
from onlooker.domain.search import HitKind, Query, SearchResult
from onlooker.policy.search.words import query_tokens
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, BEN, NOW, StoreCase, later, note, said, seqs, talk

OTHER = SessionId("ana", "slack:1")


class SearchContract(StoreCase):
    async def find(
        self,
        store: Store,
        text: str,
        kind: HitKind = "message",
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
        assert [m.id for m in (await self.find(store, "", before=later(2), most=1)).matches] == ["m1"]

    async def test_the_most_telling_come_first_where_not_all_are_read(self, store: Store) -> None:
        await self.record(
            store, *(said(f"m{n}", "we had tea") for n in range(8)), said("z", "tea from Assam")
        )
        found = await self.find(store, "Assam tea", most=2)
        assert [m.id for m in found.matches] == ["z", "m7"]
        weighted = await store.search(Query("ana", "message", {"had": 5.0, "assam": 0.1}, ANA, most=1))
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
