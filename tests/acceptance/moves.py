"""Databases to move: one with something of every kind in it, and one with many sessions; and a move that is
killed in the middle."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.command_line import environment

import onlooker
from onlooker.domain.items import Item, ItemChange
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Usage
from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import NEVER, NOW, said
from onlooker.testing.store_contract.transfer import TransferContract

STILL = onlooker.Settings(enabled=False)


async def fill(path: Path) -> None:
    """Something of every kind: archived and retired messages, notes of every status, edits, pins, items,
    extractions, costs, strange names."""
    store = SqliteStore(path)
    await store.open()
    try:
        await TransferContract().fill(store)
    finally:
        await store.close()


def exported(url: str | Path, file: Path, **options: object) -> bytes:
    """The whole database as its export."""

    async def run() -> None:
        async with onlooker.open_memory(url, settings=STILL, **options) as memory:  # pyright: ignore[reportArgumentType]
            await memory.storage.export(file)

    asyncio.run(run())
    lines = file.read_bytes()
    file.unlink()
    return lines


def record(path: Path, session: SessionId, *ids: str) -> None:
    """Record messages, and let nobody take notes of them."""

    async def run() -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            await store.append(session, [said(i) for i in ids], due_tokens=NEVER, now=NOW)
        finally:
            await store.close()

    asyncio.run(run())


def many_sessions(path: Path, count: int) -> None:
    """Sessions of a few messages each, with what they cost and an item that the next one shows."""

    async def run() -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            await asyncio.gather(*(_session(store, number) for number in range(count)))
        finally:
            await store.close()

    asyncio.run(run())


async def _session(store: Store, number: int) -> None:
    session = SessionId(f"owner {number % 7}", f"session {number}")
    messages = [
        said(f"{number}-{n}", f"Message {n} of session {number}: " + "rye bread " * 30) for n in range(12)
    ]
    await store.append(session, messages, due_tokens=NEVER, now=NOW)
    item = Item(session.owner, f"i{number}", "event", f"happened in {number}", NOW, session=session.key)
    await store.change_items(ItemChange(session.owner, NOW, add=(item,)))
    await store.show_items(session, [item.id], now=NOW)
    await store.record_usage(session, Usage("m:x", "observe", number, 5, "accepted", NOW, 0.25))


def killed_in_the_middle(
    src: str | Path,
    dst: str,
    there: Callable[[], int],
    at: int,
    folder: Path,
    *,
    by: signal.Signals = signal.SIGKILL,
) -> int:
    """Start a move as a process, and stop it once so many sessions are there; how many there are then."""
    command = [sys.executable, "-m", "onlooker", "migrate", str(src), dst, "--batch", "1", "--quiet"]
    with subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 120
        while there() < at:
            assert process.poll() is None, "it was done before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(by)
        said = process.communicate(timeout=120)[1]
        if by == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL
        else:
            assert (process.returncode, said.count(b"\n")) == (1, 1), said
            assert b"run the same command again" in said
    return there()
