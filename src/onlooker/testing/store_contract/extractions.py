"""Values of users' own types: kept with their notes, and gone with them."""

from __future__ import annotations

import pytest

from onlooker.domain.errors import ConflictError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Extraction, Guard
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, BEN, NOW, StoreCase, later, note, said, talk


def extraction(
    note: str, text: str = '{"item": "cake"}', *, type: str = "Order", session: SessionId = ANA
) -> Extraction:
    return Extraction(type, text, note, session, (1, 3), later(1), NOW)


class ExtractionContract(StoreCase):
    async def test_values_are_kept_with_their_note_in_the_order_of_notes(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        first = (
            extraction("n1", '{"text": "\\u0000 東京 \ud800"}'),
            extraction("n1", "{}", type="Preference"),
        )
        await self.commit(store, note("n1", 1, 3), extractions=first)
        later_on = (extraction("a0"), extraction("a0"))
        await self.commit(store, note("a0", 4, 5, status="buffered"), extractions=later_on)
        store = await self.reopen(store)
        assert list(await store.extractions(ANA)) == [*first, *later_on]
        assert list(await store.extractions(ANA, type="Preference")) == [first[1]]
        assert list(await store.extractions(ANA, type="preference")) == []
        assert list(await store.extractions(BEN)) == []

    async def test_a_commit_that_is_refused_keeps_none(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        with pytest.raises(ConflictError):
            await self.commit(store, note("n1", 1, 2), guard=Guard(7, 0), extractions=(extraction("n1"),))
        assert list(await store.extractions(ANA)) == []

    async def test_they_stay_when_their_note_is_condensed_and_what_it_led_back_to_is_pruned(
        self, store: Store
    ) -> None:
        await self.record(store, *talk(1, 4))
        for n in (1, 3):
            await self.commit(store, note(f"o{n}", n, n + 1), extractions=(extraction(f"o{n}"),))
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"])
        await self.commit(store, r1, supersede=("o1", "o3"))
        await store.prune(before=later(99))
        assert [e.note for e in await store.extractions(ANA)] == ["o1", "o3"]

    async def test_they_go_when_their_messages_are_taken_back_and_come_again_with_the_note(
        self, store: Store
    ) -> None:
        await self.record(store, *talk(1, 6))
        for n in (1, 3):
            await self.commit(store, note(f"o{n}", n, n + 1), extractions=(extraction(f"o{n}"),))
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"])
        await self.commit(store, r1, supersede=("o1", "o3"))
        await self.realign(store, 2, said("other"))
        assert [e.note for e in await store.extractions(ANA)] == ["o1"]
        await store.prune(before=later(99))
        await self.realign(store, 0, said("another"))
        assert list(await store.extractions(ANA)) == []

    @pytest.mark.parametrize("kind", [None, "reflection"])
    async def test_they_go_when_the_notes_that_stand_for_them_are_cleared(
        self, store: Store, kind: str | None
    ) -> None:
        await self.record(store, *talk(1, 6))
        await self.record(store, *talk(1, 6), session=BEN)
        for n in (1, 3, 5):
            await self.commit(store, note(f"o{n}", n, n + 1), extractions=(extraction(f"o{n}"),))
        bens = extraction("o1", session=BEN)
        await self.commit(store, note("o1", 1, 2), session=BEN, extractions=(bens,))
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"])
        await self.commit(store, r1, supersede=("o1", "o3"))
        await store.delete_notes(ANA, kind)  # pyright: ignore[reportArgumentType]
        assert [e.note for e in await store.extractions(ANA)] == (["o5"] if kind else [])
        assert list(await store.extractions(BEN)) == [bens]

    async def test_they_go_with_the_session(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        await self.commit(store, note("n1", 1, 2), extractions=(extraction("n1"),))
        await store.delete_session(ANA)
        assert list(await store.extractions(ANA)) == []
        await self.record(store, *talk(1, 3))
        await self.commit(store, note("n1", 1, 2))
        assert list(await store.extractions(ANA)) == []
