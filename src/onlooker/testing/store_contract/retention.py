"""How long messages are kept: live, then in the archive, then no more."""

from __future__ import annotations

from onlooker.domain.history import Retention, RetentionResult
from onlooker.domain.notes import LIVE
from onlooker.domain.search import Query
from onlooker.policy.search.words import query_tokens
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, BEN, StoreCase, ids, later, note, said, talk


class RetentionContract(StoreCase):
    """m1 to m10 are said a minute apart; notes stand for the first six."""

    async def talk_with_notes(self, store: Store) -> None:
        await self.record(store, *talk(1, 10))
        await self.commit(store, note("o1", 1, 3), note("o2", 4, 6))

    async def all_kept(self, store: Store) -> list[str]:
        return ids(await store.messages(ANA, archived=True))

    async def test_what_was_said_before_a_time_goes_into_the_archive(self, store: Store) -> None:
        await self.talk_with_notes(store)
        limits = Retention(archive_before=later(5))
        assert await store.retain(ANA, limits) == RetentionResult(archived=4)
        assert await self.live(store) == [f"m{n}" for n in range(5, 11)]
        assert await self.all_kept(store) == [f"m{n}" for n in range(1, 11)]
        assert ids(await store.sources(ANA, "o1")) == ["m1", "m2", "m3"]
        assert await store.retain(ANA, limits) == RetentionResult()

    async def test_what_is_older_than_the_newest_so_many_goes_into_the_archive(self, store: Store) -> None:
        await self.talk_with_notes(store)
        assert await store.retain(ANA, Retention(archive_beyond=8)) == RetentionResult(archived=2)
        assert await self.live(store) == [f"m{n}" for n in range(3, 11)]

    async def test_what_is_past_its_time_is_deleted_wherever_it_is(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await store.retain(ANA, Retention(archive_before=later(3)))
        assert await store.retain(ANA, Retention(delete_before=later(5))) == RetentionResult(deleted=4)
        assert await self.all_kept(store) == [f"m{n}" for n in range(5, 11)]
        assert await self.conversation(store) == [f"m{n}" for n in range(5, 11)]
        (summary,) = await store.sessions()
        assert (summary.messages, summary.message_tokens) == (6, 60)

    async def test_a_message_goes_through_the_archive_and_then_for_good(self, store: Store) -> None:
        await self.talk_with_notes(store)
        limits = Retention(archive_beyond=6, delete_beyond=8)
        assert await store.retain(ANA, limits) == RetentionResult(archived=2, deleted=2)
        assert await self.live(store) == [f"m{n}" for n in range(5, 11)]
        assert await self.all_kept(store) == [f"m{n}" for n in range(3, 11)]

    async def test_what_no_note_stands_for_stays_however_old_it_is(self, store: Store) -> None:
        await self.talk_with_notes(store)
        assert await store.retain(
            ANA, Retention(delete_before=later(99), delete_beyond=0)
        ) == RetentionResult(deleted=6)
        assert await self.live(store) == ["m7", "m8", "m9", "m10"]

    async def test_what_only_a_buffered_note_stands_for_stays(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("o1", 1, 6, status="buffered"))
        assert await store.retain(ANA, Retention(delete_beyond=0, archive_beyond=0)) == RetentionResult()

    async def test_what_still_stands_raw_in_the_prompt_stays(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("o1", 1, 6), tail_start=4)
        assert await store.retain(ANA, Retention(delete_beyond=0)) == RetentionResult(deleted=3)
        assert ids((await self.state(store)).messages) == ["m4", "m5", "m6"]

    async def test_what_is_pinned_stays(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await store.pin(ANA, "m2", on=True)
        assert await store.retain(ANA, Retention(delete_beyond=0)) == RetentionResult(deleted=5)
        assert ids((await self.state(store)).pinned) == ["m2"]

    async def test_what_a_note_to_be_written_anew_was_made_from_stays(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("o1", 1, 3, degraded=True), note("o2", 4, 6))
        assert await store.retain(ANA, Retention(delete_beyond=0)) == RetentionResult(deleted=3)
        assert await self.live(store) == ["m1", "m2", "m3"]

    async def test_notes_and_marks_stay_as_they_are(self, store: Store) -> None:
        await self.talk_with_notes(store)
        before = await self.state(store)
        await store.retain(ANA, Retention(archive_beyond=9, delete_beyond=7))
        after = await self.state(store)
        assert after == before
        assert ids(await store.notes(ANA, statuses=LIVE)) == ["o1", "o2"]
        assert list(await store.sources(ANA, "o1")) == []

    async def test_a_summary_stays_and_what_was_taken_back_is_not_for_it_to_judge(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await self.compact(store, 3)
        await self.realign(store, 9)
        assert await store.retain(ANA, Retention(delete_beyond=0)) == RetentionResult(deleted=6)
        assert await self.live(store) == ["sum", "m7", "m8", "m9"]

    async def test_trying_changes_nothing(self, store: Store) -> None:
        await self.talk_with_notes(store)
        limits = Retention(archive_beyond=6, delete_beyond=8)
        assert await store.retain(ANA, limits, dry_run=True) == RetentionResult(archived=2, deleted=2)
        assert await self.live(store) == [f"m{n}" for n in range(1, 11)]
        assert await store.retain(ANA, limits) == RetentionResult(archived=2, deleted=2)

    async def test_no_other_session_is_touched(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await self.record(store, *talk(1, 3), session=BEN)
        await self.commit(store, note("b1", 1, 3), session=BEN)
        await store.retain(ANA, Retention(delete_beyond=0))
        assert len(await store.messages(BEN)) == 3
        assert await store.retain(BEN, Retention()) == RetentionResult()
        assert len(await store.messages(BEN)) == 3

    async def test_what_is_archived_can_be_found_and_what_is_deleted_cannot(self, store: Store) -> None:
        texts = [said("m1", "an albatross"), said("m2", "an antelope"), said("m3", "a bee")]
        await self.record(store, *texts)
        await self.commit(store, note("o1", 1, 3))
        while await store.index(ANA):
            pass
        await store.retain(ANA, Retention(archive_beyond=1, delete_beyond=2))
        words = dict.fromkeys(query_tokens("albatross antelope bee"), 1.0)
        found = await store.search(Query(ANA.owner, "message", words))
        assert sorted(m.id for m in found.matches) == ["m2", "m3"]

    async def test_the_conversation_goes_on_afterwards(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await store.retain(ANA, Retention(delete_beyond=5))
        progress = await self.record(store, said("m11"))
        assert progress.last_seq == 11
        await self.commit(store, note("o3", 7, 9))
        assert await store.retain(ANA, Retention(delete_beyond=1)) == RetentionResult(deleted=4)
        assert await self.live(store) == ["m10", "m11"]
