"""Corrections: editing a note, undoing a reflection, forgetting; and the history of notes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onlooker.domain.errors import ConflictError
from onlooker.domain.history import Change, ChangeRow, Forgetting, MessageRow, Scope, Version, VersionRow
from onlooker.domain.messages import EMPTY_HISTORY_HASH, SessionId, extend_history_hash
from onlooker.domain.notes import Extraction, Guard, Note, Usage
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, BEN, NOW, StoreCase, ids, later, note, said, seqs, talk

EVERY: Any = ("active", "buffered", "superseded", "retired")


class CorrectionContract(StoreCase):
    erases = True  # whether the store itself overwrites the bytes of what was deleted

    # -- steps

    async def change_note(self, store: Store, ident: str, text: str, **more: Any) -> Note:
        given: dict[str, Any] = {"tokens": 7, "by": "ana", "now": later(9)}
        return await store.edit(ANA, ident, text, **(given | more))

    async def forget_messages(
        self, store: Store, *messages: str, deleted: tuple[str, ...] = (), rewritten: tuple[Note, ...] = ()
    ) -> None:
        progress = (await self.state(store)).progress
        changes = await self.changes(store)
        last = changes[-1].number if changes else 0
        change = Forgetting(messages, deleted, rewritten, last, progress.revision)
        await store.forget(ANA, change, now=later(9))

    async def changes(self, store: Store, session: SessionId = ANA) -> list[Change]:
        rows = store.dump(Scope(session=session, kinds=frozenset({"change"})))
        return [row.change async for row in rows if isinstance(row, ChangeRow)]

    async def versions(self, store: Store) -> list[Version]:
        rows = store.dump(Scope(session=ANA, kinds=frozenset({"version"})))
        return [row.version async for row in rows if isinstance(row, VersionRow)]

    async def places(self, store: Store) -> dict[str, str]:
        rows = store.dump(Scope(session=ANA, kinds=frozenset({"message"})))
        return {row.message.id: row.place async for row in rows if isinstance(row, MessageRow)}

    async def note_all(self, store: Store, *ranges: tuple[int, int]) -> None:
        for first, last in ranges:
            await self.commit(store, note(f"o{first}", first, last))

    # -- editing

    async def test_an_edited_note_has_the_new_text_and_keeps_the_old_one(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.commit(store, note("n1", 1, 3, model="m:x", degraded=True))
        before = (await self.state(store)).progress
        after = await self.change_note(store, "n1", "corrected \0\ud800")
        store = await self.reopen(store)
        state = await self.state(store)
        assert state.notes == (after,)
        assert (after.text, after.tokens, after.degraded) == ("corrected \0\ud800", 7, False)
        assert after.model == "person:ana"
        assert state.progress.prompt_version == before.prompt_version + 1
        assert state.progress.revision > before.revision
        assert await self.versions(store) == [
            Version("n1", 1, 0, "about n1", 5, "m:x", NOW),
            Version("n1", 2, 2, "corrected \0\ud800", 7, "ana", later(9)),
        ]

    async def test_every_edit_is_one_more_version(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.commit(store, note("n1", 1, 3))
        for number, text in enumerate(("one", "two", "three")):
            await self.change_note(store, "n1", text, now=later(number), by=f"person {number}")
        versions = await self.versions(store)
        assert [v.text for v in versions] == ["about n1", "one", "two", "three"]
        assert [v.number for v in versions] == [1, 2, 3, 4]
        assert [v.by for v in versions][1:] == ["person 0", "person 1", "person 2"]

    async def test_a_note_that_was_in_the_making_while_one_was_edited_is_void(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.note_all(store, (1, 2), (3, 4))
        progress = (await self.state(store)).progress
        await self.change_note(store, "o1", "corrected")
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"])
        guard = Guard(progress.frontier, progress.revision)
        with pytest.raises(ConflictError):
            await self.commit(store, r1, supersede=("o1", "o3"), guard=guard)

    async def test_only_a_live_note_of_the_session_can_be_edited(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.record(store, *talk(1, 6), session=BEN)
        await self.commit(store, note("bens", 1, 2), session=BEN)
        await self.note_all(store, (1, 2), (3, 4))
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"])
        await self.commit(store, r1, supersede=("o1", "o3"))
        for ident in ("nobody", "o1", "bens", "m1"):
            with pytest.raises(KeyError):
                await self.change_note(store, ident, "corrected")
        with pytest.raises(KeyError):
            await store.edit(SessionId("x", "y"), "r1", "corrected", tokens=1, by="", now=NOW)

    async def test_an_edit_of_a_text_that_is_no_longer_there_is_refused(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.commit(store, note("n1", 1, 3))
        await self.change_note(store, "n1", "one", was="about n1")
        with pytest.raises(ConflictError):
            await self.change_note(store, "n1", "two", was="about n1")
        assert (await self.state(store)).notes[0].text == "one"
        assert len(await self.versions(store)) == 2

    async def test_versions_go_with_their_note(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.commit(store, note("n1", 1, 3))
        await self.change_note(store, "n1", "one")
        await store.delete_notes(ANA)
        assert await self.versions(store) == []
        await self.record(store, *talk(5, 8))
        await self.commit(store, note("n2", 5, 6))
        await self.change_note(store, "n2", "one")
        await store.delete_session(ANA)
        assert await self.versions(store) == []
        assert await self.changes(store) == []

    # -- history

    async def test_every_change_of_notes_is_a_line_of_history(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.note_all(store, (1, 2))
        await self.commit(store, note("b3", 3, 4, status="buffered"))
        await self.commit(store, activate=("b3",), watermark=4, tail_start=5, at=later(3))
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "b3"], made_at=later(4))
        await self.commit(store, r1, supersede=("o1", "b3"))
        await self.realign(store, 2, said("other"))
        await store.delete_notes(ANA)
        store = await self.reopen(store)
        changes = await self.changes(store)
        assert [c.number for c in changes] == [1, 2, 3, 4, 5, 6]
        assert [c.statuses for c in changes] == [
            (("o1", "active"),),
            (("b3", "buffered"),),
            (("b3", "active"),),
            (("o1", "superseded"), ("b3", "superseded"), ("r1", "active")),
            (("b3", "retired"), ("r1", "retired"), ("o1", "active")),
            (("o1", "retired"),),
        ]
        assert [c.at for c in changes[:4]] == [NOW, NOW, later(3), later(4)]
        assert changes[4].taken == (2, 8)
        assert [(c.last_seq, c.frontier, c.watermark, c.tail_start) for c in changes[1:4]] == [
            (8, 4, 2, 3),
            (8, 4, 4, 5),
            (8, 4, 4, 5),
        ]

    async def test_history_says_how_large_the_session_was(self, store: Store) -> None:
        assert list(await store.changes(ANA, most=9)) == []
        await self.record(store, *talk(1, 4), said("m5", role="assistant", tokens=7, at=later(5)))
        await self.note_all(store, (1, 2))
        await self.record(store, said("m6", role="assistant", at=later(6)), said("m7", at=None))
        await self.compact(store, 2)
        await self.commit(store, note("o3", 3, 6, tokens=4))
        # What is taken back has been said, and was paid for.
        await self.realign(store, 5, said("other", role="assistant", tokens=1, at=later(8)))
        sizes = [(c.messages, c.tokens, c.replies, c.held, c.said_at) for c in await self.changes(store)]
        assert sizes == [
            (5, 47, 1, 5, later(5)),
            (7, 67, 2, 9, None),
            (6, 48, 3, 5, later(8)),
        ]
        await self.record(store, said("m9", role="assistant", at=later(9)))
        *history, now = await store.changes(ANA, most=9)
        assert history == await self.changes(store)
        assert (now.number, now.statuses, now.last_seq) == (4, (), 9)
        assert (now.messages, now.tokens, now.replies, now.held, now.said_at) == (7, 58, 4, 5, later(9))

    async def test_of_a_long_history_every_so_many_are_read_with_the_one_before(self, store: Store) -> None:
        await self.record(store, *talk(1, 30))
        await self.note_all(store, *((n, n) for n in range(1, 25)))
        numbers = [c.number for c in await store.changes(ANA, most=12)]
        assert numbers == [3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23, 24, 25]
        assert [c.number for c in await store.changes(ANA, most=24)] == list(range(1, 26))

    async def test_notes_are_as_they_were_when_a_message_was_the_newest(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.note_all(store, (1, 2))
        await self.record(store, *talk(5, 8))
        await self.change_note(store, "o1", "corrected \ud800")
        await self.commit(store, note("b3", 3, 4, status="buffered"))
        await self.record(store, *talk(9, 12))
        r1 = note("r1", 1, 2, generation=1, sources=["o1"])
        await self.commit(store, r1, supersede=("o1",))

        async def then(seq: int) -> list[tuple[str, str, str]]:
            return [(n.id, n.text, n.status) for n in await store.notes_at(ANA, seq)]

        assert await then(3) == []
        assert await then(4) == [("o1", "about o1", "active")]
        assert await then(8) == [("o1", "corrected \ud800", "active"), ("b3", "about b3", "buffered")]
        assert await then(99) == [("r1", "about r1", "active"), ("b3", "about b3", "buffered")]
        assert list(await store.notes_at(BEN, 9)) == []

    async def test_a_note_has_a_history(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.note_all(store, (1, 2), (3, 4))
        await self.change_note(store, "o1", "corrected")
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"], made_at=later(10))
        await self.commit(store, r1, supersede=("o1", "o3"))
        history = await store.note_history(ANA, "o1")
        assert history is not None
        assert history.note.text == "corrected"
        assert [v.text for v in history.versions] == ["about o1", "corrected"]
        assert history.statuses == ((NOW, "active"), (later(10), "superseded"))
        assert history.made_into == ("r1",)
        whole = await store.note_history(ANA, "r1")
        assert whole is not None
        assert (whole.versions, whole.made_into) == ((), ())
        assert await store.note_history(ANA, "nobody") is None
        assert await store.note_history(BEN, "o1") is None

    # -- undoing

    async def test_an_undone_reflection_gives_way_to_the_notes_it_was_made_from(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.note_all(store, (1, 2), (3, 4), (5, 6))
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"])
        before = await self.commit(store, r1, supersede=("o1", "o3"))
        await store.pin(ANA, "r1", on=True)
        progress = await store.undo(ANA, "r1", prompt_version=before.prompt_version + 1, now=later(9))
        store = await self.reopen(store)
        state = await self.state(store)
        assert ids(state.active) == ["o1", "o3", "o5"]
        assert state.progress == progress
        assert (progress.frontier, progress.watermark, progress.prompt_version) == (
            6,
            6,
            before.prompt_version + 2,
        )
        assert progress.revision > before.revision
        assert state.pins == frozenset()
        assert ids(await store.notes(ANA, statuses=["retired"])) == ["r1"]
        statuses = (("r1", "retired"), ("o1", "active"), ("o3", "active"))
        assert (await self.changes(store))[-1].statuses == statuses

    async def test_only_an_active_reflection_whose_sources_are_there_can_be_undone(
        self, store: Store
    ) -> None:
        await self.record(store, *talk(1, 8))
        await self.note_all(store, (1, 2), (3, 4))
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"])
        prompt_version = (await self.commit(store, r1, supersede=("o1", "o3"))).prompt_version
        for ident in ("nobody", "o1"):
            with pytest.raises(KeyError):
                await store.undo(ANA, ident, prompt_version=prompt_version, now=NOW)
        with pytest.raises(KeyError):
            await store.undo(BEN, "r1", prompt_version=prompt_version, now=NOW)
        with pytest.raises(ConflictError):
            await store.undo(ANA, "r1", prompt_version=prompt_version - 1, now=NOW)
        await store.delete_notes(ANA, "observation")
        with pytest.raises(ConflictError):
            await store.undo(ANA, "r1", prompt_version=prompt_version, now=NOW)
        assert ids((await self.state(store)).active) == ["r1"]

    # -- forgetting

    async def test_a_forgotten_message_is_nowhere_any_more(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.record(store, *talk(1, 6), session=BEN)
        await self.note_all(store, (1, 3))
        await self.change_note(store, "o1", "mentions m2")
        await store.pin(ANA, "m2", on=True)
        rewritten = note("o1", 1, 3, sources=["m1", "m3"], text="without", degraded=True, made_at=later(9))
        before = (await self.state(store)).progress
        await self.forget_messages(store, "m2", "m5", rewritten=(rewritten,))
        store = await self.reopen(store)
        state = await self.state(store)
        assert state.notes == (rewritten,)
        assert seqs(await store.messages(ANA, archived=True)) == [1, 3, 4, 6]
        assert ids(await store.sources(ANA, "o1")) == ["m1", "m3"]
        assert await self.versions(store) == []
        assert state.pins == frozenset()
        progress = state.progress
        assert (progress.last_seq, progress.frontier, progress.watermark) == (6, 3, 3)
        assert progress.unnoted_tokens == 20
        assert progress.revision > before.revision
        assert progress.prompt_version > before.prompt_version
        assert progress.history_hash == await self._chain_of(store)
        summary = next(s for s in await store.sessions(owner="ana"))
        assert (summary.messages, summary.message_tokens) == (4, 40)
        assert len(await store.messages(BEN)) == 6

    async def _chain_of(self, store: Store) -> bytes:
        history_hash = EMPTY_HISTORY_HASH
        for digest in await store.digests(ANA):
            history_hash = extend_history_hash(history_hash, digest.digest)
        return history_hash

    async def test_a_note_that_nothing_is_left_for_goes_and_the_rest_stays_noted(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.note_all(store, (1, 2), (3, 4))
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"])
        await self.commit(store, r1, supersede=("o1", "o3"))
        found = replace(r1, sources=("o3",), text="only o3")
        await self.forget_messages(store, "m1", "m2", deleted=("o1",), rewritten=(found,))
        state = await self.state(store)
        assert state.notes == (found,)
        assert ids(await store.sources(ANA, "r1")) == ["m3", "m4"]
        assert seqs(state.messages) == [5, 6]

    async def test_what_was_extracted_from_it_goes_with_it(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        places = ((1,), (2,), (3,), (1, 2))
        found = tuple(Extraction("Order", "{}", "n1", ANA, place, NOW, NOW) for place in places)
        await self.commit(store, note("n1", 1, 3), extractions=found)
        await self.forget_messages(store, "m2", rewritten=(note("n1", 1, 3, sources=["m1", "m3"]),))
        assert [e.seqs for e in await store.extractions(ANA)] == [(1,), (3,)]

    async def test_archived_and_retired_messages_can_be_forgotten_too(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.realign(store, 4, said("m5", "edited"))
        await self.forget_messages(store, "m5", "m6")
        assert await self.places(store) == {f"m{n}": "live" for n in (1, 2, 3, 4)}

    async def test_a_summary_that_stands_for_it_makes_way_for_the_rest_of_what_it_stood_for(
        self, store: Store
    ) -> None:
        await self.record(store, *talk(1, 8))
        await self.note_all(store, (1, 2), (3, 5))
        await self.compact(store, 2, "first")
        await self.compact(store, 5, "second")
        await self.forget_messages(store, "m4", rewritten=(note("o3", 3, 5, sources=["m3", "m5"]),))
        assert await self.live(store) == ["first", "m3", "m5", "m6", "m7", "m8"]
        assert await self.conversation(store) == ["m1", "m2", "m3", "m5", "m6", "m7", "m8"]
        await self.forget_messages(store, "m1", rewritten=(note("o1", 1, 2, sources=["m2"]),))
        assert await self.live(store) == ["m2", "m3", "m5", "m6", "m7", "m8"]
        assert "first" not in await self.places(store)

    async def test_a_summary_that_tells_of_it_goes_wherever_it_stands(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.note_all(store, (1, 2), (3, 5))
        await self.compact(store, 2, "first")
        await self.compact(store, 4, "second")
        progress = (await self.state(store)).progress
        change = Forgetting(("m7",), (), (), 2, progress.revision, summaries=("second",))
        await store.forget(ANA, change, now=later(9))
        assert await self.live(store) == ["first", "m3", "m4", "m5", "m6", "m8"]
        assert "second" not in await self.places(store)

    async def test_a_summary_whose_originals_were_deleted_goes_with_what_it_stands_for(
        self, store: Store
    ) -> None:
        await self.record(store, *talk(1, 6))
        await self.note_all(store, (1, 3))
        await self.compact(store, 3, archive=False)
        await self.forget_messages(store, "m2", deleted=("o1",), rewritten=())
        assert await self.live(store) in (["sum", "m4", "m5", "m6"], ["m4", "m5", "m6"])
        assert (await self.state(store)).notes == ()

    async def test_forgetting_that_was_decided_on_other_notes_is_refused(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.note_all(store, (1, 2))
        progress = (await self.state(store)).progress
        stale = Forgetting(("m1",), (), (), 1, progress.revision)
        await self.note_all(store, (3, 4))
        with pytest.raises(ConflictError):
            await store.forget(ANA, stale, now=NOW)
        with pytest.raises(ConflictError):
            await store.forget(ANA, replace(stale, change=2, revision=progress.revision + 1), now=NOW)
        with pytest.raises(ConflictError):
            await store.forget(SessionId("x", "y"), stale, now=NOW)
        assert len(await store.messages(ANA)) == 6

    async def test_a_model_is_asked_to_write_the_rest_again_where_one_should(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        progress = (await self.state(store)).progress
        await store.forget(ANA, Forgetting(("m1",), (), (), 0, progress.revision, due=True), now=later(3))
        assert list(await store.due(later(3))) == [ANA]

    async def test_a_forgotten_owner_leaves_nothing_and_others_keep_everything(self, store: Store) -> None:
        second = SessionId("ana", "slack:7")
        for session in (ANA, second, BEN):
            await self.record(store, *talk(1, 4), session=session)
            await self.commit(store, note("n1", 1, 2), session=session)
            await store.record_usage(session, Usage("m:x", "observe", 1, 1, "accepted", NOW, 0.5))
        assert await store.forget_owner("ana") == 2
        assert await store.forget_owner("ana") == 0
        store = await self.reopen(store)
        assert [s.progress.session for s in await store.sessions()] == [BEN]
        assert await store.load(ANA) is None
        assert await store.spent(owner="ana") == 0
        assert await store.spent(owner="ben") == 0.5
        assert await store.spent() == 1.5
        assert [row async for row in store.dump(Scope(owner="ana"))] == []
        assert ids((await self.state(store, BEN)).notes) == ["n1"]

    async def test_erasing_changes_nothing_that_is_kept(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.note_all(store, (1, 3))
        await self.forget_messages(store, "m5")
        before = [row async for row in store.dump()]
        assert await store.erase() is self.erases
        assert [row async for row in store.dump()] == before
