"""Sessions: listing and deleting, leases, due times, usage; and values of the store."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Usage, UsageDay
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

    async def test_a_listing_goes_on_behind_any_session_of_it(self, store: Store) -> None:
        for key in "abcdefg":
            session = SessionId("ana" if key < "e" else "ben", key)
            # Some at the same time, some an hour and more apart.
            await store.append(session, [said("m1")], due_tokens=NEVER, now=later(45 * (ord(key) // 2)))
        for owner in (None, "ana", "ben"):
            everything = await store.sessions(owner=owner)
            walked: list[SessionId] = []
            page = await store.sessions(owner=owner, limit=2)
            while page:
                assert len(page) <= 2
                walked += [s.progress.session for s in page]
                behind = page[-1].used_at, page[-1].progress.sid
                page = await store.sessions(owner=owner, limit=2, after=behind)
            assert walked == [s.progress.session for s in everything]

    async def test_sessions_are_found_by_letters_of_their_key_or_owner(self, store: Store) -> None:
        for owner, key in (("Ana", "telegram:42"), ("ben", "100%_sure!"), ("ben", "ÉCOLE")):
            await store.append(SessionId(owner, key), [said("m1")], due_tokens=NEVER, now=NOW)

        async def found(words: str, **more: Any) -> set[str]:
            return {s.progress.session.key for s in await store.sessions(matching=words, **more)}

        assert await found("GRAM:4") == {"telegram:42"}
        assert await found("aNA") == {"telegram:42"}
        assert await found("%") == await found("_") == await found("!") == {"100%_sure!"}
        assert await found("École") == {"ÉCOLE"}
        assert await found("be", owner="ben") == {"100%_sure!", "ÉCOLE"}
        assert await found("gram", owner="Ana", key="telegram:42") == {"telegram:42"}
        assert await found("slack", owner="Ana", key="telegram:42") == set()

    async def test_owners_are_named_once(self, store: Store) -> None:
        assert list(await store.owners(limit=9)) == []
        for owner in ("ben", "ana", "cem", "ana"):
            session = SessionId(owner, f"s{owner}")
            await store.append(session, [said(f"m{owner}")], due_tokens=NEVER, now=NOW)
        assert list(await store.owners(limit=9)) == ["ana", "ben", "cem"]
        assert list(await store.owners(limit=2)) == ["ana", "ben"]

    async def test_calls_are_counted_by_day_model_and_purpose(self, store: Store) -> None:
        await self.record(store, said("m1"))
        await self.record(store, said("m1"), session=BEN)
        for session, minutes, model, verdict, cost in (
            (ANA, 0, "a", "accepted", 0.25),
            (ANA, 1, "a", "too long", None),
            (ANA, 24 * 60, "a", "accepted", None),
            (BEN, 2, "b", "accepted", 0.5),
        ):
            usage = Usage(model, "observe", 10, 2, verdict, later(minutes), cost)
            await store.record_usage(session, usage)
        day = NOW.date()
        first = UsageDay(day, "a", "observe", 2, 1, 20, 4, 0.25)
        second = UsageDay(later(24 * 60).date(), "a", "observe", 1, 0, 10, 2, None)
        bens = UsageDay(day, "b", "observe", 1, 0, 10, 2, 0.5)
        assert list(await store.usage_by_day()) == [second, first, bens]
        assert list(await store.usage_by_day(owner="ana")) == [second, first]
        assert list(await store.usage_by_day(session=BEN)) == [bens]
        assert list(await store.usage_by_day(since=later(60))) == [second]
        await store.delete_session(ANA)
        assert list(await store.usage_by_day(owner="ana")) == [second, first]

    async def test_a_listing_counts_the_conversation_and_its_active_notes(self, store: Store) -> None:
        await self.record(store, *talk(1, 8))
        await self.commit(store, note("o1", 1, 2), note("o2", 3, 4, degraded=True))
        await self.commit(store, note("o3", 5, 6, status="buffered", tokens=99, degraded=True))
        reflection = note("r1", 1, 2, generation=1, sources=["o1"], tokens=4)
        await self.commit(store, reflection, supersede=("o1",))
        await self.compact(store, 3)
        (listed,) = await store.sessions()
        assert listed.progress == (await self.state(store)).progress
        assert (listed.messages, listed.message_tokens) == (8, 80)
        assert (listed.observations, listed.observation_tokens) == (1, 5)
        assert (listed.reflections, listed.reflection_tokens) == (1, 4)
        assert (listed.started_at, listed.last_at) == (later(1), later(8))
        assert (listed.used_at, listed.degraded) == (NOW, 1)

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

    async def test_part_of_a_long_backlog_is_read_from_either_end(self, store: Store) -> None:
        await self.record(store, *talk(1, 12))
        await self.commit(store, note("n1", 1, 2))
        # The newest ones get other numbers: there is a hole before them.
        await self.realign(store, 7, said("new"), 11, 12)
        whole = await self.state(store)
        assert whole.missing == 0
        for count in (1, 3, 7, 8, 9):
            newest, oldest = await store.load(ANA, newest=count), await store.load(ANA, oldest=count)
            assert newest == whole.part(newest=count)
            assert oldest == whole.part(oldest=count)
            left = max(0, len(whole.messages) - count)
            assert newest is not None
            assert (len(newest.messages), newest.missing) == (len(whole.messages) - left, left)
        # Messages that a note covers are shown raw as well, and are not missing.
        await self.commit(store, tail_start=1)
        overlapping = await store.load(ANA, newest=9)
        assert overlapping is not None
        assert (len(overlapping.messages), overlapping.missing) == (9, 0)
        assert await store.load(BEN, newest=1) is None

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

    async def test_a_value_is_swapped_only_if_it_is_as_expected(self, store: Store) -> None:
        assert not await store.swap_value("name", "b", expected="a")
        assert await store.swap_value("name", "a", expected=None)
        assert not await store.swap_value("name", "b", expected=None)
        assert await store.swap_value("name", "b", expected="a")
        assert not await store.swap_value("name", "c", expected="a")
        assert await store.get_value("name") == "b"

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


class LeaseContract(StoreCase):
    async def take(self, store: Store, holder: str, minute: float, *, minutes: float = 1) -> int | None:
        return await store.lease(ANA, holder=holder, now=later(minute), until=later(minute + minutes))

    async def give_back(
        self,
        store: Store,
        fence: int | None,
        *,
        last_seq: int = 1,
        due_at: datetime | None = None,
        wake_at: int = NEVER,
        failures: int = 0,
    ) -> None:
        assert fence is not None
        await store.release(
            ANA, fence=fence, last_seq=last_seq, due_at=due_at, wake_at=wake_at, failures=failures
        )

    async def due_at(self, store: Store) -> datetime | None:
        return (await self.state(store)).progress.due_at

    # -- leases

    async def test_one_worker_has_a_session_at_a_time(self, store: Store) -> None:
        await self.record(store, said("m1"))
        first = await self.take(store, "a", 0)
        assert first is not None
        assert await self.take(store, "b", 0.5) is None
        assert await store.lease(BEN, holder="b", now=NOW, until=later(1)) is None

    async def test_of_many_that_ask_at_once_one_gets_it(self, store: Store) -> None:
        await self.record(store, said("m1"))
        fences = await asyncio.gather(*(self.take(store, f"w{n}", 0) for n in range(20)))
        assert len([f for f in fences if f is not None]) == 1

    async def test_its_holder_extends_it_and_keeps_the_fence(self, store: Store) -> None:
        await self.record(store, said("m1"))
        fence = await self.take(store, "a", 0)
        assert await self.take(store, "a", 0.9) == fence
        assert await self.take(store, "b", 1.5) is None
        assert await self.take(store, "b", 1.9) != fence

    async def test_it_expires_and_changes_hands_with_a_higher_fence(self, store: Store) -> None:
        await self.record(store, said("m1"))
        fences = [await self.take(store, holder, minute) for minute, holder in enumerate("abab")]
        assert None not in fences
        assert fences == sorted(set(fences), key=str)
        assert len(set(fences)) == 4

    async def test_a_holder_that_comes_late_but_first_goes_on(self, store: Store) -> None:
        await self.record(store, said("m1"))
        fence = await self.take(store, "a", 0)
        assert await self.take(store, "a", 30) == fence

    async def test_given_back_it_is_free_and_the_next_has_a_higher_fence(self, store: Store) -> None:
        await self.record(store, said("m1"))
        first = await self.take(store, "a", 0)
        await self.give_back(store, first)
        second = await self.take(store, "a", 0.1)
        assert first is not None
        assert second is not None
        assert second > first

    async def test_a_clock_that_goes_backwards_breaks_nothing(self, store: Store) -> None:
        await self.record(store, said("m1"))
        fence = await self.take(store, "a", 30)
        assert await self.take(store, "b", 0) is None
        assert await self.take(store, "a", 0) == fence
        other = await self.take(store, "b", 2)  # after the lease as its holder last had it
        assert fence is not None
        assert other is not None
        assert other > fence

    async def test_an_old_fence_gives_nothing_back(self, store: Store) -> None:
        await self.record(store, said("m1"), due_tokens=10)
        old = await self.take(store, "a", 0)
        new = await self.take(store, "b", 2)
        await self.give_back(store, old, failures=7)
        assert await self.due_at(store) == NOW
        assert (await self.state(store)).progress.failures == 0
        assert await self.take(store, "c", 2.5) is None
        await self.give_back(store, new)
        await self.give_back(store, new, due_at=later(9))  # no longer its own to give
        assert await self.due_at(store) is None

    # -- due times

    async def test_settled_is_no_longer_due(self, store: Store) -> None:
        await self.record(store, said("m1"), due_tokens=10)
        await self.give_back(store, await self.take(store, "a", 0), wake_at=77)
        progress = (await self.state(store)).progress
        assert (progress.due_at, progress.wake_at, progress.failures) == (None, 77, 0)
        assert list(await store.due(later(999))) == []

    async def test_a_failure_makes_it_due_later(self, store: Store) -> None:
        await self.record(store, said("m1"), due_tokens=10)
        await self.give_back(store, await self.take(store, "a", 0), due_at=later(5), failures=2)
        store = await self.reopen(store)
        progress = (await self.state(store)).progress
        assert (progress.due_at, progress.failures) == (later(5), 2)
        assert list(await store.due(later(4.99))) == []
        assert list(await store.due(later(5))) == [ANA]

    async def test_what_came_during_the_work_and_stays_below_the_new_mark_leaves_it_settled(
        self, store: Store
    ) -> None:
        await self.record(store, said("m1"), due_tokens=10)
        fence = await self.take(store, "a", 0)
        await store.append(ANA, [said("m2")], due_tokens=20, now=later(0.5))
        await self.give_back(store, fence, last_seq=1, wake_at=21)
        assert await self.due_at(store) is None

    async def test_what_came_during_the_work_and_reaches_the_new_mark_makes_it_due(
        self, store: Store
    ) -> None:
        await self.record(store, said("m1"))
        fence = await self.take(store, "a", 0)
        await store.append(ANA, [said("m2")], due_tokens=NEVER, now=later(0.5))
        await self.give_back(store, fence, last_seq=1, wake_at=20)
        assert await self.due_at(store) == later(0.5)

    async def test_a_later_due_time_wins_over_what_came_meanwhile(self, store: Store) -> None:
        await self.record(store, said("m1"))
        fence = await self.take(store, "a", 0)
        await store.append(ANA, [said("m2")], due_tokens=20, now=later(0.5))
        await self.give_back(store, fence, last_seq=1, due_at=later(5), failures=1)
        assert await self.due_at(store) == later(5)

    async def test_longest_due_first(self, store: Store) -> None:
        sessions = [SessionId("ana", f"s{n}") for n in range(5)]
        for minute, session in zip((3, 1, 4, 0, 2), sessions, strict=True):
            await store.append(session, [said("m1")], due_tokens=10, now=later(minute))
        assert [s.key for s in await store.due(later(3))] == ["s3", "s1", "s4", "s0"]
        assert [s.key for s in await store.due(later(3), limit=2)] == ["s3", "s1"]

    async def test_a_lease_does_not_make_it_less_due(self, store: Store) -> None:
        # Else a worker that dies would take the session with it.
        await self.record(store, said("m1"), due_tokens=10)
        await self.take(store, "a", 0)
        assert list(await store.due(NOW)) == [ANA]

    async def test_a_clock_that_was_a_year_ahead_holds_nothing_back(self, store: Store) -> None:
        year = 60 * 24 * 365
        await self.record(store, said("m1"), due_tokens=10)
        fence = await self.take(store, "a", year)
        assert await self.take(store, "b", year + 0.5) is None
        taken = await self.take(store, "b", 0)
        assert taken is not None
        assert taken != fence
        await self.give_back(store, taken, due_at=later(year + 5), failures=1)
        assert list(await store.due(NOW)) == [ANA]
        assert list(await store.due(later(year))) == []
        assert list(await store.due(later(year + 5))) == [ANA]

    async def test_the_budget_is_remembered(self, store: Store) -> None:
        await self.record(store, *talk(1, 2))
        await store.set_budget(ANA, 16_000)
        await self.record(store, said("m3"))
        store = await self.reopen(store)
        assert (await self.state(store)).progress.budget == 16_000

    # -- usage

    async def test_what_calls_cost_is_kept_oldest_first(self, store: Store) -> None:
        calls = [
            Usage("m:x", "observe", n, 2 * n, "accepted" if n else "empty \ud800", later(n)) for n in range(4)
        ]
        for call, session in zip(calls, (ANA, BEN, ANA, BEN), strict=True):
            await store.record_usage(session, call)
        store = await self.reopen(store)
        assert list(await store.usage()) == calls
        assert list(await store.usage(ANA)) == calls[::2]
        assert list(await store.usage(ANA._replace(key="none"))) == []

    async def test_what_calls_cost_is_summed_by_session_owner_and_time(self, store: Store) -> None:
        other = ANA._replace(key="another")
        for session in (ANA, other, BEN):
            await store.append(session, [said("m1")], due_tokens=NEVER, now=NOW)
        for n, session in enumerate((ANA, other, BEN, ANA)):
            usage = Usage("m:x", "observe", 1, 1, "accepted", later(n), None if n == 3 else 0.25 * (n + 1))
            await store.record_usage(session, usage)
        store = await self.reopen(store)
        assert [usage.cost for usage in await store.usage()] == [0.25, 0.5, 0.75, None]
        assert await store.spent() == 1.5
        assert await store.spent(session=ANA) == 0.25
        assert await store.spent(owner=ANA.owner) == 0.75
        assert await store.spent(since=later(1)) == 1.25
        assert await store.spent(owner=ANA.owner, since=later(1)) == 0.5
        assert await store.spent(owner="nobody") == 0

    async def test_what_a_deleted_session_cost_stays_counted_for_its_owner_and_the_day(
        self, store: Store
    ) -> None:
        for session in (ANA, BEN):
            await store.append(session, [said("m1")], due_tokens=NEVER, now=NOW)
            await store.record_usage(session, Usage("m:x", "observe", 1, 1, "accepted", NOW, 0.5))
        await store.delete_session(ANA)
        store = await self.reopen(store)
        assert await store.spent() == 1.0
        assert await store.spent(owner=ANA.owner, since=NOW) == 0.5
        assert len(await store.usage()) == 2
        # Nothing says any more which session it was; one of the same name begins at nothing.
        await store.append(ANA, [said("m1")], due_tokens=NEVER, now=NOW)
        assert await store.spent(session=ANA) == 0
        assert list(await store.usage(ANA)) == []
