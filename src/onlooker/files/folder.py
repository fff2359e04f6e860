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

from onlooker.atomic import NO_LINKS, make_folder, read, write
from onlooker.domain.errors import StoreError
from onlooker.files.names import (
    ARCHIVE,
    DAILY,
    KEPT,
    MEMORY_FILE,
    day_file,
    day_of,
    digest_of,
    folder_name,
)
from onlooker.files.sidecar import Sidecar, read_sidecar

SIDECAR = ".onlooker.json"
# Held while files are written, and while daily notes are consolidated, which may take a model's time.
WRITING, CONSOLIDATING = ".writing.lock", ".consolidating.lock"

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
        make_folder(self.archive)
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


# ------------------------------------------------------------------------------------ one at a time


class Lock:
    """Held by one task of one process at a time; a process that ends lets go of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def take(self) -> bool:
        """False while another has it."""
        make_folder(self._path.parent)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o600)
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
