"""The journal: append-only files beside the store, from which it can be built again."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.bakery import SETTINGS, talk

import onlooker
from onlooker.domain.events import Event, JournalFailed
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio


async def until(what: Callable[[], Any]) -> None:
    async with asyncio.timeout(120):
        while not what():  # noqa: ASYNC110  nobody tells of it
            await asyncio.sleep(0.01)


def data(file: Path) -> bytes:
    return file.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


async def exported(memory: onlooker.Memory, file: Path) -> list[bytes]:
    """An export without what no journal holds."""
    await memory.storage.export(file)
    lines = data(file).splitlines()
    return [line for line in lines[1:-1] if b'"kind":"usage"' not in line and b'"kind":"value"' not in line]


OFTEN = onlooker.Timing(sweep_seconds=0.05)


def keeping(folder: Path, **more: Any) -> onlooker.Settings:
    return replace(SETTINGS, journal=str(folder), **more)


@pytest.mark.req(39)
async def test_a_store_is_built_again_from_its_journal(tmp_path: Path) -> None:
    clock, folder = FrozenClock(), tmp_path / "journal"
    async with onlooker.open_memory(
        tmp_path / "a.db", settings=keeping(folder), timing=OFTEN, model=ScriptedModel(), clock=clock
    ) as memory:
        session = memory.session("telegram:../../../etc/passwd", owner="ana")
        other = memory.session("bakery", owner="ben")
        await talk(session, clock, 1, 40)
        await talk(other, clock, 1, 20)
        notes = await session.notes()
        await session.history.edit(notes[0].id, "by hand", by="ana")
        await session.pin(notes[1].id)
        history = [{"role": m.role, "content": m.text, "id": m.id} for m in (await session.messages())[:38]]
        await session.prepare([*history, {"role": "user", "content": "No, wait.", "id": "w"}])
        await talk(session, clock, 51, 70)
        await other.history.clear()
        await memory.items.save("Ana bakes rye bread every Friday morning", owner="ana")
        await session.end()
        context = await session.context()
    async with onlooker.open_memory(
        tmp_path / "a.db", settings=SETTINGS, model=ScriptedModel(), clock=clock
    ) as memory:
        before = await exported(memory, tmp_path / "before.jsonl")
    async with onlooker.open_memory(
        tmp_path / "b.db", settings=SETTINGS, model=ScriptedModel(), clock=clock
    ) as memory:
        counts, problems = await memory.storage.import_journal(folder, all_owners=True)
        assert list(problems) == []
        assert counts["session"] >= 2
        assert await exported(memory, tmp_path / "after.jsonl") == before
        again = await memory.session("telegram:../../../etc/passwd", owner="ana").context()
        assert again.openai() == context.openai()


@pytest.mark.req(39)
async def test_one_file_per_session_and_one_per_owner_for_their_owners_eyes_alone(tmp_path: Path) -> None:
    clock, folder = FrozenClock(), tmp_path / "deep" / "journal"
    async with onlooker.open_memory(
        ":memory:", settings=keeping(folder), timing=OFTEN, clock=clock
    ) as memory:
        for key in ("a/b", "a b", "..", "\0\ud800", "x" * 500):
            await talk(memory.session(key, owner="ana"), clock, 1, 2)
        await memory.items.save("Ana bakes rye bread every Friday morning", owner="ana")
        await memory.items.save("Ben drinks coffee without any sugar", owner="ben")
    files = sorted(folder.iterdir())
    assert len([f for f in files if f.name.startswith("session-")]) == 5
    assert len([f for f in files if f.name.startswith("cross-session-")]) == 2
    assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert names(tmp_path / "deep") == ["journal"]
    for file in files:
        text = file.read_text()
        assert not ("Ana bakes" in text and "Ben drinks" in text)


async def test_nothing_is_written_unless_it_is_switched_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock()
    monkeypatch.chdir(tmp_path)
    async with onlooker.open_memory(tmp_path / "a.db", settings=SETTINGS, clock=clock) as memory:
        await talk(memory.session("bakery"), clock, 1, 20)
    assert names(tmp_path) == ["a.db"]


async def test_it_only_grows_with_what_is_new(tmp_path: Path) -> None:
    clock, folder = FrozenClock(), tmp_path / "journal"
    async with onlooker.open_memory(
        ":memory:", settings=keeping(folder), timing=OFTEN, clock=clock
    ) as memory:
        session = memory.session("bakery")
        before = b""
        for n in range(1, 41):
            await talk(session, clock, n, n)
            await until(lambda: list(folder.glob("session-*")))
            now = next(folder.glob("session-*")).read_bytes()
            assert now.startswith(before)
            before = now
    text = next(folder.glob("session-*")).read_text()
    said = [line for line in text.splitlines() if line.startswith('{"kind":"message"')]
    assert len(said) == 40


async def test_a_journal_that_cannot_be_written_costs_no_note_and_catches_up(tmp_path: Path) -> None:
    clock, folder = FrozenClock(), tmp_path / "journal"
    folder.write_text("in the way")
    events: list[Event] = []
    async with onlooker.open_memory(
        tmp_path / "a.db", settings=keeping(folder), timing=OFTEN, clock=clock
    ) as memory:
        memory.subscribe(events.append)
        session = memory.session("bakery", owner="ana")
        await talk(session, clock, 1, 20)
        assert await session.notes()
        await until(lambda: any(isinstance(e, JournalFailed) for e in events))
        folder.unlink()
        await until(lambda: folder.is_dir() and list(folder.glob("session-*")))
    async with onlooker.open_memory(tmp_path / "a.db", settings=SETTINGS, clock=clock) as memory:
        before = await exported(memory, tmp_path / "before.jsonl")
    async with onlooker.open_memory(":memory:", settings=SETTINGS, clock=clock) as memory:
        await memory.storage.import_journal(folder, all_owners=True)
        assert await exported(memory, tmp_path / "after.jsonl") == before


async def test_what_an_earlier_process_left_is_written_at_the_next_opening(tmp_path: Path) -> None:
    clock, folder = FrozenClock(), tmp_path / "journal"
    async with onlooker.open_memory(tmp_path / "a.db", settings=SETTINGS, clock=clock) as memory:
        await talk(memory.session("bakery"), clock, 1, 20)
        before = await exported(memory, tmp_path / "before.jsonl")
    async with onlooker.open_memory(tmp_path / "a.db", settings=keeping(folder), timing=OFTEN, clock=clock):
        pass
    file = next(folder.glob("session-*"))
    # Cut off in the middle of a line, as a crash leaves it.
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 3])
    async with onlooker.open_memory(tmp_path / "a.db", settings=keeping(folder), timing=OFTEN, clock=clock):
        pass
    async with onlooker.open_memory(":memory:", settings=SETTINGS, clock=clock) as memory:
        _, problems = await memory.storage.import_journal(folder, all_owners=True)
        assert len(problems) == 1  # the line that was cut off
        assert await exported(memory, tmp_path / "after.jsonl") == before


async def test_lines_that_are_none_are_reported_and_passed_over(tmp_path: Path) -> None:
    clock, folder = FrozenClock(), tmp_path / "journal"
    async with onlooker.open_memory(
        ":memory:", settings=keeping(folder), timing=OFTEN, clock=clock
    ) as memory:
        await talk(memory.session("bakery", owner="ana"), clock, 1, 20)
        await talk(memory.session("bakery", owner="ben"), clock, 1, 4)
        await memory.items.save("Ana bakes rye bread every Friday morning", owner="ana")
    first, second = sorted(folder.glob("session-*"))
    lines = first.read_bytes().splitlines(keepends=True)
    stranger = second.read_bytes().splitlines(keepends=True)[0]
    bad = [
        b"{half a line\n",
        b'{"kind":"nonsense"}\n',
        b"\xff\xfe\n",
        b'{"kind":"note"}\n',
        b"[]\n",
        stranger,
    ]
    first.write_bytes(b"".join([*lines[:2], *bad, *lines[2:]]))
    (folder / "session-00-empty.jsonl").write_bytes(b"")
    cross = next(folder.glob("cross-session-*"))
    cross.write_bytes(cross.read_bytes() + b"nonsense\n")
    async with onlooker.open_memory(":memory:", settings=SETTINGS, clock=clock) as memory:
        _, problems = await memory.storage.import_journal(folder, all_owners=True)
        assert len(problems) == len(bad) + 2
        assert all("line" in p or "skipped" in p for p in problems)
        assert len(await memory.sessions()) == 2
        assert len(await memory.items.list("ana")) == 1
        with pytest.raises(onlooker.StoreError, match="no such folder"):
            await memory.storage.import_journal(tmp_path / "nowhere", all_owners=True)


async def test_a_deleted_session_leaves_no_file(tmp_path: Path) -> None:
    clock, folder = FrozenClock(), tmp_path / "journal"
    async with onlooker.open_memory(
        ":memory:", settings=keeping(folder), timing=OFTEN, clock=clock
    ) as memory:
        session = memory.session("bakery", owner="ana")
        await talk(session, clock, 1, 4)
        await until(lambda: list(folder.glob("session-*")))
        await session.delete()
        assert not list(folder.glob("session-*"))
    assert not list(folder.glob("session-*"))
