"""Compaction: a summary in the place of messages, and positions that stay right."""

from __future__ import annotations

import pytest

from onlooker.domain.errors import ConflictError, StoreError
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, StoreCase, ids, note, said, seqs, talk


class CompactionContract(StoreCase):
    async def test_a_summary_takes_the_place_of_what_it_stands_for(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        before = (await self.state(store)).progress
        after = await self.compact(store, 3)
        assert [(m.id, m.seq) for m in await store.messages(ANA)] == [("sum", 3), ("m4", 4), ("m5", 5)]
        assert (after.last_seq, after.history_hash) == (5, before.history_hash)
        assert after == (await self.state(store)).progress

    async def test_taking_out_what_is_not_noted_makes_notes_in_the_making_void(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        await self.commit(store, note("n1", 1, 3))
        before = (await self.state(store)).progress
        assert (await self.compact(store, 3)).revision == before.revision
        summary = said("sum2", "They went on")
        after = await store.compact(ANA, up_to=4, summary=summary, archive=True, now=NOW)
        assert after.revision > before.revision

    async def test_compacting_is_refused_once_messages_were_taken_back(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        revision = (await self.state(store)).progress.revision
        summary = said("sum", "They talked")
        with pytest.raises(ConflictError):
            await store.compact(ANA, up_to=3, summary=summary, archive=True, now=NOW, revision=revision + 1)
        assert ids(await store.messages(ANA)) == ["m1", "m2", "m3", "m4", "m5"]
        await store.compact(ANA, up_to=3, summary=summary, archive=True, now=NOW, revision=revision)

    async def test_positions_stay_right_afterwards(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        await self.commit(store, note("n1", 1, 3))
        await self.compact(store, 3)
        store = await self.reopen(store)
        progress = await self.record(store, said("m6"))
        assert (progress.last_seq, progress.frontier, progress.watermark) == (6, 3, 3)
        state = await self.state(store)
        assert seqs(state.messages) == [4, 5, 6]
        assert ids(state.unnoted) == ["m4", "m5", "m6"]

    async def test_the_archive_keeps_the_originals(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        await self.compact(store, 3)
        assert ids(await store.messages(ANA, archived=True)) == ["m1", "m2", "m3", "sum", "m4", "m5"]
        assert ids(await store.messages(ANA, archived=True, after=1, up_to=3, limit=2)) == ["m2", "m3"]
        assert await self.conversation(store) == ["m1", "m2", "m3", "m4", "m5"]

    async def test_without_the_archive_the_originals_are_gone(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        before = (await self.state(store)).progress
        after = await self.compact(store, 3, archive=False)
        assert ids(await store.messages(ANA, archived=True)) == ["sum", "m4", "m5"]
        assert await self.conversation(store) == ["m4", "m5"]
        assert after.history_hash == before.history_hash

    async def test_with_nothing_to_take_out_the_summary_is_still_put_in(self, store: Store) -> None:
        await self.record(store, *talk(1, 2))
        progress = await self.compact(store, 0)
        assert [(m.id, m.seq) for m in await store.messages(ANA)] == [("sum", 0), ("m1", 1), ("m2", 2)]
        assert ids((await self.state(store)).messages) == ["sum", "m1", "m2"]
        assert progress.last_seq == 2

    async def test_it_is_put_in_one_below_the_first_live_message(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.compact(store, 4, "s1")
        await self.compact(store, 2, "s2")
        found = await store.messages(ANA)
        assert [(m.id, m.seq) for m in found] == [("s2", 3), ("s1", 4), ("m5", 5), ("m6", 6)]

    async def test_a_session_can_begin_with_a_summary(self, store: Store) -> None:
        progress = await self.compact(store, 10)
        assert progress.last_seq == 0
        await self.record(store, said("m1"))
        assert await self.live(store) == ["sum", "m1"]
        assert seqs((await self.state(store)).messages)[-1] == 1

    async def test_everything_can_be_compacted(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        await self.compact(store, 99)
        progress = await self.record(store, said("m4"))
        assert [(m.id, m.seq) for m in await store.messages(ANA)] == [("sum", 3), ("m4", 4)]
        assert progress.unnoted_tokens == 13

    async def test_a_summary_after_the_frontier_is_yet_to_be_noted(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        assert (await self.compact(store, 3)).unnoted_tokens == 3 + 20
        assert ids((await self.state(store)).unnoted) == ["sum", "m4", "m5"]

    async def test_a_summary_up_to_the_frontier_is_not(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        await self.commit(store, note("n1", 1, 3))
        assert (await self.compact(store, 3)).unnoted_tokens == 20
        assert ids((await self.state(store)).messages) == ["m4", "m5"]

    async def test_a_summary_can_be_compacted_in_turn(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.compact(store, 2, "s1")
        await self.compact(store, 4, "s2")
        assert [(m.id, m.seq) for m in await store.messages(ANA)] == [("s2", 4), ("m5", 5), ("m6", 6)]
        assert await self.conversation(store) == [f"m{n}" for n in range(1, 7)]

    async def test_doing_it_again_changes_nothing(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        first = await self.compact(store, 2)
        everything = list(await store.messages(ANA, archived=True))
        for _ in range(2):
            assert await self.compact(store, 2) == first
            assert list(await store.messages(ANA, archived=True)) == everything

    async def test_a_summary_may_not_have_the_id_of_a_message(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        for ident in ("m1", "m4"):
            with pytest.raises(StoreError):
                await self.compact(store, 2, ident)
        assert await self.live(store) == ["m1", "m2", "m3", "m4"]

    async def test_pinned_messages_outlive_compaction(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        await store.pin(ANA, "m2", on=True)
        await self.compact(store, 3)
        assert ids((await self.state(store)).pinned) == ["m2"]

    async def test_a_pin_on_what_is_deleted_goes_with_it(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        await store.pin(ANA, "m2", on=True)
        prompt_version = (await self.state(store)).progress.prompt_version
        progress = await self.compact(store, 3, archive=False)
        state = await self.state(store)
        assert (state.pins, state.pinned) == (frozenset(), ())
        assert progress.prompt_version > prompt_version

    async def test_a_note_leads_back_to_what_was_compacted(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        await self.commit(store, note("n1", 1, 3))
        await self.compact(store, 3)
        store = await self.reopen(store)
        assert [(m.id, m.text) for m in await store.sources(ANA, "n1")] == [(f"m{n}",) * 2 for n in (1, 2, 3)]

    async def test_other_sessions_are_not_touched(self, store: Store) -> None:
        other = ANA._replace(key="other")
        await self.record(store, *talk(1, 3))
        await store.append(other, talk(1, 3), due_tokens=NEVER, now=NOW)
        await self.compact(store, 3)
        assert ids(await store.messages(other)) == ["m1", "m2", "m3"]
