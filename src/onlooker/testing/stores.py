"""The `Store` protocol as tests, for whoever writes a store.

    class TestMyStore(StoreContract):
        async def make_store(self) -> Store:
            return MyStore(...)

The tests are coroutines and run with anyio's pytest plugin.
"""

from __future__ import annotations

from onlooker.testing.store_contract.compaction import CompactionContract
from onlooker.testing.store_contract.extractions import ExtractionContract
from onlooker.testing.store_contract.hand import HandContract
from onlooker.testing.store_contract.indexing import IndexContract
from onlooker.testing.store_contract.items import ItemContract
from onlooker.testing.store_contract.messages import MessageContract
from onlooker.testing.store_contract.moving import MovingContract
from onlooker.testing.store_contract.notes import NoteContract
from onlooker.testing.store_contract.realignment import RealignmentContract
from onlooker.testing.store_contract.retention import RetentionContract
from onlooker.testing.store_contract.search import SearchContract
from onlooker.testing.store_contract.sessions import SessionContract
from onlooker.testing.store_contract.work import WorkContract

__all__ = ["StoreContract"]


class StoreContract(
    MessageContract,
    CompactionContract,
    RealignmentContract,
    NoteContract,
    ExtractionContract,
    HandContract,
    MovingContract,
    ItemContract,
    RetentionContract,
    SearchContract,
    IndexContract,
    WorkContract,
    SessionContract,
):
    """Every sentence of the protocol. Override `make_store`, and `reopen` where it persists."""
