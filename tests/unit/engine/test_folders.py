"""Files on the disk: written whole, readable by their owner alone, and never over what a person saved."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onlooker.atomic import read, swap, write
from onlooker.files import folder as folders
from onlooker.files.folder import Folder, Lock, owners_in
from onlooker.files.sidecar import Sidecar

NOW = datetime(2026, 2, 16, 12, tzinfo=UTC)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "made" / "notes", "../ana")


def interrupt(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Do something right before the first call of a function of the system."""
    original = getattr(os, name)
    left = [act]

    def first(*args: object, **options: object) -> object:
        if left:
            left.pop()()
        return original(*args, **options)

    monkeypatch.setattr(folders.os, name, first)


def test_everything_is_readable_by_its_owner_alone(folder: Folder) -> None:
    assert swap(folder.memory, b"words", None)
    folder.write_sidecar(Sidecar("../ana"))
    write(folder.day("2026-02-16.md"), b"words")
    for path in (folder.path, folder.path.parent, folder.daily):
        assert mode(path) == 0o700
    for path in (folder.memory, folder.day("2026-02-16.md"), folder.path / ".onlooker.json"):
        assert mode(path) == 0o600
    assert [p.name for p in folder.path.iterdir() if p.name.endswith((".part", ".before"))] == []


def test_a_file_that_was_saved_meanwhile_stays(folder: Folder) -> None:
    write(folder.memory, b"theirs")
    assert not swap(folder.memory, b"ours", b"as we read it")
    assert read(folder.memory) == b"theirs"
    assert not swap(folder.memory, b"ours", None)
    assert read(folder.memory) == b"theirs"
    assert swap(folder.memory, b"ours", b"theirs")
    assert read(folder.memory) == b"ours"


@pytest.mark.parametrize("moment", ["link", "replace"])
def test_a_file_that_is_saved_in_the_very_moment_stays(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write(folder.memory, b"before")
    interrupt(monkeypatch, moment, lambda: folder.memory.write_bytes(b"their words"))
    assert not swap(folder.memory, b"ours", b"before")
    assert read(folder.memory) == b"their words"


def test_a_file_that_is_made_in_the_very_moment_stays(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, "link", lambda: folder.memory.write_bytes(b"their words"))
    assert not swap(folder.memory, b"ours", None)
    assert read(folder.memory) == b"their words"


def test_where_there_are_no_links_files_are_written_all_the_same(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(folders.os, "link", no_links)
    assert swap(folder.memory, b"one", None)
    assert swap(folder.memory, b"two", b"one")
    assert read(folder.memory) == b"two"
    assert not swap(folder.memory, b"three", b"one")


def test_a_link_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("not ours")
    folder.path.mkdir(parents=True)
    folder.memory.symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic"):
        swap(folder.memory, b"ours", b"not ours")
    assert elsewhere.read_text() == "not ours"


def test_a_day_goes_to_the_archive_as_it_was_read(folder: Folder) -> None:
    day = folder.day("2026-02-16.md")
    write(day, b"one")
    assert folder.put_away(day, b"something else") is None
    first = folder.put_away(day, b"one")
    write(day, b"two")
    second = folder.put_away(day, b"two")
    assert first is not None
    assert second is not None
    assert (first.name, second.name) == ("2026-02-16.md", "2026-02-16-2.md")
    assert (first.read_bytes(), second.read_bytes()) == (b"one", b"two")
    assert folder.days() == []
    assert folder.archived() == [second, first] or folder.archived() == [first, second]


def test_a_day_that_is_saved_in_the_very_moment_comes_back(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = folder.day("2026-02-16.md")
    write(day, b"one")
    interrupt(monkeypatch, "rename", lambda: day.write_bytes(b"one, and more"))
    assert folder.put_away(day, b"one") is None
    assert day.read_bytes() == b"one, and more"
    assert folder.archived() == []


def test_copies_do_not_take_each_others_place(folder: Folder) -> None:
    write(folder.memory, b"one")
    one = folder.keep_copy(folder.memory, NOW)
    write(folder.memory, b"two")
    two = folder.keep_copy(folder.memory, NOW)
    assert one is not None
    assert two is not None
    assert (one.read_bytes(), two.read_bytes()) == (b"one", b"two")
    assert folder.keep_copy(folder.day("2026-01-01.md"), NOW) is None


def test_a_lock_is_held_by_one_at_a_time(folder: Folder) -> None:
    first, second = (Lock(folder.path / ".writing.lock") for _ in range(2))
    assert first.take()
    assert not second.take()
    first.free()
    assert second.take()
    second.free()


def test_owners_are_those_whose_folder_is_theirs(folder: Folder) -> None:
    folder.write_sidecar(Sidecar("../ana"))
    forged = folder.path.parent / "ben"
    forged.mkdir()
    (forged / ".onlooker.json").write_text(Sidecar("ben").to_json())
    assert list(owners_in(folder.path.parent)) == ["../ana"]
    (folder.path / ".onlooker.json").write_text("{")
    assert list(owners_in(folder.path.parent)) == []
    assert folder.sidecar() == Sidecar("../ana")
