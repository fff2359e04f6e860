"""Old daily notes become items, once each, and their files are archived after that."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from old_notes import LATER, days, opened, summaries, talked
from people_files import NOON, SETTINGS

import onlooker
from onlooker import atomic, events
from onlooker.domain.notes import NoteStatus
from onlooker.files.folder import Folder
from onlooker.ports import ItemsRequest, Request
from onlooker.testing import ScriptedModel

pytestmark = pytest.mark.anyio

EVERY: tuple[NoteStatus, ...] = ("buffered", "active", "superseded")


# ------------------------------------------------------------------------------------ once


@pytest.mark.req(27, 87)
async def test_old_notes_become_items_of_the_next_session_and_their_file_is_archived(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.", "prefers short answers.")
    (day,) = days(tmp_path)
    raw = day.read_bytes()
    async with opened(tmp_path) as memory:
        heard: list[Any] = []
        memory.subscribe(heard.append)
        (done,) = await memory.files.consolidate()
        assert [e.done for e in heard if isinstance(e, events.FileConsolidated)] == [done]
        assert (done.owner, done.day, done.problem) == ("ana", NOON.date(), "")
        assert any("allergic to peanuts" in item.summary for item in done.items)
        assert {item.session for item in done.items} == {"telegram:1"}
        notes = {n.id for n in await memory.session("telegram:1", owner="ana").notes(statuses=EVERY)}
        assert all(set(item.sources) <= notes for item in done.items)
        session = memory.session("telegram:2", owner="ana")
        await session.record(onlooker.user("What should I cook?"))
        assert "allergic to peanuts" in (await session.context()).system
        assert await memory.files.consolidate() == []
    assert days(tmp_path) == []
    assert [path.read_bytes() for path in days(tmp_path, "archive")] == [raw]
    (memory_file,) = (tmp_path / "notes").glob("*/MEMORY.md")
    assert "allergic to peanuts" in memory_file.read_text()


async def test_only_days_that_are_old_enough_are_taken_and_only_of_the_owner_named(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.")
    await talked(tmp_path, "is allergic to lupins.", at=LATER - timedelta(days=3), key="telegram:2")
    await talked(tmp_path, "is allergic to shellfish.", owner="ben")
    async with opened(tmp_path) as memory:
        done = await memory.files.consolidate(owner="ana")
        assert [(one.owner, one.day) for one in done] == [("ana", NOON.date())]
        assert await memory.items.list("ben") == []
        done = await memory.files.consolidate(older_than=timedelta(days=1))
        assert sorted(one.owner for one in done) == ["ana", "ben"]


async def test_what_sessions_made_already_is_not_made_again(tmp_path: Path) -> None:
    await talked(tmp_path, "I'm allergic to peanuts.")
    async with opened(tmp_path) as memory:
        await memory.session("telegram:1", owner="ana").end()
        before = await memory.items.list("ana")
        assert before
        (done,) = await memory.files.consolidate()
        assert done.items == ()
        assert await memory.items.list("ana") == before


async def test_a_later_day_supersedes_an_earlier_one(tmp_path: Path) -> None:
    await talked(tmp_path, "lives in Oslo.")
    await talked(tmp_path, "moved from Oslo to Bergen.", at=NOON + timedelta(days=2), key="telegram:2")
    async with opened(tmp_path) as memory:
        assert len(await memory.files.consolidate()) == 2
        (home,) = [i for i in await memory.items.list("ana") if "Oslo" in i.summary or "Bergen" in i.summary]
        assert "Bergen" in home.summary
        assert [i.status for i in await memory.items.history(home.id, owner="ana")] == ["ended", "live"]


@pytest.mark.req(90)
async def test_what_was_forgotten_by_hand_does_not_come_back(tmp_path: Path) -> None:
    await talked(tmp_path, "I'm allergic to peanuts.")
    async with opened(tmp_path, NOON) as memory:
        await memory.session("telegram:1", owner="ana").end()
        await memory.files.sync(owner="ana")
    (memory_file,) = (tmp_path / "notes").glob("*/MEMORY.md")
    lines = [line for line in memory_file.read_text().split("\n") if "peanuts" not in line]
    memory_file.write_text("\n".join(lines))
    async with opened(tmp_path, settings=replace(SETTINGS, enabled=False)) as memory:
        await memory.files.consolidate()
    assert not any("peanuts" in summary for summary in await summaries(tmp_path))
    assert "peanuts" not in memory_file.read_text()


async def test_what_a_person_wrote_into_a_daily_file_counts(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.")
    (day,) = days(tmp_path)
    text = day.read_text().replace("peanuts", "hazelnuts")
    day.write_text(text.replace("# 2026-02-16\n", "# 2026-02-16\n\nAna prefers green tea over coffee\n", 1))
    async with opened(tmp_path) as memory:
        (done,) = await memory.files.consolidate()
        found = {item.summary: item for item in done.items}
        assert any("hazelnuts" in summary for summary in found)
        assert found["Ana prefers green tea over coffee"].session == ""
        assert found["Ana prefers green tea over coffee"].origin == "user"


async def test_owners_who_share_nothing_keep_their_daily_notes(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.", owner="default")
    async with opened(tmp_path) as memory:
        assert await memory.files.consolidate() == []
    assert len(days(tmp_path)) == 1


# ------------------------------------------------------------------------------------ models


def answering(request: Request) -> str | None:
    if not isinstance(request, ItemsRequest):
        return None
    assert any("peanuts" in note.text for note in request.notes)
    return json.dumps({"type": "profile", "summary": "Ana is allergic to peanuts", "said_by": "user"})


async def test_a_language_model_chooses_where_there_is_one(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.", "is called Ana.")
    async with opened(tmp_path, reflector=ScriptedModel(answering)) as memory:
        (dry,) = await memory.files.consolidate(dry_run=True)
        assert dry.items == ()
        (done,) = await memory.files.consolidate()
        assert [item.summary for item in done.items] == ["Ana is allergic to peanuts"]


async def test_a_dry_run_asks_no_model_and_changes_nothing(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.")
    model = ScriptedModel()
    async with opened(tmp_path, reflector=model, settings=replace(SETTINGS, enabled=False)) as memory:
        (done,) = await memory.files.consolidate(dry_run=True)
        assert (done.archived, model.calls) == ("", 0)
        assert await memory.items.list("ana") == []
    async with opened(tmp_path) as memory:
        (done,) = await memory.files.consolidate(dry_run=True)
        assert any("peanuts" in item.summary for item in done.items)
        assert await memory.items.list("ana") == []
    assert len(days(tmp_path)) == 1


async def test_where_the_model_is_down_the_built_in_choice_stands_in(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.")
    down = ScriptedModel(lambda _: RuntimeError("down"))
    async with opened(tmp_path, reflector=down, settings=replace(SETTINGS, enabled=False)) as memory:
        (done,) = await memory.files.consolidate()
        assert any("peanuts" in item.summary for item in done.items)
    assert days(tmp_path) == []


# ------------------------------------------------------------------------------------ crashes


@pytest.mark.long
@pytest.mark.parametrize("point", ["asked", "kept", "archived"])
async def test_a_process_that_is_killed_neither_loses_nor_doubles(tmp_path: Path, point: str) -> None:
    await talked(tmp_path, "is allergic to peanuts.", "prefers short answers.")
    await talked(tmp_path, "lives in Oslo.", at=NOON + timedelta(days=1), key="telegram:2")
    raw = sorted(path.read_bytes() for path in days(tmp_path))
    script = Path(__file__).with_name("consolidator.py")
    codes = [await _killed(script, tmp_path, point) for _ in range(3)]
    assert -signal.SIGKILL in codes
    async with opened(tmp_path) as memory:
        await memory.files.consolidate()
    found = await summaries(tmp_path, statuses=("live", "ended", "archived"))
    assert len(found) == len(set(found))
    assert [sum(word in s for s in found) for word in ("peanuts", "short answers", "Oslo")] == [1, 1, 1]
    assert days(tmp_path) == []
    assert sorted(path.read_bytes() for path in days(tmp_path, "archive")) == raw


async def _killed(script: Path, folder: Path, point: str) -> int:
    command = [sys.executable, str(script), str(folder), point]
    done = await asyncio.to_thread(subprocess.run, command, timeout=240, capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


async def test_a_model_that_answers_otherwise_the_second_time_does_not_double(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talked(tmp_path, "is allergic to peanuts.", "has a boat in Bergen harbour.")
    answers = iter(["Ana is allergic to peanuts", "Ana has a boat in Bergen harbour"])

    def answer(request: Request) -> str | None:
        if not isinstance(request, ItemsRequest):
            return None
        return json.dumps({"type": "profile", "summary": next(answers), "said_by": "user"})

    def full(*_: object) -> None:
        raise OSError("no space left")

    async with opened(tmp_path, reflector=ScriptedModel(answer)) as memory:
        with monkeypatch.context() as broken:
            broken.setattr(Folder, "archive_day", full)
            (done,) = await memory.files.consolidate()
            assert "no space" in done.problem
        (done,) = await memory.files.consolidate()
        assert (done.items, done.problem) == ((), "")
        assert [item.summary for item in await memory.items.list("ana")] == ["Ana is allergic to peanuts"]


async def test_a_file_that_is_saved_meanwhile_stays_and_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talked(tmp_path, "is allergic to peanuts.")
    (day,) = days(tmp_path)
    original = atomic.read

    async with opened(tmp_path) as memory:
        archive_day = Folder.archive_day

        def save_first(self: Folder, path: Path, data: bytes) -> Path | None:
            path.write_bytes(b"Ana prefers green tea over coffee\n\n" + (original(path) or b""))
            return archive_day(self, path, data)

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(Folder, "archive_day", save_first)
            (done,) = await memory.files.consolidate()
        assert "changed meanwhile" in done.problem
        assert day.exists()
        (done,) = await memory.files.consolidate()
        assert [item.summary for item in done.items] == ["Ana prefers green tea over coffee"]
    assert days(tmp_path) == []


async def test_what_is_forgotten_while_a_model_is_asked_does_not_become_an_item(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.")

    async def forget_first(request: Request) -> str | None:
        if not isinstance(request, ItemsRequest):
            return None
        session = memory.session("telegram:1", owner="ana")
        (said,) = [m for m in await session.messages(archived=True) if "peanuts" in m.text]
        await session.forget(said.id)
        return json.dumps({"type": "profile", "summary": "Ana is allergic to peanuts", "said_by": "user"})

    async with opened(tmp_path, reflector=ScriptedModel(forget_first)) as memory:
        (done,) = await memory.files.consolidate()
        assert "changed meanwhile" in done.problem
        assert await memory.items.list("ana") == []
    files = [path for path in (tmp_path / "notes").rglob("*") if path.is_file()]
    assert not any(b"peanuts" in path.read_bytes() for path in files)


async def test_a_mangled_daily_file_is_left_alone(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.")
    (day,) = days(tmp_path)
    day.write_bytes(b"\xff\xfe\x00")
    async with opened(tmp_path) as memory:  # nor is it written anew for the sake of what it said
        (done,) = await memory.files.consolidate()
    assert done.problem
    assert day.read_bytes() == b"\xff\xfe\x00"


async def test_a_note_of_a_day_that_was_archived_gets_a_file_of_its_own(tmp_path: Path) -> None:
    await talked(tmp_path, "is allergic to peanuts.")
    async with opened(tmp_path) as memory:
        await memory.files.consolidate()
    await talked(tmp_path, "is allergic to lupins.", key="telegram:2")
    async with opened(tmp_path) as memory:
        (done,) = await memory.files.consolidate()
        assert any("lupins" in item.summary for item in done.items)
    assert [path.name for path in days(tmp_path, "archive")] == ["2026-02-16-2.md", "2026-02-16.md"]
    archived: Sequence[str] = [path.read_text() for path in days(tmp_path, "archive")]
    assert not any("telegram:1" in text and "telegram:2" in text for text in archived)
