"""MEMORY.md and daily notes: what a person does to them reaches the next session, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from people_files import daily_files, memory_file, noted, opened, prompt_of_a_new_session, saved, until

import onlooker
from onlooker import atomic, events
from onlooker.domain.errors import SettingsError
from onlooker.testing import FrozenClock

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("setting", "loaded"),
    [("", set[str]()), ("journal", {"journal"}), ("notes_folder", {"notes_folder"})],
)
def test_only_a_memory_with_files_loads_them(tmp_path: Path, setting: str, loaded: set[str]) -> None:
    script = f"""
import asyncio, sys, onlooker

async def main():
    settings = onlooker.Settings(budget=2_000, **{ {setting: str(tmp_path / "files")} if setting else {} })
    async with onlooker.open_memory(":memory:", settings=settings) as memory:
        session = memory.session("a", owner="ana")
        await session.record(*(onlooker.user(f"Parcel {{n}} weighs {{n}}00 grams. " * 20) for n in range(30)))
        await session.context()
        await session.settle()
        await session.end()

asyncio.run(main())
print(*(name for name in sys.modules if name.startswith("onlooker.files")))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert found & {"export", "journal", "notes_folder"} == loaded
    assert bool(found) == bool(setting)


# ------------------------------------------------------------------------------------ written


async def test_an_owner_with_daily_notes_has_a_memory_file_when_the_process_stops(tmp_path: Path) -> None:
    async with opened(tmp_path, timing=onlooker.Timing(sweep_seconds=60)) as (memory, _):
        await memory.session("telegram:42", owner="ana").record(onlooker.user("Good morning"))
        await memory.files.sync(owner="ana")  # there is nothing to write yet
        await noted(memory)
    assert daily_files(tmp_path)
    assert memory_file(tmp_path).is_file()


