"""`consolidate`, and what the doctor says about files for people."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from command_line import call
from old_notes import days, talked
from people_files import SETTINGS

import onlooker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def place(tmp_path: Path) -> Path:
    await talked(tmp_path, "is allergic to peanuts.")
    (tmp_path / "onlooker.toml").write_text(f'[onlooker]\nnotes_folder = "{tmp_path / "notes"}"\n')
    return tmp_path


def command(place: Path, *arguments: object) -> Any:
    return call(*arguments, "--db", place / "a.db", "--config", place / "onlooker.toml")


@pytest.mark.req(87)
async def test_the_command_says_what_it_would_do_and_does_it_once(place: Path) -> None:
    dry = await asyncio.to_thread(command, place, "consolidate", "--dry-run", "--json")
    assert dry.code == 0
    (one,) = dry.json
    assert (one["owner"], one["day"], one["archived"], one["problem"]) == ("ana", "2026-02-16", None, None)
    assert any("peanuts" in item["summary"] for item in one["items"])
    assert len(days(place)) == 1
    done = await asyncio.to_thread(command, place, "consolidate", "--owner", "ana", "--older-than", "1")
    assert done.code == 0
    assert "2026-02-16" in done.out
    assert days(place) == []
    again = await asyncio.to_thread(command, place, "consolidate", "--json")
    assert again.json == []
    listed = await asyncio.to_thread(command, place, "items", "--owner", "ana", "--json")
    assert any("peanuts" in item["summary"] for item in listed.json)


async def test_a_hand_edit_is_taken_in_by_the_command_and_stands_in_the_next_prompt(place: Path) -> None:
    await asyncio.to_thread(command, place, "consolidate")
    (memory_file,) = (place / "notes").glob("*/MEMORY.md")
    memory_file.write_text(memory_file.read_text().replace("peanuts", "hazelnuts"))
    doctor = await asyncio.to_thread(command, place, "doctor", "--json")
    (line,) = [f for f in doctor.json if f["name"] == "notes folder"]
    assert line["ok"]
    assert "1 MEMORY.md changed by hand" in line["found"]
    await asyncio.to_thread(command, place, "consolidate")
    doctor = await asyncio.to_thread(command, place, "doctor", "--json")
    assert "changed by hand" not in next(f["found"] for f in doctor.json if f["name"] == "notes folder")
    async with onlooker.open_memory(place / "a.db", settings=SETTINGS) as memory:
        session = memory.session("telegram:9", owner="ana")
        await session.record(onlooker.user("What should I cook?"))
        context = await session.context()
        assert "hazelnuts" in context.system
        assert "peanuts" not in context.system


async def test_the_doctor_finds_what_others_can_read_and_what_is_damaged(place: Path) -> None:
    def found() -> dict[str, Any]:
        done = command(place, "doctor", "--json")
        return next(f for f in done.json if f["name"] == "notes folder")

    assert (await asyncio.to_thread(found))["ok"]
    (memory_file,) = (place / "notes").glob("*/MEMORY.md")
    memory_file.chmod(0o644)
    line = await asyncio.to_thread(found)
    assert not line["ok"]
    assert "readable by others" in line["found"]
    memory_file.chmod(0o600)
    memory_file.write_bytes(b"")
    line = await asyncio.to_thread(found)
    assert not line["ok"]
    assert "damaged" in line["found"]


async def test_the_command_needs_a_folder_and_a_database(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("[onlooker]\n")
    nowhere = await asyncio.to_thread(call, "consolidate", "--config", tmp_path / "empty.toml")
    assert nowhere.code == 2
    assert "--folder" in nowhere.err
    missing = await asyncio.to_thread(
        call, "consolidate", "--folder", tmp_path / "none", "--db", tmp_path / "x.db"
    )
    assert missing.code == 1
    (tmp_path / "notes").mkdir()
    missing = await asyncio.to_thread(
        call, "consolidate", "--folder", tmp_path / "notes", "--db", tmp_path / "x.db"
    )
    assert missing.code == 1
    assert "no such database" in missing.err
