"""One owner's folder on the disk: reading, writing whole files, keeping copies. Nothing waits here.

What is written takes the place of a file in one step, and only of the file that was read: where a person
saved it meanwhile, theirs stays. Everything is readable by its owner alone, and links are not followed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from onlooker.domain.errors import StoreError
from onlooker.policy.files.names import (
    ARCHIVE,
    DAILY,
    KEPT,
    MEMORY_FILE,
    day_file,
    day_of,
    digest_of,
    folder_name,
)
from onlooker.policy.files.sidecar import Sidecar, read_sidecar

SIDECAR = ".onlooker.json"
# Held while files are written, and while daily notes are consolidated, which may take a model's time.
WRITING, CONSOLIDATING = ".writing.lock", ".consolidating.lock"

_NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_LINKS
_MOST_NUMBER = 10_000


class Busy(StoreError):
    """Another process writes these files now."""


class Folder:
    """The files of one owner."""

    def __init__(self, root: Path, owner: str) -> None:
        self.owner = owner
        self.path = root / folder_name(owner)
        self.memory = self.path / MEMORY_FILE
        self.daily = self.path / DAILY
        self.archive = self.path / ARCHIVE
        self.kept = self.path / KEPT

    def day(self, name: str) -> Path:
        return self.daily / name

    # -- what we know of them

    def sidecar(self) -> Sidecar:
        data = read(self.path / SIDECAR)
        found = read_sidecar(data.decode("utf-8", "replace")) if data else None
        return found if found and found.owner == self.owner else Sidecar(self.owner)

    def write_sidecar(self, sidecar: Sidecar) -> None:
        write(self.path / SIDECAR, sidecar.to_json().encode())

    # -- listing

    def days(self) -> list[Path]:
        """Daily files that were not consolidated yet, oldest first."""
        return _days_in(self.daily)

    def archived(self) -> list[Path]:
        return _days_in(self.archive)

    def seen(self) -> tuple[int, int, int] | None:
        """What tells one version of MEMORY.md from another without reading it."""
        try:
            found = self.memory.lstat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def seen_as_written(self) -> tuple[int, int, int] | None:
        """The same of the version that we wrote; None where a person has saved another since."""
        seen = self.seen()
        return seen if digest_of(read(self.memory) or b"") == self.sidecar().memory.digest else None

    # -- moving

    def keep_copy(self, path: Path, now: datetime) -> Path | None:
        """Copy a file to where nothing touches it any more; None where there is none."""
        data = read(path)
        return None if data is None else self.keep(data, path, now)

    def keep(self, data: bytes, path: Path, now: datetime) -> Path:
        """Write a copy of what a file said."""
        for number in range(1, _MOST_NUMBER):
            tail = f"-{number}" if number > 1 else ""
            target = self.kept / f"{path.stem}-{now:%Y%m%dT%H%M%S}{tail}{path.suffix}"
            if not target.exists():
                write(target, data)
                return target
        raise StoreError(f"{self.kept}: too many copies; look at them, and delete what you do not need")

    def put_away(self, path: Path, data: bytes) -> Path | None:
        """Move a daily file to the archive as it was read; None where a person changed it since."""
        _make(self.archive)
        stem, number = path.stem, 1
        target = self.archive / path.name
        while target.exists():
            number += 1
            target = self.archive / f"{stem}-{number}{path.suffix}"
        if read(path) != data:
            return None
        os.rename(path, target)
        if target.read_bytes() == data:
            return target
        # Saved in the very moment: back with it, unless there is a new one.
        if not path.exists():
            os.rename(target, path)
        return None

    def remove(self) -> None:
        """Delete everything of this owner."""
        if self.path.is_symlink():
            raise OSError(f"{self.path} is a link")
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def drop_copies(self) -> None:
        """Delete copies, and what a process that was killed left half written."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.kept)
        for folder in (self.path, self.daily, self.archive):
            for left in (*folder.glob(".*.part"), *folder.glob(".*.before")):
                left.unlink(missing_ok=True)


def owners_in(root: Path) -> Iterator[str]:
    """The owners whose folders are there, as their own files say."""
    for path in sorted(root.glob(f"*/{SIDECAR}")):
        data = read(path)
        found = read_sidecar(data.decode("utf-8", "replace")) if data else None
        if found and path.parent.name == folder_name(found.owner):
            yield found.owner


def _days_in(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("*.md") if day_of(path.name) and not path.is_symlink()]
    return sorted(found, key=lambda path: path.name)


# ------------------------------------------------------------------------------------ whole files


def read(path: Path) -> bytes | None:
    """The file's content; None where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | _NO_LINKS)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read()


def write(path: Path, data: bytes) -> None:
    """Write the whole file, or leave the one that is there."""
    part = _part(path, data)
    try:
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def swap(path: Path, data: bytes, expected: bytes | None) -> bool:
    """Write the file in the place of the one that was read; False where it is another by now, which stays."""
    if read(path) != expected:
        return False
    part = _part(path, data)
    try:
        return _create(part, path) if expected is None else _replace(part, path, expected)
    finally:
        part.unlink(missing_ok=True)


def _create(part: Path, path: Path) -> bool:
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError:  # no links on this file system
        if path.exists():
            return False
        os.replace(part, path)
    return True


def _replace(part: Path, path: Path, expected: bytes) -> bool:
    """A second name for the file that is replaced tells whether it was saved in the very moment."""
    before = before_of(path)
    before.unlink(missing_ok=True)
    try:
        os.link(path, before, follow_symlinks=False)
    except OSError:  # no links on this file system, or the file was deleted meanwhile
        if read(path) not in (expected, None):
            return False
        os.replace(part, path)
        return True
    os.replace(part, path)
    if before.read_bytes() == expected:
        before.unlink()
        return True
    os.replace(before, path)
    return False


def before_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.before")


def _part(path: Path, data: bytes) -> Path:
    _make(path.parent)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, _NEW, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return part


def _make(folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        # Not with `parents=True`, which gives those the usual permissions.
        path.mkdir(mode=0o700, exist_ok=True)


# ------------------------------------------------------------------------------------ one at a time


class Lock:
    """Held by one task of one process at a time; a process that ends lets go of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def take(self) -> bool:
        """False while another has it."""
        _make(self._path.parent)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | _NO_LINKS, 0o600)
        try:
            _lock(handle)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def free(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def day_path(folder: Folder, at: datetime) -> Path:
    """The daily file of a moment, whose time zone says which day it is."""
    return folder.day(day_file(at.date()))
