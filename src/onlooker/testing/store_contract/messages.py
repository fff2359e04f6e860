"""Messages: recording and reading, compaction, retention."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from onlooker.domain.errors import ClosedError, ConflictError, StoreError
from onlooker.domain.history import RetentionLimits, RetentionResult
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId, ToolCall, extend_history_hash
from onlooker.domain.notes import LIVE, Progress
from onlooker.domain.search import Query
from onlooker.policy.search.words import query_tokens
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

STRANGE_TEXTS = [
    "",
    " \t\r\n",
    "nul \0 inside",
    "\0",
    "lone \ud83d surrogate",
    "\udc00",
    "\ufdd0 no character",
    '\ufdd0\ufdd0"quoted"',
    "Ünï cödé — العربية עברית हिन्दी ไทย 日本語 한국어 中文 ελληνικά русский 🜂👩🏽‍🚀 𓀀",
    "'; DROP TABLE messages; -- %_?*[]{}\\",
    "../../etc/passwd",
]


class MessageContract(StoreCase):
    async def test_opening_and_closing_twice_is_harmless(self, store: Store) -> None:
        await store.open()
        await self.record(store, *talk(1, 2))
        await store.close()
        await store.close()

    async def test_a_closed_store_says_so(self, store: Store) -> None:
        await self.record(store, said("m1"))
        await store.close()
        with pytest.raises(ClosedError):
            await self.record(store, said("m2"))
        with pytest.raises(ClosedError):
            await store.load(ANA)
        with pytest.raises(ClosedError):
            await store.usage()
        with pytest.raises(ClosedError):
            await store.set_value("name", "value")

    async def test_a_closed_store_can_be_opened_again(self, store: Store) -> None:
        await self.record(store, said("m1"))
        await store.close()
        await store.open()
        await self.record(store, said("m2"))
        assert "m2" in await self.live(store)

    async def test_an_unknown_session_is_empty_everywhere(self, store: Store) -> None:
        assert await store.load(ANA) is None
        assert list(await store.messages(ANA, archived=True)) == []
        assert list(await store.digests(ANA)) == []
        assert list(await store.notes(ANA)) == []
        assert list(await store.sources(ANA, "n1")) == []
        assert await store.delete_notes(ANA) == 0
        assert await store.load(ANA) is None

    async def test_appending_makes_the_session_and_numbers_its_messages(self, store: Store) -> None:
        done = await store.append(ANA, talk(1, 3), due_tokens=NEVER, now=NOW)
        assert seqs(done.messages) == [1, 2, 3]
        assert (done.progress.session, done.progress.last_seq) == (ANA, 3)
        assert (done.progress.frontier, done.progress.watermark, done.progress.tail_start) == (0, 0, 1)
        done = await store.append(ANA, talk(4, 5), due_tokens=NEVER, now=NOW)
        assert seqs(done.messages) == [4, 5]
        assert ids(await store.messages(ANA)) == ["m1", "m2", "m3", "m4", "m5"]
        assert done.progress == (await self.state(store)).progress

    async def test_a_known_id_is_passed_over(self, store: Store) -> None:
        await self.record(store, *talk(1, 2))
        done = await store.append(
            ANA, [said("m2", "other"), said("m3"), said("m3", "again"), said("m1")], due_tokens=NEVER, now=NOW
        )
        assert [(m.id, m.text, m.seq) for m in done.messages] == [("m3", "m3", 3)]
        assert [m.text for m in await store.messages(ANA)] == ["m1", "m2", "m3"]
        assert done.progress.last_seq == 3
        assert done.progress.unnoted_tokens == 30

    async def test_an_append_may_depend_on_where_the_session_stands(self, store: Store) -> None:
        nothing = Progress(ANA)
        done = await store.append(ANA, talk(1, 2), due_tokens=NEVER, now=NOW, after=nothing)
        again = await store.append(ANA, talk(3, 3), due_tokens=NEVER, now=NOW, after=done.progress)
        assert seqs(again.messages) == [3]
        before = await self.state(store), await store.sessions()
        for stale in (nothing, done.progress, replace(again.progress, revision=7)):
            with pytest.raises(ConflictError):
                await store.append(ANA, talk(4, 5), due_tokens=NEVER, now=later(5), after=stale)
        assert (await self.state(store), await store.sessions()) == before

    async def test_a_refused_append_makes_no_session(self, store: Store) -> None:
        with pytest.raises(ConflictError):
            await store.append(
                ANA, talk(1, 2), due_tokens=NEVER, now=NOW, after=replace(Progress(ANA), last_seq=3)
            )
        assert await store.load(ANA) is None
        assert list(await store.sessions()) == []

    async def test_of_many_appends_at_once_only_the_outdated_are_refused(self, store: Store) -> None:
        other = SessionId("ana", "other")
        calls = [
            store.append(ANA, talk(n, n), due_tokens=NEVER, now=NOW, after=Progress(ANA)) for n in range(1, 9)
        ]
        calls += [store.append(other, talk(n, n), due_tokens=NEVER, now=NOW) for n in range(1, 9)]
        calls += [store.append(ANA, talk(n, n), due_tokens=NEVER, now=NOW) for n in range(9, 12)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        refused = [isinstance(d, ConflictError) for d in done]
        assert refused[:8].count(False) == 1
        assert not any(refused[8:])
        first = refused.index(False) + 1
        assert ids(await store.messages(ANA)) == [f"m{n}" for n in (first, 9, 10, 11)]
        assert ids(await store.messages(other)) == [f"m{n}" for n in range(1, 9)]

    async def test_what_was_taken_back_is_listed(self, store: Store) -> None:
        assert list(await store.retired(ANA)) == []
        await self.record(store, *talk(1, 4))
        await self.compact(store, 1)
        await self.realign(store, 2)
        assert [(r.seq, r.id, r.role) for r in await store.retired(ANA)] == [
            (3, "m3", "user"),
            (4, "m4", "user"),
        ]
        await self.realign(store, 2, said("m3"))
        assert [r.id for r in await store.retired(ANA)] == ["m4"]

    async def test_an_archived_or_retired_id_is_known_as_well(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.compact(store, 2)
        await self.realign(store, 5)
        before = await self.state(store)
        done = await store.append(ANA, [said("m1"), said("m6"), said("sum")], due_tokens=NEVER, now=NOW)
        assert done.messages == ()
        assert await self.state(store) == before

    async def test_the_same_id_in_another_session_is_another_message(self, store: Store) -> None:
        await self.record(store, said("m1", "Ana's"))
        await self.record(store, said("m1", "Ben's"), session=BEN)
        assert [m.text for m in await store.messages(ANA)] == ["Ana's"]
        assert [m.text for m in await store.messages(BEN)] == ["Ben's"]

    async def test_the_chain_is_the_fold_of_the_digests(self, store: Store) -> None:
        for part in (talk(1, 3), talk(4, 4), [], talk(3, 6)):
            await self.record(store, *part)
        history_hash = EMPTY_HISTORY_HASH
        for message in talk(1, 6):
            history_hash = extend_history_hash(history_hash, message.digest)
        assert (await self.state(store)).progress.history_hash == history_hash

    async def test_everything_about_a_message_comes_back_but_the_hosts_own_form(self, store: Store) -> None:
        zone = timezone(timedelta(hours=5, minutes=45))
        message = Message(
            "assistant",
            "Looking.\nTwice.",
            id="call-1",
            at=datetime(2026, 2, 16, 14, 2, 3, 456789, tzinfo=zone),
            name="helper \ud800",
            calls=(ToolCall("c1", "search", '{"q": "東京"}'), ToolCall("c2", "nul\0", "\udfff")),
            attachments=("[image 3f2a91: image/png]",),
            tokens=17,
            original={"role": "assistant", "provider": object()},
        )
        answer = said("answer", "found", role="tool", answers="c1", name="search")
        done = await store.append(ANA, [message, answer], due_tokens=NEVER, now=NOW)
        assert done.messages[0].original is message.original
        assert done.messages == (replace(message, seq=1), replace(answer, seq=2))
        back = await store.messages(ANA)
        assert tuple(back) == done.messages
        assert back[0].at is not None
        assert back[0].at.isoformat() == "2026-02-16T14:02:03.456789+05:45"
        assert back[0].original is None
        assert [d.digest for d in await store.digests(ANA)] == [m.digest for m in done.messages]
        assert [(d.seq, d.id, d.role) for d in await store.digests(ANA)] == [
            (1, "call-1", "assistant"),
            (2, "answer", "tool"),
        ]

    async def test_strange_text_comes_back_as_it_was(self, store: Store) -> None:
        strange = [said(f"m{n}", name=text, tokens=1) for n, text in enumerate(STRANGE_TEXTS)]
        strange = [replace(m, text=text) for m, text in zip(strange, STRANGE_TEXTS, strict=True)]
        await self.record(store, *strange)
        store = await self.reopen(store)
        back = await store.messages(ANA)
        assert [m.text for m in back] == STRANGE_TEXTS
        assert [m.name for m in back] == STRANGE_TEXTS

    async def test_strange_ids_keys_and_owners_are_told_apart(self, store: Store) -> None:
        sessions = [
            SessionId(owner, key) for owner in STRANGE_TEXTS for key in ("", "k", *STRANGE_TEXTS[2:5])
        ]
        for number, session in enumerate(sessions):
            await self.record(store, *(said(i, f"{number} {i}") for i in STRANGE_TEXTS), session=session)
        for number, session in enumerate(sessions):
            assert await self.record(store, *(said(i) for i in STRANGE_TEXTS), session=session)
            assert [m.id for m in await store.messages(session)] == STRANGE_TEXTS
            assert (await store.messages(session))[0].text == f"{number} "
        assert {s.progress.session for s in await store.sessions()} == set(sessions)

    async def test_five_megabytes_in_one_message(self, store: Store) -> None:
        text = "0123456789abcdé\n" * (5 * 2**20 // 16)
        await self.record(store, said("m1", text), said("m2", text + "\0\ud800"))
        assert [m.text for m in await store.messages(ANA)] == [text, text + "\0\ud800"]

    async def test_a_thousand_messages_in_one_call(self, store: Store) -> None:
        done = await store.append(ANA, talk(1, 1000), due_tokens=NEVER, now=NOW)
        assert seqs(done.messages) == list(range(1, 1001))
        assert done.progress.unnoted_tokens == 10_000
        assert ids(await store.messages(ANA)) == [f"m{n}" for n in range(1, 1001)]

    async def test_messages_of_concurrent_calls_are_all_there_and_each_call_in_one_piece(
        self, store: Store
    ) -> None:
        calls = [[said(f"{n}-{i}") for i in range(3)] for n in range(30)]
        await asyncio.gather(*(self.record(store, *call) for call in calls))
        found = await store.messages(ANA)
        assert seqs(found) == list(range(1, 91))
        for start in range(0, 90, 3):
            assert ids(found[start : start + 3]) in [ids(call) for call in calls]

    async def test_reading_by_seq(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        assert seqs(await store.messages(ANA, after=3)) == [4, 5, 6, 7, 8]
        assert seqs(await store.messages(ANA, up_to=2)) == [1, 2]
        assert seqs(await store.messages(ANA, after=3, up_to=6)) == [4, 5, 6]
        assert seqs(await store.messages(ANA, after=3, up_to=6, limit=2)) == [4, 5]
        assert seqs(await store.messages(ANA, limit=0)) == []
        assert seqs(await store.messages(ANA, after=8)) == []

    async def test_the_newest_digests(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.compact(store, 6)
        assert ids(await store.digests(ANA, newest=3)) == ["m6", "m7", "m8"]
        assert ids(await store.digests(ANA, newest=0)) == []
        assert ids(await store.digests(ANA, newest=99)) == [f"m{n}" for n in range(1, 9)]

    # -- when a session becomes due

    async def test_enough_tokens_make_a_session_due(self, store: Store) -> None:
        assert (await self.record(store, *talk(1, 2), due_tokens=30)).due_at is None
        assert (await self.record(store, said("m3"), due_tokens=30)).due_at == NOW
        assert list(await store.due(NOW)) == [ANA]

    async def test_a_session_that_is_due_keeps_its_time(self, store: Store) -> None:
        await self.record(store, said("m1"), due_tokens=10)
        done = await store.append(ANA, [said("m2")], due_tokens=10, now=later(5))
        assert done.progress.due_at == NOW

    async def test_the_sessions_own_mark_makes_it_due_as_well(self, store: Store) -> None:
        await self.record(store, said("m1"))
        fence = await store.lease(ANA, holder="w", now=NOW, until=later(1))
        assert fence is not None
        await store.release(ANA, fence=fence, last_seq=1, due_at=None, wake_at=30, failures=0)
        assert (await self.record(store, said("m2"))).due_at is None
        done = await store.append(ANA, [said("m3")], due_tokens=NEVER, now=later(2))
        assert (done.progress.due_at, done.progress.wake_at) == (later(2), 30)


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

    async def test_it_is_put_in_after_what_it_stands_for_though_that_is_archived(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.compact(store, 4, "s1")
        await self.compact(store, 2, "s2")
        found = await store.messages(ANA)
        assert [(m.id, m.seq) for m in found] == [("s2", 2), ("s1", 4), ("m5", 5), ("m6", 6)]

    @pytest.mark.parametrize("archive", [True, False])
    async def test_it_is_noted_with_what_it_stands_for_when_what_came_after_was_taken_back(
        self, store: Store, archive: bool
    ) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("n1", 1, 4))
        await self.commit(store, note("n2", 5, 6))
        await self.compact(store, 6, "s1", archive=archive)
        await self.realign(store, 4, said("m7"), said("m8"))
        await self.compact(store, 6, "s2", archive=archive)
        state = await self.state(store)
        assert [(m.id, m.seq) for m in await store.messages(ANA)] == [("s2", 4), ("m7", 7), ("m8", 8)]
        assert ids(state.unnoted) == ["m7", "m8"]

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


class RetentionContract(StoreCase):
    """m1 to m10 are said a minute apart; notes cover the first six."""

    async def talk_with_notes(self, store: Store) -> None:
        await self.record(store, *talk(1, 10))
        await self.commit(store, note("o1", 1, 3), note("o2", 4, 6))

    async def all_kept(self, store: Store) -> list[str]:
        return ids(await store.messages(ANA, archived=True))

    async def test_what_was_said_before_a_time_goes_into_the_archive(self, store: Store) -> None:
        await self.talk_with_notes(store)
        limits = RetentionLimits(archive_before=later(5))
        assert await store.retain(ANA, limits) == RetentionResult(archived=4)
        assert await self.live(store) == [f"m{n}" for n in range(5, 11)]
        assert await self.all_kept(store) == [f"m{n}" for n in range(1, 11)]
        assert ids(await store.sources(ANA, "o1")) == ["m1", "m2", "m3"]
        assert await store.retain(ANA, limits) == RetentionResult()

    async def test_what_is_older_than_the_newest_so_many_goes_into_the_archive(self, store: Store) -> None:
        await self.talk_with_notes(store)
        assert await store.retain(ANA, RetentionLimits(archive_beyond=8)) == RetentionResult(archived=2)
        assert await self.live(store) == [f"m{n}" for n in range(3, 11)]

    async def test_what_is_past_its_time_is_deleted_wherever_it_is(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await store.retain(ANA, RetentionLimits(archive_before=later(3)))
        assert await store.retain(ANA, RetentionLimits(delete_before=later(5))) == RetentionResult(deleted=4)
        assert await self.all_kept(store) == [f"m{n}" for n in range(5, 11)]
        assert await self.conversation(store) == [f"m{n}" for n in range(5, 11)]
        (summary,) = await store.sessions()
        assert (summary.messages, summary.message_tokens) == (6, 60)

    async def test_a_message_goes_through_the_archive_and_then_for_good(self, store: Store) -> None:
        await self.talk_with_notes(store)
        limits = RetentionLimits(archive_beyond=6, delete_beyond=8)
        assert await store.retain(ANA, limits) == RetentionResult(archived=2, deleted=2)
        assert await self.live(store) == [f"m{n}" for n in range(5, 11)]
        assert await self.all_kept(store) == [f"m{n}" for n in range(3, 11)]

    async def test_what_no_note_stands_for_stays_however_old_it_is(self, store: Store) -> None:
        await self.talk_with_notes(store)
        assert await store.retain(
            ANA, RetentionLimits(delete_before=later(99), delete_beyond=0)
        ) == RetentionResult(deleted=6)
        assert await self.live(store) == ["m7", "m8", "m9", "m10"]

    async def test_what_only_a_buffered_note_stands_for_stays(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("o1", 1, 6, status="buffered"))
        assert (
            await store.retain(ANA, RetentionLimits(delete_beyond=0, archive_beyond=0)) == RetentionResult()
        )

    async def test_what_still_stands_raw_in_the_prompt_stays(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("o1", 1, 6), tail_start=4)
        assert await store.retain(ANA, RetentionLimits(delete_beyond=0)) == RetentionResult(deleted=3)
        assert ids((await self.state(store)).messages) == ["m4", "m5", "m6"]

    async def test_what_is_pinned_stays(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await store.pin(ANA, "m2", on=True)
        assert await store.retain(ANA, RetentionLimits(delete_beyond=0)) == RetentionResult(deleted=5)
        assert ids((await self.state(store)).pinned) == ["m2"]

    async def test_what_a_note_to_be_written_anew_was_made_from_stays(self, store: Store) -> None:
        await self.record(store, *talk(1, 6))
        await self.commit(store, note("o1", 1, 3, degraded=True), note("o2", 4, 6))
        assert await store.retain(ANA, RetentionLimits(delete_beyond=0)) == RetentionResult(deleted=3)
        assert await self.live(store) == ["m1", "m2", "m3"]

    async def test_notes_and_marks_stay_as_they_are(self, store: Store) -> None:
        await self.talk_with_notes(store)
        before = await self.state(store)
        await store.retain(ANA, RetentionLimits(archive_beyond=9, delete_beyond=7))
        after = await self.state(store)
        assert after == before
        assert ids(await store.notes(ANA, statuses=LIVE)) == ["o1", "o2"]
        assert list(await store.sources(ANA, "o1")) == []

    async def test_a_summary_stays_and_what_was_taken_back_is_not_for_it_to_judge(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await self.compact(store, 3)
        await self.realign(store, 9)
        assert await store.retain(ANA, RetentionLimits(delete_beyond=0)) == RetentionResult(deleted=6)
        assert await self.live(store) == ["sum", "m7", "m8", "m9"]

    async def test_trying_changes_nothing(self, store: Store) -> None:
        await self.talk_with_notes(store)
        limits = RetentionLimits(archive_beyond=6, delete_beyond=8)
        assert await store.retain(ANA, limits, dry_run=True) == RetentionResult(archived=2, deleted=2)
        assert await self.live(store) == [f"m{n}" for n in range(1, 11)]
        assert await store.retain(ANA, limits) == RetentionResult(archived=2, deleted=2)

    async def test_no_other_session_is_touched(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await self.record(store, *talk(1, 3), session=BEN)
        await self.commit(store, note("b1", 1, 3), session=BEN)
        await store.retain(ANA, RetentionLimits(delete_beyond=0))
        assert len(await store.messages(BEN)) == 3
        assert await store.retain(BEN, RetentionLimits()) == RetentionResult()
        assert len(await store.messages(BEN)) == 3

    async def test_what_is_archived_can_be_found_and_what_is_deleted_cannot(self, store: Store) -> None:
        texts = [said("m1", "an albatross"), said("m2", "an antelope"), said("m3", "a bee")]
        await self.record(store, *texts)
        await self.commit(store, note("o1", 1, 3))
        while await store.index(ANA):
            pass
        await store.retain(ANA, RetentionLimits(archive_beyond=1, delete_beyond=2))
        words = dict.fromkeys(query_tokens("albatross antelope bee"), 1.0)
        found = await store.search(Query(ANA.owner, "message", words))
        assert sorted(m.id for m in found.matches) == ["m2", "m3"]

    async def test_the_conversation_goes_on_afterwards(self, store: Store) -> None:
        await self.talk_with_notes(store)
        await store.retain(ANA, RetentionLimits(delete_beyond=5))
        progress = await self.record(store, said("m11"))
        assert progress.last_seq == 11
        await self.commit(store, note("o3", 7, 9))
        assert await store.retain(ANA, RetentionLimits(delete_beyond=1)) == RetentionResult(deleted=4)
        assert await self.live(store) == ["m10", "m11"]
