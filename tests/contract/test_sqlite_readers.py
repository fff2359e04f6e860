"""A session that was loaded a moment ago is loaded where it is asked for, any other one by a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlite_files import opened, record

from onlooker.domain.errors import ClosedError
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Commit, Guard, Realignment
from onlooker.stores.sql import sessions
from onlooker.stores.sql.transactions import Transactions
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, ids, note, said, talk

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For each read of a session, whether all of it was read or what is new, and by whom."""
    seen: list[str] = []

    def noticed(work: Callable[..., object], what: str) -> Callable[..., object]:
        def read(*args: Any, **part: Any) -> object:
            here = threading.current_thread() is threading.main_thread()
            seen.append(f"{what} {'at once' if here else 'by a thread'}")
            return work(*args, **part)

        return read

    monkeypatch.setattr(sessions, "load", noticed(sessions.load, "all"))
    monkeypatch.setattr(sessions, "load_grown", noticed(sessions.load_grown, "new"))
    return seen


async def loaded(store: SqliteStore, session: SessionId = ANA) -> list[str]:
    state = await store.load(session)
    return list(ids(state.messages)) if state else []


async def test_what_was_written_since_is_seen_at_once(path: Path, reads: list[str]) -> None:
    async with opened(path) as store, opened(path) as other:
        assert await loaded(store) == []
        for n in range(5):
            await record(store if n % 2 else other, said(f"m{n}"))
            assert await loaded(store) == [f"m{i}" for i in range(n + 1)]
        assert await store.delete_session(ANA)
        assert await loaded(store) == []
    new = ["new by a thread", *["new at once"] * 3]
    assert reads == ["all by a thread", "all at once", *new, "all at once"]


async def test_a_long_session_is_for_a_thread(path: Path, reads: list[str]) -> None:
    async with opened(path) as store:
        await record(store, *(said(f"m{n}") for n in range(1_000)))
        for _ in range(3):
            assert len(await loaded(store)) == 1_000
        await store.delete_session(ANA)
        await loaded(store)
        await record(store, *(said(f"m{n}") for n in range(1_000)))
        assert len(await loaded(store)) == 1_000
        Transactions.clear_cache()
        await loaded(store)
    # Once it is short, and once more before it is known to have become long.
    known, deleted = ["new by a thread", "new at once"], ["all by a thread"]
    assert reads == ["all by a thread", *known, *deleted, "all at once", "all by a thread"]


async def test_long_messages_are_for_a_thread_however_few(path: Path, reads: list[str]) -> None:
    async with opened(path) as store:
        await record(store, *(said(f"m{n}", "word " * 5_000) for n in range(8)))
        for _ in range(3):
            assert len(await loaded(store)) == 8
            Transactions.clear_cache()
    assert reads == ["all by a thread"] * 3


async def test_a_session_that_is_too_long_to_cache_is_read_again(path: Path, reads: list[str]) -> None:
    async with opened(path) as store:
        await record(store, *(said(f"m{n}", "word " * 50_000) for n in range(9)))
        for _ in range(2):
            assert len(await loaded(store)) == 9
    assert reads == ["all by a thread"] * 2


async def test_notes_of_a_long_session_do_not_make_it_read_again(path: Path, reads: list[str]) -> None:
    async with opened(path) as store:
        await record(store, *talk(1, 1_000))
        await loaded(store)
        for first in (1, 51, 101):
            last = first + 49
            change = Commit(Guard(first - 1, 0), add=(note(f"n{first}", first, last),), frontier=last)
            await store.commit(ANA, replace(change, watermark=last, tail_start=last + 1))
            assert await loaded(store) == [f"m{n}" for n in range(last + 1, 1_001)]
    assert reads == ["all by a thread", "new by a thread", "new at once", "new at once"]


async def test_what_cannot_be_read_at_once_is_read_by_a_thread(path: Path, reads: list[str]) -> None:
    async with opened(path) as store:
        await record(store, said("m1"))
        await loaded(store)
        assert await loaded(store) == ["m1"]
        db = store._opened()[1]._at_once  # pyright: ignore[reportPrivateUsage]
        assert db is not None
        connection = db.connection
        # It would wait for nothing.
        assert connection.execute("PRAGMA busy_timeout").fetchone()[0] == 0
        connection.close()
        assert await loaded(store) == ["m1"]
    assert reads == ["all by a thread", "new by a thread", "new by a thread"]


async def test_many_tasks_load_at_once(path: Path) -> None:
    sessions = [SessionId("ana", f"s{n}") for n in range(20)]
    async with opened(path) as store:
        for turn in range(3):
            for session in sessions:
                await record(store, said(f"m{turn}"), session=session)
            found = await asyncio.gather(*(loaded(store, s) for s in sessions for _ in range(3)))
            assert found == [[f"m{n}" for n in range(turn + 1)]] * 60


async def test_a_store_that_was_closed_says_so_though_it_knows_the_session(path: Path) -> None:
    async with opened(path) as store:
        await record(store, said("m1"))
        await loaded(store)
        await loaded(store)
        await store.close()
        with pytest.raises(ClosedError):
            await loaded(store)
        await store.open()
        assert await loaded(store) == ["m1"]


def test_two_event_loops_share_a_store(path: Path) -> None:
    """As `onlooker.blocking` and a host's own loop may."""
    store = SqliteStore(path)
    asyncio.run(store.open())
    found: list[list[str]] = []

    async def use(name: str) -> None:
        session = SessionId("ana", name)
        for n in range(30):
            await store.append(session, [said(f"m{n}")], due_tokens=NEVER, now=NOW)
            found.append(await loaded(store, session))
            assert found[-1][-1] == f"m{n}"

    others = [threading.Thread(target=asyncio.run, args=(use(name),)) for name in "abc"]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    asyncio.run(store.close())
    assert len(found) == 90


async def test_whatever_another_process_changes_is_seen_at_once(path: Path) -> None:
    summary = said("sum", "what was said", role="system")

    def commit(first: int, last: int, **more: Any) -> Commit:
        added = note(f"n{first}", first, last)
        return Commit(Guard(first - 1, 0), add=(added,), frontier=last, watermark=last, **more)

    changes: list[Callable[[SqliteStore], Awaitable[object]]] = [
        lambda other: record(other, *talk(1, 9)),
        lambda other: other.commit(ANA, commit(1, 3, tail_start=1)),
        lambda other: record(other, *talk(10, 11)),
        lambda other: other.pin(ANA, "n1", on=True),
        lambda other: other.compact(ANA, up_to=2, summary=summary, archive=True, now=NOW),
        lambda other: other.pin(ANA, "m4", on=True),
        lambda other: other.commit(ANA, commit(4, 6, tail_start=5)),
        # One that is shown raw is replaced by one.
        lambda other: other.compact(
            ANA, up_to=5, summary=said("sum 2", role="system"), archive=True, now=NOW
        ),
        lambda other: other.realign(ANA, Realignment(9, (said("m12"),), 11, 0), due_tokens=NEVER, now=NOW),
        lambda other: other.delete_notes(ANA),
        lambda other: other.delete_session(ANA),
        lambda other: record(other, *talk(1, 2)),
    ]
    async with opened(path) as store, opened(path) as other:
        for n, change in enumerate(changes):
            await store.load(ANA)
            kept = Transactions._loaded  # pyright: ignore[reportPrivateUsage]
            await change(other)
            Transactions._loaded = kept  # pyright: ignore[reportPrivateUsage]
            found = await store.load(ANA)
            async with opened(path) as fresh:
                assert found == await fresh.load(ANA), n
