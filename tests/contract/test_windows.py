"""A host that sends a window of its history: what a call reads does not depend on how long the record is."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlite_files import opened, record

import onlooker
from onlooker.domain.messages import Message, SessionId
from onlooker.domain.notes import AppendResult, MessageDigest, Realignment
from onlooker.stores.sql import sessions
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.connection import SqliteDatabase, open_connection
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, ids, said, talk

pytestmark = pytest.mark.anyio


class CountingStore(SqliteStore):
    """Counts the rows that are read to align a history, and the realignments."""

    rows = 0
    realigned = 0

    async def digests(self, session: SessionId, *, newest: int | None = None) -> Sequence[MessageDigest]:
        return self._counted(await super().digests(session, newest=newest))

    async def retired(self, session: SessionId) -> Sequence[MessageDigest]:
        return self._counted(await super().retired(session))

    async def around(
        self, session: SessionId, seqs: Sequence[int], reach: int, *, retired: bool = False
    ) -> Sequence[Message]:
        return self._counted(await super().around(session, seqs, reach, retired=retired))

    async def realign(self, session: SessionId, change: Realignment, **options: Any) -> AppendResult:
        self.realigned += 1
        return await super().realign(session, change, **options)

    def _counted(self, found: Sequence[Any]) -> Sequence[Any]:
        self.rows += len(found)
        return found


def turn(number: int) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": f"Where is parcel {number} of the bakery?"},
        {"role": "assistant", "content": f"Parcel {number} lies in row {number * 7}."},
    ]


SHORT, LONG = 100, 400


@pytest.fixture(scope="module")
async def recorded(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> Path:
    """A short and a long record: a file for each, named by its turns."""
    folder = tmp_path_factory.mktemp("recorded")
    for turns in (SHORT, LONG):
        async with onlooker.open_memory(folder / f"{turns}.db", workers="external") as memory:
            session = memory.session("s")
            await session.record([m for number in range(turns) for m in turn(number)])
            await session.context()  # which takes notes of what is too much
    return folder


async def rows_read(path: Path, recorded: int, *, window: int) -> int:
    """The rows read by four calls of a host with a window, after so many turns."""
    store = CountingStore(path)
    async with onlooker.open_memory(store, workers="external") as memory:
        session = memory.session("s")
        history = [message for number in range(recorded) for message in turn(number)]
        for number in range(recorded, recorded + 5):
            if number == recorded + 1:
                store.rows = 0  # the first call of a process may read everything
            asked, answered = turn(number)
            history.append(asked)
            await session.prepare(history[-window:])
            await session.record(answered)
            history.append(answered)
        assert [m.text for m in await session.messages()] == [m["content"] for m in history]
    assert store.realigned == 0
    return store.rows


@pytest.mark.parametrize("window", [1, 2, 3, 6, 20])
async def test_a_window_reads_no_more_of_a_longer_record(recorded: Path, tmp_path: Path, window: int) -> None:
    short, long = [
        await rows_read(Path(shutil.copy(recorded / f"{turns}.db", tmp_path)), turns, window=window)
        for turns in (SHORT, LONG)
    ]
    assert long == short
    assert short <= 4 * 3 * (window + 64)


def steps(path: Path, newest: int) -> int:
    """The steps that SQLite takes to read the newest digests, and what was taken back."""
    connection = open_connection(path, None, read_only=True)
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    try:
        db = SqliteDatabase(connection)
        assert len(sessions.digests(db, ANA, newest=newest)) == newest
        connection.set_progress_handler(step, 1)
        sessions.digests(db, ANA, newest=newest)
        sessions.retired(db, ANA)
        connection.set_progress_handler(None, 1)
    finally:
        connection.close()
    return count


@pytest.mark.parametrize("compacted", [False, True])
async def test_the_newest_digests_are_read_by_themselves(tmp_path: Path, compacted: bool) -> None:
    counted: list[int] = []
    for size in (200, 3_200):
        path = tmp_path / f"{size}.db"
        async with opened(path) as store:
            await record(store, *talk(1, size))
            if compacted:
                summary = said("sum", "so far", role="system")
                await store.compact(ANA, up_to=size - 20, summary=summary, archive=True, now=NOW)
        counted.append(steps(path, 70))
    assert counted[1] <= counted[0] * 1.2


async def test_a_window_that_returns_to_a_branch_revives_its_messages(tmp_path: Path) -> None:
    store = CountingStore(tmp_path / "memory.db")
    async with onlooker.open_memory(store, workers="external") as memory:
        session = memory.session("s")
        history = [message for number in range(20) for message in turn(number)]
        await session.prepare(history[:-1])
        await session.record(history[-1])
        kept = ids(await session.messages())
        await session.prepare([*history[:-1], {"role": "assistant", "content": "I do not know."}])
        assert [m.text for m in await session.history.taken_back()] == [history[-1]["content"]]
        again = await store.append(session.id, (), due_tokens=NEVER, now=NOW)
        await session.prepare([*history[-6:-1], history[-1]])
        assert ids(await session.messages()) == kept
        assert again.progress.last_seq == len(history) + 1
