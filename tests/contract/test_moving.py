"""Whatever was done to a store, its rows make the same store again, and the same file."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.contract.model_store import ModelStore
from tests.contract.test_alike import Script

from onlooker.domain.errors import StoreError
from onlooker.domain.history import Row
from onlooker.files.export import check, lines_of, rows_of
from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import ANA


async def export(store: Store) -> list[bytes]:
    return [f"{line}\n".encode() async for line in lines_of(store.dump())]


async def given_rows(lines: list[bytes]) -> AsyncIterator[Row]:
    for row in rows_of(lines, "export"):
        yield row


async def moved(lines: list[bytes], store: Store) -> list[bytes]:
    await store.open()
    try:
        await store.restore(given_rows(lines))
        return await export(store)
    finally:
        await store.close()


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_an_export_comes_back_byte_for_byte_whatever_was_done_before(seed: int, steps: int) -> None:
    async def run(folder: Path) -> None:
        script, store = Script(seed), ModelStore()
        await store.open()
        for _ in range(steps):
            step = await script.next(store)
            try:
                await step(store)
            except (KeyError, StoreError):  # refused; nothing changed
                continue
        lines = await export(store)
        assert check(lines, "export") == len(lines) - 2
        through = await moved(lines, SqliteStore(folder / "a.db"))
        assert through == lines
        again = ModelStore()
        assert await moved(through, again) == lines
        await again.open()
        assert await again.load(ANA) == await store.load(ANA)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
