"""Export and import: byte for byte, across stores, and nothing taken in from a file that is not whole."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.bakery import SETTINGS, Order, Preference, clerk, talk

import onlooker
from onlooker.domain.messages import SessionId
from onlooker.errors import ConflictError
from onlooker.testing import FrozenClock, ScriptedModel

pytestmark = pytest.mark.anyio


async def lived(memory: onlooker.Memory, clock: FrozenClock) -> None:
    """Two owners, with notes of every kind, edits, pins, compaction, a branch, items and costs."""
    for owner, key in (("ana", "bakery"), ("ana", "strange \0\ud800 東京"), ("ben", "bakery")):
        session = memory.session(key, owner=owner)
        await talk(session, clock, 1, 120 if owner == "ana" and key == "bakery" else 16)
    session = memory.session("bakery", owner="ana")
    notes = await session.notes()
    await session.history.edit(notes[-1].id, f"{notes[-1].text}\nchecked by hand", by="ana")
    await session.pin((await session.messages())[3].id)
    await session.history.compact(5, "So far: bread.")
    said = await session.messages(archived=True)
    history = [{"role": m.role, "content": m.text, "id": m.id} for m in said[:-2] if m.name != "summary"]
    await session.prepare([*history, {"role": "user", "content": "No: the other loaf.", "id": "again"}])
    await memory.items.save("Ana bakes rye bread every Friday morning", owner="ana")
    await session.end()
    await memory.calibrate(await session.context(), input_tokens=900)


@pytest.fixture(scope="module")
async def made(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> Path:
    """A store that has lived, and its export."""
    clock = FrozenClock()
    folder = tmp_path_factory.mktemp("made")
    async with onlooker.open_memory(
        folder / "agent.db", settings=SETTINGS, model=clerk(), extractors=[Order, Preference], clock=clock
    ) as memory:
        await lived(memory, clock)
        rows = await memory.storage.export(folder / "export.jsonl")
        assert rows > 100
    return folder


@pytest.fixture
def file(made: Path, tmp_path: Path) -> Path:
    """The export, with the store beside it: copies of a test's own."""
    for name in ("agent.db", "export.jsonl"):
        shutil.copy(made / name, tmp_path)
    return tmp_path / "export.jsonl"


