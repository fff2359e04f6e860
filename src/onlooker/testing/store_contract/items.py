"""Items: kept by owner, ended and archived, shown by sessions; and sessions that end, once each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onlooker.domain.errors import ConflictError
from onlooker.domain.items import EndMark, Item, ItemChange
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Guard
from onlooker.ports import Store
from onlooker.testing.store_contract.case import ANA, BEN, NOW, StoreCase, ids, later, note, talk

OTHER = SessionId("ana", "slack:7")


def item(ident: str, summary: str = "", **more: Any) -> Item:
    values: dict[str, Any] = {"owner": "ana", "type": "profile", "made_at": NOW} | more
    return Item(id=ident, summary=summary or f"about {ident}", **values)


class ItemContract(StoreCase):
    async def add(self, store: Store, *items: Item, **more: Any) -> None:
        await store.change_items(ItemChange(items[0].owner if items else "ana", NOW, items, **more))

    async def test_an_item_comes_back_whole_after_a_restart(self, store: Store) -> None:
        whole = item(
            "i1",
            "住在 Oslo \x00 \ud800",
            tags=("home", "\ud800"),
            origin="agent",
            said_at=later(-8),
            valid_from=later(-9),
            expires_at=later(99),
            uses=3,
            last_used_at=later(5),
            pinned=True,
            session=ANA.key,
            sources=("n1", "m2"),
            derived_from=("i0",),
            replaces=("i0",),
        )
        ended = item("i2", status="ended", ended_at=NOW, superseded_by="i1", made_at=later(1))
        await self.add(store, whole, ended)
        store = await self.reopen(store)
        assert list(await store.items("ana")) == [whole]
        assert list(await store.items("ana", statuses=("ended", "live"))) == [whole, ended]
        assert list(await store.items("ana", statuses=("ended",), ids=["i1", "i2"])) == [ended]
        assert list(await store.items("ben")) == []

    async def test_pinned_items_come_first_then_those_used_last(self, store: Store) -> None:
        await self.add(
            store,
            item("old", made_at=later(-9)),
            item("new", made_at=later(9)),
            item("used", made_at=later(-5), last_used_at=later(20)),
            item("pinned", made_at=later(-99), pinned=True),
        )
        assert ids(await store.items("ana")) == ["pinned", "used", "new", "old"]
        assert ids(await store.items("ana", limit=2)) == ["pinned", "used"]

    async def test_a_change_ends_uses_and_adds_in_one(self, store: Store) -> None:
        await self.add(store, item("oslo"), item("tea"))
        change = ItemChange(
            "ana", later(3), (item("bergen"),), end=(("oslo", "bergen"),), use=("tea", "gone")
        )
        await store.change_items(change)
        (oslo,) = await store.items("ana", statuses=("ended",))
        assert (oslo.id, oslo.superseded_by, oslo.ended_at) == ("oslo", "bergen", later(3))
        assert ids(await store.items("ana")) == ["tea", "bergen"]
        tea = (await store.items("ana"))[0]
        assert (tea.uses, tea.last_used_at) == (1, later(3))

    async def test_a_change_that_is_refused_changes_nothing(self, store: Store) -> None:
        await self.add(store, item("a"), item("b", status="ended"))
        for bad in (
            ItemChange("ana", NOW, (item("c"),), end=(("b", "c"),)),
            ItemChange("ana", NOW, (item("c"), item("a")), end=()),
            ItemChange("ana", NOW, (item("c"),), mark=EndMark(ANA, 0, 1)),
        ):
            with pytest.raises(ConflictError):
                await store.change_items(bad)
        assert ids(await store.items("ana", statuses=("live", "ended"))) == ["a", "b"]

    async def test_items_belong_to_their_owner_alone(self, store: Store) -> None:
        await self.add(store, item("same", "of ana"))
        await self.add(store, item("same", "of ben", owner="ben"))
        await store.pin_item("ben", "same", on=True)
        await store.archive_items("ben", ["same"], now=NOW)
        assert [i.summary for i in await store.items("ana")] == ["of ana"]
        assert not (await store.items("ana"))[0].pinned
        with pytest.raises(KeyError):
            await store.pin_item("ben", "same", on=True)
        assert await store.delete_items("ben") == 1
        assert ids(await store.items("ana")) == ["same"]

    # -- what a session shows

    async def test_a_session_shows_what_was_chosen_first_until_it_is_chosen_anew(self, store: Store) -> None:
        await self.record(store, *talk(1, 2))
        await self.add(store, item("a"), item("b"), item("c"))
        assert (await self.state(store)).items is None
        prompt_version = (await self.state(store)).progress.prompt_version
        await store.show_items(ANA, ["c", "a", "gone", "c"], now=NOW)
        await store.show_items(ANA, ["b"], now=NOW)
        store = await self.reopen(store)
        state = await self.state(store)
        assert ids(state.items or ()) == ["c", "a"]
        assert state.progress.prompt_version == prompt_version + 1
        await store.show_items(ANA, ["c", "a"], now=NOW, replacing=True)
        assert (await self.state(store)).progress.prompt_version == prompt_version + 1
        await store.show_items(ANA, ["b"], now=NOW, replacing=True)
        assert ids((await self.state(store)).items or ()) == ["b"]
        assert (await self.state(store)).progress.prompt_version == prompt_version + 2

    async def test_a_commit_of_notes_may_choose_anew(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.add(store, item("a"), item("b"), item("gone"))
        await store.show_items(ANA, ["a"], now=NOW)
        before = (await self.state(store)).progress
        await store.archive_items("ana", ["gone"], now=NOW)
        shown = tuple(await store.items("ana", statuses=("live", "archived"), ids=["b", "gone"]))
        await self.commit(store, note("n1", 1, 2), items=shown)
        store = await self.reopen(store)
        after = await self.state(store)
        assert ids(after.items or ()) == ["b"]
        assert after.progress.prompt_version == before.prompt_version + 1
        await self.commit(store, note("n2", 3, 3))
        assert ids((await self.state(store)).items or ()) == ["b"]
        with pytest.raises(ConflictError):
            await self.commit(store, note("n3", 4, 4), items=(), guard=Guard(1, 0))
        assert ids((await self.state(store)).items or ()) == ["b"]

    async def test_choosing_nothing_is_a_choice(self, store: Store) -> None:
        await store.show_items(OTHER, [], now=NOW)
        state = await self.state(store, OTHER)
        assert (state.items, state.progress.prompt_version) == ((), 0)

    async def test_a_session_cannot_show_an_item_of_another_owner(self, store: Store) -> None:
        await self.add(store, item("secret"))
        await store.show_items(BEN, ["secret"], now=NOW)
        assert (await self.state(store, BEN)).items == ()

    async def test_what_has_ended_stays_in_a_prompt_and_what_is_archived_leaves_it(
        self, store: Store
    ) -> None:
        await self.add(store, item("a"), item("b"), item("c"))
        for session in (ANA, OTHER):
            await store.show_items(session, ["a", "b"], now=NOW)
        await store.show_items(BEN, [], now=NOW)
        before = {s: (await self.state(store, s)).progress.prompt_version for s in (ANA, OTHER, BEN)}
        await store.change_items(ItemChange("ana", NOW, end=(("a", "c"),)))
        assert ids((await self.state(store)).items or ()) == ["a", "b"]
        gone = await store.archive_items("ana", ["a", "c", "c", "nothing"], now=later(1))
        assert [(i.id, i.status, i.ended_at) for i in gone] == [
            ("a", "archived", NOW),
            ("c", "archived", later(1)),
        ]
        for session in (ANA, OTHER):
            state = await self.state(store, session)
            assert ids(state.items or ()) == ["b"]
            assert state.progress.prompt_version == before[session] + 1
        assert (await self.state(store, BEN)).progress.prompt_version == before[BEN]
        assert list(await store.archive_items("ana", ["a"], now=NOW)) == []

    async def test_deleting_leaves_no_name_of_what_is_gone(self, store: Store) -> None:
        await self.add(
            store,
            item("a", status="ended", superseded_by="b"),
            item("b", replaces=("a",), derived_from=("a", "x")),
            item("x"),
        )
        await store.show_items(ANA, ["b", "x"], now=NOW)
        assert await store.delete_items("ana", ["x", "x", "nothing"]) == 1
        assert (await store.items("ana", ids=["b"]))[0].derived_from == ("a",)
        assert await store.delete_items("ana", ["b"]) == 1
        assert (await store.items("ana", statuses=("ended",)))[0].superseded_by == ""
        assert (await self.state(store)).items == ()
        await self.add(store, item("b"))
        assert await store.delete_items("ana") == 2

    async def test_a_session_that_is_deleted_takes_its_items_along(self, store: Store) -> None:
        await self.record(store, *talk(1, 2))
        await self.record(store, *talk(1, 2), session=BEN)
        await self.add(store, item("mine", session=ANA.key), item("others", session=OTHER.key), item("hand"))
        await self.add(store, item("mine", owner="ben", session=BEN.key))
        await store.show_items(OTHER, ["mine", "hand"], now=NOW)
        await store.show_items(ANA, ["others"], now=NOW)
        assert await store.delete_session(ANA)
        assert sorted(ids(await store.items("ana"))) == ["hand", "others"]
        assert ids(await store.items("ben")) == ["mine"]
        assert ids((await self.state(store, OTHER)).items or ()) == ["hand"]
        await self.record(store, *talk(1, 2))
        assert (await self.state(store)).items is None

    # -- sessions that end

    async def test_a_session_ends_once_and_what_is_said_later_opens_it_again(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        first = ItemChange("ana", NOW, (item("a"),), mark=EndMark(ANA, 0, 3))
        await store.change_items(first)
        with pytest.raises(ConflictError):
            await store.change_items(replace(first, add=(item("b"),)))
        assert ids(await store.items("ana")) == ["a"]
        store = await self.reopen(store)
        assert (await self.state(store)).progress.ended == 3
        assert list(await store.idle(later(99))) == []
        await self.record(store, *talk(4, 5))
        assert list(await store.idle(later(99))) == [ANA]
        await store.change_items(ItemChange("ana", NOW, mark=EndMark(ANA, 3, 5)))
        assert list(await store.idle(later(99))) == []

    async def test_nothing_is_made_of_a_session_that_went_another_way_meanwhile(self, store: Store) -> None:
        await self.record(store, *talk(1, 3))
        revision = (await self.state(store)).progress.revision
        late = ItemChange("ana", NOW, (item("a"),), mark=EndMark(ANA, 0, 3, revision - 1))
        with pytest.raises(ConflictError):
            await store.change_items(late)
        assert ids(await store.items("ana")) == []
        assert (await self.state(store)).progress.ended == 0
        await store.change_items(replace(late, mark=EndMark(ANA, 0, 3, revision)))
        assert ids(await store.items("ana")) == ["a"]

    async def test_idle_sessions_are_found_longest_idle_first(self, store: Store) -> None:
        for minute, session in ((3, ANA), (1, BEN), (2, OTHER)):
            await store.append(session, talk(1, 1), due_tokens=1 << 40, now=later(minute))
        await store.show_items(SessionId("ana", "empty"), [], now=later(0))
        assert list(await store.idle(later(2))) == [BEN, OTHER]
        assert list(await store.idle(later(99), limit=2)) == [BEN, OTHER]
        assert list(await store.idle(later(0.5))) == []

    async def test_open_sessions_are_an_owners_last_used_first(self, store: Store) -> None:
        for minute, session in ((1, ANA), (3, BEN), (2, OTHER)):
            await store.append(session, talk(1, 1), due_tokens=1 << 40, now=later(minute))
        await store.show_items(SessionId("ana", "empty"), [], now=later(4))
        assert list(await store.open_sessions("ana", later(1))) == [OTHER, ANA]
        assert list(await store.open_sessions("ana", later(1.5))) == [OTHER]
        assert list(await store.open_sessions("ana", later(1), limit=1)) == [OTHER]
        revision = (await self.state(store)).progress.revision
        await store.change_items(ItemChange("ana", later(5), mark=EndMark(ANA, 0, 1, revision)))
        assert list(await store.open_sessions("ana", later(0))) == [OTHER]
