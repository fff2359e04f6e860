"""The store on PostgreSQL keeps the contract that every store is tested by."""

from __future__ import annotations

from typing import Any

import pytest

from onlooker.ports import Store
from onlooker.stores.postgres import PostgresStore
from onlooker.testing import StoreContract
from tests.postgres.server import Server


class TestPostgresStore(StoreContract):
    erases = False

    @pytest.fixture(autouse=True)
    def address(self, server: Server) -> None:
        self.url = server.empty_url(pool="4")
        self.opened: list[PostgresStore] = []

    async def make_store(self) -> Store:
        return PostgresStore(self.url)

    async def reopen(self, store: Store) -> Store:
        await store.close()
        again = PostgresStore(self.url)
        await again.open()
        self.opened.append(again)
        return again

    @pytest.fixture(autouse=True)
    async def close_what_was_reopened(self, anyio_backend: str, address: None) -> Any:
        yield
        for store in self.opened:
            await store.close()
