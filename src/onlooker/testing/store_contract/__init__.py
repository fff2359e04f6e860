"""The `Store` protocol as tests, for a store of your own.

    class TestMyStore(StoreContract):
        async def make_store(self) -> Store:
            return MyStore(...)

The tests are coroutines and run with anyio's pytest plugin.
"""

from __future__ import annotations

import pytest

_PARTS = ("corrections", "items", "messages", "notes", "realignment", "search", "sessions", "transfer")
# Before they are imported, so that a failed assertion shows its values: pytest rewrites only test modules by
# itself.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from onlooker.testing.store_contract.corrections import CorrectionContract  # noqa: E402
from onlooker.testing.store_contract.items import ItemContract  # noqa: E402
from onlooker.testing.store_contract.messages import (  # noqa: E402
    CompactionContract,
    MessageContract,
    RetentionContract,
)
from onlooker.testing.store_contract.notes import ExtractionContract, NoteContract  # noqa: E402
from onlooker.testing.store_contract.realignment import RealignmentContract  # noqa: E402
from onlooker.testing.store_contract.search import SearchContract, VectorContract  # noqa: E402
from onlooker.testing.store_contract.sessions import LeaseContract, SessionContract  # noqa: E402
from onlooker.testing.store_contract.transfer import TransferContract  # noqa: E402

__all__ = ["StoreContract"]


class StoreContract(
    MessageContract,
    CompactionContract,
    RealignmentContract,
    NoteContract,
    ExtractionContract,
    CorrectionContract,
    TransferContract,
    ItemContract,
    RetentionContract,
    SearchContract,
    VectorContract,
    LeaseContract,
    SessionContract,
):
    """Every sentence of the protocol. Override `make_store`, `reopen` if the store persists, and `erases` if
    deleted bytes stay in files that the store does not write itself."""
