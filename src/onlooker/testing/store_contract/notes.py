"""Notes: committing under guards, reading, sources, deleting, pinning; and extractions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onlooker.domain.errors import ConflictError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Commit, Extraction, Guard
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, BEN, NOW, StoreCase, ids, later, note, said, talk


class NoteContract(StoreCase):
    async def three_generations(self, store: Store) -> None:
        """m1 to m9; g2 covers m1 to m6, o3 m7 and m8."""
        await self.record(store, *talk(1, 9))
        for n in range(4):
            await self.commit(store, note(f"o{n}", 2 * n + 1, 2 * n + 2))
        r1 = note("r1", 1, 4, generation=1, sources=["o0", "o1"])
        await self.commit(store, r1, supersede=("o0", "o1"))
        g2 = note("g2", 1, 6, generation=2, sources=["r1", "o2"])
        await self.commit(store, g2, supersede=("r1", "o2"))

    # -- commit

    async def test_a_note_comes_back_whole_and_moves_the_marks(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        made = note(
            "n1", 1, 3, text="[14:02] Ana \0 \ud800 東京", model="m:x", degraded=True, made_at=later(1.5)
        )
        progress = await self.commit(store, made, tail_start=3)
        assert (progress.frontier, progress.watermark, progress.tail_start) == (3, 3, 3)
        assert (progress.unnoted_tokens, progress.prompt_version) == (20, 1)
        store = await self.reopen(store)
        state = await self.state(store)
        assert state.notes == (made,)
        assert state.progress == progress
        assert ids(state.messages) == ["m3", "m4", "m5"]

    async def test_a_buffered_note_does_not_show_until_it_is_activated(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        progress = await self.commit(store, note("n1", 1, 3, status="buffered"))
        assert (progress.frontier, progress.watermark, progress.prompt_version) == (3, 0, 0)
        assert ids((await self.state(store)).messages) == ["m1", "m2", "m3", "m4", "m5"]
        progress = await self.commit(store, activate=("n1",), watermark=3, tail_start=4)
        assert (progress.frontier, progress.watermark, progress.prompt_version) == (3, 3, 1)
        assert ids((await self.state(store)).active) == ["n1"]

    async def test_a_reflection_supersedes_its_sources_in_the_same_commit(self, store: Store) -> None:
        await self.three_generations(store)
        assert ids((await self.state(store)).notes) == ["g2", "o3"]
        assert ids(await store.notes(ANA, statuses=("superseded",))) == ["o0", "r1", "o1", "o2"]

    async def test_a_note_can_be_rewritten_in_its_place(self, store: Store) -> None:
        await self.record(store, *talk(1, 5))
        await self.commit(store, note("n1", 1, 3, degraded=True))
        await self.commit(store, note("n2", 1, 3), supersede=("n1",))
        assert ids((await self.state(store)).notes) == ["n2"]

    @pytest.mark.parametrize(
        "change",
        [
            {"guard": Guard(2, 0)},
            {"guard": Guard(4, 0)},
            {"guard": Guard(3, 1)},
            {"guard": Guard(3, 0, fence=0)},
            {"guard": Guard(3, 0, fence=99)},
            {"activate": ("active",)},
            {"activate": ("nobody",)},
            {"activate": (), "supersede": ("buffered",)},
            {"supersede": ("nobody",)},
            {"supersede": ("active", "active")},
            {"add": (note("twice", 1, 2),)},
            {"add": (note("active", 4, 4),)},
            {"add": (note("one", 4, 4), note("two", 4, 5))},
        ],
        ids=str,
    )
    async def test_a_stale_commit_changes_nothing(self, store: Store, change: dict[str, Any]) -> None:
        await self.record(store, *talk(1, 5))
        await self.commit(store, note("active", 1, 2), note("buffered", 3, 3, status="buffered"))
        assert await store.lease(ANA, holder="w", now=later(0), until=later(1)) == 1
        before = await self.state(store)
        whole: dict[str, Any] = {
            "guard": Guard(3, 0, fence=1),
            "add": (note("n3", 4, 5),),
            "activate": ("buffered",),
            "supersede": ("active",),
            "frontier": 5,
            "watermark": 5,
            "tail_start": 6,
        }
        with pytest.raises(ConflictError):
            # What is wrong comes last among what is right, where it can.
            await store.commit(ANA, Commit(**(whole | change)) if "add" not in change else _stale(change))
        assert await self.state(store) == before
        assert ids(await store.notes(ANA, statuses=("superseded", "retired"))) == []
        progress = await store.commit(ANA, Commit(**whole))
        assert progress.frontier == 5

    async def test_a_commit_to_a_deleted_session_is_refused(self, store: Store) -> None:
        with pytest.raises(ConflictError):
            await store.commit(ANA, Commit(Guard(0, 0), add=(note("n1", 1, 1),)))
        assert await store.load(ANA) is None

    async def test_a_commit_for_a_deleted_session_does_not_reach_its_namesake(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        guard = Guard(0, (await self.state(store)).progress.revision)
        await store.delete_session(ANA)
        await self.record(store, *talk(1, 3))
        with pytest.raises(ConflictError):
            await store.commit(ANA, Commit(guard, add=(note("n1", 1, 3),), frontier=3))
        assert (await self.state(store)).notes == ()

    # -- reading

    async def test_notes_are_listed_oldest_first(self, store: Store) -> None:
        await self.three_generations(store)
        everything = await store.notes(ANA, statuses=("active", "superseded"))
        assert ids(everything) == ["o0", "r1", "g2", "o1", "o2", "o3"]
        assert ids(await store.notes(ANA)) == ["g2", "o3"]
        assert ids(await store.notes(ANA, kind="observation")) == ["o3"]
        assert ids(await store.notes(ANA, kind="reflection", statuses=("superseded",))) == ["r1"]
        assert ids(await store.notes(ANA, statuses=())) == []

    async def test_recent_gives_the_newest_oldest_first(self, store: Store) -> None:
        await self.record(store, *talk(1, 9))
        for n in range(1, 9):
            await self.commit(store, note(f"n{n}", n, n))
        assert ids(await store.notes(ANA, recent=3)) == ["n6", "n7", "n8"]
        assert ids(await store.notes(ANA, recent=99)) == [f"n{n}" for n in range(1, 9)]
        assert ids(await store.notes(ANA, recent=0)) == []

    async def test_a_listing_goes_on_behind_any_note_of_it(self, store: Store) -> None:
        await self.three_generations(store)
        every: Any = {"statuses": ("active", "superseded")}
        everything = await store.notes(ANA, **every)
        for size in (1, 2, 4):
            walked: list[str] = []
            page = await store.notes(ANA, **every, limit=size)
            while page:
                assert len(page) <= size
                walked += ids(page)
                last = page[-1]
                page = await store.notes(
                    ANA, **every, limit=size, after=(last.first, last.generation, last.id)
                )
            assert walked == ids(everything)
        assert ids(await store.notes(ANA, after=(1, 0, ""), kind="observation")) == ["o3"]

    async def test_notes_are_found_by_id(self, store: Store) -> None:
        await self.three_generations(store)
        every: Any = ("active", "superseded")
        assert ids(await store.notes(ANA, ids=["o3", "nobody", "r1"], statuses=every)) == ["r1", "o3"]
        assert ids(await store.notes(ANA, ids=["o3", "r1"])) == ["o3"]
        assert ids(await store.notes(ANA, ids=[], statuses=every)) == []

    async def test_a_note_leads_back_to_its_messages_through_generations(self, store: Store) -> None:
        await self.three_generations(store)
        assert ids(await store.sources(ANA, "o1")) == ["m3", "m4"]
        assert ids(await store.sources(ANA, "g2")) == [f"m{n}" for n in range(1, 7)]
        await self.compact(store, 6)
        assert ids(await store.sources(ANA, "g2")) == [f"m{n}" for n in range(1, 7)]
        assert list(await store.sources(ANA, "nobody")) == []
        assert list(await store.sources(BEN, "g2")) == []

    # -- deleting

    async def test_deleting_notes_sets_their_messages_aside(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("n1", 1, 2), note("n2", 3, 4, status="buffered"))
        before = (await self.state(store)).progress
        assert await store.delete_notes(ANA) == 2
        state = await self.state(store)
        assert (state.notes, ids(state.messages)) == ((), ["m5", "m6"])
        assert await self.live(store) == ["m5", "m6"]
        assert ids(await store.messages(ANA, archived=True)) == [f"m{n}" for n in range(1, 7)]
        assert await self.conversation(store) == [f"m{n}" for n in range(1, 7)]
        after = state.progress
        assert (after.history_hash, after.last_seq, after.unnoted_tokens) == (before.history_hash, 6, 20)
        assert (after.frontier, after.watermark, after.prompt_version) == (4, 4, before.prompt_version + 1)
        assert await store.delete_notes(ANA) == 0
        assert await self.state(store) == state

    async def test_deleting_one_kind_leaves_the_other(self, store: Store) -> None:
        await self.three_generations(store)
        assert await store.delete_notes(ANA, "observation") == 1
        everything = await store.notes(ANA, statuses=("active", "buffered", "superseded", "retired"))
        assert ids(everything) == ["r1", "g2"]
        assert await self.live(store) == [f"m{n}" for n in (1, 2, 3, 4, 5, 6, 9)]
        assert await store.delete_notes(ANA, "reflection") == 1
        assert await self.live(store) == ["m9"]

    async def test_what_only_a_buffered_note_covers_is_still_shown_raw(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("n1", 1, 2))
        await self.commit(store, note("r1", 1, 2, generation=1, sources=("n1",)), supersede=("n1",))
        await self.commit(store, note("n2", 3, 4, status="buffered"))
        assert await store.delete_notes(ANA, "reflection") == 1
        state = await self.state(store)
        assert (state.progress.watermark, state.progress.frontier) == (2, 4)
        assert ids(state.unshown) == ["m3", "m4", "m5", "m6"]

    async def test_a_reflection_leads_back_although_the_notes_between_are_deleted(self, store: Store) -> None:
        await self.three_generations(store)
        await self.compact(store, 2)
        await store.delete_notes(ANA, "observation")
        assert ids(await store.sources(ANA, "g2")) == [f"m{n}" for n in range(1, 7)]

    async def test_deleting_notes_touches_no_other_session_or_owner(self, store: Store) -> None:
        other = ANA._replace(key="other")
        for session in (ANA, BEN, other):
            await self.record(store, *talk(1, 4), session=session)
            await self.commit(store, note("n1", 1, 2), session=session)
        before = [await self.state(store, s) for s in (BEN, other)]
        assert await store.delete_notes(ANA) == 1
        assert [await self.state(store, s) for s in (BEN, other)] == before

    async def test_notes_go_on_after_deleting(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("n1", 1, 4))
        await store.delete_notes(ANA)
        progress = await self.commit(store, note("n2", 5, 6))
        assert (progress.frontier, progress.unnoted_tokens) == (6, 0)
        assert ids((await self.state(store)).notes) == ["n2"]

    # -- pins

    async def test_pins_on_notes_and_messages(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("n1", 1, 4))
        prompt_version = (await self.state(store)).progress.prompt_version
        for target in ("n1", "m2", "m5", "m5"):
            await store.pin(ANA, target, on=True)
        store = await self.reopen(store)
        state = await self.state(store)
        assert state.pins == {"n1", "m2", "m5"}
        assert ids(state.pinned) == ["m2"]
        assert ids(state.messages) == ["m5", "m6"]
        assert state.progress.prompt_version == prompt_version + 3
        await store.pin(ANA, "m2", on=False)
        await store.pin(ANA, "m2", on=False)
        state = await self.state(store)
        assert (state.pins, state.pinned) == ({"n1", "m5"}, ())
        assert state.progress.prompt_version == prompt_version + 4

    async def test_only_what_is_there_can_be_pinned(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.record(store, said("ben's"), session=BEN)
        await self.commit(store, note("n1", 1, 2))
        await self.commit(store, note("n2", 1, 2), supersede=("n1",))
        await self.realign(store, 5)
        before = await self.state(store)
        for target in ("nobody", "ben's", "n1", "m6"):
            for on in (True, False):
                with pytest.raises(KeyError):
                    await store.pin(ANA, target, on=on)
        with pytest.raises(KeyError):
            await store.pin(ANA._replace(key="none"), "m1", on=True)
        assert await self.state(store) == before

    async def test_the_pin_of_a_deleted_note_goes_with_it(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        await self.commit(store, note("n1", 1, 2))
        await store.pin(ANA, "n1", on=True)
        await store.delete_notes(ANA)
        assert (await self.state(store)).pins == frozenset()

    # -- pruning

    async def test_pruning_keeps_live_notes_and_what_they_lead_back_to(self, store: Store) -> None:
        await self.three_generations(store)
        assert await store.prune(before=later(999)) == 0
        assert len(await store.notes(ANA, statuses=("superseded",))) == 4
        assert ids(await store.sources(ANA, "g2")) == [f"m{n}" for n in range(1, 7)]

    async def test_pruning_deletes_what_is_old_and_leads_nowhere(self, store: Store) -> None:
        await self.three_generations(store)
        await self.realign(store, 3, said("new"))  # retires g2, r1, o1, o2 and o3, revives o0
        await self.commit(store, replace(note("late", 3, 3), made_at=later(50)))
        await self.commit(store, note("last", 3, 3), supersede=("late",))
        assert await store.prune(before=later(7)) == 5 + 3
        left = await store.notes(ANA, statuses=("active", "superseded", "retired"))
        assert ids(left) == ["o0", "last", "late"]
        assert await store.prune(before=later(20)) == 3
        assert await store.prune(before=later(51)) == 1
        assert await store.prune(before=later(51)) == 0
        assert await self.live(store) == ["m1", "m2", "m3", "new"]

    async def test_notes_are_shown_and_condensed_in_one_commit(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("n1", 1, 2))
        await self.commit(store, note("n3", 3, 4, status="buffered"))
        before = (await self.state(store)).progress.prompt_version
        both = replace(note("r1", 1, 4, generation=1), sources=("n1", "n3"))
        progress = await self.commit(
            store, both, activate=("n3",), supersede=("n1", "n3"), watermark=4, tail_start=5
        )
        assert (progress.watermark, progress.prompt_version) == (4, before + 1)
        assert [n.id for n in (await self.state(store)).notes] == ["r1"]
        superseded = await store.notes(ANA, statuses=("superseded",))
        assert sorted(n.id for n in superseded) == ["n1", "n3"]

    async def test_retired_messages_stay_while_a_note_names_them(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.commit(store, replace(note("n1", 1, 3), made_at=later(50)))
        await self.realign(store, 2)
        assert await store.prune(before=later(40)) == 1
        assert ids(await store.sources(ANA, "n1")) == ["m1", "m2", "m3"]
        assert await store.prune(before=later(51)) == 2


def _stale(change: dict[str, Any]) -> Commit:
    return Commit(Guard(3, 0, fence=1), activate=("buffered",), frontier=5, watermark=5, **change)


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
