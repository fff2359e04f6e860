"""An owner's folder: its permissions, the archive, copies, the sidecar and the lock."""

from __future__ import annotations

import os
import stat
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from onlooker.atomic import swap, write
from onlooker.files.folder import Folder, Lock, Sidecar, day_of, folder_name, owners_in
from onlooker.files.markdown import Base, BaseLine, digest_of

DAY = date(2026, 2, 16)
NOW = datetime(2026, 2, 16, 12, tzinfo=UTC)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "made" / "notes", "../ana")


def test_everything_is_readable_by_its_owner_alone(folder: Folder) -> None:
    assert swap(folder.memory, b"words", None)
    folder.write_sidecar(Sidecar("../ana"))
    write(folder.day_file(DAY), b"words")
    for path in (folder.path, folder.path.parent, folder.daily):
        assert mode(path) == 0o700
    for path in (folder.memory, folder.day_file(DAY), folder.path / ".onlooker.json"):
        assert mode(path) == 0o600
    assert [p.name for p in folder.path.iterdir() if p.name.endswith((".part", ".before"))] == []


def test_a_day_goes_to_the_archive_as_it_was_read(folder: Folder) -> None:
    day = folder.day_file(DAY)
    write(day, b"one")
    assert folder.archive_day(day, b"something else") is None
    first = folder.archive_day(day, b"one")
    write(day, b"two")
    second = folder.archive_day(day, b"two")
    assert first is not None
    assert second is not None
    assert (first.name, second.name) == ("2026-02-16.md", "2026-02-16-2.md")
    assert (first.read_bytes(), second.read_bytes()) == (b"one", b"two")
    assert folder.days() == []
    assert folder.archived_days() == [second, first] or folder.archived_days() == [first, second]


def test_a_day_that_is_saved_in_the_very_moment_comes_back(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = folder.day_file(DAY)
    write(day, b"one")
    rename = os.rename

    def save_first(source: Path, target: Path) -> None:
        monkeypatch.undo()
        day.write_bytes(b"one, and more")
        rename(source, target)

    monkeypatch.setattr(os, "rename", save_first)
    assert folder.archive_day(day, b"one") is None
    assert day.read_bytes() == b"one, and more"
    assert folder.archived_days() == []


def test_copies_do_not_take_each_others_place(folder: Folder) -> None:
    write(folder.memory, b"one")
    one = folder.keep_copy(folder.memory, NOW)
    write(folder.memory, b"two")
    two = folder.keep_copy(folder.memory, NOW)
    assert one is not None
    assert two is not None
    assert (one.read_bytes(), two.read_bytes()) == (b"one", b"two")
    assert folder.keep_copy(folder.day_file(date(2026, 1, 1)), NOW) is None


def test_a_lock_is_held_by_one_at_a_time(folder: Folder) -> None:
    first, second = (Lock(folder.path / ".writing.lock") for _ in range(2))
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


def test_owners_are_those_whose_folder_is_theirs(folder: Folder) -> None:
    folder.write_sidecar(Sidecar("../ana"))
    forged = folder.path.parent / "ben"
    forged.mkdir()
    (forged / ".onlooker.json").write_text(Sidecar("ben").to_json())
    assert list(owners_in(folder.path.parent)) == ["../ana"]
    (folder.path / ".onlooker.json").write_text("{")
    assert list(owners_in(folder.path.parent)) == []
    assert folder.sidecar() == Sidecar("../ana")


# ------------------------------------------------------------------------------------ names and the sidecar


def test_no_owner_leaves_the_folder_or_shares_one() -> None:
    owners = [
        "../../etc",
        "a/b",
        "a\\b",
        "..",
        ".",
        "",
        "Ana",
        "ana",
        "ana ",
        "a\0b",
        "\ud800",
        "x" * 500,
        "con",
    ]
    names = [folder_name(owner) for owner in owners]
    assert len(set(names)) == len(owners)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") and len(name) < 90 for name in names)


def test_other_files_in_the_folder_are_no_days() -> None:
    assert day_of("2026-02-16.md")
    assert day_of("2026-02-16-2.md")
    assert not any(map(day_of, ("2026-02-30.md", "notes.md", "2026-02-16.md.part", "../2026-02-16.md")))


def test_a_sidecar_reads_back_as_it_was() -> None:
    version = Base("d", {"0123456789ab": BaseLine("itm_1", "profile", "e")})
    one = Sidecar("ana", "s", version, Base(), NOW)
    assert Sidecar.from_json(one.to_json()) == one
    assert all(Sidecar.from_json(text) is None for text in ("", "{", "[]", "{}", '{"owner": 1}', "null"))


def test_after_a_crash_in_the_middle_only_what_both_versions_have_is_missed() -> None:
    line = BaseLine("itm_1", "", "")
    old, new = Base("old", {"a": line, "b": line}), Base("new", {"b": line, "c": line})
    side = Sidecar("ana", "s", new, old)
    assert side.base("old") is old
    assert side.base("new") is new
    assert set(side.base("changed").lines) == {"b"}
    assert side.base(digest_of("x")).digest == ""
