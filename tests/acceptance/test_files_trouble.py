"""Files for people where something is in the way, belongs to another, or is forgotten."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from people_files import (
    SETTINGS,
    daily_files,
    everything_in,
    memory_file,
    noted,
    opened,
    prompt_of_a_new_session,
    saved,
    until,
)

import onlooker
from onlooker import events

pytestmark = pytest.mark.anyio


# ------------------------------------------------------------------------------------ isolation and trouble


@pytest.mark.req(79)
async def test_nothing_of_one_owner_stands_in_another_ones_files(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        for owner, word in (("ana", "peanuts"), ("ben", "shellfish"), ("../ana", "lupins")):
            await saved(memory, f"This person is allergic to {word}", owner=owner)
            session = memory.session("telegram:1", owner=owner)
            for i in range(10):
                await session.record(
                    onlooker.user(f"Day {i}: I cannot eat {word} at all, remember that please.")
                )
            await session.settle()
        assert "lupins" not in await prompt_of_a_new_session(memory, owner="ana")
    found = {path.parent.name: path.read_text() for path in (tmp_path / "notes").glob("*/MEMORY.md")}
    assert len(found) == 3
    for folder in found:
        texts = "".join(p.read_text() for p in (tmp_path / "notes" / folder).rglob("*.md"))
        assert sum(word in texts for word in ("peanuts", "shellfish", "lupins")) == 1


async def test_a_folder_that_cannot_be_written_is_an_event_and_is_caught_up_with(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a file is in the way")
    async with opened(tmp_path) as (memory, heard):
        await noted(memory)
        await memory.items.save("Ana has a boat", owner="ana")
        assert "Ana has a boat" in await prompt_of_a_new_session(memory)  # the turn goes on
        await until(lambda: any(isinstance(e, events.FileFailed) for e in heard))
        assert next(e for e in heard if isinstance(e, events.FileFailed)).owner == "ana"
        (tmp_path / "notes").unlink()
        await until(
            lambda: bool(daily_files(tmp_path)) and len(list(tmp_path.glob("notes/*/MEMORY.md"))) == 1
        )
        assert "boat" in memory_file(tmp_path).read_text()
        assert "Parcel 0" in daily_files(tmp_path)[0].read_text()


async def test_what_a_process_could_not_write_any_more_is_written_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a file is in the way")
    async with opened(tmp_path) as (memory, _):
        await noted(memory)
        await memory.items.save("Ana has a boat", owner="ana")
    (tmp_path / "notes").unlink()
    async with opened(tmp_path):
        await until(
            lambda: bool(daily_files(tmp_path)) and len(list(tmp_path.glob("notes/*/MEMORY.md"))) == 1
        )
    assert "boat" in memory_file(tmp_path).read_text()
    assert "Parcel 0" in daily_files(tmp_path)[0].read_text()


async def test_items_that_another_process_made_come_into_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        await saved(memory, "Ana is allergic to peanuts")
        async with opened(tmp_path, settings=replace(SETTINGS, enabled=False)) as (other, _):
            await other.items.save("Ana has a boat", owner="ana")
        await until(lambda: "boat" in memory_file(tmp_path).read_text())


# ------------------------------------------------------------------------------------ forgetting


@pytest.mark.req(37)
async def test_what_is_forgotten_is_in_no_file_any_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        session = memory.session("telegram:1", owner="ana")
        said = await session.record(
            onlooker.user("I am allergic to rumpelnuts. Parcel RX-9931 weighs 99 grams.")
        )
        for i in range(10):
            await session.record(
                onlooker.user(f"Parcel {i} weighs {i + 100} grams and goes to the town of Bergen.")
            )
        await session.settle()
        await session.end()
        await memory.files.sync(owner="ana")
        await until(lambda: bool(daily_files(tmp_path)))
        memory_file(tmp_path).write_bytes(memory_file(tmp_path).read_bytes() + b"\xff")  # a copy is kept
        await memory.files.sync(owner="ana")
        assert everything_in(tmp_path).count(b"rumpelnuts") >= 2
        await session.forget(said[0].id)
        assert b"rumpelnuts" not in everything_in(tmp_path)
        assert b"Parcel" in everything_in(tmp_path)
        await memory.background.flush()
    assert b"rumpelnuts" not in everything_in(tmp_path)


async def test_a_deleted_session_leaves_the_files(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        await noted(memory, "one")
        await saved(memory, "Ana has a boat")
        await memory.session("one", owner="ana").delete()
        assert b"Parcel" not in everything_in(tmp_path)
        assert b"boat" in everything_in(tmp_path)
    assert b"Parcel" not in everything_in(tmp_path)


async def test_a_forgotten_owner_leaves_no_folder(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        await noted(memory)
        await saved(memory, "Ana has a boat")
        await saved(memory, "Ben has a car", owner="ben")
        await memory.forget(owner="ana")
        assert b"boat" not in everything_in(tmp_path)
        await asyncio.sleep(0.2)  # nor does it come back
    assert [b"Ben has a car" in p.read_bytes() for p in (tmp_path / "notes").glob("*/MEMORY.md")] == [True]
    assert len(list((tmp_path / "notes").iterdir())) == 1
