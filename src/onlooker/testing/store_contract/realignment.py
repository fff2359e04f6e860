"""Realignment: the host takes messages back, edits them, or goes another way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onlooker.domain.errors import ConflictError
from onlooker.domain.messages import EMPTY_HISTORY_HASH, GENERATED_ID_PREFIX, extend_history_hash
from onlooker.domain.notes import Guard, Progress, Realignment
from onlooker.ports import Store
from onlooker.testing.store_contract.case import (
    ANA,
    BEN,
    NEVER,
    NOW,
    StoreCase,
    ids,
    later,
    note,
    said,
    seqs,
    talk,
)


class RealignmentContract(StoreCase):
    async def chain_fits(self, store: Store, progress: Progress) -> bool:
        history_hash = EMPTY_HISTORY_HASH
        for digest in await store.digests(ANA):
            history_hash = extend_history_hash(history_hash, digest.digest)
        return history_hash == progress.history_hash

    async def test_a_regenerated_answer_retires_the_old_one(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        change = Realignment(3, (said("new"),), last_seq=4, revision=0)
        done = await store.realign(ANA, change, due_tokens=NEVER, now=NOW)
        assert [(m.id, m.seq) for m in done.messages] == [("new", 5)]
        assert [(m.id, m.seq) for m in await store.messages(ANA)][2:] == [("m3", 3), ("new", 5)]
        assert (done.progress.last_seq, done.progress.revision, done.progress.unnoted_tokens) == (5, 1, 40)
        assert await self.conversation(store) == ["m1", "m2", "m3", "new"]
        assert "m4" not in ids(await store.messages(ANA, archived=True))
        assert await self.chain_fits(store, done.progress)
        assert done.progress == (await self.state(store)).progress

    async def test_an_edit_in_the_middle_keeps_what_follows(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        before = {m.id: m for m in await store.messages(ANA)}
        progress = await self.realign(store, 1, said("m2b"), 3, 4, 5)
        found = await store.messages(ANA)
        assert [(m.id, m.seq) for m in found] == [("m1", 1), ("m2b", 6), ("m3", 7), ("m4", 8), ("m5", 9)]
        assert [replace(m, seq=0) for m in found[2:]] == [replace(before[m.id], seq=0) for m in found[2:]]
        assert progress.last_seq == 9
        assert await self.chain_fits(store, progress)

    async def test_what_follows_may_change_its_order(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.realign(store, 1, 4, said("new"), 2)
        assert await self.live(store) == ["m1", "m4", "new", "m2"]

    async def test_a_seq_is_never_used_again(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        assert (await self.realign(store, 2)).last_seq == 4
        assert (await self.record(store, said("m5"))).last_seq == 5
        assert seqs(await store.messages(ANA)) == [1, 2, 5]

    async def test_an_edit_under_the_same_id_is_a_new_message(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        await self.realign(store, 1, said("m2", "edited"), 3)
        assert [m.text for m in await store.messages(ANA)] == ["m1", "edited", "m3"]
        await self.realign(store, 1, said("m2", "m2"), 5)
        assert [m.text for m in await store.messages(ANA)] == ["m1", "m2", "m3"]

    async def test_there_and_back_again_revives_and_doubles_nothing(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        there = [said("b3"), said("b4")]
        progress = (await self.state(store)).progress
        for _ in range(3):
            await self.realign(store, 2, *there)
            assert await self.live(store) == ["m1", "m2", "b3", "b4"]
            progress = await self.realign(store, 2, *talk(3, 4))
            assert await self.live(store) == ["m1", "m2", "m3", "m4"]
        assert await self.conversation(store) == ["m1", "m2", "m3", "m4"]
        assert await self.chain_fits(store, progress)
        await self.record(store, *there, *talk(1, 4))
        assert await self.live(store) == ["m1", "m2", "m3", "m4"]

    async def test_a_revived_message_keeps_its_time(self, store: Store) -> None:
        await self.record(store, *talk(1, 2))
        await self.realign(store, 1)
        progress = (await self.state(store)).progress
        again = replace(said("m2"), at=later(99), original={"host": "form"})
        change = Realignment(1, (again,), progress.last_seq, progress.revision)
        done = await store.realign(ANA, change, due_tokens=NEVER, now=NOW)
        assert [(m.id, m.at, m.seq, m.original) for m in done.messages] == [
            ("m2", later(2), 3, {"host": "form"})
        ]

    async def test_a_short_message_that_is_said_elsewhere_is_not_the_one_that_was_taken_back(
        self, store: Store
    ) -> None:
        await self.record(store, *talk(1, 2), said(f"{GENERATED_ID_PREFIX}3", "yes"), said("m4"))
        await self.realign(store, 2, said("m5"))
        await self.realign(store, 5, said(f"{GENERATED_ID_PREFIX}6", "yes"))
        assert await self.live(store) == ["m1", "m2", "m5", f"{GENERATED_ID_PREFIX}6"]
        # Where it was, it is the same.
        await self.realign(store, 2, said(f"{GENERATED_ID_PREFIX}7", "yes"), said("m4"))
        assert await self.live(store) == ["m1", "m2", f"{GENERATED_ID_PREFIX}3", "m4"]

    async def test_an_id_that_we_gave_says_nothing_so_content_revives(self, store: Store) -> None:
        given = [said(f"{GENERATED_ID_PREFIX}{n}", "yes", at=later(n)) for n in range(3)]
        await self.record(store, *given)
        await self.realign(store, 1)
        again = [said(f"{GENERATED_ID_PREFIX}again{n}", "yes") for n in range(3)]
        await self.realign(store, 1, *again)
        assert await self.live(store) == [*ids(given), f"{GENERATED_ID_PREFIX}again2"]

    async def test_a_hosts_own_id_is_not_overruled_by_content(self, store: Store) -> None:
        await self.record(store, said("h1", "yes"), said("h2", "yes"))
        await self.realign(store, 1, said("h3", "yes"))
        assert await self.live(store) == ["h1", "h3"]

    async def test_a_new_message_that_is_there_already_is_passed_over(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        await self.realign(store, 2, said("m1"), said("new"), said("new"), 3)
        assert await self.live(store) == ["m1", "m2", "new", "m3"]

    @pytest.mark.parametrize("moved", [{"last_seq": 3}, {"last_seq": 5}, {"revision": 1}])
    async def test_a_change_made_for_another_state_is_refused(
        self, store: Store, moved: dict[str, Any]
    ) -> None:
        await self.record(store, *talk(1, 4))
        before = await self.state(store)
        whole: dict[str, Any] = {"keep": 1, "follow": (said("new"),), "last_seq": 4, "revision": 0}
        change = Realignment(**(whole | moved))
        with pytest.raises(ConflictError):
            await store.realign(ANA, change, due_tokens=NEVER, now=NOW)
        assert await self.state(store) == before

    async def test_following_what_is_no_longer_there_is_refused(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.compact(store, 3, archive=False)
        before = await self.state(store)
        with pytest.raises(ConflictError):
            await self.realign(store, 1, said("new"), 3, 4)
        assert await self.state(store) == before

    async def test_a_session_can_begin_with_it(self, store: Store) -> None:
        change = Realignment(0, tuple(talk(1, 2)), last_seq=0, revision=0)
        done = await store.realign(ANA, change, due_tokens=20, now=NOW)
        assert seqs(done.messages) == [1, 2]
        assert done.progress.due_at == NOW

    async def test_it_makes_a_session_due(self, store: Store) -> None:
        await self.record(store, *talk(1, 4), due_tokens=50)
        assert (await self.realign(store, 4, said("m5"), due_tokens=50)).due_at == NOW

    async def test_no_other_session_is_touched(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.record(store, *talk(1, 4), session=BEN)
        before = await self.state(store, BEN)
        await self.realign(store, 1, said("new"))
        assert await self.state(store, BEN) == before

    # -- notes

    async def test_a_note_on_retired_messages_is_retired_and_the_rest_stays(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.commit(store, note("n1", 1, 3))
        await self.commit(store, note("n2", 4, 6))
        prompt_version = (await self.state(store)).progress.prompt_version
        progress = await self.realign(store, 5, said("new"))
        assert (progress.frontier, progress.watermark, progress.tail_start) == (3, 3, 4)
        assert (progress.prompt_version, progress.unnoted_tokens) == (prompt_version + 1, 30)
        state = await self.state(store)
        assert ids(state.notes) == ["n1"]
        assert ids(state.messages) == ["m4", "m5", "new"]
        assert ids(await store.notes(ANA, statuses=("retired",))) == ["n2"]
        assert ids(await store.sources(ANA, "n2")) == ["m4", "m5", "m6"]

    async def test_messages_that_come_back_bring_their_notes(self, store: Store) -> None:
        await self.record(store, *talk(1, 9))
        await self.commit(store, note("n1", 1, 3))
        await self.commit(store, note("n2", 4, 6))
        await self.commit(store, note("n3", 7, 8, status="buffered"))
        there = [said("b6"), said("b7"), said("b8")]
        for _ in range(3):
            away = await self.realign(store, 5, *there)
            assert (away.frontier, away.watermark, away.unnoted_tokens) == (3, 3, 50)
            before = (await self.state(store)).progress
            progress = await self.realign(store, 5, *talk(6, 9))
            state = await self.state(store)
            assert [(n.id, n.status) for n in state.notes] == [
                ("n1", "active"),
                ("n2", "buffered"),
                ("n3", "buffered"),
            ]
            # The notes stand where their messages stand now, and the prompt waits until they are shown.
            places = {m.id: m.seq for m in state.messages}
            assert [(n.first, n.last) for n in state.buffered] == [
                (places["m4"], places["m6"]),
                (places["m7"], places["m8"]),
            ]
            assert (progress.frontier, progress.watermark) == (places["m8"], 3)
            assert (progress.unnoted_tokens, progress.due_at) == (10, NOW)
            assert progress.prompt_version == before.prompt_version
            assert ids(await store.sources(ANA, "n2")) == ["m4", "m5", "m6"]

    async def test_a_note_does_not_come_back_with_some_of_its_messages(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("n1", 1, 3))
        await self.realign(store, 1)
        for follow in ([said("m2"), said("new"), said("m3"), said("end")], [said("m2"), said("m3")]):
            progress = await self.realign(store, 1, *follow)
            assert (progress.frontier, ids((await self.state(store)).notes)) == (0, [])
        assert (await self.realign(store, 1, *talk(2, 4))).frontier > 0

    async def test_the_prompt_stays_where_only_a_buffered_note_goes(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.commit(store, note("n1", 1, 3))
        await self.commit(store, note("n2", 4, 6, status="buffered"))
        before = (await self.state(store)).progress
        after = await self.realign(store, 5)
        assert (after.prompt_version, after.revision) == (before.prompt_version, before.revision + 1)
        assert (after.frontier, after.watermark) == (3, 3)

    async def test_the_tail_keeps_its_overlap(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.commit(store, note("n1", 1, 4), tail_start=3)
        assert (await self.realign(store, 6)).tail_start == 3
        assert (await self.realign(store, 2)).tail_start == 1

    async def test_reflections_give_way_to_their_sources_through_two_generations(self, store: Store) -> None:
        await self.record(store, *talk(1, 9))
        for n in range(4):
            await self.commit(store, note(f"o{n}", 2 * n + 1, 2 * n + 2))
        await self.commit(store, note("r1", 1, 4, generation=1, sources=["o0", "o1"]), supersede=("o0", "o1"))
        await self.commit(store, note("r2", 5, 8, generation=1, sources=["o2", "o3"]), supersede=("o2", "o3"))
        await self.commit(store, note("g2", 1, 8, generation=2, sources=["r1", "r2"]), supersede=("r1", "r2"))
        progress = await self.realign(store, 7, said("new"))
        state = await self.state(store)
        assert ids(state.active) == ["r1", "o2"]
        assert ids(state.messages) == ["m7", "new"]
        assert (progress.frontier, progress.watermark, progress.unnoted_tokens) == (6, 6, 20)
        assert sorted(ids(await store.notes(ANA, statuses=("retired",)))) == ["g2", "o3", "r2"]
        assert ids(await store.sources(ANA, "g2")) == [f"m{n}" for n in range(1, 9)]

    async def test_work_on_the_old_branch_is_void(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        old = (await self.state(store)).progress
        await self.realign(store, 4)
        with pytest.raises(ConflictError):
            await self.commit(store, note("n1", 1, 3), guard=Guard(old.frontier, old.revision))

    # -- after compaction

    async def test_what_no_note_covers_any_more_comes_back(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.commit(store, note("n1", 1, 3))
        await self.commit(store, note("n2", 4, 6))
        await self.compact(store, 6)
        progress = await self.realign(store, 5, said("new"))
        assert await self.live(store) == ["m4", "m5", "new"]
        assert (progress.frontier, progress.tail_start, progress.unnoted_tokens) == (3, 4, 30)
        assert await self.conversation(store) == ["m1", "m2", "m3", "m4", "m5", "new"]
        assert ids(await store.messages(ANA, archived=True)) == ["m1", "m2", "m3", "m4", "m5", "new"]
        assert await self.chain_fits(store, progress)

    async def test_a_summary_that_still_stands_keeps_its_place(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.compact(store, 3)
        await self.realign(store, 5, said("new"))
        assert await self.live(store) == ["sum", "m4", "m5", "new"]
        assert await self.conversation(store) == ["m1", "m2", "m3", "m4", "m5", "new"]

    async def test_a_summary_of_what_was_taken_back_goes(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.compact(store, 4)
        await self.realign(store, 2, said("new"), 4, 5)
        assert await self.live(store) == ["m1", "m2", "new", "m4", "m5"]
        assert "sum" not in ids(await store.messages(ANA, archived=True))

    async def test_a_summary_that_was_compacted_comes_back_for_what_it_stands_for(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.compact(store, 2, "s1", archive=False)
        await self.compact(store, 6, "s2")
        await self.realign(store, 5, said("new"))
        assert await self.live(store) == ["s1", "m3", "m4", "m5", "new"]

    async def test_what_a_person_cleared_is_not_noted_again(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.commit(store, note("n1", 1, 4))
        await self.compact(store, 3)
        await store.delete_notes(ANA)
        progress = await self.realign(store, 6, said("new"))
        assert (progress.frontier, progress.watermark) == (4, 4)
        assert await self.live(store) == ["m5", "m6", "new"]
        assert await self.conversation(store) == ["m1", "m2", "m3", "m4", "m5", "m6", "new"]
        assert await self.chain_fits(store, progress)

    async def test_nor_does_it_come_back_beside_a_reflection_that_stayed(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.commit(store, note("o1", 1, 2), note("o2", 3, 6))
        await self.commit(store, note("r1", 1, 2, generation=1, sources=["o1"]), supersede=("o1",))
        await self.compact(store, 6)
        await store.delete_notes(ANA, "observation")
        progress = await self.realign(store, 7, said("new"))
        assert await self.live(store) == ["m7", "new"]
        assert progress.unnoted_tokens == 20
        assert await self.conversation(store) == [*(f"m{n}" for n in range(1, 8)), "new"]

    async def test_a_cleared_message_that_moves_stands_raw_again(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        await self.commit(store, note("n1", 1, 4))
        await store.delete_notes(ANA)
        progress = await self.realign(store, 2, said("new"), 4, 5)
        assert progress.frontier == 2
        assert await self.live(store) == ["new", "m4", "m5"]
        assert ids((await self.state(store)).unnoted) == ["new", "m4", "m5"]

    async def test_it_all_survives_a_restart(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("n1", 1, 3))
        await self.realign(store, 4, said("new"))
        before = await self.state(store)
        store = await self.reopen(store)
        assert await self.state(store) == before
        await self.realign(store, 4, *talk(5, 6))
        assert await self.live(store) == ["m1", "m2", "m3", "m4", "m5", "m6"]
