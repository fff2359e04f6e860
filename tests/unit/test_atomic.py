"""Files on the disk: written completely or not at all, and never over what someone else saved."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from onlooker.atomic import NewFile, read, swap, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def interrupt(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Do something right before the first call of a function of the system."""
    original = getattr(os, name)
    left = [act]

    def first(*args: object, **options: object) -> object:
        if left:
            left.pop()()
        return original(*args, **options)

    monkeypatch.setattr(os, name, first)


def test_a_file_that_was_saved_meanwhile_stays(file: Path) -> None:
    write(file, b"theirs")
    assert not swap(file, b"ours", b"as we read it")
    assert read(file) == b"theirs"
    assert not swap(file, b"ours", None)
    assert read(file) == b"theirs"
    assert swap(file, b"ours", b"theirs")
    assert read(file) == b"ours"


@pytest.mark.parametrize("moment", ["link", "replace"])
def test_a_file_that_is_saved_in_the_very_moment_stays(
    file: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write(file, b"before")
    interrupt(monkeypatch, moment, lambda: file.write_bytes(b"their words"))
    assert not swap(file, b"ours", b"before")
    assert read(file) == b"their words"


def test_a_file_that_is_made_in_the_very_moment_stays(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, "link", lambda: file.write_bytes(b"their words"))
    assert not swap(file, b"ours", None)
    assert read(file) == b"their words"


def test_where_there_are_no_links_files_are_written_all_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", no_links)
    assert swap(file, b"one", None)
    assert swap(file, b"two", b"one")
    assert read(file) == b"two"
    assert not swap(file, b"three", b"one")


def test_a_link_is_not_followed(tmp_path: Path, file: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("not ours")
    file.symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic"):
        swap(file, b"ours", b"not ours")
    assert elsewhere.read_text() == "not ours"


def test_a_file_takes_its_place_when_it_is_complete(file: Path) -> None:
    file.write_bytes(b"before")
    with NewFile(file) as new:
        new.append(b"one, ")
        new.append(b"two")
        assert file.read_bytes() == b"before"
        new.publish()
    assert file.read_bytes() == b"one, two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_fails_half_way_leaves_nothing(file: Path) -> None:
    def fail(new: NewFile) -> None:
        new.append(b"one, ")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"), NewFile(file) as new:
        fail(new)
    assert list(file.parent.iterdir()) == []


def test_a_new_file_does_not_replace_one_that_was_made_meanwhile(file: Path) -> None:
    with NewFile(file) as new:
        new.append(b"ours")
        file.write_bytes(b"theirs")
        with pytest.raises(FileExistsError):
            new.publish(replace=False)
    assert file.read_bytes() == b"theirs"
    assert list(file.parent.iterdir()) == [file]


def test_a_new_file_is_made_where_there_are_no_links(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", no_links)
    with NewFile(file) as new:
        new.append(b"ours")
        new.publish(replace=False)
    assert file.read_bytes() == b"ours"
    with NewFile(file) as new, pytest.raises(FileExistsError):
        new.publish(replace=False)


def test_of_two_who_write_the_same_file_the_first_gives_way(file: Path) -> None:
    with NewFile(file) as first:
        first.append(b"first")
        with NewFile(file) as second:
            second.append(b"second")
            with pytest.raises(OSError, match="another process"):
                first.publish()
            second.publish()
    assert file.read_bytes() == b"second"


def test_permissions_can_be_chosen(file: Path) -> None:
    write(file.parent / "made" / "file", b"words", mode=0o644)
    assert stat.S_IMODE((file.parent / "made" / "file").stat().st_mode) == 0o644
    assert stat.S_IMODE((file.parent / "made").stat().st_mode) == 0o700
