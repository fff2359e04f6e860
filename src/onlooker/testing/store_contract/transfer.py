"""Transfer: the rows of one store restore the same store elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

import pytest

from onlooker.domain.errors import ConflictError, OnlookerError, StoreError
from onlooker.domain.history import (
    ItemRow,
    MessageRow,
    NoteRow,
    Position,
    RestartRow,
    Row,
    Scope,
    SessionRow,
    UsageRow,
    ValueRow,
)
from onlooker.domain.items import Item, ItemChange
from onlooker.domain.messages import SessionId, ToolCall
from onlooker.domain.notes import Extraction, Usage
from onlooker.policy.rows import from_line, pages, to_line
from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import ANA, BEN, NEVER, NOW, StoreCase, later, note, said, talk

OTHER = SessionId("ana", "strange \0\ud800 東京")


async def given(rows: Iterable[Row]) -> AsyncIterator[Row]:
    for row in rows:
        yield row


class TransferContract(StoreCase):
    @pytest.fixture
    async def other(self, anyio_backend: str) -> AsyncIterator[Store]:
        """One of our own stores, to move rows from and to."""
        store = SqliteStore(":memory:")
        await store.open()
        yield store
        await store.close()

    async def everything(self, store: Store, scope: Scope = Scope()) -> list[Row]:  # noqa: B008
        return [row async for row in store.dump(scope)]

    async def fill(self, store: Store) -> None:
        """Something of every kind, in two sessions of one owner and one of another."""
        call = ToolCall("c1", "look", '{"a": 1}')
        await self.record(store, *talk(1, 12))
        for n in (1, 3, 5):
            found = (Extraction("Order", f'{{"n": {n}}}', f"o{n}", ANA, (n,), later(n), NOW),) * (n % 3)
            await self.commit(store, note(f"o{n}", n, n + 1, model="m:x"), extractions=found)
        r1 = note("r1", 1, 4, generation=1, sources=["o1", "o3"], degraded=True)
        await self.commit(store, r1, supersede=("o1", "o3"))
        await self.commit(store, note("b7", 7, 8, status="buffered"))
        await self.compact(store, 2)
        await self.realign(store, 10, said("other", at=later(20)))
        await store.edit(ANA, "o5", "by hand", tokens=3, by="ana", now=later(30))
        await store.pin(ANA, "m3", on=True)
        await store.pin(ANA, "r1", on=True)
        await store.set_budget(ANA, 4000)
        strange = said("s1", "text \0\ud800\u2028 x", name="Ana", calls=(call,), attachments=("[image]",))
        await self.record(store, strange, said("s2", "", role="tool", answers="c1", at=None), session=OTHER)
        await self.record(store, *talk(1, 3), session=BEN, due_tokens=5)
        for session, cost in ((ANA, 0.25), (BEN, None), (ANA, 0.5)):
            await store.record_usage(session, Usage("m:x", "observe", 10, 5, "accepted", NOW, cost))
        items = (
            Item("ana", "i1", "profile", "Ana lives in Bergen", NOW, ("home",), session=ANA.key, pinned=True),
            Item("ana", "i2", "event", "trip \ud800", NOW, said_at=NOW, valid_from=later(1), sources=("o1",)),
        )
        await store.change_items(ItemChange("ana", NOW, add=items))
        await store.show_items(ANA, ["i2", "i1"], now=NOW)
        await store.set_value("calibration", '{"ratio": 1.1}')

    async def test_what_is_given_out_makes_the_same_store_again(self, store: Store, other: Store) -> None:
        await self.fill(store)
        rows = await self.everything(store)
        counts = await other.restore(given(rows))
        assert await self.everything(other) == rows
        assert counts["message"] == sum(isinstance(row, MessageRow) for row in rows)
        for session in (ANA, BEN, OTHER):
            assert await other.load(session) == await store.load(session)
            assert list(await other.extractions(session)) == list(await store.extractions(session))
            assert list(await other.digests(session)) == list(await store.digests(session))
        assert list(await other.sessions()) == list(await store.sessions())
        assert list(await other.items("ana")) == list(await store.items("ana"))
        assert list(await other.usage()) == list(await store.usage())
        assert await other.get_value("calibration") == '{"ratio": 1.1}'

    async def test_what_is_taken_in_is_given_out_alike(self, store: Store, other: Store) -> None:
        await self.fill(other)
        rows = await self.everything(other)
        await store.restore(given(rows))
        store = await self.reopen(store)
        assert await self.everything(store) == rows
        assert await store.load(ANA) == await other.load(ANA)
        # And it goes on from there.
        await self.record(store, said("m99"))
        await self.commit(store, note("n9", 9, 10, status="buffered"))

    async def test_rows_survive_as_lines(self, store: Store) -> None:
        await self.fill(store)
        rows = await self.everything(store)
        lines = [to_line(row) for row in rows]
        assert all("\n" not in line and line.encode() for line in lines)
        assert [from_line(line) for line in lines] == rows

    async def test_an_owner_or_a_session_is_given_out_alone(self, store: Store) -> None:
        await self.fill(store)
        rows = await self.everything(store, Scope(owner="ana"))
        assert {row.session for row in rows if isinstance(row, SessionRow)} == {ANA, OTHER}
        assert not [row for row in rows if isinstance(row, ValueRow)]
        assert all("ben" not in to_line(row) for row in rows)
        rows = await self.everything(store, Scope(session=BEN))
        assert {row.session for row in rows if isinstance(row, SessionRow)} == {BEN}
        assert [row.usage.cost for row in rows if isinstance(row, UsageRow)] == [None]
        assert all("ana" not in to_line(row) for row in rows)
        assert await self.everything(store, Scope(owner="nobody")) == []

    async def test_only_some_kinds_are_given_out_where_only_they_are_asked_for(self, store: Store) -> None:
        await self.fill(store)
        rows = await self.everything(store, Scope(session=ANA, kinds=frozenset({"note"})))
        assert {type(row) for row in rows} == {NoteRow}
        assert len(rows) == 5

    async def test_what_is_new_since_a_position_is_given_out(self, store: Store) -> None:
        await self.record(store, *talk(1, 4))
        await self.commit(store, note("o1", 1, 2))
        top = next(row for row in await self.everything(store) if isinstance(row, SessionRow))
        position = Position(top.progress.last_seq, top.changes)
        await self.record(store, *talk(5, 6))
        await self.commit(store, note("o3", 3, 4))
        rows = await self.everything(store, Scope(session=ANA, after=position))
        assert [row.message.id for row in rows if isinstance(row, MessageRow)] == ["m5", "m6"]
        assert [row.note.id for row in rows if isinstance(row, NoteRow)] == ["o3"]
        await store.edit(ANA, "o1", "by hand", tokens=3, by="ana", now=NOW)
        rows = await self.everything(store, Scope(session=ANA, after=Position(6, 2)))
        assert [row.note.text for row in rows if isinstance(row, NoteRow)] == ["by hand"]
        assert len(rows) == 5  # the session, the note, its two versions, the change

    async def test_a_session_that_is_there_is_not_taken_in_unless_it_may_be_replaced(
        self, store: Store
    ) -> None:
        await self.fill(store)
        rows = await self.everything(store)
        await self.record(store, said("later"))
        with pytest.raises(ConflictError):
            await store.restore(given(rows))
        assert "later" in await self.live(store)
        await store.restore(given(rows), replace=True)
        after = await self.everything(store)
        # Above the revision of the one that made way, so that nobody writes into this one by mistake.
        assert [_without_revision(row) for row in after] == [_without_revision(row) for row in rows]

    async def test_a_session_is_taken_in_whole_or_not_at_all(self, store: Store, other: Store) -> None:
        await self.fill(other)
        rows = await self.everything(other, Scope(session=ANA))
        with pytest.raises(StoreError):
            await store.restore(given(row for row in rows if not isinstance(row, SessionRow)))
        assert await self.everything(store) == []

        async def broken() -> AsyncIterator[Row]:
            for row in rows[: len(rows) // 2]:
                yield row
            raise OnlookerError("the file ends here")

        with pytest.raises(OnlookerError):
            await store.restore(broken())
        assert await self.everything(store) == []
        await store.restore(given(rows))
        assert await self.everything(store, Scope(session=ANA)) == rows

    async def test_the_later_of_two_rows_counts_and_a_restart_voids_what_was_before(
        self, store: Store, other: Store
    ) -> None:
        await self.record(other, *talk(1, 4))
        await self.commit(other, note("o1", 1, 2))
        first = await self.everything(other)
        await self.record(other, *talk(5, 6))
        await other.edit(ANA, "o1", "by hand", tokens=3, by="ana", now=NOW)
        second = await self.everything(other)
        await store.restore(given([*first, *second]))
        assert await self.everything(store) == second
        await store.restore(given([*second, RestartRow(ANA), *first]), replace=True)
        after = await self.everything(store)
        assert [_without_revision(row) for row in after] == [_without_revision(row) for row in first]

    async def test_a_session_is_updated_without_touching_items_or_what_it_cost(
        self, store: Store, other: Store
    ) -> None:
        await self.fill(other)
        # Another session shows an item that was made in this one.
        await other.show_items(OTHER, ["i1"], now=NOW)
        await store.restore(given(await self.everything(other)))
        await self.record(other, said("later"))
        rows = await self.everything(other, Scope(between=(ANA.sid, ANA.sid)))
        with pytest.raises(ConflictError):
            await store.restore(given(rows))
        await store.restore(given(rows), update=True)
        after = [_without_revision(row) for row in await self.everything(store)]
        assert after == [_without_revision(row) for row in await self.everything(other)]
        top = next(row for row in rows if isinstance(row, SessionRow))
        state = await store.load(ANA)
        # Above the revision of the one that made way, so that nobody writes into this one by mistake.
        assert state is not None
        assert state.progress.revision > top.progress.revision
        await self.record(store, said("later still"))

    async def test_a_session_that_makes_way_takes_no_item_out_of_one_that_came_before(
        self, store: Store
    ) -> None:
        first, last = sorted((ANA._replace(key=key) for key in ("one", "two")), key=lambda s: s.sid)
        for session in (first, last):
            await store.append(session, [said("m1")], due_tokens=NEVER, now=NOW)
        made = Item("ana", "i1", "event", "bakes rye bread", NOW, session=last.key)
        await store.change_items(ItemChange("ana", NOW, add=(made,)))
        await store.show_items(first, ["i1"], now=NOW)
        rows = await self.everything(store)
        await store.restore(given(rows), replace=True)
        after = [_without_revision(row) for row in await self.everything(store)]
        assert after == [_without_revision(row) for row in rows]

    async def test_a_store_is_given_out_in_pages(self, store: Store) -> None:
        await self.fill(store)
        kinds: set[type] = {ItemRow, UsageRow, ValueRow}
        everything = [row for row in await self.everything(store) if type(row) not in kinds]
        paged: list[Row] = []
        for edges in pages(3, 1):
            paged += await self.everything(store, Scope(between=edges))
        assert paged == everything

    async def test_many_rows_come_through(self, store: Store, other: Store) -> None:
        await self.record(other, *talk(1, 3000))
        rows = await self.everything(other)
        assert (await store.restore(given(rows)))["message"] == 3000
        assert await self.everything(store) == rows


def _without_revision(row: Row) -> Row:
    if isinstance(row, SessionRow):
        return replace(row, progress=replace(row.progress, revision=0))
    return row