@pytest.mark.req(88, 90)
async def test_items_and_notes_stand_in_files_that_only_their_owner_can_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        await noted(memory)
        await saved(memory, "Ana prefers short answers")
    text = memory_file(tmp_path).read_text()
    assert text.startswith("# About ana\n")
    assert "- Ana prefers short answers <!-- " in text
    (day,) = daily_files(tmp_path)
    assert day.name == "2026-02-16.md"
    assert "Parcel 0 weighs 100 grams" in day.read_text()
    for path in [tmp_path / "notes", *(tmp_path / "notes").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


async def test_no_folder_is_made_without_the_setting_or_before_there_is_something_to_say(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (memory, _):
        await memory.session("a", owner="ana").record(onlooker.user("hello"))
        await prompt_of_a_new_session(memory)
    assert not (tmp_path / "notes").exists()
    async with opened(tmp_path, notes_folder=None) as (memory, _):
        with pytest.raises(SettingsError, match="notes_folder"):
            await memory.files.sync()


async def test_the_day_is_that_of_the_session(tmp_path: Path) -> None:
    clock = FrozenClock(datetime(2026, 2, 16, 20, tzinfo=UTC))
    async with opened(tmp_path, clock=clock) as (memory, _):
        await noted(memory, "tokyo", tz=ZoneInfo("Asia/Tokyo"))
        await noted(memory, "utc")
    assert [path.name for path in daily_files(tmp_path)] == ["2026-02-16.md", "2026-02-17.md"]
    assert "## tokyo, 05:00" in daily_files(tmp_path)[1].read_text()


async def test_each_note_stands_in_the_daily_file_once_however_often_a_memory_is_opened(
    tmp_path: Path,
) -> None:
    notes: list[str] = []
    for _ in range(3):
        async with opened(tmp_path) as (memory, _):
            await noted(memory, "a")
            await noted(memory, "b")
            notes = [
                n.id for key in "ab" for n in await memory.session(key, owner="ana").notes(kind="observation")
            ]
    text = daily_files(tmp_path)[0].read_text()
    assert notes
    assert all(text.count(f"<!-- {ident} ") == 1 for ident in notes)


async def test_a_note_that_a_person_took_out_of_a_daily_file_stays_out(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        await noted(memory)
    (day,) = daily_files(tmp_path)
    day.write_text("# 2026-02-16\n\nAll clear.\n")
    async with opened(tmp_path) as (memory, _):
        await memory.files.sync(owner="ana")
        await noted(memory, "another")
    text = day.read_text()
    assert "All clear." in text
    assert "## another" in text
    assert "## telegram:42" not in text


async def test_what_changes_in_memory_changes_in_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        first, second = await saved(memory, "Ana lives in Oslo", "Ana has a boat")
        path = memory_file(tmp_path)
        await memory.items.save("Ana lives in Bergen", owner="ana", supersedes=first.id)
        await until(lambda: "Bergen" in path.read_text())
        assert "Oslo" not in path.read_text()
        await memory.items.forget(second.id, owner="ana")
        await until(lambda: "boat" not in path.read_text())
        (left,) = await memory.items.list("ana")
        await memory.items.pin(left.id, owner="ana")
        await until(lambda: "## Pinned" in path.read_text())


# ------------------------------------------------------------------------------------ by hand


@pytest.mark.req(86, 90)
async def test_a_change_by_hand_stands_in_the_prompt_of_the_next_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, heard):
        old, gone = await saved(memory, "Ana is allergic to peanuts", "Ana drives a red car")
        path = memory_file(tmp_path)
        lines = [line for line in path.read_text().split("\n") if "red car" not in line]
        path.write_text("\n".join(lines).replace("peanuts", "hazelnuts") + "\n- Berit is Ana's sister\n")
        prompt = await prompt_of_a_new_session(memory)
        assert "- Ana is allergic to hazelnuts" in prompt
        assert "- Berit is Ana's sister" in prompt
        assert "peanuts" not in prompt
        assert "red car" not in prompt
        changed = next(i for i in await memory.items.list("ana") if "hazelnuts" in i.summary)
        assert (changed.replaces, changed.origin, changed.trust) == ((old.id,), "user", 1.0)
        assert [i.status for i in await memory.items.history(old.id, owner="ana")] == ["ended", "live"]
        assert [i.id for i in await memory.items.list("ana", statuses=("archived",))] == [gone.id]
        (event,) = [e for e in heard if isinstance(e, events.FileEdited)]
        assert (event.owner, event.added, event.changed, event.deleted) == ("ana", 1, 1, 1)
        await until(lambda: "Berit is Ana's sister <!-- " in path.read_text())
    assert len([e for e in heard if isinstance(e, events.FileEdited)]) == 1


@pytest.mark.req(90)
async def test_what_was_changed_while_nothing_ran_counts_as_well(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        await saved(memory, "Ana is allergic to peanuts")
    path = memory_file(tmp_path)
    path.write_text(path.read_text().replace("peanuts", "hazelnuts"))
    async with opened(tmp_path) as (memory, _):
        assert "allergic to hazelnuts" in await prompt_of_a_new_session(memory)
    assert "hazelnuts" in path.read_text()


async def test_the_sweep_sees_a_saved_file_by_itself(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, heard):
        await saved(memory, "Ana is allergic to peanuts")
        path = memory_file(tmp_path)
        path.write_text(path.read_text() + "\nAna speaks Norwegian\n")
        await until(lambda: any(isinstance(e, events.FileEdited) for e in heard))
        await until(lambda: "Norwegian <!-- " in path.read_text())
        assert "Ana speaks Norwegian" in [i.summary for i in await memory.items.list("ana")]


async def test_a_session_that_runs_keeps_its_prefix_but_for_what_was_forgotten(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        await saved(memory, "Ana is allergic to peanuts", "Ana drives a red car")
        before = await prompt_of_a_new_session(memory, "running")
        path = memory_file(tmp_path)
        path.write_text(path.read_text() + "\nAna speaks Norwegian\n")
        await memory.files.sync(owner="ana")
        session = memory.session("running", owner="ana")
        assert (await session.context(system="You are helpful.")).system == before
        path.write_text("\n".join(line for line in path.read_text().split("\n") if "red car" not in line))
        await memory.files.sync(owner="ana")
        after = (await session.context(system="You are helpful.")).system
        # The last line has the checksum of the others.
        kept = [line for line in before.split("\n") if "red car" not in line]
        assert after.split("\n")[:-1] == kept[:-1]


def emptied(_: bytes) -> bytes:
    return b""


def cut_off(data: bytes) -> bytes:
    return data[: len(data) // 2] + b"\xff\xfe\x00"


def another(_: bytes) -> bytes:
    return b"# Shopping\n\n- milk\n- bread\n"


@pytest.mark.parametrize("damage", [emptied, cut_off, another])
@pytest.mark.req(90)
async def test_a_mangled_file_is_kept_as_a_copy_and_forgets_nothing(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    async with opened(tmp_path) as (memory, heard):
        made = await saved(memory, "Ana is allergic to peanuts", "Ana has a boat", "Ana likes the sea")
        path = memory_file(tmp_path)
        whole = path.read_bytes()
        path.write_bytes(damage(whole))
        await memory.files.sync(owner="ana")
        assert {i.id for i in await memory.items.list("ana")} == {i.id for i in made}
        assert sorted(path.read_bytes().split(b"\n")) == sorted(whole.split(b"\n"))
        event = next(e for e in heard if isinstance(e, events.FileBackedUp))
        assert await asyncio.to_thread(Path(event.copy).read_bytes) == damage(whole)
        assert event.reason


async def test_a_deleted_file_is_written_again_and_forgets_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        await saved(memory, "Ana is allergic to peanuts")
        memory_file(tmp_path).unlink()
        await memory.files.sync(owner="ana")
        assert "peanuts" in memory_file(tmp_path).read_text()
        assert len(await memory.items.list("ana")) == 1


async def test_deleting_most_lines_counts_but_keeps_a_copy(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, heard):
        await saved(memory, *(f"Ana knows fact number {n} of the sea" for n in range(6)))
        path = memory_file(tmp_path)
        before = [line for line in path.read_text().split("\n") if not line.startswith("- ")]
        path.write_text("\n".join(before))
        await memory.files.sync(owner="ana")
        assert await memory.items.list("ana") == []
        event = next(e for e in heard if isinstance(e, events.FileBackedUp))
        assert "6 lines" in event.reason
        assert "fact number 3" in await asyncio.to_thread(Path(event.copy).read_text)


async def test_words_that_are_saved_while_the_file_is_written_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as (memory, _):
        await saved(memory, "Ana is allergic to peanuts")
        path = memory_file(tmp_path)
        original, left = os.replace, [1]

        def save_first(source: Any, target: Any) -> None:
            if Path(target).name == "MEMORY.md" and left:
                left.pop()
                path.write_text(path.read_text() + "\n- Berit is Ana's sister\n")
            original(source, target)

        monkeypatch.setattr(atomic.os, "replace", save_first)
        await saved(memory, "Ana has a boat")
        assert not left
        text = path.read_text()
        assert "Berit is Ana's sister <!-- " in text
        assert "Ana has a boat <!-- " in text
        assert len(await memory.items.list("ana")) == 3


async def test_a_crash_after_a_change_was_taken_in_takes_it_in_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as (memory, _):
        await saved(memory, "Ana is allergic to peanuts", "Ana lives in Oslo")
    path = memory_file(tmp_path)
    path.write_text(path.read_text().replace("Oslo", "Bergen") + "\n- Berit is Ana's sister\n")

    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(atomic, "NewFile", full)
        async with opened(tmp_path) as (memory, _):
            assert "Bergen" in await prompt_of_a_new_session(memory)
    assert "Berit is Ana's sister\n" in path.read_text()  # taken in, and not written
    async with opened(tmp_path) as (memory, _):
        await memory.files.sync()
        found = sorted(i.summary for i in await memory.items.list("ana", statuses=("live", "ended")))
        assert found == [
            "Ana is allergic to peanuts",
            "Ana lives in Bergen",
            "Ana lives in Oslo",
            "Berit is Ana's sister",
        ]
    assert path.read_text().count("<!-- ") == 3


async def test_a_store_that_was_lost_is_taught_again_by_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as (memory, _):
        await saved(memory, "Ana is allergic to peanuts", "Ana has a boat")
    for name in ("a.db", "a.db-wal", "a.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    async with opened(tmp_path) as (memory, _):
        assert "allergic to peanuts" in await prompt_of_a_new_session(memory)
        assert sorted(i.summary for i in await memory.items.list("ana")) == [
            "Ana has a boat",
            "Ana is allergic to peanuts",
        ]


async def test_two_memories_on_one_folder_take_a_change_in_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as (one, _), opened(tmp_path) as (two, _):
        await saved(one, "Ana is allergic to peanuts")
        path = memory_file(tmp_path)
        path.write_text(path.read_text() + "\n- Berit is Ana's sister\n")
        await asyncio.gather(*(m.files.sync(owner="ana") for m in (one, two, one, two)))
        assert len(await one.items.list("ana")) == 2
        await two.items.save("Ana has a boat", owner="ana")
        await asyncio.gather(*(m.files.sync(owner="ana") for m in (one, two)))
        assert len(await one.items.list("ana")) == 3
    assert memory_file(tmp_path).read_text().count("\n- ") == 3
