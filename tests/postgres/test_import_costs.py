"""What calls cost is counted once, whatever was deleted between an export and its import."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest

import onlooker
from onlooker.domain.notes import Usage
from onlooker.testing.store_contract.case import NOW
from tests.acceptance.command_line import call
from tests.postgres.server import Server

pytestmark = pytest.mark.anyio

STILL = onlooker.Settings(enabled=False)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> str:
    return {"memory": ":memory:", "sqlite": str(tmp_path / "a.db"), "postgres": server.new_url()}[
        request.param
    ]


@pytest.fixture
async def memory(url: str) -> AsyncGenerator[onlooker.Memory]:
    async with onlooker.open_memory(url, settings=STILL) as memory:
        for number, key in enumerate(("a", "b")):
            await memory.session(key, owner="ana").record(onlooker.user("hello", id=f"{key}1"))
            for minute in (0, 1):
                await paid(memory, key, 10 * number + minute)
        yield memory


async def paid(memory: onlooker.Memory, key: str, minute: int) -> None:
    at = NOW + timedelta(minutes=minute)
    session = memory.session(key, owner="ana").id
    await memory.store.record_usage(session, Usage("m:x", "observe", 10, 5, "accepted", at, 0.25))


async def spent(memory: onlooker.Memory) -> tuple[int, float]:
    """How many calls there were, and what the owner, or nobody that is known any more, paid for them."""
    return len(await memory.usage()), await memory.store.spent()


async def test_a_session_that_was_deleted_since_costs_nothing_anew(
    memory: onlooker.Memory, tmp_path: Path
) -> None:
    await memory.storage.export(tmp_path / "a.jsonl", owner="ana", session="a")
    for _ in range(2):
        await memory.session("a", owner="ana").delete()
        assert await spent(memory) == (4, 1.0)
        counts = await memory.storage.import_file(tmp_path / "a.jsonl", all_owners=True)
        assert counts == {"session": 1, "message": 1}
        assert await spent(memory) == (4, 1.0)
        assert await memory.store.spent(owner="ana") == 1.0
    assert [m.id for m in await memory.session("a", owner="ana").messages()] == ["a1"]


async def test_nor_does_one_of_an_owner_who_was_forgotten(memory: onlooker.Memory, tmp_path: Path) -> None:
    await memory.storage.export(tmp_path / "ana.jsonl", owner="ana")
    await memory.forget(owner="ana")
    await memory.storage.import_file(tmp_path / "ana.jsonl", all_owners=True)
    assert await spent(memory) == (4, 1.0)
    assert len(await memory.sessions(owner="ana")) == 2


async def test_an_export_from_after_the_deletion_adds_nothing_to_a_store_from_before(
    memory: onlooker.Memory, tmp_path: Path
) -> None:
    async with onlooker.open_memory(":memory:", settings=STILL) as other:
        await memory.storage.export(tmp_path / "before.jsonl")
        await other.storage.import_file(tmp_path / "before.jsonl", all_owners=True)
        await memory.session("a", owner="ana").delete()
        await memory.storage.export(tmp_path / "after.jsonl")
        await other.storage.import_file(tmp_path / "after.jsonl", replace=True, all_owners=True)
        assert await spent(other) == (4, 1.0)
        # And the other way round.
        await memory.storage.import_file(tmp_path / "before.jsonl", replace=True, all_owners=True)
        assert await spent(memory) == (4, 1.0)


async def test_what_was_paid_since_is_not_lost_and_what_is_new_comes_in(
    memory: onlooker.Memory, tmp_path: Path
) -> None:
    await memory.storage.export(tmp_path / "a.jsonl", owner="ana", session="a")
    await paid(memory, "a", 50)
    await memory.session("a", owner="ana").delete()
    await memory.storage.import_file(tmp_path / "a.jsonl", all_owners=True)
    assert await spent(memory) == (5, 1.25)
    await paid(memory, "a", 60)
    await memory.storage.export(tmp_path / "all.jsonl")
    async with onlooker.open_memory(":memory:", settings=STILL) as other:
        counts = await other.storage.import_file(tmp_path / "all.jsonl", all_owners=True)
        assert counts["usage"] == 6
        assert await spent(other) == (6, 1.5)
        await other.storage.export(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()


async def test_two_calls_that_are_told_apart_by_nothing_both_count(
    memory: onlooker.Memory, tmp_path: Path
) -> None:
    await paid(memory, "a", 0)
    await memory.session("a", owner="ana").delete()
    await memory.storage.export(tmp_path / "all.jsonl")
    async with onlooker.open_memory(":memory:", settings=STILL) as other:
        for _ in range(2):
            await other.storage.import_file(tmp_path / "all.jsonl", replace=True, all_owners=True)
            assert await spent(other) == (5, 1.25)


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_on_the_command_line_as_well(memory: onlooker.Memory, url: str, tmp_path: Path) -> None:
    for command in (
        ("export", tmp_path / "a.jsonl", "--session", "a"),
        ("clear", "--session", "a", "--messages", "--yes"),
        ("import", tmp_path / "a.jsonl", "--all-owners"),
    ):
        done = await asyncio.to_thread(call, *command, "--db", url)
        assert done.code == 0, done.err
    assert await spent(memory) == (4, 1.0)
    assert len(await memory.sessions()) == 2
