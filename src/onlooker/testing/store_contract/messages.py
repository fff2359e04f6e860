"""Recording and reading messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from onlooker.domain.errors import ClosedError
from onlooker.domain.messages import EMPTY_HISTORY_HASH, Message, SessionId, ToolCall, extend_history_hash
from onlooker.ports import Store
from onlooker.testing.store_contract.case import (
    ANA,
    BEN,
    NEVER,
    NOW,
    StoreCase,
    ids,
    later,
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
