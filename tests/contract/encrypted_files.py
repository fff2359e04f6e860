"""Opening an encrypted store for the length of a block, and looking into every byte that it leaves."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.key import Key
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, ids, said

HEX = "5d" * 32
RAW = Key(HEX)
OTHER = Key("a7" * 32)


@asynccontextmanager
async def opened(path: Path, key: Key | None = RAW) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(path, key=key)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def record(store: Store, *idents: str) -> None:
    await store.append(ANA, [said(i) for i in idents], due_tokens=NEVER, now=NOW)


async def recorded(path: Path, key: Key | None = RAW) -> list[str]:
    async with opened(path, key) as store:
        return ids(await store.messages(ANA))


def bytes_of(folder: Path) -> Iterator[bytes]:
    """Every file under the folder, and those of this process that have a place there but no name any more."""
    for file in folder.rglob("*"):
        if file.is_file():
            yield file.read_bytes()
    if not Path("/proc/self/fd").is_dir():
        return
    for handle in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(handle).startswith(str(folder)) and "(deleted)" in os.readlink(handle):
                yield handle.read_bytes()
        except OSError:
            continue  # closed meanwhile


def found_in(folder: Path, words: list[str]) -> set[str]:
    """Which of the words stand anywhere in the folder."""
    everything = b"\n".join(bytes_of(folder)).lower()
    return {word for word in words if word.encode() in everything}
