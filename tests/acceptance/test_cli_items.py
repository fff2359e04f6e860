"""`items` and `consolidate`, and what the doctor says about the notes folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from command_line import call
from old_notes import days, talked
from people_files import SETTINGS

import onlooker


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"

    async def talk() -> None:
        async with onlooker.open_memory(path) as memory:
            session = memory.session("one", owner="ana")
            await session.record(onlooker.user("I live in Oslo. I'm allergic to peanuts."))
            await session.end()

    asyncio.run(talk())
    return path


def test_items_are_listed_with_where_they_come_from(db: Path) -> None:
    listed = call("items", "--db", db, "--json").json
    assert [i["summary"] for i in listed] == ["The user lives in Oslo", "The user is allergic to peanuts"]
    assert {(i["owner"], i["session_key"], i["tier"], i["status"]) for i in listed} == {
        ("ana", "one", "cross-session", "live")
    }
    assert all(i["source_ids"] for i in listed)
    table = call("items", "--db", db).out
    assert "allergic to peanuts" in table
    assert call("items", "--db", db, "--owner", "ben", "--json").json == []
    assert "No items" in call("items", "--db", db, "--owner", "ben").err


def test_one_is_added_pinned_superseded_and_forgotten(db: Path) -> None:
    (added,) = call(
        "items", "add", "Ana likes tea", "--type", "behavior", "--tag", "drinks", "--db", db, "--json"
    ).json
    assert (added["type"], added["origin"], added["tags"][0]) == ("behavior", "user", "drinks")
    assert call("items", "pin", added["id"], "--db", db, "--json").json[0]["pinned"]
    assert call("items", "--db", db, "--json").json[0]["id"] == added["id"]
    assert not call("items", "unpin", added["id"], "--db", db, "--json").json[0]["pinned"]
    taking = ("--supersedes", added["id"], "--expires", "2030-01-31")
    (later,) = call("items", "add", "Ana likes coffee", *taking, "--db", db, "--json").json
    assert later["expires_at"].startswith("2030-02-01")
    history = call("items", "history", later["id"], "--db", db, "--json").json
    assert [(i["id"], i["status"]) for i in history] == [(added["id"], "ended"), (later["id"], "live")]
    gone = call("items", "forget", later["id"], "--db", db)
    assert gone.code == 0
    assert "Forgotten." in gone.err
    assert len(call("items", "--db", db, "--json").json) == 2
    assert len(call("items", "--all", "--db", db, "--json").json) == 4


def test_what_is_known_is_added_only_in_its_place(db: Path) -> None:
    known = {i["summary"]: i["id"] for i in call("items", "--db", db, "--json").json}
    oslo = known["The user lives in Oslo"]
    for text, why in (("Ana lives in Oslo", "already says it"), ("Ana moved to Bergen", "contradicts")):
        refused = call("items", "add", text, "--db", db)
        assert (refused.code, why in refused.err) == (2, True)
        assert f"--supersedes {oslo}" in refused.err
    (moved,) = call("items", "add", "Ana moved to Bergen", "--supersedes", oslo, "--db", db, "--json").json
    assert moved["replaces"] == [oslo]
    with onlooker.blocking.open_memory(db) as memory:
        memory.session("two", owner="ana").record(onlooker.user("Hello"))
    shown = call("context", "--db", db, "--session", "two", "--owner", "ana").out
    assert "- Ana moved to Bergen" in shown
    assert "Oslo" not in shown


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("add",), 2, "needs TEXT"),
        (("forget",), 2, "needs ID"),
        (("list", "x"), 2, "takes no"),
        (("add", "tea"), 2, "onlooker: Not saved: too short to be understood alone."),
        (
            ("add", "Ana likes tea", "--supersedes", "nothing"),
            2,
            "onlooker: --supersedes nothing: must be a live item",
        ),
        (("forget", "nothing"), 1, "no item 'nothing'"),
        (("pin", "nothing"), 1, "no item 'nothing'"),
        (("history", "nothing"), 1, "no item 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_said(db: Path, arguments: tuple[str, ...], code: int, why: str) -> None:
    done = call("items", *arguments, "--db", db)
    assert (done.code, why in done.err) == (code, True), done.err


def test_of_several_owners_one_has_to_be_named(db: Path) -> None:
    with onlooker.blocking.open_memory(db) as memory:
        memory.session("one", owner="ben").record(onlooker.user("Hello"))
    done = call("items", "--db", db)
    assert done.code == 2
    assert "--owner ana" in done.err
    assert "--owner ben" in done.err


def test_a_context_shows_what_the_session_would_show(db: Path) -> None:
    with onlooker.blocking.open_memory(db) as memory:
        memory.session("two", owner="ana").record(onlooker.user("Hello"))
    shown = call("context", "--db", db, "--session", "two", "--owner", "ana").out
    assert "### About ana\n- The user lives in Oslo" in shown
    again = call("context", "--db", db, "--session", "two", "--owner", "ana", "--json").json
    assert again["stats"]["items"] > 0
    assert "About ana" not in call("context", "--db", db, "--session", "one", "--owner", "ana").out


# ------------------------------------------------------------------------------------ consolidate


@pytest.fixture
async def place(tmp_path: Path) -> Path:
    await talked(tmp_path, "is allergic to peanuts.")
    (tmp_path / "onlooker.toml").write_text(f'[onlooker]\nnotes_folder = "{tmp_path / "notes"}"\n')
    return tmp_path


def command(place: Path, *arguments: object) -> Any:
    return call(*arguments, "--db", place / "a.db", "--config", place / "onlooker.toml")


@pytest.mark.req(87)
@pytest.mark.anyio
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


@pytest.mark.anyio
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


@pytest.mark.anyio
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


@pytest.mark.anyio
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
