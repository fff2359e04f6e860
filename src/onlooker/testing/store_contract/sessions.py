"""Sessions as a whole: listing, deleting, restarting; and the store's own values."""

from __future__ import annotations

from onlooker.domain.messages import SessionId
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, BEN, NEVER, NOW, StoreCase, ids, later, note, said, talk


class SessionContract(StoreCase):
    async def test_most_recently_used_first(self, store: Store) -> None:
        for minute, key in enumerate("abca"):
            await store.append(
                SessionId("ana", key), [said(f"m{minute}")], due_tokens=NEVER, now=later(minute)
            )
        await store.append(SessionId("ben", "c"), [said("m1")], due_tokens=NEVER, now=later(9))
        listed = [s.progress.session for s in await store.sessions()]
        assert listed == [SessionId(*s) for s in (("ben", "c"), ("ana", "a"), ("ana", "c"), ("ana", "b"))]
        assert [s.progress.session.key for s in await store.sessions(owner="ana")] == ["a", "c", "b"]
        assert [s.progress.session.owner for s in await store.sessions(key="c")] == ["ben", "ana"]
        assert len(await store.sessions(owner="ana", key="c")) == 1
        assert [s.progress.session.key for s in await store.sessions(owner="ana", limit=2)] == ["a", "c"]
        assert list(await store.sessions(owner="nobody")) == []

    async def test_a_listing_counts_the_conversation_and_its_active_notes(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.commit(store, note("o1", 1, 2), note("o2", 3, 4))
        await self.commit(store, note("o3", 5, 6, status="buffered", tokens=99))
        reflection = note("r1", 1, 2, generation=1, sources=["o1"], tokens=4)
        await self.commit(store, reflection, supersede=("o1",))
        await self.compact(store, 3)
        (listed,) = await store.sessions()
        assert listed.progress == (await self.state(store)).progress
        assert (listed.messages, listed.message_tokens) == (8, 80)
        assert (listed.observations, listed.observation_tokens) == (1, 5)
        assert (listed.reflections, listed.reflection_tokens) == (1, 4)
        assert (listed.started_at, listed.last_at) == (later(1), later(8))

    async def test_its_counts_stay_right_whatever_happens(self, store: Store) -> None:
        async def counts() -> tuple[int, int]:
            (listed,) = await store.sessions()
            digests = await store.digests(ANA)
            assert listed.messages == len(digests)
            return listed.messages, listed.message_tokens

        await self.record(store, *talk(1, 8))
        await self.realign(store, 6, said("new"), 8)
        assert await counts() == (8, 80)
        await self.commit(store, note("n1", 1, 4))
        await self.compact(store, 2)
        await store.delete_notes(ANA)
        assert await counts() == (8, 80)
        await self.compact(store, 5, "s2", archive=False)
        assert await counts() == (7, 70)
        await self.realign(store, 6)
        assert await counts() == (5, 50)
        (listed,) = await store.sessions()
        assert (listed.started_at, listed.last_at) == (later(1), later(6))

    async def test_a_session_of_no_messages_has_no_times(self, store: Store) -> None:
        await self.compact(store, 0)
        (listed,) = await store.sessions()
        assert (listed.messages, listed.started_at, listed.last_at) == (0, None, None)

    async def test_deleting_a_session_leaves_nothing_of_it(self, store: Store) -> None:
        await self.record(store, *talk(1, 6), due_tokens=10)
        await self.record(store, *talk(1, 6), session=BEN)
        await self.commit(store, note("n1", 1, 3))
        await self.compact(store, 2)
        await store.pin(ANA, "n1", on=True)
        other = await self.state(store, BEN)
        assert await store.delete_session(ANA)
        assert not await store.delete_session(ANA)
        assert await store.load(ANA) is None
        assert list(await store.messages(ANA, archived=True)) == []
        assert list(await store.notes(ANA, statuses=("active", "buffered", "superseded", "retired"))) == []
        assert list(await store.due(later(99))) == []
        assert [s.progress.session for s in await store.sessions()] == [BEN]
        assert await self.state(store, BEN) == other

    async def test_a_deleted_session_can_begin_anew(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        fence = await store.lease(ANA, holder="a", now=NOW, until=later(1))
        await store.delete_session(ANA)
        progress = await self.record(store, *talk(1, 2))
        assert (progress.last_seq, progress.frontier, progress.unnoted_tokens) == (2, 0, 20)
        again = await store.lease(ANA, holder="b", now=NOW, until=later(1))
        assert fence is not None
        assert again is not None
        assert again > fence

    async def test_everything_survives_a_restart(self, store: Store) -> None:
        await self.record(store, *talk(1, 6), due_tokens=10)
        await self.commit(store, note("n1", 1, 3), note("n2", 4, 4, status="buffered"))
        await self.compact(store, 2)
        await store.pin(ANA, "m1", on=True)
        await store.set_value("name", "value")
        fence = await store.lease(ANA, holder="a", now=NOW, until=later(1))
        before = await self.state(store), await store.sessions(), await store.messages(ANA, archived=True)
        store = await self.reopen(store)
        after = await self.state(store), await store.sessions(), await store.messages(ANA, archived=True)
        assert after == before
        assert await store.lease(ANA, holder="b", now=NOW, until=later(1)) is None
        assert await store.lease(ANA, holder="a", now=NOW, until=later(1)) == fence
        assert await store.get_value("name") == "value"

    async def test_owners_with_like_keys_do_not_meet(self, store: Store) -> None:
        alike = [SessionId("a", "b:c"), SessionId("a:b", "c"), SessionId("", "a:b:c"), SessionId("a", "B:c")]
        for n, session in enumerate(alike):
            await self.record(store, said(f"m{n}"), session=session)
        for n, session in enumerate(alike):
            assert ids(await store.messages(session)) == [f"m{n}"]

    async def test_values_of_the_store_itself(self, store: Store) -> None:
        assert await store.get_value("calibration") is None
        for value in ("1.5", "", "strange \0 \ud800 東京"):
            await store.set_value("calibration", value)
            assert await store.get_value("calibration") == value
        assert await store.get_value("Calibration") is None
