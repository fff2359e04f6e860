"""Every store keeps the contract that users' own stores are tested by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contract.model_store import ModelStore

from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing import StoreContract

# The contract ships to people whose pytest does not know our marks, so they are put on here.
PROVES = {
    "test_a_note_comes_back_whole_and_moves_the_marks": (2, 35),
    "test_a_reflection_supersedes_its_sources_in_the_same_commit": (19, 20),
    "test_notes_are_listed_oldest_first": (36,),
    "test_recent_gives_the_newest_oldest_first": (36,),
    "test_deleting_notes_sets_their_messages_aside": (37,),
    "test_deleting_one_kind_leaves_the_other": (37,),
    "test_deleting_notes_touches_no_other_session_or_owner": (37,),
    "test_pruning_deletes_what_is_old_and_leads_nowhere": (41,),
    "test_a_message_goes_through_the_archive_and_then_for_good": (41, 99),
    "test_what_no_note_stands_for_stays_however_old_it_is": (41,),
    "test_everything_survives_a_restart": (42,),
    "test_messages_of_concurrent_calls_are_all_there_and_each_call_in_one_piece": (43,),
    "test_positions_stay_right_afterwards": (72,),
    "test_a_summary_takes_the_place_of_what_it_stands_for": (74,),
    "test_with_nothing_to_take_out_the_summary_is_still_put_in": (75,),
    "test_what_is_close_is_found_best_first": (80,),
    "test_nothing_of_another_owner_or_session_is_close": (79,),
    "test_no_edge_leads_to_another_owner_or_out_of_the_session": (79,),
}
for _name, _numbers in PROVES.items():
    _test: Any = getattr(StoreContract, _name)
    pytest.mark.req(*_numbers)(_test)


class TestModelStore(StoreContract):
    """What the others are compared with keeps the contract as well."""

    async def make_store(self) -> Store:
        return ModelStore()


class TestSqliteStoreInMemory(StoreContract):
    async def make_store(self) -> Store:
        return SqliteStore(":memory:")


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "deep" / "memory.db"
        self.opened: list[SqliteStore] = []

    async def make_store(self) -> Store:
        return SqliteStore(self.path)

    async def reopen(self, store: Store) -> Store:
        await store.close()
        again = SqliteStore(self.path)
        await again.open()
        self.opened.append(again)
        return again

    @pytest.fixture(autouse=True)
    async def close_what_was_reopened(self, anyio_backend: str, folder: None) -> Any:
        yield
        for store in self.opened:
            await store.close()