def data(file: Path) -> bytes:
    return file.read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def kinds(file: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in file.read_bytes().splitlines():
        kind = json.loads(line)["kind"]
        found[kind] = found.get(kind, 0) + 1
    return found


async def test_an_export_holds_something_of_every_kind(file: Path) -> None:
    assert set(kinds(file)) == {
        "onlooker", "session", "message", "note", "extraction", "version", "change", "item", "usage", "value",
        "end",
    }  # fmt: skip
    lines = [json.loads(line) for line in data(file).splitlines()]
    assert {line["status"] for line in lines if line["kind"] == "note"} >= {"active", "superseded"}
    assert {line["place"] for line in lines if line["kind"] == "message"} >= {"live", "compacted", "retired"}
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


@pytest.mark.parametrize("through", [["memory"], ["file"], ["memory", "file"], ["file", "memory", "file"]])
async def test_it_comes_back_byte_for_byte_through_any_store(
    file: Path, tmp_path: Path, through: list[str]
) -> None:
    before = file
    for number, kind in enumerate(through):
        url: Any = ":memory:" if kind == "memory" else tmp_path / f"{number}.db"
        # Otherwise the background would go on with what was imported, and pay for calls.
        async with onlooker.open_memory(url, settings=SETTINGS, workers="external") as memory:
            counts = await memory.storage.import_file(before, all_owners=True)
            assert counts == {k: n for k, n in kinds(file).items() if k not in ("onlooker", "end")}
            after = tmp_path / f"{number}.jsonl"
            await memory.storage.export(after)
            before = after
    assert data(before) == data(file)


async def test_what_was_imported_goes_on_as_if_nothing_had_happened(file: Path, tmp_path: Path) -> None:
    clock = FrozenClock()
    clock.advance(10 * 86_400)
    async with onlooker.open_memory(tmp_path / "agent.db", settings=SETTINGS, clock=clock) as first:
        before = await first.session("bakery", owner="ana").context(system="You are helpful.")
        found = await first.search("rye", owner="ana", limit=5)
    async with onlooker.open_memory(":memory:", settings=SETTINGS, clock=clock) as second:
        await second.storage.import_file(file, all_owners=True)
        session = second.session("bakery", owner="ana")
        assert (await session.context(system="You are helpful.")).openai() == before.openai()
        assert [h.id for h in await second.search("rye", owner="ana", limit=5)] == [h.id for h in found]
        reached = max(n.last for n in await session.notes())
        await talk(session, clock, 201, 230)
        assert max(n.last for n in await session.notes()) > reached


async def test_an_owner_or_a_session_is_exported_alone(file: Path, tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "agent.db", settings=SETTINGS) as memory:
        await memory.storage.export(tmp_path / "ana.jsonl", owner="ana")
        await memory.storage.export(tmp_path / "one.jsonl", owner="ben", session="bakery")
    assert b'"ben"' not in (tmp_path / "ana.jsonl").read_bytes()
    assert b'"ana"' not in (tmp_path / "one.jsonl").read_bytes()
    async with onlooker.open_memory(":memory:", settings=SETTINGS) as other:
        await other.storage.import_file(tmp_path / "one.jsonl", all_owners=True)
        assert [s.progress.session for s in await other.sessions()] == [SessionId("ben", "bakery")]
        await other.storage.import_file(tmp_path / "ana.jsonl", all_owners=True)
        await other.storage.export(tmp_path / "ana2.jsonl", owner="ana")
    assert (tmp_path / "ana2.jsonl").read_bytes() == (tmp_path / "ana.jsonl").read_bytes()


async def test_a_session_that_is_there_is_kept_unless_it_is_to_be_replaced(
    file: Path, tmp_path: Path
) -> None:
    async with onlooker.open_memory(
        tmp_path / "agent.db", settings=SETTINGS, model=ScriptedModel()
    ) as memory:
        await memory.session("bakery", owner="ana").record(onlooker.user("one more thing", id="more"))
        with pytest.raises(ConflictError, match="exists already"):
            await memory.storage.import_file(file, all_owners=True)
        assert (await memory.session("bakery", owner="ana").messages())[-1].id == "more"
        await memory.storage.import_file(file, replace=True, all_owners=True)
        assert (await memory.session("bakery", owner="ana").messages())[-1].id == "again"
        paid = [json.loads(line)["cost"] for line in data(file).splitlines() if b'"kind":"usage"' in line]
        assert await memory.store.spent() == pytest.approx(sum(paid))  # and not twice


def cut_off(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def one_line_less(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)
    return b"".join(lines[:20] + lines[21:])


def one_word_changed(whole: bytes) -> bytes:
    return whole.replace(b"harbour", b"hXrbour", 1)


def garbage_inside(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)
    return b"".join([*lines[:9], b"{not json\n", *lines[10:]])


def of_the_future(whole: bytes) -> bytes:
    return whole.replace(b'"format":1', b'"format":2', 1)


def another_file(whole: bytes) -> bytes:
    return b'{"role": "user", "content": "hi"}\n'


def nothing(whole: bytes) -> bytes:
    return b""


def one_line_more(whole: bytes) -> bytes:
    return whole + b'{"kind":"value"}\n'


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (cut_off, "line|incomplete"),
        (one_line_less, "changed or is damaged"),
        (one_word_changed, "changed or is damaged"),
        (garbage_inside, "line 10"),
        (of_the_future, "newer version"),
        (another_file, "not an Onlooker export"),
        (nothing, "incomplete"),
        (one_line_more, "there is more"),
    ],
)
async def test_a_file_that_is_not_whole_is_refused_before_anything_is_taken_in(
    file: Path, tmp_path: Path, damage: Callable[[bytes], bytes], says: str
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(damage(data(file)))
    async with onlooker.open_memory(":memory:") as memory:
        with pytest.raises(onlooker.StoreError, match=says):
            await memory.storage.import_file(bad, all_owners=True)
        assert await memory.sessions() == []
        with pytest.raises(onlooker.StoreError, match="cannot be read"):
            await memory.storage.import_file(tmp_path / "nowhere.jsonl", all_owners=True)


async def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "export.jsonl"
    target.write_text("mine")
    async with onlooker.open_memory(":memory:") as memory:
        with pytest.raises(onlooker.StoreError, match="exists already"):
            await memory.storage.export(target)
        with pytest.raises(onlooker.StoreError, match="cannot be written"):
            await memory.storage.export(target / "in a file" / "export.jsonl")
        assert names(tmp_path) == ["export.jsonl"]
        await memory.storage.export(tmp_path / "new" / "folder" / "export.jsonl")
    assert target.read_text() == "mine"
    assert names(tmp_path / "new" / "folder") == ["export.jsonl"]


@pytest.mark.long
async def test_memory_stays_bounded_however_long_the_session(tmp_path: Path) -> None:
    async with onlooker.open_memory(tmp_path / "a.db", settings=onlooker.Settings(enabled=False)) as memory:
        session = memory.session("long")
        for start in range(0, 10_000, 1000):
            text = "x" * 1000
            await session.record([onlooker.user(text, id=f"m{n}") for n in range(start, start + 1000)])
        tracemalloc.start()
        await memory.storage.export(tmp_path / "long.jsonl")
        exporting = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        async with onlooker.open_memory(tmp_path / "b.db") as other:
            await other.storage.import_file(tmp_path / "long.jsonl", all_owners=True)
            importing = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    size = (tmp_path / "long.jsonl").stat().st_size
    assert size > 10_000_000
    assert exporting < size / 3
    assert importing < size / 3
